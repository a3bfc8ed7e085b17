"""The numbers in src/anabranch/data/special_functions.json: polynomials that erf and its kin use.

    python scripts/fit_special.py [--check]

Every polynomial is the Chebyshev interpolant of a smooth function, computed by mpmath with 80
digits, rewritten in powers of the distance from a centre, and rounded to float64.  The constant
term is kept as head + tail, two float64.  The degree is the least that leaves a relative error
below 2**-58, before rounding.  `--check` writes nothing and exits with 1 where the file differs.
"""

import argparse
import json
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from mpmath import mp

FILE = Path(__file__).resolve().parent.parent / "src/anabranch/data/special_functions.json"
TARGET = 2.0**-58
DEGREES = range(4, 24)
TERMS = 16  # of the asymptotic series
Function = Callable[[Any], Any]


def polynomial(f: Function, low: Any, high: Any, center: Any, degree: int) -> list[Any]:
    """The interpolant of f at Chebyshev points of [low, high], in powers of x - center."""
    count = degree + 1
    middle, half = mp.mpf(low + high) / 2, mp.mpf(high - low) / 2
    points = [
        middle - center + half * mp.cos((2 * k + 1) * mp.pi / (2 * count)) for k in range(count)
    ]
    differences = [f(center + d) for d in points]
    for order in range(1, count):
        for k in range(count - 1, order - 1, -1):
            step = points[k] - points[k - order]
            differences[k] = (differences[k] - differences[k - 1]) / step
    powers = [differences[-1]]
    for k in range(count - 2, -1, -1):  # Newton's form, multiplied out from inside
        shifted = [mp.mpf(0), *powers]
        powers = [s - points[k] * p for s, p in zip(shifted, [*powers, mp.mpf(0)], strict=True)]
        powers[0] += differences[k]
    return powers


def rounded(powers: list[Any]) -> dict[str, Any]:
    """head + tail, and the coefficients of the first and higher powers, as float64."""
    head = float(powers[0])
    return {
        "head": head,
        "tail": float(powers[0] - head),
        "coefficients": [float(c) for c in powers[1:]],
    }


def error(f: Function, low: float, high: float, center: float, powers: list[Any]) -> float:
    """The largest relative error of a polynomial before it is rounded."""
    points = [low + (high - low) * (k + 0.37) / 42 for k in range(42)]
    return float(
        max(abs(mp.polyval(powers[::-1], x - mp.mpf(center)) / f(mp.mpf(x)) - 1) for x in points)
    )


def single(about: str, f: Function, high: float) -> dict[str, Any]:
    """One polynomial on [0, high] in powers of its argument."""
    for degree in DEGREES:
        powers = polynomial(f, 0.0, high, 0.0, degree)
        if error(f, 0.0, high, 0.0, powers) < TARGET:
            return {"about": about, **rounded(powers)}
    raise ValueError(f"no degree is enough: {about}")


def table(about: str, f: Function, low: float, high: float, bins: int = 4) -> dict[str, Any]:
    """Polynomials of one degree on [low, high): `bins` equal parts of each octave.

    So the leading bits of an argument are its bin.
    """
    edges = [low]
    while edges[-1] < high:
        octave = 2.0 ** float(mp.floor(mp.log(edges[-1], 2)))
        edges.append(edges[-1] + octave / bins)
    parts = [(a, b, (a + b) / 2) for a, b in pairwise(edges)]
    for degree in DEGREES:
        fits = [polynomial(f, *part, degree) for part in parts]
        if all(error(f, *part, fit) < TARGET for part, fit in zip(parts, fits, strict=True)):
            rows = [rounded(fit) for fit in fits]
            return {
                "about": about,
                "low": low,
                "bins_per_octave": bins,
                "centers": [center for _, _, center in parts],
                "heads": [row["head"] for row in rows],
                "tails": [row["tail"] for row in rows],
                "coefficients": [row["coefficients"] for row in rows],
            }
    raise ValueError(f"no degree is enough: {about}")


def series(about: str, term: Callable[[int], Any]) -> dict[str, Any]:
    """The first terms of an asymptotic series, from k = 1."""
    return {"about": about, "coefficients": [float(term(k)) for k in range(1, TERMS + 1)]}


# Functions


def sine(z: Any) -> Any:
    r = mp.sqrt(z)
    return mp.sinpi(r) / (mp.pi * r) if z else mp.mpf(1)


def erf(z: Any) -> Any:
    x = mp.sqrt(z)
    return mp.erf(x) / x if z else 2 / mp.sqrt(mp.pi)


def erfcx(x: Any) -> Any:
    return mp.exp(x * x) * mp.erfc(x)


def inverse(y: Any, lost: Any) -> Any:
    """The x with erf(x) = y, where `lost` is 1 - y to all digits."""
    start = mp.erfinv(y) if y < 0.9 else mp.sqrt(-mp.log(lost * mp.sqrt(-mp.log(lost) * mp.pi)))
    return mp.findroot(lambda x: mp.log(mp.erfc(x)) - mp.log(lost), start)


def erfinv(z: Any) -> Any:
    y = mp.sqrt(z)
    return inverse(y, 1 - y) / y if z else mp.sqrt(mp.pi) / 2


def erfinv_tail(length: Any) -> Any:
    return inverse(1 - mp.exp(-length), mp.exp(-length))


def lgamma_zeros(x: Any) -> Any:
    if x in (1, 2):
        return mp.digamma(x) * (-1 if x == 1 else 1)
    return mp.loggamma(x) / ((x - 1) * (x - 2))


def digamma_zero(x: Any) -> Any:
    return mp.digamma(x) / (x - ROOT)


with mp.workdps(80):
    ROOT = mp.findroot(mp.digamma, 1.4616)


def numbers() -> dict[str, Any]:
    """Everything in the file."""
    with mp.workdps(80):
        head = float(ROOT)
        return {
            "sinpi": single("sin(pi r) / (pi r) in z = r*r, 0 <= r <= 1/2", sine, 0.25),
            "erf": single("erf(x) / x in z = x*x, 0 <= x <= 1/2", erf, 0.25),
            "erfcx": table("exp(x*x) * erfc(x)", erfcx, 0.5, 28.0),
            "erfinv": single("erfinv(y) / y in z = y*y, 0 <= y <= 1/2", erfinv, 0.25),
            "erfinv_tail": table("erfinv(1 - exp(-x))", erfinv_tail, 0.625, 40.0),
            "lgamma_zeros": table("lgamma(x) / ((x - 1) * (x - 2))", lgamma_zeros, 0.5, 4.0),
            "lgamma": table("lgamma(x)", mp.loggamma, 4.0, 16.0),
            "lgamma_series": series(
                "lgamma(x) = (x - 1/2) log x - x + log(2 pi)/2 + sum c[k] / x**(2k - 1)",
                lambda k: mp.bernoulli(2 * k) / (2 * k * (2 * k - 1)),
            ),
            "digamma_root": {
                "about": "the positive zero of digamma, as head + tail",
                "head": head,
                "tail": float(ROOT - head),
            },
            "digamma_zero": table("digamma(x) / (x - root)", digamma_zero, 1.0, 2.0),
            "digamma": table("digamma(x)", mp.digamma, 2.0, 16.0),
            "digamma_series": series(
                "digamma(x) = log x - 1/(2x) - sum c[k] / x**(2k)",
                lambda k: mp.bernoulli(2 * k) / (2 * k),
            ),
            "zeta_series": series(
                "zeta(s, x) = x**(1 - s)/(s - 1) + x**-s/2"
                " + sum c[k] s (s + 1) ... (s + 2k - 2) / x**(s + 2k - 1)",
                lambda k: mp.bernoulli(2 * k) / mp.factorial(2 * k),
            ),
        }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Fit the polynomials of special functions.")
    parser.add_argument("--check", action="store_true", help="compare with the file")
    options = parser.parse_args(arguments)
    text = json.dumps(numbers(), indent=1) + "\n"
    if options.check:
        return int(text != FILE.read_text(encoding="utf-8"))
    FILE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
