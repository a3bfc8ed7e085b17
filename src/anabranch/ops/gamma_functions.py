"""The logarithm of the gamma function and its derivatives; `special.gamma` computes them."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from anabranch.core.aval import Aval
from anabranch.core.bind import bind
from anabranch.core.op import Op, elementwise
from anabranch.core.sample import POSITIVE, at, sample
from anabranch.errors import ArgumentError
from anabranch.ops.elementwise import exp
from anabranch.ops.special import gamma
from anabranch.ops.special.parts import in_float64

inf, nan, pi = math.inf, math.nan, math.pi
_EULER = 0.57721566490153286061  # Euler's constant
_ZETA_3 = 1.20205690315959428540  # the sum of 1 / k**3
_LARGEST = 100  # order: (n + 1)! must stay far from overflow


def gamma_pole(x: Any, **_: Any) -> Any:
    """Where the gamma function has no value: at 0 and at whole numbers below."""
    return (x <= 0) & (np.floor(x) == x)


lgamma: Op = elementwise(
    "lgamma",
    in_float64(gamma.lgamma),
    result="float",
    real=True,
    partials=(lambda y, x: digamma(x),),
    domain=POSITIVE,
    outside=("an x that is none of 0, -1, -2, ...", gamma_pole),
    samples=(
        at(1.0, value=0.0, grads=-_EULER),
        at(2.0, value=0.0, grads=1 - _EULER),
        at(5.0, value=math.log(24.0), grads=25 / 12 - _EULER),
        at(0.5, value=0.5 * math.log(pi), grads=-_EULER - 2 * math.log(2.0)),
        at(-0.5, value=math.log(2 * math.sqrt(pi)), grads=2 - _EULER - 2 * math.log(2.0)),
        at(0.0, value=inf, grads=-inf, kink=True),
        at(-0.0, value=inf, grads=inf, kink=True),
        at(-1.0, value=inf, grads=nan, kink=True),
        at(inf, value=inf, grads=inf, kink=True),
        at(-inf, value=inf, grads=nan, kink=True),
        at(nan, value=nan, kink=True),
    ),
    scalar="lgamma",
    doc="The logarithm of the absolute value of the gamma function; +inf at 0, -1, -2, ...",
)

digamma: Op = elementwise(
    "digamma",
    in_float64(gamma.digamma),
    result="float",
    real=True,
    partials=(lambda y, x: polygamma(1, x),),
    domain=POSITIVE,
    outside=("an x that is none of 0, -1, -2, ...", gamma_pole),
    samples=(
        at(1.0, value=-_EULER, grads=pi**2 / 6),
        at(2.0, value=1 - _EULER, grads=pi**2 / 6 - 1),
        at(0.5, value=-_EULER - 2 * math.log(2.0), grads=pi**2 / 2),
        at(-0.5, value=2 - _EULER - 2 * math.log(2.0), grads=pi**2 / 2 + 4),
        at(0.0, value=-inf, grads=inf, kink=True),
        at(-0.0, value=inf, grads=inf, kink=True),
        at(-1.0, value=nan, grads=inf, kink=True),
        at(inf, value=inf, grads=0.0, kink=True),
        at(-inf, value=nan, grads=nan, kink=True),
        at(nan, value=nan, kink=True),
    ),
    scalar="digamma",
    doc="The derivative of lgamma; NaN at -1, -2, ..., where it jumps from inf to -inf.",
)


def _order(n: int) -> int:
    if not 0 <= n <= _LARGEST:
        raise ArgumentError("bad-argument", f"an order from 0 to {_LARGEST} is needed, not {n}")
    return n


def _polygamma_aval(x: Aval, *, n: int) -> Aval:
    _order(n)
    return exp.aval(x)  # type: ignore[no-any-return]


def _polygamma(n: Any, x: Any) -> Any:
    order = _order(operator.index(n))
    return bind(polygamma, x, n=order) if order else digamma(x)


polygamma: Op = elementwise(
    "polygamma",
    in_float64(gamma.polygamma),
    aval=_polygamma_aval,
    real=True,
    partials=(lambda y, x, n: polygamma(n + 1, x),),
    call=_polygamma,
    domain=POSITIVE,
    attrs={"n": 1},
    outside=("an x that is none of 0, -1, -2, ...", gamma_pole),
    samples=(
        sample(1.0, value=pi**2 / 6, grads=(-2 * _ZETA_3,), n=1),
        sample(1.0, value=-2 * _ZETA_3, grads=(pi**4 / 15,), n=2),
        sample(0.5, value=pi**2 / 2, grads=(-14 * _ZETA_3,), n=1),
        sample(-0.5, value=pi**2 / 2 + 4, grads=(16 - 14 * _ZETA_3,), n=1),
        sample(0.0, value=inf, grads=(-inf,), kink=True, n=1),
        sample(-0.0, value=inf, grads=(inf,), kink=True, n=1),
        sample(-1.0, value=inf, grads=(nan,), kink=True, n=1),
        sample(-1.0, value=nan, grads=(inf,), kink=True, n=2),
        sample(inf, value=0.0, kink=True, n=1),
        sample(-inf, value=nan, kink=True, n=1),
        sample(nan, value=nan, kink=True, n=1),
    ),
    scalar=lambda e, x, *, n: e.polygamma(x, n),
    doc="The n-th derivative of digamma; 0 gives digamma itself, 1 the trigamma function.",
)
