"""Blocks of a product's operands, copied into panels as tiles read them.

Each is an IR function that all products share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.backends.native.emit import memory_type, register_bytes, register_type
from anabranch.backends.native.schedule import ALIGNMENT
from anabranch.backends.native.tiles import VectorWriter
from anabranch.backends.native.writer import Writer
from anabranch.core.dtype import DType

LINE = 64  # bytes of the widest vectors
TURNED = 16  # bytes of neighbouring columns that are turned into rows at once


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
    def bytes(self) -> int:
        return register_bytes(self.source)

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
        many = LINE // self.bytes
        steps = -(-depth // many) * many
        return -(-(steps * self.width + self.lanes) * self.bytes // ALIGNMENT) * ALIGNMENT


def packing(
    panel: Panel, step: int, depth_step: int, lanes: int, declared: set[str]
) -> tuple[str, str]:
    """The function that packs a panel, and what it takes between the source and the target.

    `step` leads from column to column of the source and `depth_step` along the summed axis, both in
    elements; `lanes` are those of the processor's vectors. `(k, from, ..., to)` are its arguments.
    """
    numbers = ", ".join(f"i64 {n}" for n in (depth_step, step, panel.width, panel.columns))
    return packer(panel, step, depth_step, lanes, declared), numbers


def packer(panel: Panel, step: int, depth_step: int, lanes: int, declared: set[str]) -> str:
    """The name of that function: `(k, from, along, across, width, columns, to)` whichever it is.

    `along` leads along the summed axis, and `across` from column to column.
    """
    if step == 1:
        return PackRows(panel, declared).name
    if depth_step == 1:
        return PackColumns(panel.width, lanes, panel.source, declared).name
    return PackAny(panel.source, declared).name


_TAKEN = "i64 %k, ptr %from, i64 %along, i64 %across, i64 %width, i64 %columns, ptr %to"


class PackRows(VectorWriter):
    """A panel of rows whose elements lie side by side.

    It may write a few elements too many behind the last row.
    """

    def __init__(self, panel: Panel, declared: set[str]) -> None:
        super().__init__(panel.lanes, panel.source, declared)
        self.name = f"rows_{panel.name}"
        source = panel.source
        kind = memory_type(source)
        with self._counted_to("%k") as k:
            row = self._at("%from", self._new(f"mul i64 {k}, %along"), kind)
            to = self._at("%to", self._new(f"mul i64 {k}, {panel.width}"))
            for j in range(panel.vectors):
                value = "zeroinitializer"
                if panel.real(j):
                    place = self._at(row, j * panel.lanes, kind)
                    text = self._e.load(kind, source.itemsize, place, panel.real(j))
                    value = self._e.from_memory(text, source).text
                self._store(value, self._at(to, j * panel.lanes), panel.lanes)
        declared.add(self._text(f"define internal void @{self.name}({_TAKEN})"))


class PackAny(Writer):
    """A panel from elements that lie anyhow, of any width."""

    def __init__(self, source: DType, declared: set[str]) -> None:
        super().__init__(declared)
        self.name = f"any_{source}"
        kind, element = memory_type(source), register_type(source)
        one, size = self._emitter(1), register_bytes(source)
        one.lines, one.known = self._lines, None
        with self._counted_to("%k") as k:
            row = self._on("%from", kind, self._new(f"mul i64 {k}, %along"))
            to = self._on("%to", element, self._new(f"mul i64 {k}, %width"))
            with self._counted_to("%columns") as column:
                place = self._on(row, kind, self._new(f"mul i64 {column}, %across"))
                value = one.from_memory(one.load(kind, source.itemsize, place, 1), source).text
                one.store(value, element, size, self._on(to, element, column), 1)
            with self._counted_to("%width", first="%columns") as column:
                one.store("0.0", element, size, self._on(to, element, column), 1)
        declared.add(self._text(f"define internal void @{self.name}({_TAKEN})"))

    def _on(self, base: str, kind: str, elements: str) -> str:
        return self._new(f"getelementptr {kind}, ptr {base}, i64 {elements}")


class PackColumns(VectorWriter):
    """The same panel from columns whose elements lie side by side, turned as it is copied.

    One function for panels of any width from `group` on, which is how many columns are turned at
    once, `lanes` elements of each.
    It may write a few rows too many.
    """

    def __init__(self, width: int, lanes: int, source: DType, declared: set[str]) -> None:
        super().__init__(lanes, source, declared)
        self._source, self._group = source, 1
        while 2 * self._group <= min(width, lanes, TURNED // self._size):
            self._group *= 2
        self.name = f"columns_{self._group}x{lanes}_{source}"
        with self._counted_to("%k", lanes) as k:
            self._block_of(k)
        declared.add(self._text(f"define internal void @{self.name}({_TAKEN})"))

    def _block_of(self, k: str) -> None:
        """Some rows: groups of columns, of which the last may overlap the one before."""
        mask = self._first(self._new(f"sub i64 %k, {k}"))
        source = self._at("%from", k, memory_type(self._source))
        to = self._at("%to", self._new(f"mul i64 {k}, %width"))
        last = self._new(f"sub i64 %width, {self._group}")
        with self._counted_to("%width", self._group) as start:
            is_before = self._new(f"icmp slt i64 {start}, {last}")
            first = self._new(f"select i1 {is_before}, i64 {start}, i64 {last}")
            columns = [self._column(source, first, i, mask) for i in range(self._group)]
            self._put(self._turned(columns), self._at(to, first))

    def _column(self, source: str, first: str, i: int, mask: str) -> str:
        """Elements of one column; zeros behind those that are real."""
        column = self._new(f"add i64 {first}, {i}")
        is_real = self._new(f"icmp slt i64 {column}, %columns")
        none = f"<{self._e.lanes} x i1> zeroinitializer"
        wanted = self._new(f"select i1 {is_real}, {mask}, {none}")
        kind = memory_type(self._source)
        place = self._at(source, self._new(f"mul i64 {column}, %across"), kind)
        where = f"<{self._e.lanes} x i1> {wanted}"
        text = self._e.load_where(where, kind, self._source.itemsize, place)
        return self._e.from_memory(text, self._source).text

    def _turned(self, columns: Sequence[str]) -> list[str]:
        """The elements row by row: columns interleaved with those half a group further, log2 times.

        They are interleaved within stretches of a group, which processors do in one instruction.
        """
        lanes, group, vector = self._e.lanes, self._group, self._vector
        half = group // 2
        orders = [
            ", ".join(
                f"i32 {n + k}, i32 {n + k + lanes}"
                for n in range(0, lanes, group)
                for k in range(start, start + half)
            )
            for start in (0, half)
        ]
        block = list(columns)
        for _ in range(group.bit_length() - 1):
            pairs = zip(block[:half], block[half:], strict=True)
            block = [
                self._new(f"shufflevector {vector} {a}, {vector} {b}, <{lanes} x i32> <{order}>")
                for a, b in pairs
                for order in orders
            ]
        return block

    def _put(self, block: Sequence[str], place: str) -> None:
        """Row after row: each vector of the block has every `group`-th of them."""
        group, vector = self._group, self._vector
        kind = self._element if group == 1 else f"<{group} x {self._element}>"
        for row in range(self._e.lanes):
            values, first = block[row % group], row // group * group
            if group == 1:
                text = self._new(f"extractelement {vector} {values}, i32 {row}")
            else:
                order = ", ".join(f"i32 {first + i}" for i in range(group))
                pair = f"{vector} {values}, {vector} poison, <{group} x i32> <{order}>"
                text = self._new(f"shufflevector {pair}")
            self._line(f"store {kind} {text}, ptr {place}, align {self._size}")
            place = self._at(place, "%width")
