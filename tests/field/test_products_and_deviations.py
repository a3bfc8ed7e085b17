"""Products with zeros, running extrema with ties, deviations of equal numbers: at every order."""

import math
from functools import partial
from itertools import combinations

import numpy as np
import pytest

import anabranch as ab

nan, inf = math.nan, math.inf


def total(f):
    return lambda x: ab.sum(f(x))


# Products. A division by the element is the fault of the field; its neighbour is a rule that is
# right once and wrong when differentiated again.

PRODUCTS = {
    "one zero": ([2.0, 0.0, 3.0, 4.0], [0, 24, 0, 0]),
    "two zeros": ([2.0, 0.0, 0.0, 3.0], [0, 0, 0, 0]),
    "a negative zero": ([2.0, -0.0, 3.0], [0, 6, 0]),
    "nothing but zeros": ([0.0, 0.0], [0, 0]),
    "a zero alone": ([0.0], [1]),
    "no zero": ([2.0, 3.0, 4.0], [12, 8, 6]),
    "tiny and large": ([2.0**-99, 2.0**99, 2.0], [2.0**100, 2.0**-98, 1]),
}
RUNNING = {
    "first": ([0.0, 2.0, 3.0], [9, 0, 0]),
    "last": ([2.0, 3.0, 0.0], [4, 2, 6]),
    "two": ([2.0, 0.0, 0.0, 3.0], [1, 2, 0, 0]),
    "all": ([0.0, 0.0], [1, 0]),
    "none": ([2.0, 3.0], [4, 2]),
}


@pytest.mark.proves("F-27")
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=str)
@pytest.mark.parametrize("point", PRODUCTS)
def test_the_slope_of_a_product_is_that_of_the_others(grad, point, dtype):
    x, wanted = PRODUCTS[point]
    for f in (ab.prod, lambda x: x.prod(), lambda x: ab.prod(x, axis=-1, keepdims=True)[0]):
        found = grad(f)(np.array(x, dtype))
        assert found.dtype == dtype
        assert found == pytest.approx(np.array(wanted, dtype), rel=1e-15)


@pytest.mark.proves("F-27")
@pytest.mark.parametrize("point", RUNNING)
def test_the_slope_of_a_running_product(grad, point):
    x, wanted = RUNNING[point]
    assert grad(total(ab.cumprod))(x).tolist() == wanted
    backwards = grad(total(partial(ab.cumprod, reverse=True)))(x[::-1])
    assert backwards.tolist() == wanted[::-1]
    rows = grad(lambda x: ab.sum(ab.cumprod(ab.reshape(x, (-1, 1)), axis=0)))(x)
    assert rows.tolist() == wanted


@pytest.mark.proves("F-27")
def test_the_square_of_a_running_product(grad):
    assert grad(lambda x: ab.sum(ab.cumprod(x) ** 2))([1.0, 0.0]).tolist() == [2.0, 0.0]


def products_without(x, skipped):
    """The product of all elements but these, by multiplication alone."""
    return math.prod(v for i, v in enumerate(x) if i not in skipped)


@pytest.mark.proves("F-27")
@pytest.mark.parametrize("x", [p[0] for p in PRODUCTS.values()] + [[2.0, 0.0, 0.0, 0.0, 5.0]])
def test_every_second_and_third_derivative_of_a_product(x):
    n = len(x)
    second = np.zeros((n, n))
    for i, j in combinations(range(n), 2):
        second[i, j] = second[j, i] = products_without(x, (i, j))
    x = np.array(x)
    for modes in (
        ab.hessian,
        lambda f: ab.jacobian(ab.grad(f)),
        lambda f: ab.compile(ab.hessian(f)),
    ):
        found = modes(ab.prod)(x)
        assert found == pytest.approx(second, rel=1e-15)
        assert not np.diagonal(found).any()
    third = ab.jacobian(ab.hessian(ab.prod))(x)
    for i, j, k in np.ndindex(n, n, n):
        wanted = products_without(x, (i, j, k)) if len({i, j, k}) == 3 else 0.0
        assert third[i, j, k] == pytest.approx(wanted, rel=1e-15)


@pytest.mark.proves("F-27")
@pytest.mark.parametrize("point", RUNNING)
def test_every_second_derivative_of_a_running_product(point):
    x = RUNNING[point][0]
    n = len(x)
    weights = np.arange(1.0, n + 1.0)
    wanted = np.zeros((n, n))
    for i, j in combinations(range(n), 2):
        wanted[i, j] = wanted[j, i] = sum(
            weights[k] * products_without(x[: k + 1], (i, j)) for k in range(j, n)
        )
    found = ab.hessian(lambda x: ab.sum(ab.cumprod(x) * weights))(np.array(x))
    assert found == pytest.approx(wanted, rel=1e-15)


@pytest.mark.proves("F-27")
def test_zeros_in_some_lines_of_an_array():
    x = np.array([[0.0, 2.0, 3.0], [4.0, 5.0, 6.0], [0.0, 0.0, 7.0]])
    along = ab.grad(lambda x: ab.sum(ab.prod(x, axis=1)))(x)
    assert along.tolist() == [[6, 0, 0], [30, 24, 20], [0, 0, 0]]
    down = ab.grad(lambda x: ab.sum(ab.prod(x, axis=(0, -1), keepdims=True)))(x[1:2])
    assert down.tolist() == [[30, 24, 20]]
    assert ab.grad(ab.prod)(x).tolist() == np.zeros((3, 3)).tolist()


@pytest.mark.proves("F-27")
@pytest.mark.parametrize("dtype", [np.float16, ab.bfloat16], ids=str)
def test_others_whose_product_no_half_can_hold(dtype):
    """The two outer elements make 1e6, the product is 1 again: what lies between is made wide."""
    x = np.array([1000.0, 1e-6, 1000.0], dtype)
    found = ab.grad(lambda x: ab.prod(x) * 1e-3)(x)
    assert found.dtype == dtype
    assert found.astype(float) == pytest.approx([1e-6, 1e3, 1e-6], rel=0.1)


@pytest.mark.proves("F-27")
@pytest.mark.parametrize("f", [ab.prod, lambda x: ab.cumprod(x)[-1], lambda x: ab.cumprod(x)[0]])
def test_a_product_that_is_masked_out_poisons_nothing(grad, f):
    """The infinite slope of a root, the NaN of another branch: neither reaches the factors."""
    masked = grad(lambda x: ab.where(f(x) > 1e9, ab.sqrt(f(x)), 0.0))
    assert masked([2.0, 0.0, nan]).tolist() == [0.0, 0.0, 0.0]
    assert masked([0.0, 3.0, inf]).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.proves("F-27")
def test_what_comes_later_does_not_reach_an_earlier_running_value(grad):
    for f in (ab.cumprod, ab.cumsum, ab.cummax, ab.cummin, ab.cumlogsumexp):
        for later in (nan, inf, -inf, 0.0):
            assert grad(lambda x, f=f: f(x)[0])([2.0, later, 3.0]).tolist() == [1.0, 0.0, 0.0]


# Deviations.

DEVIATIONS = {
    "std": ab.std,
    "of a sample": lambda x: ab.std(x, ddof=1),
    "of a row": lambda x: ab.std(ab.reshape(x, (1, -1)), axis=1)[0],
    "method": lambda x: x.std(),
    "with a mask": lambda x: ab.std(x, where=np.ones(x.shape, bool)),
    "root of var": lambda x: ab.where(ab.var(x) == 0, 0.0, ab.sqrt(ab.var(x))),
}
EQUAL = [[1.0, 1.0], [0.1, 0.1, 0.1], [1e16 + 2, 1e16 + 2, 1e16 + 2], [-0.0, 0.0], [1e-300] * 5]


@pytest.mark.slow
@pytest.mark.proves("F-29")
@pytest.mark.parametrize("x", EQUAL)
@pytest.mark.parametrize("name", DEVIATIONS)
def test_the_deviation_of_equal_numbers_is_zero_and_so_is_its_slope(grad, name, x):
    """Exactly: 0.1 + 0.1 + 0.1 is not three times 0.1, and a residue would have a slope of 1."""
    f = DEVIATIONS[name]
    assert float(f(ab.tensor(x))) == 0.0
    assert grad(f)(x).tolist() == [0.0] * len(x)


@pytest.mark.proves("F-29")
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ab.bfloat16], ids=str)
def test_the_deviation_of_equal_narrow_numbers(dtype):
    x = np.full((2, 7), 0.1, dtype)
    for f in (ab.std, ab.var):
        assert f(x, axis=1).tolist() == [0.0, 0.0]
        assert ab.grad(lambda x, f=f: ab.sum(f(x, axis=1)))(x).tolist() == np.zeros((2, 7)).tolist()


@pytest.mark.proves("F-29")
def test_one_row_of_equal_numbers_beside_others(grad):
    """Normalising rows: the equal one gets nothing, the others what they would get alone."""

    def f(x):
        rows = ab.reshape(x, (2, 2))
        return ab.sum(ab.std(rows, axis=1) * np.array([3.0, 5.0]))

    assert grad(f)([4.0, 4.0, 1.0, 3.0]).tolist() == [0.0, 0.0, -2.5, 2.5]


@pytest.mark.proves("F-29")
@pytest.mark.parametrize("order", [1, 2, 3])
def test_no_order_of_the_deviation_is_nan_at_equal_numbers(order):
    f = ab.std
    for _ in range(order):
        f = total(ab.grad(f))
    assert float(f(np.array([2.0, 2.0, 2.0]))) == 0.0


@pytest.mark.proves("F-29")
def test_the_deviation_of_one_number(grad):
    assert grad(ab.std)([3.0]).tolist() == [0.0]
    assert grad(ab.var)([3.0]).tolist() == [0.0]


@pytest.mark.proves("F-29")
def test_a_sample_of_one_has_no_deviation(noiseless):
    """As in NumPy; what its slope is, nobody needs to know."""
    assert math.isnan(ab.std(np.array([3.0]), ddof=1))
    assert ab.grad(partial(ab.std, ddof=1))(np.array([3.0])).shape == (1,)
    masked = ab.grad(lambda x: ab.where(x.size > 1, ab.std(x, ddof=1), 0.0))
    assert masked(np.array([3.0])).tolist() == [0.0]


@pytest.mark.proves("F-29")
def test_the_slope_of_the_deviation_away_from_the_kink():
    x = np.array([1.0, 3.0, 3.0])
    assert ab.check_gradients(ab.std, x).verdict == "pass"
    assert ab.grad(ab.std)(x) == pytest.approx((x - x.mean()) / (3 * np.std(x)))
    close = np.array([1.0, 1.0 + 2**-50])  # not equal, however near
    assert ab.grad(ab.std)(close).tolist() == [-0.5, 0.5]


@pytest.mark.proves("F-19")
@pytest.mark.parametrize("f", [ab.std, ab.ptp], ids=["std", "ptp"])
@pytest.mark.parametrize("x", [[0.0, 0.0], [3.0, 3.0], [1.0, 4.0]])
def test_a_factor_inside_a_spread_is_a_factor_outside(grad, f, x):
    """Both have the slope 0 at equal numbers, and the spread itself elsewhere."""
    x = np.array(x)
    inside = grad(lambda a: f(a * x))(1.3)
    outside = grad(lambda a: ab.absolute(a) * f(x))(1.3)
    assert float(inside) == pytest.approx(float(outside), rel=1e-15)
    assert float(outside) == pytest.approx(float(f(x)))
