"""Coordinates: integers, distances kept, order kept; equal in Python and in the page."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from anabranch.inspection.coords import DOWN, RIGHT, arrange, cell_tops
from anabranch.inspection.linker import EXPORT, linked
from anabranch.inspection.routes import place
from anabranch.inspection.rows import layout
from anabranch.inspection.sheet import extent

GOLDEN = Path(__file__).with_name("golden")


def plain(picture):
    """A picture as JSON has it."""
    lines = [
        {
            "scope": line.scope,
            "a": line.a,
            "b": line.b,
            "edges": list(line.edges),
            "d": line.path,
            "chip": line.chip and list(line.chip),
        }
        for line in picture.lines
    ]
    boxes = {str(item): list(box) for item, box in picture.boxes.items()}
    return {"boxes": boxes, "lines": lines, "w": picture.w, "h": picture.h}


def fixed(story):
    """Three graphs that stay: the worked expression, a residual stream, scopes in scopes."""
    stream = {
        "nodes": [{"id": i, "shape": [4] if i else []} for i in range(9)],
        "edges": [
            {"from": a, "to": b, "slot": s}
            for a, b, s in [
                (0, 1, 0),
                (1, 2, 0),
                (2, 3, 0),
                (0, 3, 1),
                (3, 4, 0),
                (4, 5, 0),
                (5, 6, 0),
                (3, 6, 1),
                (6, 7, 0),
                (6, 7, 1),
                (7, 8, 0),
                (6, 8, 1),
            ]
        ],
    }
    nested = {
        "nodes": [
            {"id": i, "shape": [], "scope": s} for i, s in enumerate([0, 1, 2, 2, 1, 0, 3, 0])
        ],
        "edges": [
            {"from": a, "to": b, "slot": s}
            for a, b, s in [
                (0, 1, 0),
                (1, 2, 0),
                (2, 3, 0),
                (0, 3, 1),
                (3, 4, 0),
                (1, 4, 1),
                (4, 5, 0),
                (0, 6, 0),
                (6, 7, 0),
                (5, 7, 1),
            ]
        ],
        "scopes": [{"id": i, "name": f"s{i}", "parent": p} for i, p in enumerate([None, 0, 1, 0])],
    }
    return {"story": story, "stream": stream, "nested": nested}


@pytest.mark.parametrize("name", ["story", "stream", "nested"])
@pytest.mark.parametrize("down", [False, True], ids=["right", "down"])
def test_places_are_those_on_file(story, name, down):
    """After a change on purpose: look at the pictures, then delete the file and run once."""
    trace = fixed(story)[name]
    file = GOLDEN / f"{name}-{'down' if down else 'right'}.json"
    made = json.dumps(plain(place(trace, layout(trace), down=down)), indent=1) + "\n"
    if not file.exists():
        file.write_text(made, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == made


@pytest.mark.slow
def test_nothing_overlaps_and_distances_are_kept(random_graphs):
    for trace, opened, down in random_graphs(150):
        picture = place(trace, layout(trace), opened, down=down)
        inside = {s["id"]: s["parent"] for s in trace["scopes"]}
        cards = {item: box for item, box in picture.boxes.items() if isinstance(item, int)}
        boxes = list(cards.values())
        for i, (ax, ay, aw, ah) in enumerate(boxes):
            for bx, by, bw, bh in boxes[i + 1 :]:
                apart = max(bx - ax - aw, ax - bx - bw, by - ay - ah, ay - by - bh)
                assert apart >= 12
        for item, (x, y, w, h) in picture.boxes.items():
            assert all(isinstance(n, int) for n in (x, y, w, h)), item
            if isinstance(item, str) and item[0] == "s" and inside[int(item[1:])]:
                px, py, pw, ph = picture.boxes[f"s{inside[int(item[1:])]}"]
                assert px <= x and py <= y and x + w <= px + pw and y + h <= py + ph


@pytest.mark.slow
def test_opening_a_scope_never_changes_an_order(random_graphs):
    for trace, opened, down in random_graphs(60):
        rows = layout(trace)
        for scopes in (opened, None, []):
            for scope, room in arrange(trace, rows, scopes, down=down).items():
                for row in rows[str(scope)]["rows"]:
                    centres = [room.centre[i] for i in row]
                    assert centres == sorted(centres)


@pytest.mark.slow
def test_lines_meet_their_cards(random_graphs):
    for trace, opened, down in random_graphs(60):
        picture = place(trace, layout(trace), opened, down=down)
        for line in picture.lines:
            for item, end in ((line.a, "start"), (line.b, "end")):
                if isinstance(item, int):
                    x, y, w, h = picture.boxes[item]
                    numbers = extent(line.path) if end else None
                    assert numbers is not None
                    words = line.path.replace("M", " ").replace("C", " ").replace("L", " ").split()
                    px, py = map(int, words[:2] if end == "start" else words[-2:])
                    assert (px in (x, x + w) and y <= py <= y + h) or (
                        py in (y, y + h) and x <= px <= x + w
                    )


def test_a_chain_is_straight_and_a_parameter_stands_beside_its_reader():
    nodes = [{"id": i, "shape": []} for i in range(9)]
    # x, then W and x @ W in turn, so that each product reads the one before and a leaf
    pairs = [(0, 2), (1, 2), (2, 4), (3, 4), (4, 6), (5, 6), (6, 8), (7, 8)]
    edges = [{"from": a, "to": b, "slot": i % 2} for i, (a, b) in enumerate(pairs)]
    trace = {"nodes": nodes, "edges": edges}
    boxes = place(trace, layout(trace)).boxes
    assert len({boxes[i][1] for i in (2, 4, 6, 8)}) == 1
    for leaf, reader in ((3, 2), (5, 4), (7, 6)):
        assert boxes[leaf][0] == boxes[reader][0]
        assert abs(boxes[leaf][1] - boxes[reader][1]) == 92 + RIGHT.across


def test_both_directions_have_room_for_a_chip():
    assert RIGHT.along > 108 and DOWN.along > 29 and RIGHT.across > 0


@pytest.fixture(scope="session")
def engine():
    """Runs a program in Node, if it is here; the browser's tests do the same in Chromium."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no Node: tests/browser compares in Chromium")

    def run(program, data):
        ran = subprocess.run(
            [node, "--input-type=module", "-e", program],
            input=json.dumps(data),
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(ran.stdout)

    return run


@pytest.mark.slow
def test_the_page_has_equal_places(engine, story, random_graphs):
    """200 random graphs and the three fixed ones."""
    cases = [(t, layout(t), o, d) for t, o, d in random_graphs(200)]
    cases += [(t, layout(t), None, d) for t in fixed(story).values() for d in (False, True)]
    program = (
        linked(["layout"])
        + """
        import fs from "fs";
        const all = JSON.parse(fs.readFileSync(0, "utf8"));
        console.log(JSON.stringify(all.map(([t, rows, open, down]) => {
          const p = place(t, rows, open && new Set(open), down);
          return { ...p, boxes: Object.fromEntries(p.boxes) };
        })));"""
    )
    found = engine(program, cases)
    for (trace, rows, opened, down), theirs in zip(cases, found, strict=True):
        assert plain(place(trace, rows, opened, down=down)) == theirs


def several(outs):
    """An op with three outputs, and a reader of its output for each in `outs`."""
    ports = [{"shape": []}, {"shape": [2]}, {"shape": []}]
    nodes = [{"id": i, "shape": []} for i in range(len(outs) + 1)]
    nodes[0]["outputs"] = ports
    edges = [{"from": 0, "to": i, "slot": 0, "out": out} for i, out in enumerate(outs, 1)]
    return {"nodes": nodes, "edges": edges}


@pytest.mark.parametrize("outs", [[0, 1, 2], [2, 0, 1], [1, 1, 1, 0], [2]])
def test_lines_start_at_the_row_of_their_output(outs):
    trace = several(outs)
    picture = place(trace, layout(trace))
    _, top, _, _ = picture.boxes[0]
    tops = cell_tops(trace["nodes"][0])
    for line in picture.lines:
        out = trace["edges"][line.edges[0]]["out"]
        start = int(re.match(r"M-?\d+ (-?\d+)", line.path)[1]) - top
        assert tops[out] < start < tops[out + 1]
        if outs.count(out) == 1:
            assert start == (tops[out] + tops[out + 1]) // 2


def test_downwards_outputs_stand_side_by_side():
    trace = several([2, 0, 1, 1])
    picture = place(trace, layout(trace), down=True)
    starts = {}
    for line in picture.lines:
        starts.setdefault(trace["edges"][line.edges[0]]["out"], []).append(
            int(re.match(r"M(-?\d+) ", line.path)[1])
        )
    assert max(starts[0]) < min(starts[1]) < max(starts[1]) < min(starts[2])


NUMBERS = [
    0,
    -0.0,
    1,
    -3,
    64,
    999999,
    1000000,
    1234567,
    -0.123456,
    0.5,
    1234.5,
    12345.678,
    123456.789,
    99999.5,
    0.00012345,
    0.00009,
    1.8e-9,
    -2.5e300,
    1.7976931348623157e308,
    5e-324,
    0.1 + 0.2,
    2.5,
    1.0005,
    100.05,
    "nan",
    "inf",
    "-inf",
    "12345678901234567890",
    True,
    False,
]
NAMES = [
    "x",
    "layer1.W",
    "编码器.层",
    "מטריצה",
    "e\u0301",
    "🙂🙂",
    "a\x00b\nc",
    "\u202eabc",
    "x" * 30,
    "ab  ",
    "",
    "\u3000wide",
    "ﬀ",
]


def test_the_page_writes_numbers_and_names_alike(engine):
    from anabranch.inspection.numerals import clean, columns, fit, short, text  # noqa: PLC0415

    program = (
        linked(["story"])
        + """
        import fs from "fs";
        const [numbers, names] = JSON.parse(fs.readFileSync(0, "utf8"));
        console.log(JSON.stringify([
          numbers.map((v) => [text(v), text(v, 3), text(v, 2), short(v, 8), short(v, 5)]),
          names.map((s) => [clean(s), columns(clean(s)), fit(clean(s), 6), fit(clean(s), 3)])]));"""
    )
    numbers, names = engine(program, [NUMBERS, NAMES])
    assert numbers == [[text(v), text(v, 3), text(v, 2), short(v, 8), short(v, 5)] for v in NUMBERS]
    assert names == [
        [clean(s), columns(clean(s)), fit(clean(s), 6), fit(clean(s), 3)] for s in NAMES
    ]


def test_the_page_tells_the_same_story(engine, story):
    from anabranch.inspection.frames import Index, frames_of, gradient, state_at  # noqa: PLC0415

    program = (
        linked(["story"])
        + """
        import fs from "fs";
        const ix = indexOf(JSON.parse(fs.readFileSync(0, "utf8")));
        const frames = framesOf(ix, new Set());
        console.log(JSON.stringify(frames.map((f, k) => { const st = stateAt(ix, frames, k);
          const all = ix.t.nodes.map((n) => gradAt(ix, st, n.id) ?? null);
          return [f.kind, f.item, f.part, f.of, all];
        })));"""
    )
    index, frames = Index(story), frames_of(story)
    assert engine(program, story) == [
        [
            f.kind,
            f.item,
            f.part,
            f.of,
            [gradient(index, state_at(index, frames, k), n) for n in range(5)],
        ]
        for k, f in enumerate(frames)
    ]


def test_exports_are_what_the_linker_knows():
    assert EXPORT.sub("", "export async function f") == "async function f"
