"""Elementwise ops: the partial derivatives are the rule, one for each input.

What happens at 0, at ties and at infinities is written in `docs/conventions.md`.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from anabranch.core.aval import Aval
from anabranch.core.bind import bind
from anabranch.core.dtype import is_floating
from anabranch.core.op import NoGradient, Op, elementwise
from anabranch.core.sample import POSITIVE, at, sample
from anabranch.core.values import as_dtype, owned, settled
from anabranch.errors import DTypeError
from anabranch.ops.rules import in_float32, numeric, of_parts, refuse_bools

inf, nan = math.inf, math.nan


absolute: Op = elementwise(
    "absolute",
    np.absolute,
    aval=of_parts,
    partials=(lambda y, x: sign(x),),
    samples=(
        at(-3.0, value=3.0, grads=-1.0),
        at(0.0, value=0.0, grads=0.0, kink=True),
        at(-0.0, value=0.0, grads=0.0, kink=True),
        at(-inf, value=inf, grads=-1.0, kink=True),
    ),
    scalar="absolute",
    doc="Absolute value; its derivative at 0 is 0.",
)

add: Op = elementwise(
    "add",
    operator.add,
    partials=(1, 1),
    samples=(at(2.0, 3.0, value=5.0, grads=(1.0, 1.0)), at(inf, -inf, value=nan, kink=True)),
    scalar="add",
    doc="Sum of two values.",
)


def _astype_aval(x: Aval, *, dtype: Any) -> Aval:
    return x.with_dtype(dtype)


astype: Op = elementwise(
    "astype",
    lambda x, *, dtype: settled(np.asarray(x).astype(dtype)),
    partials=(1,),
    aval=_astype_aval,
    call=lambda x, dtype: bind(astype, x, dtype=as_dtype(dtype)),
    attrs={"dtype": np.dtype(np.float64)},
    samples=(
        sample(2.0, value=2.0, grads=(1.0,), dtype=np.dtype(np.float64)),
        sample(2.7, value=2, dtype=np.dtype(np.int64)),
        sample(-0.5, value=True, dtype=np.dtype(np.bool_)),
    ),
    scalar=lambda e, x, *, dtype: e.convert(x, dtype),
    doc="The value in another dtype. Between floats the cotangent comes back in x's dtype;"
    " integers and bools end the path.",
)

cos: Op = elementwise(
    "cos",
    np.cos,
    partials=(lambda y, x: -sin(x),),
    result="float",
    samples=(
        at(0.0, value=1.0, grads=0.0),
        at(math.pi / 2, value=math.cos(math.pi / 2), grads=-1.0),
    ),
    scalar="cos",
    doc="Cosine of an angle in radians.",
)


def _reciprocal(b: Any) -> Any:
    # Python refuses what IEEE 754 defines.
    return math.copysign(inf, b) if type(b) in (bool, int, float) and b == 0 else 1 / b


divide: Op = elementwise(
    "divide",
    operator.truediv,
    partials=(lambda y, a, b: _reciprocal(b), lambda y, a, b: -y / b),
    result="quotient",
    outside=("y != 0", lambda x, y: y == 0),
    samples=(
        at(6.0, 3.0, value=2.0, grads=(1 / 3, -2 / 3)),
        at(1.0, 0.0, value=inf, kink=True),
        at(1.0, -0.0, value=-inf, kink=True),
        at(0.0, 0.0, value=nan, kink=True),
    ),
    scalar="divide",
    doc="True quotient; division by zero follows IEEE 754.",
)


exp: Op = elementwise(
    "exp",
    np.exp,
    partials=(lambda y, x: y,),
    result="float",
    samples=(
        at(0.0, value=1.0, grads=1.0),
        at(-inf, value=0.0, grads=0.0, kink=True),
        at(1000.0, value=inf, grads=inf, kink=True),
    ),
    scalar="exp",
    doc="e to the power x.",
)


def _itself(x: Any) -> Any:
    return owned(np.asarray(x))


identity: Op = elementwise(
    "identity",
    _itself,
    partials=(1,),
    samples=(at(3.0, value=3.0, grads=1.0),),
    scalar="identity",
    doc="The value itself, as a node of its own that derivatives can be taken with respect to.",
)


def _integer_power_aval(x: Aval, *, n: int) -> Aval:
    refuse_bools(x)
    if n < 0 and not is_floating(x.dtype) and x.dtype.kind != "c":
        raise DTypeError(
            "negative-integer-power",
            f"integers to the negative power {n} are not integers",
            hint=f"x.astype(float) ** {n}",
        )
    return x


integer_power: Op = elementwise(
    "integer_power",
    numeric(lambda x, *, n: np.power(x, n)),
    partials=(lambda y, x, n: n * integer_power(x, n=n - 1) if n not in (0, 1) else n,),
    aval=_integer_power_aval,
    call=lambda x, n: bind(integer_power, x, n=operator.index(n)),
    notation=lambda x, *, n: f"{x}**({n})" if n < 0 else x if n == 1 else f"{x}**{n}",
    outside=("x != 0 for a negative n", lambda x, n: (x == 0) & (n < 0)),
    attrs={"n": 3},
    samples=(
        sample(2.0, value=8.0, grads=(12.0,), n=3),
        sample(0.0, value=0.0, grads=(0.0,), n=3),
        sample(0.0, value=0.0, grads=(1.0,), n=1),
        sample(0.0, value=1.0, grads=(0.0,), n=0),
        sample(-2.0, value=-0.5, grads=(-0.25,), n=-1),
        sample(0.0, value=inf, kink=True, n=-1),
    ),
    scalar=lambda e, x, *, n: e.integer_power(x, n),
    doc="x to a power n that is a Python integer; the power rule holds at every x.",
)

log: Op = elementwise(
    "log",
    np.log,
    partials=(lambda y, x: 1 / x,),
    result="float",
    outside=("x > 0", lambda x: x <= 0),
    domain=POSITIVE,
    samples=(
        at(1.0, value=0.0, grads=1.0),
        at(0.0, value=-inf, grads=inf, kink=True),
        at(-1.0, value=nan, grads=-1.0, kink=True),
        at(inf, value=inf, grads=0.0, kink=True),
    ),
    scalar="log",
    doc="Natural logarithm.",
)


multiply: Op = elementwise(
    "multiply",
    operator.mul,
    partials=(lambda y, a, b: b, lambda y, a, b: a),
    samples=(
        at(2.0, 3.0, value=6.0, grads=(3.0, 2.0)),
        at(0.0, inf, value=nan, kink=True),
        at(-0.0, 3.0, value=-0.0, grads=(3.0, 0.0)),
    ),
    scalar="multiply",
    doc="Product of two values.",
)

negative: Op = elementwise(
    "negative",
    operator.neg,
    partials=(-1,),
    result="arithmetic",
    samples=(at(3.0, value=-3.0, grads=-1.0), at(0.0, value=-0.0, grads=-1.0)),
    scalar="negative",
    doc="The value with its sign changed.",
)


def _no_bools_aval(x: Aval) -> Aval:
    refuse_bools(x)
    return exp.aval(x)  # type: ignore[no-any-return]


def _sech_squared(x: Any) -> Any:
    e = np.exp(-2 * np.abs(x))
    return 4 * e / np.square(1 + e)


sech_squared: Op = elementwise(
    "sech_squared",
    numeric(in_float32(_sech_squared)),
    real=True,
    aval=_no_bools_aval,
    partials=(lambda y, x: -2 * (tanh(x) * y),),
    samples=(
        at(0.0, value=1.0, grads=0.0),
        at(25.0, value=4.0 * math.exp(-50.0), grads=-8.0 * math.exp(-50.0)),
        at(-400.0, value=0.0, grads=0.0),
        at(inf, value=0.0, grads=0.0, kink=True),
    ),
    scalar="sech_squared",
    doc="1 / cosh(x)**2, the slope of tanh, without overflow. It is 1 - tanh(x)**2 without its"
    " cancellation, and so are its own derivatives, which the slope of sigmoid uses too.",
)


def _sigmoid(x: Any) -> Any:
    e = np.exp(-np.abs(x))
    return np.where(np.greater_equal(x, 0), 1, e) / (1 + e)


sigmoid: Op = elementwise(
    "sigmoid",
    numeric(in_float32(_sigmoid)),
    real=True,
    aval=_no_bools_aval,
    partials=(lambda y, x: 0.25 * sech_squared(0.5 * x),),  # y * (1 - y) without cancellation
    samples=(
        at(0.0, value=0.5, grads=0.25),
        at(inf, value=1.0, grads=0.0, kink=True),
        at(-inf, value=0.0, grads=0.0, kink=True),
        at(40.0, value=1.0, grads=math.exp(-40.0)),
        at(-40.0, value=math.exp(-40.0), grads=math.exp(-40.0)),
        at(-800.0, value=0.0, grads=0.0),
    ),
    scalar="sigmoid",
    doc="The logistic function 1 / (1 + exp(-x)), without overflow.",
)

sign: Op = elementwise(
    "sign",
    np.sign,
    partials=(False,),
    result="arithmetic",
    samples=(
        at(-3.0, value=-1.0, grads=0.0),
        at(0.0, value=0.0, grads=0.0, kink=True),
        at(nan, value=nan, kink=True),
    ),
    scalar="sign",
    doc="-1, 0 or 1 by sign; its derivative is 0 everywhere.",
)

sin: Op = elementwise(
    "sin",
    np.sin,
    partials=(lambda y, x: cos(x),),
    result="float",
    samples=(at(0.0, value=0.0, grads=1.0), at(-0.0, value=-0.0, grads=1.0)),
    scalar="sin",
    doc="Sine of an angle in radians.",
)


softplus: Op = elementwise(
    "softplus",
    numeric(in_float32(lambda x: np.logaddexp(x, 0))),
    real=True,
    aval=_no_bools_aval,
    partials=(lambda y, x: sigmoid(x),),
    samples=(
        at(0.0, value=math.log(2.0), grads=0.5),
        at(-inf, value=0.0, grads=0.0, kink=True),
        at(inf, value=inf, grads=1.0, kink=True),
        at(800.0, value=800.0, grads=1.0),
        at(-40.0, value=math.log1p(math.exp(-40.0)), grads=math.exp(-40.0)),
    ),
    scalar="softplus",
    doc="log(1 + exp(x)), without overflow.",
)

sqrt: Op = elementwise(
    "sqrt",
    np.sqrt,
    partials=(lambda y, x: 0.5 / (y + 0.0),),  # + 0.0 makes -0 a 0, so that the slope is +inf
    result="float",
    outside=("x >= 0", lambda x: x < 0),
    domain=POSITIVE,
    samples=(
        at(4.0, value=2.0, grads=0.25),
        at(0.0, value=0.0, grads=inf, kink=True),
        at(-0.0, value=-0.0, grads=inf, kink=True),
        at(-1.0, value=nan, kink=True),
    ),
    scalar="sqrt",
    doc="Square root; its derivative at 0 is +inf.",
)

square: Op = elementwise(
    "square",
    numeric(np.square),
    partials=(lambda y, x: 2 * x,),
    result="arithmetic",
    notation="{}**2".format,
    samples=(at(3.0, value=9.0, grads=6.0), at(0.0, value=0.0, grads=0.0)),
    scalar="square",
    doc="x times x as one op with one edge.",
)

stop_gradient: Op = elementwise(
    "stop_gradient",
    _itself,
    partials=NoGradient("stop_gradient ends the path"),
    arity=1,
    samples=(at(3.0, value=3.0, grads=(None,)),),
    scalar="identity",
    doc="The value, through which no derivative passes in either mode.",
)

subtract: Op = elementwise(
    "subtract",
    operator.sub,
    partials=(1, -1),
    result="arithmetic",
    samples=(at(5.0, 3.0, value=2.0, grads=(1.0, -1.0)),),
    scalar="subtract",
    doc="Difference of two values.",
)

tanh: Op = elementwise(
    "tanh",
    np.tanh,
    partials=(lambda y, x: sech_squared(x),),
    result="float",
    samples=(
        at(0.0, value=0.0, grads=1.0),
        at(25.0, value=1.0, grads=4.0 * math.exp(-50.0)),
        at(-inf, value=-1.0, grads=0.0, kink=True),
    ),
    scalar="tanh",
    doc="Hyperbolic tangent.",
)
