"""Large matrix products: packed blocks of both operands, and chunks that threads share.

The scheme is that of Goto and van de Geijn (2008), in three levels. Blocks of A and B are copied
into panels as a tile reads them; tiles of A, which stay in the second cache, go by a panel of B,
and fetch the next one from the last cache on their way; both blocks stay there. Each block of the
summed axis is one step that packs and one that multiplies; what it multiplies is cut into chunks in
both axes of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from anabranch.backends.native.blockwise import BlockwiseCode, Finish
from anabranch.backends.native.operands import SPEED, Operand, Shapes, second_cache
from anabranch.backends.native.packing import Panel, packing
from anabranch.backends.native.partition import CHUNK, MOST
from anabranch.backends.native.schedule import Key
from anabranch.backends.native.tiles import FETCHED, TileCode
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

# What the frame of a step holds, eight bytes each.
_A, _B, _C, _PACKED_A, _PACKED_B, _DEPTH, _ADDS = range(7)
_TILES, _WHOLE_TILES, _PANELS, _WHOLE_PANELS, _INNER, _PACKS_B = range(7, 13)
_ROW, _COLUMN, _IS_LAST = range(13, 16)
_FRAME = 16  # behind it: what a loop over each block of the result walks through


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


class BlockedCode(Writer):
    """The IR functions of one large product: `@name(a, b, c, scratch)` and its chunks.

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
        self._finishing: dict[tuple[int, int], BlockwiseCode] = {}  # by the size of a block
        self.pointers: list[Key] = []
        self.finish_time = 0.0
        if finish:
            code = self._finished(tile.rows, tile.columns)
            self.pointers += code.pointers
            self.finish_time = code.time
        self.more = "".join(f", ptr %f{i}" for i in range(len(self.pointers)))
        self._divide(m)
        room_a, room_b = (s.packed * s.room * min(s.far, s.panels) for s in (self._a, self._b))
        self.scratch = room_a + room_b
        declared.add("declare void @pool(ptr, ptr, i64)")
        parts = [self._multiplying(), self._driving(room_a)]
        if packs_a or packs_b:
            parts.append(self._packing())
        parts += [code.text for code in self._finishing.values()]
        self.text = "\n".join(parts)

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

    def _begin(self) -> None:
        self._lines, self._block = [], "entry"

    def _int(self, word: str, x: str | int, y: str | int) -> str:
        return self._new(f"{word} i64 {x}, {y}")

    def _least(self, x: str | int, y: str | int) -> str:
        is_less = self._int("icmp slt", x, y)
        return self._new(f"select i1 {is_less}, i64 {x}, i64 {y}")

    def _groups(self, count: str, each: int) -> str:
        return self._int("sdiv", self._int("add", count, each - 1), each)

    def _field(self, place: int, kind: str = "i64") -> str:
        pointer = self._new(f"getelementptr i64, ptr %frame, i64 {place}")
        return self._new(f"load {kind}, ptr {pointer}")

    def _set(self, place: int, value: str, kind: str = "i64") -> str:
        pointer = self._new(f"getelementptr i64, ptr %frame, i64 {place}")
        self._line(f"store {kind} {value}, ptr {pointer}")
        return value

    def _bytes_on(self, base: str, bytes_: str) -> str:
        return self._new(f"getelementptr i8, ptr {base}, i64 {bytes_}")

    def _each(
        self, first: str, last: str, whole: str, has_rest: bool, do: Callable[[str, bool], None]
    ) -> None:
        """From `first` up to `last`; those from `whole` on, of which there is one, are special."""
        end = self._least(last, whole)
        with self._counted_to(self._int("sub", end, first)) as counter:
            do(self._int("add", first, counter), False)
        if has_rest:
            with self._if(self._int("icmp sgt", last, whole)):
                do(whole, True)

    # Packing

    def _packing(self) -> str:
        """`@pack_name(frame, chunk)`: some panels of B, or behind those, of A."""
        self._begin()
        count = self._field(_PACKS_B)
        is_b = self._int("icmp slt", "%chunk", count)
        with self._if(is_b):
            self._pack_some(self._b, "%chunk", (_B, _PACKED_B, _PANELS, _WHOLE_PANELS))
        is_a = self._int("icmp sge", "%chunk", count)
        with self._if(is_a):
            chunk = self._int("sub", "%chunk", count)
            self._pack_some(self._a, chunk, (_A, _PACKED_A, _TILES, _WHOLE_TILES))
        return self._text(f"define internal void @pack_{self.name}(ptr %frame, i64 %chunk)")

    def _pack_some(self, side: Side, chunk: str, fields: tuple[int, int, int, int]) -> None:
        source, to = (self._field(place, "ptr") for place in fields[:2])
        count, whole = (self._field(place) for place in fields[2:])
        depth = self._field(_DEPTH)
        first = self._int("mul", chunk, side.together)
        last = self._least(self._int("add", first, side.together), count)

        def pack(number: str, is_last: bool) -> None:
            start = self._int("mul", number, side.whole.width * side.step)
            here = self._moved_on(source, self._dtype, start)
            there = self._bytes_on(to, self._int("mul", number, side.room))
            panel = side.last if is_last and side.last else side.whole
            args = (side.step, side.depth_step, self._shapes.lanes, self.declared)
            name, steps = packing(panel, *args)
            self._line(f"call void @{name}(i64 {depth}, ptr {here}, {steps}, ptr {there})")

        self._each(first, last, whole, side.last is not None, pack)

    # Multiplying

    def _multiplying(self) -> str:
        """`@multiply_name(frame, chunk)`: some tiles down, some panels across."""
        self._begin()
        count = self._field(_INNER)
        outer, inner = (self._int(word, "%chunk", count) for word in ("udiv", "urem"))
        right, down = (outer, inner) if self._by_columns else (inner, outer)
        tiles, panels = self._field(_TILES), self._field(_PANELS)
        whole_tiles, whole_panels = self._field(_WHOLE_TILES), self._field(_WHOLE_PANELS)
        from_a, from_b = (
            self._field(packed if side.packed else source, "ptr")
            for side, packed, source in ((self._a, _PACKED_A, _A), (self._b, _PACKED_B, _B))
        )
        c, depth = self._field(_C, "ptr"), self._field(_DEPTH)
        adds = self._int("icmp ne", self._field(_ADDS), 0)
        top = self._int("mul", down, self._tiles_each)
        bottom = self._least(self._int("add", top, self._tiles_each), tiles)
        left = self._int("mul", right, self._panels_each)
        end = self._least(self._int("add", left, self._panels_each), panels)

        def panel(number: str, is_last: bool) -> None:
            tile = self._last_tile if is_last else self._tile
            b = self._panel_at(self._b, from_b, number)
            column = self._int("mul", number, self._tile.columns)
            corner = self._moved_on(c, self._dtype, column)

            def one(row: str, is_rest: bool) -> None:
                rows = self._a.last.columns if is_rest and self._a.last else tile.rows
                name = TileCode(replace(tile, rows=rows), self.declared).name
                a = self._panel_at(self._a, from_a, row)
                start = self._int("mul", row, self._tile.rows * self._n)
                out = self._moved_on(corner, self._dtype, start)
                steps = "i64 {}, i64 {}".format(*self._a.steps_to_read(is_rest))
                _, along = self._b.steps_to_read(is_last)
                given = f"i64 {depth}, ptr {a}, {steps}, ptr {b}, i64 {along}"
                given += f", ptr {out}, i64 {self._n}, i1 {adds}"
                self._line(f"call void @{name}({given}, ptr {self._part(row, top, depth, b)})")
                if self._finish:
                    start = self._int("mul", row, self._tile.rows)
                    self._finish_block(rows, tile.columns, start, column)

            self._each(top, bottom, whole_tiles, self._a.last is not None, one)

        self._each(left, end, whole_panels, self._b.last is not None, panel)
        return self._text(f"define internal void @multiply_{self.name}(ptr %frame, i64 %chunk)")

    def _part(self, row: str, top: str, depth: str, b: str) -> str:
        """What of the next panel of B the tile in this row fetches: each of a chunk its part."""
        if not self._b.packed:
            return b
        done = self._int("mul", self._int("sub", row, top), FETCHED)
        before = self._int("add", self._int("mul", done, depth), self._b.room)
        return self._bytes_on(b, before)

    def _finished(self, rows: int, columns: int) -> BlockwiseCode:
        """What finishes blocks of this size."""
        assert self._finish is not None
        size = rows, columns
        if size not in self._finishing:
            name = f"{self.name}_finish_{rows}x{columns}"
            made = BlockwiseCode(name, self._finish, self.declared, _FRAME, size)
            self._finishing[size] = made
        return self._finishing[size]

    def _finish_block(self, rows: int, columns: int, row: str, column: str) -> None:
        """Where a block of the result has its last contribution, the loop over it."""
        name = self._finished(rows, columns).name
        with self._if(self._int("icmp ne", self._field(_IS_LAST), 0)):
            row, column = (
                self._int("add", self._field(place), within)
                for place, within in ((_ROW, row), (_COLUMN, column))
            )
            self._line(f"call void @{name}(ptr %frame, i64 {row}, i64 {column})")

    def _panel_at(self, side: Side, base: str, number: str) -> str:
        if side.packed:
            return self._bytes_on(base, self._int("mul", number, side.room))
        start = self._int("mul", number, side.whole.width * side.step)
        return self._moved_on(base, self._dtype, start)

    # Driving

    def _driving(self, room_a: int) -> str:
        """`@name(a, b, c, scratch)`: the blocks in order, two steps for each."""
        self._begin()
        self._line(f"%frame = alloca i64, i64 {_FRAME + len(self.pointers)}")
        self._set(_PACKED_A, "%scratch", "ptr")
        self._set(_PACKED_B, self._bytes_on("%scratch", str(room_a)), "ptr")
        for i in range(len(self.pointers)):
            self._set(_FRAME + i, f"%f{i}", "ptr")
        with self._counted(self._b.blocks) as right:
            self._in_block(self._b, right, _PANELS, _WHOLE_PANELS)
            with self._counted(self._blocks) as block, self._counted(self._a.blocks) as down:
                self._one_block(right, block, down)
        return self._text(
            f"define internal void @{self.name}(ptr %a, ptr %b, ptr %c{self.more}, ptr %scratch)"
        )

    def _in_block(self, side: Side, block: str, count: int, whole: int) -> str:
        before = self._int("mul", block, side.far)
        for place, number in ((whole, side.size // side.whole.width), (count, side.panels)):
            found = self._set(place, self._least(self._int("sub", number, before), side.far))
        return found

    def _one_block(self, right: str, block: str, down: str) -> None:
        tiles = self._in_block(self._a, down, _TILES, _WHOLE_TILES)
        first = self._int("mul", block, self._depth)
        self._set(_DEPTH, self._least(self._int("sub", self._k, first), self._depth))
        self._set(_ADDS, block)
        is_last = self._int("icmp eq", block, self._blocks - 1)
        self._set(_IS_LAST, self._new(f"zext i1 {is_last} to i64"))
        rows = self._int("mul", down, self._a.far * self._tile.rows)
        columns = self._int("mul", right, self._b.far * self._tile.columns)
        for place, base, side, start in ((_A, "%a", self._a, rows), (_B, "%b", self._b, columns)):
            moved = self._int("mul", start, side.step)
            along = self._int("mul", first, side.depth_step)
            here = self._moved_on(base, self._dtype, self._int("add", moved, along))
            self._set(place, here, "ptr")
        self._set(_ROW, rows)
        self._set(_COLUMN, columns)
        corner = self._int("add", self._int("mul", rows, self._n), columns)
        self._set(_C, self._moved_on("%c", self._dtype, corner), "ptr")
        if self._a.packed or self._b.packed:
            self._pack_both(tiles, down)
        down = self._groups(tiles, self._tiles_each)
        across = self._groups(self._field(_PANELS), self._panels_each)
        self._set(_INNER, down if self._by_columns else across)
        chunks = self._int("mul", down, across)
        self._line(f"call void @pool(ptr @multiply_{self.name}, ptr %frame, i64 {chunks})")

    def _pack_both(self, tiles: str, down: str) -> None:
        packs_b = packs = "0"
        if self._b.packed:  # what is packed of B serves every block of A
            groups = self._groups(self._field(_PANELS), self._b.together)
            is_new = self._int("icmp eq", down, 0)
            packs_b = packs = self._new(f"select i1 {is_new}, i64 {groups}, i64 0")
        self._set(_PACKS_B, packs_b)
        if self._a.packed:
            packs = self._int("add", packs_b, self._groups(tiles, self._a.together))
        self._line(f"call void @pool(ptr @pack_{self.name}, ptr %frame, i64 {packs})")
