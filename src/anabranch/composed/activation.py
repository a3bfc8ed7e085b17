"""What bends a line: bounds and activation functions."""

from __future__ import annotations

from typing import Any

from anabranch.composed.naming import Function, composed
from anabranch.core.bind import NUMBERS
from anabranch.ops.select import greater, isnan, less, less_equal, where


@composed
def clip(x: Any, min: Any = None, max: Any = None) -> Any:
    """x held inside the closed interval [min, max]; a bound of None is no bound.

    At a bound the derivative by x is 1, for the interval is closed; outside it is 0 and the bound
    itself gets the cotangent. NaN stays NaN.

    Example:
        >>> import anabranch as ab
        >>> ab.clip(ab.tensor([-1.0, 0.5, 3.0]), 0.0, 1.0)
        tensor([0. , 0.5, 1. ])
    """
    result = x if min is None else _bounded(x, min, less)
    return result if max is None else _bounded(result, max, greater)


def _bounded(x: Any, bound: Any, passes: Function) -> Any:
    result = where(passes(x, bound), bound, x)
    return result if type(bound) in NUMBERS else where(isnan(bound), bound, result)


@composed
def relu(x: Any) -> Any:
    """x where x is positive, else 0; the derivative at 0 is 0, and NaN stays NaN.

    Example:
        >>> import anabranch as ab
        >>> ab.relu(ab.tensor([-2.0, 0.0, 3.0]))
        tensor([0., 0., 3.])
    """
    return where(less_equal(x, 0), 0, x)
