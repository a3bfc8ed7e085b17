"""The error function and its kin; `special.error` computes them."""

from __future__ import annotations

import math

import numpy as np

from anabranch.core.op import Op, elementwise
from anabranch.core.sample import at
from anabranch.ops.select import absorb
from anabranch.ops.special import error
from anabranch.ops.special.parts import in_float64
from anabranch.ops.trigonometric import INSIDE

inf, nan = math.inf, math.nan
_SLOPE = 2.0 / math.sqrt(math.pi)  # of erf at 0

exp_neg_square: Op = elementwise(
    "exp_neg_square",
    in_float64(error.bell),
    result="float",
    real=True,
    partials=(lambda y, x: -2 * absorb(y, x),),  # at infinity the curve is flat
    samples=(
        at(0.0, value=1.0, grads=0.0),
        at(-1.0, value=math.exp(-1.0), grads=2 * math.exp(-1.0)),
        at(26.0, value=math.exp(-676.0), grads=-52 * math.exp(-676.0)),
        at(inf, value=0.0, grads=0.0, kink=True),
        at(nan, value=nan, kink=True),
    ),
    scalar="exp_neg_square",
    doc="exp(-x * x), the bell curve, as exact for large x as for small ones.",
)

exp_square: Op = elementwise(
    "exp_square",
    in_float64(lambda x: 1 / error.bell(x)),
    result="float",
    real=True,
    partials=(lambda y, x: 2 * (x * y),),
    samples=(
        at(0.0, value=1.0, grads=0.0),
        at(-1.0, value=math.e, grads=-2 * math.e),
        at(26.0, value=math.exp(676.0), grads=52 * math.exp(676.0)),
        at(-inf, value=inf, grads=-inf, kink=True),
        at(nan, value=nan, kink=True),
    ),
    scalar="exp_square",
    doc="exp(x * x), as exact for large x as for small ones; the slope of `erfinv` is made of it.",
)

erf: Op = elementwise(
    "erf",
    in_float64(error.erf),
    result="float",
    real=True,
    partials=(lambda y, x: _SLOPE * exp_neg_square(x),),
    samples=(
        at(0.0, value=0.0, grads=_SLOPE),
        at(-0.0, value=-0.0, grads=_SLOPE),
        at(1.0, value=math.erf(1.0), grads=_SLOPE * math.exp(-1.0)),
        at(-26.0, value=-1.0, grads=_SLOPE * math.exp(-676.0)),
        at(inf, value=1.0, grads=0.0, kink=True),
        at(nan, value=nan, kink=True),
    ),
    scalar="erf",
    doc="The error function, 2 / sqrt(pi) times the integral of exp(-t * t) from 0 to x.",
)

erfc: Op = elementwise(
    "erfc",
    in_float64(error.erfc),
    result="float",
    real=True,
    partials=(lambda y, x: -_SLOPE * exp_neg_square(x),),
    samples=(
        at(0.0, value=1.0, grads=-_SLOPE),
        at(1.0, value=math.erfc(1.0), grads=-_SLOPE * math.exp(-1.0)),
        at(26.0, value=math.erfc(26.0), grads=-_SLOPE * math.exp(-676.0)),
        at(-inf, value=2.0, grads=0.0, kink=True),
        at(inf, value=0.0, grads=0.0, kink=True),
        at(nan, value=nan, kink=True),
    ),
    scalar="erfc",
    doc="1 - erf(x), without its cancellation for large x.",
)

erfinv: Op = elementwise(
    "erfinv",
    in_float64(error.erfinv),
    result="float",
    real=True,
    partials=(lambda y, x: exp_square(y) / _SLOPE,),
    domain=INSIDE,
    outside=("-1 < x < 1", lambda x: np.abs(x) >= 1),
    samples=(
        at(0.0, value=0.0, grads=1 / _SLOPE),
        at(-0.0, value=-0.0, grads=1 / _SLOPE),
        at(math.erf(0.5), value=0.5, grads=math.exp(0.25) / _SLOPE),
        at(1.0, value=inf, grads=inf, kink=True),
        at(-1.0, value=-inf, grads=inf, kink=True),
        at(2.0, value=nan, grads=nan, kink=True),
    ),
    scalar="erfinv",
    doc="The number whose error function is x.",
)
