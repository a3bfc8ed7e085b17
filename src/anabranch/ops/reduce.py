"""Reductions over axes: `axes` is always a tuple of ascending axes counted from 0."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core.aval import Aval, aval_of
from anabranch.core.bind import bind
from anabranch.core.dtype import extremes, is_half
from anabranch.core.op import Op
from anabranch.core.registry import functions
from anabranch.core.sample import normal, sample
from anabranch.core.values import as_array, as_dtype, settled
from anabranch.errors import ArgumentError, ShapeError
from anabranch.ops.layout import broadcast_to, pad, reshaped
from anabranch.ops.rules import Axis, axes_tuple, kept, over_axes, reduced, shape_of
from anabranch.ops.select import equal, isnan, where


def spread(value: Any, x: Any, axes: tuple[int, ...]) -> Any:
    """A reduced value in the shape of what was reduced."""
    return broadcast_to(reshaped(value, kept(shape_of(x), axes)), shape_of(x))


def counting_dtype(dtype: Any) -> Any:
    """What sums and products of this dtype come in: small integers grow to the machine's own."""
    if dtype.kind in "biu":
        return np.result_type(dtype, np.uint64 if dtype.kind == "u" else np.int64)
    return dtype


def folded_aval(x: Aval, *, axes: tuple[int, ...], keepdims: bool) -> Aval:
    """Shape and dtype of a sum or product over axes."""
    return x.with_shape(reduced(x.shape, axes, keepdims)).with_dtype(counting_dtype(x.dtype))


def folding(ufunc: Any) -> Any:
    """The reference that folds axes by a NumPy reduction, halves in float32."""

    def ref(x: Any, *, axes: tuple[int, ...], keepdims: bool) -> Any:
        wide = np.float32 if is_half(x.dtype) else None
        total = ufunc(x, axis=axes, keepdims=keepdims, dtype=wide)
        return total if wide is None else settled(np.asarray(total).astype(x.dtype))

    return ref


def prepared(x: Any, dtype: Any, mask: Any, other: Any) -> Any:
    """What is reduced: x in a dtype, if one is given, and `other` where a mask does not hold."""
    if dtype is not None:
        x = functions()["astype"](x, as_dtype(dtype))
    if mask is None or mask is True:
        return x
    mask = as_array(mask) if isinstance(mask, bool | list) else mask
    return where(broadcast_to(mask, shape_of(x)), x, other)


def _sum(
    x: Any,
    axis: Axis = None,
    keepdims: bool = False,
    *,
    dtype: Any = None,
    initial: Any = None,
    where: Any = None,
) -> Any:
    x = prepared(x, dtype, where, 0)
    total = bind(sum_, x, axes=axes_tuple(axis, len(shape_of(x))), keepdims=bool(keepdims))
    return total if initial is None else functions()["add"](total, initial)


sum_: Op = Op(
    "sum",
    aval=folded_aval,
    ref=folding(np.sum),
    vjp=(lambda ct, y, x, *, axes, keepdims: spread(ct, x, axes),),
    linear=(0,),
    notation=over_axes("sum"),
    call=_sum,
    samples=(
        sample(
            [[1.0, 2.0], [3.0, 4.0]],
            value=[3.0, 7.0],
            grads=([[1, 1], [1, 1]],),
            axes=(1,),
            keepdims=False,
        ),
        sample(normal(2, 3, 4), axes=(0, 2), keepdims=False),
        sample(normal(2, 3, 4), axes=(1,), keepdims=True),
        sample(normal(3), axes=(), keepdims=False),
        sample(normal(), axes=(), keepdims=False),
        sample(normal(1, 1), axes=(0, 1), keepdims=False),
        sample(normal(0, 3), axes=(0,), keepdims=True),
    ),
    lower="sum",
    doc="Sum over axes: all of them by default, one or several by `axis`. `dtype` converts first,"
    " `where` skips elements, `initial` is added.",
)


def require_elements(name: str, x: Aval, axes: tuple[int, ...]) -> None:
    """Raise ShapeError `[empty-reduction]` when there is nothing to choose from."""
    if any(x.shape[axis] == 0 for axis in axes):
        raise ShapeError("empty-reduction", f"{name} of {x} over an axis of length 0 has no value")


def extremum_aval(name: str) -> Any:
    """The aval rule of `max` and its kin: x's dtype, and no axis of length 0."""

    def rule(x: Aval, *, axes: tuple[int, ...], keepdims: bool) -> Aval:
        shape = reduced(x.shape, axes, keepdims)
        require_elements(name, x, axes)
        return x.with_shape(shape)

    return rule


def extremum(
    op: Op, combine: str, x: Any, axis: Axis, keepdims: bool, initial: Any, mask: Any
) -> Any:
    """`max` or `min` with NumPy's options; `combine` is the op for two values.

    Raises:
        ArgumentError: `[missing-initial]` for a mask without `initial`.
        ShapeError: `[empty-reduction]` over an axis of length 0, without `initial`.
    """
    if mask is not None and mask is not True and initial is None:
        raise ArgumentError(
            "missing-initial",
            f"{op.name} of what a mask leaves has no value where it leaves nothing",
            hint=f"ab.{op.name}(x, where=mask, initial=0.0) says which value that is",
        )
    shape = shape_of(x)
    axes = axes_tuple(axis, len(shape))
    worst = _last_choice(op.name, aval_of(x).dtype)
    x = prepared(x, None, mask, worst)
    if initial is not None and 0 in (shape[one] for one in axes):
        missing = [(0, int(one in axes and n == 0)) for one, n in enumerate(shape)]
        fill = worst.item() if isinstance(worst, np.generic) else worst
        x = pad(x, missing, constant_values=fill)
    found = bind(op, x, axes=axes, keepdims=bool(keepdims))
    return found if initial is None else functions()[combine](found, initial)


def _last_choice(name: str, dtype: Any) -> Any:
    """What loses against every other value of a dtype."""
    value = extremes(dtype)[name == "min"]
    return dtype.type(value) if dtype.kind in "iu" else value


def _shares(y: Any, x: Any, axes: tuple[int, ...]) -> tuple[Any, Any]:
    """Where the extremum is taken (NaN counts as taken where it wins), and how often."""
    top = spread(y, x, axes)
    taken = where(isnan(top), isnan(x), equal(x, top))
    return taken, sum_(taken, axis=axes, keepdims=True)


def shared_vjp(ct: Any, y: Any, x: Any, *, axes: tuple[int, ...], keepdims: bool) -> Any:
    """The cotangent of an extremum, in equal shares to the elements that tie for it."""
    taken, count = _shares(y, x, axes)
    share = reshaped(ct, kept(shape_of(x), axes)) / count  # in float64: counts may be large
    return where(taken, share, 0.0)


def shared_jvp(t: Any, y: Any, x: Any, *, axes: tuple[int, ...], keepdims: bool) -> Any:
    """The tangent of an extremum: the mean of those of the elements that tie for it."""
    taken, count = _shares(y, x, axes)
    total = sum_(where(taken, t, 0.0), axis=axes, keepdims=True) / count
    return reshaped(total, shape_of(y))


max_: Op = Op(
    "max",
    aval=extremum_aval("max"),
    ref=lambda x, *, axes, keepdims: np.max(x, axis=axes, keepdims=keepdims),
    vjp=(shared_vjp,),
    jvp=(shared_jvp,),
    notation=over_axes("max"),
    call=lambda x, axis=None, keepdims=False, *, initial=None, where=None: extremum(
        max_, "maximum", x, axis, keepdims, initial, where
    ),
    samples=(
        sample([1.0, 3.0, 2.0], value=3.0, grads=([0, 1, 0],), axes=(0,), keepdims=False),
        sample([2.0, 2.0], value=2.0, grads=([0.5, 0.5],), kink=True, axes=(0,), keepdims=False),
        sample(
            [1.0, 2.0, 2.0, 2.0],
            value=2.0,
            grads=([0, 1 / 3, 1 / 3, 1 / 3],),
            kink=True,
            axes=(0,),
            keepdims=False,
        ),
        sample(
            [1.0, float("nan"), 3.0],
            value=float("nan"),
            grads=([0, 1, 0],),
            kink=True,
            axes=(0,),
            keepdims=False,
        ),
        sample(normal(2, 3, 4), axes=(0, 2), keepdims=False),
        sample(normal(2, 3, 4), axes=(1,), keepdims=True),
        sample(normal(), axes=(), keepdims=False),
        sample(normal(1, 3), axes=(0,), keepdims=False),
        sample(normal(2, 0), axes=(0,), keepdims=False),
    ),
    lower="max",
    doc="Largest element over axes; NaN wins, and equal largest elements share the cotangent."
    " `initial` takes part like `maximum(max(x), initial)`, and `where` needs it.",
)
