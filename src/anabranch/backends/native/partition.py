"""Cutting a loop into chunks that threads can share.

Where the cuts are follows from shapes and operations only, never from the number of threads, so a
sum that is made of one part for each chunk has the same bits on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

CHUNK = 8_000.0  # ns that one chunk should take at least
MOST = 64  # chunks
STRIP = 4096  # elements that one accumulator takes before it is added to the total
SHARED_FROM = 2 * CHUNK  # ns that are worth waking others for
_HANDED = 1_000.0  # ns after which others have begun, and that sharing with them must save
_BYTE = 0.01  # ns for moving a byte
_FAR_BYTE = 0.1  # ns for a byte that lies in another processor's cache
_LIGHT, _HEAVY = 0.02, 1.3  # ns for an operation on a float64


@dataclass(frozen=True)
class Cut:
    """One axis of a loop nest, in chunks.

    Attributes:
        axis: which one.
        unit: elements that stay together.
        each: units of a chunk; the last one may have fewer, and takes what is left besides.
        units: in all.
        lead: units that the first chunk has besides, in a short loop: others begin later.
        wakes: whether threads that sleep are woken for it.
    """

    axis: int
    unit: int
    each: int
    units: int
    lead: int = 0
    wakes: bool = True

    @property
    def chunks(self) -> int:
        return -(-(self.units - self.lead) // self.each)


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
    time: float,
    bytes_: int,
    lengths: Sequence[int],
    lanes: int,
    is_summed: bool,
    parts: Sequence[int],
    most: int,
) -> Cut | None:
    """The axis to cut, from outside the first that gives enough chunks; None if it does not pay.

    Args:
        time: of the whole loop, in ns.
        bytes_: that it reads and writes.
        lengths: of the axes.
        lanes: elements of the innermost axis that stay together.
        is_summed: whether something is summed along that axis, which has accumulators then.
        parts: for each axis, the bytes of the sums that every chunk would have for itself.
        most: bytes that these may take altogether.
    """
    wakes = time >= SHARED_FROM
    if not wakes and (time - bytes_ * _FAR_BYTE) / 2.0 < _HANDED:
        return None
    # Chunks of half the length: among few, the threads that have one more would be waited for.
    wanted = max(min(int(2.0 * time / CHUNK), MOST), 2)
    best = None
    for axis, length in enumerate(lengths):
        size = 1
        if axis == len(lengths) - 1:
            size = STRIP if is_summed and length // wanted > STRIP else lanes
        units = length // size
        if units < 2:
            continue
        lead = 0 if wakes else int(units * _HANDED / time)
        found = Cut(axis, size, max(-(-(units - lead) // wanted), 1), units, lead, wakes)
        if found.chunks < 2 or found.chunks * parts[axis] > most:
            continue
        if 2 * found.chunks >= wanted:
            return found
        if best is None or found.chunks > best.chunks:
            best = found
    return best
