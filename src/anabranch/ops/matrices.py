"""What ops on matrices share: triangles and diagonals, dtypes, and what rounding cannot tell."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import ml_dtypes
import numpy as np

from anabranch.core.aval import Aval, Shape
from anabranch.core.dtype import FLOATS, DType, is_half, promote
from anabranch.core.op import broadcast_shapes
from anabranch.core.values import settled
from anabranch.errors import ShapeError
from anabranch.ops.layout import permute, reshaped
from anabranch.ops.reduce import sum_
from anabranch.ops.rules import shape_of
from anabranch.ops.select import absorb, greater, not_equal, where

Ref = TypeVar("Ref", bound=Callable[..., Any])
_FLOAT64 = np.dtype(np.float64)


# Avals


def float_of(*avals: Aval) -> DType:
    """The dtype in which `numpy.linalg` answers: integers and bools become float64."""
    dtype, _ = promote([(a.dtype, False) for a in avals])
    return dtype if dtype in FLOATS or dtype.kind == "c" else _FLOAT64


def real_of(dtype: DType) -> DType:
    """The dtype of sizes of values of this dtype."""
    return np.dtype(dtype.type(0).real.dtype) if dtype.kind == "c" else dtype


def square_shape(name: str, x: Aval) -> tuple[Shape, int]:
    """The batch and the order of a stack of square matrices.

    Raises:
        ShapeError: `[not-square]`.
    """
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(
            "not-square", f"{name} needs square matrices in the last two axes, got {x}"
        )
    return x.shape[:-2], x.shape[-1]


def matrix_shape(name: str, x: Aval) -> tuple[Shape, int, int]:
    """The batch, rows and columns of a stack of matrices.

    Raises:
        ShapeError: `[not-a-matrix]`.
    """
    if x.ndim < 2:
        raise ShapeError("not-a-matrix", f"{name} needs a matrix in the last two axes, got {x}")
    return x.shape[:-2], x.shape[-2], x.shape[-1]


def batch_of(*avals: Aval) -> Shape:
    """The common shape of what stands before the last two axes."""
    return broadcast_shapes(*(a.with_shape(a.shape[:-2]) for a in avals))


# References


def in_floats(ref: Ref) -> Ref:
    """A reference for operands of every dtype, made of one for those that LAPACK knows.

    Half types compute in float32 and come back; integers become float64.
    """

    @functools.wraps(ref)
    def computed(*xs: Any, **attrs: Any) -> Any:
        arrays = [np.asarray(x) for x in xs]
        dtype, _ = promote([(a.dtype, False) for a in arrays])
        inside = np.dtype(np.float32) if is_half(dtype) else dtype
        if inside not in FLOATS and inside.kind != "c":
            inside = _FLOAT64
        found = ref(*(a.astype(inside, copy=False) for a in arrays), **attrs)
        outside = dtype if is_half(dtype) else None
        if isinstance(found, tuple):
            return tuple(_laid_out(y, outside) for y in found)
        return _laid_out(found, outside)

    return computed  # type: ignore[return-value]


def _laid_out(y: Any, dtype: DType | None) -> Any:
    return settled(np.asarray(y, y.dtype if dtype is None else dtype, order="C"))


def finite_only(ref: Ref) -> Ref:
    """A reference in which a matrix that holds an infinity or a NaN gives nothing but NaN.

    LAPACK would refuse it, or not come back.
    """

    @functools.wraps(ref)
    def guarded(x: Any, **attrs: Any) -> Any:
        bad = ~np.isfinite(x).all(axis=(-2, -1))
        if not bad.any():
            return ref(x, **attrs)
        found = ref(
            np.where(bad[..., None, None], np.eye(*x.shape[-2:], dtype=x.dtype), x), **attrs
        )
        if isinstance(found, tuple):
            return tuple(_spoiled(y, bad) for y in found)
        return _spoiled(found, bad)

    return guarded  # type: ignore[return-value]


def _spoiled(y: Any, bad: Any) -> Any:
    y = np.array(y)
    y[bad] = np.nan
    return y


def first_index(bad: Any) -> str:
    """Which matrix of a stack is the first that is bad, as words for an error."""
    return f"the matrix at {tuple(map(int, np.argwhere(bad)[0]))}" if np.ndim(bad) else "the matrix"


def hermitian(x: Any) -> Any:
    """The mean of an array and its conjugate transpose; halved first, so nothing overflows."""
    half = x / 2
    return half + half.swapaxes(-1, -2).conj()


# Rules: in any front end


def transposed(x: Any) -> Any:
    """The last two axes exchanged."""
    axes = list(range(len(shape_of(x))))
    axes[-2:] = axes[:-3:-1]
    return permute(x, axes)


def symmetric(x: Any) -> Any:
    """The mean of a matrix and its transpose."""
    return (x + transposed(x)) * 0.5


def lower(x: Any, k: int = 0) -> Any:
    """What stands on and below diagonal k, and 0 above it, whatever stood there."""
    rows, columns = shape_of(x)[-2:]
    return where(np.tri(rows, columns, k, dtype=np.bool_), x, 0.0)


def upper(x: Any, k: int = 0) -> Any:
    """What stands on and above diagonal k, and 0 below it, whatever stood there."""
    rows, columns = shape_of(x)[-2:]
    return where(~np.tri(rows, columns, k - 1, dtype=np.bool_), x, 0.0)


def diagonal(x: Any) -> Any:
    """The diagonals of square matrices."""
    return sum_(where(_eye(x), x, 0.0), axis=-1)


def on_diagonal(x: Any) -> Any:
    """Square matrices with the last axis of x as their diagonals."""
    shape = shape_of(x)
    return where(np.eye(shape[-1], dtype=np.bool_), reshaped(x, (*shape, 1)), 0.0)


def off_diagonal(x: Any) -> Any:
    """x with 0 on its diagonals."""
    return where(_eye(x), 0.0, x)


def _eye(x: Any) -> Any:
    return np.eye(shape_of(x)[-1], dtype=np.bool_)


def row(x: Any) -> Any:
    """The last axis as rows of one line."""
    shape = shape_of(x)
    return reshaped(x, (*shape[:-1], 1, shape[-1]))


def column(x: Any) -> Any:
    """The last axis as columns of one entry."""
    return reshaped(x, (*shape_of(x), 1))


# Where a rule would divide 0 by 0


class Arrival(NamedTuple):
    """What arrived of a cotangent or tangent: whether any of it is not 0, and its sum.

    Where nothing arrived the sum is a 0 that further derivatives still pass.
    """

    used: Any
    total: Any


def arrival(ct: Any, axis: Any) -> Arrival:
    """What arrived along these axes, which stay with length 1."""
    used = greater(sum_(not_equal(ct, 0), axis, keepdims=True), 0)
    return Arrival(used, sum_(ct, axis, keepdims=True))


def joined(one: Arrival, other: Arrival) -> Arrival:
    """What arrived of either."""
    return Arrival(either(one.used, other.used), one.total + other.total)


def either(one: Any, other: Any) -> Any:
    """Whether one or the other holds."""
    return where(one, True, other)


def both(one: Any, other: Any) -> Any:
    """Whether one and the other hold."""
    return where(one, other, False)


def quotient(x: Any, divisor: Any, vanishes: Any, arrived: Arrival) -> Any:
    """x, which is linear in what arrived, over a divisor.

    Where the divisor vanishes a quotient of two zeros would be needed, which the values at hand do
    not tell: it is NaN, in every order. Where nothing arrived it is 0, but its derivative by what
    might have arrived is NaN.
    """
    nan = float("nan")
    unknown = where(arrived.used, x * nan, absorb(arrived.total, nan))
    return where(vanishes, unknown, x / where(vanishes, 1.0, divisor))


def rounding(x: Any, order: int) -> Any:
    """How far apart computed eigenvalues or singular values must be, in units of the largest."""
    return order * float(ml_dtypes.finfo(x.dtype).eps)  # type: ignore[no-untyped-call]
