"""Linear algebra that is made of its ops: norms of matrices, powers, values without vectors."""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import numpy as np

from anabranch.composed.naming import composed
from anabranch.core.aval import aval_of
from anabranch.errors import ArgumentError, ShapeError
from anabranch.ops.elementwise import absolute, astype
from anabranch.ops.layout import broadcast_to, permute, reshaped
from anabranch.ops.linalg import matmul
from anabranch.ops.matrices import float_of, matrix_shape, rounding, square_shape
from anabranch.ops.norms import vector_norm
from anabranch.ops.reduce import max_, sum_
from anabranch.ops.rules import Axis, axis_index, kept, reduced, shape_of
from anabranch.ops.select import equal, greater, where
from anabranch.ops.spectral import eigh, svd
from anabranch.ops.systems import inv

inf = math.inf
linalg = functools.partial(composed, namespace="linalg")


@linalg
def norm(x: Any, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Any:
    """The norm of vectors or of matrices, as `numpy.linalg.norm` has it.

    Args:
        x: an array; integers count as float64.
        ord: None is the Euclidean length of all elements. For vectors, along one axis: a number p,
            inf, -inf, 0; see `vector_norm`. For matrices, along two axes: `"fro"`, `"nuc"`, 1, -1,
            2, -2, inf, -inf; see `matrix_norm`.
        axis: one axis or a pair; None takes x as a vector or matrix if `ord` is given.
        keepdims: whether these axes stay, with length 1.

    The derivative at 0 is 0 in every order.

    Raises:
        ArgumentError: `[bad-argument]` for an order that such a norm does not have.
        ShapeError: `[bad-axis-count]` for more axes than two.
        OutOfRangeError: `[axis-out-of-range]`.

    Example:
        >>> import numpy as np
        >>> import anabranch as ab
        >>> x = np.array([3.0, 4.0])
        >>> float(ab.linalg.norm(x)), float(ab.linalg.norm(x, 1)), float(ab.linalg.norm(x, np.inf))
        (5.0, 7.0, 4.0)
        >>> ab.grad(ab.linalg.norm)(np.zeros(2))
        array([0., 0.])
    """
    ndim = len(shape_of(x))
    if axis is None and ord is None:
        return vector_norm(x, None, keepdims)
    if axis is None:
        axes = tuple(range(ndim))
    else:
        axes = tuple(axis_index(a, ndim) for a in (axis if isinstance(axis, tuple) else (axis,)))
    if len(axes) == 1:
        return vector_norm(x, axes, keepdims, 2 if ord is None else ord)
    if len(axes) == 2:
        return _matrix_norm(x, "fro" if ord is None else ord, axes, keepdims)
    raise ShapeError(
        "bad-axis-count", f"a norm is along one axis or two, not {len(axes)}", hint="axis=-1"
    )


@linalg
def matrix_norm(x: Any, keepdims: bool = False, ord: Any = "fro") -> Any:
    """The norm of matrices in the last two axes.

    Args:
        x: matrices (..., m, n); integers count as float64.
        keepdims: whether these axes stay, with length 1.
        ord: `"fro"`, the Euclidean length of all elements; `"nuc"`, the sum of the singular
            values; 2 and -2, the largest and the smallest of them; 1 and -1, the largest and the
            smallest column sum of sizes; inf and -inf, of row sums.

    Where the largest or smallest is taken twice, the takers share the slope.

    Raises:
        ArgumentError: `[bad-argument]` for another order.
        ShapeError: `[not-a-matrix]`.

    Example:
        >>> import numpy as np
        >>> import anabranch as ab
        >>> x = np.array([[3.0, 0.0], [0.0, -4.0]])
        >>> [float(ab.linalg.matrix_norm(x, ord=o)) for o in ("fro", "nuc", 2, -2, 1)]
        [5.0, 7.0, 4.0, 3.0, 4.0]
    """
    matrix_shape("linalg.matrix_norm", aval_of(x))
    ndim = len(shape_of(x))
    return _matrix_norm(x, ord, (ndim - 2, ndim - 1), keepdims)


def _smallest(x: Any, axes: Any, keepdims: bool) -> Any:
    return -max_(-x, axes, keepdims)


_SUMS: dict[Any, Any] = {1: (max_, 0), -1: (_smallest, 0), inf: (max_, 1), -inf: (_smallest, 1)}
_SINGULAR: dict[Any, Any] = {"nuc": sum_, 2: max_, -2: _smallest}


def _matrix_norm(x: Any, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    if axes[0] == axes[1]:
        raise ShapeError("repeated-axis", f"axis {axes} names the same axis twice")
    if ord == "fro":
        return vector_norm(x, axes, keepdims)
    if ord in _SUMS:
        choose, along = _SUMS[ord]
        sums = sum_(absolute(_floats(x)), axes[along], keepdims=True)
        return choose(sums, axes, keepdims)
    if ord in _SINGULAR:
        shape = shape_of(x)
        others = [a for a in range(len(shape)) if a not in axes]
        values = svd(permute(x, (*others, *axes)), compute_uv=False)
        values = where(equal(values, 0), 0.0, values)  # a size has the slope 0 at 0
        found = _SINGULAR[ord](values, -1, False)
        return reshaped(found, kept(shape, axes) if keepdims else reduced(shape, axes, False))
    raise ArgumentError(
        "bad-argument", f"no norm of matrices has the order {ord!r}", hint='ord="fro"'
    )


def _floats(x: Any) -> Any:
    return astype(x, float_of(aval_of(x)))


@linalg
def matrix_power(x: Any, n: int) -> Any:
    """Square matrices (..., m, m) times themselves, n times; n below 0 takes the inverse.

    Raises:
        DomainError: `[singular-matrix]`, for n below 0.
        ShapeError: `[not-square]`.

    Example:
        >>> import numpy as np
        >>> import anabranch as ab
        >>> ab.linalg.matrix_power(np.array([[1, 1], [0, 1]]), 5)
        array([[1, 5],
               [0, 1]])
    """
    square_shape("linalg.matrix_power", aval_of(x))
    times = operator.index(n)
    if times == 0:
        return broadcast_to(np.eye(shape_of(x)[-1], dtype=x.dtype), shape_of(x))
    base, times = (x, times) if times > 0 else (inv(x), -times)
    result = None
    while times:
        if times % 2:
            result = base if result is None else matmul(result, base)
        times //= 2
        base = matmul(base, base) if times else base
    return result


@linalg
def eigvalsh(a: Any, UPLO: str | None = None) -> Any:  # noqa: N803  # NumPy's name
    """The eigenvalues of symmetric matrices, ascending; the arguments are those of `eigh`.

    Example:
        >>> import numpy as np
        >>> import anabranch as ab
        >>> ab.linalg.eigvalsh(np.array([[2.0, 1.0], [1.0, 2.0]]))
        array([1., 3.])
    """
    return eigh(a, UPLO).eigenvalues


@linalg
def svdvals(x: Any) -> Any:
    """The singular values of matrices, descending.

    Example:
        >>> import numpy as np
        >>> import anabranch as ab
        >>> ab.linalg.svdvals(np.array([[3.0, 0.0], [0.0, -4.0]]))
        array([4., 3.])
    """
    return svd(x, compute_uv=False)


@linalg
def matrix_rank(x: Any, rtol: float | None = None) -> Any:
    """How many singular values exceed `rtol` times the largest; an integer, without derivative.

    Args:
        x: matrices (..., m, n).
        rtol: by default the larger of m and n times the spacing of floats at 1.

    Example:
        >>> import numpy as np
        >>> import anabranch as ab
        >>> int(ab.linalg.matrix_rank(np.array([[1.0, 2.0], [2.0, 4.0]])))
        1
    """
    _, m, n = matrix_shape("linalg.matrix_rank", aval_of(x))
    values = svdvals(x)
    if not min(m, n):
        return sum_(greater(values, 0), axis=-1)
    share = rounding(values, max(m, n)) if rtol is None else rtol
    largest = max_(values, axis=-1, keepdims=True)
    return sum_(greater(values, largest * share), axis=-1)
