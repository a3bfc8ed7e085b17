"""Putting values together, taking them apart, and repeating them."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.composed.naming import composed
from anabranch.composed.shape import atleast_1d, atleast_2d, atleast_3d, expand_dims
from anabranch.core.aval import Shape
from anabranch.core.bind import bind
from anabranch.core.values import as_shape
from anabranch.errors import ArgumentError, ShapeError
from anabranch.ops.gather import gathered
from anabranch.ops.index import slice_
from anabranch.ops.join import concatenate, flip
from anabranch.ops.layout import broadcast_to, permute, reshape, reshaped
from anabranch.ops.places import index_operand
from anabranch.ops.rules import Axis, axis_index, dynamic_shape, shape_of


@composed
def stack(arrays: Sequence[Any], axis: int = 0) -> Any:
    """Values of one shape along a new axis.

    Raises:
        ArgumentError: `[bad-argument]` for no value.
        ShapeError: `[shape-mismatch]`.
        OutOfRangeError: `[axis-out-of-range]`.

    Example:
        >>> import anabranch as ab
        >>> ab.stack([ab.tensor(1.0), ab.tensor(2.0)])
        tensor([1., 2.])
    """
    values = list(arrays)
    for x in values:
        if shape_of(x) != shape_of(values[0]):
            raise ShapeError(
                "shape-mismatch",
                f"shapes {shape_of(values[0])} and {shape_of(x)} cannot be stacked",
            )
    return concatenate([expand_dims(x, axis) for x in values], axis=axis)


@composed
def unstack(x: Any, axis: int = 0) -> tuple[Any, ...]:
    """The parts of x along an axis, which they do not have any more.

    Raises:
        OutOfRangeError: `[axis-out-of-range]`.

    Example:
        >>> import anabranch as ab
        >>> ab.unstack(ab.tensor([[1.0, 2.0], [3.0, 4.0]]), axis=1)
        (tensor([1., 3.]), tensor([2., 4.]))
    """
    place = axis_index(axis, len(shape_of(x)))
    before = (slice(None),) * place
    return tuple(slice_(x, (*before, i)) for i in range(shape_of(x)[place]))


@composed
def hstack(arrays: Sequence[Any]) -> Any:
    """Values side by side: along the second axis, or along the only one.

    Example:
        >>> import anabranch as ab
        >>> ab.hstack([ab.tensor([1.0]), ab.tensor([2.0, 3.0])])
        tensor([1., 2., 3.])
    """
    values = [atleast_1d(x) for x in arrays]
    return concatenate(values, axis=int(bool(values) and len(shape_of(values[0])) > 1))


@composed
def vstack(arrays: Sequence[Any]) -> Any:
    """Values one under the other: along the first axis, single axes as rows.

    Example:
        >>> import anabranch as ab
        >>> ab.vstack([ab.tensor([1.0, 2.0]), ab.tensor([3.0, 4.0])])
        tensor([[1., 2.],
                [3., 4.]])
    """
    return concatenate([atleast_2d(x) for x in arrays], axis=0)


@composed
def dstack(arrays: Sequence[Any]) -> Any:
    """Values one behind the other: along the third axis.

    Example:
        >>> import anabranch as ab
        >>> ab.dstack([ab.tensor([1.0, 2.0]), ab.tensor([3.0, 4.0])]).shape
        (1, 2, 2)
    """
    return concatenate([atleast_3d(x) for x in arrays], axis=2)


@composed
def column_stack(arrays: Sequence[Any]) -> Any:
    """Values side by side as columns of a matrix.

    Example:
        >>> import anabranch as ab
        >>> ab.column_stack([ab.tensor([1.0, 2.0]), ab.tensor([3.0, 4.0])])
        tensor([[1., 3.],
                [2., 4.]])
    """
    columns = [reshape(x, (-1, 1)) if len(shape_of(x)) < 2 else x for x in arrays]
    return concatenate(columns, axis=1)


@composed
def split(x: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """x cut into equal parts, or at the places given.

    Raises:
        ShapeError: `[shape-mismatch]` when the length is no multiple of the number of parts.
        OutOfRangeError: `[axis-out-of-range]`.

    Example:
        >>> import anabranch as ab
        >>> ab.split(ab.tensor([1.0, 2.0, 3.0]), [1])
        [tensor([1.]), tensor([2., 3.])]
    """
    if not isinstance(indices_or_sections, list | tuple | np.ndarray):
        length = shape_of(x)[axis_index(axis, len(shape_of(x)))]
        count = operator.index(indices_or_sections)
        if count < 1 or length % count:
            raise ShapeError(
                "shape-mismatch",
                f"a length of {length} cannot be cut into {count} equal parts",
                hint=f"ab.array_split(x, {count}) makes some of them longer",
            )
    return _cut(x, indices_or_sections, axis)


@composed
def array_split(x: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """x cut into parts of nearly equal length, the longer ones first, or at the places given.

    Raises:
        ArgumentError: `[bad-argument]` for less than one part.
        OutOfRangeError: `[axis-out-of-range]`.

    Example:
        >>> import anabranch as ab
        >>> ab.array_split(ab.tensor([1.0, 2.0, 3.0]), 2)
        [tensor([1., 2.]), tensor([3.])]
    """
    return _cut(x, indices_or_sections, axis)


def _cut(x: Any, places: Any, axis: int) -> list[Any]:
    place = axis_index(axis, len(shape_of(x)))
    length = shape_of(x)[place]
    if isinstance(places, list | tuple | np.ndarray):
        ends = [0, *map(operator.index, places), None]
    else:
        count = operator.index(places)
        if count < 1:
            raise ArgumentError("bad-argument", f"x is cut into at least one part, not {count}")
        short, longer = divmod(length, count)
        lengths = [short + 1] * longer + [short] * (count - longer)
        ends = [0, *itertools.accumulate(lengths)]
    before = (slice(None),) * place
    return [slice_(x, (*before, slice(*pair))) for pair in itertools.pairwise(ends)]


@composed
def tile(x: Any, reps: int | Sequence[int]) -> Any:
    """x repeated as a whole, `reps` times along each axis; missing axes stand in front.

    Raises:
        ShapeError: `[bad-shape]` for negative counts.

    Example:
        >>> import anabranch as ab
        >>> ab.tile(ab.tensor([1.0, 2.0]), (2, 2))
        tensor([[1., 2., 1., 2.],
                [1., 2., 1., 2.]])
    """
    counts = as_shape(reps)
    shape = shape_of(x)
    ndim = max(len(counts), len(shape))
    counts = (1,) * (ndim - len(counts)) + counts
    shape = (1,) * (ndim - len(shape)) + shape
    pairs = list(zip(counts, shape, strict=True))
    spread = broadcast_to(
        reshaped(x, tuple(n for _, length in pairs for n in (1, length))),
        tuple(n for pair in pairs for n in pair),
    )
    return reshaped(spread, tuple(count * length for count, length in pairs))


@composed
def repeat(x: Any, repeats: Any, axis: int | None = None) -> Any:
    """Each element repeated along an axis, of the flattened value without an axis.

    Args:
        x: any value.
        repeats: how often: one number, or one for each element along the axis.
        axis: along which.

    Raises:
        ShapeError: `[bad-shape]` for negative counts; `[shape-mismatch]` for a wrong number of
            them; `[dynamic-shape]` for counts that are computed.

    Example:
        >>> import anabranch as ab
        >>> ab.repeat(ab.tensor([1.0, 2.0]), [2, 1])
        tensor([1., 1., 2.])
    """
    if hasattr(repeats, "aval"):
        raise dynamic_shape(
            "how long a repeat with computed counts becomes is not known while a graph is built",
            "counts as integers of Python's or an array of NumPy's",
        )
    if axis is None:
        x, axis = reshape(x, -1), 0
    place = axis_index(axis, len(shape_of(x)))
    shape = shape_of(x)
    counts = as_shape(np.ravel(index_operand(repeats)).tolist())
    if len(counts) == 1:
        spread = broadcast_to(expand_dims(x, place + 1), _inserted(shape, place + 1, counts[0]))
        return reshaped(spread, (*shape[:place], shape[place] * counts[0], *shape[place + 1 :]))
    if len(counts) != shape[place]:
        raise ShapeError(
            "shape-mismatch", f"{len(counts)} counts for an axis of length {shape[place]}"
        )
    return gathered(x, (np.repeat(np.arange(shape[place]), counts),), (place,))


def _inserted(shape: Shape, place: int, length: int) -> Shape:
    return (*shape[:place], length, *shape[place:])


@composed
def roll(x: Any, shift: int | Sequence[int], axis: Axis = None) -> Any:
    """Elements moved along axes; what leaves at one end comes in at the other.

    Args:
        x: any value.
        shift: by how many places, one number or one for each axis.
        axis: one or several; the flattened value is rolled without one.

    Raises:
        ArgumentError: `[argument-count]` for unequal numbers of shifts and axes.
        OutOfRangeError: `[axis-out-of-range]`.

    Example:
        >>> import anabranch as ab
        >>> ab.roll(ab.tensor([1.0, 2.0, 3.0]), 1)
        tensor([3., 1., 2.])
    """
    shape = shape_of(x)
    if axis is None:
        return reshaped(_rolled(reshape(x, -1), shift, 0), shape)
    shifts = list(shift) if isinstance(shift, Sequence) else [shift]
    axes = list(axis) if isinstance(axis, Sequence) else [axis]
    count = max(len(shifts), len(axes))
    if not {len(shifts), len(axes)} <= {1, count}:
        raise ArgumentError("argument-count", f"{len(shifts)} shifts for {len(axes)} axes")
    for one, place in zip(
        shifts * (count // len(shifts)), axes * (count // len(axes)), strict=True
    ):
        x = _rolled(x, one, axis_index(place, len(shape)))
    return x


def _rolled(x: Any, shift: Any, axis: int) -> Any:
    length = shape_of(x)[axis]
    by = sum(map(operator.index, shift)) if isinstance(shift, Sequence) else operator.index(shift)
    if not length or not by % length:
        return x
    index: list[Any] = [(0, n, 1) for n in shape_of(x)]
    parts = []
    for ends in ((length - by % length, length, 1), (0, length - by % length, 1)):
        index[axis] = ends
        parts.append(bind(slice_, x, index=tuple(index)))
    return concatenate(parts, axis=axis)


@composed
def rot90(x: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    """x turned by k right angles in the plane of two axes, from the first towards the second.

    Raises:
        ShapeError: `[repeated-axis]` for one axis twice.
        OutOfRangeError: `[axis-out-of-range]`.

    Example:
        >>> import anabranch as ab
        >>> ab.rot90(ab.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor([[2., 4.],
                [1., 3.]])
    """
    ndim = len(shape_of(x))
    one, other = (axis_index(axis, ndim) for axis in axes)
    if one == other:
        raise ShapeError("repeated-axis", f"axes {tuple(axes)} span no plane")
    order = list(range(ndim))
    order[one], order[other] = other, one
    turns = operator.index(k) % 4
    if turns == 0:
        return x
    if turns == 2:
        return flip(x, (one, other))
    if turns == 1:
        return permute(flip(x, other), order)
    return flip(permute(x, order), other)


@composed
def fliplr(x: Any) -> Any:
    """The second axis in reverse order.

    Example:
        >>> import anabranch as ab
        >>> ab.fliplr(ab.tensor([[1.0, 2.0]]))
        tensor([[2., 1.]])
    """
    return flip(x, 1)


@composed
def flipud(x: Any) -> Any:
    """The first axis in reverse order.

    Example:
        >>> import anabranch as ab
        >>> ab.flipud(ab.tensor([1.0, 2.0]))
        tensor([2., 1.])
    """
    return flip(x, 0)
