"""A branch that was not taken cannot poison a gradient, at any order, in any mode or spelling."""

import math
from functools import partial
from itertools import product

import numpy as np
import pytest

import anabranch as ab

nan, inf = math.nan, math.inf


def total(f):
    return lambda *xs: ab.sum(f(*xs))


@pytest.mark.proves("F-01")
def test_an_infinite_slope_of_the_other_branch_stays_out(grad):
    f = total(lambda x: ab.where(x == 0.0, x / 2, ab.sqrt(x) + 1))
    assert grad(f)([16.0, 0.0]).tolist() == [0.125, 0.5]


@pytest.mark.proves("F-03")
def test_zero_over_zero_in_the_other_branch_stays_out(grad):
    f = total(lambda x, t: ab.where(x >= t, x, t * (x / t)))
    assert grad(f)(1.0, 0.0) == 1.0


def log2(x):
    return ab.log(x) / math.log(2.0)


@pytest.mark.proves("F-05")
def test_a_mask_and_a_python_if_agree(grad):
    x = [0.0, 2.0, 3.0]
    found = grad(total(lambda x: ab.where(x > 2.0, log2(x), 2 * x)))(x)
    one_by_one = [ab.grad(lambda v: log2(v) if v > 2.0 else 2 * v)(v) for v in x]
    assert found == pytest.approx([2.0, 2.0, 1 / (3 * math.log(2.0))], rel=1e-14)
    assert found == pytest.approx(one_by_one, rel=1e-14)


@pytest.mark.proves("F-07")
@pytest.mark.parametrize(
    "loss",
    [
        lambda x, y, m: ab.where(m, x - y, 0.0) ** 2,
        lambda x, y, m: ab.where(m, (x - y) ** 2, 0.0),
        lambda x, y, m: ab.square(ab.where(m, x - y, 0.0)),
        lambda x, y, m: ab.where(m, ab.square(x - y), 0.0),
    ],
)
def test_skipped_targets_add_nothing_wherever_the_mask_stands(grad, loss):
    y = np.array([nan, 1.0])
    assert grad(lambda x: ab.sum(loss(x, y, ~np.isnan(y))))([1.0, 2.0]).tolist() == [0.0, 2.0]


def test_masked_renormalised_entropy(grad):
    mask = np.array([True, True, False])

    def entropy(logits):
        e = ab.where(mask, ab.exp(logits), 0.0)
        p = e / ab.sum(e)
        p = p / ab.sum(p)
        return -ab.sum(ab.where(mask, p * log2(p), 0.0))

    with np.errstate(all="ignore"):
        assert float(entropy(np.array([1.0, 2.0, 3.0]))) == pytest.approx(0.839942, abs=1e-6)
    found = grad(entropy)([1.0, 2.0, 3.0])
    assert found == pytest.approx([0.283651, -0.283651, 0.0], abs=1e-6)


@pytest.mark.proves("F-13")
@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("at", [-1.0, -3.0, [-1.0, -3.0]])
def test_no_order_lets_the_other_branch_in(grad, order, at):
    f = total(lambda x: ab.where(x > 0.0, ab.sqrt(x), 0.0))
    for _ in range(order - 1):
        f = total(ab.grad(f))
    assert not grad(f)(at).any()


@pytest.mark.proves("F-15")
def test_a_floor_below_a_norm(grad):
    def f(v):
        x, y = v[0], v[1]
        return ab.maximum(ab.sqrt(x * x + y * y), 1e-10)

    assert grad(f)([0.0, 0.0]).tolist() == [0.0, 0.0]


def reverse_by(f, position):
    return ab.grad(f, position)


def forward_by(f, position):
    def slope(*xs):
        ts = [1.0 if i == position else 0.0 for i, _ in enumerate(xs)]
        return ab.jvp(f, xs, tuple(ts))[1]

    return slope


MODES = {"reverse": reverse_by, "forward": forward_by}


@pytest.mark.parametrize("inner, outer", list(product(MODES, MODES)))
@pytest.mark.parametrize("first, second", [(0, 1), (1, 0)])
def test_a_mixed_second_derivative_at_a_zero_cotangent_is_not_lost(inner, outer, first, second):
    """∂²(y√x)/∂x∂y at (4, 0) is 1/4: absorb keeps a derivative of its own."""

    def f(x, y):
        return y * ab.sqrt(x)

    mixed = MODES[outer](MODES[inner](f, first), second)
    assert float(mixed(4.0, 0.0)) == 0.25
    assert float(ab.compile(mixed)(4.0, 0.0)) == 0.25


@pytest.mark.parametrize("inner, outer", list(product(MODES, MODES)))
def test_a_mask_around_a_gradient_protects_as_one_inside_it(inner, outer):
    """The slope of y√x by x, masked where it is infinite: its derivative by y is 0 there."""

    def slope(x, y):
        return ab.where(x > 0.0, MODES[inner](lambda a, b: b * ab.sqrt(a), 0)(x, y), 0.0)

    with np.errstate(all="ignore"):
        assert float(MODES[outer](slope, 1)(0.0, 3.0)) == 0.0
        assert float(MODES[outer](slope, 1)(4.0, 3.0)) == 0.25
        assert float(MODES[outer](slope, 0)(0.0, 3.0)) == 0.0
        assert float(ab.compile(MODES[outer](slope, 1))(0.0, 3.0)) == 0.0


DROPPED = {
    "where": lambda x: ab.where(x > 5.0, x, 0.0),
    "maximum": lambda x: ab.maximum(x, 0.0),
    "minimum": lambda x: -ab.minimum(-x, 0.0),
    "max": lambda x: ab.max(ab.where(np.array([True, False]), x, 0.0)),
    "relu": ab.relu,
    "clip": lambda x: ab.clip(x, 0.0, None),
    "sign": lambda x: ab.sign(x) + 1.0,
}


@pytest.mark.parametrize("name", DROPPED)
def test_a_selection_drops_an_infinite_cotangent_too(grad, name):
    """√0 hands back infinity to what was not selected, here everything that depends on x."""
    assert grad(lambda x: ab.sqrt(DROPPED[name](x)))(-1.0) == 0.0


@pytest.mark.parametrize("way", ["reverse", "backward", "compiled", "as built", "tensors"])
def test_without_absorb_zero_times_infinity_is_nan_again(ways, way):
    f = ways[way](total(lambda x: ab.where(x > 0.0, ab.sqrt(x), 0.0)))
    with ab.config(absorb_zero=False):
        assert np.isnan(f(np.array([0.0, 4.0]))).tolist() == [True, False]
    assert np.asarray(f(np.array([0.0, 4.0]))).tolist() == [0.0, 0.25]


def test_without_absorb_a_tangent_of_zero_does_not_help_either():
    def slope():
        return ab.jvp(lambda x: ab.sqrt(x * 0.0), (0.0,), (1.0,))[1]

    with ab.config(absorb_zero=False):
        assert math.isnan(slope())
    assert slope() == 0.0


CHOOSERS = {
    "where": lambda x, bad: ab.where(x > 0.0, bad(x), 1.0),
    "maximum": lambda x, bad: ab.maximum(ab.where(x > 0.0, bad(x), -inf), 1e-300),
    "relu": lambda x, bad: ab.relu(ab.where(x > 0.0, bad(x), -1.0)),
    "clip": lambda x, bad: ab.clip(ab.where(x > 0.0, bad(x), -1.0), 0.0, None),
}
SINGULAR = {
    "sqrt": ab.sqrt,
    "log": ab.log,
    "reciprocal": lambda x: 1.0 / x,
    "power": lambda x: x**0.5,
    "negative power": lambda x: x**-2,
    "x to the x": lambda x: x**x,
    "log of log": lambda x: ab.log(ab.log(x)),
    "zero over zero": lambda x: x / x,
}


@pytest.mark.slow
@pytest.mark.parametrize("chooser", CHOOSERS)
@pytest.mark.parametrize("bad", SINGULAR)
def test_no_singular_function_poisons_a_masked_element(grad, chooser, bad):
    f = total(partial(CHOOSERS[chooser], bad=SINGULAR[bad]))
    found = grad(f)([0.0, 2.5])
    assert found[0] == 0.0
    assert found[1] == pytest.approx(ab.grad(lambda x: f(x))(2.5), rel=1e-14)
