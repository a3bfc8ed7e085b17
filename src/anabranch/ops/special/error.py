"""The error function, its complement, its inverse, and the bell curve that is their slope.

Errors, in units of the last place of float64: at most 2 for each, over all arguments.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.ops.special.parts import in_parts
from anabranch.ops.special.tables import Array, polynomial, table

_GRID = 2.0**20  # what is a multiple of 1 / _GRID and at most 40 has an exact square


def bell_parts(x: Array) -> tuple[Array, Array]:
    """exp(-x*x) as e + e * rest: x*x rounded would cost x*x / 2 units of the last place."""
    x = np.minimum(np.abs(x), 40.0)
    near = np.rint(x * _GRID) / _GRID
    return np.exp(-near * near), np.expm1(-(x - near) * (x + near))


def bell(x: Array) -> Array:
    """exp(-x*x)."""
    e, rest = bell_parts(x)
    return e + e * rest


def _small(x: Array) -> tuple[Array, Array]:
    """erf(x) as x + rest, |x| <= 1/2."""
    head, rest = polynomial("erf", x * x)
    return x, x * ((head - 1.0) + rest)


def _tail(x: Array) -> Array:
    """erfc(x), x >= 1/2: the bell curve times a function that changes slowly."""
    x = np.minimum(x, 27.9)
    e, rest = bell_parts(x)
    head, more = table("erfcx", x)
    scale = head + more
    lost = (head - scale) + more
    return e * scale + e * (lost + scale * rest)


def erf(x: Array) -> Array:
    """2 / sqrt(pi) times the integral of exp(-t*t) from 0 to x."""
    size = np.abs(x)
    return in_parts(
        x,
        (size < 0.5, lambda x: np.add(*_small(x))),
        (size >= 0.5, lambda x: np.copysign(1.0 - _tail(np.abs(x)), x)),
    )


def _middle(x: Array) -> Array:
    """erfc(x) = 1 - erf(x), -1/2 < x < 1/2, rounded once."""
    head, rest = _small(x)
    difference = 1.0 - head
    lost = (1.0 - difference) - head
    return difference + (lost - rest)


def erfc(x: Array) -> Array:
    """1 - erf(x), without the cancellation for large x."""
    return in_parts(
        x,
        (x >= 0.5, _tail),
        (np.abs(x) < 0.5, _middle),
        (x <= -0.5, lambda x: 2.0 - _tail(-x)),
    )


def _inverse_small(y: Array) -> Array:
    head, rest = polynomial("erfinv", y * y)
    return y * (head + rest)


def _inverse_tail(y: Array) -> Array:
    # 1 - |y| is exact here, and the inverse is smooth in its logarithm.
    length: Any = -np.log(1.0 - np.abs(y))
    head, rest = table("erfinv_tail", length)
    return np.copysign(head + rest, y)


def erfinv(y: Array) -> Array:
    """The x with erf(x) = y: infinite at -1 and 1, NaN beyond."""
    size = np.abs(y)
    return in_parts(
        y,
        (size < 0.5, _inverse_small),
        ((size >= 0.5) & (size < 1.0), _inverse_tail),
        (size == 1.0, lambda y: np.copysign(np.inf, y)),
    )
