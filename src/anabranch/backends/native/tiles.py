"""The inner part of a matrix product: a tile of the result in registers.

It is an IR function that all products share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.backends.native.emit import Val, memory_type, register_type
from anabranch.backends.native.writer import Writer
from anabranch.core.dtype import DType

LINE = 64  # bytes that come near at once
FEW, MANY = (
    2,
    18,
)  # vectors of a tile between which a turn is one step along the summed axis, not two
FETCHED = 16  # bytes that one step fetches of what comes next
LATE = 32  # steps before the end when C is fetched: time enough, and too little to lose it again


@dataclass(frozen=True)
class Tile:
    """Rows of the result, and vectors of `lanes` elements across, of which `columns` are real.

    `result` is the dtype that is written. Rows of B that are `padded` may be read up to the end of
    the last vector, as they may where B is packed.
    """

    rows: int
    vectors: int
    lanes: int
    columns: int
    result: DType
    padded: bool = False

    @property
    def element(self) -> str:
        return register_type(self.result)

    @property
    def bytes(self) -> int:
        return 8 if self.element == "double" else 4

    @property
    def name(self) -> str:
        reads = "padded" if self.padded and self.columns < self.vectors * self.lanes else "real"
        return f"{self.rows}x{self.vectors}x{self.lanes}_{self.columns}_{self.result}_{reads}"

    def real(self, vector: int) -> int:
        """How many lanes of this vector are real."""
        return min(self.lanes, self.columns - vector * self.lanes)

    def read(self, vector: int) -> int:
        """How many lanes of a row of B are read into this vector."""
        return self.lanes if self.padded else self.real(vector)


class VectorWriter(Writer):
    """A writer that loads and stores vectors of elements as they are computed."""

    def __init__(self, lanes: int, dtype: DType, declared: set[str]) -> None:
        super().__init__(declared)
        self._dtype = dtype
        self._element = register_type(dtype)
        self._size = 8 if self._element == "double" else 4
        self._e = self._emitter(lanes)
        self._vector = self._e.type(self._element)
        self._e.lines = self._lines  # it writes no labels, so both can write in turn
        self._e.known = None  # but others write labels between

    def _at(self, base: str, elements: str | int, kind: str = "") -> str:
        if str(elements) == "0":
            return base
        return self._new(f"getelementptr {kind or self._element}, ptr {base}, i64 {elements}")

    def _load(self, pointer: str, count: int) -> str:
        return self._e.load(self._element, self._size, pointer, count)

    def _store(self, value: str, pointer: str, count: int) -> None:
        self._e.store(value, self._element, self._size, pointer, count)

    def _first(self, count: str) -> str:
        """The mask of as many lanes as there are, with its type."""
        kind = self._e.type("i64")
        numbers = ", ".join(f"i64 {lane}" for lane in range(self._e.lanes))
        every = self._e.in_every_lane("i64", count)
        return f"<{self._e.lanes} x i1> " + self._new(f"icmp slt {kind} <{numbers}>, {every}")


class TileCode(VectorWriter):
    """C = A B, or C + A B, for one tile of C.

    `(k, a, a's row step, a's step along k, b, b's step along k, c, c's row step, add, next)`. The
    steps lie in registers, so one function serves packed operands and those read where they lie.
    A tile of many vectors fetches `FETCHED * k` bytes from `next` on, which are wanted soon.
    """

    def __init__(self, tile: Tile, declared: set[str]) -> None:
        super().__init__(tile.lanes, tile.result, declared)
        self.tile = tile
        self.name = f"tile_{tile.name}"
        rows = [self._at("%a", self._times("%ra", i)) for i in range(tile.rows)]
        sums = self._summed(rows)
        self._write(sums)
        arguments = "i64 %k, ptr %a, i64 %ra, i64 %ka, ptr %b, i64 %kb, ptr %c, i64 %rc, i1 %add"
        arguments += ", ptr %next"
        declared.add(self._text(f"define internal void @{self.name}({arguments})"))

    def _fetch(self, place: str, writes: int) -> None:
        self.declared.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        self._line(f"call void @llvm.prefetch.p0(ptr {place}, i32 {writes}, i32 3, i32 1)")

    def _fetch_result(self) -> None:
        """Bring the rows of C near while the sums are made."""
        tile, kind = self.tile, memory_type(self.tile.result)
        each = max(LINE // tile.result.itemsize, 1)
        for i in range(tile.rows):
            row = self._at("%c", self._times("%rc", i), kind)
            for j in range(0, tile.columns, each):
                self._fetch(self._at(row, j, kind), 1)

    def _fetch_next(self, k: str) -> None:
        fetched = self._new(f"mul i64 {k}, {FETCHED}")
        self._fetch(self._new(f"getelementptr i8, ptr %next, i64 {fetched}"), 0)

    def _summed(self, rows: Sequence[str]) -> list[str]:
        """The names of the sums: two steps a turn where that gains, and then those left over."""
        sums = ["zeroinitializer" if self.tile.lanes > 1 else "0.0"] * self._count
        if FEW < self._count < MANY:
            return self._loop(rows, "0", "%k", 1, sums)
        whole = self._new("and i64 %k, -2")
        sums = self._loop(rows, "0", whole, 2, sums)
        return self._loop(rows, whole, "%k", 1, sums)

    @property
    def _count(self) -> int:
        return self.tile.rows * self.tile.vectors

    def _loop(
        self, rows: Sequence[str], first: str, last: str, steps: int, starts: Sequence[str]
    ) -> list[str]:
        """The rows of C are fetched on the way, but where steps are too short to look at that."""
        late = ""
        if first == "0" and self._count > FEW:
            early = self._new(f"sub i64 {last}, {LATE}")
            is_long = self._new(f"icmp sgt i64 {early}, 0")
            late = self._new(f"select i1 {is_long}, i64 {early}, i64 0")
        elif first == "0":
            self._fetch_result()
        with self._growing(last, steps, first, self._vector, starts) as (counter, sums, grown):
            if late:
                with self._if(self._new(f"icmp eq i64 {counter}, {late}")):
                    self._fetch_result()
            if self._count >= MANY:
                self._fetch_next(counter)
            for step in range(steps):
                grown[:] = self._step(rows, counter, step, grown)
        return sums

    def _step(self, rows: Sequence[str], counter: str, step: int, sums: Sequence[str]) -> list[str]:
        tile = self.tile
        k = counter if step == 0 else self._new(f"add i64 {counter}, {step}")
        ak, bk = (self._new(f"mul i64 {k}, %k{side}") for side in "ab")
        b = self._at("%b", bk)
        right = []
        for j in range(tile.vectors):
            right.append(self._load(self._at(b, j * tile.lanes), tile.read(j)))
        function = f"@llvm.fmuladd.{self._e.suffix(tile.element)}"
        self.declared.add(f"declare {self._vector} {function}({', '.join([self._vector] * 3)})")
        grown = []
        for i, row in enumerate(rows):
            one = self._new(f"load {tile.element}, ptr {self._at(row, ak)}, align {tile.bytes}")
            left = self._e.in_every_lane(tile.element, one)
            for j in range(tile.vectors):
                parts = (left, right[j], sums[i * tile.vectors + j])
                given = ", ".join(f"{self._vector} {part}" for part in parts)
                grown.append(self._new(f"call {self._vector} {function}({given})"))
        return grown

    def _write(self, sums: Sequence[str]) -> None:
        tile, kind = self.tile, memory_type(self.tile.result)
        places = [
            self._at(self._at("%c", self._times("%rc", i), kind), j * tile.lanes, kind)
            for i in range(tile.rows)
            for j in range(tile.vectors)
        ]
        self._line("br i1 %add, label %adds, label %sets")
        self._label("adds")
        for n, (value, place) in enumerate(zip(sums, places, strict=True)):
            old = self._result(place, tile.real(n % tile.vectors))
            grown = self._new(f"fadd {self._vector} {old}, {value}")
            self._keep(grown, place, tile.real(n % tile.vectors))
        self._line("ret void")
        self._label("sets")
        for n, (value, place) in enumerate(zip(sums, places, strict=True)):
            self._keep(value, place, tile.real(n % tile.vectors))

    def _result(self, place: str, count: int) -> str:
        dtype = self.tile.result
        text = self._e.load(memory_type(dtype), dtype.itemsize, place, count)
        return self._e.from_memory(text, dtype).text

    def _keep(self, value: str, place: str, count: int) -> None:
        dtype = self.tile.result
        text = self._e.to_memory(Val(value, dtype))
        self._e.store(text, memory_type(dtype), dtype.itemsize, place, count)
