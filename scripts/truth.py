"""What functions in machine code should give: in mpmath, and for arrays of more digits.

`scripts/ulp.py` compares them, with this table as the only list.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import mpmath as mp
import numpy as np

Array = Any
Rule = Callable[..., Any]


@dataclass(frozen=True)
class Function:
    """What the results of an op should be.

    Attributes:
        truth: in mpmath; gives None where there is no value to compare.
        near: the same, `(found, *xs)`, from a result that is nearly right.
        extended: the same for arrays of long double.
        ranges: where random numbers are drawn from, in equal shares.
        bound: the largest error that is promised, in units of the last place.
        unit: of what number the last place counts, `(exact, *xs)`, if not of the result.
        attrs: of the op.
        operands: random operands of one dtype, for functions of several.
        digits: binary digits that mpmath works with.
    """

    truth: Rule | None = None
    extended: Rule | None = None
    ranges: Sequence[tuple[float, float]] = ()
    bound: float = 2.0
    unit: Rule | None = None
    attrs: dict[str, Any] = field(default_factory=dict)
    operands: Rule | None = None
    digits: int = 200
    near: Rule | None = None


def inside(low: float, high: float, truth: Rule) -> Rule:
    """The function where it has a value, the ends included."""
    return lambda x: truth(x) if low <= x <= high else None


def positive(truth: Rule) -> Rule:
    return lambda x: truth(x) if x > 0 else None


# The gamma function, whose logarithm is a sum of two terms below 0


def reflection(x: Any) -> Any:
    return mp.log(mp.pi / abs(mp.sinpi(x)))


def is_pole(x: Any) -> bool:
    return bool(x <= 0 and mp.isint(x))


def lgamma(x: Any) -> Any:
    if is_pole(x):
        return None
    return mp.loggamma(x) if x > 0 else reflection(x) - mp.loggamma(1 - x)


def lgamma_unit(exact: Any, x: Any) -> Any:
    return exact if x > 0 else max(1, abs(reflection(x)), abs(mp.loggamma(1 - x)))


def cotangent(x: Any) -> Any:
    return mp.pi * mp.cospi(x) / mp.sinpi(x)


def digamma(x: Any) -> Any:
    if is_pole(x):
        return None
    return mp.digamma(x) if x > 0 else mp.digamma(1 - x) - cotangent(x)


def digamma_unit(exact: Any, x: Any) -> Any:
    return exact if x > 0 else max(1, abs(cotangent(x)), abs(mp.digamma(1 - x)))


def erfinv(found: Any, x: Any) -> Any:
    """By a step of Newton's method, which doubles the digits."""
    if not (-1 < x < 1 and np.isfinite(found)):
        return None
    y = mp.mpf(float(found))
    return y - (mp.erf(y) - x) * mp.exp(y * y) * mp.sqrt(mp.pi) / 2


def trigamma(x: Any) -> Any:
    return mp.psi(1, x) if 0 < x < 1e8 else None


# In long double


def extended_sech_squared(x: Any) -> Any:
    e = np.exp(-2 * np.abs(x))
    return 4 * e / (1 + e) ** 2


def extended_sinc(x: Any) -> Any:
    """The half turns are taken off without error."""
    pi = 4 * np.arctan(np.longdouble(1))
    near = np.rint(x)
    sign = np.where(near / 2 == np.rint(near / 2), 1, -1)
    return np.where(x == 0, 1, sign * np.sin(pi * (x - near)) / (pi * x))


# Functions of two numbers


def angle(y: Any, x: Any) -> Any:
    return mp.atan2(y, x) if y else None  # of a zero, mpmath knows no sign


def power_operands(dtype: Any, count: int, rng: Any) -> tuple[Array, Array]:
    """Powers of every size, and of numbers close to 1."""
    top = 745.0 if dtype == np.float64 else 103.0
    x = np.abs(10.0 ** rng.uniform(-30, 30, count))
    x[: count // 4] = 1 + rng.uniform(-1, 1, count // 4) / 1000
    x = x.astype(dtype)
    with np.errstate(all="ignore"):
        y = rng.uniform(-top, top, count) / np.log(x.astype(np.float64))
    return x, y.astype(dtype)


def two_of_a_kind(dtype: Any, count: int, rng: Any) -> tuple[Array, Array]:
    x, y = (rng.choice([-1, 1], count) * 10 ** rng.uniform(-4, 4, count) for _ in "xy")
    return x.astype(dtype), y.astype(dtype)


def power(x: Any, y: Any) -> Any:
    return mp.power(x, y) if x > 0 else None


ALL = (-30.0, 30.0)
FUNCTIONS: dict[str, Function] = {
    "arccos": Function(inside(-1, 1, mp.acos), np.arccos, [(-1, 1)]),
    "arccosh": Function(inside(1, math.inf, mp.acosh), np.arccosh, [(1, 2), (1, 30)]),
    "arcsin": Function(inside(-1, 1, mp.asin), np.arcsin, [(-1, 1)]),
    "arcsinh": Function(mp.asinh, np.arcsinh, [(-1, 1), ALL]),
    "arctan": Function(mp.atan, np.arctan, [(-3, 3), ALL]),
    "arctan2": Function(
        lambda y, x: mp.atan2(y, x) if y else None, np.arctan2, operands=two_of_a_kind
    ),
    "arctanh": Function(inside(-1, 1, mp.atanh), np.arctanh, [(-1, 1)]),
    "cbrt": Function(lambda x: mp.sign(x) * mp.cbrt(abs(x)), np.cbrt, [ALL]),
    "cos": Function(mp.cos, np.cos, [ALL], digits=1300),
    "cosh": Function(mp.cosh, np.cosh, [(-3, 3), ALL]),
    "digamma": Function(digamma, None, [(0, 3), (-4, 20)], unit=digamma_unit),
    "erf": Function(mp.erf, None, [(-1, 1), (-6, 6)]),
    "erfc": Function(lambda x: mp.erfc(x) if x < 30 else mp.mpf(0), None, [(-1, 1), (-6, 28)]),
    "erfinv": Function(ranges=[(-1, 1), (0.999, 1)], near=erfinv),
    "exp": Function(mp.exp, np.exp, [(-1, 1), (-750, 710)]),
    "exp2": Function(lambda x: mp.mpf(2) ** x, np.exp2, [(-1, 1), (-1075, 1024)]),
    "exp_neg_square": Function(lambda x: mp.exp(-x * x), None, [(-2, 2), (-27, 27)]),
    "exp_square": Function(lambda x: mp.exp(x * x), None, [(-2, 2), (-26.6, 26.6)]),
    "expm1": Function(mp.expm1, np.expm1, [(-1, 1), (-40, 710)]),
    "hypot": Function(mp.hypot, np.hypot, operands=two_of_a_kind),
    "lgamma": Function(lgamma, None, [(0, 4), (-4, 20)], unit=lgamma_unit),
    "log": Function(positive(mp.log), np.log, [(0.5, 2), (0, 30)]),
    "log10": Function(positive(mp.log10), np.log10, [(0.5, 2), (0, 30)]),
    "log1p": Function(inside(-1, math.inf, mp.log1p), np.log1p, [(-1, 1), (-1, 30)]),
    "log2": Function(positive(lambda x: mp.log(x, 2)), np.log2, [(0.5, 2), (0, 30)]),
    "logaddexp": Function(
        lambda x, y: max(x, y) + mp.log1p(mp.exp(-abs(x - y))),
        np.logaddexp,
        unit=lambda exact, x, y: max(abs(max(x, y)), abs(exact)),
        operands=two_of_a_kind,
    ),
    "one_minus_square": Function(lambda x: 1 - x * x, lambda x: (1 - x) * (1 + x), [(-2, 2)]),
    "polygamma": Function(
        lambda x: mp.psi(1, x) if 0 < x < 1e8 else None,
        None,
        [(0, 3), (0, 20)],
        attrs={"n": 1},
    ),
    "power": Function(power, np.power, operands=power_operands),
    "power_derivative": Function(
        lambda x, y: mp.log(x) * mp.power(x, y) if x > 0 else None,
        lambda x, y: np.log(x) * np.power(x, y),
        operands=power_operands,
        attrs={"orders": (0, 1)},
    ),
    "rsqrt": Function(positive(lambda x: 1 / mp.sqrt(x)), lambda x: 1 / np.sqrt(x), [(0, 30)]),
    "sech_squared": Function(
        lambda x: 1 / mp.cosh(x) ** 2, extended_sech_squared, [(-2, 2), (-373, 373)]
    ),
    "sigmoid": Function(
        lambda x: 1 / (1 + mp.exp(-x)), lambda x: 1 / (1 + np.exp(-x)), [(-2, 2), (-746, 40)]
    ),
    "sin": Function(mp.sin, np.sin, [ALL], digits=1300),
    "sinc": Function(
        lambda x: mp.sinpi(x) / (mp.pi * x) if x else mp.mpf(1),
        extended_sinc,
        [(-1, 1), ALL],
        digits=300,
    ),
    "sinh": Function(mp.sinh, np.sinh, [(-1.5, 1.5), ALL]),
    "softplus": Function(
        lambda x: mp.log1p(mp.exp(x)), lambda x: np.logaddexp(x, 0), [(-2, 2), (-746, 40)]
    ),
    "sqrt": Function(inside(0, math.inf, mp.sqrt), np.sqrt, [(0, 30)]),
    "tan": Function(mp.tan, np.tan, [ALL], digits=1300),
    "tanh": Function(mp.tanh, np.tanh, [(-1, 1), (-20, 20)]),
    "xdivy": Function(lambda x, y: x / y if y else None, np.divide, operands=two_of_a_kind),
    "xlog1py": Function(
        lambda x, y: x * mp.log1p(y) if x and y > -1 else None,
        lambda x, y: x * np.log1p(y),
        operands=two_of_a_kind,
    ),
    "xlogy": Function(
        lambda x, y: x * mp.log(y) if x and y > 0 else None,
        lambda x, y: x * np.log(y),
        operands=two_of_a_kind,
    ),
}
