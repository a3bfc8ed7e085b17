"""The factors Q and R of a matrix.

What their derivatives assume of LAPACK's choice of signs is written in `docs/conventions.md`.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from anabranch.core.aval import Aval, aval, aval_of
from anabranch.core.bind import bind
from anabranch.core.op import UNSUPPORTED, Op
from anabranch.core.sample import dominant, normal, sample
from anabranch.errors import ArgumentError, ShapeError
from anabranch.ops.elementwise import absolute
from anabranch.ops.linalg import matmul
from anabranch.ops.matrices import (
    arrival,
    column,
    diagonal,
    finite_only,
    float_of,
    in_floats,
    joined,
    lower,
    matrix_shape,
    quotient,
    rounding,
    transposed,
    upper,
)
from anabranch.ops.norms import vector_norm
from anabranch.ops.reduce import sum_
from anabranch.ops.rules import LAPACK, shape_of
from anabranch.ops.select import greater, less_equal, where
from anabranch.ops.triangular import solve_triangular


class QRResult(NamedTuple):
    """What `qr` returns."""

    Q: Any
    R: Any


def _qr(a: Any, mode: str = "reduced") -> Any:
    """Q with orthonormal columns and upper triangular R with a = Q @ R, of matrices (..., m, n).

    Args:
        a: any matrices. Its first min(m, n) columns have to be independent for a derivative; else
            it is NaN.
        mode: `"reduced"`: Q is (m, k) and R (k, n), with k the smaller of m and n; `"r"`: R alone;
            `"complete"`: Q is (m, m), whose columns beyond n are arbitrary, so that for m > n
            there is no derivative.

    The signs of R's diagonal are LAPACK's choice. The derivative is that of Walter and Lehmann
    (2018).

    Raises:
        ArgumentError: `[bad-argument]` for another mode.
        ShapeError: `[not-a-matrix]`.

    Example:
        >>> import numpy as np
        >>> import anabranch as ab
        >>> abs(ab.linalg.qr(np.array([[3.0], [4.0]])).R)
        array([[5.]])
    """
    _, m, n = matrix_shape("linalg.qr", aval_of(a))
    if mode not in ("reduced", "complete", "r"):
        raise ArgumentError("bad-argument", f'mode is "reduced", "complete" or "r", not {mode!r}')
    if mode == "complete" and m > n:
        return QRResult(*bind(full_qr, a))
    q, r = bind(qr, a[..., :m] if m < n else a)
    if m < n:  # what stands to the right of a square is carried along
        r = upper(matmul(transposed(q), a))
    return r if mode == "r" else QRResult(q, r)


def _qr_aval(x: Aval) -> tuple[Aval, Aval]:
    batch, m, n = matrix_shape("linalg.qr", x)
    if m < n:
        raise ShapeError(
            "shape-mismatch", f"the op linalg.qr takes no more columns than rows, got {x}"
        )
    dtype = float_of(x)
    return aval((*batch, m, n), dtype), aval((*batch, n, n), dtype)


def _full_qr_aval(x: Aval) -> tuple[Aval, Aval]:
    batch, m, n = matrix_shape("linalg.qr", x)
    dtype = float_of(x)
    return aval((*batch, m, m), dtype), aval((*batch, m, n), dtype)


@finite_only
def _qr_of(x: Any, *, mode: Literal["reduced", "complete"]) -> tuple[Any, Any]:
    q, r = np.linalg.qr(x, mode)
    return q, r


def _qr_ref(x: Any) -> tuple[Any, Any]:
    _qr_aval(aval_of(x))
    return _qr_of(x, mode="reduced")


def _full_qr_ref(x: Any) -> tuple[Any, Any]:
    matrix_shape("linalg.qr", aval_of(x))
    return _qr_of(x, mode="complete")


def _invertible(r: Any) -> tuple[Any, Any]:
    """R, or 1 where a column depends on those before it to within rounding; and where that is."""
    n = shape_of(r)[-1]
    length = vector_norm(r, axis=-2)
    depends = less_equal(absolute(diagonal(r)), length * rounding(r, max(n, 1)))
    singular = column(greater(sum_(depends, axis=-1, keepdims=True), 0))
    return where(singular, np.eye(n, dtype=r.dtype), r), singular


def _over_triangle(x: Any, r: Any, transpose: bool) -> Any:
    """X R⁻¹, or X R⁻ᵀ."""
    left = r if transpose else transposed(r)
    return transposed(solve_triangular(left, transposed(x), lower=not transpose))


def _qr_vjp(ct: Any, y: Any, x: Any) -> Any:
    (ct_q, ct_r), (q, r) = ct, y
    safe, singular = _invertible(r)
    inner = matmul(r, transposed(upper(ct_r))) - matmul(transposed(ct_q), q)
    mirrored = lower(inner) + transposed(lower(inner, -1))
    wanted = ct_q + matmul(q, mirrored)
    arrived = joined(arrival(ct_q, (-2, -1)), arrival(ct_r, (-2, -1)))
    return quotient(_over_triangle(wanted, safe, True), 1.0, singular, arrived)


def _qr_jvp(t: Any, y: Any, x: Any) -> tuple[Any, Any]:
    q, r = y
    safe, singular = _invertible(r)
    moved = quotient(_over_triangle(t, safe, False), 1.0, singular, arrival(t, (-2, -1)))
    inner = matmul(transposed(q), moved)
    turn = lower(inner, -1) - transposed(lower(inner, -1))
    return moved + matmul(q, turn - inner), upper(matmul(inner - turn, r))


qr: Op = Op(
    "linalg.qr",
    aval=_qr_aval,
    ref=in_floats(_qr_ref),
    vjp=(_qr_vjp,),
    jvp=(_qr_jvp,),
    call=_qr,
    lower=LAPACK,
    samples=(
        sample([[2.0]], value=([[1.0]], [[2.0]]), grads=([[1.0]],)),
        sample(dominant(3, 3)),
        sample(dominant(4, 2)),
        sample(normal(2, 3, 1)),
        sample(dominant(1, 1)),
        sample(dominant(3, 0)),
        sample(dominant(0, 0)),
    ),
)

full_qr: Op = Op(
    "linalg.full_qr",
    aval=_full_qr_aval,
    ref=in_floats(_full_qr_ref),
    vjp=UNSUPPORTED(
        "the columns of Q beyond those of x are arbitrary; the reduced mode leaves them out"
    ),
    arity=1,
    lower=LAPACK,
    samples=(
        sample([[2.0]], value=([[1.0]], [[2.0]])),
        sample(normal(3, 2)),
        sample(normal(2, 2, 3)),
        sample(normal(1, 1)),
        sample(normal(2, 0)),
    ),
    doc='A square Q, and R: `qr` with `mode="complete"`, without derivative.',
)
