"""What a wrong gradient looks like as a whole: a factor, a transpose, another input's gradient.

A difference tells that a gradient is wrong; these tell how, where the wrong numbers are right ones
in the wrong place. Only exact fits count, since a guess would send people the wrong way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_FIT = 1e-4  # how far apart, as a share of the largest, what fits may lie
_SIMPLE = 12  # a factor of a single number is one of n/12, or chance


@dataclass(frozen=True)
class Side:
    """One input's gradient beside its differences, both in the input's shape."""

    name: str
    analytic: Array
    numeric: Array
    ok: bool


def readings(sides: Sequence[Side]) -> list[str]:
    """A sentence for each input whose wrong gradient is another right one."""
    wrong = [side for side in sides if not side.ok and np.isfinite(side.numeric).all()]
    pairs = list(_swapped(wrong))
    found = [
        f"{a.name} and {b.name} have each other's gradient: are two inputs swapped?"
        for a, b in pairs
    ]
    explained = {id(side) for pair in pairs for side in pair}
    said = [_reading(side) for side in wrong if id(side) not in explained]
    return found + [one for one in said if one is not None]


def _swapped(wrong: Sequence[Side]) -> Iterator[tuple[Side, Side]]:
    for a, b in combinations(wrong, 2):
        if a.analytic.shape == b.analytic.shape and _is_other(a, b) and _is_other(b, a):
            yield a, b


def _is_other(a: Side, b: Side) -> bool:
    return bool(np.any(b.numeric)) and fits(a.analytic, b.numeric)


def _reading(side: Side) -> str | None:
    a, n = side.analytic, side.numeric
    if not np.any(a):
        return f"{side.name} has a gradient of 0, which the differences deny: is it written at all?"
    if a.ndim == 2 and a.shape[0] == a.shape[1] > 1 and fits(a.T, n):
        return f"{side.name} has the transpose of its gradient."
    factor = _factor(a, n)
    return None if factor is None else f"{side.name} differs by a factor of {factor:.4g}."


def _factor(analytic: Array, numeric: Array) -> float | None:
    """How many times the differences the gradient is; None if not every element says the same."""
    if not np.any(numeric) or not np.isfinite(analytic).all():
        return None
    factor = float(np.sum(analytic * numeric) / np.sum(numeric * numeric))
    if factor == 0 or fits(analytic, numeric) or not fits(analytic, factor * numeric):
        return None
    steps = factor * _SIMPLE
    is_simple = abs(steps - round(steps)) <= _FIT * max(abs(steps), 1)
    return factor if np.count_nonzero(numeric) > 1 or is_simple else None


def fits(a: Array, b: Array) -> bool:
    """Whether two arrays are equal but for the error of differences."""
    largest = float(np.max(np.abs(b), initial=0.0))
    with np.errstate(invalid="ignore"):
        return bool(np.all(np.abs(a - b) <= _FIT * largest))
