"""Products of vectors, matrices and arrays under NumPy's names, made of `matmul` and `multiply`."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.composed.einsum import Factor, contracted
from anabranch.composed.indexing import take
from anabranch.composed.naming import composed
from anabranch.core.aval import aval_of
from anabranch.errors import ArgumentError, DTypeError, ShapeError
from anabranch.ops.elementwise import multiply
from anabranch.ops.layout import permute, reshape, reshaped
from anabranch.ops.linalg import matmul
from anabranch.ops.rules import axis_index, shape_of


def _refuse(name: str, a: Any, b: Any, needs: str, hint: str | None = None) -> ShapeError:
    return ShapeError(
        "shape-mismatch", f"{name} needs {needs}, got {aval_of(a)} and {aval_of(b)}", hint=hint
    )


def _refuse_complex(name: str, *values: Any) -> None:
    if any(aval_of(value).dtype.kind == "c" for value in values):
        raise DTypeError("no-conjugate", f"{name} of complex values takes a conjugate first")


def _contract(a: Any, b: Any, a_axes: Sequence[int], b_axes: Sequence[int]) -> Any:
    """Sums over pairs of axes, counted from 0; what is left of a comes before what is left of b."""
    a_ndim, b_ndim = len(shape_of(a)), len(shape_of(b))
    b_labels = [a_ndim + axis for axis in range(b_ndim)]
    for one, other in zip(a_axes, b_axes, strict=True):
        b_labels[other] = one
    output = [i for i in range(a_ndim) if i not in a_axes]
    output += [b_labels[i] for i in range(b_ndim) if i not in b_axes]
    factors = (Factor(a, tuple(range(a_ndim))), Factor(b, tuple(b_labels)))
    return contracted(factors, tuple(output))


@composed
def dot(a: Any, b: Any) -> Any:
    """NumPy's `dot`: the sum over the last axis of a and the second to last of b.

    Of two vectors it is their inner product, of matrices the matrix product, of a number and an
    array the multiple. Axes before the last two are not broadcast, as `matmul` does, but all kept.

    Raises:
        ShapeError: `[shape-mismatch]`.

    Example:
        >>> import numpy as np
        >>> import anabranch as ab
        >>> float(ab.dot(np.array([1.0, 2.0]), np.array([3.0, 4.0])))
        11.0
    """
    m, n = len(shape_of(a)), len(shape_of(b))
    if not m or not n:
        return a * b
    if m == 1 or n <= 2:
        return matmul(a, b)
    if shape_of(a)[-1] != shape_of(b)[-2]:
        raise _refuse("dot", a, b, "a's last axis to equal b's second to last")
    return _contract(a, b, [m - 1], [n - 2])


@composed
def inner(a: Any, b: Any) -> Any:
    """The sum over the last axes of both; what is left of a comes before what is left of b.

    Raises:
        ShapeError: `[shape-mismatch]`.

    Example:
        >>> import numpy as np
        >>> import anabranch as ab
        >>> ab.inner(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 10.0]))
        array([21., 43.])
    """
    m, n = len(shape_of(a)), len(shape_of(b))
    if not m or not n:
        return a * b
    if shape_of(a)[-1] != shape_of(b)[-1]:
        raise _refuse("inner", a, b, "last axes of one length")
    return _contract(a, b, [m - 1], [n - 1])


@composed
def vdot(a: Any, b: Any) -> Any:
    """The sum of the products of all elements, in C order; shapes need not agree, sizes must.

    Raises:
        ShapeError: `[shape-mismatch]`.
        DTypeError: `[no-conjugate]` for complex values.

    Example:
        >>> import numpy as np
        >>> import anabranch as ab
        >>> float(ab.vdot(np.ones((2, 2)), np.array([1.0, 2.0, 3.0, 4.0])))
        10.0
    """
    _refuse_complex("vdot", a, b)
    if aval_of(a).size != aval_of(b).size:
        raise _refuse("vdot", a, b, "as many elements on both sides")
    return matmul(reshape(a, -1), reshape(b, -1))


@composed
def vecdot(x1: Any, x2: Any, axis: int = -1) -> Any:
    """The sum of products along one axis, which is counted before the others are broadcast.

    Raises:
        ShapeError: `[shape-mismatch]`.
        DTypeError: `[no-conjugate]` for complex values.

    Example:
        >>> import numpy as np
        >>> import anabranch as ab
        >>> ab.vecdot(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 10.0]))
        array([21., 43.])
    """
    _refuse_complex("vecdot", x1, x2)
    one, other = _last(x1, axis), _last(x2, axis)
    if shape_of(one)[-1] != shape_of(other)[-1]:
        raise _refuse("vecdot", x1, x2, f"one length along axis {axis}")
    rows = reshape(one, (*shape_of(one)[:-1], 1, shape_of(one)[-1]))
    columns = reshape(other, (*shape_of(other), 1))
    product = matmul(rows, columns)
    return reshape(product, shape_of(product)[:-2])


@composed
def outer(a: Any, b: Any) -> Any:
    """All products of an element of a and one of b, as a matrix; both are flattened.

    Example:
        >>> import numpy as np
        >>> import anabranch as ab
        >>> ab.outer(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
        array([[3., 4.],
               [6., 8.]])
    """
    return reshape(a, (-1, 1)) * reshape(b, (1, -1))


@composed
def kron(a: Any, b: Any) -> Any:
    """Kronecker's product: b once for each element of a, times it, side by side.

    The array with fewer axes gets axes of length 1 in front.

    Example:
        >>> import numpy as np
        >>> import anabranch as ab
        >>> ab.kron(np.array([1.0, 10.0]), np.array([1.0, 2.0]))
        array([ 1.,  2., 10., 20.])
    """
    ndim = max(len(shape_of(a)), len(shape_of(b)))
    blocks = (1,) * (ndim - len(shape_of(a))) + shape_of(a)
    inside = (1,) * (ndim - len(shape_of(b))) + shape_of(b)
    product = reshaped(a, tuple(n for m in blocks for n in (m, 1))) * reshaped(
        b, tuple(n for m in inside for n in (1, m))
    )
    return reshaped(product, tuple(map(operator.mul, blocks, inside)))


@composed
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Sums over pairs of axes; what is left of a comes before what is left of b.

    Args:
        a, b: arrays.
        axes: how many of the last axes of a meet as many of the first of b, in order; or a pair:
            axes of a, and the axes of b that they meet.

    Raises:
        ShapeError: `[shape-mismatch]`, `[repeated-axis]`.
        ArgumentError: `[bad-argument]` for axes that do not pair up.
        OutOfRangeError: `[axis-out-of-range]`.

    Example:
        >>> import numpy as np
        >>> import anabranch as ab
        >>> float(ab.tensordot(np.ones((2, 3)), np.ones((2, 3))))
        6.0
    """
    a_axes, b_axes = _axis_pairs(axes, len(shape_of(a)), len(shape_of(b)))
    for one, other in zip(a_axes, b_axes, strict=True):
        if shape_of(a)[one] != shape_of(b)[other]:
            raise _refuse("tensordot", a, b, f"one length along axes {one} and {other}")
    return _contract(a, b, a_axes, b_axes)


def _axis_pairs(axes: Any, m: int, n: int) -> tuple[list[int], list[int]]:
    if isinstance(axes, Sequence):
        try:
            given = [list(s) if isinstance(s, Sequence) else [s] for s in axes]
            one, other = given
        except ValueError:
            one, other = [], [0]
    else:
        count = operator.index(axes)
        one, other = list(range(-count, 0)), list(range(count))
    if len(one) != len(other):
        raise ArgumentError(
            "bad-argument",
            f"tensordot needs as many axes of a as of b, got {axes!r}",
            hint="axes=([0, 1], [1, 0])",
        )
    found = [axis_index(i, m) for i in one], [axis_index(i, n) for i in other]
    for places in found:
        if len(set(places)) < len(places):
            raise ShapeError("repeated-axis", f"tensordot names the same axis twice in {axes!r}")
    return found


@composed
def cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Any:
    """The cross product of vectors of length 3; other axes broadcast.

    Args:
        a, b: arrays with an axis of length 3.
        axisa, axisb: that axis.
        axisc: where it stands in the result.
        axis: all three of them.

    Raises:
        ShapeError: `[shape-mismatch]` for other lengths, 2 among them.

    Example:
        >>> import numpy as np
        >>> import anabranch as ab
        >>> ab.cross(np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0]))
        array([0., 0., 1.])
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    one, other = _last(a, axisa), _last(b, axisb)
    if shape_of(one)[-1] != 3 or shape_of(other)[-1] != 3:
        raise _refuse("cross", a, b, "vectors of length 3", "x[0] * y[1] - x[1] * y[0]  # in 2-D")

    def turned(value: Any, by: int) -> Any:
        return take(value, np.roll(np.arange(3), -by), axis=-1)

    product = multiply(turned(one, 1), turned(other, 2)) - turned(one, 2) * turned(other, 1)
    ndim = len(shape_of(product))
    order = list(range(ndim - 1))
    order.insert(axis_index(axisc, ndim), ndim - 1)
    return product if order == list(range(ndim)) else permute(product, order)


def _last(value: Any, axis: int) -> Any:
    """The value with this axis moved to the end."""
    ndim = len(shape_of(value))
    place = axis_index(axis, ndim)
    if place == ndim - 1:
        return value
    return permute(value, [*(i for i in range(ndim) if i != place), place])
