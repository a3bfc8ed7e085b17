"""Large matrix products: packed blocks of both operands, and chunks that threads share.

The scheme is that of Goto and van de Geijn (2008), in three levels. Blocks of A and B are copied
into panels as a tile reads them; tiles of A, which stay in the second cache, go by a panel of B,
and fetch the next one from the last cache on their way; both blocks stay there. Each block of the
summed axis is one step that packs and one that multiplies; what it multiplies is cut into chunks in
both axes of the result.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

from anabranch.backends.native.blockwise import BlockwiseCode, Finish
from anabranch.backends.native.driving import (
    DECLARED,
    FINISHES,
    FRAME,
    GIVEN_A,
    GIVEN_B,
    GIVEN_C,
    PACKERS,
    SCRATCH,
    TABLE,
    TILES,
    driver,
    table,
)
from anabranch.backends.native.operands import SPEED, Operand, Shapes, second_cache
from anabranch.backends.native.packing import Panel, packer
from anabranch.backends.native.partition import CHUNK, MOST
from anabranch.backends.native.schedule import Key
from anabranch.backends.native.tiles import TileCode
from anabranch.backends.native.vectors import FROM_AFAR
from anabranch.backends.native.writer import Writer
from anabranch.core.dtype import is_half

NEAR = second_cache() * 2 // 3  # bytes of A that should stay there; no result depends on it
PACKED_B_FROM = 768 * 1024  # bytes of B, which is packed then if enough rows gain by it
UNEVEN_FROM = 256 * 1024  # bytes of A whose rows all fall on the same places of a cache
PAGE = 4096
LINE = 64  # bytes that a cache holds together
FEW = 128  # rows for which B is not packed just because it is large
FEW_STRAIGHT = 768  # the same where rows of B begin where lines of a cache do, and are read well
FAR = 4096  # rows and columns in one block, about
PACK = 128 * 1024  # bytes that a chunk packs


@dataclass(frozen=True)
class Side:
    """One operand in panels: rows of A, or columns of B.

    Attributes:
        size: rows or columns in all.
        whole: the panel for `width` of them; `last`: for what is left over, if anything is.
        far: panels in one block.
        step, depth_step: in elements, to the next row or column, and along the summed axis.
        packed: whether it is packed at all; else tiles read it where it lies.
        room: bytes of a packed panel.
        together: panels that one chunk packs.
    """

    size: int
    whole: Panel
    last: Panel | None
    far: int
    step: int
    depth_step: int
    packed: bool
    room: int
    together: int

    def steps_to_read(self, is_last: bool) -> tuple[int, int]:
        """In elements, to the next row or column and along the summed axis, as tiles read it."""
        panel = self.last if is_last and self.last else self.whole
        return (1, panel.width) if self.packed else (self.step, self.depth_step)

    @property
    def panels(self) -> int:
        return -(-self.size // self.whole.width)

    @property
    def blocks(self) -> int:
        return -(-self.panels // self.far)

    @property
    def scratch(self) -> int:
        """Bytes that a block of packed panels takes."""
        return self.packed * self.room * min(self.far, self.panels)

    def numbers(self, side: str, size: int) -> dict[str, int]:
        """What is told of it to the driver, for elements of this many bytes."""
        last = self.last or self.whole
        stride = self.whole.width * self.step * size
        found = {
            "panels": self.panels,
            "far": self.far,
            "whole": self.size // self.whole.width,
            "together": self.together,
            "blocks": self.blocks,
            "packed": self.packed,
            "stride": stride,
            "pace": self.room if self.packed else stride,
            "room": self.room,
            "depth_stride": self.depth_step * size,
            "along": self.depth_step,
            "across": self.step,
            "width": self.whole.width,
            "last_width": last.width,
            "columns": self.whole.columns,
            "last_columns": last.columns,
        }
        return {f"{side}_{word}": int(number) for word, number in found.items()}


class BlockedCode(Writer):
    """The IR functions of one large product: `@name(a, b, c, scratch)` and loops over its blocks.

    Attributes:
        scratch: bytes of workspace that it takes.
        pointers: the values that the loop over each block walks through; `@name` takes their
            pointers before the last.
        more: those pointers as arguments, with a comma before each.
        finish_time: about how long that loop takes on one thread, in ns.
        text: the functions.
    """

    shares = True

    def __init__(
        self,
        name: str,
        a: Operand,
        b: Operand,
        shapes: Shapes,
        declared: set[str],
        finish: Finish | None = None,
    ) -> None:
        super().__init__(declared)
        self.name, self._shapes, self._dtype = name, shapes, shapes.dtype
        (m, self._k), self._n = a.view.shape[-2:], b.view.shape[-1]
        blocks = 1 if is_half(self._dtype) else -(-self._k // shapes.depth)
        self._depth = -(-self._k // blocks)  # halves are rounded once, so they have one block
        self._blocks = -(-self._k // self._depth)
        packs_a, packs_b = self._packs(a, b)
        self._tile = tile = replace(shapes.tile(m, self._n), padded=packs_b)
        self._a = self._side_a(m, a, packs_a)
        self._b = self._side_b(b, packs_b)
        self._finish = finish
        self._finishing: dict[int, BlockwiseCode] = {}  # by the columns of a block
        self.pointers: list[Key] = []
        self.finish_time = 0.0
        if finish:
            code = self._finished(tile.columns)
            self.pointers += code.pointers
            self.finish_time = code.time
        self.more = "".join(f", ptr %f{i}" for i in range(len(self.pointers)))
        self._divide(m)
        self.scratch = self._a.scratch + self._b.scratch
        declared.add(DECLARED)
        written = self._written()
        self.text = "\n".join([written, *(code.text for code in self._finishing.values())])

    def _packs(self, a: Operand, b: Operand) -> tuple[bool, bool]:
        """Whether to pack A and B: where it saves more time than it takes."""
        if is_half(self._dtype):
            return True, True
        (a_step, a_depth), (b_depth, b_step) = a.view.strides[-2:], b.view.strides[-2:]
        size = self._shapes.bytes
        rows, depth = a.view.shape[-2:]
        bytes_a, bytes_b = rows * depth * size, depth * b.view.shape[-1] * size
        is_uneven = max(a_step, a_depth) * size % PAGE == 0 and bytes_a > UNEVEN_FROM
        packs_a = 1 not in (a_step, a_depth) or is_uneven
        few = FEW if b_depth * size % LINE else FEW_STRAIGHT
        packs_b = b_step != 1 or (bytes_b > PACKED_B_FROM and rows > few)
        return packs_a, packs_b

    def _side_a(self, m: int, a: Operand, packed: bool) -> Side:
        rows, lanes = self._tile.rows, 2
        while lanes < min(rows, self._shapes.lanes):
            lanes *= 2
        whole = Panel(rows, rows, lanes, self._dtype)
        last = replace(whole, columns=m % rows) if m % rows else None
        step, depth_step = a.view.strides[-2:]
        return self._side(m, whole, last, step, depth_step, packed)

    def _side_b(self, b: Operand, packed: bool) -> Side:
        tile, rest = self._tile, self._n % self._tile.columns
        whole = Panel(tile.columns, tile.columns, tile.lanes, self._dtype)
        last = None
        if rest:
            self._last_tile = one = self._shapes.last(tile, rest)
            last = Panel(one.vectors * one.lanes, rest, one.lanes, self._dtype)
        depth_step, step = b.view.strides[-2:]
        return self._side(self._n, whole, last, step, depth_step, packed)

    def _side(
        self, size: int, whole: Panel, last: Panel | None, step: int, depth: int, packed: bool
    ) -> Side:
        room = max(panel.room(self._depth) for panel in (whole, last or whole))
        far = max(FAR // whole.width, 1)
        return Side(size, whole, last, far, step, depth, packed, room, max(PACK // room, 1))

    def _divide(self, m: int) -> None:
        """How many tiles and panels a chunk has."""
        tiles, panels = (min(side.panels, side.far) for side in (self._a, self._b))
        time = self._time(min(m, FAR), min(self._n, FAR)) + self.finish_time / self._blocks
        wanted = max(min(int(time / (2 * CHUNK)), MOST), 1)
        near = max(NEAR // (self._tile.rows * self._depth * self._shapes.bytes), 1)
        # Neighbouring chunks share columns, which are mostly those of one weight, where all of A
        # stays near; else they share what is near of A.
        self._by_columns = tiles <= near
        down = -(-tiles // near)
        if panels * down < wanted:
            down = min(-(-wanted // panels), tiles)
        self._tiles_each = -(-tiles // down)
        self._panels_each = -(-panels // min(-(-wanted // down), panels))

    def _time(self, m: int, n: int) -> float:
        """About how long one block takes, in ns."""
        size, depth = self._shapes.bytes, self._depth
        return max(2 * m * n * depth / SPEED[size], (m * depth + depth * n) * size * FROM_AFAR)

    # Writing

    def _written(self) -> str:
        """`@name(a, b, c, scratch)`: a frame, and what drives all products in blocks."""
        self.declared.add(driver())
        table_name = f"numbers_{self.name}"
        self._line(f"%frame = alloca i64, i64 {FRAME + len(self.pointers)}, align {LINE}")
        self._set(TABLE, f"@{table_name}")
        for place, given in ((GIVEN_A, "%a"), (GIVEN_B, "%b"), (GIVEN_C, "%c")):
            self._set(place, given)
        self._set(SCRATCH, "%scratch")
        for place, name in self._functions().items():
            self._set(place, f"@{name}")
        for i in range(len(self.pointers)):
            self._set(FRAME + i, f"%f{i}")
        self._line("call void @drive_blocks(ptr %frame)")
        head = f"define internal void @{self.name}(ptr %a, ptr %b, ptr %c{self.more}, ptr %scratch)"
        return "\n".join([table(table_name, self._numbers()), self._text(head)])

    def _set(self, place: int, value: str) -> None:
        pointer = self._new(f"getelementptr i64, ptr %frame, i64 {place}")
        self._line(f"store ptr {value}, ptr {pointer}")

    def _functions(self) -> dict[int, str]:
        """By their place in the frame, what multiplies, finishes and packs."""
        found = {}
        heights = [(0, self._tile.rows), (1, self._a.last.columns if self._a.last else 0)]
        tiles = [(0, self._tile), (2, self._last_tile if self._b.last else None)]
        for (right, tile), (down, rows) in itertools.product(tiles, heights):
            if tile is not None and rows:
                name = TileCode(replace(tile, rows=rows), self.declared).name
                found[TILES + right + down] = name
                if self._finish:
                    loop = self._finished(tile.columns).name
                    found[FINISHES + right + down] = loop
        for first, side in ((PACKERS, self._a), (PACKERS + 2, self._b)):
            for place, panel in enumerate((side.whole, side.last)):
                if side.packed and panel:
                    steps = side.step, side.depth_step, self._shapes.lanes
                    found[first + place] = packer(panel, *steps, self.declared)
        return found

    def _numbers(self) -> dict[str, int]:
        """What the driver must know, in the words of `NUMBERS`."""
        size, tile = self._dtype.itemsize, self._tile
        across, along = self._a.steps_to_read(is_last=False)
        return {
            **self._a.numbers("a", size),
            **self._b.numbers("b", size),
            "k": self._k,
            "depth": self._depth,
            "blocks": self._blocks,
            "rows": tile.rows,
            "columns": tile.columns,
            "down": tile.rows * self._n * size,
            "right": tile.columns * size,
            "tiles_each": self._tiles_each,
            "panels_each": self._panels_each,
            "by_columns": int(self._by_columns),
            "finishes": int(self._finish is not None),
            "b_begins": self._a.scratch,
            "read_across_a": across,
            "read_along_a": along,
            "read_along_b": self._b.steps_to_read(is_last=False)[1],
            "read_along_last_b": self._b.steps_to_read(is_last=True)[1],
            "down_c": self._n,
        }

    def _finished(self, columns: int) -> BlockwiseCode:
        """What finishes blocks of so many columns."""
        assert self._finish is not None
        if columns not in self._finishing:
            size = self._tile.rows, columns
            name = f"{self.name}_finish_{columns}"
            made = BlockwiseCode(name, self._finish, self.declared, FRAME, *size)
            self._finishing[columns] = made
        return self._finishing[columns]
