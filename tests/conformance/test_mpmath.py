"""Values and first two derivatives of every real elementwise op against mpmath.

The true value is computed with far more digits than a float has, the true derivatives are
differences of true values: nothing here knows a rule of ours. Errors are counted in units of the
last place (ulp) of the true number; where a number is a difference that may cancel to 0, in those
of the larger of it and its `SCALES`.

    PYTHONPATH=src python tests/conformance/test_mpmath.py

prints the worst errors of each op and where they are.
"""

import functools
import math
from typing import NamedTuple

import numpy as np
import pytest
from mpmath import mp

import anabranch as ab
from anabranch.core.bind import bind
from anabranch.core.op import NoGradient
from anabranch.core.registry import registered_ops
from anabranch.core.sample import Draw, Sample

STEP = mp.mpf(10) ** -30  # of the differences, in units of the point
DIGITS = (120, 160, 400, 1000)  # until two agree: tanh'(300) is 1e-260 beside a value of 1
DRAWS = 12


def round_half_even(x, decimals):
    return mp.nint(x * mp.mpf(10) ** decimals) / mp.mpf(10) ** decimals


def erfinv(y):
    start = mp.mpf(float(ab.erfinv(np.float64(y))))
    return mp.findroot(
        lambda x: mp.log(mp.erfc(abs(x))) - mp.log(1 - abs(y)), abs(start)
    ) * mp.sign(y)


def polygamma(x, n):
    if x > 0:
        return mp.polygamma(n, x)
    return (-1) ** n * mp.polygamma(n, 1 - x) - mp.pi * mp.diff(lambda t: mp.cot(mp.pi * t), x, n)


def sinc(x):
    return mp.sinpi(x) / (mp.pi * x) if x else mp.mpf(1)


POWERS = {
    (1, 0): lambda a, b: b * mp.power(a, b - 1),
    (0, 1): lambda a, b: mp.power(a, b) * mp.log(a),
    (1, 1): lambda a, b: mp.power(a, b - 1) * (1 + b * mp.log(a)),
}
COUNTERPARTS = {
    "absolute": abs,
    "add": lambda a, b: a + b,
    "arccos": mp.acos,
    "arccosh": mp.acosh,
    "arcsin": mp.asin,
    "arcsinh": mp.asinh,
    "arctan": mp.atan,
    "arctan2": mp.atan2,
    "arctanh": mp.atanh,
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
    "ceil": mp.ceil,
    "conj": lambda x: x,
    "copysign": lambda a, b: abs(a) * (-1 if b < 0 else 1),
    "cos": mp.cos,
    "cosh": mp.cosh,
    "digamma": mp.digamma,
    "divide": lambda a, b: a / b,
    "erf": mp.erf,
    "erfc": mp.erfc,
    "erfinv": erfinv,
    "exp": mp.exp,
    "exp2": lambda x: mp.power(2, x),
    "exp_neg_square": lambda x: mp.exp(-x * x),
    "exp_square": lambda x: mp.exp(x * x),
    "expm1": mp.expm1,
    "floor": mp.floor,
    "floor_divide": lambda a, b: mp.floor(a / b),
    "fmod": lambda a, b: a - b * (mp.floor(a / b) if a * b > 0 else mp.ceil(a / b)),
    "heaviside": lambda a, b: b if a == 0 else mp.mpf(a > 0),
    "hypot": mp.hypot,
    "identity": lambda x: x,
    "imag": lambda x: mp.mpf(0),
    "integer_power": lambda x, n: x**n,
    "lgamma": lambda x: mp.re(mp.loggamma(x)),
    "log": mp.log,
    "log10": mp.log10,
    "log1p": mp.log1p,
    "log2": lambda x: mp.log(x) / mp.log(2),
    "logaddexp": lambda a, b: mp.log(mp.exp(a) + mp.exp(b)),
    "maximum": max,
    "minimum": min,
    "multiply": lambda a, b: a * b,
    "negative": lambda x: -x,
    "one_minus_square": lambda x: 1 - x * x,
    "polygamma": polygamma,
    "power": mp.power,
    "power_derivative": lambda a, b, orders: POWERS[orders](a, b),
    "real": lambda x: x,
    "reciprocal": lambda x: 1 / x,
    "remainder": lambda a, b: a - b * mp.floor(a / b),
    "round": round_half_even,
    "rsqrt": lambda x: 1 / mp.sqrt(x),
    "sech_squared": lambda x: 1 / mp.cosh(x) ** 2,
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
    "sign": mp.sign,
    "sin": mp.sin,
    "sinc": sinc,
    "sinc_derivative": lambda x, n: mp.diff(sinc, x, n),
    "sinh": mp.sinh,
    "softplus": lambda x: mp.log1p(mp.exp(x)),
    "sqrt": mp.sqrt,
    "square": lambda x: x * x,
    "subtract": lambda a, b: a - b,
    "tan": mp.tan,
    "tanh": mp.tanh,
    "trunc": lambda x: mp.sign(x) * mp.floor(abs(x)),
    "xdivy": lambda x, y: x / y,
    "xlog1py": lambda x, y: x * mp.log1p(y),
    "xlogy": lambda x, y: x * mp.log(y),
}
WITHOUT = {
    "absorb": "a product; its other values are conventions, in test_masks.py",
    "absorb_either": "as absorb",
    "astype": "a change of dtype",
    "nextafter": "a function of float64, not of real numbers; test_elementary.py has its bits",
    "stop_gradient": "has no derivative, and returns what it is given",
    "where": "selects; test_masks.py",
}
EDGE = 1 - 2.0**-53  # the last number before 1
TINY, SMALL, HUGE = 1e-300, 1e-9, 1e200
EVERYWHERE = [0.0, SMALL, -SMALL, TINY, 0.1, -0.7, 3.3, -12.5]
OF_POSITIVE = [TINY, 1e-310, SMALL, 0.3, 1 - SMALL, 1 + SMALL, 7.7, HUGE]
OF_GAMMA = [1e-5, 0.3, 1 - SMALL, 1 + SMALL, 7.7, 15.9, 16.1, 1e10]
# Where cancellation, overflow on the way or a pole nearby are known to spoil results.
POINTS = {
    "arccos": [0.0, SMALL, -0.4, 0.5, -0.5, 1 - SMALL, EDGE, -EDGE],
    "arccosh": [1 + 2.0**-52, 1 + SMALL, 1.1, 3.0, 1e155, HUGE],
    "arcsin": [0.0, SMALL, TINY, -0.4, 0.5, -0.5, 1 - SMALL, EDGE, -EDGE],
    "arcsinh": [*EVERYWHERE, 1e155, HUGE, -HUGE],
    "arctan": [*EVERYWHERE, 1e100, 1e155, -1e155],
    "arctan2": [(3e200, 4e200), (3e-200, -4e-200), (SMALL, 1.0), (1.0, SMALL), (-2.0, -SMALL)],
    "arctanh": [0.0, SMALL, TINY, -0.4, 0.5, 1 - SMALL, EDGE, -EDGE],
    "cbrt": [*OF_POSITIVE, -1e-100, -HUGE, -3.7931883469332516e-181],
    "cos": [*EVERYWHERE, math.pi / 2, 1e5],
    "cosh": [*EVERYWHERE, 700.0, -700.0],
    "digamma": [*OF_GAMMA, 1.4616321449683622, 1.46163, -0.5, -8.3157, -8.3156, -1e-5],
    "divide": [(1.0, 3.0), (1e-300, 7.0), (HUGE, -1e-10)],
    "erf": [*EVERYWHERE, 0.499999, 0.5, 5.9, 26.0, -26.5],
    "erfc": [*EVERYWHERE, 0.499999, 0.5, 5.9, 26.0, 26.5, 26.6],
    "erfinv": [0.0, SMALL, TINY, 0.4999999, 0.5, -0.9, 0.99, 1 - SMALL, EDGE, -EDGE],
    "exp": [*EVERYWHERE, 700.0, -700.0, -744.0],
    "exp2": [*EVERYWHERE, 1000.0, -1000.0, -1070.5],
    "exp_neg_square": [*EVERYWHERE[:-1], 5.1, 26.0, -26.5],
    "exp_square": [*EVERYWHERE[:-1], 5.1, 26.0, -26.5],
    "expm1": [*EVERYWHERE, -40.0, -700.0, 700.0],
    "hypot": [(3e200, 4e200), (3e-200, -4e-200), (SMALL, 1.0), (1.0, SMALL), (-2.0, 5.0)],
    "lgamma": [*OF_GAMMA, 2 - SMALL, 2 + SMALL, -0.5, -1e-5, -8.3157, -2.4570247],
    "log": OF_POSITIVE,
    "log10": [*OF_POSITIVE, 1.7e308],
    "log1p": [*EVERYWHERE[:-2], 3.3, 1e-20, -SMALL, -EDGE, HUGE],
    "log2": OF_POSITIVE,
    "logaddexp": [
        (0.0, SMALL),
        (-700.1, 0.3),
        (-700.0, 0.25),
        (700.0, 700.5),
        (-1e5, -1e5),
        (40.0, 0.0),
    ],
    "one_minus_square": [0.0, SMALL, 0.5, EDGE, -EDGE, 1e100],
    "power": [(1 + SMALL, 1e6), (0.5, 100.0), (7.7, -0.3), (1e-10, 0.5), (3.0, 0.0)],
    "power_derivative": [(0.5, 100.0), (7.7, -0.3), (1e-10, 0.5), (3.0, 0.0), (3.0, SMALL)],
    "reciprocal": [SMALL, -3.3, 1e100, 1e-100],
    "rsqrt": [*OF_POSITIVE[2:], 1e-100],
    "sech_squared": [*EVERYWHERE, 25.0, -25.0, 300.0, -372.0],
    "sigmoid": [*EVERYWHERE, 40.0, -40.0, 700.0, -700.0],
    "sin": [*EVERYWHERE, math.pi, 1e5],
    "sinc": [*EVERYWHERE, 1e-3, 0.5, 0.500001, 1.0, -3.0, 1.5, 100.25],
    "sinh": [*EVERYWHERE, 700.0, -700.0],
    "softplus": [*EVERYWHERE, 40.0, -40.0, 700.0, -700.0],
    "sqrt": OF_POSITIVE,
    "tan": [*EVERYWHERE[:-1], math.pi / 2, 1.5707, 1e5],
    "tanh": [*EVERYWHERE, 25.0, -25.0, 300.0],
    "xdivy": [(1.0, 3.0), (1e-300, 7.0), (0.0, 2.0), (1e-200, 1e-150), (HUGE, 1e-10)],
    "xlog1py": [(1e5, SMALL), (-3.0, -SMALL), (0.0, 0.5), (2.0, HUGE), (2.0, -EDGE)],
    "xlogy": [(1e5, 1 + SMALL), (-3.0, 1e-310), (0.0, 0.5), (2.0, HUGE)],
}


class Bound(NamedTuple):
    """At most so many ulp for the value, the first and the second derivatives."""

    value: float = 2.0
    first: float = 4.0
    second: float = 8.0


BOUNDS = {
    "digamma": Bound(4.0),
    "erfinv": Bound(2.0, 40.0, 80.0),  # 2 y**2 times the error of y, which is at most 5.9
    "lgamma": Bound(4.0, 4.0),
    "logaddexp": Bound(2.0, 6.0, 12.0),
    "polygamma": Bound(8.0, 12.0, 16.0),
    "sinc": Bound(2.0, 4.0, 8.0),
}


def no_scale(order, *xs, **attrs):
    return 0


def envelope(order, x, n=0):
    """Of a derivative of sinc, which has zeros at no float."""
    return mp.pi ** (order + n) / (1 + mp.pi * abs(x)) if order + n and abs(x) > 0.3 else 0


def reflection(order, x, n=-1):
    """Below 0 every one of these is a difference of two terms that may be equal."""
    if x > 0:
        return 0
    if order + n < 0:
        return max(1, abs(mp.log(abs(mp.sinpi(x)))), abs(mp.loggamma(1 - x)))
    return max(1, abs(mp.polygamma(order + n, 1 - x)))


def bend(order, x, of):
    """Of a curve whose second derivative has a zero where the curve has its steepest slope."""
    return 2 * of(x) if order == 2 and abs(x) > 0.1 else 0


SCALES = {
    "arctan2": lambda order, a, b: 1 / mp.hypot(a, b) ** 2 if order == 2 else 0,
    "digamma": functools.partial(reflection, n=0),
    "exp_neg_square": functools.partial(bend, of=COUNTERPARTS["exp_neg_square"]),
    "hypot": lambda order, a, b: 1 / mp.hypot(a, b) if order == 2 else 0,
    "lgamma": reflection,
    # The value has a zero, and the shares depend on a difference that is rounded.
    "logaddexp": lambda order, a, b: abs(a - b) * mp.exp(-abs(a - b)) if order else max(-a, -b),
    "polygamma": reflection,
    "power": lambda order, a, b: mp.power(a, b - 1) if order == 2 else 0,
    "power_derivative": lambda order, a, b, orders: (
        (1 + abs(mp.log(a))) ** orders[1] * mp.power(a, b - orders[0] - order)
        if order or sum(orders) > 1
        else 0
    ),
    "sech_squared": functools.partial(bend, of=COUNTERPARTS["sech_squared"]),
    "sinc": envelope,
    "sinc_derivative": envelope,
}


def real_ops():
    """The elementwise ops that make floats of floats."""
    for op in registered_ops():
        if op.elementwise and op.arity != 0:
            made = [s.make(np.random.default_rng(0)) for s in op.samples]
            xs = [x for x in made[-1] if x.dtype.kind == "f"]
            with np.errstate(all="ignore"):
                y = np.asarray(op.ref(*made[-1], **op.samples[-1].attrs))
            if xs and y.dtype.kind == "f":
                yield op


OPS = list(real_ops())
COMPARED = [op for op in OPS if op.name in COUNTERPARTS]


def test_every_real_op_is_compared_or_says_why_not():
    names = {op.name for op in OPS}
    assert names - COUNTERPARTS.keys() == WITHOUT.keys(), "give it a counterpart, or a reason"
    assert COUNTERPARTS.keys() <= names
    assert not COUNTERPARTS.keys() & WITHOUT.keys()


def points(op):
    """(attrs, rows of arguments): golden points, those of `POINTS`, and a few at random."""
    found = {}
    for number, sample in enumerate(op.samples):
        rows = found.setdefault(tuple(sample.attrs.items()), {})
        if sample.is_drawn and len(sample.inputs[0].shape) == 2:
            sizes = [Draw((DRAWS,), x.domain) for x in sample.inputs]
            xs = Sample(tuple(sizes)).make(np.random.default_rng([number, 3]))
            rows.update(dict.fromkeys(zip(*(x.tolist() for x in xs), strict=True)))
        elif not (sample.is_drawn or sample.kink) and all(math.isfinite(x) for x in sample.inputs):
            rows[tuple(map(float, sample.inputs))] = None
    for rows in found.values():
        for point in POINTS.get(op.name, ()):
            rows[point if isinstance(point, tuple) else (point,)] = None
    return [(dict(attrs), list(rows)) for attrs, rows in found.items()]


def difference(f, xs, orders):
    """The derivative of these orders by the arguments, as central differences of a true f."""
    steps = [(abs(x) or 1) * STEP for x in xs]

    def at(*moves):
        return f(*(x + m * h for x, m, h in zip(xs, moves, steps, strict=True)))

    one = [[float(i == k) for k in range(len(xs))] for i in range(len(xs))]
    axes = [i for i, order in enumerate(orders) for _ in range(order)]
    if not axes:
        return f(*xs)
    h = mp.fprod(steps[axis] for axis in axes)
    up, down = one[axes[0]], [-u for u in one[axes[0]]]
    if len(axes) == 1:
        return (at(*up) - at(*down)) / (2 * h)
    if axes[0] == axes[1]:
        return (at(*up) - 2 * f(*xs) + at(*down)) / h
    return (at(1, 1) - at(1, -1) - at(-1, 1) + at(-1, -1)) / (4 * h)


@functools.cache
def truth(name, attrs, xs, orders):
    """The number to 25 digits; None where there is none."""
    f = functools.partial(COUNTERPARTS[name], **dict(attrs))
    before = None
    smallest = min(1.0, *(abs(x) for x in xs if x)) if any(xs) else 1.0
    for digits in DIGITS:
        with mp.workdps(digits - int(3 * math.log10(smallest))):
            try:
                found = difference(f, list(map(mp.mpf, xs)), orders)
            except (ZeroDivisionError, ValueError):
                return None
        if isinstance(found, mp.mpc):
            return None
        at_zero = any(order and not x for order, x in zip(orders, xs, strict=True))
        if abs(found) < (mp.mpf(10) ** -50 if at_zero else mp.mpf(10) ** -400):
            found = mp.mpf(0)  # what is left of steps and rounding
        if before and abs(found - before) <= abs(found) * mp.mpf(10) ** -25:
            return found
        before = found
    return before


def ulps(found, true, scale=0):
    """How far a float is from the true number."""
    true = mp.mpf(true)
    if abs(true) >= mp.mpf(2) ** 1024 * (1 - mp.mpf(2) ** -54):
        return math.inf if math.isfinite(found) else 0.0  # NaN as a sum of infinities
    if not math.isfinite(found):
        return math.inf
    size = max(abs(true), scale)
    last = mp.mpf(2) ** (max(mp.floor(mp.log(size, 2)) if size else -1022, -1022) - 52)
    return float(abs(mp.mpf(float(found)) - true) / last)


def library(op, attrs, rows):
    """What the library computes for all rows: {orders: [values, one list for each mode]}."""
    xs = [np.array(column) for column in zip(*rows, strict=True)]
    count = len(xs)
    smooth = [i for i in range(count) if not isinstance(op.gradient(i), NoGradient)]

    def apply(*xs):
        return bind(op, *xs, **attrs)

    def slope(i):
        return lambda *xs: ab.grad(lambda *ys: ab.sum(apply(*ys)), i)(*xs)

    def orders(*axes):
        return tuple(axes.count(i) for i in range(count))

    with np.errstate(all="ignore"):
        found = {orders(): [apply(*xs)]}
        for i in smooth:
            found[orders(i)] = [slope(i)(*xs)]
            for j in smooth:
                ts = [np.ones_like(x) * (k == j) for k, x in enumerate(xs)]
                found.setdefault(orders(i, j), []).extend(
                    [
                        ab.grad(lambda *xs, i=i: ab.sum(slope(i)(*xs)), j)(*xs),
                        ab.jvp(slope(i), tuple(xs), tuple(ts))[1],
                    ]
                )
    return found


class Worst(NamedTuple):
    """The largest error of one derivative of an op, and where it is."""

    ulp: float
    orders: tuple[int, ...]
    attrs: dict[str, object]
    xs: tuple[float, ...]
    found: float
    true: float


@functools.cache
def worst(op):
    """The largest errors of an op by order: of its value, first and second derivatives."""
    result = {}
    for attrs, rows in points(op):
        for orders, ways in library(op, attrs, rows).items():
            for values in ways:
                for xs, found in zip(rows, np.asarray(values).tolist(), strict=True):
                    true = truth(op.name, tuple(attrs.items()), xs, orders)
                    if true is None:
                        continue
                    scale = SCALES.get(op.name, no_scale)(sum(orders), *xs, **attrs)
                    one = Worst(ulps(found, true, scale), orders, attrs, xs, found, float(true))
                    if one.ulp >= result.get(sum(orders), one).ulp:
                        result[sum(orders)] = one
    return result


@pytest.mark.slow
@pytest.mark.parametrize("op", COMPARED, ids=lambda op: op.name)
def test_values_and_two_derivatives_are_the_true_ones(op):
    bounds = BOUNDS.get(op.name, Bound())
    found = worst(op)
    assert found
    for order, one in found.items():
        assert one.ulp <= bounds[order], one


def main():
    for op in COMPARED:
        print(op.name, *(f"  {order}: {one}" for order, one in worst(op).items()), sep="\n")


if __name__ == "__main__":
    main()
