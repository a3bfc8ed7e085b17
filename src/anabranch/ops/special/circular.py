"""Sines and cosines of multiples of pi, exact where they are 0, and sin(pi x) / (pi x).

Errors, in units of the last place of float64: at most 2 for sinc. A derivative of sinc is within 8
units of the larger of its value and its envelope, pi**n / (1 + pi |x|), for n up to 4.
"""

from __future__ import annotations

import math

import numpy as np

from anabranch.ops.special.parts import in_parts
from anabranch.ops.special.tables import Array, horner, polynomial


def _sine(r: Array) -> Array:
    """sin(pi r) / pi for |r| <= 1/2: then the leading coefficient is 1."""
    _, rest = polynomial("sinpi", r * r)
    return r + r * rest


def sine_over_pi(x: Array) -> Array:
    """sin(pi x) / pi, for finite x."""
    near = np.rint(x)
    return _sine(x - near) * (1.0 - 2.0 * (near % 2.0))


def cosine(x: Array) -> Array:
    """cos(pi x), for finite x."""
    near = np.rint(x)
    r = np.abs(x - near)
    middle = np.pi * _sine(r / 2)
    value = np.where(r < 0.25, 1.0 - 2.0 * middle * middle, np.pi * _sine(0.5 - r))
    return value * (1.0 - 2.0 * (near % 2.0))


def sinc(x: Array) -> Array:
    """sin(pi x) / (pi x): 1 at 0, 0 at the other integers and at infinity."""
    size = np.abs(x)
    return in_parts(
        x,
        (size <= 0.5, lambda x: 1.0 + polynomial("sinpi", x * x)[1]),
        ((size > 0.5) & (size < np.inf), lambda x: sine_over_pi(x) / x + 0.0),  # no -0
        (size == np.inf, np.zeros_like),
    )


def sinc_derivative(x: Array, n: int) -> Array:
    """The n-th derivative of sinc."""
    size = np.abs(x)
    edge = max(n, 1) / 3
    return in_parts(
        x,
        (size < edge, lambda x: _near(x, n, edge)),
        ((size >= edge) & (size < np.inf), lambda x: _far(x, n)),
        (size == np.inf, np.zeros_like),
    )


def near_coefficients(n: int, edge: float) -> list[float]:
    """Of the power series up to |x| = edge: in (pi x)**2, but for a factor of pi x for odd n.

    With u = pi x, the sum of (-1)**k u**m / ((n + m + 1) m!), m = 2k - n.
    """
    coefficients: list[float] = []
    m, size = n % 2, 1.0
    while size > 1e-20:
        sign = -1.0 if (n + m) // 2 % 2 else 1.0
        coefficients.append(sign / ((n + m + 1) * math.factorial(m)))
        m += 2
        size = (math.pi * edge) ** m / math.factorial(m)
    return coefficients


def _near(x: Array, n: int, edge: float) -> Array:
    u = np.pi * x
    value = horner(near_coefficients(n, edge), u * u) * np.pi**n
    return value * u if n % 2 else value


def _far(x: Array, n: int) -> Array:
    """By x f(n) + n f(n - 1) = the n-th derivative of sin(pi x) / pi."""
    sines, cosines = sine_over_pi(x), cosine(x)
    value = sines / x
    for k in range(1, n + 1):
        circle = (sines * np.pi, cosines, -sines * np.pi, -cosines)[k % 4] * np.pi ** (k - 1)
        value = (circle - k * value) / x
    return value
