"""Where the elements of a value lie in memory that another value owns."""

from __future__ import annotations

import functools
import math

from anabranch.core.aval import Shape
from anabranch.core.record import record

Strides = tuple[int, ...]


def row_major(shape: Shape) -> Strides:
    """The distance, in elements, from one index to the next along each axis in C order."""
    strides = []
    step = 1
    for length in reversed(shape):
        strides.append(step)
        step *= length
    return tuple(reversed(strides))


@record
class View:
    """Element i of a value is element `offset + i · strides` of its base.

    The methods are what ops that only move elements say in their records.
    """

    shape: Shape
    strides: Strides
    offset: int = 0

    @staticmethod
    @functools.lru_cache(maxsize=1024)
    def whole(shape: Shape) -> View:
        """The base itself."""
        return View(shape, row_major(shape))

    @property
    def is_whole(self) -> bool:
        """Whether it reads contiguous memory from the start, in order."""
        wanted = row_major(self.shape)
        return self.offset == 0 and (
            0 in self.shape
            or all(
                n == 1 or a == b for n, a, b in zip(self.shape, self.strides, wanted, strict=True)
            )
        )

    def permute(self, axes: tuple[int, ...]) -> View:
        return View(
            tuple(self.shape[a] for a in axes), tuple(self.strides[a] for a in axes), self.offset
        )

    def broadcast_to(self, shape: Shape) -> View:
        if shape == self.shape and 1 not in shape:
            return self
        missing = len(shape) - len(self.shape)
        strides = (0,) * missing + tuple(
            0 if n == 1 else step for n, step in zip(self.shape, self.strides, strict=True)
        )
        return View(shape, strides, self.offset)

    def slice(self, index: tuple[int | tuple[int, int | None, int], ...]) -> View:
        """One entry for each axis: an integer, or (start, stop, step) as `range` reads them."""
        shape, strides, offset = [], [], self.offset
        for entry, length, step in zip(index, self.shape, self.strides, strict=True):
            if isinstance(entry, tuple):
                places = range(*slice(*entry).indices(length))
                shape.append(len(places))
                strides.append(places.step * step)
                offset += places.start * step if places else 0
            else:
                offset += entry * step
        return View(tuple(shape), tuple(strides), offset)

    def windows(
        self, window: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]
    ) -> View:
        """Windows over the last axes, as (..., places, window)."""
        outer = len(self.shape) - len(window)
        lengths, steps = self.shape[outer:], self.strides[outer:]
        places = tuple(
            (n - d * (k - 1) - 1) // s + 1
            for n, k, s, d in zip(lengths, window, stride, dilation, strict=True)
        )
        moves = tuple(step * s for step, s in zip(steps, stride, strict=True))
        inner = tuple(step * d for step, d in zip(steps, dilation, strict=True))
        shape = (*self.shape[:outer], *places, *window)
        return View(shape, (*self.strides[:outer], *moves, *inner), self.offset)

    def reshape(self, shape: Shape) -> View | None:
        """The same elements in another shape; None where one view cannot reach them all."""
        if 0 in self.shape or math.prod(self.shape) == 1:
            return View(shape, row_major(shape), self.offset)
        strides: list[int] = []
        runs = _runs(self.shape, self.strides)
        rest = [n for n in shape if n != 1]
        for length, step in runs:
            taken: list[int] = []
            while math.prod(taken) < length:
                if not rest or length % (math.prod(taken) * rest[0]):
                    return None
                taken.append(rest.pop(0))
            strides += [s * step for s in row_major(tuple(taken))]
        found = iter(strides)
        return View(shape, tuple(next(found) if n != 1 else 0 for n in shape), self.offset)


def _runs(shape: Shape, strides: Strides) -> list[tuple[int, int]]:
    """Axes joined as far as one step reaches through them: (length, step), from the outside."""
    runs: list[tuple[int, int]] = []
    for length, step in zip(shape, strides, strict=True):
        if length == 1:
            continue
        if runs and runs[-1][1] == length * step:
            runs[-1] = (runs[-1][0] * length, step)
        else:
            runs.append((length, step))
    return runs
