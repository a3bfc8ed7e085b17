"""Least squares: the solution of systems with more or fewer equations than unknowns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from anabranch.core.aval import Aval, aval, aval_of
from anabranch.core.bind import bind
from anabranch.core.op import Op
from anabranch.core.sample import dominant, normal, sample
from anabranch.errors import DomainError, ShapeError
from anabranch.ops.elementwise import square
from anabranch.ops.layout import reshaped, sum_to
from anabranch.ops.linalg import matmul
from anabranch.ops.matrices import (
    batch_of,
    finite_only,
    first_index,
    float_of,
    in_floats,
    matrix_shape,
    rounding,
    transposed,
)
from anabranch.ops.reduce import sum_
from anabranch.ops.rules import LAPACK, shape_of
from anabranch.ops.spectral import svd
from anabranch.ops.systems import columns_of, pinv, to_right_side


class LstsqResult(NamedTuple):
    """What `lstsq` returns."""

    x: Any
    residuals: Any
    rank: int
    s: Any


def _lstsq(a: Any, b: Any, rcond: float | None = None) -> LstsqResult:
    """The x of least |b - a x|, and of those the shortest, for matrices (..., m, n) of full rank.

    Args:
        a: matrices of rank min(m, n).
        b: one vector (m,), or matrices (..., m, k) with a right side in each column.
        rcond: singular values up to this times the largest count as 0; by default the larger of m
            and n times the spacing of floats at 1.

    Returns:
        (x, residuals, rank, s): the solution, the squares |b - a x|² by column (none unless m > n),
        min(m, n), and the singular values, as NumPy has them. All but the rank have derivatives.

    Raises:
        DomainError: `[rank-deficient]`: there the solution jumps, and has no derivative.
        ShapeError: `[shape-mismatch]`, `[not-a-matrix]`.

    Example:
        >>> import numpy as np
        >>> import anabranch as ab
        >>> a = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
        >>> ab.linalg.lstsq(a, np.array([1.0, 3.0, 5.0])).x.round(6)
        array([1., 2.])
    """
    m, n = matrix_shape("linalg.lstsq", aval_of(a))[1:]
    if rcond is None:
        rcond = rounding(np.empty(0, float_of(aval_of(a), aval_of(b))), max(m, n))
    x = bind(lstsq, a, b, rcond=float(rcond))
    rest = columns_of(b, b) - matmul(a, columns_of(x, b))
    squares = sum_(square(rest), axis=-2) if m > n else np.zeros(0, x.dtype)
    return LstsqResult(x, squares, min(m, n), svd(a, compute_uv=False))


def _lstsq_aval(a: Aval, b: Aval, *, rcond: float) -> Aval:
    batch, m, n = matrix_shape("linalg.lstsq", a)
    if not b.ndim or b.shape[-2:][0] != m:
        raise ShapeError(
            "shape-mismatch", f"linalg.lstsq needs a right side of {m} rows, got {b} for {a}"
        )
    if b.ndim == 1:
        return aval((*batch, n), float_of(a, b))
    return aval((*batch_of(a, b), n, b.shape[-1]), float_of(a, b))


def _lstsq_ref(a: Any, b: Any, *, rcond: float) -> Any:
    made = _lstsq_aval(aval_of(a), aval_of(b), rcond=rcond)
    u, s, vt = finite_only(np.linalg.svd)(a, full_matrices=False)
    if s.size:
        poor = s[..., -1] <= rcond * s[..., 0]
        if poor.any():
            raise DomainError(
                "rank-deficient",
                f"linalg.lstsq: {first_index(poor)} has a rank below {s.shape[-1]}",
                hint="ab.linalg.pinv(a) @ b has a value for every matrix",
            )
    x = np.swapaxes(vt, -1, -2) @ ((np.swapaxes(u, -1, -2) @ columns_of(b, b)) / s[..., None])
    return np.ascontiguousarray(x).reshape(made.shape)


def _parts(y: Any, a: Any, b: Any, rcond: float) -> tuple[Any, Any, Any]:
    """P = a⁺, the solution as columns, and what it leaves of b."""
    x = columns_of(y, b)
    return pinv(a, rtol=rcond), x, columns_of(b, b) - matmul(a, x)


def _lstsq_jvp_a(t: Any, y: Any, a: Any, b: Any, *, rcond: float) -> Any:
    # dx = -P da x + P Pᵀ daᵀ (b - a x) + (1 - P a) daᵀ Pᵀ x
    p, x, rest = _parts(y, a, b, rcond)
    tt, pt = transposed(t), transposed(p)
    moved = matmul(tt, matmul(pt, x))
    dx = (
        matmul(p, matmul(pt, matmul(tt, rest)) - matmul(t, x)) + moved - matmul(p, matmul(a, moved))
    )
    return reshaped(dx, shape_of(y))


def _lstsq_vjp_a(ct: Any, y: Any, a: Any, b: Any, *, rcond: float) -> Any:
    p, x, rest = _parts(y, a, b, rcond)
    pt, c = transposed(p), columns_of(ct, b)
    pulled = matmul(pt, c)
    left = c - matmul(transposed(a), pulled)  # (1 - P a) is symmetric
    da = matmul(rest, transposed(matmul(p, pulled))) - matmul(pulled, transposed(x))
    return sum_to(da + matmul(matmul(pt, x), transposed(left)), shape_of(a))


def _lstsq_vjp_b(ct: Any, y: Any, a: Any, b: Any, *, rcond: float) -> Any:
    return to_right_side(matmul(transposed(pinv(a, rtol=rcond)), columns_of(ct, b)), b)


lstsq: Op = Op(
    "linalg.lstsq",
    aval=_lstsq_aval,
    ref=in_floats(_lstsq_ref),
    vjp=(_lstsq_vjp_a, _lstsq_vjp_b),
    linear=(1,),
    jvp=(_lstsq_jvp_a, None),
    call=_lstsq,
    lower=LAPACK,
    samples=(
        # x = (a b) / (a a): by b a/2, by a (b - 2 x a)/2
        sample(
            [[1.0], [1.0]], [1.0, 3.0], value=[2.0], grads=([[-1.5], [-0.5]], [0.5, 0.5]), rcond=0.0
        ),
        # the shortest of all: x = a b / (a a)
        sample([[1.0, 1.0]], [2.0], value=[1.0, 1.0], grads=([[-1.0, -1.0]], [1.0]), rcond=0.0),
        sample(dominant(4, 2), normal(4), rcond=1e-15),
        sample(dominant(2, 3), normal(2, 2), rcond=1e-15),
        sample(dominant(2, 4, 2), normal(4, 3), rcond=1e-15),
        sample(dominant(2, 2, 3), normal(2), rcond=1e-15),
        sample(dominant(3, 3), normal(2, 3, 1), rcond=1e-15),
        sample(dominant(1, 1), normal(1), rcond=1e-15),
        sample(normal(0, 2), normal(0), rcond=1e-15),
        sample(normal(3, 0), normal(3, 2), rcond=1e-15),
    ),
)
