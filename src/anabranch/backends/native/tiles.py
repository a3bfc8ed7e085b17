"""The inner parts of a matrix product: a tile of the result in registers, and what feeds it.

Each is an IR function that all products of a module share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.backends.native.emit import Val, memory_type, register_type
from anabranch.backends.native.schedule import ALIGNMENT
from anabranch.backends.native.writer import Writer
from anabranch.core.dtype import DType

LINE = 64  # bytes that come near at once
FEW = 2  # vectors of a tile, whose loop then takes two steps along the summed axis a turn


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


@dataclass(frozen=True)
class Panel:
    """What a tile reads of a packed operand: `width` elements for each step of the summed axis.

    The first `columns` of them are real, the others 0. It is packed `lanes` at a time.
    """

    width: int
    columns: int
    lanes: int
    source: DType

    @property
    def element(self) -> str:
        return register_type(self.source)

    @property
    def bytes(self) -> int:
        return 8 if self.element == "double" else 4

    @property
    def vectors(self) -> int:
        return -(-self.width // self.lanes)

    @property
    def name(self) -> str:
        return f"{self.width}x{self.lanes}_{self.columns}_{self.source}"

    def real(self, vector: int) -> int:
        return max(min(self.lanes, self.columns - vector * self.lanes), 0)

    def room(self, depth: int) -> int:
        """Bytes that so many steps take, with what is written too many."""
        steps = -(-depth // self.lanes) * self.lanes
        return -(-(steps * self.width + self.lanes) * self.bytes // ALIGNMENT) * ALIGNMENT


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

    `(k, a, a's row step, a's step along k, b, b's step along k, c, c's row step, add)`. The steps
    lie in registers, so one function serves packed operands and those read where they lie.
    """

    def __init__(self, tile: Tile, declared: set[str]) -> None:
        super().__init__(tile.lanes, tile.result, declared)
        self.tile = tile
        self.name = f"tile_{tile.name}"
        self._fetch_early()
        rows = [self._at("%a", self._times("%ra", i)) for i in range(tile.rows)]
        sums = self._summed(rows)
        self._write(sums)
        arguments = "i64 %k, ptr %a, i64 %ra, i64 %ka, ptr %b, i64 %kb, ptr %c, i64 %rc, i1 %add"
        declared.add(self._text(f"define internal void @{self.name}({arguments})"))

    def _fetch_early(self) -> None:
        """Bring the rows of C near while the sums are made."""
        self.declared.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        tile, kind = self.tile, memory_type(self.tile.result)
        each = max(LINE // tile.result.itemsize, 1)
        for i in range(tile.rows):
            row = self._at("%c", self._times("%rc", i), kind)
            for j in range(0, tile.columns, each):
                place = self._at(row, j, kind)
                self._line(f"call void @llvm.prefetch.p0(ptr {place}, i32 1, i32 3, i32 1)")

    def _summed(self, rows: Sequence[str]) -> list[str]:
        """The names of the sums, one step a turn; where a step is little work, first two."""
        sums = ["zeroinitializer" if self.tile.lanes > 1 else "0.0"] * self._count
        if self._count > FEW:
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
        with self._growing(last, steps, first, self._vector, starts) as (counter, sums, grown):
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


class _Pack(VectorWriter):
    """A function that copies a panel."""

    word = ""
    steps = "i64 %step"

    def __init__(self, panel: Panel, declared: set[str]) -> None:
        super().__init__(panel.lanes, panel.source, declared)
        self.panel = panel
        self.name = f"{self.word}_{panel.name}"
        self._write()
        head = f"define internal void @{self.name}(i64 %k, ptr %from, {self.steps}, ptr %to)"
        declared.add(self._text(head))

    def _write(self) -> None:
        raise NotImplementedError

    def _from(self, base: str, elements: str | int) -> str:
        return self._at(base, elements, memory_type(self.panel.source))

    def _to_row(self, k: str) -> str:
        return self._at("%to", self._new(f"mul i64 {k}, {self.panel.width}"))

    def _read(self, place: str, count: int) -> str:
        if count == 0:
            return "zeroinitializer"
        source = self.panel.source
        text = self._e.load(memory_type(source), source.itemsize, place, count)
        return self._e.from_memory(text, source).text


class PackRows(_Pack):
    """A panel of rows whose elements lie side by side: `(k, from, step, to)`.

    It may write a few elements too many behind the last row.
    """

    word = "rows"

    def _write(self) -> None:
        panel = self.panel
        with self._counted_to("%k") as k:
            row = self._from("%from", self._new(f"mul i64 {k}, %step"))
            to = self._to_row(k)
            for j in range(panel.vectors):
                value = self._read(self._from(row, j * panel.lanes), panel.real(j))
                self._store(value, self._at(to, j * panel.lanes), panel.lanes)


class PackAny(_Pack):
    """The same panel from elements that lie anyhow: `(k, from, step, column's step, to)`."""

    word = "any"
    steps = "i64 %step, i64 %across"

    def _write(self) -> None:
        panel, source, one = self.panel, self.panel.source, self._emitter(1)
        one.lines = self._lines
        with self._counted_to("%k") as k:
            row = self._from("%from", self._new(f"mul i64 {k}, %step"))
            to = self._to_row(k)
            for j in range(panel.width):
                value = "0.0"
                if j < panel.columns:
                    place = self._from(row, self._times("%across", j))
                    text = one.load(memory_type(source), source.itemsize, place, 1)
                    value = one.from_memory(text, source).text
                one.store(value, self._element, self._size, self._at(to, j), 1)


class PackColumns(_Pack):
    """The same panel from columns whose elements lie side by side, turned as it is copied.

    `(k, from, the step from column to column, to)`; it may write a few rows too many.
    """

    word = "columns"

    def _write(self) -> None:
        panel, source = self.panel, self.panel.source
        lanes = panel.lanes
        with self._counted_to("%k", lanes) as k:
            mask = self._first(self._new(f"sub i64 %k, {k}"))
            to = self._to_row(k)
            blocks = []
            for j in range(panel.vectors):
                columns = []
                for column in range(j * lanes, (j + 1) * lanes):
                    if column >= panel.columns:
                        columns.append("zeroinitializer")
                        continue
                    place = self._from(self._from("%from", self._times("%step", column)), k)
                    text = self._e.load_where(mask, memory_type(source), source.itemsize, place)
                    columns.append(self._e.from_memory(text, source).text)
                blocks.append(self._turned(columns))
            for i in range(lanes):  # in this order, for the last block of a row may reach too far
                for j, block in enumerate(blocks):
                    place = self._at(to, i * panel.width + j * lanes)
                    self._store(block[i], place, lanes)

    def _turned(self, rows: Sequence[str]) -> list[str]:
        """A square block transposed: rows interleaved with those half a block below, log2 times."""
        lanes, vector = self.panel.lanes, self._vector
        half = lanes // 2
        low, high = (
            ", ".join(f"i32 {n}" for k in range(start, start + half) for n in (k, k + lanes))
            for start in (0, half)
        )
        block = list(rows)
        for _ in range(lanes.bit_length() - 1):
            turned = []
            for a, b in zip(block[:half], block[half:], strict=True):
                for order in (low, high):
                    pair = f"{vector} {a}, {vector} {b}, <{lanes} x i32> <{order}>"
                    turned.append(self._new(f"shufflevector {pair}"))
            block = turned
        return block
