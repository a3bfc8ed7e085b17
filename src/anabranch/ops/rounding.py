"""Steps and what is left between them, and signs: functions whose slopes are whole numbers.

A step has the slope 0 everywhere, at its jumps too. What is left of a division has the slope of
the piece that its value lies on.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from anabranch.core.bind import bind
from anabranch.core.dtype import is_floating
from anabranch.core.op import NO_GRADIENT, Op, elementwise
from anabranch.core.sample import Domain, at, sample
from anabranch.ops.elementwise import sign
from anabranch.ops.rules import in_float32, numeric
from anabranch.ops.select import equal

inf, nan = math.inf, math.nan
_BETWEEN: Domain = (0.1, 0.9, True)


def _step(name: str, ref: Any, doc: str, *points: Any) -> Op:
    return elementwise(
        name,
        ref,
        scalar=lambda e, x: e.call(name, x, x) if is_floating(x.dtype) else x,
        real=True,
        partials=(False,),
        domain=_BETWEEN,
        samples=(
            *points,
            at(-0.0, value=-0.0, grads=0.0, kink=True),
            at(-inf, value=-inf, grads=0.0, kink=True),
            at(nan, value=nan, grads=0.0, kink=True),
        ),
        doc=doc,
    )


ceil: Op = _step(
    "ceil",
    np.ceil,
    "The least whole number that is not below x; its derivative is 0 everywhere.",
    at(1.2, value=2.0, grads=0.0),
    at(-1.7, value=-1.0, grads=0.0),
    at(-0.3, value=-0.0, grads=0.0),
    at(3.0, value=3.0, grads=0.0, kink=True),
)
floor: Op = _step(
    "floor",
    np.floor,
    "The largest whole number that is not above x; its derivative is 0 everywhere.",
    at(1.7, value=1.0, grads=0.0),
    at(-1.2, value=-2.0, grads=0.0),
    at(3.0, value=3.0, grads=0.0, kink=True),
)
trunc: Op = _step(
    "trunc",
    np.trunc,
    "x without what stands behind the point; its derivative is 0 everywhere.",
    at(1.7, value=1.0, grads=0.0),
    at(-1.7, value=-1.0, grads=0.0),
    at(3.0, value=3.0, grads=0.0, kink=True),
)


def _round(x: Any, *, decimals: int) -> Any:
    return (
        np.round(x, decimals)
        if np.asarray(x).dtype.kind in "iu"
        else _round_float(x, decimals=decimals)
    )


_round_float = in_float32(lambda x, *, decimals: np.round(x, decimals))

round_: Op = elementwise(
    "round",
    numeric(_round),
    result="arithmetic",
    real=True,
    partials=(False,),
    call=lambda x, decimals=0: bind(round_, x, decimals=operator.index(decimals)),
    domain=_BETWEEN,
    attrs={"decimals": 0},
    samples=(
        sample(1.7, value=2.0, grads=(0.0,), decimals=0),
        sample(1.26, value=1.3, grads=(0.0,), decimals=1),
        sample(0.5, value=0.0, grads=(0.0,), kink=True, decimals=0),
        sample(1.5, value=2.0, grads=(0.0,), kink=True, decimals=0),
        sample(-0.2, value=-0.0, grads=(0.0,), decimals=0),
        sample(inf, value=inf, grads=(0.0,), kink=True, decimals=0),
        sample(nan, value=nan, grads=(0.0,), kink=True, decimals=0),
        sample(126.0, value=130.0, grads=(0.0,), decimals=-1),
    ),
    scalar=lambda e, x, *, decimals: e.round(x, decimals),
    doc="x rounded to a number of decimals, halves to even; its derivative is 0 everywhere.",
)

floor_divide: Op = elementwise(
    "floor_divide",
    numeric(np.floor_divide),
    result="arithmetic",
    real=True,
    partials=(False, False),
    domain=((2.2, 2.8, True), (0.9, 1.05, False)),
    outside=("y != 0", lambda x, y: y == 0),
    samples=(
        at(7.0, 2.0, value=3.0, grads=(0.0, 0.0)),
        at(-7.0, 2.0, value=-4.0, grads=(0.0, 0.0)),
        at(6.0, 2.0, value=3.0, grads=(0.0, 0.0), kink=True),
        at(-1.0, inf, value=-1.0, grads=(0.0, 0.0), kink=True),
        at(1.0, 0.0, value=inf, grads=(0.0, 0.0), kink=True),
        at(0.0, 0.0, value=nan, grads=(0.0, 0.0), kink=True),
    ),
    scalar="floor_divide",
    doc="x / y rounded down; its derivatives are 0 everywhere.",
)

remainder: Op = elementwise(
    "remainder",
    numeric(np.remainder),
    result="arithmetic",
    real=True,
    partials=(1, lambda y, a, b: -floor_divide(a, b)),
    domain=((2.2, 2.8, True), (0.9, 1.05, False)),
    outside=("y != 0", lambda x, y: y == 0),
    samples=(
        at(7.0, 2.0, value=1.0, grads=(1.0, -3.0)),
        at(-7.0, 2.0, value=1.0, grads=(1.0, 4.0)),
        at(7.0, -2.0, value=-1.0, grads=(1.0, 4.0)),
        at(6.0, 2.0, value=0.0, grads=(1.0, -3.0), kink=True),
        at(-6.0, 2.0, value=0.0, grads=(1.0, 3.0), kink=True),
        at(-1.0, inf, value=inf, grads=(1.0, 1.0), kink=True),
        at(1.0, inf, value=1.0, grads=(1.0, 0.0), kink=True),
        at(inf, 2.0, value=nan, kink=True),
        at(1.0, 0.0, value=nan, kink=True),
    ),
    scalar="remainder",
    doc="x - y * floor(x / y), with the sign of y, as Python's %.",
)

fmod: Op = elementwise(
    "fmod",
    numeric(np.fmod),
    result="arithmetic",
    real=True,
    # The quotient is found again from the value: a / b itself may round up to a whole number.
    partials=(1, lambda y, a, b: -round_((a - y) / b)),
    domain=((2.2, 2.8, True), (0.9, 1.05, True)),
    outside=("y != 0", lambda x, y: y == 0),
    samples=(
        at(7.0, 2.0, value=1.0, grads=(1.0, -3.0)),
        at(-7.0, 2.0, value=-1.0, grads=(1.0, 3.0)),
        at(7.0, -2.0, value=1.0, grads=(1.0, 3.0)),
        at(6.0, 2.0, value=0.0, grads=(1.0, -3.0), kink=True),
        at(-6.0, 2.0, value=-0.0, grads=(1.0, 3.0), kink=True),
        at(1.0, inf, value=1.0, grads=(1.0, 0.0), kink=True),
        at(inf, 2.0, value=nan, kink=True),
        at(1.0, 0.0, value=nan, kink=True),
    ),
    scalar="fmod",
    doc="x - y * trunc(x / y), with the sign of x, as C's fmod.",
)


copysign: Op = elementwise(
    "copysign",
    np.copysign,
    result="float",
    real=True,
    partials=(lambda y, a, b: sign(a) * sign(y), False),
    samples=(
        at(2.0, -3.0, value=-2.0, grads=(-1.0, 0.0)),
        at(-2.0, -3.0, value=-2.0, grads=(1.0, 0.0)),
        at(-2.0, -0.0, value=-2.0, grads=(1.0, 0.0), kink=True),
        at(-2.0, 0.0, value=2.0, grads=(-1.0, 0.0), kink=True),
        at(0.0, -3.0, value=-0.0, grads=(0.0, 0.0), kink=True),
        at(nan, 1.0, value=nan, kink=True),
    ),
    scalar="copysign",
    doc="x with the sign of y, also that of a zero; at x = 0 the derivative is that of |x|, 0.",
)

heaviside: Op = elementwise(
    "heaviside",
    np.heaviside,
    result="float",
    real=True,
    partials=(NO_GRADIENT, lambda y, a, b: equal(a, 0)),
    selects=True,
    samples=(
        at(-2.0, 0.5, value=0.0, grads=(None, 0.0)),
        at(2.0, 0.5, value=1.0, grads=(None, 0.0)),
        at(0.0, 0.5, value=0.5, grads=(None, 1.0)),
        at(nan, 0.5, value=nan, grads=(None, 0.0), kink=True),
    ),
    scalar="heaviside",
    doc="0 where x < 0, y where x is 0, 1 where x > 0; x only chooses, so it has no derivative.",
)


def _nextafter(x: Any, y: Any) -> Any:
    """Of two equal numbers the second: NumPy before 2.5 gives the first for float16 (-0, 0)."""
    return np.where(np.equal(x, y), y, np.nextafter(x, y))


nextafter: Op = elementwise(
    "nextafter",
    _nextafter,
    result="float",
    real=True,
    partials=(1, False),
    samples=(
        at(1.0, 2.0, value=1.0, grads=(1.0, 0.0)),
        at(1.0, 1.0, value=1.0, grads=(1.0, 0.0), kink=True),
        at(0.0, -1.0, value=-5e-324, grads=(1.0, 0.0), kink=True),
        at(-0.0, 0.0, value=0.0, grads=(1.0, 0.0), kink=True),
        at(nan, 1.0, value=nan, kink=True),
    ),
    scalar="nextafter",
    doc="The next number of x's dtype towards y, which changes as x does.",
)
