"""Cutting a loop into chunks that threads can share.

Where the cuts are follows from shapes and operations only, never from the number of threads, so a
sum that is made of one part for each chunk has the same bits on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

CHUNK = 8_000.0  # ns that one chunk should take at least
MOST = 64  # chunks
SHARED_FROM = 2 * CHUNK
_BYTE = 0.01  # ns for moving a byte
_LIGHT, _HEAVY = 0.02, 1.3  # ns for an operation on a float64


@dataclass(frozen=True)
class Cut:
    """One axis of a loop nest, in chunks.

    Attributes:
        axis: which one.
        unit: elements that stay together.
        each: units of a chunk; the last one may have fewer, and takes what is left besides.
        units: in all.
    """

    axis: int
    unit: int
    each: int
    units: int

    @property
    def chunks(self) -> int:
        return -(-self.units // self.each)


def time_of(elements: int, bytes_: int, sizes: Sequence[tuple[int, bool]]) -> float:
    """About how long a loop takes on one thread, in ns.

    Args:
        elements: that it runs over.
        bytes_: read and written for each of them.
        sizes: of each operation's element in bytes, and whether it is made of many others.
    """
    each = bytes_ * _BYTE
    for size, is_heavy in sizes:
        each += _HEAVY * (size / 8) ** 2 if is_heavy else _LIGHT * size / 8
    return elements * each


def cut(
    time: float, lengths: Sequence[int], unit: int, parts: Sequence[int], most: int
) -> Cut | None:
    """The axis to cut, from outside the first that gives enough chunks; None if it does not pay.

    Args:
        time: of the whole loop, in ns.
        lengths: of the axes.
        unit: elements of the innermost axis that stay together.
        parts: for each axis, the bytes of the sums that every chunk would have for itself.
        most: bytes that these may take altogether.
    """
    if time < SHARED_FROM:
        return None
    # Chunks of half the length: among few, the threads that have one more would be waited for.
    wanted = min(int(2.0 * time / CHUNK), MOST)
    best = None
    for axis, length in enumerate(lengths):
        size = unit if axis == len(lengths) - 1 else 1
        units = length // size
        if units < 2:
            continue
        found = Cut(axis, size, max(-(-units // wanted), 1), units)
        if found.chunks < 2 or found.chunks * parts[axis] > most:
            continue
        if 2 * found.chunks >= wanted:
            return found
        if best is None or found.chunks > best.chunks:
            best = found
    return best
