"""What drives products in blocks: IR functions that all of them share, whatever their sizes.

`@drive_blocks(frame)` does the blocks in order. For each, `@pack_blocks(frame, chunk)` copies some
panels, and `@multiply_blocks(frame, chunk)` does some tiles down and some panels across. What they
must know of a product lies in its frame, eight bytes each; the numbers that never change in a table
that the frame leads to, and in the order of `NUMBERS`.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Mapping

from anabranch.backends.native.tiles import FETCHED
from anabranch.backends.native.writer import Writer

# Of both operands, rows of A or columns of B: panels in all and in one block; panels that are
# whole; panels that a chunk packs; blocks; whether it is packed. In bytes: from panel to panel in
# memory and as tiles read it, of a packed panel, and along the summed axis. Then what packs is
# told: its steps, and the width and the columns of a whole panel and of the last one.
_SIDE = (
    *("panels", "far", "whole", "together", "blocks", "packed"),
    *("stride", "pace", "room", "depth_stride"),
    *("along", "across", "width", "last_width", "columns", "last_columns"),
)
# Of the product: the summed axis, in all and in one block, and its blocks; rows and columns of a
# tile, and bytes from tile to tile of C; tiles and panels of a chunk, and whether neighbouring
# chunks share columns; whether there is a loop over each block of the result; where packed B
# begins; and what tiles are told: steps of A, along whole and last panels of B, and down in C.
NUMBERS = (
    *(f"a_{word}" for word in _SIDE),
    *(f"b_{word}" for word in _SIDE),
    *("k", "depth", "blocks", "rows", "columns", "down", "right"),
    *("tiles_each", "panels_each", "by_columns", "finishes", "b_begins"),
    *("read_across_a", "read_along_a", "read_along_b", "read_along_last_b", "down_c"),
)
_AT = {name: i for i, name in enumerate(NUMBERS)}

# What a frame holds: what the caller gives, and what changes from block to block. What each tile
# needs lies in the first two lines of a cache, since threads that share a product must fetch it.
TABLE, SCRATCH, _A, _B, _C, _DEPTH, _ADDS, _IS_LAST = range(8)
_INNER, _PANELS, _WHOLE = 8, 9, 11  # the last two of A and of B
TILES, FINISHES, PACKERS = 13, 17, 21  # functions: for the last row, for the last column, for both
_ROW, _COLUMN, _PACKS_B, GIVEN_A, GIVEN_B, GIVEN_C = range(25, 31)
FRAME = 31  # behind it: what a loop over each block of the result walks through

DECLARED = "declare void @pool(ptr, ptr, i64)"


def table(name: str, numbers: Mapping[str, int]) -> str:
    """The numbers of a product, as a constant."""
    row = ", ".join(f"i64 {numbers[number]}" for number in NUMBERS)
    return f"@{name} = internal constant [{len(NUMBERS)} x i64] [{row}]"


@functools.lru_cache(maxsize=1)
def driver() -> str:
    """The three functions, of which others call the first."""
    writers = _Driving, _Multiplying, _Packing
    return "\n".join(writer().text for writer in writers)


class Part(Writer, abc.ABC):
    """One of the functions, which reads its frame and the table."""

    head: str
    text: str

    def __init__(self) -> None:
        super().__init__(set())
        self._numbers = self._field(TABLE, "ptr")
        self._write()
        self.text = self._text(f"define internal void @{self.head}")

    @abc.abstractmethod
    def _write(self) -> None: ...

    def _int(self, word: str, x: str | int, y: str | int) -> str:
        return self._new(f"{word} i64 {x}, {y}")

    def _least(self, x: str | int, y: str | int) -> str:
        return self._chosen(self._int("icmp slt", x, y), x, y)

    def _chosen(self, condition: str, x: str | int, y: str | int) -> str:
        return self._new(f"select i1 {condition}, i64 {x}, i64 {y}")

    def _groups(self, count: str, each: str) -> str:
        more = self._int("sub", self._int("add", count, each), 1)
        return self._int("udiv", more, each)

    def _number(self, name: str, on: str | int = 0) -> str:
        """One of the table; or so many behind it."""
        index = self._int("add", on, _AT[name])
        place = self._new(f"getelementptr i64, ptr {self._numbers}, i64 {index}")
        return self._new(f"load i64, ptr {place}")

    def _place(self, place: str | int) -> str:
        return self._new(f"getelementptr i64, ptr %frame, i64 {place}")

    def _field(self, place: str | int, kind: str = "i64") -> str:
        return self._new(f"load {kind}, ptr {self._place(place)}")

    def _set(self, place: str | int, value: str, kind: str = "i64") -> None:
        self._line(f"store {kind} {value}, ptr {self._place(place)}")

    def _on(self, base: str, bytes_: str) -> str:
        return self._new(f"getelementptr i8, ptr {base}, i64 {bytes_}")

    def _product(self, *factors: str) -> str:
        return functools.reduce(functools.partial(self._int, "mul"), factors)

    def _sum(self, *parts: str) -> str:
        return functools.reduce(functools.partial(self._int, "add"), parts)


class _Driving(Part):
    """The blocks in order, two steps for each."""

    head = "drive_blocks(ptr %frame)"

    def _write(self) -> None:
        with self._counted(self._number("b_blocks")) as right:
            self._enter("b", right)
            with self._counted(self._number("blocks")) as block:
                self._begin_sums(block)
                with self._counted(self._number("a_blocks")) as down:
                    self._enter("a", down)
                    self._corners(right, block, down)
                    self._pack(down)
                    self._multiply()

    def _enter(self, side: str, block: str) -> None:
        """How many panels of one side a block has, and how many of them are whole."""
        far, is_b = self._number(f"{side}_far"), side == "b"
        before = self._int("mul", block, far)
        for place, word in ((_PANELS, "panels"), (_WHOLE, "whole")):
            left = self._int("sub", self._number(f"{side}_{word}"), before)
            self._set(place + is_b, self._least(left, far))

    def _begin_sums(self, block: str) -> None:
        depth = self._number("depth")
        first = self._int("mul", block, depth)
        self._set(_DEPTH, self._least(self._int("sub", self._number("k"), first), depth))
        self._set(_ADDS, block)
        last = self._int("sub", self._number("blocks"), 1)
        is_last = self._new(f"zext i1 {self._int('icmp eq', block, last)} to i64")
        self._set(_IS_LAST, self._int("and", is_last, self._number("finishes")))

    def _corners(self, right: str, block: str, down: str) -> None:
        """Where the block lies in A, in B, and in C."""
        first = self._int("mul", block, self._number("depth"))
        tiles = self._int("mul", down, self._number("a_far"))
        panels = self._int("mul", right, self._number("b_far"))
        for place, given, side, count in (
            (_A, GIVEN_A, "a", tiles),
            (_B, GIVEN_B, "b", panels),
        ):
            across = self._int("mul", count, self._number(f"{side}_stride"))
            along = self._int("mul", first, self._number(f"{side}_depth_stride"))
            here = self._on(self._field(given, "ptr"), self._int("add", across, along))
            self._set(place, here, "ptr")
        self._set(_ROW, self._int("mul", tiles, self._number("rows")))
        self._set(_COLUMN, self._int("mul", panels, self._number("columns")))
        below = self._int("mul", tiles, self._number("down"))
        beside = self._int("mul", panels, self._number("right"))
        corner = self._on(self._field(GIVEN_C, "ptr"), self._int("add", below, beside))
        self._set(_C, corner, "ptr")

    def _pack(self, down: str) -> None:
        """What is packed of B serves every block of A."""
        is_new = self._new(f"zext i1 {self._int('icmp eq', down, 0)} to i64")
        groups = self._groups(self._field(_PANELS + 1), self._number("b_together"))
        packs_b = self._product(groups, self._number("b_packed"), is_new)
        self._set(_PACKS_B, packs_b)
        groups = self._groups(self._field(_PANELS), self._number("a_together"))
        packs = self._int("add", packs_b, self._int("mul", groups, self._number("a_packed")))
        with self._if(self._int("icmp ne", packs, 0)):
            self._line(f"call void @pool(ptr @pack_blocks, ptr %frame, i64 {packs})")

    def _multiply(self) -> None:
        down = self._groups(self._field(_PANELS), self._number("tiles_each"))
        across = self._groups(self._field(_PANELS + 1), self._number("panels_each"))
        by_columns = self._int("icmp ne", self._number("by_columns"), 0)
        self._set(_INNER, self._chosen(by_columns, down, across))
        chunks = self._int("mul", down, across)
        self._line(f"call void @pool(ptr @multiply_blocks, ptr %frame, i64 {chunks})")


class _Packing(Part):
    """Some panels of B, or behind those, of A."""

    head = "pack_blocks(ptr %frame, i64 %chunk)"

    def _write(self) -> None:
        count = self._field(_PACKS_B)
        is_b = self._int("icmp slt", "%chunk", count)
        side = self._new(f"zext i1 {is_b} to i64")
        own = self._int("mul", side, len(_SIDE))  # numbers of this side lie so far behind A's
        words = "together", "stride", "room", "along", "across"
        together, stride, room, *steps = (self._number(f"a_{word}", own) for word in words)
        source = self._field(self._int("add", side, _A), "ptr")
        begin = self._int("mul", side, self._number("b_begins"))
        to = self._on(self._field(SCRATCH, "ptr"), begin)
        whole = self._field(self._int("add", side, _WHOLE))
        chunk = self._int("sub", "%chunk", self._chosen(is_b, 0, count))
        first = self._int("mul", chunk, together)
        end = self._field(self._int("add", side, _PANELS))
        last = self._least(self._int("add", first, together), end)
        depth = self._field(_DEPTH)
        with self._counted_to(last, first=first) as number:
            is_last = self._new(f"zext i1 {self._int('icmp sge', number, whole)} to i64")
            here = self._on(source, self._int("mul", number, stride))
            there = self._on(to, self._int("mul", number, room))
            place = self._int("add", own, is_last)
            sizes = [self._number(word, place) for word in ("a_width", "a_columns")]
            which = self._sum(self._int("mul", side, 2), is_last, str(PACKERS))
            packer = self._field(which, "ptr")
            told = ", ".join(f"i64 {number}" for number in (*steps, *sizes))
            self._line(f"call void {packer}(i64 {depth}, ptr {here}, {told}, ptr {there})")


class _Multiplying(Part):
    """Some tiles down, some panels across."""

    head = "multiply_blocks(ptr %frame, i64 %chunk)"

    def _write(self) -> None:
        self._depth, is_packed = self._field(_DEPTH), self._number("b_packed")
        self._fetched = self._product(self._depth, is_packed, str(FETCHED))
        self._room = self._int("mul", self._number("b_room"), is_packed)
        self._steps = [*map(self._number, ("read_across_a", "read_along_a", "down_c"))]
        self._adds = self._int("icmp ne", self._field(_ADDS), 0)
        self._is_last = self._int("icmp ne", self._field(_IS_LAST), 0)
        (top, bottom), (left, end) = self._chunk()
        scratch = self._field(SCRATCH, "ptr")
        from_a, from_b = (
            self._new(f"select i1 {self._is_side_packed(side)}, ptr {packed}, ptr {source}")
            for side, packed, source in (
                ("a", scratch, self._field(_A, "ptr")),
                ("b", self._on(scratch, self._number("b_begins")), self._field(_B, "ptr")),
            )
        )
        whole_tiles, whole_panels = self._field(_WHOLE), self._field(_WHOLE + 1)
        c, pace_a, pace_b = (self._field(_C, "ptr"), *map(self._number, ("a_pace", "b_pace")))
        down, right = self._number("down"), self._number("right")
        with self._counted_to(end, first=left) as panel:
            is_last = self._new(f"zext i1 {self._int('icmp sge', panel, whole_panels)} to i64")
            b = self._on(from_b, self._int("mul", panel, pace_b))
            along = self._number("read_along_b", is_last)
            first_kind = self._int("mul", is_last, 2)
            corner = self._on(c, self._int("mul", panel, right))
            with self._counted_to(bottom, first=top) as tile:
                is_rest = self._new(f"zext i1 {self._int('icmp sge', tile, whole_tiles)} to i64")
                kind = self._int("add", first_kind, is_rest)
                a = self._on(from_a, self._int("mul", tile, pace_a))
                out = self._on(corner, self._int("mul", tile, down))
                self._call_tile(kind, a, b, along, out, self._int("sub", tile, top))
                self._finish(kind, tile, panel, self._number("a_columns", is_rest))

    def _is_side_packed(self, side: str) -> str:
        return self._int("icmp ne", self._number(f"{side}_packed"), 0)

    def _chunk(self) -> list[tuple[str, str]]:
        """The first and the last of its tiles, and of its panels."""
        count = self._field(_INNER)
        outer, inner = (self._int(word, "%chunk", count) for word in ("udiv", "urem"))
        by_columns = self._int("icmp ne", self._number("by_columns"), 0)
        found = []
        for side, number, (one, other) in (
            (0, "tiles_each", (inner, outer)),
            (1, "panels_each", (outer, inner)),
        ):
            each = self._number(number)
            first = self._int("mul", self._chosen(by_columns, one, other), each)
            last = self._least(self._int("add", first, each), self._field(_PANELS + side))
            found.append((first, last))
        return found

    def _call_tile(self, kind: str, a: str, b: str, along: str, out: str, done: str) -> None:
        """A tile, which fetches its part of the next panel of B if that is packed."""
        part = self._on(b, self._int("add", self._int("mul", done, self._fetched), self._room))
        tile = self._field(self._int("add", kind, TILES), "ptr")
        across, along_a, down = self._steps
        given = f"i64 {self._depth}, ptr {a}, i64 {across}, i64 {along_a}, ptr {b}, i64 {along}"
        self._line(f"call void {tile}({given}, ptr {out}, i64 {down}, i1 {self._adds}, ptr {part})")

    def _finish(self, kind: str, tile: str, panel: str, rows: str) -> None:
        """Where a block of the result has its last contribution, the loop over it."""
        with self._if(self._is_last):
            row = self._int("mul", tile, self._number("rows"))
            column = self._int("mul", panel, self._number("columns"))
            row = self._int("add", row, self._field(_ROW))
            column = self._int("add", column, self._field(_COLUMN))
            loop = self._field(self._int("add", kind, FINISHES), "ptr")
            given = f"ptr %frame, i64 {row}, i64 {column}, i64 {rows}"
            self._line(f"call void {loop}({given})")
