"""Boxes, lines and the places of chips, from `coords`; page/layout.js gives equal numbers.

A line goes straight to the end of its row and then curves to the next one, so it never crosses an
open box.  Two edges from the same node are two lines, bowed apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from anabranch.inspection.coords import APART, PAD, SIDE, TITLE, Room, arrange, cell_tops
from anabranch.inspection.frames import Item, Trace

CHIP_W, CHIP_H = 108, 29  # the room of a chip
ALONG = (4, 3, 5, 2, 6)  # where on a curve a chip may stand, in eighths, the best first
LOOK_BACK = 24  # chips of the same gap that a new one has to stay clear of

Box = tuple[int, int, int, int]
Point = tuple[int, int]


@dataclass(frozen=True)
class Route:
    """A line: its path in SVG's words, and where its chip stands, if it has one and room for it.

    `a` and `b` are the items at its ends in scope `scope`, `edges` what it stands for.
    """

    scope: int
    a: Item
    b: Item
    edges: tuple[int, ...]
    path: str
    chip: Point | None


@dataclass(frozen=True)
class Picture:
    """Boxes (x, y, width, height) by item, ports by item and scope (`"in3/7"`); lines; the size."""

    boxes: dict[Item, Box]
    lines: list[Route]
    w: int
    h: int


def place(
    trace: Trace,
    rows: Mapping[str, Any],
    opened: Collection[int] | None = None,
    *,
    down: bool = False,
) -> Picture:
    """Coordinates of everything that is in sight when these scopes are open; None opens all.

    Example:
        >>> from anabranch.inspection.routes import place
        >>> from anabranch.inspection.rows import layout
        >>> nodes = [{"id": 0, "shape": []}, {"id": 1, "shape": []}]
        >>> trace = {"nodes": nodes, "edges": [{"from": 0, "to": 1, "slot": 0}]}
        >>> place(trace, layout(trace)).lines[0].path
        'M168 46C234 46 234 46 300 46'
    """
    rooms = arrange(trace, rows, opened, down=down)
    boxes: dict[Item, Box] = {}
    lines: list[Route] = []
    corner: dict[int, Point] = {0: (0, 0)}
    for scope, room in rooms.items():
        for i, item in enumerate(room.items):
            x, y, w, h = box = _box(room, i, corner[scope])
            boxes[item if isinstance(item, int) or item[0] == "s" else f"{item}/{scope}"] = box
            if isinstance(item, str) and item[0] == "s":
                child = rooms.get(int(item[1:]))
                inner = (child.breadth if down else child.length) if child else 0
                corner[int(item[1:])] = (x + ((w - inner) >> 1), y + PAD + TITLE)
        lines += _lines(trace, scope, room, corner[scope])
    root = rooms.get(0)
    if root is None:
        return Picture(boxes, lines, 0, 0)
    w, h = (root.breadth, root.length) if down else (root.length, root.breadth)
    return Picture(boxes, lines, w, h)


def _box(room: Room, i: int, corner: Point) -> Box:
    long, wide = room.size[i]
    r = room.row[i]
    m = room.start[r] + ((room.end[r] - room.start[r] - long) >> 1)
    c = room.centre[i] - (wide >> 1)
    if room.down:
        return corner[0] + c, corner[1] + m, wide, long
    return corner[0] + m, corner[1] + c, long, wide


def _lines(trace: Trace, scope: int, room: Room, corner: Point) -> list[Route]:
    ends = _ends(trace, room)
    twins = Counter((chain[0], chain[-1]) for chain in room.chains)
    chips: dict[int, list[Point]] = {}
    made = []
    for k, chain in enumerate(room.chains):
        a, b = room.items[chain[0]], room.items[chain[-1]]
        bow = 0  # how far lines between the same two items are bent apart
        if twins[chain[0], chain[-1]] > 1 and len(chain) == 2 and ends[k][1]:
            bow = room.gaps.bow if ends[k][1] > 0 else -room.gaps.bow
        path, spots = _route(room, k, _doors(trace, room, k), ends[k], corner, bow)
        spot = None
        if isinstance(b, int):
            spot = _spot(spots, chips)
        made.append(Route(scope, a, b, tuple(room.edges[k]), path, spot))
    return made


def _ends(trace: Trace, room: Room) -> list[Point]:
    """For each line, where it leaves and where it arrives, from the middles of its items."""
    ends = [[0, 0] for _ in room.chains]
    for end in (0, 1):
        mine: dict[int, list[int]] = {}
        for k, chain in enumerate(room.chains):
            port = ("out", "in")[end] + str(trace["edges"][room.edges[k][0]]["from"])
            item = chain[-end]
            if (item, port) in room.door:
                ends[k][end] = room.door[item, port][1]
            elif room.size[item][1] > SIDE:
                mine.setdefault(item, []).append(k)
        for item, ks in mine.items():
            ks.sort(key=lambda k: (room.centre[room.chains[k][-2 if end else 1]], k))
            for middle, wide, some in _bundles(trace, room, item, ks, leaving=end == 0):
                step = min(APART, wide // max(1, len(some) - 1))
                for n, k in enumerate(some):
                    ends[k][end] = middle + (2 * n - len(some) + 1) * step // 2
    return [(out, into) for out, into in ends]


def _bundles(
    trace: Trace, room: Room, item: int, ks: list[int], *, leaving: bool
) -> list[tuple[int, int, list[int]]]:
    """Lines at one side of an item, with the middle and the room of their ends.

    Those that leave an op with several outputs start at the row of theirs; downwards, where no row
    ends at that side, one output stands beside the other.
    """
    wide = room.size[item][1]
    name = room.items[item]
    outputs = trace["nodes"][name].get("outputs") if leaving and isinstance(name, int) else None
    if not outputs:
        return [(0, wide - SIDE, ks)]
    tops = cell_tops(trace["nodes"][name])
    last = len(tops) - 2
    bundles: dict[int, list[int]] = {}
    for k in ks:
        out = trace["edges"][room.edges[k][0]].get("out") or 0
        bundles.setdefault(min(out, last), []).append(k)
    each = (wide - SIDE) // (last + 1)
    return [
        ((2 * out - last) * each // 2, each // 2, some)
        if room.down
        else (((tops[out] + tops[out + 1]) >> 1) - (wide >> 1), SIDE, some)
        for out, some in bundles.items()
    ]


def _doors(trace: Trace, room: Room, k: int) -> tuple[int | None, int | None]:
    """How far in, along, a line reaches into open boxes at its ends."""
    chain, node = room.chains[k], trace["edges"][room.edges[k][0]]["from"]
    out, into = room.door.get((chain[0], f"out{node}")), room.door.get((chain[-1], f"in{node}"))
    return out and out[0], into and into[0]


def _route(
    room: Room,
    k: int,
    doors: tuple[int | None, int | None],
    ends: Point,
    corner: Point,
    bow: int,
) -> tuple[str, list[tuple[int, Point]]]:
    """The path, and where its chip may stand, the best first: the gap or row, and the point."""
    chain = room.chains[k]
    up = room.row[chain[0]] > room.row[chain[-1]]

    def point(m: int, c: int) -> Point:
        return (corner[0] + c, corner[1] + m) if room.down else (corner[0] + m, corner[1] + c)

    def sides(i: int) -> Point:
        """Where an entry's row is entered and left, along."""
        r = room.row[i]
        return (room.end[r], room.start[r]) if up else (room.start[r], room.end[r])

    def edge(i: int, leaving: bool) -> int:
        """Where an item itself is entered or left, along."""
        near, far = sorted(sides(i))
        long, door = room.size[i][0], doors[not leaving]
        return (
            near
            + ((far - near - long) >> 1)
            + (door if door is not None else long if leaving != up else 0)
        )

    a, b = chain[0], chain[-1]
    c = room.centre[a] + ends[0]
    here, words = edge(a, True), []
    words.append(f"M{_xy(point(here, c))}")
    if here != sides(a)[1]:
        words.append(f"L{_xy(point(here := sides(a)[1], c))}")
    curve: list[Point] = []
    for i in chain[1:]:
        last = i == b
        to = room.centre[i] + (ends[1] if last else 0)
        there = sides(i)[0]
        middle = (here + there) >> 1
        curve = [point(here, c), point(middle, c + bow), point(middle, to + bow), point(there, to)]
        words.append("C" + " ".join(map(_xy, curve[1:])))
        here, c = there, to
        stop = edge(i, False) if last else sides(i)[1]
        if stop != here:
            words.append(f"L{_xy(point(stop, c))}")
            here = stop
    spots = [(room.row[a], p) for p in _on(curve)]
    if len(chain) > 2:  # on a lane, the middle one if it can be
        lanes = sorted(chain[1:-1], key=lambda i: abs(2 * chain.index(i) - len(chain)))
        spots = [
            (-1 - r, point((room.start[r] + room.end[r]) >> 1, room.centre[i]))
            for i in lanes
            for r in [room.row[i]]
        ]
    return "".join(words), spots


def _xy(p: Point) -> str:
    return f"{p[0]} {p[1]}"


def _on(curve: list[Point]) -> list[Point]:
    """The points of a curve where a chip may stand."""
    found = []
    for n in ALONG:
        rest = 8 - n
        weights = (rest**3, 3 * rest * rest * n, 3 * rest * n * n, n**3)
        x, y = (sum(w * p[k] for w, p in zip(weights, curve, strict=True)) >> 9 for k in (0, 1))
        found.append((x, y))
    return found


def _spot(spots: list[tuple[int, Point]], chips: dict[int, list[Point]]) -> Point | None:
    """The first place that no earlier chip of the same gap or row needs; None where all are."""
    for where, (x, y) in spots:
        taken = chips.setdefault(where, [])
        near = taken[-LOOK_BACK:]
        if all(abs(x - tx) >= CHIP_W or abs(y - ty) >= CHIP_H for tx, ty in near):
            taken.append((x, y))
            return x, y
    return None
