"""Everyone: axe-core, contrast, focus, keys."""

import os
from pathlib import Path

import pytest

from anabranch.inspection.theme import TOKENS

VIEWS = ("story", "table", "gradients", "why")
# What is text, and what it may stand on.
PAIRS = {
    "ink": ("bg", "card", "soft", "v-tint", "g-tint"),
    "mute": ("bg", "card", "soft"),
    "v": ("bg", "card"),
    "g": ("bg", "card", "g-tint"),
    "ok": ("bg", "card"),
    "bad": ("bg", "card"),
}


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(k * c for k, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("side", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), [(t, g) for t, gs in PAIRS.items() for g in gs])
def test_text_stands_out_from_its_ground(text, ground, side):
    assert contrast(TOKENS[text][side], TOKENS[ground][side]) >= 4.5


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_takes_the_colours_of_the_tokens(show, graphs, theme):
    seen = show(graphs["story"], color_scheme=theme)
    found = seen.page.evaluate(
        """names => names.map(name => { const d = document.createElement('i');
        d.style.color = `var(--${name})`; document.body.append(d);
        return getComputedStyle(d).color.match(/\\d+/g).slice(0, 3).map(Number); })""",
        list(TOKENS),
    )
    side = theme == "dark"
    want = [[int(pair[side][i : i + 2], 16) for i in (1, 3, 5)] for pair in TOKENS.values()]
    assert found == want


@pytest.fixture(scope="session")
def axe():
    path = os.environ.get("ANABRANCH_AXE", "")
    if not Path(path).is_file():
        if os.environ.get("ANABRANCH_BROWSER") == "required":
            pytest.fail("ANABRANCH_AXE names no file")
        pytest.skip("no axe-core: see Tests in CONTRIBUTING.md")
    return Path(path).read_text(encoding="utf-8")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("graph", ["story", "perceptron", "overflow", "signs", "elements", "steps"])
def test_axe_finds_no_violation(show, graphs, axe, graph, view, theme):
    for width in (390, 1360):
        seen = show(
            graphs[graph],
            f"view={view}&frame=8",
            width=width,
            color_scheme=theme,
            reduced_motion="reduce",
            bypass_csp=True,
        )
        seen.page.evaluate(axe)
        result = seen.page.evaluate("axe.run({ resultTypes: ['violations'] })")
        found = [
            (v["id"], [(n["target"], n["failureSummary"]) for n in v["nodes"][:3]])
            for v in result["violations"]
        ]
        assert found == [], (graph, view, theme, width)
        assert len(result["passes"]) > 15


def test_axe_would_notice(show, graphs, axe):
    seen = show(graphs["story"], bypass_csp=True)
    seen.page.evaluate("document.getElementById('next').removeAttribute('aria-label')")
    seen.page.evaluate("document.getElementById('next').removeAttribute('title')")
    seen.page.evaluate("document.getElementById('title').style.color = '#ddd'")
    seen.page.evaluate(axe)
    found = {v["id"] for v in seen.page.evaluate("axe.run()")["violations"]}
    assert {"button-name", "color-contrast"} <= found


@pytest.mark.parametrize("view", VIEWS)
def test_tab_goes_everywhere_shows_where_and_is_never_trapped(show, graphs, view):
    seen = show(graphs["story"], f"view={view}")
    places = []
    for _ in range(60):
        seen.press("Tab")
        here = seen.page.evaluate("""() => {
            const e = document.activeElement, ring = e.querySelector('.ring, .room');
            const style = getComputedStyle;
            return [e.id || e.className.baseVal || e.className || e.tagName,
              style(e).outlineStyle !== 'none' || (ring && style(ring).stroke !== 'none')]; }""")
        if here[0] == "BODY":
            break
        places.append(here)
    else:
        pytest.fail(f"trapped: {places[-5:]}")
    assert all(shown for _, shown in places), places
    names = [name for name, _ in places]
    assert names[:2] == ["", ""] or "BUTTON" in names[0]
    if view == "story":
        assert sum("node" in name.split() for name in names) == 1  # the stage is one stop
        assert names.count("frame") == 1  # and so is the film
        assert names.index("panel") < names.index("first") if "first" in names else True


def test_arrows_go_through_the_nodes_and_enter_follows(show, graphs):
    seen = show(graphs["story"], "frame=8")
    seen.page.locator('.node[tabindex="0"]').focus()
    seen.press("ArrowDown", "ArrowDown")
    assert seen.page.evaluate("document.activeElement.getAttribute('aria-label')").startswith("p,")
    assert "How the gradient of p" in seen.text("#panel")
    seen.press("Enter")
    assert seen.page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"
    seen.press("Escape")
    assert "How the gradient of x" in seen.text("#panel")


def test_the_help_opens_and_closes_by_keys(show, graphs):
    seen = show(graphs["story"])
    seen.press("?")
    assert seen.page.get_by_role("dialog").is_visible()
    seen.press("Escape")
    assert not seen.page.get_by_role("dialog").is_visible()


def test_letters_do_nothing_inside_text(show, graphs):
    seen = show(graphs["story"], "view=table")
    seen.press("/")
    seen.page.keyboard.type("swd")
    assert seen.page.evaluate("document.body.dataset.view") == "table"
    assert seen.page.get_by_role("searchbox").input_value() == "swd"


def test_what_can_be_pressed_is_large_enough(show, graphs):
    seen = show(graphs["story"], "frame=8", width=390, height=844)
    small = """() => [...document.querySelectorAll('button, label, .node')].filter(e =>
        e.getClientRects().length && !e.closest('.sr, dialog')).map(e => e.getBoundingClientRect())
        .filter(r => r.width < 24 || r.height < 24).length"""
    assert seen.page.evaluate(small) == 0
