"""The worked expression z = (x*y + x)² at (2, 3), frame by frame, as a person sees it."""

import re

import pytest

from anabranch.inspection.frames import frames_of


def gradient(said):
    return re.search(r"(no gradient yet|gradient [\d.]+)", said)[0]


@pytest.mark.proves("S1-35", "S1-36", "S1-39")
def test_the_numbers_of_every_frame(show, graphs):
    seen = show(graphs["story"], width=1360)
    labels = seen.page.locator(".frame").evaluate_all("them => them.map(f => f.ariaLabel)")
    assert [label.partition(": ")[2] for label in labels] == [
        *(f"forward {name}" for name in "xypsz"),
        "seed seed",
        *(f"backward {name}" for name in "zsp"),
        "end result",
    ]
    assert seen.node("z").startswith("z, multiply, not computed yet")
    seen.press(*["ArrowRight"] * 4)
    assert seen.chips() == ["1", "1", "2", "3", "8", "8"]
    assert "value 64" in seen.node("z")
    told = []
    for _ in range(5):
        seen.press("ArrowRight")
        told.append((gradient(seen.node("x")), gradient(seen.node("y"))))
    assert told == [
        ("no gradient yet", "no gradient yet"),
        ("no gradient yet", "no gradient yet"),
        ("gradient 16", "no gradient yet"),
        ("gradient 64", "gradient 32"),
        ("gradient 64", "gradient 32"),
    ]
    assert seen.chips() == sorted(["1", "16", "1", "16", "2", "32", "3", "48", "8", "8", "8", "8"])
    assert seen.quiet()


@pytest.mark.proves("S1-36", "S1-40")
def test_contributions_arrive_and_are_added(show, graphs):
    seen = show(graphs["story"], "frame=8&node=x")
    assert "16 × 3 = 48" in seen.chips() and "16 × 2 = 32" in seen.chips()
    said = seen.page.locator("#live").text_content()
    assert "p passes its gradient on" in said
    assert "16 × 3 =  48 16 + 48 =  64" in said
    panel = seen.text("#panel")
    assert "through s" in panel and "16 × 1 = 16" in panel and "16 + 48 = 64" in panel
    assert "assigning would leave 48" in panel
    assert seen.node("x").endswith("2 of 2 contributions arrived")
    seen.press("ArrowLeft")
    assert seen.node("x").endswith("gradient 16, 1 of 2 contributions arrived")
    assert "so far" in seen.text("#panel")


@pytest.mark.proves("S1-37")
def test_assigning_instead_of_adding_is_replayed_and_struck_out(show, graphs):
    seen = show(graphs["story"], "frame=9&node=x")
    seen.page.get_by_label("assign instead of add").check()
    assert "gradient 24" in seen.node("x")  # 8, not 16, goes through s, and 8 of x is lost
    assert "24 is left, and 64 is right" in seen.text("#panel")
    assert seen.page.locator(".node .wrong").count() == 4
    seen.page.get_by_label("assign instead of add").uncheck()
    assert "gradient 64" in seen.node("x")


def test_each_contribution_can_have_a_frame_of_its_own(show, graphs):
    seen = show(graphs["story"], "each=1&frame=6")
    assert seen.page.locator(".frame").count() == 13
    assert seen.node("s").endswith("gradient 8, 1 of 2 contributions arrived")
    seen.press("ArrowRight")
    assert seen.node("s").endswith("gradient 16, 2 of 2 contributions arrived")


def test_the_whole_story_by_keys_alone(show, graphs):
    seen = show(graphs["story"])
    heads = [seen.text("#panel h2")]
    for _ in range(9):
        seen.press("ArrowRight")
        heads.append(seen.text("#panel h2"))
    assert heads == [
        "x is an input",
        "y is an input",
        "p = x × y",
        "s = p + x",
        "z = s × s",
        "Start at z",
        "z passes its gradient on",
        "s passes its gradient on",
        "p passes its gradient on",
        "All gradients are known",
    ]
    seen.press("ArrowRight")
    assert seen.text("#panel h2") == heads[-1]
    seen.press("Home")
    assert seen.text("#panel h2") == heads[0]
    seen.press("End")
    assert seen.text("#panel h2") == heads[-1]
    assert seen.page.evaluate("location.hash").startswith("#view=story&frame=9&node=0")


def test_a_link_opens_a_frame(show, graphs):
    seen = show(graphs["story"], "view=story&frame=8&node=p&theme=dark")
    assert seen.text("#panel h2") == "p passes its gradient on"
    assert "How the gradient of p" in seen.text("#panel")
    assert (
        seen.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(19, 23, 28)"
    )


def test_playing_goes_on_by_itself_and_stops_at_a_key(show, graphs):
    seen = show(graphs["story"], "frame=7")
    seen.page.clock.install()
    seen.press(" ")
    seen.page.clock.run_for(1750)
    assert seen.text("#panel h2") == "p passes its gradient on"
    seen.press("x")
    seen.page.clock.run_for(5000)
    assert seen.text("#panel h2") == "p passes its gradient on"


def test_the_result_shows_every_path_and_the_checks(show, graphs):
    trace = graphs["story"].trace.to_dict()
    trace["checks"] = [
        {"node": 0, "analytic": 64, "numeric": 64.0000000018, "ok": True},
        {"node": 1, "analytic": 32, "numeric": 31, "ok": False},
    ]
    seen = show(trace, "frame=9&node=x")
    panel = seen.text("#panel")
    assert "x → s → z" in panel and "1 × (8 + 8) = 16" in panel
    assert "x → p → s → z" in panel and "3 × 1 × (8 + 8) = 48" in panel
    assert "✓ same" in panel and "✗ differs" in panel


def test_negative_contributions_are_hatched_and_below_the_line(show, graphs):
    seen = show(graphs["signs"], "frame=99&node=a")
    river = seen.page.locator(".river")
    assert river.locator(".minus").count() == 1 and river.locator(".zero").count() == 1
    assert river.locator(".net").count() == 1
    assert "− 3" in seen.text("#panel") or "−3" in seen.text("#panel")


@pytest.mark.proves("S1-62")
def test_tensors_tell_the_same_story(show, graphs):
    seen = show(graphs["perceptron"], "frame=99")
    assert "All gradients are known" in seen.text("#panel")
    said = seen.node("layer1.W")
    assert re.match(r"layer1\.W, input, f64\[2,16\], value of norm [\d.]+, gradient of norm", said)
    assert seen.page.locator(".node .health").count() > 20
    seen.press("Home")
    assert seen.node("loss").startswith("loss, divide, not computed yet")
    assert seen.quiet()


def test_a_group_is_one_frame_until_it_is_opened(show, graphs):
    trace = graphs["chain"](100)
    trace["scopes"] = [
        {"id": 0, "name": "", "parent": None},
        {"id": 1, "name": "block", "parent": 0},
    ]
    for node in trace["nodes"][20:80]:
        node["scope"] = 1
    seen = show(trace, "frame=20")
    assert seen.page.locator("#scrub").get_attribute("max") == "82"  # 41 + 41 items, the result
    assert seen.text("#panel h2") == "block ran"
    seen.page.get_by_role("button", name="Open it").click()
    assert seen.page.locator("#scrub").get_attribute("max") == "200"
    assert seen.text("#panel h2") == "n20 = -n19"
    seen.page.locator('.scope[aria-expanded="true"]').press("Enter")
    assert seen.text("#panel h2") == "block ran"


def test_the_sum_of_a_river_is_the_largest_number_in_it(show, graphs):
    seen = show(graphs["story"], "frame=8&node=x")
    sizes = "them => them.map(t => parseFloat(getComputedStyle(t).fontSize))"
    assert seen.page.locator(".river-sum").evaluate_all(sizes) == [27]
    assert max(seen.page.locator(".river text:not(.river-sum)").evaluate_all(sizes)) <= 13


def test_every_output_has_a_row_and_a_river_of_its_own(show, graphs):
    seen = show(graphs["outputs"], "frame=99&node=1")
    said = seen.node("#1")
    assert said.startswith(
        "#1, linalg.slogdet, output 0, value 1, no gradient, output 1, value 1.6"
    )
    assert ", gradient 5.219, 3 of 3 contributions arrived" in said
    card = seen.page.locator('.node[aria-label^="#1,"]').text_content()
    assert "2 outputs" in card and "value 0" in card and "value 1" in card and "∅ none" in card
    panel = seen.text("#panel")
    assert "#1.0 comes together" in panel and "nothing is sent to it" in panel
    assert "1.609 + 1.609 + 2 = 5.219" in panel
    seen.press("ArrowLeft")
    assert "Its rule makes one gradient for each input" in seen.text("#panel")
    seen.press("ArrowLeft", "ArrowLeft")
    assert "gradient 3.219, 2 of 3 contributions arrived" in seen.node("#1")  # a sum on its way
    seen.press("End")
    seen.press("t")
    row = seen.page.locator("#table tbody tr").nth(1).inner_text().split("\t")
    assert row[4:6] == ["1 ; 1.609", "∅ ; 5.219"]


@pytest.mark.parametrize("width", [390, 1360])
def test_chips_stay_inside_the_picture(show, graphs, width):
    seen = show(graphs["signs"], "frame=99", width=width, height=844)
    outside = """() => { const all = document.querySelector('.view > svg').getBoundingClientRect();
        return [...document.querySelectorAll('.chip-box')].map(c => c.getBoundingClientRect())
          .filter(c => c.left < all.left || c.right > all.right).length; }"""
    assert seen.page.evaluate(outside) == 0


def test_a_long_graph_fills_the_pictures_of_its_film(show, graphs):
    seen = show(graphs["chain"](100), "frame=50")
    shares = """them => them.map(s => { const all = s.getBoundingClientRect();
        const nodes = [...s.querySelectorAll('.t-node')].map(n => n.getBoundingClientRect());
        return Math.max(...nodes.map(n => n.height)) / all.height; })"""
    assert min(seen.page.locator(".frame svg").evaluate_all(shares)) > 0.3


def test_the_source_is_shown_without_the_indent_of_its_block(show, graphs):
    seen = show(graphs["story"], "frame=2")
    assert seen.text(".ln.here").split("  ", 1)[1].startswith("p = x * y")


def test_a_link_to_the_seed_shows_the_group_that_holds_the_root(show, graphs):
    trace = graphs["chain"](100)
    trace["scopes"] = [{"id": 0, "name": "", "parent": None}, {"id": 1, "name": "s", "parent": 0}]
    for node in trace["nodes"][90:]:
        node["scope"] = 1
    seen = show(trace, "view=story&frame=91")
    assert seen.text("#panel h2") == "Start at n99"
    group, stage = seen.page.locator(".scope"), seen.page.locator("#stage").bounding_box()
    at = group.bounding_box()
    assert stage["x"] <= at["x"] and at["x"] + at["width"] <= stage["x"] + stage["width"]
    assert stage["y"] <= at["y"] and at["y"] + at["height"] <= stage["y"] + stage["height"]


def test_one_element_of_a_tensor_is_picked_by_keys(show, graphs):
    seen = show(graphs["elements"], "frame=99&node=x")
    panel = "#panel .join"
    assert "or press one below" in seen.text(panel) and "x[" not in seen.text(panel)
    field = seen.page.get_by_label("Element of x, counted from 0")
    field.focus()
    seen.press("1")
    text = seen.text(panel)
    # p = -1, s = p² + x = -1; along the ways of that element: 1 × p, w × s, w × 2p × p
    assert "How the gradient of x[0, 1] comes together" in text
    assert "Its value is −2." in text
    assert seen.page.locator(".river-sum").text_content() == "−0.5"
    assert "x → s → #5 → loss" in text and "1 × −1 × 1 = −1" in text
    assert "0.5 × −1 × 1 = −0.5" in text
    assert "0.5 × (−1 + −1) × 1 × −1 × 1 = 1" in text
    assert "−1 + 0.5 = −0.5." in text
    whole = show(graphs["elements"], "frame=99&node=w&at=1")
    arms = whole.page.locator("#panel .river .arm-n").all_text_contents()
    assert arms == ["62"] and "w → p\n62 = 62" in whole.text("#panel .paths")  # both rows of x
    seen.press("ArrowUp")
    assert "x[0, 2]" in seen.text(panel) and field.evaluate("e => e === document.activeElement")
    assert "at=2" in seen.page.url
    seen.press("End", "Home")  # keys of the field, not of the story
    assert "at=2" in seen.page.url
    field.fill("6")
    assert "x[" not in seen.text(panel) and seen.quiet()


def test_one_element_is_picked_by_a_press_and_forgotten_with_its_node(show, graphs):
    seen = show(graphs["elements"], "frame=99&node=p")
    strip = seen.page.locator("#panel .large svg").first
    box = strip.bounding_box()
    scale = box["width"] / 328
    seen.page.mouse.click(box["x"] + 0.9 * box["width"], box["y"] + 35 * scale)
    assert "p[1, 2]" in seen.text("#panel .join") and "−1 × −1 = 1" in seen.text("#panel .join")
    assert seen.page.locator("#panel .here").count() >= 2
    assert "at=5" in seen.page.url
    seen.page.locator('.node[aria-label^="s,"]').click()
    assert "[1, 2]" not in seen.text("#panel .join") and "at=" not in seen.page.url
    assert show(graphs["story"]).page.locator("#panel input").count() == 0


def test_an_element_waits_for_its_contributions_too(show, graphs):
    frames = frames_of(graphs["elements"].trace.to_dict())
    ran = next(k for k, frame in enumerate(frames) if frame.kind == "seed")
    seen = show(graphs["elements"], f"frame={ran}&node=p&at=4")
    arms = seen.page.locator("#panel .river .arm-n").all_text_contents()
    assert arms[0] == "? × 8" and seen.page.locator("#panel .river .arm.on").count() == 0
    seen.press("ArrowRight", "ArrowRight")
    arms = seen.page.locator("#panel .river .arm-n").all_text_contents()
    assert arms[0] == "1 × 8 = 8" and seen.page.locator(".river-sum").text_content() == "8"
    seen.press("ArrowRight", "ArrowRight")
    assert seen.page.locator(".river-sum").text_content() == "16"


def test_lines_start_at_the_row_of_their_output(show, graphs):
    seen = show(graphs["outputs"], "frame=0&dir=right")
    card = seen.page.locator('.node[aria-label^="#1,"]').get_attribute("transform")
    left, top = map(int, re.findall(r"-?\d+", card))
    starts = seen.page.locator(".edge").evaluate_all(
        "ps => ps.map((p) => p.getAttribute('d').match(/-?\\d+/g).slice(0, 2).map(Number))"
    )
    mine = [y - top for x, y in starts if x == left + 168]
    assert len(mine) == 3 and all(94 < y < 144 for y in mine)
