"""Determinants, and their derivatives at every matrix, singular ones too.

The determinant is a polynomial in the entries, so each of its derivatives is one: the first is the
matrix of cofactors, the second is made of minors that lack two rows and two columns. With
A = U S Vᵀ both are products of singular values with one or two left out, and no division occurs.
From the third on, derivatives are those of smaller determinants, by expansion along a row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from anabranch.core.aval import Aval, aval, aval_of
from anabranch.core.bind import bind
from anabranch.core.op import Op
from anabranch.core.sample import dominant, normal, sample
from anabranch.errors import ShapeError
from anabranch.ops.layout import broadcast_to, reshaped
from anabranch.ops.linalg import matmul
from anabranch.ops.matrices import (
    column,
    finite_only,
    float_of,
    in_floats,
    real_of,
    square_shape,
    transposed,
)
from anabranch.ops.reduce import sum_
from anabranch.ops.rules import LAPACK, shape_of
from anabranch.ops.select import absorb, equal, where
from anabranch.ops.systems import inv


class SlogdetResult(NamedTuple):
    """What `slogdet` returns."""

    sign: Any
    logabsdet: Any


def _over_matrix(ct: Any) -> Any:
    """The cotangent of one number for each matrix, beside the entries of that matrix."""
    return column(column(ct))


def _det_aval(x: Aval) -> Aval:
    batch, _ = square_shape("linalg.det", x)
    return aval(batch, float_of(x))


def _det_ref(x: Any) -> Any:
    square_shape("linalg.det", aval_of(x))
    return np.linalg.det(x)


det: Op = Op(
    "linalg.det",
    aval=_det_aval,
    ref=in_floats(_det_ref),
    vjp=(lambda ct, y, x: absorb(_over_matrix(ct), cofactors(x)),),
    jvp=(lambda t, y, x: sum_(absorb(t, cofactors(x)), axis=(-2, -1)),),
    lower=LAPACK,
    samples=(
        sample([[2.0, 1.0], [1.0, 3.0]], value=5.0, grads=([[3.0, -1.0], [-1.0, 2.0]],)),
        sample([[1.0, 2.0], [2.0, 4.0]], value=0.0, grads=([[4.0, -2.0], [-2.0, 1.0]],)),
        sample(np.zeros((2, 2)), value=0.0, grads=(np.zeros((2, 2)),)),
        sample([[0.0]], value=0.0, grads=([[1.0]],)),
        sample(normal(3, 3)),
        sample(normal(2, 4, 4)),
        sample(normal(2, 1, 1)),
        sample(normal(1, 1)),
        sample(normal(3, 0, 0)),
    ),
    doc="""The determinant of square matrices (..., n, n); that of a 0 x 0 matrix is 1.

    Its derivative is the matrix of cofactors, finite at singular matrices too, and so is the
    second. A third derivative costs about n² times as much as a second.

    Raises:
        ShapeError: `[not-square]`.

    Example:
        >>> import numpy as np
        >>> import anabranch as ab
        >>> ab.grad(ab.linalg.det)(np.array([[1.0, 2.0], [2.0, 4.0]])).round(12)
        array([[ 4., -2.],
               [-2.,  1.]])
    """,
)


# Cofactors


def _without_one(s: Any) -> Any:
    """For each place of the last axis, the product of all others, without dividing."""
    one = np.ones_like(s[..., :1])
    before = np.cumprod(np.concatenate([one, s[..., :-1]], axis=-1), axis=-1)
    behind = np.cumprod(np.concatenate([one, s[..., :0:-1]], axis=-1), axis=-1)
    product: Any = before * behind[..., ::-1]
    return product


def _without_two(s: Any) -> Any:
    """For each pair of places of the last axis, the product of all others; 0 on the diagonal."""
    n = s.shape[-1]
    places = np.arange(n)
    rows = np.repeat(s[..., None, :], n, axis=-2)
    rows[..., places, places] = 1
    products = _without_one(rows)
    products[..., places, places] = 0
    return products


def _turned(x: Any) -> tuple[Any, Any, Any, Any]:
    """U, S and Vᵀ, and the determinant of U Vᵀ, which is 1 or -1 (or of size 1, if complex)."""
    u, s, vh = np.linalg.svd(x)
    return u, s, vh, (np.linalg.det(u) * np.linalg.det(vh))[..., None, None]


def _cofactors_aval(x: Aval) -> Aval:
    square_shape("linalg.cofactors", x)
    return aval(x.shape, float_of(x))


@finite_only
def _cofactors_of(x: Any) -> Any:
    u, s, vh, sign = _turned(x)
    found: Any = sign * ((u.conj() * _without_one(s)[..., None, :]) @ vh.conj())
    return found


def _cofactors_ref(x: Any) -> Any:
    square_shape("linalg.cofactors", aval_of(x))
    return _cofactors_of(x)


cofactors: Op = Op(
    "linalg.cofactors",
    aval=_cofactors_aval,
    ref=in_floats(_cofactors_ref),
    vjp=(lambda ct, y, x: cofactors_along(x, ct),),
    jvp=(lambda t, y, x: cofactors_along(x, t),),
    lower=LAPACK,
    samples=(
        sample(
            [[1.0, 2.0], [3.0, 4.0]],
            value=[[4.0, -3.0], [-2.0, 1.0]],
            grads=([[1.0, -1.0], [-1.0, 1.0]],),
        ),
        sample(
            [[1.0, 2.0], [2.0, 4.0]],
            value=[[4.0, -2.0], [-2.0, 1.0]],
            grads=([[1.0, -1.0], [-1.0, 1.0]],),
        ),
        sample([[0.0]], value=[[1.0]], grads=([[0.0]],)),
        sample(normal(3, 3)),
        sample(normal(2, 4, 4)),
        sample(normal(1, 1)),
        sample(normal(0, 0)),
    ),
    doc="""The derivative of the determinant by each entry: the transpose of the adjugate.

    Raises:
        ShapeError: `[not-square]`.
    """,
)


def _along_aval(x: Aval, t: Aval) -> Aval:
    square_shape("linalg.cofactors_along", x)
    if x.shape != t.shape:
        raise ShapeError("shape-mismatch", f"the direction {t} needs the shape of {x}")
    return aval(x.shape, float_of(x, t))


def _along_ref(x: Any, t: Any) -> Any:
    _along_aval(aval_of(x), aval_of(t))
    spoiled = ~np.isfinite(x).all(axis=(-2, -1), keepdims=True)
    u, s, vh, sign = _turned(np.where(spoiled, np.eye(x.shape[-1], dtype=x.dtype), x))
    pairs = _without_two(s)
    inner = u.conj().swapaxes(-1, -2) @ t @ vh.conj().swapaxes(-1, -2)
    places = np.arange(x.shape[-1])
    turned = -pairs * inner.swapaxes(-1, -2)
    turned[..., places, places] = (pairs @ inner[..., places, places][..., None])[..., 0]
    return np.where(spoiled, np.nan, sign * (u.conj() @ turned @ vh.conj())).astype(x.dtype)


def _minors(x: Any) -> Any:
    """For each entry the matrix without its row and column, as (..., n, n, n - 1, n - 1)."""
    shape = shape_of(x)
    n = shape[-1]
    spread = reshaped(x, (*shape[:-2], 1, 1, n, n))
    left = _leaving_one_out(n, x.dtype).reshape(n, 1, n - 1, n).copy()
    return matmul(matmul(left, spread), _leaving_one_out(n, x.dtype).swapaxes(-1, -2).copy())


def _from_minors(y: Any) -> Any:
    """The adjoint of `_minors`."""
    n = shape_of(y)[-3]
    left = _leaving_one_out(n, y.dtype).swapaxes(-1, -2).reshape(n, 1, n, n - 1).copy()
    return sum_(matmul(matmul(left, y), _leaving_one_out(n, y.dtype)), axis=(-4, -3))


def _leaving_one_out(n: int, dtype: Any) -> Any:
    """For each row, the matrix that leaves it out of what stands to the right."""
    return np.stack([np.delete(np.eye(n, dtype=dtype), i, axis=0) for i in range(n)])


def _third(x: Any, t: Any, other: Any) -> Any:
    """The gradient of the determinant's second derivative in the directions t and other."""
    n = shape_of(x)[-1]
    if n == 0:
        return x
    signs = np.where(np.add.outer(np.arange(n), np.arange(n)) % 2, -1.0, 1.0).astype(x.dtype)
    inner = cofactors_along(_minors(x), _minors(other))
    return _from_minors(_over_matrix(t * signs) * inner)


cofactors_along: Op = Op(
    "linalg.cofactors_along",
    aval=_along_aval,
    ref=in_floats(_along_ref),
    vjp=(
        lambda ct, y, x, t: _third(x, t, ct),
        lambda ct, y, x, t: cofactors_along(x, ct),
    ),
    linear=(1,),
    jvp=(lambda s, y, x, t: _third(x, t, s), None),
    lower=LAPACK,
    samples=(
        # of order 2 it does not depend on x: [[d, -c], [-b, a]] of t
        sample(
            [[1.0, 2.0], [2.0, 4.0]],
            [[5.0, 6.0], [7.0, 8.0]],
            value=[[8.0, -7.0], [-6.0, 5.0]],
            grads=([[0.0, 0.0], [0.0, 0.0]], [[1.0, -1.0], [-1.0, 1.0]]),
        ),
        sample([[3.0]], [[2.0]], value=[[0.0]], grads=([[0.0]], [[0.0]])),
        sample(normal(3, 3), normal(3, 3)),
        sample(normal(2, 4, 4), normal(2, 4, 4)),
        sample(normal(1, 1), normal(1, 1)),
        sample(normal(0, 0), normal(0, 0)),
    ),
    doc="""The derivative of `linalg.cofactors` at x in the direction t, of the same shape.

    Raises:
        ShapeError: `[not-square]`.
    """,
)


# Logarithm of the determinant


def _slogdet(a: Any) -> SlogdetResult:
    """Sign and logarithm of the size of the determinant, of square matrices (..., n, n).

    Where the determinant is 0 they are 0 and -inf, and the derivative is NaN: the logarithm has
    no slope there. Of a 0 x 0 matrix they are 1 and 0.

    Raises:
        ShapeError: `[not-square]`.

    Example:
        >>> import numpy as np
        >>> import anabranch as ab
        >>> sign, logabsdet = ab.linalg.slogdet(np.array([[0.0, 1.0], [1.0, 0.0]]))
        >>> float(sign), float(logabsdet)
        (-1.0, 0.0)
    """
    return SlogdetResult(*bind(slogdet, a))


def _slogdet_aval(x: Aval) -> tuple[Aval, Aval]:
    batch, _ = square_shape("linalg.slogdet", x)
    dtype = float_of(x)
    return aval(batch, dtype), aval(batch, real_of(dtype))


def _slogdet_ref(x: Any) -> tuple[Any, Any]:
    square_shape("linalg.slogdet", aval_of(x))
    sign, logabsdet = np.linalg.slogdet(x)
    return np.where(np.isnan(logabsdet), logabsdet, sign), logabsdet


def _slope(y: Any, x: Any) -> Any:
    """The derivative of the logarithm by each entry: the transposed inverse."""
    singular = _over_matrix(equal(y[0], 0))
    safe = where(singular, np.eye(shape_of(x)[-1], dtype=x.dtype), x)
    return where(singular, x * float("nan"), transposed(inv(safe)))  # NaN in every order


def _slogdet_jvp(t: Any, y: Any, x: Any) -> tuple[Any, Any]:
    none = broadcast_to(x.dtype.type(0), shape_of(y[0]))
    return none, sum_(absorb(t, _slope(y, x)), axis=(-2, -1))


slogdet: Op = Op(
    "linalg.slogdet",
    aval=_slogdet_aval,
    ref=in_floats(_slogdet_ref),
    vjp=(lambda ct, y, x: absorb(_over_matrix(ct[1]), _slope(y, x)),),
    jvp=(_slogdet_jvp,),
    call=_slogdet,
    lower=LAPACK,
    samples=(
        sample([[2.0, 1.0], [0.0, 0.5]], value=(1.0, 0.0), grads=([[0.5, 0.0], [-1.0, 2.0]],)),
        sample([[-1.0]], value=(-1.0, 0.0), grads=([[-1.0]],)),
        sample(
            [[1.0, 2.0], [2.0, 4.0]],
            value=(0.0, float("-inf")),
            grads=(np.full((2, 2), np.nan),),
            kink=True,
        ),
        sample(dominant(3, 3)),
        sample(dominant(2, 2, 2)),
        sample(dominant(1, 1)),
        sample(dominant(3, 0, 0)),
    ),
)
