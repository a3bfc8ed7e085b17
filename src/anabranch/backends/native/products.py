"""A matrix product as one IR function: blocks of the operands, packed, feed tiles of the result.

The scheme is that of Goto and van de Geijn (2008): a block of B is copied into panels as wide as a
tile, so that the innermost loop reads straight on, and is short enough to stay in the cache.
"""

from __future__ import annotations

from dataclasses import replace

from anabranch.backends.native.blocks import BlockedCode
from anabranch.backends.native.operands import DEPTH, SPEED, Operand, Shapes, matrix
from anabranch.backends.native.schedule import Key, Product, Schedule
from anabranch.backends.native.tiles import PackAny, PackColumns, PackRows, Panel, Tile, TileCode
from anabranch.backends.native.view import row_major
from anabranch.backends.native.writer import Writer
from anabranch.core.dtype import is_half

BLOCKED_FROM = 16_000.0  # ns on one thread


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
        left, right = (schedule.places[e.node.id, e.index] for e in node.inputs)
        self._a = matrix(left, True, len(left.view.shape) == 1)
        self._b = matrix(right, False, len(right.view.shape) == 1)
        self._dtype = node.avals[0].dtype
        self._shapes = Shapes(self._dtype, vector_bytes)
        self._size = self._shapes.bytes
        self.m, self.k = self._a.view.shape[-2:]
        self.n = self._b.view.shape[-1]
        self._batch = node.avals[0].shape[: max(len(self._a.batch), len(self._b.batch))]
        self.pointers: list[Key] = [self._a.key, self._b.key, (node.id, 0)]
        self.scratch = 0
        self.time = 2.0 * node.avals[0].size * self.k / SPEED[self._size]
        self.shares = self._is_blocked()
        self._blocked = None
        if self.shares:
            args = (f"{name}_of", self._a, self._b, self._shapes, declared)
            self._blocked = BlockedCode(*args)
            self.scratch = self._blocked.scratch
        if node.avals[0].size:
            self._stack(0, self._start("%a", self._a), self._start("%b", self._b), "%c")
        arguments = "ptr %a, ptr %b, ptr %c, ptr %scratch"
        self.text = self._text(f"define internal void @{name}({arguments})")
        if self._blocked:
            self.text += "\n" + self._blocked.text

    def _is_blocked(self) -> bool:
        """Whether one matrix is large, or must be changed as it is packed."""
        if 0 in (self.m, self.k, self.n):
            return False
        time = 2.0 * self.m * self.n * self.k / SPEED[self._size]
        return is_half(self._dtype) or (time >= BLOCKED_FROM and min(self.m, self.n) > 1)

    def _start(self, base: str, operand: Operand) -> str:
        return self._moved_on(base, self._dtype, str(operand.view.offset))

    def _stack(self, axis: int, a: str, b: str, c: str) -> None:
        """One product for each element of the batch."""
        if axis == len(self._batch):
            if self._blocked is None:
                self._matrix(a, b, c)
            else:
                name = self._blocked.name
                self._line(f"call void @{name}(ptr {a}, ptr {b}, ptr {c}, ptr %scratch)")
            return
        shape = (*self._batch, self.m, self.n)
        steps = [
            operand.view.broadcast_to((*self._batch, *operand.view.shape[-2:])).strides[axis]
            for operand in (self._a, self._b)
        ]
        steps.append(row_major(shape)[axis])
        with self._counted(self._batch[axis]) as i:
            self._stack(
                axis + 1,
                *(
                    self._moved_on(base, self._dtype, self._times(i, step))
                    for base, step in zip((a, b, c), steps, strict=True)
                ),
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
            tile = replace(tile, b_step=tile.vectors * tile.lanes)
            b, b_step = self._packed(tile, b, k), 0
        whole, rest = divmod(self.m, tile.rows)
        given = f"i64 {rows_step}, i64 {k_step}, ptr {b}, i64 {b_step}"

        def call(rows: int, row: str) -> None:
            name = TileCode(replace(tile, rows=rows), self.declared).name
            left = self._moved_on(a, self._dtype, self._times(row, rows_step))
            out = self._moved_on(c, self._dtype, self._times(row, self.n))
            result = f"ptr {out}, i64 {self.n}, i1 {adds}"
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
        if column_step == 1 or self.n == 1:
            name, steps = PackRows(panel, self.declared).name, f"i64 {b_step}"
        elif b_step == 1:
            name, steps = PackColumns(panel, self.declared).name, f"i64 {column_step}"
        else:
            name, steps = PackAny(panel, self.declared).name, f"i64 {b_step}, i64 {column_step}"
        self._line(f"call void @{name}(i64 {k}, ptr {b}, {steps}, ptr %scratch)")
        return "%scratch"
