"""A matrix product as one IR function: blocks of the operands, packed, feed tiles of the result.

The scheme is that of Goto and van de Geijn (2008): a block of B is copied into panels as wide as a
tile, so that the innermost loop reads straight on, and is short enough to stay in the cache.
"""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.backends.native.emit import register_type
from anabranch.backends.native.schedule import Key, Place, Product, Schedule
from anabranch.backends.native.tiles import PackAny, PackColumns, PackRows, Tile, TileCode
from anabranch.backends.native.view import View, row_major
from anabranch.backends.native.writer import Writer

DEPTH = {8: 256, 4: 384}  # by element size: how much of the summed axis a block takes
PACKED_FROM = 32 * 1024  # bytes of B


@dataclass(frozen=True)
class Operand:
    """A matrix, or a stack of them: where it lies and its steps."""

    key: Key
    view: View

    @property
    def batch(self) -> tuple[int, ...]:
        return self.view.shape[:-2]


def matrix(place: Place, is_vector_row: bool, is_vector: bool) -> Operand:
    """A vector is a matrix of one row (on the left) or of one column (on the right)."""
    view = place.view
    if not is_vector:
        return Operand(place.base, view)
    (length,), (step,) = view.shape, view.strides
    if is_vector_row:
        return Operand(place.base, View((1, length), (0, step), view.offset))
    return Operand(place.base, View((length, 1), (step, 0), view.offset))


class ProductCode(Writer):
    """The IR function of one product.

    Attributes:
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
        self._element = register_type(node.avals[0].dtype)
        self._size = node.avals[0].dtype.itemsize
        self._dtype = node.avals[0].dtype
        self.m, self.k = self._a.view.shape[-2:]
        self.n = self._b.view.shape[-1]
        batch = node.avals[0].shape[: max(len(self._a.batch), len(self._b.batch))]
        self._batch = batch
        self._lanes = vector_bytes // self._size
        self._registers = 16 if vector_bytes == 32 else 32
        self.pointers: list[Key] = [self._a.key, self._b.key, (node.id, 0)]
        self.scratch = 0
        if node.avals[0].size:
            self._stack(0, self._start("%a", self._a), self._start("%b", self._b), "%c")
        arguments = "ptr %a, ptr %b, ptr %c, ptr %scratch"
        self.text = self._text(f"define internal void @{name}({arguments})")

    def _start(self, base: str, operand: Operand) -> str:
        return self._moved_on(base, self._dtype, str(operand.view.offset))

    def _stack(self, axis: int, a: str, b: str, c: str) -> None:
        """One product for each element of the batch."""
        if axis == len(self._batch):
            self._matrix(a, b, c)
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
        lanes = self._lanes
        while lanes >= 2 * self.n and lanes > 1:
            lanes //= 2
        across = -(-self.n // lanes)
        vectors = min(across, 2) if across not in (3, 6) else 3
        most = min((self._registers - vectors - 1) // vectors, 14)
        turns = -(-self.m // most)
        rows = -(-self.m // turns)
        tile = Tile(rows, vectors, lanes, self._element, vectors * lanes)
        step = self._b.view.strides[-1]
        is_packed = (step != 1 and self.n > 1) or (
            self.k * self.n * self._size > PACKED_FROM and self.m > 2 * most
        )
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
        panels, rest = divmod(self.n, tile.width)
        if panels:
            with self._counted(panels) as panel:
                column = self._times(panel, tile.width)
                self._panel(tile, a, b, c, column, k, is_packed, adds, rows_step, k_step)
        if rest:
            vectors = -(-rest // tile.lanes)
            last = Tile(tile.rows, vectors, tile.lanes, tile.element, rest)
            column = str(panels * tile.width)
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
            b, b_step = self._packed(tile, b, k), tile.width
        whole, rest = divmod(self.m, tile.rows)
        given = f"i64 {rows_step}, i64 {k_step}, ptr {b}, i64 {b_step}"

        def call(rows: int, row: str) -> None:
            one = Tile(rows, tile.vectors, tile.lanes, tile.element, tile.columns)
            name = TileCode(one, self.declared).name
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
        depth = min(self.k, DEPTH[self._size]) + tile.lanes
        self.scratch = max(self.scratch, depth * tile.width * self._size)
        if column_step == 1 or self.n == 1:
            name, steps = PackRows(tile, self.declared).name, f"i64 {b_step}"
        elif b_step == 1:
            name, steps = PackColumns(tile, self.declared).name, f"i64 {column_step}"
        else:
            name, steps = PackAny(tile, self.declared).name, f"i64 {b_step}, i64 {column_step}"
        self._line(f"call void @{name}(i64 {k}, ptr {b}, {steps}, ptr %scratch)")
        return "%scratch"
