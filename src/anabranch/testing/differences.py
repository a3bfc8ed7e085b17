"""Central differences: the judge of every derivative, with steps from an error model.

A central difference with step h is wrong by about h² |f'''| / 6, because f bends, and by about
u |f| / h, because f is rounded to the unit u. The sum is least near h = (3u)^(1/3), times the size
of x: 2⁻¹⁷ in float64. `plateau` tries steps around it where one step is not enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np

from anabranch.core.aval import aval_of
from anabranch.core.bind import located
from anabranch.core.dtype import FLOATS
from anabranch.core.entry import boundary
from anabranch.errors import DTypeError, ShapeError
from anabranch.frontends.tensor import Tensor, make_tensor

Array = np.ndarray[Any, Any]
_RATIO = 4.0  # of one step to the next
_STEPS = tuple(_RATIO**k for k in range(2, -4, -1))


@boundary
def numerical_gradient(f: Callable[[Any], Any], x: Any, eps: float = 1e-6) -> Array:
    """The gradient of a scalar function by central differences, (f(x+eps) - f(x-eps)) / (2 eps).

    One element after the other is moved in place, so `f` may read `x` through its argument or by
    any other name; each is put back bit for bit, also when `f` raises. What cannot be moved in
    place with this precision (numbers, narrower floats, read-only arrays) reaches `f` as a float64
    copy.

    Args:
        f: takes x, returns a scalar.
        x: a float64 array or tensor of any rank, empty ones too; or a number, or narrower floats.
        eps: the step.

    Returns:
        A float64 array of x's shape.

    Raises:
        DTypeError: `[integer-gradient]` for integer, bool and complex arrays.
        ShapeError: `[not-a-scalar]` when f's result is not one.

    Example:
        >>> import numpy as np
        >>> from anabranch.testing import numerical_gradient
        >>> numerical_gradient(lambda x: (x * x).sum(), np.array([1.0, -3.0])).round(6)
        array([ 2., -6.])
    """
    place, argument = _movable(x)
    gradient = np.empty(place.shape)
    for index in np.ndindex(place.shape):
        kept = place[index]
        try:
            place[index] = kept + eps
            above = _number(f(argument))
            place[index] = kept - eps
            below = _number(f(argument))
        finally:
            place[index] = kept
        gradient[index] = (above - below) / (2 * eps)
    return gradient


def _movable(x: Any) -> tuple[Array, Any]:
    """An array whose elements can be moved, and what f is called with."""
    value = x.data if type(x) is Tensor else x
    array = np.asarray(value)
    if hasattr(x, "dtype") and array.dtype not in FLOATS:
        raise located(
            DTypeError(
                "integer-gradient",
                f"numerical_gradient has no meaning for {aval_of(array)}; only floats can be moved",
            )
        )
    if array is value and array.dtype == np.float64 and array.flags.writeable:
        return array, x
    copy = np.array(array, np.float64)
    return copy, make_tensor(copy) if type(x) is Tensor else copy


def _number(out: Any) -> float:
    value = np.asarray(out.value if type(out) is Tensor else out)
    if value.shape:
        raise located(
            ShapeError(
                "not-a-scalar",
                f"numerical_gradient needs a scalar result, the function returned {aval_of(value)}",
                hint="sum it",
            )
        )
    return float(value)


def unit(dtype: Any) -> float:
    """The spacing of floats of this dtype at 1."""
    return float(ml_dtypes.finfo(dtype).eps)  # type: ignore[no-untyped-call]


def base_step(u: float) -> float:
    """The step at x = 1 for values rounded to `u`: a power of two, so that moving is exact."""
    return float(2.0 ** round(math.log2(3 * u) / 3))


def sizes(x: Array) -> Array:
    """The size of each element that its step is a fraction of; never 0."""
    largest = float(np.max(np.abs(x), initial=0.0))
    if largest == 0.0 or not math.isfinite(largest):
        return np.ones(x.shape)
    return np.maximum(np.abs(x), 0.1 * largest)


def plateau(f: Callable[[float], float], x: float, step: float, rounding: float) -> float:
    """The derivative of f at x where it depends least on the step: between bending and rounding.

    `rounding` is how far f's values are off. An element much smaller than its neighbours also gets
    steps of its own size. Beside each difference stands the limit that two of them point to, as
    their steps go to 0 (L. F. Richardson, 1911): where f is 0 in a minimum, rounding is so small
    that bending is all the error there is.
    """
    starts = [step]
    if 0.0 < abs(x) < step:
        starts.append(base_step(unit(np.float64)) * abs(x))
    found = [pair for start in starts for pair in _differences(f, x, start, rounding)]
    known = [(doubt, slope) for doubt, slope in found if math.isfinite(doubt)]
    return min(known, key=lambda pair: pair[0])[1] if known else math.nan


def _differences(
    f: Callable[[float], float], x: float, start: float, rounding: float
) -> list[tuple[float, float]]:
    """Differences and their limits, with steps around this one, each behind its doubt."""
    steps = [start * factor for factor in _STEPS]
    slopes = [(f(x + h) - f(x - h)) / (2 * h) for h in steps]
    square = _RATIO**2
    limits = [(square * b - a) / (square - 1) for a, b in pairwise(slopes)]
    noises = [rounding / h for h in steps]
    return [
        (abs(b - a) + noise, b)
        for values, skipped in ((slopes, 1), (limits, 2))
        for (a, b), noise in zip(pairwise(values), noises[skipped:], strict=True)
    ]


def one_sided(f: Callable[[float], float], x: float, step: float) -> tuple[float, float]:
    """The slopes to the left and to the right of x."""
    here = f(x)
    return (here - f(x - step)) / step, (f(x + step) - here) / step
