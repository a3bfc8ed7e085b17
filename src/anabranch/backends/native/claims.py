"""Where the values of a program lie: which of them the caller owns, which the workspace holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from anabranch.backends.native import memory
from anabranch.backends.native.expand import constants_of
from anabranch.backends.native.finishing import finish
from anabranch.backends.native.lowering import is_reduction
from anabranch.backends.native.schedule import (
    Island,
    Key,
    Loop,
    Place,
    Product,
    Schedule,
    Step,
    Structured,
    nodes_of,
    reads,
)
from anabranch.backends.native.view import View
from anabranch.core.aval import Aval
from anabranch.core.graph import Graph
from anabranch.core.node import Literal, Node
from anabranch.core.op import Op
from anabranch.ops.elementwise import identity


@dataclass(frozen=True)
class Copy:
    """Stands where a node would, for an output that is a copy of something."""

    id: int
    avals: tuple[Aval, ...]
    op: Op = identity
    inputs: tuple[Any, ...] = ()


class Claims:
    """The steps of a graph, and the memory of what they make.

    Attributes:
        donated: for each parameter whose memory an output takes, that output.
        steps: what runs, in order.
        constants: the nodes whose arrays are handed over.
        donated: the output that is written to each parameter that is given away.
        first_output: the place of the first output among the addresses.
        rooms: for each value in the workspace, where it lies and for how long.
        workspace: bytes of the workspace.
    """

    def __init__(self, graph: Graph, donated: Mapping[int, int]) -> None:
        self.graph = graph
        self.donated = donated
        self.schedule = schedule = Schedule(graph)
        self.constants = constants_of(graph)
        self._given: dict[Key, int] = {}  # what the caller owns: its place among the addresses
        for node in (*graph.parameters, *self.constants):
            self._given[node.id, 0] = len(self._given)
        self.first_output = len(self._given)
        finish(schedule)
        self.steps = schedule.steps
        self.donated = donated
        self._claim_outputs(donated)
        self.rooms, self.workspace = self._planned()

    def _claim_outputs(self, donated: Mapping[int, int]) -> None:
        """Values that are computed for an output go straight there; the others are copied."""
        reused = {output: self.graph.parameters[one] for one, output in donated.items()}
        claims: dict[int, Key] = {}
        for number, edge in enumerate(self.graph.outputs):
            if isinstance(edge, Literal):
                continue
            place = self.schedule.places[edge.node.id, edge.index]
            is_free = place.base not in self._given and place.view.is_whole
            if is_free and self.schedule.stored[place.base].size == edge.aval.size:
                claims[number] = place.base
                self._given[place.base] = self.first_output + number
            elif edge.node is not reused.get(number):  # what stays as it is, is there already
                claims[number] = self._copy(-1 - number, number, edge.aval, place)
        self._first_overwritten = len(self.steps)  # no error comes behind it
        if reused:
            self._overwrite({claims[i]: node for i, node in reused.items() if i in claims})

    def _overwrite(self, claims: Mapping[Key, Node]) -> None:
        """Values that go into the memory of a parameter: at once, or else in the end."""
        made = {key: i for i, step in enumerate(self.steps) for key in self._makes(step)}
        used = {key: i for i, step in enumerate(self.steps) for key in self._uses(step)}
        failing = max((i for i, step in enumerate(self.steps) if may_fail(step)), default=-1)
        late = []
        for key, node in claims.items():
            last, time = max(failing, used.get((node.id, 0), -1)), made.get(key, -1)
            is_one = key not in self.schedule.wholes  # which several steps write
            if last > time or not (is_one and self._may_overwrite(node, key, self.steps[time])):
                late.append(key)
            else:
                self._first_overwritten = min(self._first_overwritten, time)
        for key in late:
            aval, place = self.schedule.stored[key], self._given.pop(key)
            number = place - self.first_output
            whole = Place(key, View.whole(aval.shape))
            self._copy(-1 - len(self.graph.outputs) - number, number, aval, whole)

    def _may_overwrite(self, parameter: Node, key: Key, writer: Step) -> bool:
        """Whether a step can write a value straight into the memory of a parameter.

        Nothing may read the parameter later, or at another place while the value is written; and
        nothing may fail later, so that a call that fails leaves the parameter as it was.
        """
        if isinstance(writer, Structured):  # it may have written some before it fails
            return False
        memory = (parameter.id, 0)
        if memory not in self._uses(writer):
            return True
        loop = writer
        if isinstance(writer, Product) and writer.finish and key[0] != writer.node.id:
            if memory in self._sources(writer.node):
                return False
            loop = writer.finish
        return isinstance(loop, Loop) and self._reads_what_it_writes(loop, memory, key)

    def _sources(self, node: Any) -> Iterator[Key]:
        """The keys whose memory a node that stands alone reads."""
        for edge in node.inputs:
            if not isinstance(edge, Literal):
                place = self.schedule.places.get((edge.node.id, edge.index))
                if place is not None:
                    yield place.base

    def _reads_what_it_writes(self, loop: Loop, memory: Key, key: Key) -> bool:
        """Whether a loop reads this memory only where it writes the value in the same iteration."""
        writer = next(node for node in loop.nodes if node.id == key[0])
        reads_ = [self.schedule.places.get((e.node.id, e.index)) for e in reads(loop)]
        moved = [self.schedule.moved[n.id] for n in loop.nodes if n.id in self.schedule.moved]
        views = [place.view for place in (*reads_, *moved) if place and place.base == memory]
        whole = View.whole(loop.space)
        return not is_reduction(writer) and all(view == whole for view in views)

    def _copy(self, name: int, number: int, aval: Aval, place: Place) -> Key:
        """An output that is not computed in memory of its own: a loop that only moves."""
        aval, place = _as_pairs(aval, place)
        copy = Copy(name, (aval,))
        self.schedule.moved[copy.id] = place
        self.schedule.stored[copy.id, 0] = aval
        self.schedule.places[copy.id, 0] = Place((copy.id, 0), View.whole(aval.shape))
        self._given[copy.id, 0] = self.first_output + number
        loop = Loop(aval.shape, self.steps[-1].stage + 1 if self.steps else 0, [copy])
        self.schedule.home[copy.id] = loop
        self.steps.append(loop)
        return copy.id, 0

    def _makes(self, step: Step) -> Iterator[Key]:
        """The keys that a step stores."""
        for node in nodes_of(step):
            for index in range(len(node.avals)):
                if (node.id, index) in self.schedule.stored:
                    yield node.id, index

    def _uses(self, step: Step) -> Iterator[Key]:
        """The keys whose memory a step touches."""
        schedule = self.schedule
        nodes = nodes_of(step)
        for node in nodes:
            yield from self._sources(node)
        for node in nodes:
            if node.id in schedule.moved:
                yield schedule.moved[node.id].base
        for key in self._makes(step):
            yield schedule.places[key].base

    def _planned(self) -> tuple[dict[Key, memory.Room], int]:
        """Where in the workspace each value lies that the caller does not own."""
        stored = self.schedule.stored
        return memory.planned(
            [
                [
                    (key, stored[key].size * stored[key].dtype.itemsize)
                    for key in self._uses(step)
                    if key not in self._given
                ]
                for step in self.steps
            ]
        )


def _as_pairs(aval: Aval, place: Place) -> tuple[Aval, Place]:
    """Complex numbers as what they are in memory; anything else as it is."""
    if aval.dtype.kind != "c":
        return aval, place
    view = place.view
    pairs = View((*view.shape, 2), (*(2 * s for s in view.strides), 1), 2 * view.offset)
    half = np.dtype(f"f{aval.dtype.itemsize // 2}")
    return Aval((*aval.shape, 2), half), Place(place.base, pairs)


def may_fail(step: Step) -> bool:
    """Whether a step can end the run with an error."""
    return isinstance(step, Island | Structured)
