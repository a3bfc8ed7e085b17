"""Products of a vector and a matrix whose columns lie side by side in memory, as dot products.

What is cut into chunks are the results, so no sum depends on who makes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.backends.native.operands import Operand, Shapes
from anabranch.backends.native.partition import CHUNK, MOST, SHARED_FROM
from anabranch.backends.native.tiles import VectorWriter
from anabranch.backends.native.writer import Writer

TOGETHER = 4  # results at once, which read the vector once
SUMS = 8  # sums that grow at the same time, so that none waits for the one before
FROM_AFAR = 0.04  # ns for a byte of a large matrix


def are_dots(a: Operand, b: Operand) -> bool:
    """Whether this is a row times a matrix, both of which lie along the summed axis."""
    return a.view.shape[-2] == 1 and a.view.strides[-1] == 1 and b.view.strides[-2] == 1


class DotsCode(Writer):
    """The IR functions of one such product: `@name(a, b, c, scratch)`, and of its chunks.

    Attributes:
        shares: whether threads share it.
        text: the functions.
    """

    def __init__(
        self, name: str, a: Operand, b: Operand, shapes: Shapes, declared: set[str]
    ) -> None:
        super().__init__(declared)
        self.name, self._shapes = name, shapes
        self._depth, self._count = b.view.shape[-2:]
        self._step = b.view.strides[-1]
        groups = -(-self._count // TOGETHER)
        time = self._count * self._depth * shapes.bytes * FROM_AFAR
        chunks = min(int(time / CHUNK), MOST, groups) if time >= SHARED_FROM else 1
        self._each = -(-groups // max(chunks, 1)) * TOGETHER
        chunks = -(-self._count // self._each)
        self.shares = chunks > 1
        lanes = shapes.lanes
        while lanes > self._depth and lanes > 1:
            lanes //= 2
        self._lanes = lanes
        self.text = "\n".join([self._chunk(), self._driver(chunks)])

    def _chunk(self) -> str:
        """`@part_name(frame, chunk)`: some of the results."""
        for i, word in enumerate("abc"):
            place = self._new(f"getelementptr ptr, ptr %frame, i64 {i}")
            self._line(f"%{word} = load ptr, ptr {place}")
        first = self._times("%chunk", self._each)
        left = self._new(f"sub i64 {self._count}, {first}")
        is_last = self._new(f"icmp sle i64 {left}, {self._each}")
        count = self._new(f"select i1 {is_last}, i64 {left}, i64 {self._each}")
        whole = self._new(f"sdiv i64 {count}, {TOGETHER}")
        with self._counted_to(whole) as group:
            self._call(TOGETHER, self._plus(first, self._times(group, TOGETHER)))
        rest = self._new(f"srem i64 {count}, {TOGETHER}")
        done = self._plus(first, self._times(whole, TOGETHER))
        with self._counted_to(rest) as one:
            self._call(1, self._plus(done, one))
        return self._text(f"define internal void @part_{self.name}(ptr %frame, i64 %chunk)")

    def _plus(self, x: str, y: str) -> str:
        return self._new(f"add i64 {x}, {y}")

    def _call(self, rows: int, number: str) -> None:
        name = DotCode(rows, self._lanes, self._shapes.dtype, self.declared).name
        dtype = self._shapes.dtype
        b = self._moved_on("%b", dtype, self._times(number, self._step))
        c = self._moved_on("%c", dtype, number)
        given = f"i64 {self._depth}, ptr %a, ptr {b}, i64 {self._step}, ptr {c}"
        self._line(f"call void @{name}({given})")

    def _driver(self, chunks: int) -> str:
        self._lines, self._block = [], "entry"
        self._line("%frame = alloca ptr, i64 3")
        for i, word in enumerate("abc"):
            place = self._new(f"getelementptr ptr, ptr %frame, i64 {i}")
            self._line(f"store ptr %{word}, ptr {place}")
        if self.shares:
            self.declared.add("declare void @pool(ptr, ptr, i64)")
            self._line(f"call void @pool(ptr @part_{self.name}, ptr %frame, i64 {chunks})")
        else:
            self._line(f"call void @part_{self.name}(ptr %frame, i64 0)")
        return self._text(
            f"define internal void @{self.name}(ptr %a, ptr %b, ptr %c, ptr %scratch)"
        )


class DotCode(VectorWriter):
    """Dot products of a vector with neighbours: `(k, the vector, the first of them, step, to)`."""

    def __init__(self, rows: int, lanes: int, dtype: Any, declared: set[str]) -> None:
        super().__init__(lanes, dtype, declared)
        self._rows, self._lanes = rows, lanes
        self.name = f"dots_{rows}x{lanes}_{self._element}"
        self._starts = [self._at("%b", self._times("%step", i)) for i in range(rows)]
        zero = "zeroinitializer" if lanes > 1 else "0.0"
        turns = SUMS // rows
        whole = self._new(f"and i64 %k, {-turns * lanes}")
        sums = self._grown("0", whole, turns, [zero] * SUMS)
        full = self._new(f"and i64 %k, {-lanes}")
        sums = self._grown(whole, full, 1, sums)
        if lanes > 1:
            sums = self._rest(full, sums)
        for i in range(rows):
            self._finish(i, sums[i::rows])
        head = f"define internal void @{self.name}(i64 %k, ptr %a, ptr %b, i64 %step, ptr %c)"
        declared.add(self._text(head))

    def _grown(self, first: str, last: str, turns: int, sums: Sequence[str]) -> list[str]:
        """The sums after a loop from `first` up to `last`, so many vectors a turn."""
        step = turns * self._lanes
        with self._growing(last, step, first, self._vector, sums) as (counter, held, grown):
            for turn in range(turns):
                k = counter if turn == 0 else self._new(f"add i64 {counter}, {turn * self._lanes}")
                x = self._load(self._at("%a", k), self._lanes)
                for i, start in enumerate(self._starts):
                    n = turn * self._rows + i
                    grown[n] = self._more(grown[n], x, self._load(self._at(start, k), self._lanes))
        return held

    def _more(self, total: str, x: str, y: str) -> str:
        kind, function = self._vector, f"@llvm.fmuladd.{self._e.suffix(self._element)}"
        self.declared.add(f"declare {kind} {function}({kind}, {kind}, {kind})")
        return self._new(f"call {kind} {function}({kind} {x}, {kind} {y}, {kind} {total})")

    def _rest(self, full: str, sums: Sequence[str]) -> list[str]:
        """What is left at the end: less than a vector."""
        mask = self._first(self._new(f"sub i64 %k, {full}"))
        x = self._e.load_where(mask, self._element, self._size, self._at("%a", full))
        grown = list(sums)
        for i, start in enumerate(self._starts):
            y = self._e.load_where(mask, self._element, self._size, self._at(start, full))
            grown[i] = self._more(grown[i], x, y)
        return grown

    def _finish(self, row: int, sums: Sequence[str]) -> None:
        """The sums of a row joined, then their lanes, one half with the other."""
        parts, lanes = list(sums), self._lanes
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [self._new(f"fadd {self._vector} {x}, {y}") for x, y in pairs]
        (total,) = parts
        while lanes > 1:
            vector, lanes = f"<{lanes} x {self._element}>", lanes // 2
            halves = []
            for start in (0, lanes):
                if lanes == 1:
                    halves.append(self._new(f"extractelement {vector} {total}, i32 {start}"))
                    continue
                order = ", ".join(f"i32 {lane}" for lane in range(start, start + lanes))
                pair = f"{vector} {total}, {vector} poison, <{lanes} x i32> <{order}>"
                halves.append(self._new(f"shufflevector {pair}"))
            kind = self._element if lanes == 1 else f"<{lanes} x {self._element}>"
            total = self._new(f"fadd {kind} {halves[0]}, {halves[1]}")
        self._line(f"store {self._element} {total}, ptr {self._at('%c', row)}, align {self._size}")
