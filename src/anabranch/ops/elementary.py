"""Roots, exponentials and logarithms beside those of `elementwise`.

A slope is written so that it neither cancels nor overflows where its value does not.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.core.aval import Aval
from anabranch.core.dtype import FLOATS
from anabranch.core.op import Op, elementwise
from anabranch.core.sample import POSITIVE, Domain, at
from anabranch.errors import DTypeError
from anabranch.ops.elementwise import divide, exp, integer_power, sigmoid, square, subtract
from anabranch.ops.logic import isinf, logical_and
from anabranch.ops.rules import in_float32
from anabranch.ops.select import equal, where

inf, nan = math.inf, math.nan
_LN_2, _LN_10 = math.log(2.0), math.log(10.0)
_LOG2_E, _LOG10_E = math.log2(math.e), math.log10(math.e)
_ABOVE_MINUS_ONE: Domain = (0.1, 0.9, True)
_NOT_ZERO: Domain = (0.25, 2.5, True)


def _cbrt(x: Any) -> Any:
    root = np.cbrt(x)
    # Some C libraries are 3 units of the last place off: one step of Newton's method.
    cubed = root * root
    safe = np.isfinite(root) & (cubed > 0) & np.isfinite(cubed * root)
    step = (root * cubed - x) / np.where(safe, 3 * cubed, 1)
    return np.where(safe, root - np.where(safe, step, 0), root)


cbrt: Op = elementwise(
    "cbrt",
    in_float32(_cbrt),
    real=True,
    result="float",
    partials=(lambda y, x: integer_power(y, -2) / 3,),
    samples=(
        at(8.0, value=2.0, grads=1 / 12),
        at(-8.0, value=-2.0, grads=1 / 12),
        at(0.0, value=0.0, grads=inf, kink=True),
        at(-0.0, value=-0.0, grads=inf, kink=True),
        at(-inf, value=-inf, grads=0.0, kink=True),
        at(nan, value=nan, kink=True),
    ),
    scalar="cbrt",
    doc="Cube root, of negative numbers too; its derivative at 0 is +inf.",
)

exp2: Op = elementwise(
    "exp2",
    np.exp2,
    result="float",
    real=True,
    partials=(lambda y, x: _LN_2 * y,),
    samples=(
        at(3.0, value=8.0, grads=8.0 * _LN_2),
        at(-inf, value=0.0, grads=0.0, kink=True),
        at(2000.0, value=inf, grads=inf, kink=True),
    ),
    scalar="exp2",
    doc="2 to the power x.",
)

expm1: Op = elementwise(
    "expm1",
    np.expm1,
    result="float",
    real=True,
    partials=(lambda y, x: exp(x),),  # y + 1 would cancel
    samples=(
        at(0.0, value=0.0, grads=1.0),
        at(-0.0, value=-0.0, grads=1.0),
        at(1e-20, value=1e-20, grads=1.0),
        at(-40.0, value=-1.0, grads=math.exp(-40.0)),
        at(-inf, value=-1.0, grads=0.0, kink=True),
        at(1000.0, value=inf, grads=inf, kink=True),
    ),
    scalar="expm1",
    doc="exp(x) - 1, without its cancellation near 0.",
)

log10: Op = elementwise(
    "log10",
    np.log10,
    result="float",
    real=True,
    partials=(lambda y, x: _LOG10_E / x,),
    domain=POSITIVE,
    outside=("x > 0", lambda x: x <= 0),
    samples=(
        at(100.0, value=2.0, grads=_LOG10_E / 100),
        at(0.0, value=-inf, grads=inf, kink=True),
        at(-1.0, value=nan, grads=-_LOG10_E, kink=True),
        at(inf, value=inf, grads=0.0, kink=True),
    ),
    scalar="log10",
    doc="Logarithm to base 10.",
)

log1p: Op = elementwise(
    "log1p",
    np.log1p,
    result="float",
    real=True,
    partials=(lambda y, x: 1 / (1 + x),),
    domain=_ABOVE_MINUS_ONE,
    outside=("x > -1", lambda x: x <= -1),
    samples=(
        at(0.0, value=0.0, grads=1.0),
        at(-0.0, value=-0.0, grads=1.0),
        at(1e-20, value=1e-20, grads=1.0),
        at(-1.0, value=-inf, grads=inf, kink=True),
        at(-3.0, value=nan, grads=-0.5, kink=True),
        at(inf, value=inf, grads=0.0, kink=True),
    ),
    scalar="log1p",
    doc="log(1 + x), without its cancellation near 0.",
)

log2: Op = elementwise(
    "log2",
    np.log2,
    result="float",
    real=True,
    partials=(lambda y, x: _LOG2_E / x,),
    domain=POSITIVE,
    outside=("x > 0", lambda x: x <= 0),
    samples=(
        at(8.0, value=3.0, grads=_LOG2_E / 8),
        at(0.0, value=-inf, grads=inf, kink=True),
        at(-1.0, value=nan, grads=-_LOG2_E, kink=True),
        at(inf, value=inf, grads=0.0, kink=True),
    ),
    scalar="log2",
    doc="Logarithm to base 2.",
)


def _share(y: Any, a: Any, b: Any) -> Any:
    """Of two equal infinities neither matters, as in logsumexp."""
    stuck = logical_and(equal(a, b), isinf(a))
    return where(stuck, 0.0, sigmoid(subtract(a, b)))


logaddexp: Op = elementwise(
    "logaddexp",
    np.logaddexp,
    result="float",
    real=True,
    partials=(_share, lambda y, a, b: _share(y, b, a)),
    samples=(
        at(0.0, 0.0, value=_LN_2, grads=(0.5, 0.5)),
        at(math.log(3.0), 0.0, value=2 * _LN_2, grads=(0.75, 0.25)),
        at(1000.0, -1000.0, value=1000.0, grads=(1.0, 0.0)),
        at(-inf, 3.0, value=3.0, grads=(0.0, 1.0), kink=True),
        at(inf, 3.0, value=inf, grads=(1.0, 0.0), kink=True),
        at(-inf, -inf, value=-inf, grads=(0.0, 0.0), kink=True),
        at(inf, inf, value=inf, grads=(0.0, 0.0), kink=True),
        at(nan, -inf, value=nan, kink=True),
    ),
    scalar="logaddexp",
    doc="log(exp(x) + exp(y)), without overflow. Of two equal infinities neither gets a share.",
)


def _floats_aval(x: Aval) -> Aval:
    if x.dtype not in FLOATS:
        raise DTypeError(
            "integer-reciprocal",
            "the reciprocals of integers are no integers",
            hint="1 / x divides in float64",
        )
    return x


def _reciprocal(x: Any) -> Any:
    x = np.asarray(x)
    if x.dtype not in FLOATS:
        raise TypeError("the aval says why")
    return np.reciprocal(x)


reciprocal: Op = elementwise(
    "reciprocal",
    _reciprocal,
    aval=_floats_aval,
    real=True,
    partials=(lambda y, x: -square(y),),
    domain=_NOT_ZERO,
    outside=("x != 0", lambda x: x == 0),
    samples=(
        at(4.0, value=0.25, grads=-0.0625),
        at(0.0, value=inf, grads=-inf, kink=True),
        at(-0.0, value=-inf, grads=-inf, kink=True),
        at(inf, value=0.0, grads=0.0, kink=True),
    ),
    scalar=lambda e, x: e.divide(e.number(1, x.dtype), x),
    doc="1 / x of floats.",
)

rsqrt: Op = elementwise(
    "rsqrt",
    in_float32(lambda x: 1 / np.sqrt(x)),
    result="float",
    real=True,
    partials=(lambda y, x: -0.5 * divide(y, x),),
    domain=POSITIVE,
    outside=("x > 0", lambda x: x <= 0),
    samples=(
        at(4.0, value=0.5, grads=-0.0625),
        at(0.0, value=inf, grads=-inf, kink=True),
        at(-0.0, value=-inf, grads=-inf, kink=True),
        at(-1.0, value=nan, kink=True),
        at(inf, value=0.0, grads=0.0, kink=True),
    ),
    scalar="rsqrt",
    doc="1 / sqrt(x).",
)
