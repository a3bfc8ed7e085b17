"""The product of elements. Its derivative is that of the others, made without a division."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.core.bind import bind
from anabranch.core.dtype import is_half
from anabranch.core.op import Op
from anabranch.core.sample import normal, sample
from anabranch.ops.elementwise import astype, multiply
from anabranch.ops.layout import broadcast_to, permute, reshape
from anabranch.ops.recurrence import after, before
from anabranch.ops.reduce import folded_aval, folding, prepared, spread, sum_
from anabranch.ops.rules import Axis, axes_tuple, shape_of
from anabranch.ops.scans import cumprod
from anabranch.ops.select import absorb

inf, nan = math.inf, math.nan


def as_lines(x: Any, axes: tuple[int, ...]) -> Any:
    """x with these axes as one, which is last."""
    shape = shape_of(x)
    rest = [axis for axis in range(len(shape)) if axis not in axes]
    length = math.prod(shape[axis] for axis in axes)
    moved = x if axes == tuple(range(len(rest), len(shape))) else permute(x, (*rest, *axes))
    return reshape(moved, (*(shape[axis] for axis in rest), length))


def from_lines(lines: Any, axes: tuple[int, ...], like: Any) -> Any:
    """What `as_lines` took apart, put together again in the shape of `like`."""
    shape = shape_of(like)
    order = [*(axis for axis in range(len(shape)) if axis not in axes), *axes]
    moved = reshape(lines, tuple(shape[axis] for axis in order))
    return permute(moved, sorted(range(len(order)), key=order.__getitem__))


def _others(x: Any, axes: tuple[int, ...]) -> Any:
    """For each element the product of all others over the axes: those before times those after."""
    wide = astype(x, np.float32) if is_half(x.dtype) else x
    if not axes:
        return broadcast_to(wide.dtype.type(1), shape_of(x))
    if len(axes) > 1:
        return from_lines(
            _others(lines := as_lines(wide, axes), (len(shape_of(lines)) - 1,)), axes, x
        )
    (axis,) = axes
    ahead = before(cumprod(wide, axis), axis, False, 1)
    return ahead * after(cumprod(wide, axis, reverse=True), axis, False, 1)


def _vjp(ct: Any, y: Any, x: Any, *, axes: tuple[int, ...], keepdims: bool) -> Any:
    return absorb(spread(ct, x, axes), _others(x, axes))


def _jvp(t: Any, y: Any, x: Any, *, axes: tuple[int, ...], keepdims: bool) -> Any:
    return bind(sum_, absorb(t, _others(x, axes)), axes=axes, keepdims=keepdims)


def _prod(
    x: Any,
    axis: Axis = None,
    keepdims: bool = False,
    *,
    dtype: Any = None,
    initial: Any = None,
    where: Any = None,
) -> Any:
    x = prepared(x, dtype, where, 1)
    total = bind(prod, x, axes=axes_tuple(axis, len(shape_of(x))), keepdims=bool(keepdims))
    return total if initial is None else multiply(total, initial)


def _golden(x: Any, value: Any, grad: Any, kink: bool = False) -> Any:
    return sample(x, value=value, grads=(grad,), kink=kink, axes=(0,), keepdims=False)


prod: Op = Op(
    "prod",
    aval=folded_aval,
    ref=folding(np.prod),
    vjp=(_vjp,),
    jvp=(_jvp,),
    call=_prod,
    samples=(
        _golden([2.0, 3.0, 4.0], 24.0, [12, 8, 6]),
        _golden([2.0, 0.0, 3.0, 4.0], 0.0, [0, 24, 0, 0]),
        _golden([2.0, 0.0, 0.0], 0.0, [0, 0, 0]),
        _golden([0.0, -0.0], -0.0, [-0.0, 0.0]),
        _golden([2.0, inf], inf, [inf, 2], kink=True),
        _golden([0.0, nan], nan, [nan, 0], kink=True),
        sample(normal(2, 3, 4), axes=(0, 2), keepdims=False),
        sample(normal(2, 3, 4), axes=(1,), keepdims=True),
        sample(normal(2, 3), axes=(0, 1), keepdims=True),
        sample(normal(3), axes=(), keepdims=False),
        sample(normal(), axes=(), keepdims=False),
        sample(normal(1), axes=(0,), keepdims=False),
        sample(normal(0, 3), axes=(0,), keepdims=True),
        sample(normal(0, 3), axes=(0, 1), keepdims=False),
    ),
    lower="prod",
    doc="Product over axes: all of them by default, one or several by `axis`. Its derivative is"
    " right at zeros. `dtype` converts first, `where` skips elements, `initial` is multiplied in.",
)
