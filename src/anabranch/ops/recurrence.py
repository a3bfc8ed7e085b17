"""The linear recurrence y[k] = a[k] y[k-1] + b[k], and steps along an axis.

It is what running products and sums of exponentials have as derivative. Its own derivative is a
recurrence too, which runs the other way, so all orders come without a division.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.core.aval import Aval, aval, aval_of
from anabranch.core.bind import bind
from anabranch.core.dtype import is_half, promote
from anabranch.core.op import Kernel, Op, broadcast_shapes
from anabranch.core.registry import functions
from anabranch.core.sample import Sample, booleans, normal, sample
from anabranch.errors import DTypeError, ShapeError
from anabranch.ops.layout import broadcast_to, pad
from anabranch.ops.rules import axis_index, shape_of
from anabranch.ops.select import absorb, absorb_either

inf, nan = math.inf, math.nan


def _cut(v: Any, axis: int, reverse: bool) -> Any:
    """v without its first place along the axis; with `reverse` without its last."""
    n = shape_of(v)[axis]
    kept = slice(0, n - 1) if reverse else slice(1, n)
    return functions()["slice"](v, (*(slice(None),) * axis, kept))


def _led(v: Any, axis: int, reverse: bool, fill: Any) -> Any:
    """v with one more place in front along the axis; with `reverse` behind."""
    widths = [(0, 0)] * len(shape_of(v))
    widths[axis] = (0, 1) if reverse else (1, 0)
    return pad(v, widths, constant_values=fill)


def before(v: Any, axis: int, reverse: bool, fill: Any) -> Any:
    """At each place what stands one place before, in the direction of a scan; `fill` at first."""
    return v if 0 in shape_of(v) else _led(_cut(v, axis, not reverse), axis, reverse, fill)


def after(v: Any, axis: int, reverse: bool, fill: Any) -> Any:
    """At each place what stands one place after, in the direction of a scan; `fill` at last."""
    return before(v, axis, not reverse, fill)


def recurrence(a: Any, b: Any, axis: int, reverse: bool) -> Any:
    """The recurrence as derivatives need it: what is exactly 0 stays 0, whatever meets it."""
    return bind(linear_recurrence, a, b, axis=axis, reverse=reverse, absorbs=True)


def _aval(a: Aval, b: Aval, *, axis: int, reverse: bool, absorbs: bool) -> Aval:
    if a.shape != b.shape:
        raise ShapeError("shape-mismatch", f"a has shape {a.shape}, b has {b.shape}")
    axis_index(axis, b.ndim)
    if b.dtype.kind == "b":
        raise DTypeError(
            "bool-arithmetic", "bool values have no such arithmetic", hint="b.astype(int)"
        )
    if a.dtype.kind == "b":
        return b
    return aval(b.shape, promote([(a.dtype, False), (b.dtype, False)])[0])


def _ref(a: Any, b: Any, *, axis: int, reverse: bool, absorbs: bool) -> Any:
    known = _aval(aval_of(a), aval_of(b), axis=axis, reverse=reverse, absorbs=absorbs)
    wide = np.dtype(np.float32) if is_half(known.dtype) else known.dtype
    coefficients = a if a.dtype.kind == "b" else a.astype(wide, copy=False)
    steps = np.moveaxis(coefficients, axis, 0), np.moveaxis(b.astype(wide, copy=False), axis, 0)
    if reverse:
        steps = steps[0][::-1], steps[1][::-1]
    with np.errstate(invalid="ignore" if absorbs else None):
        y = _run(*steps, _dropped if a.dtype.kind == "b" else np.multiply)
    # Only 0 times inf or NaN can differ from the plain product, and that NaN runs to the end.
    if absorbs and y.size and np.isnan(y[-1]).any():
        y = _run(*steps, _dropped if a.dtype.kind == "b" else absorb.ref)
    y = y[::-1] if reverse else y
    return np.array(np.moveaxis(y, 0, axis), known.dtype, order="C")


def _dropped(y: Any, keep: Any) -> Any:
    return np.where(keep, y, 0)


def _run(a: Any, b: Any, times: Any) -> Any:
    y = np.empty(b.shape, b.dtype)
    for k in range(len(b)):
        y[k] = times(y[k - 1], a[k]) + b[k] if k else b[k]
    return y


def _cotangent(ct: Any, y: Any, a: Any, b: Any, *, axis: int, reverse: bool, absorbs: bool) -> Any:
    return recurrence(after(a, axis, reverse, 1), ct, axis, not reverse)


def _by_a(v: Any, y: Any, axis: int, reverse: bool, absorbs: bool) -> Any:
    """v[k] y[k-1], which is nothing at the first place: a[0] is not used."""
    if 0 in shape_of(y):
        return v
    meet = absorb_either if absorbs else absorb
    rest = meet(_cut(v, axis, reverse), _cut(y, axis, not reverse))
    return _led(rest, axis, reverse, 0)


def _vjp_a(
    ct: Any,
    y: Any,
    a: Any,
    b: Any,
    *,
    common: Any,
    axis: int,
    reverse: bool,
    absorbs: bool,
) -> Any:
    return _by_a(common, y, axis, reverse, absorbs)


def _jvp_a(t: Any, y: Any, a: Any, b: Any, *, axis: int, reverse: bool, absorbs: bool) -> Any:
    return recurrence(a, _by_a(t, y, axis, reverse, absorbs), axis, reverse)


def _jvp_b(t: Any, y: Any, a: Any, b: Any, *, axis: int, reverse: bool, absorbs: bool) -> Any:
    return recurrence(a, t, axis, reverse)


def _call(a: Any, b: Any, axis: int = -1, reverse: bool = False) -> Any:
    shape = broadcast_shapes(*(aval((), np.dtype(bool)).with_shape(shape_of(v)) for v in (a, b)))
    place = axis_index(axis, len(shape))
    a, b = (broadcast_to(v, shape) for v in (a, b))
    return bind(linear_recurrence, a, b, axis=place, reverse=bool(reverse), absorbs=False)


def _sample(
    *inputs: Any, axis: int = 0, reverse: bool = False, absorbs: bool = False, **rest: Any
) -> Sample:
    return sample(*inputs, axis=axis, reverse=reverse, absorbs=absorbs, **rest)


linear_recurrence: Op = Op(
    "linear_recurrence",
    aval=_aval,
    ref=_ref,
    vjp=(_vjp_a, lambda ct, y, a, b, *, common, axis, reverse, absorbs: common),
    common=_cotangent,
    jvp=(_jvp_a, _jvp_b),
    call=_call,
    samples=(
        # y = 1, 3*1 + 2 = 5, 4*5 + 3 = 23; by b: 1 + 3*(1 + 4), 1 + 4, 1; by a: -, 5*1, 1*5
        _sample(
            [9.0, 3.0, 4.0],
            [1.0, 2.0, 3.0],
            value=[1.0, 5.0, 23.0],
            grads=([0, 5, 5], [16, 5, 1]),
        ),
        _sample([2.0, 3.0], [1.0, 5.0], value=[11.0, 5.0], grads=([5, 0], [1, 3]), reverse=True),
        _sample([inf, 0.0, nan], [1.0, 0.0, 1.0], value=[1.0, 0.0, nan], kink=True),
        _sample([1.0, 0.0], [inf, 1.0], value=[inf, nan], kink=True),
        _sample([inf, 0.0, nan], [1.0, 0.0, 1.0], value=[1.0, 0.0, 1.0], kink=True, absorbs=True),
        _sample(
            [True, False, True],
            [inf, 1.0, 2.0],
            value=[inf, 1.0, 3.0],
            grads=(None, [1, 2, 1]),
            kink=True,
        ),
        _sample(normal(3, 4), normal(3, 4), axis=1),
        _sample(normal(3, 4), normal(3, 4), reverse=True),
        _sample(normal(2, 5), normal(2, 5), axis=1, absorbs=True),
        _sample(booleans(5), normal(5), absorbs=True),
        _sample(normal(1), normal(1)),
        _sample(normal(0, 3), normal(0, 3), absorbs=True),
        _sample(normal(0, 3), normal(0, 3), axis=1),
    ),
    lower=Kernel("recurrence", operations=2),
    doc="y[k] = a[k] * y[k-1] + b[k] along an axis, the first being b[0]; a and b broadcast. A bool"
    " a says whether to go on from y[k-1] or to start anew. `reverse` runs from the end.",
)
