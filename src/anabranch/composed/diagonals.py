"""Diagonals and triangles of matrices, which are the last two axes or the two that are named."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from anabranch.composed.naming import composed
from anabranch.core.bind import bind
from anabranch.errors import ShapeError
from anabranch.ops.index import slice_, unslice
from anabranch.ops.layout import permute, reshaped
from anabranch.ops.reduce import sum_
from anabranch.ops.rules import axis_index, shape_of
from anabranch.ops.select import where


def _run(rows: int, columns: int, offset: int) -> tuple[int, int, int]:
    """The diagonal as a slice of the matrix's elements in a row."""
    start, count = (
        (offset, min(rows, columns - offset))
        if offset >= 0
        else (-offset * columns, min(rows + offset, columns))
    )
    step = columns + 1
    return (start, start + (count - 1) * step + 1, step) if count > 0 else (0, 0, 1)


@composed
def diagonal(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The diagonals of x in the planes of two axes, along a new last axis.

    Args:
        x: a value with at least two axes.
        offset: how far above the main diagonal; below it if negative.
        axis1, axis2: the axes of rows and columns.

    Raises:
        ShapeError: `[repeated-axis]`; OutOfRangeError: `[axis-out-of-range]`.

    Example:
        >>> import anabranch as ab
        >>> ab.diagonal(ab.tensor([[1.0, 2.0], [3.0, 4.0]]), offset=1)
        tensor([2.])
    """
    ndim = len(shape_of(x))
    plane = axis_index(axis1, ndim), axis_index(axis2, ndim)
    if plane[0] == plane[1]:
        raise ShapeError("repeated-axis", f"axes {axis1} and {axis2} span no plane")
    order = [*(axis for axis in range(ndim) if axis not in plane), *plane]
    moved = permute(x, order) if order != sorted(order) else x
    *rest, rows, columns = shape_of(moved)
    run = _run(rows, columns, operator.index(offset))
    index = (*((0, n, 1) for n in rest), run)
    return bind(slice_, reshaped(moved, (*rest, rows * columns)), index=index)


@composed
def matrix_trace(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The sum along diagonals, as `np.trace` gives it. (`ab.trace` makes a graph of a function.)

    Raises:
        ShapeError, OutOfRangeError: as for `diagonal`.

    Example:
        >>> import anabranch as ab
        >>> float(ab.matrix_trace(ab.tensor([[1.0, 2.0], [3.0, 4.0]])))
        5.0
    """
    return sum_(diagonal(x, offset, axis1, axis2), axis=-1)


@composed
def diag(x: Any, k: int = 0) -> Any:
    """A matrix with x on a diagonal and 0 elsewhere; of a matrix, its diagonal.

    Raises:
        ShapeError: `[shape-mismatch]` for a value without axes or with more than two.

    Example:
        >>> import anabranch as ab
        >>> ab.diag(ab.tensor([1.0, 2.0]))
        tensor([[1., 0.],
                [0., 2.]])
    """
    shape = shape_of(x)
    if len(shape) == 2:
        return diagonal(x, k)
    if len(shape) != 1:
        raise ShapeError("shape-mismatch", f"diag takes one axis or two, not {shape}")
    size = shape[0] + abs(operator.index(k))
    flat = bind(unslice, x, shape=(size * size,), index=(_run(size, size, k),))
    return reshaped(flat, (size, size))


@composed
def tril(x: Any, k: int = 0) -> Any:
    """The last two axes with 0 above the kth diagonal.

    What is left out gets the gradient 0, whatever it holds.

    Raises:
        ShapeError: `[shape-mismatch]` for fewer than two axes.

    Example:
        >>> import anabranch as ab
        >>> ab.tril(ab.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor([[1., 0.],
                [3., 4.]])
    """
    return where(_triangle(x, operator.index(k)), x, x.dtype.type(0))


@composed
def triu(x: Any, k: int = 0) -> Any:
    """The last two axes with 0 below the kth diagonal.

    What is left out gets the gradient 0, whatever it holds.

    Raises:
        ShapeError: `[shape-mismatch]` for fewer than two axes.

    Example:
        >>> import anabranch as ab
        >>> ab.triu(ab.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor([[1., 2.],
                [0., 4.]])
    """
    return where(_triangle(x, operator.index(k) - 1), x.dtype.type(0), x)


def _triangle(x: Any, k: int) -> Any:
    """Which elements lie on or below the kth diagonal."""
    if len(shape_of(x)) < 2:
        raise ShapeError("shape-mismatch", f"a triangle has two axes, not those of {shape_of(x)}")
    *_, rows, columns = shape_of(x)
    return np.tri(rows, columns, k, dtype=bool)
