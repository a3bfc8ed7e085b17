"""What follows from the order of elements: the largest few, medians and quantiles."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from anabranch.composed.indexing import take
from anabranch.composed.naming import composed
from anabranch.composed.statistics import mean
from anabranch.core.aval import aval_of
from anabranch.core.bind import NUMBERS
from anabranch.core.dtype import is_floating, is_half
from anabranch.core.values import ARRAYS, as_array
from anabranch.errors import ArgumentError, DTypeError, OutOfRangeError
from anabranch.ops.elementwise import absolute, astype
from anabranch.ops.layout import permute, reshape, reshaped
from anabranch.ops.product import as_lines
from anabranch.ops.reduce import require_elements
from anabranch.ops.rules import Axis, axes_tuple, axis_index, reduced, shape_of
from anabranch.ops.select import isnan, less, where
from anabranch.ops.sorting import argsort, sort

_METHODS = ("linear", "lower", "higher", "midpoint", "nearest")


@composed
def top_k(x: Any, k: int, axis: int = -1, *, largest: bool = True) -> tuple[Any, Any]:
    """The k largest elements along an axis in falling order, and their indices.

    Of equal elements the one that stands first comes first. NaN counts as the largest.

    Args:
        x: values.
        k: how many; at most the length of the axis.
        axis: along which.
        largest: False for the k smallest in rising order, with NaN last.

    Returns:
        The values, whose derivative goes to the elements chosen, and their indices as int64.

    Raises:
        OutOfRangeError: `[index-out-of-range]` when the axis has fewer than k elements.

    Example:
        >>> import anabranch as ab
        >>> ab.top_k(ab.tensor([3.0, 1.0, 2.0]), 2)
        (tensor([3., 2.]), tensor([0, 2], dtype=int64))
    """
    place = axis_index(axis, len(shape_of(x)))
    n, k = shape_of(x)[place], operator.index(k)
    if not 0 <= k <= n:
        raise OutOfRangeError("index-out-of-range", f"top_k of {k} elements along an axis with {n}")
    first = (*(slice(None),) * place, slice(0, k))
    values = sort(x, axis=place, descending=largest)
    return values[first], argsort(x, axis=place, descending=largest)[first]


def _lines(x: Any, axes: tuple[int, ...], name: str) -> Any:
    """Sorted lines of what is reduced, in the last axis."""
    aval = aval_of(x)
    require_elements(name, aval, axes)
    if aval.dtype.kind == "c":
        raise DTypeError("unsupported-dtype", f"{name} of complex values is not offered")
    return sort(as_lines(np.asarray(x) if type(x) in NUMBERS else x, axes), axis=-1)


def _poisoned(found: Any, lines: Any) -> Any:
    """NaN where a line holds one: it stands last."""
    if not is_floating(lines.dtype):
        return found
    last = lines[..., -1:]
    return where(isnan(last), last, found)


@composed
def median(x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """The middle element over axes in order of size; of an even number the mean of the middle two.

    The derivative goes to the elements that are taken: 1 to the middle one, or 1/2 each to two. Of
    equal ones those count that a stable sort puts there. NaN wins.

    Raises:
        ShapeError: `[empty-reduction]` over an axis of length 0.
        DTypeError: `[unsupported-dtype]` for complex values.

    Example:
        >>> import anabranch as ab
        >>> float(ab.median(ab.tensor([5.0, 1.0, 2.0]))), float(ab.median(ab.tensor([5.0, 1.0])))
        (2.0, 3.0)
    """
    axes = axes_tuple(axis, len(shape_of(x)))
    lines = _lines(x, axes, "median")
    n = shape_of(lines)[-1]
    middle = mean(lines[..., (n - 1) // 2 : n // 2 + 1], axis=-1, keepdims=True)
    return reshaped(_poisoned(middle, lines), reduced(shape_of(x), axes, keepdims))


def _positions(q: Any, n: int, method: str) -> tuple[Any, Any, Any]:
    """Between which two of n sorted elements each quantile lies, and how far from the first."""
    place = np.ravel(q) * (n - 1)
    low = np.floor(place)
    share = place - low
    if method == "lower":
        share = np.zeros_like(share)
    elif method == "higher":
        share = np.ceil(share)
    elif method == "midpoint":
        share = np.where(share > 0, 0.5, 0.0)
    elif method == "nearest":
        share = np.rint(place) - low
    low = low.astype(np.int64)
    return low, np.minimum(low + 1, n - 1), share


def _between(below: Any, above: Any, share: Any) -> Any:
    """The value a share of the way; where that is 0 or 1 the other end is not looked at."""
    gap = above - below
    # By the gap, so that between equal ends nothing is rounded; but not by an infinite one.
    inside = where(
        less(absolute(gap), float("inf")),
        below + gap * share,
        below * (1 - share) + above * share,
    )
    return where(share == 0, below, where(share == 1, above, inside))


def _checked(q: Any, method: str) -> Any:
    if method not in _METHODS:
        raise ArgumentError(
            "bad-argument", f"quantile has no method {method!r}; it has {', '.join(_METHODS)}"
        )
    if not (type(q) in NUMBERS or isinstance(q, (list, tuple, *ARRAYS))):
        raise ArgumentError(
            "bad-argument",
            f"quantile needs to know q beforehand, as numbers: it got a {type(q).__name__}",
            hint='ab.compile(f, static="q") hands a number through a compiled function',
        )
    q = q if type(q) in NUMBERS else as_array(q)
    if not np.all((np.asarray(q) >= 0) & (np.asarray(q) <= 1)):
        raise OutOfRangeError("index-out-of-range", f"quantiles lie between 0 and 1, not at {q}")
    return q


@composed
def quantile(
    x: Any, q: Any, axis: Axis = None, *, method: str = "linear", keepdims: bool = False
) -> Any:
    """The elements that stand at the fractions q of the order of size, over axes.

    A fraction that falls between two elements takes of both, by `method`. An element whose share
    is 0 takes no part: an infinity beyond a quantile does not reach it (where NumPy gives NaN).
    NaN among the elements wins. Derivatives are by x; of equal elements those count that a stable
    sort puts there.

    Args:
        x: real values.
        q: a number, a list or an array of numbers in [0, 1], known beforehand.
        axis: one axis, several, or None for all.
        method: `"linear"`, `"lower"`, `"higher"`, `"midpoint"` or `"nearest"` (to the even place).
        keepdims: whether reduced axes stay, with length 1.

    Returns:
        The axes of q, then those of x that are left; in x's dtype, float64 for integers.

    Raises:
        ShapeError: `[empty-reduction]` over an axis of length 0.
        OutOfRangeError: `[index-out-of-range]` for a q outside [0, 1].
        ArgumentError: `[bad-argument]` for another method, or a q that is a value of a graph.
        DTypeError: `[unsupported-dtype]` for complex values.

    Example:
        >>> import anabranch as ab
        >>> ab.quantile(ab.tensor([1.0, 2.0, 4.0]), [0.5, 0.75])
        tensor([2., 3.])
    """
    q = _checked(q, method)
    axes = axes_tuple(axis, len(shape_of(x)))
    lines = _lines(x, axes, "quantile")
    low, high, share = _positions(q, shape_of(lines)[-1], method)
    dtype = lines.dtype if is_floating(lines.dtype) else np.dtype(np.float64)
    wide = np.dtype(np.float32) if is_half(dtype) else dtype
    below, above = (astype(take(lines, places, axis=-1), wide) for places in (low, high))
    found = astype(_between(below, above, share.astype(wide)), dtype)
    found = _poisoned(found, lines)
    ndim = len(shape_of(found))
    front = permute(found, (ndim - 1, *range(ndim - 1)))
    return reshape(front, (*np.shape(q), *reduced(shape_of(x), axes, keepdims)))


@composed
def percentile(
    x: Any, q: Any, axis: Axis = None, *, method: str = "linear", keepdims: bool = False
) -> Any:
    """`quantile` with fractions of a hundred.

    Example:
        >>> import anabranch as ab
        >>> float(ab.percentile(ab.tensor([1.0, 2.0, 4.0]), 75))
        3.0
    """
    fraction = np.asarray(q) / 100 if isinstance(q, (list, tuple, *ARRAYS)) else q / 100
    return quantile(x, fraction, axis, method=method, keepdims=keepdims)
