"""The worked expression z = (x*y + x)² at (2, 3), frame by frame, as a person sees it."""

import re

import pytest


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
