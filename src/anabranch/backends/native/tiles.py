"""The inner parts of a matrix product: a tile of the result in registers, and what feeds it.

Each is an IR function that all products of a module share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.backends.native.writer import Writer

UNROLLED = 2  # steps along the summed axis in one turn of the loop


@dataclass(frozen=True)
class Tile:
    """Rows of the result, and vectors of `lanes` elements across, of which `columns` are real."""

    rows: int
    vectors: int
    lanes: int
    element: str  # "double" or "float"
    columns: int

    @property
    def width(self) -> int:
        return self.vectors * self.lanes

    @property
    def bytes(self) -> int:
        return 8 if self.element == "double" else 4

    @property
    def name(self) -> str:
        return f"{self.rows}x{self.vectors}x{self.lanes}_{self.columns}_{self.element}"

    def real(self, vector: int) -> int:
        """How many lanes of this vector are real."""
        return min(self.lanes, self.columns - vector * self.lanes)


class _Vectors(Writer):
    """A writer that loads and stores the vectors of a tile."""

    def __init__(self, tile: Tile, declared: set[str]) -> None:
        super().__init__(declared)
        self.tile = tile
        self._e = self._emitter(tile.lanes)
        self._vector = self._e.type(tile.element)
        self._e.lines = self._lines  # it writes no labels, so both can write in turn

    def _at(self, base: str, elements: str | int) -> str:
        if str(elements) == "0":
            return base
        return self._new(f"getelementptr {self.tile.element}, ptr {base}, i64 {elements}")

    def _load(self, pointer: str, count: int) -> str:
        return self._e.load(self.tile.element, self.tile.bytes, pointer, count)

    def _store(self, value: str, pointer: str, count: int) -> None:
        self._e.store(value, self.tile.element, self.tile.bytes, pointer, count)


class TileCode(_Vectors):
    """C = A B, or C + A B, for one tile of C.

    `(k, a, a's row step, a's step along k, b, b's step along k, c, c's row step, add)`
    """

    def __init__(self, tile: Tile, declared: set[str]) -> None:
        super().__init__(tile, declared)
        self.name = f"tile_{tile.name}"
        rows = [self._at("%a", self._times("%ra", i)) for i in range(tile.rows)]
        sums = self._summed(rows)
        self._write(sums)
        arguments = "i64 %k, ptr %a, i64 %ra, i64 %ka, ptr %b, i64 %kb, ptr %c, i64 %rc, i1 %add"
        declared.add(self._text(f"define internal void @{self.name}({arguments})"))

    def _summed(self, rows: Sequence[str]) -> list[str]:
        """Two loops, of several steps a turn and of one; gives the names of the sums."""
        whole = self._new(f"and i64 %k, {-UNROLLED}")
        starts = ["zeroinitializer" if self.tile.lanes > 1 else "0.0"] * self._count
        sums = self._loop(rows, "0", whole, UNROLLED, starts)
        return self._loop(rows, whole, "%k", 1, sums)

    @property
    def _count(self) -> int:
        return self.tile.rows * self.tile.vectors

    def _loop(
        self, rows: Sequence[str], first: str, last: str, steps: int, starts: Sequence[str]
    ) -> list[str]:
        vector = self._vector
        head, body, done = (self._fresh(word) for word in ("head", "body", "done"))
        before, counter, following = self._block, self._name(), self._name()
        sums = [self._name() for _ in starts]
        self._line(f"br label %{head}")
        self._label(head)
        place = len(self._lines)
        goes_on = self._new(f"icmp slt i64 {counter}, {last}")
        self._line(f"br i1 {goes_on}, label %{body}, label %{done}")
        self._label(body)
        grown = list(sums)
        for step in range(steps):
            grown = self._step(rows, counter, step, grown)
        self._line(f"{following} = add i64 {counter}, {steps}")
        self._line(f"br label %{head}")
        phis = [f"  {counter} = phi i64 [{first}, %{before}], [{following}, %{body}]"]
        phis += [
            f"  {one} = phi {vector} [{start}, %{before}], [{new}, %{body}]"
            for one, start, new in zip(sums, starts, grown, strict=True)
        ]
        self._lines[place:place] = phis
        self._label(done)
        return sums

    def _fresh(self, word: str) -> str:
        return f"{word}{next(self._names)}"

    def _step(self, rows: Sequence[str], counter: str, step: int, sums: Sequence[str]) -> list[str]:
        tile = self.tile
        k = counter if step == 0 else self._new(f"add i64 {counter}, {step}")
        ak, bk = self._new(f"mul i64 {k}, %ka"), self._new(f"mul i64 {k}, %kb")
        b = self._at("%b", bk)
        right = [self._load(self._at(b, j * tile.lanes), tile.real(j)) for j in range(tile.vectors)]
        function = f"@llvm.fma.{self._e.suffix(tile.element)}"
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
        tile = self.tile
        places = [
            self._at(self._at("%c", self._times("%rc", i)), j * tile.lanes)
            for i in range(tile.rows)
            for j in range(tile.vectors)
        ]
        self._line("br i1 %add, label %adds, label %sets")
        self._label("adds")
        for n, (value, place) in enumerate(zip(sums, places, strict=True)):
            real = tile.real(n % tile.vectors)
            old = self._load(place, real)
            self._store(self._new(f"fadd {self._vector} {old}, {value}"), place, real)
        self._line("ret void")
        self._label("sets")
        for n, (value, place) in enumerate(zip(sums, places, strict=True)):
            self._store(value, place, tile.real(n % tile.vectors))


class PackRows(_Vectors):
    """A panel as wide as a tile, of rows whose elements lie side by side: `(k, from, step, to)`."""

    def __init__(self, tile: Tile, declared: set[str]) -> None:
        super().__init__(tile, declared)
        self.name = f"rows_{tile.name}"
        with self._counted_to("%k") as k:
            row = self._at("%from", self._new(f"mul i64 {k}, %step"))
            to = self._at("%to", self._new(f"mul i64 {k}, {tile.width}"))
            for j in range(tile.vectors):
                value = self._load(self._at(row, j * tile.lanes), tile.real(j))
                self._store(value, self._at(to, j * tile.lanes), tile.lanes)
        head = f"define internal void @{self.name}(i64 %k, ptr %from, i64 %step, ptr %to)"
        declared.add(self._text(head))


class PackAny(_Vectors):
    """The same panel from elements that lie anyhow: `(k, from, step, column's step, to)`."""

    def __init__(self, tile: Tile, declared: set[str]) -> None:
        super().__init__(tile, declared)
        self.name = f"any_{tile.name}"
        kind = f"{tile.element}"
        with self._counted_to("%k") as k:
            row = self._at("%from", self._new(f"mul i64 {k}, %step"))
            to = self._at("%to", self._new(f"mul i64 {k}, {tile.width}"))
            for j in range(tile.width):
                one = "0.0"
                if j < tile.columns:
                    place = self._at(row, self._times("%across", j))
                    one = self._new(f"load {kind}, ptr {place}, align {tile.bytes}")
                self._line(f"store {kind} {one}, ptr {self._at(to, j)}, align {tile.bytes}")
        given = "i64 %k, ptr %from, i64 %step, i64 %across, ptr %to"
        declared.add(self._text(f"define internal void @{self.name}({given})"))


class PackColumns(_Vectors):
    """The same panel from columns whose elements lie side by side, turned as it is copied.

    `(k, from, the step from column to column, to)`; it may write a few rows too many.
    """

    def __init__(self, tile: Tile, declared: set[str]) -> None:
        super().__init__(tile, declared)
        self.name = f"columns_{tile.name}"
        self._lane_numbers = f"<{', '.join(f'i64 {lane}' for lane in range(tile.lanes))}>"
        with self._counted_to("%k", tile.lanes) as k:
            rest = self._new(f"sub i64 %k, {k}")
            mask = self._first(rest)
            to = self._at("%to", self._new(f"mul i64 {k}, {tile.width}"))
            for j in range(tile.vectors):
                columns = []
                for lane in range(tile.lanes):
                    column = j * tile.lanes + lane
                    if column >= tile.columns:
                        columns.append("zeroinitializer")
                        continue
                    start = self._at("%from", self._times("%step", column))
                    place = self._at(start, k)
                    columns.append(self._e.load_where(mask, tile.element, tile.bytes, place))
                for i, row in enumerate(self._turned(columns)):
                    self._store(row, self._at(to, i * tile.width + j * tile.lanes), tile.lanes)
        head = f"define internal void @{self.name}(i64 %k, ptr %from, i64 %step, ptr %to)"
        declared.add(self._text(head))

    def _first(self, count: str) -> str:
        """The mask of as many lanes as there are, with its type."""
        kind = self._e.type("i64")
        every = self._e.in_every_lane("i64", count)
        return f"<{self.tile.lanes} x i1> " + self._new(
            f"icmp slt {kind} {self._lane_numbers}, {every}"
        )

    def _turned(self, rows: Sequence[str]) -> list[str]:
        """A square block transposed: rows interleaved with those half a block below, log2 times."""
        lanes, vector = self.tile.lanes, self._vector
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
