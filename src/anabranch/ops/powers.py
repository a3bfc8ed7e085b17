"""Real powers with all their derivatives, and products in which a zero wins against a logarithm.

A derivative of a power is a power times a polynomial in its logarithm. Made of several ops it would
meet infinities that cancel at x = 0; as one op it is the limit there, in every order.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from anabranch.core.bind import NUMBERS, bind
from anabranch.core.dtype import is_floating
from anabranch.core.op import Op, elementwise
from anabranch.core.sample import POSITIVE, SIGNED, Domain, Sample, at, normal, sample
from anabranch.errors import DomainError
from anabranch.ops.elementary import log1p, reciprocal
from anabranch.ops.elementwise import integer_power, log, multiply
from anabranch.ops.rules import in_float32, numeric

inf, nan = math.inf, math.nan
_LN_2 = math.log(2.0)
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
    partials=(
        lambda y, a, b: power_derivative(a, b, (1, 0)),
        lambda y, a, b: power_derivative(a, b, (0, 1)),
    ),
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


def _winning(x: Any, p: Any, either: bool = False) -> Any:
    """The product, but 0 where x (or either) is 0 and the product would be NaN."""
    product = x * p
    zero = (x == 0) | (p == 0) if either else x == 0
    return np.where(np.isnan(product) & zero, product.dtype.type(0), product)


def _at(x: float, y: float, orders: tuple[int, int], **given: Any) -> Sample:
    return sample(x, y, orders=orders, **given)


@functools.cache
def derivative_polynomial(by_x: int, by_y: int) -> tuple[tuple[int, ...], ...]:
    """That derivative of x**y as x**(y - by_x) times a polynomial in log x and y.

    For each power of log x, the lowest first, the coefficients of the powers of y.
    """
    terms: dict[tuple[int, int], int] = {(0, 0): 1}
    for _ in range(by_y):  # by y: log(x) P + dP/dy
        terms = _added([((k + 1, i), c) for (k, i), c in terms.items()])
    for n in range(by_x):  # by x, after a factor 1/x: (y - n) P + dP/d(log x)
        parts = [((k, i + 1), c) for (k, i), c in terms.items()]
        parts += [((k, i), -n * c) for (k, i), c in terms.items()]
        parts += [((k - 1, i), k * c) for (k, i), c in terms.items() if k]
        terms = _added(parts)
    top = max(k for k, _ in terms)
    rows = []
    for k in range(top + 1):
        degree = max((i for (j, i), c in terms.items() if j == k and c), default=0)
        rows.append(tuple(terms.get((k, i), 0) for i in range(degree + 1)))
    return tuple(rows)


def _added(parts: list[tuple[tuple[int, int], int]]) -> dict[tuple[int, int], int]:
    terms: dict[tuple[int, int], int] = {}
    for key, c in parts:
        terms[key] = terms.get(key, 0) + c
    return terms


def _derivative(x: Any, y: Any, *, orders: tuple[int, int]) -> Any:
    factor: Any = None
    logarithm = np.log(x) if orders[1] else None
    for row in reversed(derivative_polynomial(*orders)):
        term: Any = x.dtype.type(row[-1])
        for c in reversed(row[:-1]):
            term = term * y + x.dtype.type(c) if c else term * y  # which keeps the sign of 0
        factor = term if factor is None else _winning(factor, logarithm) + term
    return _winning(factor, np.power(x, y - orders[0]), either=True)


def _derivative_scalar(e: Any, x: Any, y: Any, *, orders: tuple[int, int]) -> Any:
    if orders == (1, 0):
        return e.power_slope(x, y)
    return e.power_polynomial(x, y, derivative_polynomial(*orders), orders[0])


def _has_no_derivative(x: Any, y: Any, *, orders: tuple[int, int]) -> Any:
    value = power_derivative.ref(x, y, orders=orders)
    return (x <= 0) & ~np.isfinite(value) & ~np.isnan(y)


power_derivative: Op = elementwise(
    "power_derivative",
    in_float32(_derivative),
    partials=(
        lambda d, x, y, orders: power_derivative(x, y, (orders[0] + 1, orders[1])),
        lambda d, x, y, orders: power_derivative(x, y, (orders[0], orders[1] + 1)),
    ),
    outside=("x > 0, or a finite value", _has_no_derivative),
    domain=(POSITIVE, SIGNED),
    result="float",
    real=True,
    attrs={"orders": (1, 0)},
    call=lambda x, y, orders=(1, 0): bind(power_derivative, x, y, orders=tuple(orders)),
    samples=(
        _at(2.0, 3.0, (1, 0), value=12.0, grads=(12.0, 4 * (1 + 3 * _LN_2))),
        _at(2.0, 3.0, (0, 1), value=8 * _LN_2, grads=(4 * (1 + 3 * _LN_2), 8 * _LN_2**2)),
        _at(1.0, 3.0, (1, 1), value=1.0, grads=(5.0, 0.0)),
        _at(3.0, 0.0, (1, 0), value=0.0, grads=(0.0, 1 / 3)),
        _at(0.0, 0.0, (1, 0), value=0.0, grads=(0.0, inf), kink=True),
        _at(0.0, 0.0, (0, 1), value=-inf, grads=(inf, inf), kink=True),
        _at(0.0, 0.5, (1, 0), value=inf, grads=(-inf, -inf), kink=True),
        _at(0.0, 0.5, (0, 1), value=0.0, grads=(-inf, 0.0), kink=True),
        _at(0.0, 1.0, (1, 0), value=1.0, grads=(0.0, -inf), kink=True),
        _at(0.0, 1.5, (1, 0), value=0.0, grads=(inf, 0.0), kink=True),
        _at(0.0, 2.0, (0, 1), value=0.0, grads=(0.0, 0.0), kink=True),
        _at(-2.0, 3.0, (1, 0), value=12.0, kink=True),
        _at(-2.0, 3.0, (0, 1), value=nan, kink=True),
        sample(normal(3, domain=POSITIVE), normal(3), orders=(0, 1)),
        sample(normal(2, 1, domain=POSITIVE), normal(3), orders=(1, 1)),
    ),
    scalar=_derivative_scalar,
    doc="The derivative of x ** y of the given orders by x and by y, at x = 0 its limit.",
)


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
