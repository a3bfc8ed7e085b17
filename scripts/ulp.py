"""How far functions in machine code are off: the worst error found, in units of the last place.

    python scripts/ulp.py [--count 1000000] [name ...]

Points are random bit patterns, and as many random numbers where the function changes most. Where
NumPy has the function for `long double` of 64 digits, that sorts out the worst points; mpmath
judges those, and all points of the other functions. `docs/native.md` keeps the table.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import mpmath as mp
import numpy as np

import anabranch as ab
from anabranch.core.registry import lookup

Array = Any
Rule = Callable[..., Any]
WORST = 300  # points that mpmath judges, of those that long double has sorted
IS_EXTENDED = np.finfo(np.longdouble).nmant >= 63
DTYPES = (np.float64, np.float32)


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
    "one_minus_square": Function(lambda x: 1 - x * x, None, [(-2, 2)]),
    "polygamma": Function(
        lambda x: mp.psi(1, x) if 0 < x < 1e8 else None,
        None,
        [(0, 3), (0, 20)],
        attrs={"n": 1},
    ),
    "power": Function(power, np.power, operands=power_operands),
    "rsqrt": Function(positive(lambda x: 1 / mp.sqrt(x)), lambda x: 1 / np.sqrt(x), [(0, 30)]),
    "sech_squared": Function(lambda x: 1 / mp.cosh(x) ** 2, None, [(-2, 2), (-373, 373)]),
    "sigmoid": Function(lambda x: 1 / (1 + mp.exp(-x)), None, [(-2, 2), (-746, 40)]),
    "sin": Function(mp.sin, np.sin, [ALL], digits=1300),
    "sinc": Function(
        lambda x: mp.sinpi(x) / (mp.pi * x) if x else mp.mpf(1), None, [(-1, 1), ALL], digits=300
    ),
    "sinh": Function(mp.sinh, np.sinh, [(-1.5, 1.5), ALL]),
    "softplus": Function(lambda x: mp.log1p(mp.exp(x)), None, [(-2, 2), (-746, 40)]),
    "sqrt": Function(inside(0, math.inf, mp.sqrt), np.sqrt, [(0, 30)]),
    "tan": Function(mp.tan, np.tan, [ALL], digits=1300),
    "tanh": Function(mp.tanh, np.tanh, [(-1, 1), (-20, 20)]),
    "xdivy": Function(lambda x, y: x / y if y else None, np.divide, operands=two_of_a_kind),
    "xlog1py": Function(
        lambda x, y: x * mp.log1p(y) if x and y > -1 else None, operands=two_of_a_kind
    ),
    "xlogy": Function(
        lambda x, y: x * mp.log(y) if x and y > 0 else None, operands=two_of_a_kind
    ),
}
EDGES = [
    *(0.0, -0.0, 5e-324, -5e-324, 1e-310, 2.2250738585072014e-308, 1e-300, -1e-300, 1e-38, 1e-45),
    *(0.5, 1.0, -1.0, 2.0, 0.625, -0.625, 0.8125, 0.7071067811865476, 1.4142135623730951),
    *(0.9999999999999999, 1.0000000000000002, 709.782712893384, 710.0, 710.4758, -745.1, -745.2),
    *(-708.4, 88.7, 89.4159, -103.9, 17.0, 19.06, 36.04, -36.7, 37.5, 40.0, -40.0, 26.5, 27.2),
    *(math.pi / 4, math.pi / 2, math.pi, 355.0, 2.0**44, 2.0**45, 2.0**46, 1e22, 1e300, -1e308),
    *(6381956970095103.0 * 2.0**797, 1e-8, -1e-8, 1e-16, 2e-17, 3.4e38, 1.7e308, -372.4, 52.9),
    *(-53.5, 0.4142135623730951, 2.414213562373095, 2.0**28, 1023.9999, -1074.5, 1e-5, 4.0, 16.0),
    # where errors of erfc were largest, and what comes closest to multiples of pi
    *(1.3189189434051514, 6.840081691741943, 26.413635721681942, 12.640543186671096),
    *(411557987.0, 1783366216531.0, 5371151992734.0, 21053343141.0),
]


def compiled(name: str, *xs: Array, **attrs: Any) -> Any:
    """An op in machine code, for such arrays."""
    g = ab.Graph(name)
    nodes = [g.parameter(f"x{i}", x.shape, x.dtype) for i, x in enumerate(xs)]
    run: Any = g.compile(g.add_node(lookup(name), nodes, **attrs), backend="native", passes=())
    assert not run.program.executable.program.islands, f"{name} is no machine code"
    return run


def native(name: str, *xs: Array, **attrs: Any) -> Array:
    """An op in machine code."""
    return compiled(name, *xs, **attrs)(*xs)


def points(name: str, dtype: Any, count: int, seed: int) -> tuple[Array, ...]:
    """Edges, random bits, and random numbers where the function changes most."""
    rng = np.random.default_rng(seed)
    function = FUNCTIONS[name]
    word = np.uint64 if dtype == np.float64 else np.uint32

    def bits(n: int) -> Array:
        return rng.integers(0, np.iinfo(word).max, n, word, endpoint=True).view(dtype)

    half = count // 2
    with np.errstate(all="ignore"):
        edges = np.array(EDGES).astype(dtype)
        if function.operands is not None:
            a, b = np.meshgrid(edges, edges)
            known = [rng.permutation(a.reshape(-1))[:half], rng.permutation(b.reshape(-1))[:half]]
            drawn = function.operands(dtype, half, rng)
            return tuple(
                np.concatenate([k, bits(half), d]) for k, d in zip(known, drawn, strict=True)
            )
        sizes = rng.choice([-1, 1], half // 2) * 10.0 ** rng.uniform(-8, 3, half // 2)
        shares = [half // 2 // len(function.ranges)] * len(function.ranges)
        drawn = [rng.uniform(*r, n) for r, n in zip(function.ranges, shares, strict=True)]
        return (np.concatenate([edges, bits(half), *(d.astype(dtype) for d in (sizes, *drawn))]),)


def suspects(name: str, xs: Sequence[Array], found: Array) -> Array:
    """The places that mpmath should judge: the worst by long double, or all."""
    extended = FUNCTIONS[name].extended
    if extended is None or not IS_EXTENDED or len(found) <= 2 * WORST:
        return np.arange(len(found))
    with np.errstate(all="ignore"):
        near = extended(*(x.astype(np.longdouble) for x in xs))
        unit = np.spacing(np.abs(near.astype(found.dtype))).astype(np.longdouble)
        error = np.abs(found.astype(np.longdouble) - near) / unit
    error[np.isnan(error)] = np.where(np.isnan(found[np.isnan(error)]), 0, np.inf)
    return np.concatenate(
        [np.argsort(error)[-WORST:], np.arange(0, len(found), len(found) // WORST)]
    )


def error_at(function: Function, x: Sequence[Any], value: Any) -> float:
    """The error of one result; infinite where it is NaN or infinite and should not be."""
    exact = function.near(value, *x) if function.near else function.truth(*x)  # type: ignore[misc]
    if exact is None or not isinstance(exact, mp.mpf) or mp.isnan(exact):
        return 0.0
    dtype = type(value)
    with np.errstate(all="ignore"):
        rounded = dtype(float(exact))
        unit = dtype(float(exact if function.unit is None else function.unit(exact, *x)))
        size = np.spacing(np.abs(unit))
    if not np.isfinite(rounded) or not np.isfinite(value):
        return 0.0 if rounded == value else math.inf
    return float(abs(mp.mpf(float(value)) - exact) / mp.mpf(float(size)))


def worst(name: str, dtype: Any, count: int, seed: int = 1) -> tuple[float, tuple[float, ...]]:
    """The largest error, and where it is."""
    function = FUNCTIONS[name]
    xs = points(name, dtype, count, seed)
    found = native(name, *xs, **function.attrs)
    result: tuple[float, tuple[float, ...]] = (0.0, ())
    with mp.workprec(function.digits):
        for place in suspects(name, xs, found):
            x = [mp.mpf(float(operand[place])) for operand in xs]
            if all(map(mp.isfinite, x)):
                error = error_at(function, x, found[place])
                result = max(result, (error, tuple(map(float, x))))
    return result


def lines(name: str, dtype: Any) -> int:
    """How many lines of IR the module for one vector of the function has."""
    xs = [np.ones(8, dtype)] * (1 if FUNCTIONS[name].operands is None else 2)
    run = compiled(name, *xs, **FUNCTIONS[name].attrs)
    return run.program.executable.program.ir.count("\n")  # type: ignore[no-any-return]


def main() -> int:
    """Print the table; 1 where a bound does not hold."""
    parser = argparse.ArgumentParser(description="The worst errors of functions in machine code.")
    parser.add_argument("--count", type=int, default=10_000, help="points for each function")
    parser.add_argument("names", nargs="*", default=list(FUNCTIONS))
    options = parser.parse_args()
    broken = 0
    print("| function | float64 | float32 | bound | lines of IR |\n|---|---|---|---|---|")
    for name in options.names or FUNCTIONS:
        errors = [worst(name, dtype, options.count)[0] for dtype in DTYPES]
        bound = FUNCTIONS[name].bound
        broken += max(errors) > bound
        shown = [f"`{name}`", *(f"{error:.2f}" for error in errors), f"{bound:g}"]
        shown.append(str(lines(name, np.float64)))
        print(f"| {' | '.join(shown)} |", flush=True)
    return int(broken > 0)


if __name__ == "__main__":
    raise SystemExit(main())
