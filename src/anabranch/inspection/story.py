"""The story of a trace: one block a frame, with what is known then and what is delivered in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from anabranch.inspection.frames import Frame, frames_of
from anabranch.inspection.lookup import named, unknown
from anabranch.inspection.parts import Check, Local, Path, Summary
from anabranch.inspection.printed import Printed
from anabranch.inspection.query import scope_path
from anabranch.inspection.table import gradient_state
from anabranch.inspection.trace import Trace
from anabranch.inspection.why import paths

FEW = 12  # nodes that every block shows; of more, it shows those that the frame is about
_UNFOLDED = 40  # nodes that are told one by one; of more, scopes are told as one
_PHASES = {"forward": "Forward", "seed": "Backward", "backward": "Backward", "end": "Result"}


@dataclass
class Delivery:
    """A contribution as it arrives: upstream and local derivative, and the sum that it joins."""

    edge: int
    to: int
    upstream: Summary | None
    local: Local | None
    amount: Summary | None
    before: Summary | None = None
    after: Summary | None = None
    out: int | None = None


@dataclass
class Partial:
    """The local derivative on the edge from a node to the one that is told."""

    edge: int
    by: int
    local: Local
    out: int | None = None


@dataclass
class Row:
    """What is known of a node in a frame."""

    id: int
    name: str
    value: Summary | None
    is_known: bool
    grad: Summary | None
    gradient: str  # see `table.gradient_state`
    arrived: int
    of: int
    out: int | None = None


@dataclass
class Block:
    """One frame of the story.

    Attributes:
        kind: `"forward"`, `"seed"`, `"backward"`, `"end"` or `"note"`.
        phase, part, of: its place: `Backward 4 of 4`.
        nodes: what it is about; several where a scope is told as one.
        name: what they are called.
        title, text: the words of a story made by hand, else empty.
        formula: how the node is computed, with `{0}`, `{1}` for its inputs by slot.
        inputs: the node in each of these slots; ports: which output of it, where that is not
            the first for all; written: the formula with their names.
        readers: how many contributions its gradient is made of.
        rows: nodes and what is known of each.
        partials: the local derivatives that are known from it on.
        deliveries: the contributions that arrive in it.
        line: file and number, and the text there.
    """

    kind: str
    phase: str
    part: int
    of: int
    nodes: list[int]
    name: str
    title: str = ""
    text: str = ""
    formula: str = ""
    inputs: dict[int, int] = field(default_factory=dict)
    ports: dict[int, int] | None = None
    written: str = ""
    readers: int = 0
    rows: list[Row] = field(default_factory=list)
    partials: list[Partial] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    line: list[str] | None = None


@dataclass
class Story(Printed):
    """The frames of a trace in order.

    `str(story)` prints every block; `anabranch story` steps through them on a terminal.

    Attributes:
        title: of the trace.
        blocks: one a frame.
        checks: gradients beside central differences, for the last block.
        names: the label of each node that is mentioned.
        followed: the node whose paths the last block shows.
        paths: its paths to the root.
    """

    view: ClassVar[str] = "story"
    title: str
    blocks: list[Block]
    checks: list[Check]
    names: dict[int, str]
    followed: int | None = None
    paths: list[Path] = field(default_factory=list)


def story(
    trace: Trace, *, scope: str | None = None, each_edge: bool = False, node: str | None = None
) -> Story:
    """The story of a trace.

    Args:
        trace: what to tell.
        scope: only what happens inside this scope, by its path.
        each_edge: whether each contribution has a frame of its own.
        node: the node whose gradient is followed to the end, the first input by default.

    Raises:
        ArgumentError: `[unknown-name]` for a scope or node that is not there.
    """
    teller = _Teller(trace, scope, node)
    blocks = list(teller.blocks(each_edge))
    mentioned = {row.id for block in blocks for row in block.rows}
    mentioned |= {number for block in blocks for number in block.nodes}
    paths = teller.paths()
    mentioned |= {number for path in paths for number in path.nodes}
    mentioned |= {one.by for block in blocks for one in block.partials}
    names = {number: trace.label(number) for number in sorted(mentioned)}
    return Story(trace.title, blocks, trace.checks, names, teller.followed, paths)


class _Teller:
    """Walks the frames and keeps what is known."""

    def __init__(self, trace: Trace, scope: str | None, node: str | None) -> None:
        self.trace = trace
        self._into: list[list[int]] = [[] for _ in trace.nodes]
        for i, edge in enumerate(trace.edges):
            self._into[edge.to].append(i)
        self._awaited: dict[tuple[int, int], int] = {}
        self._known: set[int] = set()
        self._arrived: dict[tuple[int, int], int] = {}
        self._sums: dict[
            tuple[int, int], Summary | None
        ] = {}  # None: something is there, nobody knows what
        self.inside = None if scope is None else self._nodes_in(scope)
        self.followed = self._followed(node)
        self.frames = self._frames()

    def _nodes_in(self, scope: str) -> set[int]:
        found = set()
        for node in self.trace.nodes:
            path = scope_path(self.trace, node)
            if path == scope or path.startswith(f"{scope}/"):
                found.add(node.id)
        if not found:
            paths = sorted({scope_path(self.trace, node) for node in self.trace.nodes} - {""})
            raise unknown("scope", scope, paths)
        return found

    def _followed(self, name: str | None) -> int | None:
        nodes = self.trace.nodes
        if name is not None:
            return named(self.trace, name).id
        leaves = [n.id for n in nodes if n.is_leaf and self.trace.arrivals(n.id)]
        return leaves[0] if leaves else None

    def _frames(self) -> list[Frame]:
        # A scope that is asked for is open; in a long story the others are told as one frame each.
        opened = None if self.inside is not None or len(self.trace.nodes) <= _UNFOLDED else {0}
        frames = frames_of(self.trace.to_dict(), opened)
        if self.inside is None:
            return frames
        kept = [f for f in frames if f.kind == "end" or self.inside.issuperset(f.nodes)]
        return [f for f in kept if f.kind != "seed" or f.nodes]

    def blocks(self, each_edge: bool) -> Iterator[Block]:
        """The blocks, one by one."""
        for frame in self.frames:
            if frame.kind == "forward":
                self._known.update(frame.nodes)
            if frame.kind == "seed":
                self._sums[self.trace.root, 0] = self.trace.seed or Summary(v=1.0)
            edges = [i for node in frame.nodes for i in self._into[node]]
            sent = [i for i in edges if self.trace.edges[i].contribution is not None]
            if frame.kind != "backward":
                yield self._block(frame, [])
            elif each_edge and sent:
                for i in sent:
                    yield self._block(frame, [self._delivered(i)])
            else:
                yield self._block(frame, [self._delivered(i) for i in sent])

    def _delivered(self, number: int) -> Delivery:
        edge = self.trace.edges[number]
        to, amount = (edge.from_, edge.out or 0), edge.contribution
        assert amount is not None
        before, node = self._sums.get(to), self.trace.nodes[edge.from_]
        self._arrived[to] = self._arrived.get(to, 0) + 1
        after = amount if to not in self._sums else added(before, amount)
        if self._arrived[to] == self._of(*to):
            after = node.ports[to[1]].grad
        self._sums[to] = after
        out = to[1] if node.outputs else None
        upstream = self.trace.upstream(edge)
        return Delivery(number, edge.from_, upstream, edge.local, amount, before, after, out)

    def _of(self, number: int, out: int) -> int:
        """How many contributions an output is sent."""
        if (number, out) not in self._awaited:
            self._awaited[number, out] = len(self.trace.arrivals(number, out))
        return self._awaited[number, out]

    def _block(self, frame: Frame, deliveries: list[Delivery]) -> Block:
        nodes = [n for n in frame.nodes if self.inside is None or n in self.inside]
        inner = set(nodes) if len(nodes) > 1 else set()
        # What happens inside a scope that is told as one is not told.
        deliveries = [one for one in deliveries if one.to not in inner]
        shown = self._shown(frame, deliveries)
        block = Block(
            frame.kind, _PHASES.get(frame.kind, "Note"), frame.part, frame.of, nodes,
            self._name(frame), frame.title, frame.text,
            rows=[
                self._row(number, out, frame.kind == "end")
                for number in shown
                for out in range(len(self.trace.nodes[number].ports))
            ],
            deliveries=deliveries,
        )  # fmt: skip
        if frame.kind == "forward":
            block.partials = list(self._partials(nodes)) if len(nodes) == 1 else []
        if len(nodes) == 1:
            about = self.trace.nodes[nodes[0]]
            block.formula, block.written = about.formula or "", self.trace.written(about)
            block.inputs = {edge.slot: edge.from_ for edge in self.trace.inputs(about.id)}
            if any(edge.out for edge in self.trace.inputs(about.id)):
                block.ports = {edge.slot: edge.out or 0 for edge in self.trace.inputs(about.id)}
            block.readers = len(self.trace.arrivals(about.id))
            where = self.trace.line(about)
            block.line = None if where is None else [f"{where[0]}:{where[1]}", where[2]]
        return block

    def _partials(self, nodes: Sequence[int]) -> Iterator[Partial]:
        for i in [i for number in nodes for i in self._into[number]]:
            edge = self.trace.edges[i]
            if edge.local is not None:
                yield Partial(i, edge.from_, edge.local, edge.out)

    def _name(self, frame: Frame) -> str:
        if isinstance(frame.item, int):
            return self.trace.label(frame.item)
        return self.trace.scopes[int(frame.item[1:])].name or frame.item

    def _shown(self, frame: Frame, deliveries: list[Delivery]) -> list[int]:
        every = range(len(self.trace.nodes))
        if len(every) <= FEW and self.inside is None:
            return list(every)
        about = {one.to for one in deliveries[:FEW]} | self._border(frame.nodes)
        if self.followed is not None:
            about.add(self.followed)
        return sorted(about)

    def _border(self, nodes: Sequence[int]) -> set[int]:
        """What goes into these nodes and what comes out of them."""
        inner = set(nodes)
        before = [e.from_ for n in nodes for e in self.trace.inputs(n) if e.from_ not in inner]
        after = [
            n for n in nodes
            if not self.trace.readers(n) or any(e.to not in inner for e in self.trace.readers(n))
        ]  # fmt: skip
        return {*before[:FEW], *after[-FEW:]}

    def _row(self, number: int, out: int, is_last: bool) -> Row:
        node, here = self.trace.nodes[number], (number, out)
        final = gradient_state(self.trace, node, out)
        state = final if is_last or final == "unwanted" else "waiting"
        if here in self._sums:
            state = "arrived"
        return Row(
            number, self.trace.label(number, out), node.ports[out].value, number in self._known,
            self._sums.get(here), state, self._arrived.get(here, 0), self._of(*here),
            out if node.outputs else None,
        )  # fmt: skip

    def paths(self) -> list[Path]:
        """The ways of the followed node, where they are few and made of numbers."""
        if self.followed is None or not self.trace.order.backward:
            return []
        found, count = paths(self.trace, self.followed)
        is_told = count == len(found) and all(path.product is not None for path in found)
        return found if is_told else []


def added(one: Summary | None, other: Summary) -> Summary | None:
    """The sum of two values that are known element by element; else None."""
    if one is None or one.v is None or other.v is None:
        return None
    a, b = np.asarray(one.v, np.float64), np.asarray(other.v, np.float64)
    return Summary(v=(a + b).tolist()) if a.shape == b.shape else None
