"""Running values: NumPy's, torch's words for ties, mpmath's digits, and every option."""

import math

import mpmath
import numpy as np
import pytest

import anabranch as ab

inf, nan = math.inf, math.nan
NUMPY = {
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
    "cummax": np.maximum.accumulate,
    "cummin": np.minimum.accumulate,
    "cumlogsumexp": np.logaddexp.accumulate,
}
X = np.array([[3.0, -1.0, 3.0, 2.0], [0.0, 4.0, -2.0, 4.0]])


@pytest.mark.parametrize("name", NUMPY)
@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_values_are_those_of_numpy(name, axis):
    f, reference = getattr(ab, name), NUMPY[name]
    assert np.array_equal(f(X, axis), reference(X, axis=axis))
    behind = np.flip(reference(np.flip(X, axis), axis=axis), axis)
    assert np.array_equal(f(X, axis=axis, reverse=True), behind)
    assert np.array_equal(f(ab.tensor(X), axis).data, reference(X, axis=axis))


@pytest.mark.parametrize("name", NUMPY)
def test_without_an_axis_the_flattened_value_is_run_through(name):
    assert np.array_equal(getattr(ab, name)(X), NUMPY[name](X.ravel()))
    assert getattr(ab, name)(2.5).tolist() == [2.5]
    with pytest.raises(ab.OutOfRangeError, match="axis-out-of-range"):
        getattr(ab, name)(X, axis=2)
    with pytest.raises(ab.OutOfRangeError, match="axis-out-of-range"):
        getattr(ab, name)(2.5, axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", NUMPY)
@pytest.mark.parametrize("n", range(1, 10))
def test_the_last_running_value_is_the_reduction_and_has_its_slope(name, n, grad):
    """One function in two spellings, at random points and where all elements tie."""
    whole = getattr(ab, {"cumlogsumexp": "logsumexp"}.get(name, name[3:]))
    for x in (np.random.default_rng(n).normal(size=n), np.full(n, 0.7)):
        last = grad(lambda x: getattr(ab, name)(x)[-1])(x)
        assert last == pytest.approx(ab.grad(whole)(x), rel=1e-13)
        first = grad(lambda x: getattr(ab, name)(x, reverse=True)[0])(x)
        assert first == pytest.approx(ab.grad(whole)(x), rel=1e-13)


@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_every_running_extremum_is_shared_like_the_extremum_so_far(name):
    """The convention for ties, element by element; shares of each running value sum to 1."""
    whole = getattr(ab, name[3:])
    rng = np.random.default_rng(3)
    for x in (*rng.integers(0, 3, (20, 7)).astype(float), np.array([nan, 1, nan, 1, 1, nan, 2])):
        rows = ab.jacobian(lambda x: getattr(ab, name)(x))(x)
        for k, row in enumerate(rows):
            alone = ab.grad(lambda x, k=k: whole(x[: k + 1]))(x)
            assert row.tolist() == pytest.approx(alone.tolist())
            assert row.sum() == pytest.approx(1.0)
        t = rng.normal(size=7)
        pushed = ab.jvp(lambda x: getattr(ab, name)(x), (x,), (t,))[1]
        assert pushed == pytest.approx(rows @ t, rel=1e-13)


def test_a_running_count_of_ties_does_not_overflow_in_half_precision():
    x = np.ones(70_000, np.float16)
    share = ab.grad(lambda x: ab.cummax(x)[-1])(x)
    assert (share == np.float16(1 / 70_000)).all()


@pytest.mark.parametrize("dtype", [np.float16, ab.bfloat16], ids=str)
def test_halves_are_carried_wide(dtype):
    total = ab.cumsum(np.ones(5_000, dtype))
    assert total.dtype == dtype
    assert float(total[-1]) == float(np.asarray(5_000.0).astype(dtype))
    # a running product that leaves the range of float16 and comes back
    x = np.array([1e3, 1e3, 1e-3, 1e-3], dtype)
    with np.errstate(over="ignore"):
        assert float(ab.cumprod(x)[-1]) == pytest.approx(1.0, rel=0.05)
        found = ab.grad(lambda x: ab.cumprod(x)[-1])(x)
        pushed = ab.jvp(lambda x: ab.cumprod(x), (x,), (x,))[1]
    assert found.astype(float) == pytest.approx([1e-3, 1e-3, 1e3, 1e3], rel=0.05)
    assert float(pushed[-1]) == pytest.approx(4.0, rel=0.05)
    for name in ("cummax", "cummin", "cumlogsumexp"):
        assert getattr(ab, name)(np.ones(3, dtype)).dtype == dtype


def exact_cumlogsumexp(x):
    with mpmath.workdps(50):
        totals, running = [], mpmath.mpf(0)
        for v in x:
            running += mpmath.exp(mpmath.mpf(float(v)))
            totals.append(running)
        values = [mpmath.log(t) for t in totals]
        slopes = [
            sum(mpmath.exp(mpmath.mpf(float(v))) / t for t in totals[j:]) for j, v in enumerate(x)
        ]
        return [float(v) for v in values], [float(s) for s in slopes]


@pytest.mark.parametrize(
    "x",
    [
        [0.0, 1.0, -1.0],
        [800.0, -800.0, 799.0],
        [-750.0, -760.0, -740.0],
        [0.0, -50.0, -100.0, 3.0],
        [1e-8, 1e-9, 0.0],
        list(np.linspace(-700.0, 700.0, 9)),
    ],
)
def test_running_sums_of_exponentials_to_the_last_digits(x):
    values, slopes = exact_cumlogsumexp(x)
    x = np.array(x)
    assert ab.cumlogsumexp(x) == pytest.approx(values, rel=1e-15, abs=1e-15)
    bound = 4e-16 * (1 + np.abs(x).max())  # an exponent is a difference of two such numbers
    assert ab.grad(lambda x: ab.sum(ab.cumlogsumexp(x)))(x) == pytest.approx(slopes, rel=bound)


def test_infinities_in_running_sums_of_exponentials(grad):
    f = lambda x: ab.sum(ab.cumlogsumexp(x))  # noqa: E731
    assert grad(f)([-inf, -inf, -inf]).tolist() == [0, 0, 0]
    assert grad(f)([-inf, 0.0, -inf]).tolist() == [0, 2, 0]
    assert grad(f)([inf, 0.0]).tolist() == [0, 0]
    assert grad(f)([0.0, inf, -inf]).tolist() == [1, 0, 0]
    again = lambda x: ab.sum(ab.grad(f)(x) * np.array([1.0, 2.0, 3.0]))  # noqa: E731
    assert grad(again)([-inf, -inf, 0.0]).tolist() == [0, 0, 0]


def test_complex_values_run_where_their_arithmetic_does():
    z = np.array([1j, 2.0, 1 + 1j])
    assert np.array_equal(ab.cumsum(z), np.cumsum(z))
    assert np.array_equal(ab.cumprod(z), np.cumprod(z))
    with pytest.raises(ab.DTypeError, match="unsupported-dtype"):
        ab.cumlogsumexp(z)


@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_integers_and_bools_keep_their_dtype(name):
    for dtype in (np.int8, np.uint8, np.bool_):
        x = np.array([0, 1, 0]).astype(dtype)
        assert getattr(ab, name)(x).dtype == dtype
        assert np.array_equal(getattr(ab, name)(x), NUMPY[name](x))
