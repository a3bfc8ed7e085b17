"""Where values of a program lie: one stretch of memory, shared by those never alive together."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple, TypeVar

ALIGNMENT = 64
K = TypeVar("K", bound=Hashable)


def aligned(size: int) -> int:
    """Rounded up, so that what follows is aligned."""
    return -(-size // ALIGNMENT) * ALIGNMENT


class Room(NamedTuple):
    """The memory of one value: where, how long, and from which step to which it is in use."""

    offset: int
    size: int
    born: int
    dies: int


def planned(uses: Sequence[Iterable[tuple[K, int]]]) -> tuple[dict[K, Room], int]:
    """A room for each value, and the bytes of all, from what each step uses: (value, size).

    A value lives from the first step that uses it to the last. It gets the smallest gap that holds
    it; the work is linear in the uses but for the look into the sorted list of gaps.
    """
    born: dict[K, int] = {}
    dies: dict[K, int] = {}
    sizes: dict[K, int] = {}
    for time, used in enumerate(uses):
        for key, size in used:
            born.setdefault(key, time)
            dies[key] = time
            sizes[key] = aligned(size)
    begins = _by_time(born, len(uses))
    ends = _by_time(dies, len(uses))
    gaps, rooms = Gaps(), {}
    for time in range(len(uses)):
        for key in begins[time]:
            rooms[key] = Room(gaps.take(sizes[key]), sizes[key], time, dies[key])
        for key in ends[time]:
            gaps.give(rooms[key].offset, rooms[key].size)
    return rooms, gaps.top


def _by_time(times: dict[K, int], count: int) -> list[list[K]]:
    found: list[list[K]] = [[] for _ in range(count)]
    for key, time in times.items():
        found[time].append(key)
    return found


class Gaps:
    """The free stretches below `top`; neighbours are one."""

    def __init__(self) -> None:
        self.top = 0
        self._sorted: list[tuple[int, int]] = []  # (size, offset)
        self._starts: dict[int, int] = {}  # offset: size
        self._ends: dict[int, int] = {}  # end: offset

    def take(self, size: int) -> int:
        """The offset of so many bytes, in the smallest gap that has them, else at the top."""
        if not size:
            return 0
        place = bisect_left(self._sorted, (size, 0))
        if place == len(self._sorted):
            self.top += size
            return self.top - size
        room, offset = self._sorted[place]
        self._drop(offset, room)
        if room > size:
            self._add(offset + size, room - size)
        return offset

    def give(self, offset: int, size: int) -> None:
        """Free what was taken."""
        if not size:
            return
        if (before := self._ends.get(offset)) is not None:
            room = self._starts[before]
            self._drop(before, room)
            offset, size = before, size + room
        if (after := self._starts.get(offset + size)) is not None:
            self._drop(offset + size, after)
            size += after
        self._add(offset, size)

    def _add(self, offset: int, size: int) -> None:
        insort(self._sorted, (size, offset))
        self._starts[offset] = size
        self._ends[offset + size] = offset

    def _drop(self, offset: int, size: int) -> None:
        del self._sorted[bisect_left(self._sorted, (size, offset))]
        del self._starts[offset], self._ends[offset + size]
