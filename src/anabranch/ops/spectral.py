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
from anabranch.errors import ArgumentError, DTypeError
from anabranch.ops.elementwise import absolute
from anabranch.ops.linalg import matmul
from anabranch.ops.matrices import (
    Arrival,
    arrival,
    both,
    column,
    diagonal,
    either,
    finite_only,
    float_of,
    hermitian,
    in_floats,
    joined,
    lower,
    matrix_shape,
    off_diagonal,
    quotient,
    real_of,
    rounding,
    row,
    square_shape,
    symmetric,
    transposed,
    upper,
)
from anabranch.ops.norms import vector_norm
from anabranch.ops.reduce import max_
from anabranch.ops.rules import LAPACK, shape_of
from anabranch.ops.select import equal, greater, less_equal, not_equal


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
        DTypeError: `[no-conjugate]` for a triangle of complex values.
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
        if aval_of(a).dtype.kind == "c":
            raise DTypeError("no-conjugate", "eigh of one triangle takes its conjugate")
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


# Rules. Vectors turn into each other by quotients over the distances of their values. Where these
# are within rounding, a numerator within rounding makes the quotient unknown: it is NaN, or 0 where
# nothing uses the vectors.


class Columns(NamedTuple):
    """Cotangents of vectors: what arrived at each, and how far off products with it may be."""

    arrived: Arrival
    noise: Any


def _columns(*cts: Any) -> Columns | None:
    """What arrived at columns of the same numbers; None for none at all."""
    found = [
        Columns(arrival(ct, -2), vector_norm(ct, -2, keepdims=True) * rounding(ct, _ROUNDED))
        for ct in cts
        if ct is not None
    ]
    if len(found) < 2:
        return found[0] if found else None
    one, other = found
    return Columns(joined(one.arrived, other.arrived), one.noise + other.noise)


_ROUNDED = 64  # in units of rounding: a numerator below this has not two digits that can be trusted


def _across(x: Any, distances: Any, values: Any, columns: Columns, doubt: Any) -> Any:
    """x_ij, which came by columns i and j, over the distance of two values; 0 for i = j."""
    noise = columns.noise + transposed(columns.noise)
    vanishes = both(
        less_equal(absolute(distances), column(_resolution(values))),
        less_equal(absolute(x), noise),
    )
    used, total = columns.arrived
    pairs = Arrival(either(either(used, transposed(used)), doubt), total)
    return off_diagonal(quotient(x, distances, vanishes, pairs))


def _doubt(values: Any, ct_values: Any) -> Any:
    """Pairs of equal values that may hide a use of their vectors.

    In V f(Λ) Vᵀ with f(λ) = 0 the cotangents of V are 0 as if V were not used. Equal values that
    get unequal cotangents tell, and so do values of 0 that get any.
    """
    if ct_values is None:
        return False
    equals = equal(row(values), column(values))
    size = absolute(ct_values)
    largest = max_(size, axis=-1, keepdims=True) if shape_of(size)[-1] else size
    apart = absolute(row(ct_values) - column(ct_values))
    unequal = greater(apart, column(largest) * rounding(values, 1) ** 0.5)
    return both(equals, either(unequal, row(_hidden(values, ct_values))))


def _hidden(values: Any, ct_values: Any) -> Any:
    return both(equal(values, 0), not_equal(ct_values, 0))


def _weighed(vectors: Any, ct_values: Any, inner: Any) -> Any:
    """The vectors times their values' cotangents, and times what turns them into each other."""
    if ct_values is None:
        return matmul(vectors, inner)
    scaled = vectors * row(ct_values)
    return scaled if inner is None else scaled + matmul(vectors, inner)


def _skew(x: Any) -> Any:
    return (x - transposed(x)) * 0.5


def _turn(x: Any, distances: Any, values: Any, arrived: Arrival) -> Any:
    """A tangent's x_ij over the distance of two values; 0 for i = j."""
    vanishes = less_equal(absolute(distances), column(_resolution(values)))
    return off_diagonal(quotient(x, distances, vanishes, arrived))


def _eigh_vjp(ct: Any, y: Any, x: Any) -> Any:
    (ct_values, ct_vectors), (values, v) = ct, y
    columns, inner = _columns(ct_vectors), None
    if columns is not None:
        numerators = _skew(matmul(transposed(v), ct_vectors))
        gaps = row(values) - column(values)
        inner = _across(numerators, gaps, values, columns, _doubt(values, ct_values))
    return symmetric(matmul(_weighed(v, ct_values, inner), transposed(v)))


def _eigh_jvp(t: Any, y: Any, x: Any) -> tuple[Any, Any]:
    values, v = y
    moved = matmul(transposed(v), matmul(symmetric(t), v))
    gaps = row(values) - column(values)
    return diagonal(moved), matmul(v, _turn(moved, gaps, values, arrival(t, (-2, -1))))


eigh: Op = Op(
    "linalg.eigh",
    aval=_eigh_aval,
    ref=in_floats(_eigh_ref),
    vjp=(_eigh_vjp,),
    absent=True,
    jvp=(_eigh_jvp,),
    call=_eigh,
    lower=LAPACK,
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
        sample(dominant(1, 1)),
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
    vectors are NaN; through S alone they are finite. For a value of 0 that one has an arbitrary
    sign: a size has no slope there, but what is smooth in its square has the right one.

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


def _over_values(x: Any, s: Any, arrived: Arrival, noise: Any = None, doubt: Any = False) -> Any:
    """The columns of x over singular values."""
    vanishes = row(less_equal(s, _resolution(s)))
    if noise is not None:
        vanishes = both(vanishes, less_equal(vector_norm(x, -2, keepdims=True), noise))
    return quotient(x, row(s), vanishes, Arrival(either(arrived.used, doubt), arrived.total))


def _beyond(ct: Any, on: Any, vectors: Any, s: Any, ct_s: Any) -> Any:
    """What a cotangent of vectors asks for outside the space of all of them."""
    columns = _columns(ct)
    assert columns is not None
    doubt = False if ct_s is None else row(_hidden(s, ct_s))
    return _over_values(ct - matmul(vectors, on), s, *columns, doubt)


def _svd_vjp(ct: Any, y: Any, x: Any) -> Any:
    (ct_u, ct_s, ct_vh), (u, s, vh) = ct, y
    ct_v = None if ct_vh is None else transposed(ct_vh)
    columns, inner = _columns(ct_u, ct_v), None
    if columns is not None:
        on_u = 0.0 if ct_u is None else matmul(transposed(u), ct_u)
        on_v = 0.0 if ct_v is None else matmul(vh, ct_v)
        doubt = _doubt(s, ct_s)
        gaps, sums = row(s) - column(s), row(s) + column(s)
        inner = _across(_skew(on_u + on_v), gaps, s, columns, doubt)
        inner = inner + _across(_skew(on_u - on_v), sums, s, columns, doubt)
    found = matmul(_weighed(u, ct_s, inner), vh)
    if ct_u is not None and shape_of(u)[-2] > shape_of(s)[-1]:
        found = found + matmul(_beyond(ct_u, on_u, u, s, ct_s), vh)
    if ct_v is not None and shape_of(vh)[-1] > shape_of(s)[-1]:
        found = found + matmul(u, transposed(_beyond(ct_v, on_v, transposed(vh), s, ct_s)))
    return found


def _svd_jvp(t: Any, y: Any, x: Any) -> tuple[Any, Any, Any]:
    u, s, vh = y
    v, arrived = transposed(vh), arrival(t, (-2, -1))
    t_v, t_u = matmul(t, v), matmul(transposed(t), u)
    inner = matmul(transposed(u), t_v)
    apart = _turn(symmetric(inner), row(s) - column(s), s, arrived)
    together = _turn(_skew(inner), row(s) + column(s), s, arrived)
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
    absent=True,
    jvp=(_svd_jvp,),
    call=_svd,
    lower=LAPACK,
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
        sample(dominant(1, 1)),
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
    lower=LAPACK,
    samples=(
        sample([[2.0], [0.0]], value=([[1.0, 0.0], [0.0, 1.0]], [2.0], [[1.0]])),
        sample(normal(3, 2)),
        sample(normal(2, 2, 3)),
        sample(normal(1, 1)),
        sample(normal(0, 2)),
    ),
    doc="Singular values between square matrices: `svd` with `full_matrices`, without derivative.",
)
