"""Kinks, ties, signed zeros, infinities and NaN: one answer for every spelling and mode.

These are the rows of docs/conventions.md that span several ops; each op's own points stand in its
record and are checked by test_ops.py.
"""

import math

import numpy as np
import pytest

import anabranch as ab

nan, inf = math.nan, math.inf


def slope(f, x):
    """The derivative, the same in both modes, eager and compiled."""
    with np.errstate(all="ignore"):
        x = np.float64(x)
        found = [
            float(ab.grad(f)(x)),
            float(ab.jvp(f, (x,), (np.float64(1.0),))[1]),
            float(ab.compile(ab.grad(f))(x)),
        ]
        leaf = ab.tensor(x, requires_grad=True)
        f(leaf).backward()
        found.append(float(leaf.grad))
    assert all(v == found[0] or (v != v and found[0] != found[0]) for v in found), found
    return found[0]


RAMPS = {
    "relu": (ab.relu, 0.0),
    "maximum": (lambda x: ab.maximum(x, 0.0), 0.5),
    "maximum, swapped": (lambda x: ab.maximum(0.0, x), 0.5),
    "clip": (lambda x: ab.clip(x, 0.0, None), 1.0),
    "clip by name": (lambda x: ab.clip(x, min=0.0), 1.0),
}


@pytest.mark.proves("F-41", "S1-44")
@pytest.mark.parametrize("zero", [0.0, -0.0])
@pytest.mark.parametrize("name", RAMPS)
def test_the_slope_of_a_ramp_at_its_corner(name, zero):
    f, wanted = RAMPS[name]
    assert slope(f, zero) == wanted
    assert (slope(f, -1.0), slope(f, 2.0)) == (0.0, 1.0)


SPELLINGS = {
    "absolute": [ab.absolute, abs],
    "negative": [ab.negative, lambda x: -x],
    "sum": [ab.sum, lambda x: x.sum()],
    "max": [ab.max, lambda x: x.max()],
    "min": [ab.min, lambda x: x.min(), lambda x: -ab.max(-x)],
    "prod": [ab.prod, lambda x: x.prod(), lambda x: ab.cumprod(x)[-1]],
    "square": [lambda x: ab.power(x, 2), lambda x: x**2, lambda x: x**2.0],
}


@pytest.mark.proves("F-41")
@pytest.mark.parametrize("name", SPELLINGS)
@pytest.mark.parametrize("x", [0.0, -0.0, 3.0, -inf, nan])
def test_every_spelling_of_a_function_has_the_same_slope(name, x):
    found = [slope(f, x) for f in SPELLINGS[name]]
    assert len({repr(abs(s) if s == 0 else s) for s in found}) == 1


@pytest.mark.proves("S1-44")
def test_the_slopes_at_zero_that_are_conventions():
    assert slope(ab.absolute, 0.0) == slope(ab.absolute, -0.0) == 0.0
    assert slope(ab.sign, 0.0) == 0.0
    assert slope(ab.sqrt, 0.0) == slope(ab.sqrt, -0.0) == inf
    assert slope(ab.log, 0.0) == inf
    assert slope(lambda x: x**0.5, 0.0) == inf
    assert slope(lambda x: x**1.5, 0.0) == 0.0
    assert slope(lambda x: 2.0**x, 0.0) == pytest.approx(math.log(2.0))
    assert slope(lambda x: 0.0**x, 2.0) == 0.0
    assert slope(lambda x: 0.0**x, 0.0) == -inf


@pytest.mark.parametrize("n", range(-3, 6))
@pytest.mark.parametrize("x", [0.0, -2.0, 2.0, -inf])
def test_whole_powers_follow_the_power_rule_at_every_x(n, x):
    with np.errstate(all="ignore"):
        wanted = 0.0 if n == 0 else n * np.float64(x) ** (n - 1)
    assert slope(lambda x: x**n, x) == wanted or (wanted != wanted)
    assert slope(lambda x: x ** float(n), x) == wanted


@pytest.mark.proves("F-43")
@pytest.mark.parametrize("values", [[1, 1], [1, 2, 2, 2], [3, 3, 3], [2, 1, 2], [inf, inf, 1]])
def test_ties_share_equally_and_sum_to_one(values):
    x = np.array(values, np.float64)
    share = ab.grad(ab.max)(x)
    assert share.tolist() == ((x == x.max()) / (x == x.max()).sum()).tolist()
    assert share.sum() == pytest.approx(1.0)
    t = np.arange(1.0, 1.0 + x.size)
    assert ab.jvp(ab.max, (x,), (t,))[1] == pytest.approx(share @ t)


@pytest.mark.proves("F-43")
@pytest.mark.parametrize("f", [ab.maximum, ab.minimum])
@pytest.mark.parametrize("x", [1.0, 0.0, inf, -inf, nan])
def test_two_equal_values_get_half_each(f, x):
    x = np.float64(x)
    assert [float(g) for g in ab.grad(f, (0, 1))(x, x)] == [0.5, 0.5]
    assert float(ab.jvp(f, (x, x), (np.float64(1.0), np.float64(3.0)))[1]) == 2.0


@pytest.mark.proves("F-43")
def test_a_count_of_ties_does_not_overflow_in_half_precision():
    x = np.ones(70_000, np.float16)
    share = ab.grad(ab.max)(x)
    assert share.dtype == np.float16
    assert (share == np.float16(1 / 70_000)).all()


@pytest.mark.parametrize("f", [ab.maximum, ab.minimum])
def test_nan_wins_and_takes_the_whole_cotangent(f):
    for a, b, wanted in ((nan, 1.0, (1.0, 0.0)), (1.0, nan, (0.0, 1.0)), (nan, inf, (1.0, 0.0))):
        assert math.isnan(f(np.float64(a), np.float64(b)))
        assert tuple(map(float, ab.grad(f, (0, 1))(a, b))) == wanted
    assert np.isnan(ab.max(np.array([nan, 1.0, 3.0, 2.0])))


@pytest.mark.parametrize("f", [ab.relu, lambda x: ab.clip(x, -1.0, 1.0), ab.absolute, ab.sign])
def test_nan_stays_nan(f):
    assert math.isnan(f(np.float64(nan)))


def test_clip_is_closed_and_bounds_get_what_they_decide():
    def f(x, low, high):
        return ab.clip(x, low, high)

    for x, wanted in ((-1.0, (1, 0, 0)), (0.0, (1, 0, 0)), (1.0, (1, 0, 0)), (-2.0, (0, 1, 0)),
                      (3.0, (0, 0, 1))):  # fmt: skip
        low, high = (x, 1.0) if x == -1.0 else (0.0, 1.0)
        found = ab.grad(f, (0, 1, 2))(np.float64(x), np.float64(low), np.float64(high))
        assert tuple(map(float, found)) == wanted


def test_signed_zeros_survive():
    for f in (ab.sin, ab.sqrt, lambda x: x * 3.0, lambda x: x / 3.0, lambda x: x**3):
        assert math.copysign(1.0, float(f(np.float64(-0.0)))) == -1.0
    with np.errstate(all="ignore"):
        assert float(ab.divide(np.float64(1.0), np.float64(-0.0))) == -inf


def test_large_and_small_arguments_keep_their_derivatives():
    assert slope(ab.tanh, 20.0) == pytest.approx(4 * math.exp(-40.0), rel=1e-12)
    assert slope(ab.tanh, -400.0) == pytest.approx(0.0, abs=1e-300)
    assert slope(ab.sigmoid, 700.0) == pytest.approx(math.exp(-700.0), rel=1e-12)
    assert slope(ab.sigmoid, -800.0) == slope(ab.sigmoid, 800.0) == 0.0
    assert slope(ab.exp, -inf) == 0.0
    assert slope(ab.log, inf) == 0.0


@pytest.mark.parametrize("zero, wanted", [(0, inf), (0.0, inf), (-0.0, -inf), (False, inf)])
def test_the_number_zero_divides_like_any_other_zero(zero, wanted):
    """Python would raise where IEEE 754 has a value."""
    assert slope(lambda x: x / zero, 2.0) == wanted
    assert slope(lambda x: ab.where(x > 9.0, x / zero, 3.0 * x), 2.0) == 3.0


@pytest.mark.parametrize("x", [5e-324, 1e-310, -5e-324])
def test_subnormal_numbers_are_kept(x):
    assert float(ab.multiply(np.float64(x), np.float64(1.0))) == x
    assert slope(lambda v: v * x, 1.0) == x
