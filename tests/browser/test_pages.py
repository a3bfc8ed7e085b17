"""What holds for every page: silent, safe, readable at every size, whole without scripts."""

import re

import pytest

from anabranch.inspection import to_html

HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "'\"><svg onload=alert(2)>",
    "${alert(3)}`",
    "\u202eright to left\u202c",
    "מטריצה של משקלים",
    "x" * 300,
    "a\x00b\nc\ud800",
    "{0}{1}",
    "--><!--",
    "__proto__",
]


def hostile():
    nodes = [
        {
            "id": i,
            "op": name if i % 2 else "input",
            "name": name,
            "scope": 0,
            "shape": [],
            "dtype": name,
            "formula": name + " {0}" if i else "",
            "value": {"v": i},
            "at": [0, 1],
            "grad": {"v": 1},
        }
        for i, name in enumerate(HOSTILE)
    ]
    edges = [
        {"from": i - 1, "to": i, "slot": 0, "local": {"text": HOSTILE[i]}, "contribution": {"v": 1}}
        for i in range(1, len(nodes))
    ]
    return {
        "format": "anabranch-trace",
        "version": 1,
        "title": HOSTILE[0],
        "root": len(nodes) - 1,
        "seed": {"v": 1},
        "sources": [{"file": HOSTILE[0], "first": 1, "text": [HOSTILE[1]]}],
        "nodes": nodes,
        "edges": edges,
        "order": {
            "forward": list(range(len(nodes))),
            "backward": list(range(len(nodes) - 1, 0, -1)),
        },
        "findings": [
            {
                "kind": "first-nan",
                "node": 1,
                "about": 1,
                "text": HOSTILE[0],
                "proof": [{"label": HOSTILE[1], "v": "nan", "note": HOSTILE[2]}],
            }
        ],
    }


@pytest.mark.parametrize("view", ["story", "table", "gradients", "why"])
def test_hostile_names_run_nothing(show, view):
    seen = show(hostile(), f"view={view}&frame=3")
    seen.press("End", "]", "[")
    assert seen.quiet()
    # What the page draws itself has none of these; a name that became markup would.
    assert seen.page.locator("img, iframe, object, script:not([type])").count() == 0
    assert seen.page.evaluate(
        "[...document.querySelectorAll('*')].every(e => "
        "[...e.attributes].every(a => !a.name.startsWith('on')))"
    )


def test_hostile_names_run_nothing_without_scripts(show):
    seen = show(hostile(), java_script_enabled=False)
    assert seen.quiet()
    assert seen.page.locator("img").count() == 0


def broken(kind, chain):
    if kind == "long chain":
        return chain(5000)
    if kind == "one node":
        return chain(1) | {"seed": {"v": 1}}
    if kind == "read 1,000 times":
        made = chain(1001)
        for edge in made["edges"]:
            edge["from"] = 0
        return made
    made = chain(6)
    shape, value = {
        "all NaN": ([], {"v": "nan"}),
        "infinite": ([3], {"v": ["inf", "-inf", "nan"]}),
        "empty": ([0], {"n": 0}),
        "no rows": ([0, 4], {"v": []}),
        "huge": ([], {"v": 1.7e308}),
        "no value": ([2, 2], None),
        "all zero": ([2, 2], {"v": [[0, 0], [0, 0]]}),
        "summary": ([9, 9], {"n": 81, "nan": 81}),
        "big integer": ([], {"v": "12345678901234567890"}),
    }[kind]
    for node in made["nodes"]:
        node.update(shape=shape, value=value, grad=value)
        if value is None:
            del node["value"], node["grad"]
    for edge in made["edges"]:
        edge["contribution"] = value or {"n": 4}
    return made


KINDS = [
    "long chain",
    "one node",
    "read 1,000 times",
    "all NaN",
    "infinite",
    "empty",
    "no rows",
    "huge",
    "no value",
    "all zero",
    "summary",
    "big integer",
]


@pytest.mark.parametrize("kind", KINDS)
def test_broken_graphs_are_shown(show, graphs, kind):
    seen = show(broken(kind, graphs["chain"]))
    for key in ("End", "ArrowLeft", "ArrowLeft", "t", "g", "w", "s"):
        seen.press(key)
        assert seen.text("#panel h2")
    assert seen.page.locator(".node").count() <= 600
    assert seen.quiet()


def test_scopes_that_need_each_other_are_drawn(show, graphs):
    made = graphs["chain"](12)
    made["scopes"] = [{"id": i, "name": f"s{i}", "parent": 0 if i else None} for i in range(3)]
    for i, node in enumerate(made["nodes"]):
        node["scope"] = 1 + i % 2
    seen = show(made, "frame=99")
    assert seen.page.locator(".scope").count() == 2
    assert seen.quiet()


@pytest.mark.parametrize("width", [390, 900, 1360, 2560])
@pytest.mark.parametrize("graph", ["story", "perceptron", "overflow"])
def test_no_text_is_smaller_than_11_pixels(show, graphs, graph, width):
    seen = show(graphs[graph], "view=story&frame=99", width=width, height=844)
    smallest = """() => Math.min(...[...document.querySelectorAll('body *')].filter(e =>
        [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) && e.getClientRects().length
        && !e.closest('.sr, noscript, script, style, title')).map(e => {
          const m = e instanceof SVGElement && e.getScreenCTM ? e.getScreenCTM().a : 1;
          return parseFloat(getComputedStyle(e).fontSize) * m; }))"""
    for view in ("story", "table", "gradients", "why"):
        seen.press(view[0])
        assert seen.page.evaluate(smallest) >= 10.99, view


@pytest.mark.parametrize("width", [390, 900, 1360])
def test_nothing_hangs_over_the_edge_of_the_page(show, graphs, width):
    seen = show(graphs["story"], "frame=8", width=width, height=844)
    for view in ("story", "table", "gradients", "why"):
        seen.press(view[0])
        over = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert seen.page.evaluate(over) <= 0, view


def test_cards_and_chips_do_not_overlap(show, graphs):
    overlaps = """() => { const boxes = [...document.querySelectorAll('.node .card, .chip-box')]
        .map(e => e.getBoundingClientRect()); let n = 0;
        boxes.forEach((a, i) => boxes.slice(i + 1).forEach(b => { if (a.left < b.right - 1 &&
          b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1) n++; }));
        return n; }"""
    for width in (390, 1360):
        seen = show(graphs["story"], width=width, height=844)
        for _ in range(10):
            assert seen.page.evaluate(overlaps) == 0
            seen.press("ArrowRight")


def test_without_scripts_there_are_the_picture_and_the_table(show, graphs):
    seen = show(graphs["story"], java_script_enabled=False)
    assert seen.page.locator("noscript svg, body > svg[role=img]").count() >= 1
    text = seen.text("body")
    assert re.search(r"x\s+input\s+f64\s+2\s+64", text)
    assert not seen.page.locator("footer").is_visible()


def test_printing_leaves_out_the_controls(show, graphs):
    seen = show(graphs["story"], "frame=9")
    seen.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    seen.page.emulate_media(media="print")
    assert not seen.page.locator("footer").is_visible()
    assert not seen.page.locator("#views").is_visible()
    assert seen.page.locator("#panel").is_visible() and seen.page.locator("#table").is_visible()
    assert seen.page.locator("#stage svg").is_visible()


def test_reduced_motion_has_no_drops(show, graphs):
    calm = show(graphs["story"], "frame=6", reduced_motion="reduce")
    calm.press("ArrowRight")
    assert calm.page.locator(".drop").count() == 0
    lively = show(graphs["story"], "frame=6", reduced_motion="no-preference")
    lively.press("ArrowRight")
    assert lively.page.locator(".drop").count() == 2


def test_forced_colours_keep_borders(show, graphs):
    seen = show(graphs["story"], "frame=8", forced_colors="active")
    stroke = "getComputedStyle(document.querySelector('.node .card')).stroke"
    assert seen.page.evaluate(stroke) == "rgb(0, 0, 0)"
    assert seen.quiet()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "It reads version 1 of anabranch-trace; this is version 2"),
        ({"format": "other"}, "This page cannot read this trace."),
    ],
)
def test_a_trace_that_the_page_cannot_read(show, graphs, change, words):
    page = to_html.page(graphs["story"].trace.to_dict())
    for key, value in change.items():
        old = f'"{key}":' + ('"anabranch-trace"' if key == "format" else "1")
        page = page.replace(old, f'"{key}":' + (f'"{value}"' if key == "format" else str(value)), 1)
    seen = show(page)
    assert words in seen.text("main")


def test_a_trace_without_a_backward_pass(show):
    import anabranch as ab  # noqa: PLC0415

    x = ab.tensor(2.0, requires_grad=True, name="x")
    seen = show(ab.inspect(x * x, backward=False), "frame=9")
    said = seen.page.locator("#panel > p").all_inner_texts()  # not the source, which is this file
    assert said[-1] == "Backward has not run, so there are no gradients."
    assert seen.page.locator(".frame").count() == 2
    seen.press("g")
    assert "Backward has not run" in seen.text("#gradients")


def test_a_trace_without_values(show):
    import anabranch as ab  # noqa: PLC0415

    x = ab.tensor([[2.0, 1.0]], requires_grad=True, name="x")
    seen = show(ab.inspect((x * x).sum(), detail="shape"), "frame=99")
    assert "not kept" in seen.node("x")
    assert "f64[1,2]" in seen.text("#stage")
    assert seen.quiet()


def test_big_data_travels_packed(show, graphs):
    made = graphs["chain"](8000)
    page = to_html.page(made)
    assert ' data-packed="deflate"' in page and len(page) < 1_500_000
    seen = show(page, "frame=7999")
    assert seen.text("#panel h2") == "n7999 = -n7998"
    assert seen.quiet()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_page_works_in_a_frame_of_a_notebook(show, graphs, theme):
    import html  # noqa: PLC0415

    inner = html.escape(to_html.page(graphs["story"].trace.to_dict()))
    outer = f'<iframe sandbox="allow-scripts" srcdoc="{inner}"></iframe>'
    seen = show(outer, color_scheme=theme)
    frame = seen.page.frame_locator("iframe")
    frame.locator("#next").click()
    assert frame.locator("#panel h2").inner_text() == "y is an input"
    assert seen.said == []
