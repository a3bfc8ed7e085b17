"""Where everything stands, in integers; page/layout.js gives equal numbers.

Along the flow (to the right, or down) rows follow each other.  Across it every item wants the
middle of its neighbours in the row before or after; wishes that would overlap are pooled, which is
the exact least-squares answer.  Items follow computed items before leaves, and items before lanes,
so that a long stream stays straight.  Sizes and places are pairs: along, across.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from anabranch.inspection.frames import Item, Trace

NODE_W, NODE_H, TENSOR_H = 168, 92, 108
MOST_CELLS = 4  # outputs that have a row on a card
BOX_W, BOX_H, PORT, LANE = 176, 54, 14, 30
PAD, TITLE = 24, 34  # inside an open scope
SIDE = 30  # of a card, where no line ends
APART = 40  # two lines at a card
PASSES = 7
PULL, FIRM = 4, 1024  # how much firmer than an item a lane stands, and what is to stay


@dataclass(frozen=True)
class Gaps:
    """The distances of one direction: along, along where no chip stands, across, and the bow."""

    along: int
    bare: int
    across: int
    lane: int
    bow: int


RIGHT = Gaps(along=132, bare=64, across=72, lane=36, bow=16)
DOWN = Gaps(along=80, bare=56, across=44, lane=46, bow=56)


@dataclass
class Room:
    """One open scope in a frame of its own, whose corner is (0, 0).

    Attributes:
        items, rows, chains, edges: as `rows` gives them.
        size: of each item, along and across.
        row: of each item and lane.
        centre: of items and lanes, across.
        start, end: of each row, along.
        door: (item, port) → where a port of an open box stands: along from the box's start, across
            from its middle.
        length, breadth: of all, along and across.
    """

    down: bool
    items: list[Item]
    rows: list[list[int]]
    chains: list[list[int]]
    edges: list[list[int]]
    size: list[tuple[int, int]] = field(default_factory=list)
    row: list[int] = field(default_factory=list)
    door: dict[tuple[int, str], tuple[int, int]] = field(default_factory=dict)
    centre: list[int] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    length: int = 0
    breadth: int = 0

    @property
    def gaps(self) -> Gaps:
        return DOWN if self.down else RIGHT

    def across(self, i: int) -> int:
        return self.size[i][1] if i < len(self.items) else LANE

    def shift(self, i: int, port: str) -> int:
        """Where a line meets an item, from its middle: only an open box has a say."""
        return self.door.get((i, port), (0, 0))[1]


def arrange(
    trace: Trace, rows: Mapping[str, Any], opened: Collection[int] | None, *, down: bool
) -> dict[int, Room]:
    """The open scopes whose ancestors are open, the root first; None opens all.

    Example:
        >>> from anabranch.inspection.coords import arrange
        >>> from anabranch.inspection.rows import layout
        >>> nodes = [{"id": 0, "shape": []}, {"id": 1, "shape": []}]
        >>> trace = {"nodes": nodes, "edges": [{"from": 0, "to": 1, "slot": 0}]}
        >>> arrange(trace, layout(trace), None, down=False)[0].length
        468
    """
    parent = {s["id"]: s.get("parent") or 0 for s in trace.get("scopes") or [] if s["id"]}
    shown: list[int] = []
    for scope in sorted(map(int, rows)):
        if scope == 0 or (parent.get(scope, 0) in shown and (opened is None or scope in opened)):
            shown.append(scope)
    rooms: dict[int, Room] = {}
    for scope in reversed(shown):  # a child comes after its parent
        rooms[scope] = _room(trace, rows[str(scope)], rooms, down)
    return {scope: rooms[scope] for scope in shown}


def _room(trace: Trace, made: Mapping[str, Any], rooms: dict[int, Room], down: bool) -> Room:
    room = Room(down, made["items"], made["rows"], made["chains"], made["edges"])
    room.row = [0] * sum(map(len, room.rows))
    for r, row in enumerate(room.rows):
        for i in row:
            room.row[i] = r
    for i, item in enumerate(room.items):
        w, h = _extent(trace, item, rooms, down)
        room.size.append((h, w) if down else (w, h))
        if isinstance(item, str) and item[0] == "s" and (child := rooms.get(int(item[1:]))):
            lead = PAD + TITLE if down else (room.size[i][0] - child.length) >> 1
            middle = (child.breadth >> 1) if down else (room.size[i][1] >> 1) - PAD - TITLE
            for j, port in enumerate(child.items):
                if isinstance(port, str) and port[0] != "s":
                    r = child.row[j]
                    along = lead + ((child.start[r] + child.end[r]) >> 1)
                    room.door[i, port] = (along, child.centre[j] - middle)
    _across(trace, room)
    _along(room)
    return room


def card_height(node: Mapping[str, Any]) -> int:
    """A card has a row for each output, up to four of them."""
    outputs = node.get("outputs")
    if not outputs:
        return TENSOR_H if node["shape"] else NODE_H
    return cell_tops(node)[-1] + (20 if len(outputs) > MOST_CELLS else 0)


def cell_tops(node: Mapping[str, Any]) -> list[int]:
    """Where the rows of cells begin, and where the last one ends."""
    ports = (node.get("outputs") or [node])[:MOST_CELLS]
    tops = [44 if node.get("outputs") or node["shape"] else 42]
    for port in ports:
        tops.append(tops[-1] + (64 if port["shape"] else 50))
    return tops


def _extent(trace: Trace, item: Item, rooms: dict[int, Room], down: bool) -> tuple[int, int]:
    """Width and height."""
    if isinstance(item, int):
        return NODE_W, card_height(trace["nodes"][item])
    if item[0] != "s":
        return PORT, PORT
    child = rooms.get(int(item[1:]))
    if child is None:
        return BOX_W, BOX_H
    w, h = (child.breadth, child.length) if down else (child.length, child.breadth)
    return max(w, BOX_W) + 2 * PAD, h + 2 * PAD + TITLE


def _across(trace: Trace, room: Room) -> None:
    """Wishes and pools, forward and backward in turn."""
    near: tuple[list[list[tuple[int, int]]], list[list[tuple[int, int]]]] = (
        [[] for _ in room.row],
        [[] for _ in room.row],
    )
    for k, chain in enumerate(room.chains):
        node = trace["edges"][room.edges[k][0]]["from"]
        out, into = room.shift(chain[0], f"out{node}"), room.shift(chain[-1], f"in{node}")
        for j, (p, q) in enumerate(pairwise(chain)):
            shift = (out if j == 0 else 0) - (into if j == len(chain) - 2 else 0)
            later = room.row[q] > room.row[p]
            near[not later][q].append((p, shift))
            near[later][p].append((q, -shift))
    firm = {chain[-1] for chain in room.chains}
    firm |= {i for i, item in enumerate(room.items) if str(item).startswith("in")}
    long = [chain for chain in room.chains if len(chain) > 3 and chain[0] in firm]
    streams = {i for chain in long for i in chain[1:-1]}
    centre = room.centre = [0] * len(room.row)
    for row in room.rows:
        for i, spot in zip(row, _offsets(room, row), strict=True):
            centre[i] = spot
    for turn in range(PASSES):
        for row in room.rows if turn % 2 == 0 else reversed(room.rows):
            groups = () if turn % 2 else (streams, firm)
            wants = [_wish(room, i, near[turn % 2][i], groups) for i in row]
            for i, spot in zip(row, _settle(room, row, wants, set()), strict=True):
                centre[i] = spot
    firm |= set(range(len(room.items), len(room.row)))
    for row in room.rows:  # leaves close up to their readers; all else stays
        wants = [centre[i] if i in firm else _wish(room, i, near[1][i], ()) for i in row]
        for i, spot in zip(row, _settle(room, row, wants, firm), strict=True):
            centre[i] = centre[i] if i in firm else spot
    low = min((centre[i] - (room.across(i) >> 1) for i in range(len(centre))), default=0)
    room.centre = [c - low for c in centre]
    room.breadth = max((c + (room.across(i) >> 1) for i, c in enumerate(room.centre)), default=0)


def _offsets(room: Room, row: list[int]) -> list[int]:
    """The closest centres of a row, from that of its first item."""
    offsets = [0]
    for i, j in pairwise(row):
        lanes = (i >= len(room.items)) + (j >= len(room.items))
        gap = (room.gaps.across, room.gaps.lane, 12)[lanes]
        offsets.append(offsets[-1] + ((room.across(i) + room.across(j)) >> 1) + gap)
    return offsets


def _wish(
    room: Room, i: int, near: list[tuple[int, int]], groups: tuple[Container[int], ...]
) -> int:
    """The middle of the neighbours; an item looks at the first group with some, then at items."""
    chosen = near
    if i < len(room.items):
        for group in (*groups, range(len(room.items))):
            if some := [pair for pair in near if pair[0] in group]:
                chosen = some
                break
    q = sorted(room.centre[o] + shift for o, shift in chosen)
    return (q[(len(q) - 1) >> 1] + q[len(q) >> 1]) >> 1 if q else room.centre[i]


def _settle(room: Room, row: list[int], wants: list[int], firm: set[int]) -> list[int]:
    """The places closest to the wishes that keep every distance; what is firm hardly moves."""
    offsets = _offsets(room, row)
    pools: list[tuple[int, int, int]] = []  # sum of the wishes, weight, how many items
    for i, want, offset in zip(row, wants, offsets, strict=True):
        pull = FIRM if i in firm else 1 if i < len(room.items) else PULL
        pool = ((want - offset) * pull, pull, 1)
        while pools and pools[-1][0] * pool[1] > pool[0] * pools[-1][1]:
            last = pools.pop()
            pool = (last[0] + pool[0], last[1] + pool[1], last[2] + pool[2])
        pools.append(pool)
    flat = [(2 * t + w) // (2 * w) for t, w, many in pools for _ in range(many)]
    return [spot + offset for spot, offset in zip(flat, offsets, strict=True)]


def _along(room: Room) -> None:
    """Where rows start and end; they stand closer where no chip has to stand between them."""
    reach, here = len(room.items), 0
    told = {chain[-1] for chain in room.chains if isinstance(room.items[chain[-1]], int)}
    for r, row in enumerate(room.rows):
        if r:
            here += room.gaps.along if any(i in told for i in row) else room.gaps.bare
        room.start.append(here)
        here += max((room.size[i][0] for i in row if i < reach), default=0)
        room.end.append(here)
    room.length = here
