"""Fits the polynomials of `backends/native/mathematics.py`; prints the module `coefficients.py`.

    python scripts/fit_coefficients.py > src/anabranch/backends/native/coefficients.py

Each is a polynomial through the Chebyshev points of its interval, worked out with 60 digits: close
to the best there is of its degree. The degrees are the smallest whose error is small beside the
rounding of the float type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp

from fit_special import polynomial

mp.mp.dps = 60


def exp_rest(t: Any) -> Any:
    """(exp(t) - 1 - t - t**2/2) / t**3, by its series where the quotient would cancel."""
    if abs(t) > 1e-3:
        return (mp.exp(t) - 1 - t - t**2 / 2) / t**3
    return mp.nsum(lambda k: t**k / mp.factorial(k + 3), [0, 20])


def of_square(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function of t = x*x."""
    return lambda t: f(mp.sqrt(t))


def log_rest(s: Any) -> Any:
    """(2 atanh(s) - 2s) / s**3."""
    return (mp.log((1 + s) / (1 - s)) - 2 * s) / s**3


def erfcx_turned(u: Any) -> Any:
    """exp(x*x) erfc(x) (x + ERFCX_TURN) for u = (x - ERFCX_TURN) / (x + ERFCX_TURN)."""
    x = ERFCX_TURN * (1 + u) / (1 - u)
    return mp.exp(x * x) * mp.erfc(x) * (x + ERFCX_TURN)


def turned(x: Any) -> Any:
    return (mp.mpf(x) - ERFCX_TURN) / (mp.mpf(x) + ERFCX_TURN)


TINY = mp.mpf(10) ** -25
TAIL_START, ERF_TURN = 1.0, 2.0  # so that where erf is least exact, x + ERF_TURN is below 4
ERFCX_TURN, ERF_END, SINH_END = 4.0, 0.8125, 1.0  # where pieces begin
HALF_LOG_2 = mp.log(2) / 2 * mp.mpf("1.0005")
# name: function, interval, degrees for float64 and float32
FITS: dict[str, tuple[Callable[[Any], Any], Any, Any, int, int]] = {
    # log(1+g) = g - (g*g/2 - s * (g*g/2 + z * LOG(z))), with s = g/(2+g), z = s*s
    "LOG": (
        of_square(log_rest),
        TINY,
        mp.mpf("0.0295"),
        7,
        3,
    ),
    # tanh(x) = x + x*z * TANH(z), with z = x*x, up to 0.625
    "TANH": (of_square(lambda x: (mp.tanh(x) - x) / x**3), TINY, mp.mpf("0.3907"), 13, 6),
    # sin(x) = x + x*z * SIN(z), cos(x) = 1 - z/2 + z*z * COS(z), up to pi/4
    "SIN": (of_square(lambda x: (mp.sin(x) - x) / x**3), TINY, mp.mpf("0.6200"), 6, 3),
    "COS": (of_square(lambda x: (mp.cos(x) - 1 + x**2 / 2) / x**4), TINY, mp.mpf("0.6200"), 6, 3),
    # tan(x) = x + x*z * TAN(z), up to pi/4
    "TAN": (of_square(lambda x: (mp.tan(x) - x) / x**3), TINY, mp.mpf("0.6200"), 13, 6),
    # sinh(x) = x + x*z * SINH(z), up to SINH_END
    "SINH": (of_square(lambda x: (mp.sinh(x) - x) / x**3), TINY, SINH_END**2, 7, 3),
    # arcsin(x) = x + x*z * ARCSIN(z), up to 1/2
    "ARCSIN": (of_square(lambda x: (mp.asin(x) - x) / x**3), TINY, mp.mpf("0.2501"), 12, 5),
    # arctan(x) = x + x*z * ARCTAN(z), up to tan(pi/8)
    "ARCTAN": (of_square(lambda x: (mp.atan(x) - x) / x**3), TINY, mp.mpf("0.1716"), 11, 4),
    # erf(x) = x + x * ERF(z), up to ERF_END for erfc, up to TAIL_START for erf
    "ERF": (of_square(lambda x: mp.erf(x) / x - 1), TINY, TAIL_START**2, 13, 6),
    # exp(x*x) erfc(x) = w * ERFCX(u), w = 1 / (x + ERFCX_TURN), u = 1 - 2 ERFCX_TURN w
    "ERFCX": (erfcx_turned, turned(ERF_END), turned(27.3), 20, 10),
    # atanh(s)/s = 1 + z/3 + z*z * ATANH(z), as for LOG
    "ATANH": (
        of_square(lambda s: (log_rest(s) / 2 - mp.mpf(1) / 3) / s**2),
        mp.mpf(10) ** -12,
        mp.mpf("0.0295"),
        8,
        3,
    ),
}


def fitted(f: Callable[[Any], Any], low: Any, high: Any, degree: int) -> list[float]:
    """Coefficients of rising powers."""
    return [float(c) for c in polynomial(f, low, high, mp.mpf(0), degree)]


def weighted(f: Any, weight: Any, low: Any, high: Any, degree: int) -> list[float]:
    """The same by least squares, where an error weighs more at one place than at another."""
    count = 60
    terms, values = mp.matrix(count, degree + 1), mp.matrix(count, 1)
    for k in range(count):
        node = mp.cos((2 * k + 1) * mp.pi / (2 * count))
        t = (low + high) / 2 + (high - low) / 2 * node
        values[k] = weight(t) * f(t)
        for power in range(degree + 1):
            terms[k, power] = weight(t) * t**power
    return [float(c) for c in mp.lu_solve(terms, values)]


def erf_weight(u: Any) -> Any:
    """How much erf(x) changes by an error of ERF_TAIL at u."""
    x = ERF_TURN * (1 + u) / (1 - u)
    return mp.exp(-x * x) / mp.erf(x) / (x + ERF_TURN)


def exp_numbers(degree: int) -> list[float]:
    """exp(t) = 1 + t + t*t * (1/2 + t * EXP(t))"""
    return weighted(exp_rest, lambda t: abs(t) ** 3, -HALF_LOG_2, HALF_LOG_2, degree)


def coth_numbers(degree: int) -> list[float]:
    """x coth(x) = 1 + t * COTH(t), with t = x*x, up to log(2)/4"""

    def rest(t: Any) -> Any:
        x = mp.sqrt(t)
        return (x * mp.coth(x) - 1) / t

    return weighted(rest, lambda t: t, mp.mpf(0), (HALF_LOG_2 / 2) ** 2, degree)


def erf_tail(degree: int, end: float) -> list[float]:
    """exp(x*x) erfc(x) (x + ERF_TURN) = ERF_TAIL(u) as far as 1 - erfc(x) needs it."""

    def turned_back(u: Any) -> Any:
        x = ERF_TURN * (1 + u) / (1 - u)
        return mp.exp(x * x) * mp.erfc(x) * (x + ERF_TURN)

    low, high = ((mp.mpf(x) - ERF_TURN) / (mp.mpf(x) + ERF_TURN) for x in (TAIL_START, end))
    return weighted(turned_back, erf_weight, low, high, degree)


def parts(value: Any, bits: int, count: int) -> list[float]:
    """A number as a sum of floats of so many bits, each rounded to nearest."""
    found = []
    for _ in range(count):
        with mp.workprec(bits):
            part = +value
        found.append(float(part))
        value -= part
    return found


CONSTANTS = {
    # name: value, and how many digits the first part has for float64 and float32
    "LOG_2": (mp.log(2), 32, 15),  # the first part times an exponent is exact
    "LOG10_2": (mp.log10(2), 32, 15),
    "LOG10_E": (1 / mp.log(10), 53, 24),
    "LOG2_2": (mp.mpf(1), 32, 15),
    "LOG2_E": (1 / mp.log(2), 53, 24),
}


def print_constants() -> None:
    """Numbers in parts."""
    for name, (value, *lengths) in CONSTANTS.items():
        for bits, first in zip((64, 32), lengths, strict=True):
            high = parts(value, first, 1)[0]
            low = parts(value - high, 53 if bits == 64 else 24, 1)[0]
            print(f"{name}_{bits} = {(high, low)!r}")
    for bits, digits in ((64, 53), (32, 24)):
        found = [tuple(parts(k * mp.pi / 4, digits, 2)) for k in range(5)]
        print(f"QUARTERS_{bits} = {tuple(found)!r}")
    f, low, high, *degrees = FITS["ERFCX"]
    for bits, digits, degree in ((64, 53, degrees[0]), (32, 24, degrees[1])):
        exact = polynomial(f, low, high, mp.mpf(0), degree)[:3]
        print(f"ERFCX_START_{bits} = {tuple(tuple(parts(c, digits, 2)) for c in exact)!r}")
    print(f"THIRD = {tuple(parts(mp.mpf(1) / 3, 53, 2))!r}")
    print(f"PI_SQUARED = {tuple(parts(mp.pi**2, 53, 2))!r}")
    print(f"TWICE_LOG2_E = {tuple(parts(2 / mp.log(2), 53, 2))!r}")
    print(f"CBRT = {tuple(fitted(mp.cbrt, 0.7, 5.7, 6))!r}")
    print(f"ERFCX_TURN, ERF_TURN = {ERFCX_TURN}, {ERF_TURN}")
    print(f"ERF_END, TAIL_START, SINH_END = {ERF_END}, {TAIL_START}, {SINH_END}")


def print_numbers(name: str, numbers: list[float]) -> None:
    """A tuple, one number a line."""
    print(f"{name} = (")
    for c in numbers:
        print(f"    {c!r},")
    print(")")


def main() -> None:
    """Print the module."""
    print('"""Coefficients by rising powers; made by `scripts/fit_coefficients.py`."""\n')
    for name, (f, low, high, *degrees) in FITS.items():
        for bits, degree in zip((64, 32), degrees, strict=True):
            print_numbers(f"{name}_{bits}", fitted(f, low, high, degree))
    for bits, degree in ((64, 8), (32, 3)):
        print_numbers(f"EXP_{bits}", exp_numbers(degree))
    for bits, degree in ((64, 4), (32, 1)):
        print_numbers(f"COTH_{bits}", coth_numbers(degree))
    for bits, degree, end in ((64, 12, 6.0), (32, 6, 4.0)):
        print_numbers(f"ERF_TAIL_{bits}", erf_tail(degree, end))
    print(f"HALF_PI = {tuple(parts(mp.pi / 2, 53, 3))!r}")
    print_constants()
    with mp.workdps(500):  # 64 zero bits, then the binary digits of 2/pi
        digits = int(mp.floor(2 / mp.pi * mp.mpf(2) ** (64 * 20)))
    words = [0, *((digits >> 64 * (19 - i)) & (2**64 - 1) for i in range(20))]
    print(f"TWO_OVER_PI = {tuple(words)!r}")


if __name__ == "__main__":
    main()
