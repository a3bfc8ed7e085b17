"""Eigenvalues and singular values, with their vectors.

Signs, and rotations among equal values, are LAPACK's choice. What the derivatives assume of it,
and what they say where it is not smooth, is written in `docs/conventions.md`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from anabranch.core.aval import Aval, aval, aval_of
from anabranch.core.bind import bind
from anabranch.core.op import UNSUPPORTED, Op
from anabranch.core.sample import dominant, normal, sample
from anabranch.errors import ArgumentError
from anabranch.ops.elementwise import absolute
from anabranch.ops.linalg import matmul
from anabranch.ops.matrices import (
    Arrival,
    arrival,
    column,
    diagonal,
    finite_only,
    float_of,
    hermitian,
    in_floats,
    joined,
    lower,
    matrix_shape,
    off_diagonal,
    on_diagonal,
    quotient,
    real_of,
    rounding,
    row,
    square_shape,
    symmetric,
    transposed,
    upper,
)
from anabranch.ops.reduce import max_
from anabranch.ops.rules import shape_of
from anabranch.ops.select import less_equal, where


class EighResult(NamedTuple):
    """What `eigh` returns."""

    eigenvalues: Any
    eigenvectors: Any


class SVDResult(NamedTuple):
    """What `svd` returns."""

    U: Any
    S: Any
    Vh: Any


def _resolution(values: Any) -> Any:
    """The distance below which rounding cannot tell values apart, for each row of them."""
    n = shape_of(values)[-1]
    if not n:
        return values
    return max_(absolute(values), axis=-1, keepdims=True) * rounding(values, n)


# Eigenvalues of symmetric matrices


def _eigh(a: Any, UPLO: str | None = None) -> EighResult:  # noqa: N803  # NumPy's name
    """Eigenvalues, ascending, and eigenvectors, as columns, of symmetric matrices (..., n, n).

    Args:
        a: by default the mean of a and its transpose is decomposed, so the gradient is symmetric.
        UPLO: `"L"` or `"U"` reads one triangle only, as in NumPy; the gradient falls on it.

    The sign of a vector, and the basis among equal eigenvalues, are arbitrary: use what does not
    depend on them. Where eigenvalues are equal to within rounding, derivatives through the
    vectors are NaN; through the eigenvalues alone they are finite.

    Raises:
        ArgumentError: `[bad-argument]` for another UPLO.
        ShapeError: `[not-square]`.

    Example:
        >>> import numpy as np
        >>> import anabranch as ab
        >>> ab.linalg.eigh(np.array([[2.0, 1.0], [1.0, 2.0]])).eigenvalues
        array([1., 3.])
    """
    if UPLO is not None:
        if UPLO not in ("L", "U"):
            raise ArgumentError("bad-argument", f'UPLO is "L", "U" or None, not {UPLO!r}')
        square_shape("linalg.eigh", aval_of(a))
        half = lower(a) if UPLO == "L" else upper(a)
        a = half + transposed(off_diagonal(half))
    return EighResult(*bind(eigh, a))


def _eigh_aval(x: Aval) -> tuple[Aval, Aval]:
    batch, n = square_shape("linalg.eigh", x)
    dtype = float_of(x)
    return aval((*batch, n), real_of(dtype)), aval(x.shape, dtype)


@finite_only
def _eigh_of(x: Any) -> tuple[Any, Any]:
    values, vectors = np.linalg.eigh(hermitian(x))
    return values, vectors


def _eigh_ref(x: Any) -> tuple[Any, Any]:
    square_shape("linalg.eigh", aval_of(x))
    return _eigh_of(x)


def _over(x: Any, distances: Any, values: Any, arrived: Arrival) -> Any:
    """x_ij over the distance of two values, and 0 on the diagonal."""
    vanishes = less_equal(absolute(distances), column(_resolution(values)))
    return off_diagonal(quotient(x, distances, vanishes, arrived))


def _over_gaps(x: Any, values: Any, arrived: Arrival) -> Any:
    return _over(x, row(values) - column(values), values, arrived)


def _pairs(arrived: Arrival) -> Arrival:
    """What arrived at the columns i or j, for each pair of them."""
    return Arrival(where(arrived.used, True, transposed(arrived.used)), arrived.total)


def _eigh_vjp(ct: Any, y: Any, x: Any) -> Any:
    (ct_values, ct_vectors), (values, v) = ct, y
    inner = _over_gaps(matmul(transposed(v), ct_vectors), values, _pairs(arrival(ct_vectors, -2)))
    return symmetric(matmul(v, matmul(on_diagonal(ct_values) + inner, transposed(v))))


def _eigh_jvp(t: Any, y: Any, x: Any) -> tuple[Any, Any]:
    values, v = y
    moved = matmul(transposed(v), matmul(symmetric(t), v))
    return diagonal(moved), matmul(v, _over_gaps(moved, values, arrival(t, (-2, -1))))


eigh: Op = Op(
    "linalg.eigh",
    aval=_eigh_aval,
    ref=in_floats(_eigh_ref),
    vjp=(_eigh_vjp,),
    jvp=(_eigh_jvp,),
    call=_eigh,
    samples=(
        # The eigenvalues have the derivative v vᵀ; that of the vectors' sum cancels here.
        sample(
            [[1.0, 0.0], [0.0, 3.0]],
            value=([1.0, 3.0], [[1.0, 0.0], [0.0, 1.0]]),
            grads=([[1.0, 0.0], [0.0, 1.0]],),
            kink=True,  # LAPACK's sign of the second vector changes here
        ),
        sample([[5.0]], value=([5.0], [[1.0]]), grads=([[1.0]],)),
        sample(dominant(3, 3)),
        sample(dominant(2, 4, 4)),
        sample(dominant(0, 0)),
    ),
)


# Singular values


def _svd(a: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """Singular values S, descending, and U, Vh with a = U @ diag(S) @ Vh, of matrices (..., m, n).

    Args:
        a: any matrices.
        full_matrices: whether U and Vh are square. Where a is not, the rows or columns beyond
            those that S has a value for are arbitrary, and so there is no derivative:
            `full_matrices=False` has one.
        compute_uv: False returns S alone.

    The signs of a pair of vectors, and the basis among equal values, are arbitrary: use what does
    not depend on them. Where values are equal, or 0, to within rounding, derivatives through the
    vectors are NaN; through S alone they are finite, and 0 for a value that is 0.

    The derivative is that of Townsend (2016), with differences and sums of values kept apart.

    Raises:
        ShapeError: `[not-a-matrix]`.

    Example:
        >>> import numpy as np
        >>> import anabranch as ab
        >>> ab.linalg.svd(np.array([[3.0, 0.0], [0.0, -2.0]])).S
        array([3., 2.])
    """
    _, m, n = matrix_shape("linalg.svd", aval_of(a))
    found = SVDResult(*bind(full_svd if full_matrices and compute_uv and m != n else svd, a))
    return found if compute_uv else found.S


def _svd_aval(x: Aval) -> tuple[Aval, Aval, Aval]:
    batch, m, n = matrix_shape("linalg.svd", x)
    dtype, k = float_of(x), min(m, n)
    return (
        aval((*batch, m, k), dtype),
        aval((*batch, k), real_of(dtype)),
        aval((*batch, k, n), dtype),
    )


def _full_svd_aval(x: Aval) -> tuple[Aval, Aval, Aval]:
    _, s, _ = _svd_aval(x)
    batch, m, n = matrix_shape("linalg.svd", x)
    dtype = float_of(x)
    return aval((*batch, m, m), dtype), s, aval((*batch, n, n), dtype)


@finite_only
def _svd_of(x: Any, *, full: bool) -> tuple[Any, Any, Any]:
    u, s, vh = np.linalg.svd(x, full_matrices=full)
    return u, s, vh


def _svd_ref(x: Any) -> tuple[Any, Any, Any]:
    matrix_shape("linalg.svd", aval_of(x))
    return _svd_of(x, full=False)


def _full_svd_ref(x: Any) -> tuple[Any, Any, Any]:
    matrix_shape("linalg.svd", aval_of(x))
    return _svd_of(x, full=True)


def _over_sums(x: Any, s: Any, arrived: Arrival) -> Any:
    return _over(x, row(s) + column(s), s, arrived)


def _over_values(x: Any, s: Any, arrived: Arrival) -> Any:
    """The columns of x over singular values."""
    return quotient(x, row(s), row(less_equal(s, _resolution(s))), arrived)


def _skew(x: Any) -> Any:
    return (x - transposed(x)) * 0.5


def _svd_vjp(ct: Any, y: Any, x: Any) -> Any:
    (ct_u, ct_s, ct_vh), (u, s, vh) = ct, y
    ct_v, v = transposed(ct_vh), transposed(vh)
    at_u, at_v = arrival(ct_u, -2), arrival(ct_v, -2)
    pairs = _pairs(joined(at_u, at_v))
    on_u, on_v = matmul(transposed(u), ct_u), matmul(vh, ct_v)
    inner = symmetric(_over_gaps(on_u + on_v, s, pairs)) + _skew(_over_sums(on_u - on_v, s, pairs))
    found = matmul(u, matmul(on_diagonal(ct_s) + inner, vh))
    if shape_of(u)[-2] > shape_of(s)[-1]:
        beyond = _over_values(ct_u - matmul(u, on_u), s, at_u)
        found = found + matmul(beyond, vh)
    if shape_of(vh)[-1] > shape_of(s)[-1]:
        beyond = _over_values(ct_v - matmul(v, on_v), s, at_v)
        found = found + matmul(u, transposed(beyond))
    return found


def _svd_jvp(t: Any, y: Any, x: Any) -> tuple[Any, Any, Any]:
    u, s, vh = y
    v, arrived = transposed(vh), arrival(t, (-2, -1))
    t_v, t_u = matmul(t, v), matmul(transposed(t), u)
    inner = matmul(transposed(u), t_v)
    apart = _over_gaps(symmetric(inner), s, arrived)
    together = _over_sums(_skew(inner), s, arrived)
    du, dv = matmul(u, apart + together), matmul(v, apart - together)
    if shape_of(u)[-2] > shape_of(s)[-1]:
        du = du + _over_values(t_v - matmul(u, inner), s, arrived)
    if shape_of(vh)[-1] > shape_of(s)[-1]:
        dv = dv + _over_values(t_u - matmul(v, transposed(inner)), s, arrived)
    return du, diagonal(inner), transposed(dv)


svd: Op = Op(
    "linalg.svd",
    aval=_svd_aval,
    ref=in_floats(_svd_ref),
    vjp=(_svd_vjp,),
    jvp=(_svd_jvp,),
    call=_svd,
    samples=(
        # A value has the derivative u vᵀ.
        sample([[2.0]], value=([[1.0]], [2.0], [[1.0]]), grads=([[1.0]],)),
        sample(
            [[3.0, 0.0], [0.0, 2.0]],
            value=([[1.0, 0.0], [0.0, 1.0]], [3.0, 2.0], [[1.0, 0.0], [0.0, 1.0]]),
            grads=([[1.0, 0.0], [0.0, 1.0]],),
            kink=True,  # as for eigh
        ),
        sample(dominant(3, 3)),
        sample(dominant(4, 2)),
        sample(dominant(2, 2, 3)),
        sample(dominant(1, 3)),
        sample(dominant(0, 2)),
    ),
)

full_svd: Op = Op(
    "linalg.full_svd",
    aval=_full_svd_aval,
    ref=in_floats(_full_svd_ref),
    vjp=UNSUPPORTED(
        "the vectors beyond the singular values are arbitrary;"
        " svd(x, full_matrices=False) leaves them out"
    ),
    arity=1,
    samples=(
        sample([[2.0], [0.0]], value=([[1.0, 0.0], [0.0, 1.0]], [2.0], [[1.0]])),
        sample(normal(3, 2)),
        sample(normal(2, 2, 3)),
        sample(normal(0, 2)),
    ),
    doc="Singular values between square matrices: `svd` with `full_matrices`, without derivative.",
)
