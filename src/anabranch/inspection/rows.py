"""Which items stand in which row, in what order, and where long lines pass: for every scope, once.

This half of the layout knows no sizes.  `coords` turns rows into integers wherever something is
drawn; opening a scope redoes only those, so nothing ever changes its order.

An item is a node (its id), a child scope as one box (`"s7"`), or a port where the value of an
outside node enters (`"in3"`) or that of an own node leaves (`"out3"`).  Where a line passes a row
on its way to a later one it has a lane there, so that it crosses nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from anabranch.inspection.frames import Index, Item, Trace

SWEEPS = 6
CROWD = 24  # in a scope of more items than this, a leaf that more than
READERS = 3  # items read is a tag at each of them, not a bundle of lines
LANES = 3  # places of passing lines, for each item; the longest lines beyond that are tags too


class Line(NamedTuple):
    """A line from item to item: the node whose value it carries, and the edges that it stands for.

    Each edge to a node has a line of its own, also in a*a; edges into a box are one line.
    """

    a: Item
    b: Item
    node: int
    edges: list[int]


@dataclass
class _Room:
    """A scope while its items and lines are gathered."""

    items: dict[Item, int] = field(default_factory=dict)  # with the first node in each
    lines: dict[tuple[Item, Item, int, int], Line] = field(default_factory=dict)

    def join(self, a: Item, b: Item, node: int, edge: int) -> None:
        key = (a, b, node, edge if isinstance(b, int) else -1)
        self.lines.setdefault(key, Line(a, b, node, [])).edges.append(edge)
        for port in (a, b):
            self.items.setdefault(port, node)  # only ports are new here


def layout(trace: Trace) -> dict[str, Any]:
    """For each scope that holds something, by its number as a string, plain data.

    `items`: what stands in it.  `rows`: places in `items`, in order; numbers from there on are
    lanes.  `chains`: each line's way from item by lanes to item.  `edges`: what each line stands
    for.  `tags`: the nodes that an item reads without a line.

    Example:
        >>> from anabranch.inspection.rows import layout
        >>> edge = {"from": 0, "to": 1, "slot": 0}
        >>> layout({"nodes": [{"id": 0}, {"id": 1}], "edges": [edge]})["0"]
        {'items': [0, 1], 'rows': [[0], [1]], 'chains': [[0, 1]], 'edges': [[0]], 'tags': {}}
    """
    index = Index(trace)
    return {str(scope): _arranged(room, index) for scope, room in sorted(_gathered(index).items())}


def _gathered(index: Index) -> dict[int, _Room]:
    rooms: dict[int, _Room] = {}
    for node in range(len(index.nodes)):
        path = index.path(node)
        shown: list[Item] = [*(f"s{s}" for s in path[1:]), node]
        for scope, item in zip(path, shown, strict=True):
            rooms.setdefault(scope, _Room()).items.setdefault(item, node)
    for i, edge in enumerate(index.edges):
        for scope, a, b in legs(index, edge["from"], edge["to"]):
            rooms[scope].join(a, b, edge["from"], i)
    return rooms


def legs(index: Index, u: int, v: int) -> Iterable[tuple[int, Item, Item]]:
    """The way of an edge: scope by scope, from item to item; through a port at every border.

    Example:
        >>> from anabranch.inspection.frames import Index
        >>> from anabranch.inspection.rows import legs
        >>> trace = {"nodes": [{"scope": 0}, {"scope": 1}], "edges": [],
        ...          "scopes": [{"id": 0, "parent": None}, {"id": 1, "parent": 0}]}
        >>> list(legs(Index(trace), 0, 1))
        [(0, 0, 's1'), (1, 'in0', 1)]
    """
    a, b = index.path(u), index.path(v)
    shared = 0
    while shared < min(len(a), len(b)) and a[shared] == b[shared]:
        shared += 1

    def inside(path: tuple[int, ...], depth: int, node: int) -> Item:
        return f"s{path[depth]}" if depth < len(path) else node

    for depth in range(len(a) - 1, shared - 1, -1):
        yield a[depth], inside(a, depth + 1, u), f"out{u}"
    yield a[shared - 1], inside(a, shared, u), inside(b, shared, v)
    for depth in range(shared, len(b)):
        yield b[depth], f"in{u}", inside(b, depth + 1, v)


def _arranged(room: _Room, index: Index) -> dict[str, Any]:
    lines, items = list(room.lines.values()), list(room.items)
    place = {item: i for i, item in enumerate(items)}
    links = [(place[line.a], place[line.b]) for line in lines]
    level = _levels(items, _ranks(list(room.items.values()), links), links)
    tagged = _tagged(items, lines, links, level, index)
    drawn = [k for k in range(len(lines)) if k not in tagged]
    used = {i for k in drawn for i in links[k]}
    kept = [i for i, item in enumerate(items) if i in used or not str(item).startswith("in")]
    place = {i: x for x, i in enumerate(kept)}
    grid = _Grid(
        [level[i] for i in kept], [(place[a], place[b]) for a, b in (links[k] for k in drawn)]
    )
    tags: dict[str, list[int]] = {}
    for k in sorted(tagged):
        nodes = tags.setdefault(str(lines[k].b), [])
        if lines[k].node not in nodes:
            nodes.append(lines[k].node)
    return {
        "items": [items[i] for i in kept],
        "rows": grid.ordered(),
        "chains": grid.chains,
        "edges": [lines[k].edges for k in drawn],
        "tags": tags,
    }


def _ranks(first: list[int], links: list[tuple[int, int]]) -> list[int]:
    """A topological order of the items, by their first nodes; a circle of boxes is cut there."""
    waiting = [0] * len(first)
    after: list[list[int]] = [[] for _ in first]
    for a, b in links:
        waiting[b] += 1
        after[a].append(b)
    by_age = sorted(range(len(first)), key=lambda i: (first[i], i), reverse=True)
    ready = [(first[i], i) for i in range(len(first)) if not waiting[i]]
    heapq.heapify(ready)
    rank = [-1] * len(first)
    for turn in range(len(first)):
        while not ready:  # a circle: the oldest box goes first
            if rank[oldest := by_age.pop()] < 0:
                ready.append((first[oldest], oldest))
        _, i = heapq.heappop(ready)
        rank[i] = turn
        for b in after[i]:
            waiting[b] -= 1
            if not waiting[b] and rank[b] < 0:
                heapq.heappush(ready, (first[b], b))
    return rank


def _levels(items: list[Item], rank: list[int], links: list[tuple[int, int]]) -> list[int]:
    """Longest paths; leaves next to their first reader; ports in rows of their own at the ends."""
    ins: list[list[int]] = [[] for _ in items]
    outs: list[list[int]] = [[] for _ in items]
    for link in links:
        a, b = sorted(link, key=rank.__getitem__)  # a line of a circle is drawn against the stream
        ins[b].append(a)
        outs[a].append(b)
    enters = [str(item).startswith("in") for item in items]
    leaves = [str(item).startswith("out") for item in items]
    level = [0 if port or not any(enters) else 1 for port in enters]
    order = sorted(range(len(items)), key=rank.__getitem__)
    for i in order:
        level[i] = max((level[a] + 1 for a in ins[i]), default=level[i])
    for i in order:
        if not ins[i] and outs[i] and not enters[i]:
            level[i] = min(level[b] for b in outs[i]) - 1
    deep = max((n for n, port in zip(level, leaves, strict=True) if not port), default=0)
    return [deep + 1 if port else n for n, port in zip(level, leaves, strict=True)]


def _tagged(
    items: list[Item], lines: list[Line], links: list[tuple[int, int]], level: list[int], at: Index
) -> set[int]:
    """The lines that are tags: of leaves that many read, and the longest where too many pass."""
    tagged: set[int] = set()
    if len(items) > CROWD:
        readers: dict[int, set[int]] = {}
        for (_, b), line in zip(links, lines, strict=True):
            readers.setdefault(line.node, set()).add(b)
        often = {u for u, them in readers.items() if len(them) > READERS and not at.ins[u]}
        tagged = {k for k, line in enumerate(lines) if line.node in often}
    length = [max(0, abs(level[a] - level[b]) - 1) for a, b in links]
    rest = sorted((k for k in range(len(lines)) if k not in tagged), key=lambda k: (length[k], k))
    total, most = sum(length[k] for k in rest), LANES * len(items) + CROWD
    while total > most:
        tagged.add(longest := rest.pop())
        total -= length[longest]
    return tagged


class _Grid:
    """Items in rows, by level, and lanes where lines pass: they get the next numbers."""

    def __init__(self, level: list[int], lines: list[tuple[int, int]]) -> None:
        low = min(level, default=0)
        self.at = [n - low for n in level]
        self.up: list[list[int]] = [[] for _ in level]
        self.down: list[list[int]] = [[] for _ in level]
        self.chains = [self._chain(a, b) for a, b in lines]
        self.rows: list[list[int]] = [[] for _ in range(max(self.at, default=-1) + 1)]
        self.spot = [0] * len(self.at)
        self._from_outputs()

    def _chain(self, a: int, b: int) -> list[int]:
        top, bottom = sorted((a, b), key=self.at.__getitem__)
        way = [top]
        for row in range(self.at[top] + 1, self.at[bottom]):
            way.append(len(self.at))
            self.at.append(row)
            self.up.append([])
            self.down.append([])
        way.append(bottom)
        for p, q in pairwise(way):
            self.down[p].append(q)
            self.up[q].append(p)
        return way if a == top else way[::-1]

    def ordered(self) -> list[list[int]]:
        """A first order from the outputs, then sweeps, each kept only if it crosses less."""
        best, found = self.crossings(), self.copy()
        for sweep in range(SWEEPS):
            if not best:
                break
            self.sweep(down=sweep % 2 == 0)
            if (now := self.crossings()) < best:
                best, found = now, self.copy()
        return found

    def _from_outputs(self) -> None:
        """Depth first, so that inputs keep the order of their slots."""
        seen = [False] * len(self.at)
        for root in range(len(self.at) - 1, -1, -1):
            stack = [] if self.down[root] else [root]
            while stack:
                if not seen[x := stack.pop()]:
                    seen[x] = True
                    self.rows[self.at[x]].append(x)
                    stack.extend(reversed(self.up[x]))
        for row in self.rows:
            self._number(row)

    def _number(self, row: list[int]) -> None:
        for i, x in enumerate(row):
            self.spot[x] = i

    def sweep(self, *, down: bool) -> None:
        near = self.up if down else self.down

        def wish(x: int) -> tuple[int, int]:
            q = sorted(self.spot[o] for o in near[x])
            middle = q[(len(q) - 1) // 2] + q[len(q) // 2] if q else 2 * self.spot[x]
            return middle, self.spot[x]

        for row in self.rows[1:] if down else self.rows[-2::-1]:
            row.sort(key=wish)
            self._number(row)

    def copy(self) -> list[list[int]]:
        return [list(row) for row in self.rows]

    def crossings(self) -> int:
        """How many pairs of lines cross, counted with a Fenwick tree between every two rows."""
        total = 0
        for row, below in pairwise(self.rows):
            tree = [0] * (len(below) + 1)
            ends = (e for x in row for e in sorted(self.spot[q] for q in self.down[x]))
            for before, end in enumerate(ends):
                i, earlier = end + 1, 0
                while i:
                    earlier += tree[i]
                    i -= i & -i
                total += before - earlier
                i = end + 1
                while i < len(tree):
                    tree[i] += 1
                    i += i & -i
        return total
