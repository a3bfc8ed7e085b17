"""Triangular systems, and the triangular factor of a symmetric matrix.

What a matrix means that is not symmetric is written in `docs/conventions.md`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core.aval import Aval, aval, aval_of
from anabranch.core.bind import bind
from anabranch.core.op import Op
from anabranch.core.sample import dominant, normal, sample
from anabranch.errors import DomainError
from anabranch.ops.layout import reshaped, sum_to
from anabranch.ops.linalg import matmul
from anabranch.ops.matrices import (
    diagonal,
    finite_only,
    first_index,
    float_of,
    hermitian,
    in_floats,
    lower,
    on_diagonal,
    square_shape,
    symmetric,
    transposed,
    upper,
)
from anabranch.ops.rules import LAPACK, shape_of
from anabranch.ops.systems import columns_of, singular, system_aval, to_right_side


def _solve_triangular(a: Any, b: Any, *, lower: bool = False, unit_diagonal: bool = False) -> Any:
    """The solution of a @ x = b for triangular a, by substitution; batches broadcast.

    The other triangle is not read, nor the diagonal if `unit_diagonal` says that it is 1; their
    derivative is 0.

    Args:
        a: square matrices, (..., n, n).
        b: one vector (n,), or matrices (..., n, k).
        lower: whether a is lower triangular instead of upper.
        unit_diagonal: whether the diagonal counts as 1.

    Raises:
        DomainError: `[singular-matrix]`, when the diagonal holds a 0.
        ShapeError: `[not-square]`, `[shape-mismatch]`.

    Example:
        >>> import numpy as np
        >>> import anabranch as ab
        >>> a = np.array([[2.0, 9.0], [1.0, 4.0]])
        >>> ab.linalg.solve_triangular(a, np.array([2.0, 9.0]), lower=True)
        array([1., 2.])
    """
    return bind(solve_triangular, a, b, lower=bool(lower), unit_diagonal=bool(unit_diagonal))


def _substituted(a: Any, b: Any, *, lower: bool, unit_diagonal: bool) -> Any:
    y = system_aval("linalg.solve_triangular", aval_of(a), aval_of(b))
    n = a.shape[-1]
    if not unit_diagonal and n and (a.diagonal(axis1=-2, axis2=-1) == 0).any():
        zeros = (a.diagonal(axis1=-2, axis2=-1) == 0).any(axis=-1)
        raise singular("linalg.solve_triangular", zeros)
    b = b[:, None] if b.ndim == 1 else b
    x = np.array(
        np.broadcast_to(b, (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]))
    )
    for i in range(n) if lower else reversed(range(n)):
        known = slice(i) if lower else slice(i + 1, n)
        x[..., i, :] -= np.matmul(a[..., i : i + 1, known], x[..., known, :])[..., 0, :]
        if not unit_diagonal:
            x[..., i, :] /= a[..., i, i, None]
    return x.reshape(y.shape)


def _triangle(x: Any, is_lower: bool, unit_diagonal: bool) -> Any:
    """The part of a matrix that a triangular system reads."""
    return lower(x, -unit_diagonal) if is_lower else upper(x, unit_diagonal)


def _triangular_common(ct: Any, y: Any, a: Any, b: Any, *, lower: bool, unit_diagonal: bool) -> Any:
    return _solve_triangular(
        transposed(a), columns_of(ct, b), lower=not lower, unit_diagonal=unit_diagonal
    )


def _triangular_vjp_a(
    ct: Any, y: Any, a: Any, b: Any, *, common: Any, lower: bool, unit_diagonal: bool
) -> Any:
    full = -matmul(common, transposed(columns_of(y, b)))
    return _triangle(sum_to(full, shape_of(a)), lower, unit_diagonal)


def _triangular_jvp_a(t: Any, y: Any, a: Any, b: Any, *, lower: bool, unit_diagonal: bool) -> Any:
    moved = matmul(_triangle(t, lower, unit_diagonal), columns_of(y, b))
    solved = _solve_triangular(a, moved, lower=lower, unit_diagonal=unit_diagonal)
    return reshaped(-solved, shape_of(y))


solve_triangular: Op = Op(
    "linalg.solve_triangular",
    aval=lambda a, b, **_: system_aval("linalg.solve_triangular", a, b),
    ref=in_floats(_substituted),
    common=_triangular_common,
    vjp=(
        _triangular_vjp_a,
        lambda ct, y, a, b, *, common, lower, unit_diagonal: to_right_side(common, b),
    ),
    linear=(1,),
    jvp=(_triangular_jvp_a, None),
    call=_solve_triangular,
    lower=LAPACK,
    samples=(
        # 2 x = 2, 1 x + 4 y = 9; the 7 is not read
        sample(
            [[2.0, 7.0], [1.0, 4.0]],
            [2.0, 9.0],
            value=[1.0, 2.0],
            grads=([[-0.375, 0.0], [-0.25, -0.5]], [0.375, 0.25]),
            lower=True,
            unit_diagonal=False,
        ),
        sample(
            [[5.0, 3.0], [7.0, 5.0]],
            [5.0, 1.0],
            value=[2.0, 1.0],
            grads=([[0.0, -1.0], [0.0, 0.0]], [1.0, -2.0]),
            lower=False,
            unit_diagonal=True,
        ),
        sample(dominant(3, 3), dominant(3, 3), lower=False, unit_diagonal=False),
        sample(dominant(3, 3), normal(3), lower=True, unit_diagonal=False),
        sample(normal(4, 3, 3), normal(3, 2), lower=True, unit_diagonal=True),
        sample(normal(3, 3), normal(4, 3, 1), lower=False, unit_diagonal=True),
        sample(dominant(4, 2, 2), normal(2), lower=False, unit_diagonal=False),
        sample(dominant(1, 1), normal(1), lower=True, unit_diagonal=False),
        sample(dominant(0, 0), normal(0), lower=True, unit_diagonal=False),
    ),
)


# Cholesky


def _cholesky(a: Any, *, upper: bool = False) -> Any:
    """The lower triangular L with L Lᵀ = a and a positive diagonal, of symmetric matrices.

    Both triangles of a are read: it is the mean of a and its transpose that is factored, so the
    gradient is symmetric. For an a that is symmetric that is `numpy.linalg.cholesky`, which reads
    one triangle.

    Args:
        a: positive definite matrices, (..., n, n).
        upper: return the transpose of L.

    Raises:
        DomainError: `[not-positive-definite]`.
        ShapeError: `[not-square]`.

    The derivative is that of S. P. Smith (1995) in the form of I. Murray (2016).

    Example:
        >>> import numpy as np
        >>> import anabranch as ab
        >>> ab.linalg.cholesky(np.array([[4.0, 2.0], [2.0, 5.0]]))
        array([[2., 0.],
               [1., 2.]])
    """
    found = bind(cholesky, a)
    return transposed(found) if upper else found


def _cholesky_aval(x: Aval) -> Aval:
    square_shape("linalg.cholesky", x)
    return aval(x.shape, float_of(x))


@finite_only
def _cholesky_of(x: Any) -> Any:
    x = hermitian(x)
    try:
        return np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        bad = np.linalg.eigvalsh(x).min(axis=-1) <= 0
        which = first_index(bad) if np.any(bad) else "the matrix"
        raise DomainError(
            "not-positive-definite",
            f"linalg.cholesky: {which} is not positive definite",
            hint="x + 1e-6 * np.eye(n) is, if x has no negative eigenvalue",
        ) from None


def _cholesky_ref(x: Any) -> Any:
    square_shape("linalg.cholesky", aval_of(x))
    return _cholesky_of(x)


def _half_lower(x: Any) -> Any:
    """The lower triangle with half of the diagonal."""
    return lower(x, -1) + on_diagonal(diagonal(x) * 0.5)


def _between_inverses(y: Any, x: Any, is_outer_transposed: bool) -> Any:
    """L⁻¹ X L⁻ᵀ, or L⁻ᵀ X L⁻¹, for the lower triangular L in y."""
    left = transposed(y) if is_outer_transposed else y
    once = _solve_triangular(left, x, lower=not is_outer_transposed)
    return transposed(_solve_triangular(left, transposed(once), lower=not is_outer_transposed))


cholesky: Op = Op(
    "linalg.cholesky",
    aval=_cholesky_aval,
    ref=in_floats(_cholesky_ref),
    vjp=(
        lambda ct, y, x: symmetric(
            _between_inverses(y, _half_lower(matmul(transposed(y), ct)), True)
        ),
    ),
    jvp=(lambda t, y, x: matmul(y, _half_lower(_between_inverses(y, symmetric(t), False))),),
    call=_cholesky,
    lower=LAPACK,
    samples=(
        sample([[4.0]], value=[[2.0]], grads=([[0.25]],)),
        sample(
            # both triangles are read: 1 and 3 stand for 2 and 2
            [[4.0, 1.0], [3.0, 5.0]],
            value=[[2.0, 0.0], [1.0, 2.0]],
            grads=([[0.1875, 0.125], [0.125, 0.25]],),
        ),
        sample(dominant(3, 3)),
        sample(dominant(2, 2, 2)),
        sample(dominant(0, 0)),
        sample(dominant(1, 1)),
    ),
)
