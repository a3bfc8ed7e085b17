"""Angles: tangent, the inverses of sine, cosine and tangent, and the length that goes with them."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from anabranch.core.bind import bind
from anabranch.core.op import Op, elementwise
from anabranch.core.sample import Domain, at, sample
from anabranch.ops.elementary import rsqrt
from anabranch.ops.elementwise import sign, square
from anabranch.ops.logic import isinf
from anabranch.ops.rules import in_float32
from anabranch.ops.select import equal, where
from anabranch.ops.special.circular import sinc as _sinc
from anabranch.ops.special.circular import sinc_derivative as _sinc_derivative
from anabranch.ops.special.parts import in_float64

inf, nan, pi = math.inf, math.nan, math.pi
INSIDE: Domain = (0.1, 0.9, True)  # of what is defined between -1 and 1

one_minus_square: Op = elementwise(
    "one_minus_square",
    in_float32(lambda x: (1 - x) * (1 + x)),
    result="float",
    real=True,
    partials=(lambda y, x: -2 * x,),
    samples=(
        at(0.5, value=0.75, grads=-1.0),
        at(1.0, value=0.0, grads=-2.0),
        at(-inf, value=-inf, grads=inf, kink=True),
    ),
    scalar="one_minus_square",
    doc="1 - x * x, without the cancellation near 1 and -1.",
)

arccos: Op = elementwise(
    "arccos",
    np.arccos,
    result="float",
    real=True,
    partials=(lambda y, x: -rsqrt(one_minus_square(x)),),
    domain=INSIDE,
    outside=("-1 <= x <= 1", lambda x: np.abs(x) > 1),
    samples=(
        at(0.0, value=pi / 2, grads=-1.0),
        at(0.6, value=math.acos(0.6), grads=-1.25),
        at(1.0, value=0.0, grads=-inf, kink=True),
        at(-1.0, value=pi, grads=-inf, kink=True),
        at(2.0, value=nan, grads=nan, kink=True),
    ),
    scalar="arccos",
    doc="The angle from 0 to pi whose cosine is x.",
)

arcsin: Op = elementwise(
    "arcsin",
    np.arcsin,
    result="float",
    real=True,
    partials=(lambda y, x: rsqrt(one_minus_square(x)),),
    domain=INSIDE,
    outside=("-1 <= x <= 1", lambda x: np.abs(x) > 1),
    samples=(
        at(-0.0, value=-0.0, grads=1.0),
        at(0.6, value=math.asin(0.6), grads=1.25),
        at(1.0, value=pi / 2, grads=inf, kink=True),
        at(-1.0, value=-pi / 2, grads=inf, kink=True),
        at(2.0, value=nan, grads=nan, kink=True),
    ),
    scalar="arcsin",
    doc="The angle from -pi/2 to pi/2 whose sine is x.",
)


def _direction(x: Any, length: Any) -> Any:
    """x / hypot(x, ...): 0 where both are 0, 1 or -1 where x is infinite."""
    origin = equal(length, 0)
    inside = where(origin, 0.0, x / where(origin, 1.0, length))  # of every order, as for |x|
    return where(isinf(x), sign(x), inside)


hypot: Op = elementwise(
    "hypot",
    np.hypot,
    result="float",
    real=True,
    partials=(lambda y, a, b: _direction(a, y), lambda y, a, b: _direction(b, y)),
    samples=(
        at(3.0, 4.0, value=5.0, grads=(0.6, 0.8)),
        at(0.0, 0.0, value=0.0, grads=(0.0, 0.0), kink=True),
        at(0.0, -2.0, value=2.0, grads=(0.0, -1.0)),
        at(-inf, 3.0, value=inf, grads=(-1.0, 0.0), kink=True),
        at(nan, inf, value=inf, kink=True),
        at(nan, 1.0, value=nan, kink=True),
    ),
    scalar="hypot",
    doc="sqrt(x*x + y*y), without overflow on the way; its derivatives at 0, 0 are 0.",
)

arctan: Op = elementwise(
    "arctan",
    np.arctan,
    result="float",
    real=True,
    partials=(lambda y, x: square(1 / hypot(1.0, x)),),  # where x*x overflows, too
    samples=(
        at(-0.0, value=-0.0, grads=1.0),
        at(1.0, value=pi / 4, grads=0.5),
        at(-3.0, value=math.atan(-3.0), grads=0.1),
        at(inf, value=pi / 2, grads=0.0, kink=True),
    ),
    scalar="arctan",
    doc="The angle from -pi/2 to pi/2 whose tangent is x.",
)


def _turn(x: Any, other: Any) -> Any:
    """x / (x*x + other*other), without overflow."""
    length = hypot(x, other)
    return _direction(x, length) / length


arctan2: Op = elementwise(
    "arctan2",
    np.arctan2,
    result="float",
    real=True,
    partials=(lambda y, a, b: _turn(b, a), lambda y, a, b: -_turn(a, b)),
    samples=(
        at(3.0, 4.0, value=math.atan2(3.0, 4.0), grads=(0.16, -0.12)),
        at(0.0, -1.0, value=pi, grads=(-1.0, 0.0), kink=True),
        at(-0.0, -1.0, value=-pi, grads=(-1.0, 0.0), kink=True),
        at(0.0, 0.0, value=0.0, grads=(nan, nan), kink=True),
        at(1.0, -inf, value=pi, grads=(0.0, 0.0), kink=True),
        at(inf, inf, value=pi / 4, grads=(0.0, 0.0), kink=True),
        at(nan, 1.0, value=nan, kink=True),
    ),
    scalar="arctan2",
    doc="The angle of the point with ordinate x and abscissa y, from -pi to pi.",
)

tan: Op = elementwise(
    "tan",
    np.tan,
    result="float",
    real=True,
    partials=(lambda y, x: 1 + square(y),),
    domain=(0.2, 1.2, True),
    samples=(
        at(-0.0, value=-0.0, grads=1.0),
        at(pi / 4, value=1.0, grads=2.0),
        at(inf, value=nan, grads=nan, kink=True),
    ),
    scalar="tan",
    doc="Tangent of an angle in radians.",
)

sinc: Op = elementwise(
    "sinc",
    in_float64(_sinc),
    result="float",
    real=True,
    partials=(lambda y, x: sinc_derivative(x, 1),),
    samples=(
        at(0.0, value=1.0, grads=0.0),
        at(0.5, value=2 / pi, grads=-4 / pi),
        at(1.0, value=0.0, grads=-1.0),
        at(-2.0, value=0.0, grads=-0.5),
        at(inf, value=0.0, grads=0.0, kink=True),
        at(nan, value=nan, kink=True),
    ),
    scalar="sinc",
    doc="sin(pi x) / (pi x): 1 at 0, and exactly 0 at every other whole number.",
)

sinc_derivative: Op = elementwise(
    "sinc_derivative",
    in_float64(_sinc_derivative),
    result="float",
    real=True,
    partials=(lambda y, x, n: sinc_derivative(x, n + 1),),
    call=lambda x, n: bind(sinc_derivative, x, n=operator.index(n)),
    attrs={"n": 1},
    samples=(
        sample(0.0, value=-0.0, grads=(-(pi**2) / 3,), n=1),
        sample(1e-9, value=-(pi**2) / 3, grads=(1e-9 * pi**4 / 5,), n=2),
        sample(1.0, value=-1.0, grads=(2.0,), n=1),
        sample(-inf, value=0.0, grads=(0.0,), kink=True, n=1),
    ),
    scalar=lambda e, x, *, n: e.sinc_derivative(x, n),
    doc="The n-th derivative of sinc, without the cancellation near 0.",
)
