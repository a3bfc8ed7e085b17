"""Running sums, products, extrema and sums of exponentials along one axis.

Each is an op with the attrs `axis` and `reverse`. None of their derivatives divides: a zero in a
running product is a number like any other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.core.aval import Aval
from anabranch.core.bind import bind
from anabranch.core.dtype import is_half
from anabranch.core.op import Kernel, Op, float_for
from anabranch.core.registry import functions
from anabranch.core.sample import normal, sample
from anabranch.core.values import as_dtype
from anabranch.errors import DTypeError
from anabranch.ops.elementwise import absolute, astype, exp
from anabranch.ops.layout import reshape
from anabranch.ops.recurrence import after, before, recurrence
from anabranch.ops.reduce import counting_dtype
from anabranch.ops.rules import axis_index, shape_of
from anabranch.ops.select import absorb, equal, isnan, where

inf, nan = math.inf, math.nan


def scanned(op: Op, x: Any, axis: int | None, reverse: bool) -> Any:
    """The scan along an axis, or over the flattened value.

    Raises:
        OutOfRangeError: `[axis-out-of-range]`.
    """
    if axis is None:
        x, axis = reshape(x, -1), 0
    return bind(op, x, axis=axis_index(axis, len(shape_of(x))), reverse=bool(reverse))


def _typed(x: Any, dtype: Any) -> Any:
    return x if dtype is None else functions()["astype"](x, as_dtype(dtype))


def _aval(to: Callable[[Any], Any]) -> Any:
    def rule(x: Aval, *, axis: int, reverse: bool) -> Aval:
        axis_index(axis, x.ndim)
        return x.with_dtype(to(x.dtype))

    return rule


def _ref(ufunc: Any, to: Callable[[Any], Any]) -> Any:
    """NumPy's scan in the direction asked for; halves are carried in float32."""

    def ref(x: Any, *, axis: int, reverse: bool) -> Any:
        dtype = to(x.dtype)
        wide = np.dtype(np.float32) if is_half(dtype) else dtype
        steps = np.moveaxis(x, axis, 0)
        y = ufunc.accumulate(steps[::-1] if reverse else steps, dtype=wide)
        return np.array(np.moveaxis(y[::-1] if reverse else y, 0, axis), dtype, order="C")

    return ref


def _same(dtype: Any) -> Any:
    return dtype


def _float(dtype: Any) -> Any:
    if dtype.kind == "c":
        raise DTypeError(
            "unsupported-dtype", "a running sum of exponentials of complex values is not offered"
        )
    return float_for(dtype) if dtype.kind in "biu" else dtype


def _shapes(*forward: Any) -> tuple[Any, ...]:
    """Samples of every shape, behind golden ones that run forward."""
    return (
        *forward,
        sample(normal(3, 4), axis=1, reverse=False),
        sample(normal(3, 4), axis=0, reverse=True),
        sample(normal(2, 3, 2), axis=1, reverse=False),
        sample(normal(1), axis=0, reverse=False),
        sample(normal(0), axis=0, reverse=False),
        sample(normal(2, 0), axis=0, reverse=True),
    )


def _golden(x: Any, value: Any, grad: Any, kink: bool = False, reverse: bool = False) -> Any:
    grads = None if grad is None else (grad,)
    return sample(x, value=value, grads=grads, kink=kink, axis=0, reverse=reverse)


_START = " A running value starts at the first element, or with `reverse` at the last."

cumsum: Op = Op(
    "cumsum",
    aval=_aval(counting_dtype),
    ref=_ref(np.add, counting_dtype),
    vjp=(lambda ct, y, x, *, axis, reverse: bind(cumsum, ct, axis=axis, reverse=not reverse),),
    linear=(0,),
    call=lambda x, axis=None, dtype=None, *, reverse=False: scanned(
        cumsum, _typed(x, dtype), axis, reverse
    ),
    samples=_shapes(
        _golden([1.0, 2.0, 3.0], [1.0, 3.0, 6.0], [3, 2, 1]),
        _golden([1.0, 2.0, 3.0], [6.0, 5.0, 3.0], [1, 2, 3], reverse=True),
        _golden([-0.0, 0.0], [-0.0, 0.0], [2, 1]),
        _golden([1.0, inf, -inf, 1.0], [1.0, inf, nan, nan], [4, 3, 2, 1], kink=True),
    ),
    lower=Kernel("scan", "add"),
    doc="Running sum along an axis, of the flattened value without one." + _START,
)


def _wide(op: Op, v: Any, y: Any, x: Any, axis: int, reverse: bool) -> tuple[Any, Any, Any]:
    """For halves all three in float32: a running value may leave their range and come back."""
    if not is_half(x.dtype):
        return v, y, x
    v, x = astype(v, np.float32), astype(x, np.float32)
    return v, bind(op, x, axis=axis, reverse=reverse), x


def _cumprod_vjp(ct: Any, y: Any, x: Any, *, axis: int, reverse: bool) -> Any:
    ct, y, x = _wide(cumprod, ct, y, x, axis, reverse)
    # y[k] = y[k-1] x[k], so what arrives at y[k] is ct[k] and what comes back through y[k+1].
    arrived = recurrence(after(x, axis, reverse, 1), ct, axis, not reverse)
    return absorb(arrived, before(y, axis, reverse, 1))


def _cumprod_jvp(t: Any, y: Any, x: Any, *, axis: int, reverse: bool) -> Any:
    t, y, x = _wide(cumprod, t, y, x, axis, reverse)
    return recurrence(x, absorb(t, before(y, axis, reverse, 1)), axis, reverse)


cumprod: Op = Op(
    "cumprod",
    aval=_aval(counting_dtype),
    ref=_ref(np.multiply, counting_dtype),
    vjp=(_cumprod_vjp,),
    jvp=(_cumprod_jvp,),
    call=lambda x, axis=None, dtype=None, *, reverse=False: scanned(
        cumprod, _typed(x, dtype), axis, reverse
    ),
    samples=_shapes(
        _golden([0.0, 2.0, 3.0], [0.0, 0.0, 0.0], [9, 0, 0]),
        _golden([2.0, 3.0, 0.0], [2.0, 6.0, 0.0], [4, 2, 6]),
        _golden([2.0, 0.0, 0.0, 3.0], [2.0, 0.0, 0.0, 0.0], [1, 2, 0, 0]),
        _golden([2.0, 3.0], [6.0, 3.0], [3, 3], reverse=True),
        _golden([-0.0, 2.0], [-0.0, -0.0], [3, -0.0]),
        _golden([2.0, inf, 0.0], [2.0, inf, nan], [inf, 2.0, inf], kink=True),
    ),
    lower=Kernel("scan", "multiply"),
    doc="Running product along an axis, of the flattened value without one. Its derivative is right"
    " at zeros." + _START,
)


def _runs(y: Any, x: Any, axis: int, reverse: bool) -> tuple[Any, Any]:
    """Where an element equals the extremum so far, and where that stands as it stood before."""
    previous = before(y, axis, reverse, 0)
    taken = where(isnan(y), isnan(x), equal(x, y))
    return taken, where(isnan(y), isnan(previous), equal(y, previous))


def _extremum_vjp(ct: Any, y: Any, x: Any, *, axis: int, reverse: bool) -> Any:
    taken, goes_on = _runs(y, x, axis, reverse)
    count = recurrence(goes_on, astype(taken, np.int64), axis, reverse)
    arrived = recurrence(after(goes_on, axis, reverse, 1), ct / count, axis, not reverse)
    return where(taken, arrived, 0.0)


def _extremum_jvp(t: Any, y: Any, x: Any, *, axis: int, reverse: bool) -> Any:
    taken, goes_on = _runs(y, x, axis, reverse)
    count = recurrence(goes_on, astype(taken, np.int64), axis, reverse)
    return recurrence(goes_on, where(taken, t, 0.0), axis, reverse) / count


def _running_extremum(name: str, ufunc: Any, doc: str, *samples: Any) -> Op:
    op = Op(
        name,
        aval=_aval(_same),
        ref=_ref(ufunc, _same),
        vjp=(_extremum_vjp,),
        jvp=(_extremum_jvp,),
        call=lambda x, axis=None, *, reverse=False: scanned(op, x, axis, reverse),
        samples=_shapes(
            *samples,
            _golden([1.0, nan, 2.0], [1.0, nan, nan], [1, 2, 0], kink=True),
            _golden([nan, nan], [nan, nan], [1.5, 0.5], kink=True),
        ),
        lower=Kernel("scan", ufunc.__name__),
        doc=doc
        + " NaN wins. Each running value is shared equally by the elements so far that are equal to"
        " it." + _START,
    )
    return op


cummax: Op = _running_extremum(
    "cummax",
    np.maximum,
    "Running largest element along an axis, of the flattened value without one.",
    _golden([2.0, 1.0, 3.0], [2.0, 2.0, 3.0], [2, 0, 1]),
    _golden([2.0, 1.0, 3.0], [3.0, 3.0, 3.0], [0, 0, 3], reverse=True),
    # 1, then a half each, then a third of the last to each of three
    _golden([2.0, 2.0, 1.0, 2.0], [2.0] * 4, [2 + 1 / 3, 1 + 1 / 3, 0, 1 / 3], kink=True),
    _golden([-inf, -inf, 0.0, inf], [-inf, -inf, 0.0, inf], [1.5, 0.5, 1, 1], kink=True),
)

cummin: Op = _running_extremum(
    "cummin",
    np.minimum,
    "Running smallest element along an axis, of the flattened value without one.",
    _golden([2.0, 3.0, 1.0], [2.0, 2.0, 1.0], [2, 0, 1]),
    _golden([2.0, 2.0, 3.0, 2.0], [2.0] * 4, [2 + 1 / 3, 1 + 1 / 3, 0, 1 / 3], kink=True),
)


def _cumlogsumexp_vjp(ct: Any, y: Any, x: Any, *, axis: int, reverse: bool) -> Any:
    # By x[j]: exp(x[j] - y[j]) times the sum over k >= j of ct[k] exp(y[j] - y[k]), where no
    # exponent is above 0. A running value that is infinite is stuck: it hands nothing back.
    ct, y, x = _wide(cumlogsumexp, ct, y, x, axis, reverse)
    following = after(y, axis, reverse, 0)
    stuck = equal(absolute(y), inf)
    edge = where(stuck, True, equal(absolute(following), inf))
    decay = exp(where(edge, 0.0, y - following))
    arrived = recurrence(decay, where(stuck, 0.0, ct), axis, not reverse)
    return absorb(arrived, where(stuck, 0.0, exp(where(stuck, 0.0, x - y))))


cumlogsumexp: Op = Op(
    "cumlogsumexp",
    aval=_aval(_float),
    ref=_ref(np.logaddexp, _float),
    vjp=(_cumlogsumexp_vjp,),
    call=lambda x, axis=None, *, reverse=False: scanned(cumlogsumexp, x, axis, reverse),
    samples=_shapes(
        _golden([0.0, 0.0], [0.0, math.log(2.0)], [1.5, 0.5]),
        _golden([1000.0, 1000.0], [1000.0, 1000.0 + math.log(2.0)], [1.5, 0.5]),
        _golden([0.0, 0.0], [math.log(2.0), 0.0], [0.5, 1.5], reverse=True),
        _golden([-inf, -inf, 0.0], [-inf, -inf, 0.0], [0, 0, 1], kink=True),
        _golden([0.0, inf, 0.0], [0.0, inf, inf], [1, 0, 0], kink=True),
        _golden([0.0, -inf], [0.0, 0.0], [2, 0], kink=True),
        _golden([0.0, nan], [0.0, nan], [nan, nan], kink=True),
    ),
    lower=Kernel("scan", "logaddexp"),
    doc="Running log(sum(exp(x))) along an axis, of the flattened value without one, without"
    " overflow. Where it is infinite it hands no derivative back." + _START,
)
