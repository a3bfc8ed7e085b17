"""What a loop does for the elements of one vector: its nodes as instructions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from anabranch.backends.native.chunked import Bases, ChunkWriter
from anabranch.backends.native.contraction import TakenUp, contracted
from anabranch.backends.native.emit import Emitter, Val, memory_type
from anabranch.backends.native.lowering import element, is_reduction
from anabranch.backends.native.mathematics import Mathematics
from anabranch.core.node import Literal, Node


class BodyWriter(ChunkWriter):
    """Writes the nodes of a loop, for as many elements as an emitter has lanes."""

    _turns: Mapping[int, int]  # by node, its place in the loop
    _reads: dict[Any, int]  # what a body asks for: its place among the accesses
    _taken_up: Mapping[int, TakenUp]  # by sum, the product that is rounded with it
    _products: set[int]

    def _step(self, access: int) -> int:
        return self._steps[access][-1] if self._dims else 0

    def _is_here(self, edge: Any) -> bool:
        return edge.node.id in self._turns and not is_reduction(edge.node)

    def _spread(self, e: Emitter, bases: Bases) -> dict[int, Val]:
        """What does not change along the innermost axis, in every lane."""
        spread = {}
        for i in self._reads.values():
            if self._step(i) == 0:
                access = self._accesses[i]
                kind = memory_type(access.dtype)
                one = e.once(f"load {kind}, ptr {bases[i]}, align {access.dtype.itemsize}")
                spread[i] = e.from_memory(e.in_every_lane(kind, one), access.dtype)
        return spread

    def _body(
        self, e: Mathematics, bases: Bases, index: str, count: int, spread: dict[int, Val]
    ) -> dict[int, Val]:
        """Every node for the elements from `index` on, stored; `count` of the lanes are real."""
        values = self._values(e, bases, index, count, spread)
        self._store(e, bases, index, count, values)
        return values

    def _values(
        self, e: Mathematics, bases: Bases, index: str, count: int, spread: dict[int, Val]
    ) -> dict[int, Val]:
        loaded = dict(spread)
        for i in self._reads.values():
            if i not in loaded:
                loaded[i] = self._accesses[i].load(e, bases[i], index, self._step(i), count)
        values: dict[int, Val] = {}
        for node in self.loop.nodes:
            if node.id in self._schedule.moved:
                values[node.id] = loaded[self._reads[node.id]]
            elif is_reduction(node):
                x = self._operand(e, node.inputs[0], loaded, values)
                values[node.id] = e.convert(x, node.avals[0].dtype)
            elif node.id not in self._products:
                operand = functools.partial(self._operand, e, loaded=loaded, values=values)
                values[node.id] = self._computed(e, node, operand)
        return values

    def _store(
        self, e: Emitter, bases: Bases, index: str, count: int, values: dict[int, Val]
    ) -> None:
        for node, i in self._stores:
            if not is_reduction(node):
                self._accesses[i].store(e, bases[i], index, self._step(i), count, values[node.id])
            elif self._step(i) != 0 or not self._dims:
                self._accumulate(e, node, i, bases[i], index, count, values[node.id])

    def _computed(self, e: Mathematics, node: Node, operand: Callable[[Any], Val]) -> Val:
        """An elementwise node, whose operands this function finds."""
        taken = self._taken_up.get(node.id)
        if taken is not None:
            return contracted(e, node, taken, operand)
        return element(e, node, [operand(edge) for edge in node.inputs])

    def _operand(
        self, e: Emitter, edge: Any, loaded: dict[int, Val], values: dict[int, Val]
    ) -> Val:
        if isinstance(edge, Literal):
            found = e.number(edge.value, edge.aval.dtype)
        elif self._is_here(edge):
            found = values[edge.node.id]
        else:
            found = loaded[self._reads[edge.node.id, edge.index]]
        return Val(found.text, found.dtype, edge.aval.weak)

    # Reductions

    def _total(self, e: Emitter, node: Node, value: Val) -> Val:
        return self._reduction(node).across(e, value, self._emitter)

    def _joined(self, node: Node, x: Val, y: Val) -> Val:
        e = self._emitter(1)
        joined = self._reduction(node).joined(e, x, y)
        self._take(e)
        return joined

    def _add_to_memory(self, node: Node, base: str, total: Val) -> None:
        e = self._emitter(1)
        kind, size = memory_type(total.dtype), total.dtype.itemsize
        old = e.from_memory(e.once(f"load {kind}, ptr {base}, align {size}"), total.dtype)
        new = self._reduction(node).joined(e, old, total)
        e.lines.append(f"  store {kind} {e.to_memory(new)}, ptr {base}, align {size}")
        self._take(e)

    def _accumulate(
        self, e: Emitter, node: Node, i: int, base: str, index: str, count: int, value: Val
    ) -> None:
        """Join to what memory holds, lane by lane."""
        access, step = self._accesses[i], self._step(i)
        old = access.load(e, base, index, step, count)
        new = self._reduction(node).joined(e, old, value)
        access.store(e, base, index, step, count, new)
