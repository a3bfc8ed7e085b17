"""Values that wait for their only reader: computed there, they need no memory of their own.

The walk that makes loops puts a node into the first loop that can compute it. Where all that reads
it stands in one later loop over the same space, that loop can compute it as well, and nothing is
stored in between. Each node is looked at once, readers first, so a chain moves as a whole.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from anabranch.core.aval import Aval
from anabranch.core.node import Literal, Node

if TYPE_CHECKING:
    from anabranch.backends.native.schedule import Loop, Schedule


class Sinking:
    """Moves nodes of a schedule to later loops, where that saves memory traffic."""

    def __init__(self, schedule: Schedule, longest: int) -> None:
        self._schedule = schedule
        self._longest = longest  # nodes in a loop
        self._read: dict[int, set[tuple[int, int]]] = {}  # by loop: what it reads from memory

    def run(self) -> None:
        for number in sorted(self._schedule.home, reverse=True):
            node = self._schedule.graph.nodes[number]
            reader = self._only_reader(node)
            if reader is not None and self._saves(node, reader):
                self._move(node, reader)

    def _only_reader(self, node: Node) -> Loop | None:
        """The later loop that has all readers of a stored value, and could compute it."""
        schedule, key, home = self._schedule, (node.id, 0), self._schedule.home[node.id]
        if key not in schedule.stored or not schedule.is_own(node):
            return None
        readers = {id(loop): loop for loop in self._readers(node)}
        if len(readers) != 1:
            return None
        (loop,) = readers.values()
        if loop is None or loop.stage <= home.stage or len(loop.nodes) >= self._longest:
            return None
        return loop if schedule.is_fused(node, home, loop.space) else None

    def _readers(self, node: Node) -> Iterator[Loop | None]:
        for reader, _ in self._schedule.graph.consumers(node):
            moves = reader.id in self._schedule.moved
            yield None if moves else self._schedule.home.get(reader.id)

    def _saves(self, node: Node, reader: Loop) -> bool:
        """Whether the reader would read no more than it does now."""
        more, known = 0, self._reads_of(reader)
        for edge in node.inputs:
            if isinstance(edge, Literal) or (edge.node.id, edge.index) in known:
                continue
            place = self._schedule.places.get((edge.node.id, edge.index))
            if place is None:  # in a register now, and to be stored instead
                more += _bytes(edge.aval)
            else:
                steps = zip(place.view.shape, place.view.strides, strict=True)
                more += math.prod(n for n, step in steps if step) * edge.aval.dtype.itemsize
        return more <= _bytes(node.avals[0])

    def _reads_of(self, loop: Loop) -> set[tuple[int, int]]:
        if id(loop) not in self._read:
            self._read[id(loop)] = {
                (edge.node.id, edge.index)
                for node in loop.nodes
                for edge in node.inputs
                if not isinstance(edge, Literal)
            }
        return self._read[id(loop)]

    def _move(self, node: Node, reader: Loop) -> None:
        schedule = self._schedule
        for edge in node.inputs:
            if not isinstance(edge, Literal):
                schedule.store(edge)
                self._reads_of(reader).add((edge.node.id, edge.index))
        home = schedule.home[node.id]
        del home.nodes[bisect_left(home.nodes, node.id, key=_number)]
        insort(reader.nodes, node, key=_number)  # ids rise from what is read to what reads
        schedule.home[node.id] = reader
        del schedule.stored[node.id, 0], schedule.places[node.id, 0]


def _bytes(aval: Aval) -> int:
    return aval.size * int(aval.dtype.itemsize)


def _number(node: Any) -> int:
    return int(node.id)
