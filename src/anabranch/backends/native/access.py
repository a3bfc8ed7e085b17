"""How a loop reads and writes the elements of one array."""

from __future__ import annotations

from typing import NamedTuple

from anabranch.backends.native.emit import Emitter, Val, memory_type
from anabranch.backends.native.view import Strides
from anabranch.core.dtype import DType


class Access(NamedTuple):
    """The array that a value lies in, and how a loop walks through it.

    `index` and `step` below count along the innermost axis; of the emitter's lanes the first
    `count` are real.
    """

    key: tuple[int, int]
    dtype: DType
    offset: int
    strides: Strides

    def load(self, e: Emitter, base: str, index: str, step: int, count: int) -> Val:
        """Neighbouring elements as one vector, others one by one."""
        element, size = memory_type(self.dtype), self.dtype.itemsize
        pointer = self._pointer(e, base, index, step)
        if step == 1:
            text = e.load(element, size, pointer, count)
        else:
            text = self._picked(e, pointer, step, count)
        return e.from_memory(text, self.dtype)

    def _picked(self, e: Emitter, pointer: str, step: int, count: int) -> str:
        kind, size = memory_type(self.dtype), self.dtype.itemsize
        if e.lanes == 1:
            return e.once(f"load {kind}, ptr {pointer}, align {size}")
        vector, text = e.type(kind), "zeroinitializer"
        for lane in range(count):
            place = e.new(f"getelementptr {kind}, ptr {pointer}, i64 {lane * step}")
            one = e.once(f"load {kind}, ptr {place}, align {size}")
            text = e.new(f"insertelement {vector} {text}, {kind} {one}, i32 {lane}")
        return text

    def store(self, e: Emitter, base: str, index: str, step: int, count: int, value: Val) -> None:
        """Write to neighbouring elements as one vector, to others one by one; 0 steps to one."""
        element, size = memory_type(self.dtype), self.dtype.itemsize
        pointer = self._pointer(e, base, index, step or 1)
        text = e.to_memory(value)
        if step in (0, 1) or e.lanes == 1:
            e.store(text, element, size, pointer, count)
            return
        for lane in range(count):
            place = e.new(f"getelementptr {element}, ptr {pointer}, i64 {lane * step}")
            one = e.new(f"extractelement {e.type(element)} {text}, i32 {lane}")
            e.lines.append(f"  store {element} {one}, ptr {place}, align {size}")

    def _pointer(self, e: Emitter, base: str, index: str, step: int) -> str:
        if index == "0":
            return base
        if step != 1:
            index = e.new(f"mul i64 {index}, {step}")
        return e.new(f"getelementptr {memory_type(self.dtype)}, ptr {base}, i64 {index}")
