"""A loop over one element: instructions one after the other, as whole programs of numbers are.

What it reads and writes in the workspace it finds by a table of offsets. So the program that calls
it says no more than where the table is, however many values there are; and two of them that compute
the same with other values are one function.
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from typing import Any

from anabranch.backends.native.emit import Emitter, Val, memory_type
from anabranch.backends.native.loops import LoopCode
from anabranch.backends.native.lowering import is_reduction
from anabranch.backends.native.schedule import Key, Loop
from anabranch.core.node import Literal

MANY = 48  # nodes from which on all functions are called: those that fit in are too few to matter


def is_straight(loop: Loop) -> bool:
    """Whether a loop goes round once, and joins nothing."""
    return all(n == 1 for n in loop.space) and not any(map(is_reduction, loop.nodes))


class StraightCode(LoopCode):
    """The IR function of such a loop.

    Attributes:
        given: the values of the caller's whose memory it takes, one pointer each.
        placed: those in the workspace; it takes a pointer to this, and one to their offsets.
    """

    def place(self, given: Collection[Key]) -> None:
        """Tell apart whose memory it is."""
        self.given = [key for key in self.pointers if key in given]
        self.placed = [key for key in self.pointers if key not in given]
        self._table = {key: row for row, key in enumerate(self.placed)}

    def signature(self) -> tuple[Any, ...]:
        return (*super().signature(), tuple(self._slots[key] for key in self.given))

    def _arguments(self) -> str:
        names = [f"ptr %p{self._slots[key]}" for key in self.given]
        return ", ".join([*names, *(["ptr %workspace", "ptr %offsets"] if self.placed else [])])

    def _write(self) -> None:
        """Each value is loaded where it is first used and stored where it is made.

        The caller's memory is written last: it may be read from, too.
        """
        e = self._emitter(1)
        if len(self.loop.nodes) > MANY:
            e.longest = 0
        self._loaded_values: dict[int, Val] = {}
        values: dict[int, Val] = {}
        stores = {node.id: i for node, i in self._stores}
        late = []
        for node in self.loop.nodes:
            if node.id in self._schedule.moved:
                value = self._value(e, self._reads[node.id])
            elif node.id in self._products:
                continue
            else:
                value = self._computed(e, node, functools.partial(self._taken, e, values=values))
            values[node.id] = value
            if (i := stores.get(node.id)) is None:
                continue
            if self._accesses[i].key in self._table:
                self._put(e, i, value)
            else:
                late.append((i, value))
        for i, value in late:
            self._put(e, i, value)
        self._take(e)

    def _taken(self, e: Emitter, edge: Any, values: dict[int, Val]) -> Val:
        if not isinstance(edge, Literal) and not self._is_here(edge):
            self._value(e, self._reads[edge.node.id, edge.index])
        return self._operand(e, edge, self._loaded_values, values)

    def _value(self, e: Emitter, i: int) -> Val:
        """What an access reads."""
        found = self._loaded_values.get(i)
        if found is None:
            found = self._accesses[i].load(e, self._address(e, i), "0", 0, 1)
            self._loaded_values[i] = found
        return found

    def _put(self, e: Emitter, i: int, value: Val) -> None:
        self._accesses[i].store(e, self._address(e, i), "0", 0, 1, value)

    def _address(self, e: Emitter, i: int) -> str:
        access = self._accesses[i]
        row = self._table.get(access.key)
        base = f"%p{self._slots[access.key]}"
        if row is not None:
            place = e.new(f"getelementptr i64, ptr %offsets, i64 {row}")
            offset = e.new(f"load i64, ptr {place}, align 8")
            base = e.new(f"getelementptr i8, ptr %workspace, i64 {offset}")
        if not access.offset:
            return base
        kind = memory_type(access.dtype)
        return e.new(f"getelementptr {kind}, ptr {base}, i64 {access.offset}")
