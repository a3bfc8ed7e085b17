"""A matrix product as one IR function: blocks of the operands, packed, feed tiles of the result.

The scheme is that of Goto and van de Geijn (2008): a block of B is copied into panels as wide as a
tile, so that the innermost loop reads straight on, and is short enough to stay in the cache.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from anabranch.backends.native.blocks import BlockedCode
from anabranch.backends.native.blockwise import Finish
from anabranch.backends.native.emit import register_bytes
from anabranch.backends.native.operands import DEPTH, SPEED, Operand, Shapes, matrix
from anabranch.backends.native.packing import Panel, packing
from anabranch.backends.native.partition import CHUNK, MOST, SHARED_FROM
from anabranch.backends.native.schedule import Key, Product, Schedule
from anabranch.backends.native.tiles import Tile, TileCode
from anabranch.backends.native.vectors import FROM_AFAR, DotsCode, are_dots
from anabranch.backends.native.view import row_major
from anabranch.backends.native.writer import Writer
from anabranch.core.dtype import is_half
from anabranch.core.node import Node

BLOCKED_FROM = 16_000.0  # ns on one thread
MANY = 8  # products in a stack, which are shared as they are
MANY_BLOCKED_FROM = 1_000_000.0  # ns, for a product in such a stack
_FRAME = ("a", "b", "c", "scratch")


class ProductCode(Writer):
    """The IR function of one product.

    Attributes:
        time: about how long it takes on one thread, in ns.
        shares: whether threads share it.
        pointers: the values whose memory it takes.
        scratch: bytes of workspace that it takes besides, by its last pointer.
        text: the function.
    """

    def __init__(
        self,
        name: str,
        product: Product,
        schedule: Schedule,
        vector_bytes: int,
        declared: set[str],
    ) -> None:
        super().__init__(declared)
        node = product.node
        self.name = name
        self._a, self._b = _operands(node, schedule)
        self._dtype = node.avals[0].dtype
        self._shapes = Shapes(self._dtype, vector_bytes)
        self._size = self._shapes.bytes
        self.m, self.k = self._a.view.shape[-2:]
        self.n = self._b.view.shape[-1]
        self._batch = node.avals[0].shape[: max(len(self._a.batch), len(self._b.batch))]
        self.pointers: list[Key] = [self._a.key, self._b.key, (node.id, 0)]
        self.scratch = 0
        self.time = self._time_of_one() * math.prod(self._batch)
        loop = product.finish
        self._finish = Finish(loop, schedule, vector_bytes) if loop else None
        self._one = self._large_or_dots(f"{name}_of")  # the function of one matrix, if it has one
        self.shares = self._one is not None and self._one.shares
        self._more = ""  # what the loop over each block is given besides
        if isinstance(self._one, BlockedCode):
            self._more = self._one.more
            self.pointers += self._one.pointers
            self.time += self._one.finish_time
        arguments = f"ptr %a, ptr %b, ptr %c{self._more}, ptr %scratch"
        chunks = self._chunks()
        if chunks > 1:
            self.shares = True
            self._share_stack(chunks)
            begin = self._text(f"define internal void @stack_{name}(ptr %frame, i64 %chunk)")
            self._lines, self._block = [], "entry"
            self._call_chunks(chunks)
            self.scratch *= chunks
            self.text = "\n".join([begin, self._text(f"define void @{name}({arguments})")])
        else:
            if node.avals[0].size:
                self._stack(0, self._start("%a", self._a), self._start("%b", self._b), "%c")
            self.text = self._text(f"define void @{name}({arguments})")
        if self._one:
            self.text += "\n" + self._one.text

    # Stacks that threads share

    def _chunks(self) -> int:
        """Into how many chunks the stack is cut: none whose matrices are."""
        if self.shares or self.time < SHARED_FROM:
            return 1
        return max(min(int(self.time / CHUNK), MOST, math.prod(self._batch)), 1)

    def _call_chunks(self, chunks: int) -> None:
        self.declared.add("declare void @pool(ptr, ptr, i64)")
        self._line(f"%frame = alloca ptr, i64 {len(_FRAME)}")
        for i, word in enumerate(_FRAME):
            place = self._new(f"getelementptr ptr, ptr %frame, i64 {i}")
            self._line(f"store ptr %{word}, ptr {place}")
        self._line(f"call void @pool(ptr @stack_{self.name}, ptr %frame, i64 {chunks})")

    def _share_stack(self, chunks: int) -> None:
        """Some of the products, by number; each chunk has scratch memory of its own."""
        for i, word in enumerate(_FRAME):
            place = self._new(f"getelementptr ptr, ptr %frame, i64 {i}")
            self._line(f"%{word}s = load ptr, ptr {place}")
        count = math.prod(self._batch)
        first, last = (
            self._new(f"udiv i64 {self._times(chunk, count)}, {chunks}")
            for chunk in ("%chunk", self._new("add i64 %chunk, 1"))
        )
        here = len(self._lines)
        with self._counted_to(self._new(f"sub i64 {last}, {first}")) as one:
            number = self._new(f"add i64 {first}, {one}")
            self._matrix_or_call(*self._at_number(number))
        written = self._lines[here:]
        del self._lines[here:]
        own = self._times("%chunk", self.scratch)  # known now that the products are written
        self._line(f"%scratch = getelementptr i8, ptr %scratchs, i64 {own}")
        self._lines += written

    def _at_number(self, number: str) -> list[str]:
        """Where the matrices of this product begin."""
        bases = [self._start("%as", self._a), self._start("%bs", self._b), "%cs"]
        for axis in reversed(range(len(self._batch))):
            length = self._batch[axis]
            i, number = (self._new(f"{word} i64 {number}, {length}") for word in ("urem", "udiv"))
            bases = [
                self._moved_on(base, self._dtype, self._times(i, step))
                for base, step in zip(bases, self._batch_steps(axis), strict=True)
            ]
        return bases

    def _batch_steps(self, axis: int) -> list[int]:
        """In elements, from one product to the next along an axis of the stack."""
        steps = [
            operand.view.broadcast_to((*self._batch, *operand.view.shape[-2:])).strides[axis]
            for operand in (self._a, self._b)
        ]
        return [*steps, row_major((*self._batch, self.m, self.n))[axis]]

    def _large_or_dots(self, name: str) -> BlockedCode | DotsCode | None:
        """Large products have blocks; so have halves, which are made wider as they are packed."""
        args = (name, self._a, self._b, self._shapes, self.declared)
        if 0 in (self.m, self.k, self.n):
            return None
        if are_dots(self._a, self._b) and not is_half(self._dtype):
            return DotsCode(*args)
        if not _is_blocked(self._dtype, self._time_of_one(), math.prod(self._batch)):
            return None
        blocked = BlockedCode(*args, self._finish)
        self.scratch = blocked.scratch
        return blocked

    def _time_of_one(self) -> float:
        """About how long one matrix takes, in ns: to multiply, or to read and write."""
        return _time(self.m, self.k, self.n, self._size)

    def _start(self, base: str, operand: Operand) -> str:
        return self._moved_on(base, self._dtype, str(operand.view.offset))

    def _stack(self, axis: int, a: str, b: str, c: str) -> None:
        """One product for each element of the batch."""
        if axis == len(self._batch):
            self._matrix_or_call(a, b, c)
            return
        with self._counted(self._batch[axis]) as i:
            self._stack(
                axis + 1,
                *(
                    self._moved_on(base, self._dtype, self._times(i, step))
                    for base, step in zip((a, b, c), self._batch_steps(axis), strict=True)
                ),
            )

    def _matrix_or_call(self, a: str, b: str, c: str) -> None:
        if self._one is None:
            self._matrix(a, b, c)
        else:
            self._line(
                f"call void @{self._one.name}(ptr {a}, ptr {b}, ptr {c}{self._more}, ptr %scratch)"
            )

    def _matrix(self, a: str, b: str, c: str) -> None:
        tile = self._shapes.tile(self.m, self.n)
        step = self._b.view.strides[-1]
        is_packed = step != 1 and self.n > 1
        depth = DEPTH[self._size]
        blocks = -(-self.k // depth) or 1
        depth = -(-self.k // blocks)
        if blocks == 1:
            self._block_of(tile, a, b, c, "0", str(self.k), is_packed, "false")
            return
        with self._counted(blocks) as block:
            first = self._times(block, depth)
            left = self._new(f"sub i64 {self.k}, {first}")
            is_last = self._new(f"icmp slt i64 {left}, {depth}")
            k = self._new(f"select i1 {is_last}, i64 {left}, i64 {depth}")
            adds = self._new(f"icmp ne i64 {block}, 0")
            self._block_of(tile, a, b, c, first, k, is_packed, adds)

    def _block_of(
        self, tile: Tile, a: str, b: str, c: str, first: str, k: str, is_packed: bool, adds: str
    ) -> None:
        """Part of the summed axis: every panel of columns, every tile of rows."""
        rows_step, k_step = self._a.view.strides[-2:]
        a = self._moved_on(a, self._dtype, self._times(first, k_step))
        b = self._moved_on(b, self._dtype, self._times(first, self._b.view.strides[-2]))
        panels, rest = divmod(self.n, tile.columns)
        if panels:
            with self._counted(panels) as panel:
                column = self._times(panel, tile.columns)
                self._panel(tile, a, b, c, column, k, is_packed, adds, rows_step, k_step)
        if rest:
            last = self._shapes.last(tile, rest)
            column = str(panels * tile.columns)
            self._panel(last, a, b, c, column, k, is_packed, adds, rows_step, k_step)

    def _panel(
        self,
        tile: Tile,
        a: str,
        b: str,
        c: str,
        column: str,
        k: str,
        is_packed: bool,
        adds: str,
        rows_step: int,
        k_step: int,
    ) -> None:
        b_step, column_step = self._b.view.strides[-2:]
        b = self._moved_on(b, self._dtype, self._times(column, column_step))
        c = self._moved_on(c, self._dtype, column)
        if is_packed:
            tile = replace(tile, padded=True)
            b, b_step = self._packed(tile, b, k), tile.vectors * tile.lanes
        whole, rest = divmod(self.m, tile.rows)
        given = f"i64 {rows_step}, i64 {k_step}, ptr {b}, i64 {b_step}"

        def call(rows: int, row: str) -> None:
            name = TileCode(replace(tile, rows=rows), self.declared).name
            left = self._moved_on(a, self._dtype, self._times(row, rows_step))
            out = self._moved_on(c, self._dtype, self._times(row, self.n))
            result = f"ptr {out}, i64 {self.n}, i1 {adds}, ptr {b}"
            self._line(f"call void @{name}(i64 {k}, ptr {left}, {given}, {result})")

        if whole:
            with self._counted(whole) as turn:
                call(tile.rows, self._times(turn, tile.rows))
        if rest:
            call(rest, str(whole * tile.rows))

    def _packed(self, tile: Tile, b: str, k: str) -> str:
        """A panel of B, copied to the workspace."""
        b_step, column_step = self._b.view.strides[-2:]
        panel = Panel(tile.vectors * tile.lanes, tile.columns, tile.lanes, self._dtype)
        self.scratch = max(self.scratch, panel.room(min(self.k, DEPTH[self._size])))
        step = 1 if self.n == 1 else column_step
        name, steps = packing(panel, step, b_step, self._shapes.lanes, self.declared)
        self._line(f"call void @{name}(i64 {k}, ptr {b}, {steps}, ptr %scratch)")
        return "%scratch"


def _operands(node: Node, schedule: Schedule) -> tuple[Operand, Operand]:
    left, right = (schedule.places[e.node.id, e.index] for e in node.inputs)
    a = matrix(left, True, len(left.view.shape) == 1)
    b = matrix(right, False, len(right.view.shape) == 1)
    if b.view.shape[-1] == 1:  # the same result, and the wider operand on the right
        return b.turned, a.turned
    return a, b


def _time(m: int, k: int, n: int, size: int) -> float:
    touched = m * k + k * n + m * n
    return max(2.0 * m * n * k / SPEED[size], touched * size * FROM_AFAR)


def _is_blocked(dtype: Any, time: float, count: int = 1) -> bool:
    """Whether products that take this long each are made in blocks; halves are added up there."""
    return is_half(dtype) or time >= (BLOCKED_FROM if count < MANY else MANY_BLOCKED_FROM)


def time_in_blocks(node: Node, schedule: Schedule) -> float | None:
    """About how long a product of two matrices takes, in ns; None if it is not made in blocks."""
    a, b = _operands(node, schedule)
    (m, k), n = a.view.shape[-2:], b.view.shape[-1]
    if a.batch or b.batch or min(m, n) < 2 or k == 0:
        return None
    dtype = node.avals[0].dtype
    time = _time(m, k, n, register_bytes(dtype))
    return time if _is_blocked(dtype, time) else None
