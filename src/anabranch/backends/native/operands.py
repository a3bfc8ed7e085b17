"""What the kinds of products share: their operands, and the tiles that suit a processor."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, replace

from anabranch.backends.native.emit import register_bytes
from anabranch.backends.native.schedule import Key, Place
from anabranch.backends.native.tiles import Tile
from anabranch.backends.native.view import View
from anabranch.core.dtype import DType

# By the bytes of vector registers: the rows that a tile of so many vectors has at most, and its
# vectors where the result has many. AVX-512 has 32 registers, AVX2 and SSE2 have 16; NEON has 32.
_TILES = {64: {1: 12, 2: 12, 3: 9, 4: 6}, 32: {1: 6, 2: 6, 3: 4}, 16: {1: 6, 2: 6, 3: 4}}
_NEON = {1: 6, 2: 6, 3: 6, 4: 6}
_MANY = {64: 4, 32: 2, 16: 2}
_MANY_NEON = 4
EVEN = 2  # tiles down that share the rows evenly
WIDE = 8  # vectors of a tile of one row
DEPTH = {8: 768, 4: 1024}  # by element size: how much of the summed axis a block takes
SPEED = {8: 50.0, 4: 100.0}  # by element size: additions and multiplications in a ns, about


def is_arm() -> bool:
    """Whether code is made for 64-bit ARM."""
    return platform.machine().lower() in ("aarch64", "arm64")


def second_cache() -> int:
    """Bytes of a processor's second cache; half a MiB where the system does not tell."""
    try:
        return max(os.sysconf("SC_LEVEL2_CACHE_SIZE"), 256 * 1024)
    except (AttributeError, OSError, ValueError):
        return 512 * 1024


@dataclass(frozen=True)
class Operand:
    """A matrix, or a stack of them: where it lies and its steps."""

    key: Key
    view: View

    @property
    def batch(self) -> tuple[int, ...]:
        return self.view.shape[:-2]

    @property
    def turned(self) -> Operand:
        """The same with its last two axes exchanged."""
        axes = range(len(self.view.shape))
        return Operand(self.key, self.view.permute((*axes[:-2], axes[-1], axes[-2])))


def matrix(place: Place, is_vector_row: bool, is_vector: bool) -> Operand:
    """A vector is a matrix of one row (on the left) or of one column (on the right)."""
    view = place.view
    if not is_vector:
        return Operand(place.base, view)
    (length,), (step,) = view.shape, view.strides
    if is_vector_row:
        return Operand(place.base, View((1, length), (0, step), view.offset))
    return Operand(place.base, View((length, 1), (step, 0), view.offset))


@dataclass(frozen=True)
class Shapes:
    """The tiles for elements of one dtype on one kind of processor."""

    dtype: DType
    vector_bytes: int

    @property
    def bytes(self) -> int:
        """Of an element as it is computed."""
        return register_bytes(self.dtype)

    @property
    def lanes(self) -> int:
        return self.vector_bytes // self.bytes

    @property
    def depth(self) -> int:
        return DEPTH[self.bytes]

    @property
    def _most(self) -> tuple[dict[int, int], int]:
        if self.vector_bytes == 16 and is_arm():
            return _NEON, _MANY_NEON
        return _TILES[self.vector_bytes], _MANY[self.vector_bytes]

    def tile(self, m: int, n: int) -> Tile:
        """What an m by n result is covered with: as many rows and vectors as fit.

        The rows of two tiles down are shared evenly; among more, a low one at the end costs little,
        and results of many heights have tiles in common.
        """
        lanes = self.lanes
        while lanes >= 2 * n and lanes > 1:
            lanes //= 2
        rows, many = self._most
        across = -(-n // lanes)
        if m == 1:
            vectors = min(across, WIDE)
            return Tile(1, vectors, lanes, vectors * lanes, self.dtype)
        once = [v for v in range(2, many + 1) if rows[v] >= m]  # B is read once, by one tile down
        most = max(once) if once else many
        widths = [v for v in (most, *range(most + 1, 1, -1)) if v in rows and v <= across] or [1]
        vectors = min(widths, key=lambda v: self._steps(n, v, lanes))
        turns = -(-m // rows[vectors])
        height = -(-m // turns) if turns <= EVEN else rows[vectors]
        return Tile(height, vectors, lanes, vectors * lanes, self.dtype)

    def _steps(self, n: int, vectors: int, lanes: int) -> float:
        """About how long a row of the result takes with such tiles: vectors that go by, in all.

        A narrow vector saves half of one at most, and for a single vector there is a load of A.
        """
        panels, columns = divmod(n, vectors * lanes)
        if not columns:
            return panels * vectors
        rest = self.last(Tile(1, vectors, lanes, vectors * lanes, self.dtype), columns)
        return panels * vectors + max(rest.lanes / lanes, 0.5) * max(rest.vectors, 1.2)

    def last(self, tile: Tile, columns: int) -> Tile:
        """The same for the columns that are left over, with vectors no wider than they need."""
        lanes = tile.lanes
        while lanes >= 2 * columns and lanes > 2:
            lanes //= 2
        return replace(tile, vectors=-(-columns // lanes), lanes=lanes, columns=columns)
