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
    """(exp(t) - 1 - t) / t**2, by its series where the quotient would cancel."""
    if abs(t) > 1e-3:
        return (mp.exp(t) - 1 - t) / t**2
    return mp.nsum(lambda k: t**k / mp.factorial(k + 2), [0, 20])


def of_square(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function of t = x*x."""
    return lambda t: f(mp.sqrt(t))


TINY = mp.mpf(10) ** -25
HALF_LOG_2 = mp.log(2) / 2 * mp.mpf("1.0005")
# name: function, interval, degrees for float64 and float32
FITS: dict[str, tuple[Callable[[Any], Any], Any, Any, int, int]] = {
    # exp(t) = 1 + t + t*t * EXP(t)
    "EXP": (exp_rest, -HALF_LOG_2, HALF_LOG_2, 10, 4),
    # log(1+g) = g - (g*g/2 - s * (g*g/2 + z * LOG(z))), with s = g/(2+g), z = s*s
    "LOG": (
        of_square(lambda s: (mp.log((1 + s) / (1 - s)) - 2 * s) / s**3),
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
}


def fitted(f: Callable[[Any], Any], low: Any, high: Any, degree: int) -> list[float]:
    """Coefficients of rising powers."""
    return [float(c) for c in polynomial(f, low, high, mp.mpf(0), degree)]


def parts(value: Any, bits: int, count: int) -> list[float]:
    """A number as a sum of floats of so many bits, each rounded to nearest."""
    found = []
    for _ in range(count):
        with mp.workprec(bits):
            part = +value
        found.append(float(part))
        value -= part
    return found


def main() -> None:
    """Print the module."""
    print('"""Coefficients by rising powers; made by `scripts/fit_coefficients.py`."""\n')
    for name, (f, low, high, *degrees) in FITS.items():
        for bits, degree in zip((64, 32), degrees, strict=True):
            print(f"{name}_{bits} = (")
            for c in fitted(f, low, high, degree):
                print(f"    {c!r},")
            print(")")
    print(f"HALF_PI = {tuple(parts(mp.pi / 2, 53, 3))!r}")
    for bits, first in ((64, 32), (32, 15)):  # the first part times an exponent is exact
        high = parts(mp.log(2), first, 1)[0]
        low = parts(mp.log(2) - high, 53 if bits == 64 else 24, 1)[0]
        print(f"LOG_2_{bits} = {(high, low)!r}")
    with mp.workdps(500):  # 64 zero bits, then the binary digits of 2/pi
        digits = int(mp.floor(2 / mp.pi * mp.mpf(2) ** (64 * 20)))
    words = [0, *((digits >> 64 * (19 - i)) & (2**64 - 1) for i in range(20))]
    print(f"TWO_OVER_PI = {tuple(words)!r}")


if __name__ == "__main__":
    main()
