"""Elements by integers: NumPy's functions, and what `x.at[...]` does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.composed.naming import composed
from anabranch.core.aval import Shape, aval_of
from anabranch.core.bind import NUMBERS, bind
from anabranch.core.dtype import promote
from anabranch.core.op import broadcast_shapes
from anabranch.errors import ShapeError
from anabranch.ops.brackets import known_mask, selection
from anabranch.ops.dynamic import update_slice
from anabranch.ops.elementwise import add, multiply
from anabranch.ops.gather import gathered
from anabranch.ops.index import selected, slice_
from anabranch.ops.layout import broadcast_to, reshape, reshaped
from anabranch.ops.places import (
    READING,
    WRITING,
    attrs_of,
    index_operand,
    require_inside,
    require_mode,
)
from anabranch.ops.rules import axis_index, shape_of
from anabranch.ops.scatter import scatter_add, scatter_set
from anabranch.ops.scatter_combine import scatter_max, scatter_min, scatter_multiply
from anabranch.ops.select import maximum, minimum, where

# How an element and an update become one, and the scatter that does so for index arrays.
_WAYS: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "set": (lambda old, new: new, scatter_set),
    "add": (add, scatter_add),
    "multiply": (multiply, scatter_multiply),
    "max": (maximum, scatter_max),
    "min": (minimum, scatter_min),
}


@composed
def take(
    x: Any, indices: Any, axis: int | None = None, mode: str = "raise", fill_value: Any = None
) -> Any:
    """Elements along an axis by integer indices, of the flattened value without an axis.

    Args:
        x: any value.
        indices: integers of any shape, which stands in the result in place of the axis.
        axis: along which they count.
        mode: what an index outside the axis does: `"raise"`; `"wrap"` counts round and round;
            `"clip"` takes the nearest element (a negative index the first); `"fill"` gives
            `fill_value`. Except for `"clip"`, -1 is the last element.
        fill_value: a number.

    Raises:
        OutOfRangeError: `[index-out-of-range]`, `[axis-out-of-range]`.
        DTypeError: `[index-dtype]` for indices that are not integers; `[fill-dtype]`.

    Example:
        >>> import anabranch as ab
        >>> ab.take(ab.tensor([10.0, 20.0, 30.0]), [2, 0, -1])
        tensor([30., 10., 30.])
    """
    if axis is None:
        x, axis = reshape(x, -1), 0
    place = axis_index(axis, len(shape_of(x)))
    return gathered(x, (index_operand(indices),), (place,), None, mode, fill_value)


@composed
def take_along_axis(x: Any, indices: Any, axis: int | None = -1) -> Any:
    """For each element of `indices` the element of x at that place along the axis.

    The other axes of both are matched, and broadcast. Without an axis both are flattened. This is
    what reads by the result of `argsort` or `argmax`.

    Raises:
        ShapeError: `[shape-mismatch]` unless x and the indices have equally many axes that fit.
        OutOfRangeError, DTypeError: as for `take`.

    Example:
        >>> import anabranch as ab
        >>> ab.take_along_axis(ab.tensor([[1.0, 2.0], [3.0, 4.0]]), [[1], [0]], axis=1)
        tensor([[2.],
                [3.]])
    """
    x, operands = _along(x, indices, axis)
    return gathered(x, operands, tuple(range(len(operands))))


@composed
def put_along_axis(x: Any, indices: Any, values: Any, axis: int | None = -1) -> Any:
    """x with `values` where `take_along_axis` reads; the result is a new value.

    Of indices that repeat the last one counts. `values` broadcast to the indices.

    Raises:
        ShapeError, OutOfRangeError, DTypeError: as for `take_along_axis`.

    Example:
        >>> import anabranch as ab
        >>> ab.put_along_axis(ab.tensor([[1.0, 2.0], [3.0, 4.0]]), [[1], [0]], 0.0, axis=1)
        tensor([[1., 0.],
                [0., 4.]])
    """
    flat, operands = _along(x, indices, axis)
    updates = _spread(_typed(values, flat), broadcast_shapes(*map(aval_of, operands)))
    axes = tuple(range(len(operands)))
    return reshaped(bind(scatter_set, flat, updates, *operands, axes=axes), shape_of(x))


def _along(x: Any, indices: Any, axis: int | None) -> tuple[Any, tuple[Any, ...]]:
    """x and an index operand for each of its axes: the given one, and positions for the others."""
    indices = index_operand(indices)
    if axis is None:
        x, indices, axis = reshape(x, -1), reshape(indices, -1), 0
    shape = shape_of(x)
    place = axis_index(axis, len(shape))
    if len(shape_of(indices)) != len(shape):
        raise ShapeError(
            "shape-mismatch",
            f"indices of shape {shape_of(indices)} need as many axes as a value of {shape}",
        )
    ndim = len(shape)
    positions = [
        np.arange(n).reshape((1,) * i + (n,) + (1,) * (ndim - i - 1)) for i, n in enumerate(shape)
    ]
    return x, (*positions[:place], indices, *positions[place + 1 :])


# What x.at[index] does; functions too, for plain arrays have no such attribute.


@composed
def index_get(x: Any, index: Any, mode: str = "raise", fill_value: Any = None) -> Any:
    """`x[index]`, with a choice of what an index outside its axis does: `x.at[index].get(...)`.

    Args:
        x: any value.
        index: what may stand in brackets.
        mode: `"raise"`, `"wrap"`, `"clip"` or `"fill"`, as for `take`; slices end where the axis
            ends in any case.
        fill_value: a number, for `"fill"`.

    Raises:
        OutOfRangeError, ShapeError, DTypeError: as for `x[index]`; `[fill-dtype]`.

    Example:
        >>> import anabranch as ab
        >>> x = ab.tensor([1.0, 2.0])
        >>> x.at[[0, 7]].get(mode="fill", fill_value=0.0)
        tensor([1., 0.])
    """
    require_mode(mode, READING)
    chosen = selection(index, shape_of(x), checks=mode == "raise")
    return reshaped(selected(x, chosen, mode, fill_value), chosen.shape)


@composed
def index_set(x: Any, index: Any, values: Any, mode: str = "raise") -> Any:
    """`x.at[index].set(values)`: x with these values at an index, as a new value.

    Where an index names a place several times the last value stays, in C order; the others, and the
    elements that were replaced, have the gradient 0.

    Args:
        x: any value.
        index: what may stand in brackets; a bool mask alone may be computed, if `values` do not
            vary along the axes that it covers.
        values: what broadcasts to the shape of `x[index]`.
        mode: `"raise"`, `"wrap"` or `"clip"` as for `take`, or `"drop"`, which leaves out values
            whose index lies outside.

    Raises:
        OutOfRangeError, ShapeError, DTypeError: as for `x[index]`; `[shape-mismatch]` for values
            that do not broadcast.

    Example:
        >>> import anabranch as ab
        >>> ab.tensor([1.0, 2.0, 3.0]).at[::2].set(0.0)
        tensor([0., 2., 0.])
    """
    return _update("set", x, index, values, mode)


@composed
def index_add(x: Any, index: Any, values: Any, mode: str = "raise") -> Any:
    """`x.at[index].add(values)`: x with values added at an index, as a new value.

    Where an index names a place several times every value is added.

    Args:
        x: any value.
        index: what may stand in brackets; a bool mask alone may be computed, if `values` do not
            vary along the axes that it covers.
        values: what broadcasts to the shape of `x[index]`.
        mode: `"raise"`, `"wrap"` or `"clip"` as for `take`, or `"drop"`, which leaves out values
            whose index lies outside.

    Raises:
        OutOfRangeError, ShapeError, DTypeError: as for `x[index]`; `[shape-mismatch]` for values
            that do not broadcast.

    Example:
        >>> import anabranch as ab
        >>> ab.tensor([1.0, 2.0]).at[[0, 0, 1]].add([10.0, 20.0, 30.0])
        tensor([31., 32.])
    """
    return _update("add", x, index, values, mode)


@composed
def index_multiply(x: Any, index: Any, values: Any, mode: str = "raise") -> Any:
    """`x.at[index].multiply(values)`: x with elements multiplied, as a new value.

    Where an index names a place several times every value is multiplied in.

    Args:
        x: any value.
        index: what may stand in brackets; a bool mask alone may be computed, if `values` do not
            vary along the axes that it covers.
        values: what broadcasts to the shape of `x[index]`.
        mode: `"raise"`, `"wrap"` or `"clip"` as for `take`, or `"drop"`, which leaves out values
            whose index lies outside.

    Raises:
        OutOfRangeError, ShapeError, DTypeError: as for `x[index]`; `[shape-mismatch]` for values
            that do not broadcast.

    Example:
        >>> import anabranch as ab
        >>> ab.tensor([1.0, 2.0]).at[[0, 1, 1]].multiply([10.0, 3.0, 5.0])
        tensor([10., 30.])
    """
    return _update("multiply", x, index, values, mode)


@composed
def index_max(x: Any, index: Any, values: Any, mode: str = "raise") -> Any:
    """`x.at[index].max(values)`: x with elements replaced by larger values, as a new value.

    NaN wins. Elements and values that are equally the largest of their place share its gradient.

    Args:
        x: any value.
        index: what may stand in brackets; a bool mask alone may be computed, if `values` do not
            vary along the axes that it covers.
        values: what broadcasts to the shape of `x[index]`.
        mode: `"raise"`, `"wrap"` or `"clip"` as for `take`, or `"drop"`, which leaves out values
            whose index lies outside.

    Raises:
        OutOfRangeError, ShapeError, DTypeError: as for `x[index]`; `[shape-mismatch]` for values
            that do not broadcast.

    Example:
        >>> import anabranch as ab
        >>> ab.tensor([1.0, 5.0]).at[[0, 1]].max([3.0, 4.0])
        tensor([3., 5.])
    """
    return _update("max", x, index, values, mode)


@composed
def index_min(x: Any, index: Any, values: Any, mode: str = "raise") -> Any:
    """`x.at[index].min(values)`: x with elements replaced by smaller values, as a new value.

    NaN wins. Elements and values that are equally the smallest of their place share its gradient.

    Args:
        x: any value.
        index: what may stand in brackets; a bool mask alone may be computed, if `values` do not
            vary along the axes that it covers.
        values: what broadcasts to the shape of `x[index]`.
        mode: `"raise"`, `"wrap"` or `"clip"` as for `take`, or `"drop"`, which leaves out values
            whose index lies outside.

    Raises:
        OutOfRangeError, ShapeError, DTypeError: as for `x[index]`; `[shape-mismatch]` for values
            that do not broadcast.

    Example:
        >>> import anabranch as ab
        >>> ab.tensor([1.0, 5.0]).at[[0, 1]].min([3.0, 4.0])
        tensor([1., 4.])
    """
    return _update("min", x, index, values, mode)


def _update(way: str, x: Any, index: Any, values: Any, mode: str) -> Any:
    """x with values at an index, combined with what stands there in one of the ways."""
    require_mode(mode, WRITING)
    combine, scatter = _WAYS[way]
    values = _typed(values, x)
    mask = _only_mask(index, x, values)
    if mask is not None:
        return where(mask, combine(x, values), x)
    chosen = selection(index, shape_of(x), checks=mode == "raise")
    whole = reshaped(x, chosen.whole)
    updates = reshaped(_spread(values, chosen.shape), chosen.read)
    if not chosen.arrays:
        if way != "set":
            updates = combine(bind(slice_, whole, index=chosen.slices), updates)
        return bind(update_slice, whole, updates, index=chosen.slices)
    part = whole if chosen.takes_all else bind(slice_, whole, index=chosen.slices)
    attrs = attrs_of(chosen.axes, chosen.at, mode)
    require_inside(part, chosen.arrays, chosen.axes, mode)
    part = bind(scatter, part, updates, *chosen.arrays, **attrs)
    if not chosen.takes_all:
        part = bind(update_slice, whole, part, index=chosen.slices)
    return reshaped(part, shape_of(x))


def _spread(values: Any, shape: Shape) -> Any:
    return values if shape_of(values) == shape else broadcast_to(values, shape)


def _typed(values: Any, x: Any) -> Any:
    """A Python number as a scalar of the dtype that it takes beside x."""
    if type(values) not in NUMBERS:
        return index_operand(values)
    given, beside = aval_of(values), aval_of(x)
    dtype, _ = promote([(given.dtype, given.weak), (beside.dtype, beside.weak)])
    return dtype.type(values)


def _only_mask(index: Any, x: Any, values: Any) -> Any:
    """The mask in the shape of x, if the index is nothing else and one value serves all.

    Then no shape depends on the mask, which may be computed.
    """
    if not hasattr(index, "dtype") or index.dtype.kind != "b" or not shape_of(index):
        return None
    shape, marked = shape_of(x), shape_of(index)
    rest = shape[len(marked) :]
    if len(shape_of(values)) > len(rest):
        known_mask(index)
        return None
    if shape[: len(marked)] != marked:
        raise ShapeError("shape-mismatch", f"a mask of shape {marked} does not fit shape {shape}")
    return reshaped(index, (*marked, *(1,) * len(rest)))
