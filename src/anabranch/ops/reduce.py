"""Reductions over axes: `axes` is always a tuple of ascending axes counted from 0."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core.aval import Aval
from anabranch.core.bind import bind
from anabranch.core.dtype import is_half
from anabranch.core.op import Op
from anabranch.core.sample import normal, sample
from anabranch.core.values import settled
from anabranch.errors import ShapeError
from anabranch.ops.layout import broadcast_to, reshaped
from anabranch.ops.rules import axes_tuple, kept, reduced, shape_of
from anabranch.ops.select import equal, isnan, where


def _spread(value: Any, x: Any, axes: tuple[int, ...]) -> Any:
    """A reduced value in the shape of what was reduced."""
    return broadcast_to(reshaped(value, kept(shape_of(x), axes)), shape_of(x))


def _notation(name: str) -> Any:
    """`sum(x, axis=1)`."""

    def written(x: str, *, axes: tuple[int, ...], keepdims: bool) -> str:
        axis = axes[0] if len(axes) == 1 else axes
        return f"{name}({x}, axis={axis}{', keepdims=True' if keepdims else ''})"

    return written


def _sum_aval(x: Aval, *, axes: tuple[int, ...], keepdims: bool) -> Aval:
    dtype = x.dtype
    if dtype.kind in "biu":  # NumPy counts small integers in the machine's own
        dtype = np.result_type(dtype, np.uint64 if dtype.kind == "u" else np.int64)
    return x.with_shape(reduced(x.shape, axes, keepdims)).with_dtype(dtype)


def _sum_ref(x: Any, *, axes: tuple[int, ...], keepdims: bool) -> Any:
    wide = np.float32 if is_half(x.dtype) else None
    total = np.sum(x, axis=axes, keepdims=keepdims, dtype=wide)
    return total if wide is None else settled(np.asarray(total).astype(x.dtype))


sum_: Op = Op(
    "sum",
    aval=_sum_aval,
    ref=_sum_ref,
    vjp=(lambda ct, y, x, *, axes, keepdims: _spread(ct, x, axes),),
    linear=(0,),
    notation=_notation("sum"),
    call=lambda x, axis=None, keepdims=False: bind(
        sum_, x, axes=axes_tuple(axis, len(shape_of(x))), keepdims=bool(keepdims)
    ),
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
    doc="Sum over axes: all of them by default, one or several by `axis`.",
)


def _max_aval(x: Aval, *, axes: tuple[int, ...], keepdims: bool) -> Aval:
    shape = reduced(x.shape, axes, keepdims)
    if any(x.shape[axis] == 0 for axis in axes):
        raise ShapeError("empty-reduction", f"max of {x} over an axis of length 0 has no value")
    return x.with_shape(shape)


def _max_shares(y: Any, x: Any, axes: tuple[int, ...]) -> tuple[Any, Any]:
    """Where the maximum is taken (NaN counts as taken where it wins), and how often."""
    top = _spread(y, x, axes)
    taken = where(isnan(top), isnan(x), equal(x, top))
    return taken, sum_(taken, axis=axes, keepdims=True)


def _max_vjp(ct: Any, y: Any, x: Any, *, axes: tuple[int, ...], keepdims: bool) -> Any:
    taken, count = _max_shares(y, x, axes)
    share = reshaped(ct, kept(shape_of(x), axes)) / count  # in float64: counts may be large
    return where(taken, share, 0.0)


def _max_jvp(t: Any, y: Any, x: Any, *, axes: tuple[int, ...], keepdims: bool) -> Any:
    taken, count = _max_shares(y, x, axes)
    total = sum_(where(taken, t, 0.0), axis=axes, keepdims=True) / count
    return reshaped(total, shape_of(y))


max_: Op = Op(
    "max",
    aval=_max_aval,
    ref=lambda x, *, axes, keepdims: np.max(x, axis=axes, keepdims=keepdims),
    vjp=(_max_vjp,),
    jvp=(_max_jvp,),
    notation=_notation("max"),
    call=lambda x, axis=None, keepdims=False: bind(
        max_, x, axes=axes_tuple(axis, len(shape_of(x))), keepdims=bool(keepdims)
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
    doc="Largest element over axes; NaN wins, and equal largest elements share the cotangent.",
)
