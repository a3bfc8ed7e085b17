"""Functions made of ops alone. In pictures and listings each is one named scope."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.core.bind import NUMBERS, scope
from anabranch.core.dtype import is_half
from anabranch.core.registry import register_function
from anabranch.core.values import as_array
from anabranch.errors import ShapeError
from anabranch.ops.elementwise import absolute, astype, exp, log, stop_gradient
from anabranch.ops.index import one_hot
from anabranch.ops.layout import permute, reshape
from anabranch.ops.reduce import max_, sum_
from anabranch.ops.rules import axes_tuple, axis_index, reduced, shape_of
from anabranch.ops.select import equal, greater, isnan, less, less_equal, where

Axis = int | tuple[int, ...] | None
Function = Callable[..., Any]


def composed(function: Function) -> Function:
    """Make a public function of this one, named as it is, whose nodes carry its name as scope."""

    @functools.wraps(function)
    def scoped(*args: Any, **kwargs: Any) -> Any:
        with scope(function.__name__):
            return function(*args, **kwargs)

    scoped.__module__ = "anabranch"
    register_function(function.__name__, scoped)
    return scoped


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
def mean(x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """The arithmetic mean over axes, all of them by default. Of no elements it is NaN.

    Example:
        >>> import anabranch as ab
        >>> float(ab.mean(ab.tensor([1.0, 2.0, 6.0])))
        3.0
    """
    count = 1
    for one in axes_tuple(axis, len(shape_of(x))):
        count *= shape_of(x)[one]
    dtype = getattr(x, "dtype", None)
    if dtype is None or not is_half(dtype):
        return sum_(x, axis=axis, keepdims=keepdims) / count
    # The sum of many halves can be too large for a half when their mean is not.
    return astype(sum_(astype(x, np.float32), axis=axis, keepdims=keepdims) / count, dtype)


@composed
def relu(x: Any) -> Any:
    """x where x is positive, else 0; the derivative at 0 is 0, and NaN stays NaN.

    Example:
        >>> import anabranch as ab
        >>> ab.relu(ab.tensor([-2.0, 0.0, 3.0]))
        tensor([0., 0., 3.])
    """
    return where(less_equal(x, 0), 0, x)


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


@composed
def cross_entropy(logits: Any, labels: Any, axis: int = -1) -> Any:
    """The mean over all samples of -sum(labels * log_softmax(logits)) along the class axis.

    Args:
        logits: unnormalised log-probabilities, classes along `axis`.
        labels: integers of logits' shape without that axis, or probabilities of its full shape.

    Raises:
        ShapeError: `[shape-mismatch]` when labels do not fit.
        OutOfRangeError: `[index-out-of-range]` for a label that is no class.

    Example:
        >>> import anabranch as ab, numpy as np
        >>> round(float(ab.cross_entropy(ab.tensor([[0.0, 0.0]]), np.array([1]))), 4)
        0.6931
    """
    if isinstance(labels, list | tuple):
        labels = as_array(labels)
    shape = shape_of(logits)
    place = axis_index(axis, len(shape))
    is_integer = labels.dtype.kind in "iu"
    wanted = (*shape[:place], *shape[place + 1 :]) if is_integer else shape
    if shape_of(labels) != wanted:
        raise ShapeError("shape-mismatch", f"labels have shape {shape_of(labels)}, need {wanted}")
    scores = log_softmax(logits, axis)
    if is_integer:
        target = one_hot(labels, shape[place], dtype=bool)
        if place != len(shape) - 1:
            order = list(range(len(shape) - 1))
            order.insert(place, len(shape) - 1)
            target = permute(target, order)
        losses = where(target, scores, 0.0)
    else:
        losses = where(equal(labels, 0), 0.0, labels * scores)
    return -mean(sum_(losses, axis=place))
