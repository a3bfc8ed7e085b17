"""Real powers, and products in which a zero wins against an infinite logarithm.

They go together: the slope of a power by its exponent is such a product.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.core.bind import NUMBERS, bind
from anabranch.core.dtype import is_floating
from anabranch.core.op import Op, elementwise
from anabranch.core.sample import POSITIVE, SIGNED, Domain, at
from anabranch.errors import DomainError
from anabranch.ops.elementary import log1p, reciprocal
from anabranch.ops.elementwise import integer_power, log, multiply
from anabranch.ops.rules import in_float32, numeric
from anabranch.ops.select import absorb

inf, nan = math.inf, math.nan
_ABOVE_MINUS_ONE: Domain = (0.1, 0.9, True)


def _power(x: Any, y: Any) -> Any:
    if type(x) in NUMBERS or not _is_whole(x, y):
        return bind(power, x, y)
    return bind(multiply, x, x) if y == 2 else bind(integer_power, x, n=int(y))


def _is_whole(x: Any, y: Any) -> bool:
    return type(y) is int or (type(y) is float and y.is_integer() and is_floating(x.dtype))


def _whole(y: float) -> int | None:
    return int(y) if math.isfinite(y) else None


def _power_ref(x: Any, y: Any) -> Any:
    kinds = np.asarray(x).dtype.kind + np.asarray(y).dtype.kind
    if set(kinds) <= set("biu") and np.any(np.less(y, 0)):
        raise DomainError(
            "negative-integer-power",
            "integers to a negative power are not integers",
            hint="x.astype(float) ** y",
        )
    return np.power(x, y)


def _is_no_power(x: Any, y: Any) -> Any:
    return ((x < 0) & (np.floor(y) < y)) | ((x == 0) & (y < 0))


power: Op = elementwise(
    "power",
    numeric(_power_ref),
    partials=(lambda y, a, b: power_slope(a, b), lambda y, a, b: power_log(a, b)),
    outside=("x > 0, a whole y where x < 0, y >= 0 where x = 0", _is_no_power),
    domain=(POSITIVE, SIGNED),
    result="arithmetic",
    call=_power,
    samples=(
        at(2.0, 3.0, value=8.0, grads=(12.0, 8.0 * math.log(2.0))),
        at(0.0, 2.5, value=0.0, grads=(0.0, 0.0), kink=True),
        at(0.0, 0.0, value=1.0, grads=(0.0, -inf), kink=True),
        at(0.0, 0.5, value=0.0, grads=(inf, 0.0), kink=True),
        at(-2.0, 0.5, value=nan, kink=True),
    ),
    scalar="power",
    doc="x to the power y. A Python integer (or whole float) as y uses the power rule at every x,"
    " and y = 2 is the product x * x.",
)


def _power_slope(a: Any, b: Any) -> Any:
    return _winning(b, np.power(a, b - 1))


power_slope: Op = elementwise(
    "power_slope",
    in_float32(_power_slope),
    partials=(
        lambda y, a, b: absorb(b, power_slope(a, b - 1)),
        lambda y, a, b: _mixed(a, b),
    ),
    outside=(
        "x > 0, a whole y where x < 0, y = 0 or y >= 1 where x = 0",
        lambda a, b: (b != 0) & _is_no_power(a, b - 1),
    ),
    domain=(POSITIVE, SIGNED),
    result="float",
    real=True,
    samples=(
        at(2.0, 3.0, value=12.0, grads=(12.0, 4.0 * (1 + 3 * math.log(2.0)))),
        at(0.0, 0.0, value=0.0, grads=(0.0, inf), kink=True),
        at(0.0, 0.5, value=inf, grads=(-inf, -inf), kink=True),
        at(0.0, 1.0, value=1.0, grads=(0.0, -inf), kink=True),
        at(0.0, 1.5, value=0.0, grads=(inf, 0.0), kink=True),
        at(3.0, 0.0, value=0.0, grads=(0.0, 1 / 3)),
        at(-2.0, 0.5, value=nan, kink=True),
    ),
    scalar="power_slope",
    doc="y * x ** (y - 1), the slope of a power by its base, which is 0 for y = 0 at every x.",
)


def _mixed(a: Any, b: Any) -> Any:
    return absorb(power(a, b - 1), 1 + xlogy(b, a))


power_log: Op = elementwise(
    "power_log",
    in_float32(lambda a, b: _winning(np.power(a, b), np.log(a))),
    partials=(lambda y, a, b: _mixed(a, b), lambda y, a, b: xlogy(power_log(a, b), a)),
    outside=("x > 0, or x = 0 where y > 0", lambda a, b: (a < 0) | ((a == 0) & (b <= 0))),
    domain=(POSITIVE, SIGNED),
    result="float",
    real=True,
    samples=(
        at(
            2.0,
            3.0,
            value=8 * math.log(2.0),
            grads=(4.0 * (1 + 3 * math.log(2.0)), 8 * math.log(2.0) ** 2),
        ),
        at(1.0, 3.0, value=0.0, grads=(1.0, 0.0)),
        at(0.0, 0.0, value=-inf, grads=(inf, inf), kink=True),
        at(0.0, 0.5, value=0.0, grads=(-inf, 0.0), kink=True),
        at(0.0, 2.0, value=0.0, grads=(0.0, 0.0), kink=True),
        at(-2.0, 2.0, value=nan, kink=True),
    ),
    scalar="power_log",
    doc="x ** y * log(x), the slope of a power by its exponent, which is 0 at x = 0 for y > 0.",
)


def _winning(x: Any, p: Any) -> Any:
    """The product, but 0 where x is 0 and the product would be NaN."""
    product = x * p
    return np.where(np.isnan(product) & (x == 0), product.dtype.type(0), product)


def _winning_quotient(x: Any, y: Any) -> Any:
    quotient = x / y
    return np.where((x == 0) & (y == 0), quotient.dtype.type(0), quotient)


def _or_nan(product: Any, y: Any) -> Any:
    """The product, but NaN where y is: not even a zero wins against that."""
    return np.where(np.isnan(y), product + y, product)


xlogy: Op = elementwise(
    "xlogy",
    in_float32(lambda x, y: _or_nan(_winning(x, np.log(y)), y)),
    partials=(lambda p, x, y: log(y), lambda p, x, y: xdivy(x, y)),
    outside=("y > 0 where x != 0", lambda x, y: (x != 0) & (y <= 0)),
    domain=(SIGNED, POSITIVE),
    result="float",
    real=True,
    samples=(
        at(3.0, 1.0, value=0.0, grads=(0.0, 3.0)),
        at(0.0, 2.0, value=0.0, grads=(math.log(2.0), 0.0)),
        at(0.0, 0.0, value=0.0, grads=(-inf, 0.0), kink=True),
        at(0.0, -1.0, value=0.0, kink=True),
        at(0.0, inf, value=0.0, grads=(inf, 0.0), kink=True),
        at(2.0, 0.0, value=-inf, grads=(-inf, inf), kink=True),
        at(2.0, -1.0, value=nan, kink=True),
        at(0.0, nan, value=nan, kink=True),
        at(nan, 1.0, value=nan, kink=True),
    ),
    scalar="xlogy",
    doc="""x * log(y), but 0 where x is 0, even where y is 0 or negative; NaN stays NaN.

    The derivative by x is log(y) there too, so -inf at y = 0; that by y is x / y, and 0 where x is.

    Example:
        >>> import anabranch as ab
        >>> ab.xlogy(ab.tensor([0.0, 2.0]), ab.tensor([0.0, 1.0]))
        tensor([0., 0.])
    """,
)

xlog1py: Op = elementwise(
    "xlog1py",
    in_float32(lambda x, y: _or_nan(_winning(x, np.log1p(y)), y)),
    partials=(lambda p, x, y: log1p(y), lambda p, x, y: xdivy(x, 1 + y)),
    outside=("y > -1 where x != 0", lambda x, y: (x != 0) & (y <= -1)),
    domain=(SIGNED, _ABOVE_MINUS_ONE),
    result="float",
    real=True,
    samples=(
        at(3.0, 0.0, value=0.0, grads=(0.0, 3.0)),
        at(0.0, 1.0, value=0.0, grads=(math.log(2.0), 0.0)),
        at(0.0, -1.0, value=0.0, grads=(-inf, 0.0), kink=True),
        at(0.0, inf, value=0.0, grads=(inf, 0.0), kink=True),
        at(2.0, -1.0, value=-inf, grads=(-inf, inf), kink=True),
        at(0.0, nan, value=nan, kink=True),
        at(nan, 0.0, value=nan, kink=True),
    ),
    scalar="xlog1py",
    doc="""x * log(1 + y), but 0 where x is 0, even where y is -1 or less; NaN stays NaN.

    The derivatives are those of `xlogy`.

    Example:
        >>> import anabranch as ab
        >>> ab.xlog1py(ab.tensor([0.0, 2.0]), ab.tensor([-1.0, 0.0]))
        tensor([0., 0.])
    """,
)

xdivy: Op = elementwise(
    "xdivy",
    in_float32(lambda x, y: _or_nan(_winning_quotient(x, y), y)),
    partials=(lambda q, x, y: reciprocal(y), lambda q, x, y: -xdivy(xdivy(x, y), y)),
    outside=("y != 0 where x != 0", lambda x, y: (x != 0) & (y == 0)),
    domain=(SIGNED, (0.5, 2.0, True)),
    result="float",
    real=True,
    samples=(
        at(3.0, 2.0, value=1.5, grads=(0.5, -0.75)),
        at(0.0, 0.0, value=0.0, grads=(inf, 0.0), kink=True),
        at(0.0, 2.0, value=0.0, grads=(0.5, 0.0)),
        at(2.0, 0.0, value=inf, grads=(inf, -inf), kink=True),
        at(0.0, nan, value=nan, kink=True),
        at(inf, inf, value=nan, kink=True),
    ),
    scalar="xdivy",
    doc="x / y, but 0 where x is 0, even where y is 0 too; NaN stays NaN.",
)
