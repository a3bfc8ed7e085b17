"""Products of matrices and vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core.aval import Aval, aval
from anabranch.core.dtype import promote
from anabranch.core.op import Op, broadcast_shapes
from anabranch.core.sample import normal, sample
from anabranch.errors import ShapeError
from anabranch.ops.layout import permute, reshaped, sum_to
from anabranch.ops.rules import shape_of


def _matmul_aval(x: Aval, y: Aval) -> Aval:
    if not x.shape or not y.shape:
        raise ShapeError(
            "shape-mismatch", f"matmul needs at least one axis, got {x} and {y}", hint="x * y"
        )
    inner = y.shape[-2] if y.ndim > 1 else y.shape[0]
    if x.shape[-1] != inner:
        where = "first" if y.ndim < 3 else "second to last"
        raise ShapeError(
            "shape-mismatch",
            f"matmul needs {{x}}'s last axis to equal {{y}}'s {where},"
            f" got {x.shape[-1]} and {inner}",
            hint=_transposed_hint(x, y),
        )
    batch = broadcast_shapes(*(v.with_shape(v.shape[:-2]) for v in (x, y)))
    rows = x.shape[-2:-1]
    columns = y.shape[-1:] if y.ndim > 1 else ()
    return aval((*batch, *rows, *columns), promote([(x.dtype, False), (y.dtype, False)])[0])


def _transposed_hint(x: Aval, y: Aval) -> str | None:
    if x.ndim == y.ndim == 2 and x.shape[1] == y.shape[1]:
        return f"{{x}} @ {{y}}.T gives {x.with_shape((x.shape[0], y.shape[0]))}"
    if x.ndim == y.ndim == 2 and x.shape[0] == y.shape[0]:
        return f"{{x}}.T @ {{y}} gives {x.with_shape((x.shape[1], y.shape[1]))}"
    return None


def _swapped(x: Any) -> Any:
    axes = list(range(len(shape_of(x))))
    axes[-2:] = axes[:-3:-1]
    return permute(x, axes)


def _as_matrices(ct: Any, a: Any, b: Any) -> tuple[Any, Any, Any]:
    """The three with vectors written as matrices: a row on the left, a column on the right."""
    row, column = len(shape_of(a)) == 1, len(shape_of(b)) == 1
    batch = shape_of(ct)[: len(shape_of(ct)) - (not row) - (not column)]
    full_a = reshaped(a, (1, *shape_of(a))) if row else a
    full_b = reshaped(b, (*shape_of(b), 1)) if column else b
    full_ct = reshaped(ct, (*batch, shape_of(full_a)[-2], shape_of(full_b)[-1]))
    return full_ct, full_a, full_b


def _matmul_vjp_x(ct: Any, y: Any, a: Any, b: Any) -> Any:
    # Y[m,n] = A[m,k] B[k,n]:  dA[m,k] = dY[m,n] B'[n,k]
    full_ct, full_a, full_b = _as_matrices(ct, a, b)
    return reshaped(sum_to(matmul(full_ct, _swapped(full_b)), shape_of(full_a)), shape_of(a))


def _matmul_vjp_y(ct: Any, y: Any, a: Any, b: Any) -> Any:
    # Y[m,n] = A[m,k] B[k,n]:  dB[k,n] = A'[k,m] dY[m,n]
    full_ct, full_a, full_b = _as_matrices(ct, a, b)
    return reshaped(sum_to(matmul(_swapped(full_a), full_ct), shape_of(full_b)), shape_of(b))


def _matmul_ref(x: Any, y: Any) -> Any:
    product = np.matmul(x, y)
    if x.dtype == y.dtype != product.dtype:  # bfloat16, which NumPy sums in float32
        return product.astype(x.dtype)
    return product


matmul: Op = Op(
    "matmul",
    aval=_matmul_aval,
    ref=_matmul_ref,
    vjp=(_matmul_vjp_x, _matmul_vjp_y),
    linear=(0, 1),
    lower="product",
    samples=(
        # [[1, 2], [3, 4]] [[5], [6]] = [[17], [39]]; dA repeats B', dB sums A's columns
        sample(
            [[1.0, 2.0], [3.0, 4.0]],
            [[5.0], [6.0]],
            value=[[17.0], [39.0]],
            grads=([[5, 6], [5, 6]], [[4], [6]]),
        ),
        sample(normal(2, 3), normal(3, 4)),  # m=2, k=3, n=4
        sample(normal(1, 3), normal(3, 1)),
        sample(normal(3, 1), normal(1, 2)),
        sample(normal(1, 1), normal(1, 1)),
        sample(normal(3), normal(3)),
        sample(normal(3), normal(3, 2)),
        sample(normal(2, 3), normal(3)),
        sample(normal(5, 2, 3), normal(5, 3, 4)),
        sample(normal(5, 1, 2, 3), normal(4, 3, 2)),
        sample(normal(4, 2, 3), normal(3)),
        sample(normal(3), normal(4, 3, 2)),
        sample(normal(0, 3), normal(3, 2)),
        sample(normal(2, 0), normal(0, 3)),
    ),
    doc="Matrix product over the last two axes, batches broadcast; vectors as in NumPy's `@`.",
)
