"""Hyperbolic sine and cosine, and the inverses of the three."""

from __future__ import annotations

import math

import numpy as np

from anabranch.core.op import Op, elementwise
from anabranch.core.sample import Domain, at
from anabranch.ops.elementary import rsqrt
from anabranch.ops.trigonometric import INSIDE, hypot, one_minus_square

inf, nan = math.inf, math.nan
_ABOVE_ONE: Domain = (1.2, 2.5, False)
_ROOT_3 = math.sqrt(3.0)

arccosh: Op = elementwise(
    "arccosh",
    np.arccosh,
    result="float",
    real=True,
    partials=(lambda y, x: rsqrt(x - 1) * rsqrt(x + 1),),
    domain=_ABOVE_ONE,
    outside=("x >= 1", lambda x: x < 1),
    samples=(
        at(2.0, value=math.acosh(2.0), grads=1 / _ROOT_3),
        at(1.0, value=0.0, grads=inf, kink=True),
        at(0.5, value=nan, grads=nan, kink=True),
        at(inf, value=inf, grads=0.0, kink=True),
    ),
    scalar="arccosh",
    doc="The number from 0 on whose hyperbolic cosine is x.",
)

arcsinh: Op = elementwise(
    "arcsinh",
    np.arcsinh,
    result="float",
    real=True,
    partials=(lambda y, x: 1 / hypot(1.0, x),),
    samples=(
        at(-0.0, value=-0.0, grads=1.0),
        at(0.75, value=math.log(2.0), grads=0.8),
        at(inf, value=inf, grads=0.0, kink=True),
    ),
    scalar="arcsinh",
    doc="The number whose hyperbolic sine is x.",
)

arctanh: Op = elementwise(
    "arctanh",
    np.arctanh,
    result="float",
    real=True,
    partials=(lambda y, x: 1 / one_minus_square(x),),
    domain=INSIDE,
    outside=("-1 < x < 1", lambda x: np.abs(x) >= 1),
    samples=(
        at(-0.0, value=-0.0, grads=1.0),
        at(0.6, value=math.log(2.0), grads=1.5625),
        at(1.0, value=inf, grads=inf, kink=True),
        at(-1.0, value=-inf, grads=inf, kink=True),
        at(2.0, value=nan, grads=-1 / 3, kink=True),
    ),
    scalar="arctanh",
    doc="The number whose hyperbolic tangent is x.",
)

cosh: Op = elementwise(
    "cosh",
    np.cosh,
    result="float",
    real=True,
    partials=(lambda y, x: sinh(x),),
    samples=(
        at(0.0, value=1.0, grads=0.0),
        at(math.log(2.0), value=1.25, grads=0.75),
        at(-inf, value=inf, grads=-inf, kink=True),
    ),
    scalar="cosh",
    doc="Hyperbolic cosine.",
)

sinh: Op = elementwise(
    "sinh",
    np.sinh,
    result="float",
    real=True,
    partials=(lambda y, x: cosh(x),),
    samples=(
        at(-0.0, value=-0.0, grads=1.0),
        at(math.log(2.0), value=0.75, grads=1.25),
        at(-inf, value=-inf, grads=inf, kink=True),
    ),
    scalar="sinh",
    doc="Hyperbolic sine.",
)
