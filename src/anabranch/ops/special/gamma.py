"""The logarithm of the gamma function and its derivatives of every order.

Errors, in units of the last place of float64:

    lgamma      4 for x > 0; below 0, where it has zeros between the poles, 4 units of the larger
                of 1 and its two terms
    digamma     4 for x > 0, near its zero too; below 0, 8 units of the larger of 1 and its terms
    polygamma   8 + 2n for x > 0 and for odd n; for even n below 0 the same of its larger term
"""

from __future__ import annotations

import functools
import math

import numpy as np

from anabranch.ops.special.circular import cosine, sine_over_pi
from anabranch.ops.special.parts import in_parts
from anabranch.ops.special.tables import Array, asymptotic, entry, table

HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
LARGE = 16.0  # from here on the asymptotic series


def _is_pole(x: Array) -> Array:
    return (x <= 0) & (x == np.rint(x))


def lgamma(x: Array) -> Array:
    """log |gamma(x)|: +inf at 0, -1, -2, ... and at both infinities."""
    pole = _is_pole(x)
    return in_parts(
        x,
        (x >= LARGE, _lgamma_large),
        ((x >= 4.0) & (x < LARGE), lambda x: np.add(*table("lgamma", x))),
        ((x >= 0.5) & (x < 4.0), lambda x: _lgamma_zeros(x, 0.0)),
        ((x > 0.0) & (x < 0.5), lambda x: _lgamma_zeros(x, 1.0) - np.log(x)),
        ((x < 0.0) & ~pole, _lgamma_reflected),
        (pole, lambda x: np.full(x.shape, np.inf)),
    )


def _lgamma_large(x: Array) -> Array:
    inverse = 1.0 / x
    rest = inverse * asymptotic("lgamma_series", inverse * inverse, 8)
    value = (x - 0.5) * (np.log(x) - 1.0) + ((HALF_LOG_TWO_PI - 0.5) + rest)
    return np.where(x == np.inf, x, value)


def _lgamma_zeros(x: Array, ahead: float) -> Array:
    """lgamma(x + ahead), 1/2 <= x + ahead < 4, with the factors that are 0 at 1 and 2."""
    head, rest = table("lgamma_zeros", x, ahead)
    return (x + (ahead - 1.0)) * (x + (ahead - 2.0)) * (head + rest) + 0.0  # no -0


def _lgamma_reflected(x: Array) -> Array:
    """gamma(x) gamma(1 - x) = pi / sin(pi x)."""
    return -np.log(np.abs(sine_over_pi(x))) - lgamma(1.0 - x)


def digamma(x: Array) -> Array:
    """The derivative of lgamma: NaN at -1, -2, ..., infinite with the sign of -x at 0."""
    return in_parts(
        x,
        (x >= LARGE, _digamma_large),
        ((x >= 2.0) & (x < LARGE), lambda x: np.add(*table("digamma", x))),
        ((x >= 1.0) & (x < 2.0), lambda x: _digamma_zero(x, 0.0)),
        ((x > 0.0) & (x < 1.0), lambda x: _digamma_zero(x, 1.0) - 1.0 / x),
        ((x < 0.0) & ~_is_pole(x), _digamma_reflected),
        (x == 0.0, lambda x: -np.copysign(np.inf, x)),
    )


def _digamma_large(x: Array) -> Array:
    inverse = 1.0 / x
    square = inverse * inverse
    return np.log(x) - (0.5 * inverse + square * asymptotic("digamma_series", square, 8))


def _digamma_zero(x: Array, ahead: float) -> Array:
    """digamma(x + ahead), 1 <= x + ahead < 2, with the factor that is 0 at its zero."""
    root = entry("digamma_root")
    head, rest = table("digamma_zero", x, ahead)
    return ((x - (root["head"] - ahead)) - root["tail"]) * (head + rest)


def _digamma_reflected(x: Array) -> Array:
    """digamma(1 - x) - digamma(x) = pi cot(pi x)."""
    x = -x
    ahead = in_parts(
        x,
        (x < 1.0, lambda x: _digamma_zero(x, 1.0)),
        (x >= 1.0, lambda x: digamma(x) + 1.0 / x),
    )
    return ahead + cosine(x) / sine_over_pi(x)


def polygamma(x: Array, n: int) -> Array:
    """The n-th derivative of digamma, n >= 1; for odd n +inf at the poles, for even n NaN."""
    sign = 1.0 if n % 2 else -1.0
    pole = _is_pole(x) & (x != 0.0)
    return in_parts(
        x,
        (x > 0.0, lambda x: sign * _scaled_zeta(x, n)),
        ((x < 0.0) & ~pole, lambda x: _polygamma_reflected(x, n)),
        (pole & (x > -np.inf), lambda x: np.full(x.shape, np.inf if n % 2 else np.nan)),
        (x == 0.0, lambda x: sign / x ** (n + 1)),
    )


def _scaled_zeta(x: Array, n: int) -> Array:
    """n! (1 / x**(n + 1) + 1 / (x + 1)**(n + 1) + ...): some terms, and a series for the rest."""
    steps = np.clip(np.ceil(n + LARGE - x), 0.0, None)
    inverse = 1.0 / (x + steps)
    square = inverse * inverse
    term = np.ones_like(x) * (n + 1)  # the rising factorial of the series, over x**(2k)
    rest = 0.5 * inverse
    for k, coefficient in enumerate(entry("zeta_series")["coefficients"], 1):
        rest = rest + coefficient * term * square
        term = term * square * ((n + 2 * k) * (n + 2 * k + 1))
    total = math.factorial(n) * (1.0 / n + rest) * inverse**n
    for k in range(int(np.max(steps, initial=0.0)) - 1, -1, -1):
        total = total + np.where(k < steps, math.factorial(n) / (x + k) ** (n + 1), 0.0)
    return total


def _polygamma_reflected(x: Array, n: int) -> Array:
    cotangent = cosine(x) / (np.pi * sine_over_pi(x))
    slope = np.polynomial.polynomial.polyval(cotangent, cotangent_derivative(n)) * np.pi ** (n + 1)
    return -_scaled_zeta(1.0 - x, n) - slope


@functools.cache
def cotangent_derivative(n: int) -> tuple[int, ...]:
    """The n-th derivative of cot as a polynomial in cot, whose own is -(1 + cot**2)."""
    if n == 0:
        return (0, 1)
    below = cotangent_derivative(n - 1)
    slope = [k * c for k, c in enumerate(below)][1:]
    result = [0] * (len(slope) + 2)
    for k, c in enumerate(slope):
        result[k] -= c
        result[k + 2] -= c
    return tuple(result)
