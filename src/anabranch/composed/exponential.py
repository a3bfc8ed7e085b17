"""Sums of exponentials, shifted so that they cannot overflow."""

from __future__ import annotations

from typing import Any

from anabranch.composed.naming import composed
from anabranch.ops.elementwise import absolute, exp, log, stop_gradient
from anabranch.ops.layout import reshape
from anabranch.ops.reduce import max_, sum_
from anabranch.ops.rules import Axis, axes_tuple, reduced, shape_of
from anabranch.ops.select import equal, less, where


def _largest(x: Any, axis: Any) -> Any:
    """The largest element along the axis, as a constant; 0 where it is not finite."""
    top = stop_gradient(max_(x, axis=axis, keepdims=True))
    return where(less(absolute(top), float("inf")), top, 0.0)


@composed
def logsumexp(x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """log(sum(exp(x))) over axes, shifted by the largest element so that it cannot overflow.

    Where all elements are -inf the value is -inf and the gradient 0; where one is +inf the value
    is +inf and the gradient 0.

    Example:
        >>> import anabranch as ab
        >>> round(float(ab.logsumexp(ab.tensor([1000.0, 1000.0]))), 4)
        1000.6931
    """
    top = _largest(x, axis)
    total = sum_(exp(x - top), axis=axis, keepdims=True)
    # At the ends log is not asked at all: its slope there could reach the elements.
    inf = float("inf")
    is_zero, is_infinite = equal(total, 0), equal(total, inf)
    inside = log(where(is_zero, 1.0, where(is_infinite, 1.0, total)))
    result = where(is_zero, -inf, where(is_infinite, inf, inside)) + top
    shape = shape_of(x)
    axes = axes_tuple(axis, len(shape))
    return result if keepdims else reshape(result, reduced(shape, axes, keepdims=False))


@composed
def softmax(x: Any, axis: int = -1) -> Any:
    """exp(x) / sum(exp(x)) along an axis, shifted by the largest element.

    Elements of -inf get exactly 0; a row of nothing but -inf has no distribution and is NaN.

    Example:
        >>> import anabranch as ab
        >>> ab.softmax(ab.tensor([0.0, 0.0]))
        tensor([0.5, 0.5])
    """
    weights = exp(x - _largest(x, axis))
    return weights / sum_(weights, axis=axis, keepdims=True)


@composed
def log_softmax(x: Any, axis: int = -1) -> Any:
    """log(softmax(x)) along an axis, without forming the zero that log would meet.

    Example:
        >>> import anabranch as ab
        >>> ab.log_softmax(ab.tensor([0.0, -1000.0]))
        tensor([    0., -1000.])
    """
    shifted = x - _largest(x, axis)
    return shifted - log(sum_(exp(shifted), axis=axis, keepdims=True))
