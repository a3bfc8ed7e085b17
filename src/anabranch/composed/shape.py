"""The same elements in another shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from anabranch.composed.naming import composed
from anabranch.core.aval import Shape, aval_of
from anabranch.core.op import broadcast_shapes
from anabranch.errors import ArgumentError, ShapeError
from anabranch.ops.layout import broadcast_to, permute, reshape, reshaped
from anabranch.ops.rules import Axis, axes_tuple, axis_index, shape_of


@composed
def squeeze(x: Any, axis: Axis = None) -> Any:
    """x without axes of length 1: all of those, or the ones given.

    Raises:
        ShapeError: `[shape-mismatch]` for an axis that is longer or empty.
        OutOfRangeError: `[axis-out-of-range]`.

    Example:
        >>> import anabranch as ab
        >>> ab.squeeze(ab.tensor([[1.0, 2.0]])).shape
        (2,)
    """
    shape = shape_of(x)
    if axis is None:
        return reshaped(x, tuple(n for n in shape if n != 1))
    axes = axes_tuple(axis, len(shape))
    for one in axes:
        if shape[one] != 1:
            raise ShapeError(
                "shape-mismatch", f"axis {one} of length {shape[one]} cannot be left out"
            )
    return reshaped(x, tuple(n for place, n in enumerate(shape) if place not in axes))


@composed
def expand_dims(x: Any, axis: int | tuple[int, ...]) -> Any:
    """x with new axes of length 1, at these places of the result.

    Raises:
        OutOfRangeError: `[axis-out-of-range]`.
        ShapeError: `[repeated-axis]`.

    Example:
        >>> import anabranch as ab
        >>> ab.expand_dims(ab.tensor([1.0, 2.0]), (0, -1)).shape
        (1, 2, 1)
    """
    shape = shape_of(x)
    count = len(axis) if isinstance(axis, Sequence) else 1
    new = axes_tuple(axis, len(shape) + count)
    lengths = iter(shape)
    return reshaped(
        x, tuple(1 if place in new else next(lengths) for place in range(len(shape) + count))
    )


@composed
def ravel(x: Any) -> Any:
    """The elements along one axis, the last axis running fastest.

    Example:
        >>> import anabranch as ab
        >>> ab.ravel(ab.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor([1., 2., 3., 4.])
    """
    return reshape(x, math.prod(shape_of(x)))


@composed
def transpose(x: Any, axes: Sequence[int] | None = None) -> Any:
    """The axes reordered, by default reversed.

    Raises:
        ShapeError: `[bad-permutation]`.

    Example:
        >>> import anabranch as ab
        >>> ab.transpose(ab.tensor([[1.0, 2.0]]))
        tensor([[1.],
                [2.]])
    """
    return permute(x, axes)


@composed
def matrix_transpose(x: Any) -> Any:
    """The last two axes exchanged.

    Raises:
        OutOfRangeError: `[axis-out-of-range]` for a value with fewer than two axes.

    Example:
        >>> import anabranch as ab, numpy as np
        >>> ab.matrix_transpose(ab.tensor(np.ones((2, 3, 4)))).shape
        (2, 4, 3)
    """
    return _swapped(x, -2, -1)


@composed
def swapaxes(x: Any, axis1: int, axis2: int) -> Any:
    """Two axes exchanged.

    Raises:
        OutOfRangeError: `[axis-out-of-range]`.

    Example:
        >>> import anabranch as ab, numpy as np
        >>> ab.swapaxes(ab.tensor(np.ones((2, 3, 4))), 0, -1).shape
        (4, 3, 2)
    """
    return _swapped(x, axis1, axis2)


def _swapped(x: Any, axis1: int, axis2: int) -> Any:
    ndim = len(shape_of(x))
    order = list(range(ndim))
    one, other = axis_index(axis1, ndim), axis_index(axis2, ndim)
    order[one], order[other] = other, one
    return permute(x, order)


@composed
def moveaxis(x: Any, source: int | Sequence[int], destination: int | Sequence[int]) -> Any:
    """Axes moved to other places; those that are not named keep their order.

    Raises:
        OutOfRangeError: `[axis-out-of-range]`.
        ShapeError: `[repeated-axis]`.
        ArgumentError: `[argument-count]` for unequal numbers of sources and destinations.

    Example:
        >>> import anabranch as ab, numpy as np
        >>> ab.moveaxis(ab.tensor(np.ones((2, 3, 4))), 0, -1).shape
        (3, 4, 2)
    """
    ndim = len(shape_of(x))
    origins, places = (_distinct(given, ndim) for given in (source, destination))
    if len(origins) != len(places):
        raise ArgumentError(
            "argument-count", f"{len(origins)} axes cannot be moved to {len(places)} places"
        )
    order = [axis for axis in range(ndim) if axis not in origins]
    for place, axis in sorted(zip(places, origins, strict=True)):
        order.insert(place, axis)
    return permute(x, order)


def _distinct(axis: Any, ndim: int) -> list[int]:
    """Axes counted from 0, in the order given."""
    axes_tuple(axis, ndim)
    return [axis_index(a, ndim) for a in (axis if isinstance(axis, Sequence) else [axis])]


@composed
def atleast_1d(*xs: Any) -> Any:
    """Each value with at least one axis; several values give a tuple.

    Example:
        >>> import anabranch as ab
        >>> ab.atleast_1d(ab.tensor(3.0))
        tensor([3.])
    """
    return _each(xs, lambda shape: shape or (1,))


@composed
def atleast_2d(*xs: Any) -> Any:
    """Each value with at least two axes, the new ones in front; several values give a tuple.

    Example:
        >>> import anabranch as ab
        >>> ab.atleast_2d(ab.tensor([3.0, 4.0])).shape
        (1, 2)
    """
    return _each(xs, lambda shape: (1,) * (2 - len(shape)) + shape)


@composed
def atleast_3d(*xs: Any) -> Any:
    """Each value with at least three axes, as NumPy puts them; several values give a tuple.

    Length n becomes (1, n, 1), a matrix (m, n) becomes (m, n, 1).

    Example:
        >>> import anabranch as ab
        >>> ab.atleast_3d(ab.tensor([3.0, 4.0])).shape
        (1, 2, 1)
    """
    return _each(xs, _with_three)


def _with_three(shape: Shape) -> Shape:
    if len(shape) < 2:
        return (1, *shape, 1) if shape else (1, 1, 1)
    return (*shape, 1) if len(shape) == 2 else shape


def _each(xs: Sequence[Any], shape: Any) -> Any:
    made = tuple(reshaped(x, shape(shape_of(x))) for x in xs)
    return made[0] if len(made) == 1 else made


@composed
def broadcast_arrays(*xs: Any) -> tuple[Any, ...]:
    """The values in their common shape.

    Raises:
        ShapeError: `[shape-mismatch]`.

    Example:
        >>> import anabranch as ab
        >>> [v.shape for v in ab.broadcast_arrays(ab.tensor([1.0, 2.0]), ab.tensor([[3.0]]))]
        [(1, 2), (1, 2)]
    """
    shape = broadcast_shapes(*map(aval_of, xs)) if xs else ()
    return tuple(x if shape_of(x) == shape else broadcast_to(x, shape) for x in xs)


@composed
def meshgrid(*xs: Any, indexing: str = "xy", sparse: bool = False) -> tuple[Any, ...]:
    """Coordinates of a grid from the coordinates along each of its axes.

    Args:
        xs: values of one axis each, or scalars.
        indexing: `"xy"` puts the second one's axis first, as a picture's rows are; `"ij"` keeps
            the order.
        sparse: whether to leave lengths at 1 that broadcasting fills in.

    Raises:
        ArgumentError: `[bad-argument]` for another indexing.
        ShapeError: `[shape-mismatch]` for a value with several axes.

    Example:
        >>> import anabranch as ab
        >>> rows, columns = ab.meshgrid(ab.tensor([1.0, 2.0]), ab.tensor([5.0]))
        >>> rows, columns
        (tensor([[1., 2.]]), tensor([[5., 5.]]))
    """
    if indexing not in ("xy", "ij"):
        raise ArgumentError("bad-argument", f"indexing is 'xy' or 'ij', not {indexing!r}")
    axes = list(range(len(xs)))
    if indexing == "xy" and len(xs) > 1:
        axes[:2] = 1, 0
    made = []
    for x, axis in zip(xs, axes, strict=True):
        if len(shape_of(x)) > 1:
            raise ShapeError("shape-mismatch", f"meshgrid takes single axes, not {shape_of(x)}")
        shape = [1] * len(xs)
        shape[axis] = math.prod(shape_of(x))
        made.append(reshaped(x, tuple(shape)))
    return tuple(made) if sparse else broadcast_arrays(*made)
