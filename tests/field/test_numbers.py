"""Numbers: no length, dtype or order of work changes what IEEE 754 and mathematics say."""

import math
from itertools import product

import numpy as np
import pytest

import anabranch as ab

nan, inf = math.nan, math.inf
LENGTHS = range(1, 18)  # through the body and the tail of vectors of 2, 4, 8 and 16


# Powers and squares at 0.

SQUARES = {
    "power": lambda r: r**2,
    "float power": lambda r: r**2.0,
    "ab.power": lambda r: ab.power(r, 2),
    "square": ab.square,
    "product": lambda r: r * r,
}


@pytest.mark.proves("F-25")
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ab.bfloat16], ids=str)
@pytest.mark.parametrize("square", SQUARES)
def test_a_squared_error_of_zero_has_the_slope_zero(grad, square, dtype):
    found = grad(lambda p, t: ab.sum(SQUARES[square](p - t)))(
        np.zeros(3, dtype), np.zeros(3, dtype)
    )
    assert found.dtype == dtype
    assert found.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.proves("F-25")
@pytest.mark.parametrize("square", SQUARES)
def test_an_optimiser_that_divides_by_the_root_of_squares_stays_finite(square):
    """Adam by hand, from a minimum: all its quantities are 0, and 0 they stay."""
    p = mean = spread = np.float32(0.0)
    for _ in range(3):
        g = ab.grad(lambda p: SQUARES[square](p - np.float32(0.0)))(p)
        mean, spread = 0.9 * mean + 0.1 * g, 0.999 * spread + 0.001 * g * g
        p = p - np.float32(0.1) * mean / (np.sqrt(spread) + np.float32(1e-8))
    assert float(p) == 0.0


@pytest.mark.proves("F-25")
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 2.0, 3.0])
def test_no_order_of_a_whole_power_is_nan_at_zero(n):
    f = lambda x: x**n  # noqa: E731
    for order in range(1, 6):
        f = ab.grad(f)
        wanted = math.factorial(int(n)) if order == n else 0.0
        assert float(f(0.0)) == wanted
        assert float(ab.compile(f)(0.0)) == wanted


def norm(x):
    return ab.sqrt(ab.sum(x * x))


@pytest.mark.proves("F-17")
@pytest.mark.parametrize("square", SQUARES)
def test_the_square_of_a_norm_has_the_slope_zero_at_zero(grad, square):
    assert grad(lambda x: SQUARES[square](norm(x)))([0.0, 0.0]).tolist() == [0.0, 0.0]
    assert grad(lambda x: SQUARES[square](norm(x)))([3.0, -4.0]) == pytest.approx([6.0, -8.0])


@pytest.mark.proves("F-37")
@pytest.mark.parametrize("x", [-40.0, -20.0, -700.0, 0.5])
def test_the_slope_of_a_difference_from_one_does_not_cancel(grad, x):
    """It is exp(x) itself, and not the rounded result plus 1."""
    for f in (
        lambda x: ab.exp(x) - 1.0,
        lambda x: ab.where(x > 1.0, x, ab.exp(x) - 1.0),
        lambda x: 1.0 - (2.0 - ab.exp(x)),
    ):
        assert float(grad(f)(x)) == pytest.approx(math.exp(x), rel=1e-15, abs=0.0)
    if x == -40.0:
        assert f"{float(grad(lambda x: ab.exp(x) - 1.0)(x)):.5e}" == "4.24835e-18"


# Sums of exponentials, of any length.


def logaddexp(a, b):
    """As a user would write it, on pairs."""
    return ab.logsumexp(
        ab.reshape(a, (-1, 1)) * [[1.0, 0.0]] + ab.reshape(b, (-1, 1)) * [[0.0, 1.0]], axis=1
    )


@pytest.mark.proves("F-33")
@pytest.mark.parametrize("n", LENGTHS)
def test_a_sum_of_nothing_is_minus_infinity_at_every_length(noiseless, n):
    nothing = np.full(n, -inf)
    assert ab.logsumexp(nothing) == -inf
    assert ab.compile(ab.logsumexp)(nothing) == -inf
    assert ab.logsumexp(np.full((n, 3), -inf), axis=0).tolist() == [-inf] * 3
    assert ab.logsumexp(np.full((3, n), -inf), axis=1).tolist() == [-inf] * 3
    assert ab.grad(ab.logsumexp)(nothing).tolist() == [0.0] * n


@pytest.mark.proves("F-33")
@pytest.mark.parametrize("n", LENGTHS)
def test_the_length_changes_no_value_and_no_slope(n):
    x = np.linspace(-700.0, 700.0, n) if n > 1 else np.zeros(1)
    wanted = x.max() + math.log(math.fsum(np.exp(x - x.max())))
    assert float(ab.logsumexp(x)) == pytest.approx(wanted, rel=1e-15)
    shares = np.exp(x - wanted)
    assert ab.grad(ab.logsumexp)(x) == pytest.approx(shares, rel=1e-12, abs=1e-300)
    assert ab.grad(ab.logsumexp)(x).sum() == pytest.approx(1.0, rel=1e-14)


@pytest.mark.proves("F-31")
def test_a_sum_of_nothing_has_the_slope_zero_by_what_is_added_to_it(grad):
    """The convention: no element matters. A finite element takes the whole slope."""
    for f in (
        lambda x: ab.logsumexp(np.array([-inf, -inf]) + x),
        lambda x: ab.logsumexp(ab.where(np.array([True, False]), -inf, -inf + x)),
        lambda x: ab.logsumexp(-inf + ab.broadcast_to(x, (3, 2)), axis=0)[1],
    ):
        assert float(grad(f)(1.0)) == 0.0
    for f in (
        lambda x: ab.logsumexp(np.array([-inf, 0.0]) + x),
        lambda x: ab.logsumexp(ab.where(np.array([True, False]), -inf, x)),
    ):
        assert float(grad(f)(1.0)) == 1.0


POINTWISE = {
    "exp": (ab.exp, [-inf, -1.0, -0.0, 0.0, 1.0, inf, nan, 5e-324, 709.0]),
    "log": (ab.log, [0.0, 1.0, inf, nan, 5e-324, 2.0, 1e308]),
    "sqrt": (ab.sqrt, [0.0, -0.0, 4.0, inf, nan, 5e-324]),
    "sigmoid": (ab.sigmoid, [-inf, -800.0, 0.0, 800.0, inf, nan]),
    "tanh": (ab.tanh, [-inf, -20.0, -0.0, 0.0, 20.0, inf, nan]),
    "sin": (ab.sin, [-0.0, 0.0, 1.0, nan, 1e22]),
    "reciprocal": (lambda x: 1.0 / x, [-0.0, 0.0, inf, -inf, nan, 5e-324]),
    "relu": (ab.relu, [-0.0, -1.0, inf, -inf, nan]),
    "maximum": (lambda x: ab.maximum(x, 1.0), [-0.0, 1.0, inf, -inf, nan]),
    "clip": (lambda x: ab.clip(x, -1.0, 1.0), [-0.0, 1.0, inf, -inf, nan]),
    "power": (lambda x: x**3, [-0.0, -inf, inf, nan, 2.0]),
    "logaddexp": (lambda x: ab.logsumexp(ab.reshape(x, (-1, 1)) + np.zeros(2), axis=1),
                  [-inf, 0.0, 5.0, -745.0]),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.proves("F-33")
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 9, 17])
@pytest.mark.parametrize("name", POINTWISE)
def test_an_element_has_the_same_bits_at_every_place_of_every_length(noiseless, name, n):
    f, values = POINTWISE[name]
    ran = ab.compile(f)
    slope = ab.compile(ab.grad(lambda x: ab.sum(f(x))))
    for value in values:
        alone = [np.asarray(way(np.array([value]))).tobytes() for way in (f, ran)]
        for filling in (value, 0.5):
            x = np.full(n, filling)
            x[-1] = value
            assert [np.asarray(way(x))[-1:].tobytes() for way in (f, ran)] == alone
            assert slope(x)[-1:].tobytes() == slope(np.array([value])).tobytes()


# A sigmoid that is written out.


@pytest.mark.proves("F-35")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_slope_of_a_sigmoid_far_out(grad, dtype):
    x = np.array([-200.0, -400.0 / 3, -200.0 / 3, 0.0], dtype)
    found = grad(lambda x: ab.sum(ab.sigmoid(x)))(x)
    wanted = np.exp(x.astype(np.float64)) / (1 + np.exp(x.astype(np.float64))) ** 2
    if dtype == np.float32:
        wanted[wanted < 1e-45] = 0.0
        assert f"{found[2]:.2e}" == "1.11e-29"
    assert found == pytest.approx(wanted, rel=1e-5, abs=0.0)
    assert found[3] == 0.25


SIGMOIDS = {
    "reciprocal": lambda x: 1.0 / (1.0 + ab.exp(-x)),
    "turned round": lambda x: 1.0 / (ab.exp(-x) + 1.0),
    "divide": lambda x: ab.divide(1.0, 1.0 + ab.exp(-x)),
    "power": lambda x: (1.0 + ab.exp(-x)) ** -1,
}


@pytest.mark.proves("F-35")
@pytest.mark.parametrize("spelling", SIGMOIDS)
def test_a_sigmoid_that_is_written_out_is_never_nan(noiseless, spelling):
    """Transforms restate it, so its slope is the sigmoid's; backward keeps the spelling."""
    x = np.array([-200.0, -400.0 / 3, -200.0 / 3, 0.0], np.float32)
    leaf = ab.tensor(x, requires_grad=True)
    ab.sum(SIGMOIDS[spelling](leaf)).backward()
    f = ab.grad(lambda x: ab.sum(SIGMOIDS[spelling](x)))
    for found in (leaf.grad, f(x), ab.compile(f)(x), ab.compile(f, passes=())(x)):
        assert found[:2].tolist() == [0.0, 0.0]
        assert 0.0 <= found[2] < 1.2e-29
        assert found[3] == 0.25
    assert {f"{found[2]:.2e}" for found in (f(x), ab.compile(f)(x))} == {"1.11e-29"}


# Ties in half precision, ramps and maxima.


@pytest.mark.proves("F-39")
@pytest.mark.parametrize("n", [3, 2_049, 65_520, 70_000])
@pytest.mark.parametrize("dtype", [np.float16, ab.bfloat16, np.float32], ids=str)
def test_shares_of_many_equal_elements(dtype, n):
    x = np.ones(n, dtype)
    for slope in (ab.grad(ab.max), ab.compile(ab.grad(ab.max))):
        share = slope(x)
        assert share.dtype == dtype
        assert (share == np.asarray(1 / n).astype(dtype)).all()
    if n == 70_000:
        assert float(share[0]) == pytest.approx(1.42857e-5, rel=2e-3)


@pytest.mark.proves("F-39")
@pytest.mark.parametrize("dtype", [np.float16, ab.bfloat16], ids=str)
def test_shares_along_an_axis_and_sums_and_means_in_half_precision(dtype):
    x = np.ones((2, 70_000), dtype)
    share = ab.grad(lambda x: ab.sum(ab.max(x, axis=1)))(x)
    assert (share == np.asarray(1 / 70_000).astype(dtype)).all()
    assert (ab.grad(ab.mean)(x) == np.asarray(1 / 140_000).astype(dtype)).all()
    assert float(ab.mean(x)) == 1.0
    assert float(ab.sum(np.full(4096, 1.0, dtype))) == 4096.0


def at_zero(grad, f):
    return float(grad(f)(0.0))


@pytest.mark.proves("F-41")
def test_three_ramps_have_three_slopes_in_every_way(grad):
    assert at_zero(grad, ab.relu) == 0.0
    assert at_zero(grad, lambda x: ab.maximum(x, 0.0)) == 0.5
    assert at_zero(grad, lambda x: ab.maximum(0.0, x)) == 0.5
    assert at_zero(grad, lambda x: ab.clip(x, 0.0, None)) == 1.0
    assert at_zero(grad, lambda x: ab.clip(x, min=0.0)) == 1.0
    assert at_zero(grad, lambda x: -ab.minimum(-x, 0.0)) == 0.5


@pytest.mark.proves("F-41")
def test_ramps_with_a_ceiling_follow_the_same_table(grad):
    """relu6 by clip keeps the slope 1 at both ends; by minimum of a ramp it is a tie at 6."""
    for at in (0.0, 6.0):
        assert float(grad(lambda x: ab.clip(x, 0.0, 6.0))(at)) == 1.0
    assert float(grad(lambda x: ab.minimum(ab.relu(x), 6.0))(6.0)) == 0.5
    assert float(grad(lambda x: ab.minimum(ab.relu(x), 6.0))(0.0)) == 0.0
    hardswish = lambda x: x * ab.clip(x + 3.0, 0.0, 6.0) / 6.0  # noqa: E731
    assert float(grad(hardswish)(3.0)) == 1.5
    assert float(grad(hardswish)(-3.0)) == -0.5


@pytest.mark.proves("F-43")
@pytest.mark.parametrize("values", [[1, 1], [1, 2, 2, 2], [0, 0, 0], [3, 3, 1, 3, 3], [-0.0, 0.0]])
def test_any_split_of_a_tie_sums_to_one(grad, values):
    x = np.array(values, np.float64)
    pool = {
        "max": ab.max,
        "max of negatives": lambda x: -ab.max(-x),
        "min of negatives": lambda x: -ab.min(-x),
        "min": ab.min,
        "last of cummax": lambda x: ab.cummax(x)[-1],
        "first of cummax from behind": lambda x: ab.cummax(x, reverse=True)[0],
        "max along an axis": lambda x: ab.sum(ab.max(ab.reshape(x, (1, -1)), axis=1)),
        "a window": lambda x: ab.max(ab.pad(x, 1, constant_values=-inf)),
    }
    for name, f in pool.items():
        share = grad(f)(x)
        best = x.min() if name in ("max of negatives", "min") else x.max()
        assert share.tolist() == ((x == best) / (x == best).sum()).tolist(), name
        assert share.sum() == pytest.approx(1.0)


# NaN is never dropped.

REDUCTIONS = {
    "max": ab.max,
    "min": ab.min,
    "min of negatives": lambda x: -ab.max(-x),
    "prod": ab.prod,
    "ptp": ab.ptp,
    "median": ab.median,
    "quantile": lambda x: ab.quantile(x, 0.3),
    "std": ab.std,
    "var": ab.var,
    "average": lambda x: ab.average(x, weights=[1.0, 2.0, 0.0, 3.0]),
    "last of cummax": lambda x: ab.cummax(x)[-1],
    "last of cummin": lambda x: ab.cummin(x)[-1],
    "last of cumsum": lambda x: ab.cumsum(x)[-1],
    "last of cumprod": lambda x: ab.cumprod(x)[-1],
    "last of cumlogsumexp": lambda x: ab.cumlogsumexp(x)[-1],
    "last of sort": lambda x: ab.sort(x)[-1],
    "largest of a few": lambda x: ab.top_k(x, 1)[0][0],
    "found by argmax": lambda x: ab.take(x, ab.argmax(x)),
    "found by argmin": lambda x: ab.take(x, ab.argmin(x)),
    "sum": ab.sum,
    "mean": ab.mean,
    "logsumexp": ab.logsumexp,
    "softmax": lambda x: ab.sum(ab.softmax(x)),
    "log_softmax": lambda x: ab.sum(ab.log_softmax(x)),
    "max after a sort of halves": lambda x: ab.max(ab.maximum(x[:2], x[2:])),
    "matmul": lambda x: x @ x,
    "relu": lambda x: ab.sum(ab.relu(x)),
    "clip": lambda x: ab.sum(ab.clip(x, 0.0, 1.0)),
    "sigmoid": lambda x: ab.sum(ab.sigmoid(x)),
}


@pytest.mark.slow
@pytest.mark.proves("F-115")
@pytest.mark.parametrize("passes", [None, ()], ids=["default passes", "as built"])
@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("name", REDUCTIONS)
def test_nan_stays_nan_in_every_reduction(noiseless, name, place, passes):
    for rest in ([1.0, 3.0, 2.0], [-inf, -inf, -inf], [inf, 1.0, -inf]):
        x = np.insert(rest, place, nan)
        assert math.isnan(REDUCTIONS[name](x))
        assert math.isnan(ab.compile(REDUCTIONS[name], passes=passes)(x))


@pytest.mark.proves("F-115")
@pytest.mark.parametrize("f", [ab.maximum, ab.minimum])
@pytest.mark.parametrize("passes", [None, ()], ids=["default passes", "as built"])
def test_nan_wins_over_a_number_on_either_side(noiseless, f, passes):
    run = ab.compile(f, passes=passes)
    for one, dtype in product((5.0, inf, -inf), (np.float64, np.float32, np.float16, ab.bfloat16)):
        for a, b in ((nan, one), (one, nan)):
            assert math.isnan(f(np.asarray(a, dtype), np.asarray(b, dtype)))
            assert math.isnan(run(np.asarray(a, dtype), np.asarray(b, dtype)))
    assert math.isnan(f(ab.tensor(5.0), nan))
    assert math.isnan(ab.compile(lambda x: f(x, nan), passes=passes)(5.0))


@pytest.mark.parametrize("low, high", [(nan, 2.0), (0.0, nan), (nan, nan)])
def test_a_bound_that_is_nan_shows(low, high):
    """As in NumPy: it is not known whether the value is inside."""
    low, high = np.float64(low), np.float64(high)
    assert math.isnan(ab.clip(np.float64(1.0), low, high))
    assert math.isnan(ab.compile(ab.clip)(np.float64(1.0), low, high))
