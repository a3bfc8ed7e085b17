"""What runs when: nodes of one iteration space that need not wait for each other share a loop.

A node's stage is the number of loops that must have ended before it can begin. Nodes of one stage
and one space are fused; whatever a later stage reads is stored. Both follow from one walk in
topological order, so the work is linear in the number of nodes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from anabranch.backends.native.expand import PRODUCT
from anabranch.backends.native.lowering import is_reduction, kind_of, reason_against
from anabranch.backends.native.parts import fillings, has_rows, is_run, is_update, moved
from anabranch.backends.native.sinking import Sinking
from anabranch.backends.native.view import View
from anabranch.core.aval import Aval, Shape
from anabranch.core.config import options
from anabranch.core.graph import Graph
from anabranch.core.node import Literal, Node
from anabranch.core.op import Kernel

Key = tuple[int, int]  # node id and output
ALIGNMENT = 64
LONGEST = 256  # nodes in one loop body: beyond, registers spill and compile time grows


@dataclass
class Loop:
    """Nodes fused over one iteration space."""

    space: Shape
    stage: int
    nodes: list[Any] = field(default_factory=list)


@dataclass
class Island:
    """A node that runs as a call back into the reference, and why."""

    node: Node
    stage: int
    reason: str


@dataclass
class Product:
    """A product of matrices, and the loop that runs over each block of the result, if any."""

    node: Node
    stage: int
    finish: Loop | None = None


@dataclass
class Structured:
    """A node with a loop nest of its own."""

    node: Node
    stage: int


Step = Loop | Island | Product | Structured


class Place(NamedTuple):
    """Where a value can be read once it is stored: through a view of another value's memory."""

    base: Key
    view: View


class Schedule:
    """The steps of a graph, and which values are stored.

    Attributes:
        steps: loops and islands in an order in which they can run.
        stored: keys of the values that own memory, in order of their making.
        places: for each key that is read from memory, where.
        moved: for each node that a loop copies, where its elements come from.
        parts: the values that are computed where another one, put together from them, lies.
        ready: for each key in memory, the first stage that may read it.
        wholes: those others, unless they only overwrite what was made for them.
        contracts: whether a product and the sum that reads it may be rounded once.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.contracts = options().contract
        self.steps: list[Step] = []
        self.stored: dict[Key, Aval] = {}
        self.places: dict[Key, Place] = {}
        self.moved: dict[int, Place] = {}
        self.parts: dict[Key, Place] = {}
        self._results = {
            (edge.node.id, edge.index) for edge in graph.outputs if not isinstance(edge, Literal)
        }
        self.wholes: set[Key] = set()
        # By the value that they lead to: which entry of `places` or `moved` is a view of it.
        self._shown: dict[Key, list[tuple[dict[Any, Place], Any]]] = {}
        self.home: dict[int, Loop] = {}  # node id: the loop that computes it
        self.ready: dict[Key, int] = {}
        self._open: dict[tuple[int, Shape], Loop] = {}
        self._reasons: dict[tuple[Any, ...], str | None] = {}
        for node in [*graph.parameters, *graph.order(graph.outputs)]:
            if (node.id, 0) not in self.ready:
                self._place(node)
        for edge in graph.outputs:
            if not isinstance(edge, Literal):
                self.store(edge)
        Sinking(self, LONGEST).run()
        self.steps = self.ordered([step for step in self.steps if nodes_of(step)])

    def ordered(self, steps: list[Step]) -> list[Step]:
        """The steps as they are written, as far as each finds what it reads.

        What is made is then soon read, which caches and the memory plan like.
        """
        maker = self._makers(steps)
        waits: dict[int, int] = {}
        readers: dict[int, list[int]] = {}
        last = [max(node.id for node in nodes_of(step)) for step in steps]
        for number, step in enumerate(steps):
            sources = {
                maker.get(edge.node.id, number)
                for node in nodes_of(step)
                for edge in node.inputs
                if not isinstance(edge, Literal)
            } - {number}
            waits[number] = len(sources)
            for source in sources:
                readers.setdefault(source, []).append(number)
        ready = [(last[number], number) for number, count in waits.items() if not count]
        heapq.heapify(ready)
        ordered = []
        while ready:
            _, number = heapq.heappop(ready)
            ordered.append(steps[number])
            for reader in readers.get(number, ()):
                waits[reader] -= 1
                if not waits[reader]:
                    heapq.heappush(ready, (last[reader], reader))
        assert len(ordered) == len(steps)
        return ordered

    def _makers(self, steps: list[Step]) -> dict[int, int]:
        """For each node the number of the step that computes what it shows."""
        maker = {node.id: i for i, step in enumerate(steps) for node in nodes_of(step)}
        for node in self.graph.order(self.graph.outputs):
            if node.kind == "op" and node.id not in maker:  # a view of what it takes
                source = node.inputs[0].node.id
                if source in maker:
                    maker[node.id] = maker[source]
        return maker

    def _place(self, node: Node) -> None:
        if node.kind != "op":
            self._owns(node, 0)
            return
        reason = self._reason_against(node)
        if reason is not None:
            self._alone(node, Island(node, self._stored(node), reason))
        elif node.op.lower == PRODUCT:
            self._alone(node, Product(node, self._stored(node)))
        elif isinstance(node.op.lower, Kernel):
            self._alone(node, Structured(node, self._stored(node)))
            for slot, view in fillings(node):
                if self._compute_there(node.inputs[slot], (node.id, 0), view):
                    self.wholes.add((node.id, 0))
            if is_update(node) and self._is_last_reader(node, node.inputs[0]):
                whole = View.whole(node.avals[0].shape)
                self._compute_there(node.inputs[0], (node.id, 0), whole)
        elif callable(node.op.lower) and not isinstance(node.inputs[0], Literal):
            self._move(node)
        else:
            self._join(node, space_of(node))

    def _reason_against(self, node: Node) -> str | None:
        """Found once for all nodes alike: most of a long program are."""
        if node.attrs:
            return reason_against(node)
        # Avals are told apart as objects, which the graph keeps: that is quick, and mostly enough.
        key = (node.op, *map(id, node.avals), *[kind_of(edge) for edge in node.inputs])
        if key not in self._reasons:
            self._reasons[key] = reason_against(node)
        return self._reasons[key]

    def _owns(self, node: Node, ready: int) -> None:
        for index, aval in enumerate(node.avals):
            key = (node.id, index)
            self.stored[key] = aval
            self.places[key] = Place(key, View.whole(aval.shape))
            self.ready[key] = ready

    def _move(self, node: Node) -> None:
        """A node that only moves elements: a view of its input, or a loop that copies them."""
        source = self.store(node.inputs[0])
        view = node.op.lower(source.view, **node.attrs)  # type: ignore[operator]
        if view is None:
            self._show(self.moved, node.id, source)
            self._join(node, node.inputs[0].aval.shape)
        else:
            self._show(self.places, (node.id, 0), Place(source.base, view))
            self.ready[node.id, 0] = self.ready[node.inputs[0].node.id, node.inputs[0].index]

    def _show(self, places: dict[Any, Place], key: Any, place: Place) -> None:
        places[key] = place
        self._shown.setdefault(place.base, []).append((places, key))

    def _is_last_reader(self, node: Node, edge: Any) -> bool:
        """Whether a value is made in memory of its own, for this node alone."""
        if isinstance(edge, Literal) or (edge.node.id, edge.index) in self._results:
            return False
        base = self.places[edge.node.id, edge.index].base
        return base == (edge.node.id, edge.index) and len(self.graph.consumers(edge.node)) == 1

    def _compute_there(self, edge: Any, whole: Key, part: View) -> bool:
        """Let what makes a value write it into its part of another, where that can be."""
        if isinstance(edge, Literal):
            return False
        place = self.places[edge.node.id, edge.index]
        base, aval = place.base, self.stored[place.base]
        node = self.graph.nodes[base[0]]
        if (
            node.kind != "op"
            or base in self.parts
            or base in self.wholes
            or not (place.view.is_whole and aval.size == edge.aval.size)
            or aval.dtype != self.stored[whole].dtype
        ):
            return False
        view = part if part.shape == aval.shape else part.reshape(aval.shape)
        if view is None:
            return False
        home = None if is_reduction(node) else self.home.get(base[0])
        has_way = home is not None and base not in self._shown and has_rows(view)
        if not is_run(view) and not (has_way and home and view.reshape(home.space) is not None):
            return False
        for places, key in self._shown.pop(base, ()):
            self._show(places, key, Place(whole, moved(places[key].view, view)))
        for places in (self.parts, self.places):
            self._show(places, base, Place(whole, view))
        return True

    def _stored(self, node: Node) -> int:
        """The stage at which everything that the node reads is in memory."""
        stage = 0
        for edge in node.inputs:
            if not isinstance(edge, Literal):
                self.store(edge)
                stage = max(stage, self.ready[edge.node.id, edge.index])
        return stage

    def _alone(self, node: Node, step: Island | Product | Structured) -> None:
        self.steps.append(step)
        self._owns(node, step.stage + 1)

    def _join(self, node: Node, space: Shape) -> None:
        stage = 0
        homes = []
        for edge in node.inputs:
            if type(edge) is Literal:
                continue
            home = self.home.get(edge.node.id)
            homes.append((edge, home))
            if home is not None and self.is_fused(edge.node, home, space):
                stage = max(stage, home.stage)
            else:
                self.store(edge)
                stage = max(stage, self.ready[edge.node.id, edge.index])
        loop = None if node.id in self.moved else self._open.get((stage, space))
        if loop is None or len(loop.nodes) == LONGEST:
            loop = Loop(space, stage)
            self.steps.append(loop)
            if node.id not in self.moved:  # a copy is made when it is wanted, not with others
                self._open[stage, space] = loop
        for edge, home in homes:  # what another loop made, an earlier one, is read from memory
            if home is not loop:
                self.store(edge)
        loop.nodes.append(node)
        self.home[node.id] = loop

    def is_fused(self, node: Node, home: Loop, space: Shape) -> bool:
        """Whether a node's value can be had in registers in a loop over this space."""
        return home.space == space == node.avals[0].shape and not is_reduction(node)

    def is_own(self, node: Node) -> bool:
        """Whether a value has memory of its own that nothing else is a view of, and no user."""
        key = (node.id, 0)
        is_kept = key in self._results or key in self.parts or key in self.wholes
        return not is_kept and key not in self._shown and node.id not in self.moved

    def store(self, edge: Any) -> Place:
        """Make sure that a value is in memory, and say where."""
        key = (edge.node.id, edge.index)
        place = self.places.get(key)
        if place is None:
            home = self.home[edge.node.id]
            self._owns(edge.node, home.stage + 1)
            place = self.places[key]
        return place


def nodes_of(step: Step) -> list[Node]:
    """The nodes that a step computes."""
    if isinstance(step, Loop):
        return step.nodes
    return [step.node, *(step.finish.nodes if isinstance(step, Product) and step.finish else ())]


def size_of(aval: Aval) -> int:
    """The bytes of a value, rounded up so that the next one is aligned."""
    return -(-aval.size * aval.dtype.itemsize // ALIGNMENT) * ALIGNMENT


def space_of(node: Node) -> Shape:
    """What a loop that computes this node runs over."""
    return node.inputs[0].aval.shape if is_reduction(node) else node.avals[0].shape


def reads(loop: Loop) -> Iterator[Any]:
    """The edges that the nodes of a loop take."""
    for node in loop.nodes:
        for edge in node.inputs:
            if not isinstance(edge, Literal):
                yield edge
