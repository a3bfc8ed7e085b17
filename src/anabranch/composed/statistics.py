"""What many numbers have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.composed.naming import composed
from anabranch.core.aval import aval_of
from anabranch.core.bind import NUMBERS
from anabranch.core.dtype import DType, is_floating, is_half, promote
from anabranch.core.values import as_array
from anabranch.errors import ArgumentError, DTypeError, ShapeError
from anabranch.ops.elementwise import astype, sqrt, square, stop_gradient, subtract
from anabranch.ops.extrema import min_
from anabranch.ops.layout import broadcast_to, permute, reshaped
from anabranch.ops.reduce import max_, prepared, sum_
from anabranch.ops.rules import Axis, axes_tuple, axis_index, reduced, shape_of
from anabranch.ops.select import equal, maximum, not_equal, where


def _count(x: Any, axes: tuple[int, ...], mask: Any) -> Any:
    """How many elements each result is made of: a number, or what a mask leaves, axes kept."""
    if mask is not None and mask is not True:
        mask = as_array(mask) if isinstance(mask, bool | list) else mask
        return sum_(broadcast_to(mask, shape_of(x)), axis=axes, keepdims=True)
    count = 1
    for axis in axes:
        count *= shape_of(x)[axis]
    return count


def widened(x: Any) -> tuple[Any, Any]:
    """x in a dtype that its sums and squares fit in, and the dtype of its statistics.

    Numbers become float64 here, as integers do.

    Raises:
        DTypeError: `[unsupported-dtype]` for complex values, whose squares mean something else.
    """
    dtype = aval_of(x).dtype
    if dtype.kind == "c":
        raise DTypeError("unsupported-dtype", "statistics of complex values are not offered")
    if type(x) in NUMBERS:
        x = np.float64(x)
    wide = _summed_in(dtype)
    return x if wide == dtype else astype(x, wide), dtype if is_floating(dtype) else wide


def narrow(value: Any, dtype: Any, shape: Any) -> Any:
    value = reshaped(value, shape)
    return value if value.dtype == dtype else astype(value, dtype)


@composed
def mean(
    x: Any,
    axis: Axis = None,
    keepdims: bool = False,
    *,
    dtype: Any = None,
    where: Any = None,
) -> Any:
    """The arithmetic mean over axes, all of them by default. Of no elements it is NaN.

    Args:
        x: values; integers give float64 and are summed in it, halves in float32.
        axis: one axis, several, or None for all.
        keepdims: whether reduced axes stay, with length 1.
        dtype: what to convert to first.
        where: a bool mask of the elements that count.

    Example:
        >>> import anabranch as ab
        >>> float(ab.mean(ab.tensor([1.0, 2.0, 6.0])))
        3.0
    """
    axes = axes_tuple(axis, len(shape_of(x)))
    x = prepared(x, dtype, where, 0)
    count = _count(x, axes, where)
    if not isinstance(count, int):
        count = reshaped(count, reduced(shape_of(x), axes, keepdims))
    dtype = aval_of(x).dtype
    wide = _summed_in(dtype)
    summed = x if wide == dtype else astype(x, wide)
    found = sum_(summed, axis=axes, keepdims=keepdims) / count
    # A count that is an array would widen float32.
    return astype(found, dtype) if is_floating(dtype) and found.dtype != dtype else found


def _summed_in(dtype: DType) -> DType:
    """The dtype in which the sum is not too large where a mean of this one is not."""
    if is_half(dtype):
        return np.dtype(np.float32)
    return np.dtype(np.float64) if dtype.kind in "biu" else dtype


def _variance(x: Any, axes: tuple[int, ...], ddof: float, mask: Any) -> Any:
    """The variance with axes kept, of values that are shifted by one of them.

    The shift changes nothing but rounding: equal elements become zeros, whose mean is 0 exactly.
    """
    if mask is None or mask is True:
        first = tuple(
            slice(0, 1) if axis in axes else slice(None) for axis in range(len(shape_of(x)))
        )
        shift = x[first]
    else:
        shift = max_(x, axis=axes, keepdims=True, initial=-float("inf"), where=mask)
    count = _count(x, axes, mask)
    shifted = prepared(x - stop_gradient(shift), None, mask, 0.0)
    around = prepared(shifted - sum_(shifted, axis=axes, keepdims=True) / count, None, mask, 0.0)
    left = max(count - ddof, 0) if isinstance(count, int) else maximum(count - ddof, 0)
    return sum_(square(around), axis=axes, keepdims=True) / left


def _degrees(ddof: float, correction: float | None) -> float:
    if correction is not None and ddof != 0:
        raise ArgumentError("bad-argument", "ddof and correction are one thing: give one of them")
    return ddof if correction is None else correction


@composed
def var(
    x: Any,
    axis: Axis = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    correction: float | None = None,
    where: Any = None,
) -> Any:
    """The mean squared deviation from the mean over axes.

    Of equal elements, and of a single one, it is exactly 0 and so is its derivative. Where no
    degree of freedom is left (no more elements than `ddof`) it is NaN, or inf, as in NumPy.

    Args:
        x: real values; integers give float64, and halves are computed in float32.
        axis: one axis, several, or None for all.
        ddof: what is taken off the count of elements that the sum of squares is divided by.
        keepdims: whether reduced axes stay, with length 1.
        correction: the array API's name of `ddof`.
        where: a bool mask of the elements that count.

    Raises:
        ArgumentError: `[bad-argument]` when both `ddof` and `correction` are given.
        DTypeError: `[unsupported-dtype]` for complex values.

    Example:
        >>> import anabranch as ab
        >>> float(ab.var(ab.tensor([1.0, 3.0]))), float(ab.var(ab.tensor([1.0, 3.0]), ddof=1))
        (1.0, 2.0)
    """
    axes = axes_tuple(axis, len(shape_of(x)))
    wide, dtype = widened(x)
    found = _variance(wide, axes, _degrees(ddof, correction), where)
    return narrow(found, dtype, reduced(shape_of(x), axes, keepdims))


@composed
def std(
    x: Any,
    axis: Axis = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    correction: float | None = None,
    where: Any = None,
) -> Any:
    """The standard deviation over axes: the root of `var`, with the same arguments and errors.

    Where it is 0 (equal elements, a single one) its derivative is 0 by convention: the deviation
    has a kink there as |x| has, and 0 is the middle of its slopes.

    Example:
        >>> import anabranch as ab
        >>> float(ab.std(ab.tensor([1.0, 3.0])))
        1.0
        >>> ab.grad(ab.std)(ab.tensor([1.0, 1.0]))
        tensor([0., 0.])
    """
    axes = axes_tuple(axis, len(shape_of(x)))
    wide, dtype = widened(x)
    found = _variance(wide, axes, _degrees(ddof, correction), where)
    is_zero = equal(found, 0)
    # The infinite slope of the root at 0 is not asked.
    root = _root(found, is_zero)
    return narrow(root, dtype, reduced(shape_of(x), axes, keepdims))


def _root(value: Any, is_zero: Any) -> Any:
    return where(is_zero, 0.0, sqrt(where(is_zero, 1.0, value)))


@composed
def ptp(x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """The largest minus the smallest element over axes ("peak to peak").

    Ties share as in `max` and `min`; of a single element it is 0, and so is its derivative.

    Raises:
        ShapeError: `[empty-reduction]` over an axis of length 0.
        DTypeError: `[bool-arithmetic]` for bools.

    Example:
        >>> import anabranch as ab
        >>> float(ab.ptp(ab.tensor([3.0, 1.0, 6.0])))
        5.0
    """
    return subtract(max_(x, axis=axis, keepdims=keepdims), min_(x, axis=axis, keepdims=keepdims))


@composed
def average(
    x: Any,
    axis: Axis = None,
    weights: Any = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> Any:
    """The mean over axes in which each element counts by its weight.

    Weights that sum to 0 give NaN or inf, as the division says.

    Args:
        x: values.
        axis: one axis, several, or None for all.
        weights: of x's shape, or of the shape of the reduced axes; None weighs all alike.
        returned: whether the sum of weights is returned too, as a second value.
        keepdims: whether reduced axes stay, with length 1.

    Raises:
        ShapeError: `[shape-mismatch]` for weights of another shape.

    Example:
        >>> import anabranch as ab
        >>> float(ab.average(ab.tensor([1.0, 5.0]), weights=[3.0, 1.0]))
        2.0
    """
    axes = axes_tuple(axis, len(shape_of(x)))
    if weights is None:
        found = mean(x, axis=axis, keepdims=keepdims)
        count = _count(x, axes, None)
        return (found, astype(broadcast_to(count, found.shape), found.dtype)) if returned else found
    weights = as_array(weights) if isinstance(weights, list | tuple) else weights
    heavy = broadcast_to(_laid_along(weights, shape_of(x), axis), shape_of(x))
    dtype, _ = promote((one.dtype, one.weak) for one in (aval_of(x), aval_of(weights)))
    if (wide := _summed_in(dtype)) != dtype:
        x, heavy = astype(x, wide), astype(heavy, wide)
    total = sum_(heavy, axis=axes, keepdims=keepdims)
    found = sum_(x * heavy, axis=axes, keepdims=keepdims) / total
    if is_half(dtype):
        found = astype(found, dtype)
    return (found, astype(total, found.dtype)) if returned else found


def _laid_along(weights: Any, shape: tuple[int, ...], axis: Axis) -> Any:
    """Weights in a shape that broadcasts against the values: those of axes, in the order given."""
    given = shape_of(weights)
    if given == shape:
        return weights
    axes = range(len(shape)) if axis is None else axis if isinstance(axis, Sequence) else (axis,)
    order = [axis_index(one, len(shape)) for one in axes]
    wanted = tuple(shape[one] for one in order)
    if given != wanted:
        raise ShapeError("shape-mismatch", f"weights have shape {given}, need {shape} or {wanted}")
    ascending = sorted(range(len(order)), key=order.__getitem__)
    return reshaped(
        permute(weights, ascending),
        tuple(n if one in order else 1 for one, n in enumerate(shape)),
    )


@composed
def count_nonzero(x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """How many elements over axes are not 0, as int64; NaN is not 0, and True is not.

    Example:
        >>> import anabranch as ab
        >>> int(ab.count_nonzero(ab.tensor([0.0, 2.0, -0.0, 3.0])))
        2
    """
    return sum_(not_equal(x, 0), axis=axis, keepdims=keepdims)
