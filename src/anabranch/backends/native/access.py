"""How a loop reads and writes the elements of one array."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.backends.native.emit import Emitter, Val, memory_type
from anabranch.backends.native.view import Strides
from anabranch.core.dtype import DType


@dataclass(frozen=True)
class Access:
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
        kind = e.type(element)
        pointer = self._pointer(e, base, index, step)
        if step == 1 and count == e.lanes:
            text = e.new(f"load {kind}, ptr {pointer}, align {size}")
        elif step == 1:
            function = f"@llvm.masked.load.v{e.lanes}{_suffix(element)}.p0"
            e.declared.add(f"declare {kind} {function}(ptr, i32, <{e.lanes} x i1>, {kind})")
            given = f"ptr {pointer}, i32 {size}, {real_lanes(e, count)}, {kind} zeroinitializer"
            text = e.new(f"call {kind} {function}({given})")
        else:
            text = self._picked(e, pointer, step, count)
        return e.from_memory(text, self.dtype)

    def _picked(self, e: Emitter, pointer: str, step: int, count: int) -> str:
        kind, size = memory_type(self.dtype), self.dtype.itemsize
        if e.lanes == 1:
            return e.new(f"load {kind}, ptr {pointer}, align {size}")
        vector, text = e.type(kind), "zeroinitializer"
        for lane in range(count):
            place = e.new(f"getelementptr {kind}, ptr {pointer}, i64 {lane * step}")
            one = e.new(f"load {kind}, ptr {place}, align {size}")
            text = e.new(f"insertelement {vector} {text}, {kind} {one}, i32 {lane}")
        return text

    def store(self, e: Emitter, base: str, index: str, step: int, count: int, value: Val) -> None:
        """Write to neighbouring elements: results are in C order, so `step` is 1, or 0 for one."""
        element, size = memory_type(self.dtype), self.dtype.itemsize
        kind = e.type(element)
        pointer = self._pointer(e, base, index, step or 1)
        text = e.to_memory(value)
        if count == e.lanes:
            e.lines.append(f"  store {kind} {text}, ptr {pointer}, align {size}")
            return
        function = f"@llvm.masked.store.v{e.lanes}{_suffix(element)}.p0"
        e.declared.add(f"declare void {function}({kind}, ptr, i32, <{e.lanes} x i1>)")
        given = f"{kind} {text}, ptr {pointer}, i32 {size}, {real_lanes(e, count)}"
        e.lines.append(f"  call void {function}({given})")

    def _pointer(self, e: Emitter, base: str, index: str, step: int) -> str:
        if index == "0":
            return base
        if step != 1:
            index = e.new(f"mul i64 {index}, {step}")
        return e.new(f"getelementptr {memory_type(self.dtype)}, ptr {base}, i64 {index}")


def real_lanes(e: Emitter, count: int) -> str:
    """The mask of the first lanes, with its type."""
    lanes = ["i1 true"] * count + ["i1 false"] * (e.lanes - count)
    return f"<{e.lanes} x i1> <{', '.join(lanes)}>"


def _suffix(element: str) -> str:
    return {"double": "f64", "float": "f32", "half": "f16"}.get(element, element)
