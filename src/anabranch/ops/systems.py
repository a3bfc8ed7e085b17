"""Linear systems: their solution, the inverse, the pseudo-inverse.

What a singular matrix means is written in `docs/conventions.md`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core.aval import Aval, aval, aval_of
from anabranch.core.bind import bind
from anabranch.core.op import Op
from anabranch.core.sample import dominant, normal, sample
from anabranch.errors import DomainError, ShapeError
from anabranch.ops.layout import reshaped, sum_to
from anabranch.ops.linalg import matmul
from anabranch.ops.matrices import (
    batch_of,
    column,
    finite_only,
    first_index,
    float_of,
    in_floats,
    matrix_shape,
    rounding,
    square_shape,
    transposed,
)
from anabranch.ops.rules import LAPACK, shape_of


def singular(name: str, bad: Any) -> DomainError:
    return DomainError(
        "singular-matrix",
        f"{name}: {first_index(bad)} is singular",
        hint="ab.linalg.pinv(x) has a value for every matrix",
    )


# Systems: a @ y = b, where b is one vector or a stack of matrices, as in NumPy 2


def system_aval(name: str, a: Aval, b: Aval) -> Aval:
    _, n = square_shape(name, a)
    if not b.ndim:
        raise ShapeError("shape-mismatch", f"{name} needs a right side with an axis, got {b}")
    if b.shape[-2:][0] != n:
        raise ShapeError(
            "shape-mismatch",
            f"{name} needs a right side of {n} rows, got {b} for a matrix of {a}",
        )
    dtype = float_of(a, b)
    if b.ndim == 1:
        return aval(a.shape[:-1], dtype)
    return aval((*batch_of(a, b), *b.shape[-2:]), dtype)


def columns_of(value: Any, b: Any) -> Any:
    """A solution, or its cotangent, as matrices, which it is not where b is a vector."""
    return column(value) if len(shape_of(b)) == 1 else value


def to_right_side(columns: Any, b: Any) -> Any:
    shape = shape_of(b)
    return reshaped(sum_to(columns, shape if len(shape) > 1 else (*shape, 1)), shape)


def _solve_ref(a: Any, b: Any) -> Any:
    system_aval("linalg.solve", aval_of(a), aval_of(b))
    try:
        return np.linalg.solve(a, b)
    except np.linalg.LinAlgError:
        raise singular("linalg.solve", np.linalg.slogdet(a)[0] == 0) from None


def _solve_jvp(t: Any, y: Any, a: Any, b: Any) -> Any:
    return reshaped(-solve(a, matmul(t, columns_of(y, b))), shape_of(y))


solve: Op = Op(
    "linalg.solve",
    aval=lambda a, b: system_aval("linalg.solve", a, b),
    ref=in_floats(_solve_ref),
    # a y = b:  db = a⁻ᵀ ct,  da = -db yᵀ
    common=lambda ct, y, a, b: solve(transposed(a), columns_of(ct, b)),
    vjp=(
        lambda ct, y, a, b, common: sum_to(
            -matmul(common, transposed(columns_of(y, b))), shape_of(a)
        ),
        lambda ct, y, a, b, common: to_right_side(common, b),
    ),
    linear=(1,),
    jvp=(_solve_jvp, None),
    lower=LAPACK,
    samples=(
        # 2 y = 6;  dy/da = -y/a, dy/db = 1/a
        sample([[2.0]], [6.0], value=[3.0], grads=([[-1.5]], [0.5])),
        sample(
            [[2.0, 0.0], [0.0, 4.0]],
            [[2.0], [8.0]],
            value=[[1.0], [2.0]],
            grads=([[-0.5, -1.0], [-0.25, -0.5]], [[0.5], [0.25]]),
        ),
        sample(dominant(3, 3), dominant(3, 3)),
        sample(dominant(3, 3), normal(3)),
        sample(dominant(4, 2, 2), normal(2)),
        sample(dominant(4, 2, 2), normal(2, 3)),
        sample(dominant(2, 2), normal(4, 2, 1)),
        sample(dominant(4, 1, 2, 2), normal(3, 2, 1)),
        sample(dominant(1, 1), normal(1)),
        sample(dominant(0, 0), normal(0)),
        sample(dominant(2, 2), normal(2, 0)),
    ),
    doc="""The solution of a @ x = b by LU factors with pivoting; batches broadcast.

    Args:
        a: square matrices, (..., n, n).
        b: one vector (n,), or matrices (..., n, k).

    Raises:
        DomainError: `[singular-matrix]`, when a pivot is exactly 0.
        ShapeError: `[not-square]`, `[shape-mismatch]`.

    Example:
        >>> import numpy as np
        >>> import anabranch as ab
        >>> ab.linalg.solve(np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([2.0, 8.0]))
        array([1., 2.])
    """,
)


def _inv_ref(x: Any) -> Any:
    square_shape("linalg.inv", aval_of(x))
    try:
        return np.linalg.inv(x)
    except np.linalg.LinAlgError:
        raise singular("linalg.inv", np.linalg.slogdet(x)[0] == 0) from None


def _inv_aval(x: Aval) -> Aval:
    square_shape("linalg.inv", x)
    return aval(x.shape, float_of(x))


inv: Op = Op(
    "linalg.inv",
    aval=_inv_aval,
    ref=in_floats(_inv_ref),
    vjp=(lambda ct, y, x: -matmul(transposed(y), matmul(ct, transposed(y))),),
    jvp=(lambda t, y, x: -matmul(y, matmul(t, y)),),
    lower=LAPACK,
    samples=(
        sample([[2.0]], value=[[0.5]], grads=([[-0.25]],)),
        sample(
            [[1.0, 1.0], [0.0, 2.0]],
            value=[[1.0, -0.5], [0.0, 0.5]],
            grads=([[-0.5, -0.5], [0.0, 0.0]],),
        ),
        sample(dominant(3, 3)),
        sample(dominant(4, 2, 2)),
        sample(dominant(1, 1)),
        sample(dominant(0, 0)),
    ),
    doc="""The inverse of square matrices (..., n, n); `solve` is nearer to the truth for a system.

    Raises:
        DomainError: `[singular-matrix]`, when a pivot is exactly 0.
        ShapeError: `[not-square]`.

    Example:
        >>> import numpy as np
        >>> import anabranch as ab
        >>> ab.linalg.inv(np.array([[2.0, 0.0], [0.0, 4.0]]))
        array([[0.5 , 0.  ],
               [0.  , 0.25]])
    """,
)


# Pseudo-inverse


def _pinv(x: Any, rtol: float | None = None) -> Any:
    """The pseudo-inverse (Moore, Penrose) of matrices (..., m, n), by singular values.

    Args:
        x: any matrices.
        rtol: singular values up to this times the largest count as 0; by default the larger of m
            and n times the spacing of floats at 1, as the array API standard has it.

    The derivative is that of Golub and Pereyra (1973). It is along matrices of the same rank: where
    the rank is less than m and n, the value jumps in other directions and has none.

    Example:
        >>> import numpy as np
        >>> import anabranch as ab
        >>> ab.linalg.pinv(np.array([[2.0, 0.0], [0.0, 0.0]]))
        array([[0.5, 0. ],
               [0. , 0. ]])
    """
    _, m, n = matrix_shape("linalg.pinv", aval_of(x))
    if rtol is None:
        rtol = rounding(np.empty(0, float_of(aval_of(x))), max(m, n))
    return bind(pinv, x, rtol=float(rtol))


def _pinv_aval(x: Aval, *, rtol: float) -> Aval:
    batch, m, n = matrix_shape("linalg.pinv", x)
    return aval((*batch, n, m), float_of(x))


def _pinv_ref(x: Any, *, rtol: float) -> Any:
    y = _pinv_aval(aval_of(x), rtol=rtol)
    return finite_only(np.linalg.pinv)(x, rtol=rtol) if y.size else np.zeros(y.shape, y.dtype)


def _rest(product: Any) -> Any:
    """The projection on what a product of a matrix and its pseudo-inverse leaves over."""
    n = shape_of(product)[-1]
    return np.eye(n, dtype=product.dtype) - product


def _pinv_vjp(ct: Any, y: Any, x: Any, *, rtol: float) -> Any:
    return transposed(_pinv_jvp(transposed(ct), y, x, rtol=rtol))


def _pinv_jvp(t: Any, y: Any, x: Any, *, rtol: float) -> Any:
    # With P = x⁺:  dP = -P t P + P Pᵀ tᵀ (1 - x P) + (1 - P x) tᵀ Pᵀ P
    p, pt, tt = y, transposed(y), transposed(t)
    inner = -matmul(p, matmul(t, p))
    left = matmul(matmul(p, pt), matmul(tt, _rest(matmul(x, p))))
    right = matmul(matmul(_rest(matmul(p, x)), tt), matmul(pt, p))
    return inner + left + right


pinv: Op = Op(
    "linalg.pinv",
    aval=_pinv_aval,
    ref=in_floats(_pinv_ref),
    vjp=(_pinv_vjp,),
    jvp=(_pinv_jvp,),
    call=_pinv,
    lower=LAPACK,
    samples=(
        sample([[2.0]], value=[[0.5]], grads=([[-0.25]],), rtol=1e-15),
        # (1, 1)ᵀ has (1/2, 1/2); its derivative is sum(x)/|x|² = 1, by each entry 1/2 - 2·1/4...
        sample([[1.0], [1.0]], value=[[0.5, 0.5]], grads=([[-0.5], [-0.5]],), rtol=1e-15),
        sample(
            [[2.0, 0.0], [0.0, 0.0]],
            value=[[0.5, 0.0], [0.0, 0.0]],
            grads=([[-0.25, 0.25], [0.25, 0.0]],),
            kink=True,
            rtol=1e-15,
        ),
        sample(dominant(3, 3), rtol=1e-15),
        sample(dominant(4, 2), rtol=1e-15),
        sample(dominant(2, 2, 3), rtol=1e-15),
        sample(dominant(1, 1), rtol=1e-15),
        sample(dominant(0, 2), rtol=1e-15),
    ),
)
