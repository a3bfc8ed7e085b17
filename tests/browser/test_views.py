"""The table, the gradients, and why."""

import pytest

import anabranch as ab


def rows(seen):
    return [row.split("\t") for row in seen.page.locator("#table tbody tr").all_inner_texts()]


def test_the_table_is_the_equal_twin_of_the_picture(show, graphs):
    seen = show(graphs["story"], "view=table")
    table = rows(seen)
    assert next(row[1:6] for row in table) == ["x", "input", "f64", "2", "64"]
    assert table[0][6] == "16 through s + 48 through p"
    assert [row[6] for row in table][1:] == [
        "32 through p",
        "16 through s",
        "8 through z + 8 through z",
        "seed",
    ]
    assert [row[5] for row in table] == ["64", "32", "16", "16", "1"]


def test_the_table_sorts_searches_and_follows(show, graphs):
    seen = show(graphs["perceptron"], "view=table")
    seen.page.get_by_role("button", name="gradient", exact=True).click()
    seen.page.get_by_role("button", name="gradient ↑").click()
    assert seen.page.locator("th[aria-sort='descending']").inner_text().startswith("gradient")
    largest = graphs["perceptron"].table(sort="gradient").rows[0].name
    assert rows(seen)[0][1] == largest == "layer3.W"
    seen.page.get_by_role("button", name="gradient ↓").click()
    assert rows(seen)[0][5] == "∅"  # what has none comes before all others
    seen.press("/")
    seen.page.keyboard.type("layer2 op:input")
    assert [row[1] for row in rows(seen)] in (["layer2.W", "layer2.b"], ["layer2.b", "layer2.W"])
    assert "2 of" in seen.text(".tools")
    seen.page.keyboard.press("Escape")
    seen.page.locator("#table tbody tr").first.click()
    assert "layer2." in seen.text("#panel h2")
    seen.press("ArrowDown")
    assert "layer2." in seen.text("#panel h2")


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("value:nan", ["p", "#4", "#5", "#6", "loss"]),
        ("value:inf", ["e", "#2", "#4"]),
        ("#0", ["h"]),
        ("op:exp", ["e"]),
        ("shape:2x*", ["h", "e", "#2", "p", "#4"]),
        ("op:ex* grad:none", []),
        ("order:<2", ["h", "e"]),
        ("nothing", []),
    ],
)
def test_the_search_language(show, graphs, query, names):
    seen = show(graphs["overflow"], "view=table")
    seen.page.get_by_role("searchbox").fill(query)
    assert [row[1] for row in rows(seen)] == names


def test_columns_can_be_left_out(show, graphs):
    seen = show(graphs["story"], "view=table")
    assert "gain" not in seen.text("#table thead")  # empty, so not there from the start
    seen.page.get_by_text("Columns").click()
    seen.page.get_by_label("type").uncheck()
    assert "type" not in seen.text("#table thead")


def test_gradients_show_every_leaf_with_its_norm(show, graphs):
    seen = show(graphs["perceptron"], "view=gradients")
    text = seen.text("#gradients")
    assert all(f"layer{k}.{w}" in text for k in (1, 2, 3) for w in "Wb")
    assert "6 leaves, 337 elements" in text
    assert seen.page.locator("#gradients .meter").count() == 6
    assert seen.page.locator("#gradients .dot").count() > 12
    seen.page.get_by_role("button", name="layer2.W").click()
    assert seen.text("#panel h2") == "layer2.W"


def test_the_first_value_that_is_not_finite_opens_the_page(show, graphs):
    seen = show(graphs["overflow"])
    panel = seen.text("#panel")
    assert "First value that is infinite: e" in panel and "h[1, 0]" in panel and "812.3" in panel
    assert "It becomes NaN at" in panel and "Way out" in panel
    assert "e = exp(h)" in seen.text("#why .fault")
    seen.press("]")
    assert seen.text("#panel h2") != "First value that is infinite: e"
    seen.press("s", "End")
    assert seen.page.locator(".node .tag-bad").count() == 1
    assert "first ∞" in seen.node("e")


def test_why_a_gradient_is_what_it_is(show, graphs):
    seen = show(graphs["story"], "node=x")
    seen.press("w")
    assert [line.split("\n")[0] for line in seen.page.locator(".stepcard").all_inner_texts()] == [
        "z = s × s",
        "s = p + x",
        "p = x × y",
        "x input",
    ]
    assert seen.page.locator(".hop").all_inner_texts() == ["× 8 = 8", "× 1 = 16", "× 3 = 48"]
    assert "3 × 1 × (8 + 8) = 48" in seen.text("#panel")
    seen.page.locator(".stepcard").nth(1).click()
    assert "How the gradient came about: s" in seen.text("#panel")


def test_a_page_with_the_story_alone_has_its_table_too(show, graphs):
    from anabranch.inspection.to_html import STORY  # noqa: PLC0415

    seen = show(graphs["story"], views=STORY)
    assert seen.page.locator("#views button").all_inner_texts() == ["Story", "Table"]
    seen.press("t")
    assert rows(seen)[0][1] == "x"
    seen.press("w")
    assert seen.page.evaluate("document.body.dataset.view") == "table"
    assert seen.quiet()


def test_what_is_not_finite_has_its_colour_in_every_view(show, graphs):
    seen = show(graphs["overflow"], "view=table")
    bad = seen.page.locator("#table td.bad").all_inner_texts()
    assert bad.count("NaN") > 4 and "∞" in bad
    assert not {"NaN", "∞"} & set(seen.page.locator("#table td.v, #table td.g").all_inner_texts())
    seen.press("w")
    assert "NaN" in seen.page.locator(".stepcard b.bad").all_inner_texts()
    assert "exp is larger than float64 holds above 709.8" in seen.text("#panel")


def test_one_step_of_a_way_is_at_fault(show, graphs):
    seen = show(graphs["dead"], "view=why&node=w")
    assert seen.page.locator(".fault").count() == 1
    panel = seen.text("#panel")
    assert "Was every contribution added, and none overwritten? Yes" in panel
    assert "lets nothing through" in panel


def test_long_names_are_whole_among_the_gradients(show, graphs):
    trace = graphs["story"].trace.to_dict()
    trace["nodes"][0]["name"] = "encoder/block_0/attention/query_projection/weight"
    seen = show(trace, "view=gradients")
    button = seen.page.locator("#gradients th button").first
    assert button.evaluate("e => e.closest('th').scrollWidth <= e.closest('th').clientWidth")
    assert button.inner_text() == trace["nodes"][0]["name"]


def test_leaves_can_be_taken_together_by_scope(show, graphs):
    seen = show(graphs["perceptron"], "view=gradients")
    seen.page.get_by_label("by scope").check()
    rows = seen.page.locator("#gradients tbody tr").all_inner_texts()
    assert [row.split("\t")[:2] for row in rows] == [[f"layer{k}", "2 leaves"] for k in (1, 2, 3)]
    cells = rows[0].split("\t")
    report = graphs["perceptron"].grads(by="scope").rows[0]
    assert (float(cells[3]), cells[5]) == (float(f"{report.grad:.4g}"), f"{report.zero}/48")
    seen.page.get_by_label("by scope").uncheck()
    assert seen.page.locator("#gradients tbody tr").count() == 6
    assert show(graphs["story"], "view=gradients").page.get_by_label("by scope").count() == 0


def test_gradients_draw_the_last_steps(show, graphs):
    seen = show(graphs["steps"], "view=gradients")
    lines = seen.page.locator("#gradients .spark")
    assert lines.count() == 3
    told = "4 steps: from 16 to 2, at most 16"
    assert lines.first.get_attribute("aria-label") == told
    heights = lines.first.locator("path").evaluate(
        "p => p.getAttribute('d').match(/[ML][^h]+/g).map((s) => +s.split(' ')[1])"
    )
    assert heights[0] == 4 and heights[-1] == 22 and heights == sorted(heights)
    seen.page.get_by_label("by scope").check()
    assert "from 16 to 2.24" in lines.first.get_attribute("aria-label")
    assert show(graphs["story"], "view=gradients").page.locator("#gradients .spark").count() == 0
    assert seen.quiet()


def test_a_step_that_is_not_finite_has_a_mark_of_its_own(show, graphs):
    trace = graphs["steps"].trace.to_dict()
    trace["nodes"][0]["steps"] = [1, 1000, "nan", 10, "inf", 0]
    seen = show(trace, "view=gradients")
    line = seen.page.locator("#gradients .spark").first
    assert line.locator(".dot-bad").count() == 2
    d = line.locator("path").first.get_attribute("d")
    assert [part[0] for part in d.split("h0")[:-1]] == ["M", "L", "M", "M"]
    assert [float(part.split()[1]) for part in d.split("h0")[:-1]] == [22, 4, 16, 22]


def scoped():
    """Three blocks of many values each, so that the page starts with them closed."""
    h = ab.tensor([0.1, 0.2], requires_grad=True, name="model.input")
    for k in range(3):
        w = ab.tensor([1.5, 0.5], requires_grad=True, name=f"model.block{k}.w")
        with ab.scope(f"block{k}"):
            for _ in range(10):
                h = ab.tanh(h * w) + h
    return ab.inspect((h * h).sum())


def test_the_profile_names_scopes_and_tells_neighbours_apart(show):
    seen = show(scoped(), "view=gradients")
    profile = seen.page.locator(".profile")
    names = profile.locator("text.mid").all_text_contents()
    assert names == ["block0", "block1", "block2"]
    values = profile.locator("circle").evaluate_all("them => them.map((c) => c.classList[1] ?? '')")
    runs = [cls for k, cls in enumerate(values) if k == 0 or values[k - 1] != cls]
    assert len(runs) >= 3
    h = ab.tensor(1.0, requires_grad=True)
    for _ in range(5):
        h = h * 0.1
    profile = show(ab.inspect(h), "view=gradients").page.locator(".profile")
    ticks = [text for text in profile.locator("text.end").all_text_contents() if text != "result"]
    powers = [0 if t == "1" else int(t.removeprefix("1e").replace("−", "-")) for t in ticks]
    assert powers == [-5, -4, -3, -2, -1, 0]


def test_a_closed_scope_sends_one_row_to_each_value_outside(show):
    seen = show(scoped(), "frame=99")
    labels = seen.page.locator(".frame").evaluate_all("them => them.map((f) => f.ariaLabel)")
    turn = next(k for k, label in enumerate(labels) if label.endswith("backward block0"))
    seen = show(scoped(), f"frame={turn}")
    rows = seen.page.locator("#panel .sums").first.locator("th").all_inner_texts()
    assert sorted(rows) == ["model.block0.w", "model.input"]
    assert "10 ×" in seen.text("#panel .sums")


def test_small_pictures_have_the_end_of_a_long_path(show):
    seen = show(scoped())
    names = seen.page.locator(".frame span").all_inner_texts()
    assert names[:2] == ["…l.input", "…lock0.w"] and "block0" in names


def test_no_element_is_offered_of_what_is_not_there_yet(show, graphs):
    seen = show(graphs["elements"], "frame=0&node=p")
    assert seen.page.locator("#panel input").count() == 0
    seen.press("End")
    assert seen.page.locator("#panel input").count() == 1
