"""What was not selected has no say: not in its value, its slope, nor the slope of its slope.

The reported cases stand in tests/conformance/test_masks.py or here; around each are the programs
that somebody with the same need would write next.
"""

import math
import random

import numpy as np
import pytest

import anabranch as ab

nan, inf = math.nan, math.inf


def total(f):
    return lambda *xs: ab.sum(f(*xs))


def log2(x):
    return ab.log(x) / math.log(2.0)


def norm(x, axis=None):
    return ab.sqrt(ab.sum(x * x, axis=axis))


# Functions with a slope that is infinite or NaN at 0; at 2.25 they are smooth.
SINGULAR = {
    "sqrt": ab.sqrt,
    "log": ab.log,
    "log2": log2,
    "reciprocal": lambda x: 1.0 / x,
    "zero over zero": lambda x: ab.sin(x) / x,
    "inverse square": lambda x: x**-2,
    "broken power": lambda x: x**0.25,
    "power of itself": lambda x: x**x,
    "power of zero": lambda x: ab.power(0.0 * x, x),
    "entropy": lambda x: x * ab.log(x),
    "root of a square": lambda x: ab.sqrt(x * x),
    "root of a root": lambda x: ab.sqrt(ab.sqrt(x)),
    "log of a sigmoid's rest": lambda x: ab.log(1.0 - ab.exp(-x)),
    "exp of a reciprocal": lambda x: ab.exp(1.0 / x),
}

# Spellings of "f where x > 1, else 0".
SPELLINGS = {
    "where": lambda f, x: ab.where(x > 1.0, f(x), 0.0),
    "where, turned round": lambda f, x: ab.where(x <= 1.0, 0.0, f(x)),
    "where of where": lambda f, x: ab.where(x > 0.5, ab.where(x > 1.0, f(x), 0.0), 0.0),
    "branch in a list": lambda f, x: ab.where(x > 1.0, *[f(x), 0.0]),
    "mask outside a product": lambda f, x: ab.where(x > 1.0, 2.0 * f(x) * 0.5, 0.0),
    "safe input": lambda f, x: ab.where(x > 1.0, f(ab.where(x > 1.0, x, 1.0)), 0.0),
}


@pytest.mark.slow
@pytest.mark.proves("F-05")
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_each_spelling_of_a_mask_agrees_with_a_python_if(grad, spelling):
    for name, f in SINGULAR.items():
        found = grad(total(lambda x, f=f: SPELLINGS[spelling](f, x)))([0.0, 2.25])
        alone = float(ab.grad(f)(2.25))
        assert found[0] == 0.0, name
        assert found[1] == pytest.approx(alone, rel=1e-14), name


@pytest.mark.proves("F-13")
@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("name", SINGULAR)
def test_no_order_lets_a_singular_branch_in(noiseless, name, order):
    f = SINGULAR[name]
    masked, alone = lambda x: ab.where(x > 1.0, f(x), 0.0), f
    for _ in range(order):
        masked, alone = ab.grad(masked), ab.grad(alone)
    for way in (masked, ab.compile(masked), ab.compile(masked, passes=())):
        assert float(way(0.0)) == 0.0
        assert float(way(2.25)) == pytest.approx(float(alone(2.25)), rel=1e-11)


def forward(f):
    return lambda x: ab.jvp(f, (x,), (np.float64(1.0),))[1]


MIXES = ["RR", "RF", "FR", "FF", "RRR", "RFR", "FRF", "FFF", "RRF", "FFR"]


@pytest.mark.proves("F-13")
@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("name", ["sqrt", "log", "reciprocal", "broken power", "power of itself"])
def test_every_mix_of_modes_protects(noiseless, name, mix):
    def masked(x):
        return ab.where(x > 0.0, SINGULAR[name](x), 0.0)

    f, alone = masked, SINGULAR[name]
    for mode in mix:
        f, alone = (ab.grad(f) if mode == "R" else forward(f)), ab.grad(alone)
    assert float(f(np.float64(0.0))) == 0.0
    assert float(f(np.float64(2.25))) == pytest.approx(float(alone(2.25)), rel=1e-12)


# Values that are selected by something else than `where`.
SELECTED = {
    "an index": lambda x, f: f(x)[1],
    "a slice": lambda x, f: ab.sum(f(x)[1:]),
    "a negative step": lambda x, f: ab.sum(f(x)[::-1][:1]),
    "take": lambda x, f: ab.sum(ab.take(f(x), np.array([1]))),
    "take with a repeat": lambda x, f: ab.sum(ab.take(f(x), np.array([1, 1]))) / 2,
    "the rest of a stop": lambda x, f: ab.stop_gradient(f(x)[0]) * 0.0 + f(x)[1],
}
PRODUCTS = {
    "a product with 0 and 1": lambda x, f: ab.sum(np.array([0.0, 1.0]) * f(x)),
    "a weight of 0": lambda x, f: 0.0 * f(x)[0] + f(x)[1],
    "a mask from a comparison": lambda x, f: ab.sum((x > 1.0) * f(x)),
    "a one-hot row": lambda x, f: ab.sum(ab.one_hot(np.array(1), 2) * f(x)),
}
FINITE_AT_ZERO = ["sqrt", "broken power", "root of a square", "root of a root"]


@pytest.mark.parametrize("selection", SELECTED)
def test_an_element_that_is_left_out_gets_exactly_zero(grad, selection):
    for name in FINITE_AT_ZERO:
        f = SINGULAR[name]
        found = grad(lambda x, f=f: SELECTED[selection](x, f))([0.0, 2.25])
        assert found[0] == 0.0, name
        assert found[1] == pytest.approx(float(ab.grad(f)(2.25)), rel=1e-14), name


@pytest.mark.parametrize("selection", PRODUCTS)
@pytest.mark.parametrize("name", FINITE_AT_ZERO)
def test_a_product_is_a_mask_in_reverse_mode_only(noiseless, selection, name):
    """Forward, an infinite tangent arrives at the weight 0, and infinities that arrive are told."""

    def f(x):
        return PRODUCTS[selection](x, SINGULAR[name])

    x = np.array([0.0, 2.25])
    for way in (ab.grad(f), ab.compile(ab.grad(f)), ab.compile(ab.grad(f), passes=())):
        assert way(x).tolist() == [0.0, pytest.approx(float(ab.grad(SINGULAR[name])(2.25)))]
    # A bool that is cast drops what it meets; the root of a square has a tangent of 0 already.
    if selection != "a mask from a comparison" and name != "root of a square":
        assert np.isnan(ab.jvp(f, (x,), (np.array([1.0, 0.0]),))[1])


@pytest.mark.parametrize("selection", ["an index", "a slice", "take", "a one-hot row"])
def test_an_element_that_is_left_out_stays_out_at_second_order(noiseless, selection):
    def slope(x):
        return ab.sum(ab.grad(lambda v: (SELECTED | PRODUCTS)[selection](v, ab.sqrt))(x))

    for way in (ab.grad(slope), ab.compile(ab.grad(slope))):
        found = way(np.array([0.0, 4.0]))
        assert found.tolist() == [0.0, -1 / 32]


# A minus infinity is the usual way to leave something out of a maximum or a softmax.


@pytest.mark.parametrize(
    "f",
    [
        lambda x, keep: ab.max(ab.where(keep, ab.sqrt(x), -inf)),
        lambda x, keep: ab.logsumexp(ab.where(keep, ab.sqrt(x), -inf)),
        lambda x, keep: ab.sum(ab.softmax(ab.where(keep, ab.sqrt(x), -inf)) * x),
        lambda x, keep: ab.log_softmax(ab.where(keep, ab.sqrt(x), -inf))[-1],
        lambda x, keep: ab.maximum(ab.max(ab.where(keep, ab.log(x), -inf)), -inf),
    ],
)
def test_minus_infinity_leaves_out_what_is_singular(grad, f):
    keep = np.array([False, True, True])
    found = grad(lambda x: f(x, keep))([0.0, 2.25, 1.0])
    alone = ab.grad(lambda x: f(x, np.array([True, True])))(np.array([2.25, 1.0]))
    assert found[0] == 0.0
    assert found[1:] == pytest.approx(alone, rel=1e-13, abs=1e-16)


@pytest.mark.proves("F-07")
@pytest.mark.parametrize("hole", [nan, inf, -inf])
@pytest.mark.parametrize(
    "loss",
    [
        lambda r: r**2,
        lambda r: ab.square(r),
        lambda r: ab.absolute(r),
        lambda r: ab.sqrt(1.0 + r * r) - 1.0,
        lambda r: ab.where(ab.absolute(r) < 1.0, 0.5 * r * r, ab.absolute(r) - 0.5),
        lambda r: ab.log(ab.exp(r) + ab.exp(-r)),
    ],
)
def test_holes_in_the_data_add_nothing_to_any_loss(grad, loss, hole):
    y = np.array([hole, 1.0, 4.0])
    keep = np.isfinite(y)
    outside = grad(lambda x: ab.sum(ab.where(keep, loss(x - y), 0.0)))([1.0, 2.0, 1.5])
    inside = grad(lambda x: ab.sum(loss(ab.where(keep, x - y, 0.0))))([1.0, 2.0, 1.5])
    alone = ab.grad(lambda x: ab.sum(loss(x - y[1:])))(np.array([2.0, 1.5]))
    assert outside[0] == inside[0] == 0.0
    assert outside[1:] == pytest.approx(alone, rel=1e-14)
    assert inside[1:] == pytest.approx(alone, rel=1e-14)


def test_a_mean_over_what_is_there(grad):
    y = np.array([[nan, 1.0], [3.0, nan]])
    there = ~np.isnan(y)

    def loss(x):
        return ab.sum(ab.where(there, (x - y) ** 2, 0.0)) / ab.sum(ab.astype(there, ab.float64))

    assert grad(loss)([[1.0, 2.0], [2.0, 5.0]]).tolist() == [[0.0, 1.0], [-1.0, 0.0]]


@pytest.mark.parametrize("order", [1, 2])
def test_holes_reach_no_weight_that_is_shared_by_all_rows(noiseless, order):
    """Through elementwise products and sums; a matmul would have to be taken apart."""
    x, y = np.array([[1.0, 2.0], [3.0, 1.0]]), np.array([nan, 1.0])

    def loss(w):
        return ab.sum(ab.where(np.isnan(y), 0.0, (ab.sum(x * w, axis=1) - y) ** 2))

    w = np.array([0.5, -0.5])
    f, wanted = loss, lambda w: (ab.sum(x[1] * w) - y[1]) ** 2
    for _ in range(order - 1):
        f, wanted = total(ab.grad(f)), total(ab.grad(wanted))
    assert ab.grad(f)(w).tolist() == ab.grad(wanted)(w).tolist()
    assert ab.compile(ab.grad(f))(w).tolist() == ab.grad(wanted)(w).tolist()


# Sharing.


@pytest.mark.proves("F-09")
def test_a_value_that_is_shared_and_one_that_is_written_twice_agree(grad):
    a = np.asarray(-inf)

    def shared(mu):
        v = (a - mu) ** 2
        return ab.where(a == -inf, mu, ab.where(a >= 0, v, -v))

    def twice(mu):
        return ab.where(a == -inf, mu, ab.where(a >= 0, (a - mu) ** 2, -((a - mu) ** 2)))

    assert grad(shared)(0.0) == 1.0
    assert grad(twice)(0.0) == 1.0


@pytest.mark.slow
@pytest.mark.proves("F-09")
@pytest.mark.parametrize("passes", [(), ("prune",), ("merge",), None], ids=str)
@pytest.mark.parametrize("name", SINGULAR)
def test_sharing_changes_nothing_with_any_passes(noiseless, name, passes):
    f = SINGULAR[name]

    def shared(x):
        v = f(x)
        return ab.where(x > 1.0, v * v, ab.where(x > 2.0, -v, v - v) * 0.0)

    def twice(x):
        return ab.where(x > 1.0, f(x) * f(x), ab.where(x > 2.0, -f(x), f(x) - f(x)) * 0.0)

    for x in (0.0, 2.25):
        found = [float(ab.compile(ab.grad(g), passes=passes)(x)) for g in (shared, twice)]
        assert found[0] == pytest.approx(found[1], rel=1e-14)
        assert found[0] == pytest.approx(float(ab.grad(shared)(x)), rel=1e-14)
    if name != "zero over zero":
        assert math.isfinite(found[0])


@pytest.mark.proves("F-11")
@pytest.mark.parametrize("renormalised", [False, True])
@pytest.mark.parametrize("fill", ["zero weight", "minus infinity"])
def test_the_entropy_of_a_masked_distribution(grad, fill, renormalised):
    mask = np.array([True, True, False])

    def entropy(logits):
        if fill == "zero weight":
            e = ab.where(mask, ab.exp(logits), 0.0)
            p = e / ab.sum(e)
        else:
            p = ab.softmax(ab.where(mask, logits, -inf))
        if renormalised:
            p = p / ab.sum(p)
        return -ab.sum(ab.where(mask, p * log2(p), 0.0))

    with np.errstate(all="ignore"):
        assert round(float(entropy(np.array([1.0, 2.0, 3.0]))), 6) == 0.839942
    found = grad(entropy)([1.0, 2.0, 3.0])
    assert np.round(found, 6).tolist() == [0.283651, -0.283651, 0.0]


# One number for the whole array, as a floor, a distance or a spread.


def hypot(v):
    return ab.sqrt(v[0] * v[0] + v[1] * v[1])


FLOORS = {
    "maximum": lambda d: ab.maximum(d, 1e-10),
    "maximum, swapped": lambda d: ab.maximum(1e-10, d),
    "clip": lambda d: ab.clip(d, 1e-10, None),
    "where": lambda d: ab.where(d > 1e-10, d, 1e-10),
    "relu": lambda d: ab.relu(d - 1e-10),
    "minimum of negatives": lambda d: -ab.minimum(-d, -1e-10),
}


@pytest.mark.proves("F-15")
@pytest.mark.parametrize("floor", FLOORS)
def test_a_floor_stops_the_infinite_slope_of_a_distance(grad, floor):
    f = grad(lambda v: FLOORS[floor](hypot(v)))
    assert f([0.0, 0.0]).tolist() == [0.0, 0.0]
    assert f([3.0, -4.0]) == pytest.approx([0.6, -0.8], rel=1e-15)


@pytest.mark.proves("F-15")
@pytest.mark.parametrize("floor", FLOORS)
def test_both_modes_and_differences_agree_around_a_floor(floor):
    rng = np.random.default_rng(7)
    for point in (*rng.normal(size=(5, 2)), np.array([1e-12, 2e-12]), np.zeros(2)):
        report = ab.check_gradients(lambda v: FLOORS[floor](hypot(v)), point)
        assert report.ok
        with np.errstate(all="ignore"):
            t = rng.normal(size=2)
            forward = ab.jvp(lambda v: FLOORS[floor](hypot(v)), (point,), (t,))[1]
            reverse = ab.grad(lambda v: FLOORS[floor](hypot(v)))(point) @ t
        assert forward == pytest.approx(reverse, rel=1e-14)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ab.bfloat16], ids=str)
def test_narrow_floats_are_protected_too(grad, dtype):
    f = total(lambda x: ab.where(x > 1.0, ab.sqrt(x), 0.0))
    found = grad(f)(np.array([0.0, 4.0], dtype))
    assert found.dtype == dtype
    assert found.tolist() == [0.0, 0.25]


def test_an_infinity_that_was_selected_is_told_as_it_is(grad):
    """Protection is for what was left out; what counts is not embellished."""
    assert grad(total(lambda x: ab.where(x >= 0.0, ab.sqrt(x), 0.0)))([0.0, 4.0]).tolist() == [
        inf,
        0.25,
    ]
    assert np.isnan(grad(total(lambda x: ab.where(x < 0.0, ab.sqrt(x), 0.0)))([-1.0]))


SMOOTH = [ab.sin, ab.tanh, ab.sigmoid, ab.exp, lambda x: x * x, lambda x: 2.0 * x + 1.0]
PAIRED = [ab.add, ab.subtract, ab.multiply, ab.maximum, lambda a, b: a / (2.0 + b * b)]


def drawn_program(seed):
    """A few ops, half of them singular, of which the elements above 0 are taken."""
    rng = random.Random(seed)
    steps = []
    for size in range(1, rng.randint(2, 6)):
        table = rng.choice([list(SINGULAR.values()), SMOOTH, PAIRED])
        steps.append((rng.choice(table), table is PAIRED, rng.randrange(size), rng.randrange(size)))

    def program(x):
        values = [x]
        for f, is_paired, i, j in steps:
            values.append(f(values[i], values[j]) if is_paired else f(values[i]))
        return ab.sum(ab.where(x > 0.0, values[-1], 0.0))

    return program


@pytest.mark.parametrize("seed", range(60))
def test_programs_by_chance_are_protected_in_both_modes_and_at_second_order(noiseless, seed):
    f = drawn_program(seed)
    x, inside, v = np.array([0.0, 0.8, 1.7]), np.array([0.8, 1.7]), np.array([0.3, -1.0, 0.5])
    slope = ab.grad(f)
    wanted = slope(inside)
    found = slope(x)
    assert found[0] == 0.0
    assert found[1:] == pytest.approx(wanted, rel=1e-12, nan_ok=True)
    along = ab.jvp(slope, (x,), (v,))[1]
    back = ab.grad(lambda x: ab.sum(slope(x) * v))(x)
    assert along[0] == back[0] == 0.0
    if np.isfinite([f(inside), *wanted]).all():
        pushed = ab.jvp(f, (x,), (v,))[1]
        assert pushed == pytest.approx(wanted @ v[1:], rel=1e-9, abs=1e-12)
        alone = ab.jvp(slope, (inside,), (v[1:],))[1]
        assert along[1:] == pytest.approx(alone, rel=1e-10, abs=1e-14, nan_ok=True)
        assert along == pytest.approx(back, rel=1e-8, abs=1e-10, nan_ok=True)
