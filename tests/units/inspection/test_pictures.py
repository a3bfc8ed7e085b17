"""SVG, DOT, PNG: what is on them, that they stay the same, and that nothing hostile gets out."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

import anabranch as ab
from anabranch.inspection import to_png
from anabranch.inspection.theme import TOKENS
from anabranch.inspection.to_dot import dot
from anabranch.inspection.to_svg import strip, svg

SVG = "{http://www.w3.org/2000/svg}"


def words(picture):
    return [e.text for e in ET.fromstring(picture).iter(f"{SVG}text")]


def labels(picture):
    """What stands in chips: numbers in type of 14 points."""
    return [e.text for e in ET.fromstring(picture).iter(f"{SVG}text") if e.get("font-size") == "14"]


@pytest.mark.proves("S1-39", "S1-04")
def test_edges_carry_their_local_derivatives(story):
    assert sorted(labels(svg(story, frame=4))) == ["1", "1", "2", "3", "8", "8"]
    both = labels(svg(story))
    assert sorted(both[::2]) == ["1", "1", "2", "3", "8", "8"]  # then each contribution beside it
    assert sorted(both[1::2]) == ["16", "16", "32", "48", "8", "8"]


@pytest.mark.proves("S1-39", "S1-04")
def test_dot_has_every_edge_with_its_numbers(story):
    lines = dot(story).splitlines()
    edges = [line.strip() for line in lines if "->" in line]
    assert [re.search(r'"(\d+) ', line)[1] for line in edges] == ["3", "2", "1", "1", "8", "8"]
    assert sum(line.startswith("n0 ->") for line in edges) == 2  # x is used twice
    assert sum(line.startswith("n3 -> n4") for line in edges) == 2  # the square has two edges


@pytest.mark.proves("S1-04")
def test_two_lines_leave_x_and_two_enter_the_square(story):
    paths = [e.get("d") for e in ET.fromstring(svg(story)).iter(f"{SVG}path")]
    bands = [d for d in paths if "C" in d and paths.count(d) == 2]  # a band and its line
    starts = [d[: d.index("C")] for d in dict.fromkeys(bands)]
    assert len(starts) == 6
    assert sum(start.startswith("M168 ") and int(start.split()[1]) < 92 for start in starts) == 2
    assert sum(start.startswith("M768 ") for start in starts) == 2


def test_frames_show_what_is_known_then(story):
    first, middle, last = (svg(story, frame=k) for k in (0, 8, -1))
    assert "·" in words(first) and "64" not in words(first)
    assert {"16 × 3 = ", "48", "16 × 2 = ", "32"} <= set(words(middle))
    assert words(last).count("64") == 2
    assert svg(story, frame=9) == svg(story) == last


def test_a_bad_argument_is_refused_in_words(story):
    for scale in (0, -1, float("nan"), 1e9):
        with pytest.raises(ab.ArgumentError, match="scale"):
            to_png.png(svg(story), scale)
    for wrong in ({"frame": 10}, {"direction": "up"}, {"theme": "blue"}):
        with pytest.raises(ab.ArgumentError, match="bad-argument"):
            svg(story, **wrong)


def test_title_and_description_say_it_in_words(story):
    root = ET.fromstring(svg(story))
    assert root.find(f"{SVG}title").text == "z = (x·y + x)²"
    assert root.find(f"{SVG}desc").text.startswith("x = 2, gradient 64; y = 3, gradient 32; p = 6")
    assert root.get("role") == "img" and "max-width:100%" in root.get("style")


def test_dark_is_the_readers_choice_or_ours(story):
    auto, light, dark = (svg(story, theme=theme) for theme in ("auto", "light", "dark"))
    assert "prefers-color-scheme:dark" in auto and TOKENS["v"][0] in auto
    assert "<style>" not in light and "<style>" not in dark
    assert TOKENS["v"][1] in dark and TOKENS["v"][0] not in dark


def test_directions(story):
    def size(picture):
        root = ET.fromstring(picture)
        return int(root.get("width")), int(root.get("height"))

    assert size(svg(story, direction="right")) == size(svg(story)) == (1116, 304)
    assert size(svg(story, direction="down")) == (428, 656)


def test_scopes_open_to_the_depth_that_is_asked_for(story):
    story["scopes"] += [
        {"id": 1, "name": "outer", "parent": 0},
        {"id": 2, "name": "inner", "parent": 1},
    ]
    for i in (2, 3):
        story["nodes"][i]["scope"] = i - 1
    assert "2 nodes" in words(svg(story)) and "p" not in words(svg(story))
    two, three = svg(story, depth=2), svg(story, depth=3)
    assert "1 nodes" in words(two) and "p" in words(two) and "s" not in words(two)
    assert {"outer", "inner", "p", "s"} <= set(words(three))


def test_more_than_200_items_stay_closed(story):
    story["scopes"].append({"id": 1, "name": "crowd", "parent": 0})
    story["nodes"] += [
        {"id": 5 + i, "op": "input", "shape": [], "dtype": "float64", "scope": 1}
        for i in range(300)
    ]
    story["order"]["forward"] += list(range(5, 305))
    assert "300 nodes" in words(svg(story, depth=5))


def test_the_strip_has_every_frame_with_its_arithmetic(story):
    text = " ".join(words(strip(story)))
    assert "Forward 1 of 5: x is an input" in text and "Result: all gradients are known" in text
    assert "x: 16 × 3 = 48, 16 + 48 = 64; y: 16 × 2 = 32" in text
    assert len(re.findall(r"(Forward|Backward) \d of \d", text)) == 9
    root = ET.fromstring(strip(story, columns=1))
    assert int(root.get("width")) == 1116


@pytest.mark.slow
def test_a_long_strip_leaves_frames_out():
    n = 200
    nodes = [{"id": i, "op": "input", "shape": [], "dtype": "float64"} for i in range(n)]
    trace = {
        "nodes": nodes,
        "edges": [],
        "root": n - 1,
        "order": {"forward": list(range(n)), "backward": []},
    }
    found = [w for w in words(strip(trace)) if w.startswith("Forward")]
    assert len(found) == 41 and found[-1].startswith("Forward 200 of 20")


HOSTILE = ["</text><script>alert(1)</script>", '"><x y="', "a\x00\x08\ud800b", "\u202eabc", "&lt;"]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_text(story, name):
    story["title"] = name
    for node in story["nodes"]:
        node.update(name=name, dtype=name, formula=name)
    for edge in story["edges"]:
        edge["local"] = {"text": name}
    for picture in (svg(story), strip(story)):
        root = ET.fromstring(picture.encode())
        assert {e.tag.removeprefix(SVG) for e in root.iter()} <= {
            "svg",
            "title",
            "desc",
            "style",
            "g",
            "rect",
            "path",
            "circle",
            "text",
        }
        assert not any(a.startswith("on") for e in root.iter() for a in e.attrib)
    said = dot(story)
    assert said.count("\n") == len(story["nodes"]) + len(story["edges"]) + 3
    assert said.encode()


def test_a_name_with_quotes_and_backslashes_stays_one_string_of_dot(story):
    story["nodes"][0]["name"] = 'a"b\\'
    assert 'n0 [label="a\\"b\\\\\\nf64 input' in dot(story)


BROKEN = {
    "no value": {},
    "nan": {"value": {"v": "nan"}, "grad": {"v": "inf"}},
    "empty": {"shape": [0], "value": {"n": 0}, "grad": {"v": []}},
    "tensor": {
        "shape": [2, 2],
        "value": {"v": [[1, -1], ["nan", 0]]},
        "grad": {"v": [[0, 0], [0, 0]]},
    },
    "summary": {
        "shape": [9, 9],
        "grad": {"n": 81, "norm": 2, "zero": 4},
        "value": {"n": 81, "hist": {"lo": -1, "hi": 2, "bins": [3, 0, 78]}},
    },
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_values_are_drawn(story, kind):
    for node in story["nodes"]:
        node.pop("value", None)
        node.pop("grad", None)
        node.update(BROKEN[kind])
    story["findings"] = [{"kind": "first-nan", "node": 2}]
    assert ET.fromstring(svg(story)) is not None
    assert "first NaN" in words(svg(story))


def test_no_gradient_zero_and_not_yet_are_three_marks(story):
    del story["nodes"][1]["grad"], story["edges"][1]["contribution"]
    story["nodes"][0]["grad"] = {"v": 0}
    assert "∅ none" in words(svg(story)) and "0" in words(svg(story))
    assert 'stroke-dasharray="3 3"' in svg(story)  # a hollow cell for zero
    assert "∅ none" not in words(svg(story, frame=4)) and "·" in words(svg(story, frame=4))


PROGRAM = """
import hashlib, json, sys
from anabranch.inspection.to_dot import dot
from anabranch.inspection.to_html import page
from anabranch.inspection.to_svg import strip, svg
trace = json.load(sys.stdin)
down = svg(trace, direction="down", theme="dark")
for text in (svg(trace), down, strip(trace), dot(trace), page(trace)):
    print(hashlib.sha256(text.encode()).hexdigest())
"""


@pytest.mark.slow
def test_every_process_draws_the_same_bytes(random_graphs):
    import json  # noqa: PLC0415

    trace = next(t for t, _, _ in random_graphs(30) if len(t["nodes"]) > 40)
    trace = trace | {"format": "anabranch-trace", "version": 1}
    found = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            input=json.dumps(trace),
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout
        for seed in ("0", "1", "random")
    }
    assert len(found) == 1 and found.pop().count("\n") == 5


def test_png_is_the_picture_in_pixels(story):
    report = ab.inspect(lambda x, y: (x * y + x) ** 2, 2.0, 3.0)
    head = report.png(scale=1.0)[:24]
    assert head[1:4] == b"PNG"
    width, height = (int.from_bytes(head[i : i + 4]) for i in (16, 20))
    root = ET.fromstring(report.svg())
    assert (width, height) == (int(root.get("width")), int(root.get("height")))


def test_without_the_extra_the_error_names_it(monkeypatch, story):
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(ImportError, match=r"anabranch\[png\]") as caught:
        to_png.png(svg(story))
    assert isinstance(caught.value, ab.MissingExtraError)


@pytest.mark.proves("S1-62")
def test_a_network_is_drawn_by_the_same_cards():
    import numpy as np  # noqa: PLC0415

    rng = np.random.default_rng(0)
    w = ab.tensor(rng.normal(size=(3, 4)), requires_grad=True, name="w")
    x = ab.tensor(rng.normal(size=(100, 3)), name="x")
    h = ab.tanh(x @ w)
    loss = (h * h).mean()
    report = ab.inspect(loss)
    text = words(report.svg(depth=2)) + words(report.svg(frame=3, depth=2))
    assert {"w", "f64[3,4]", "f64[100,3]", "x.T @ ct", "value", "gradient"} <= set(text)


def test_a_report_makes_every_picture(tmp_path):
    x = ab.tensor(3.0, requires_grad=True, name="x")
    report = ab.inspect(x * x)
    assert report.html(tmp_path / "all.html").read_text(encoding="utf-8").startswith("<!doctype")
    report.html(tmp_path / "story.html", views="story")
    again = ab.Report.load(tmp_path / "all.html")
    assert again.svg() == report.svg() and again.strip() == report.strip()
    assert again.dot() == report.dot()
    with pytest.raises(ab.ArgumentError):
        report.html(tmp_path / "no.html", views="some")
