"""Medians, quantiles and the largest few: NumPy's numbers, and slopes that say who counted."""

import math

import numpy as np
import pytest

import anabranch as ab

inf, nan = math.inf, math.nan
X = np.random.default_rng(9).normal(size=(3, 4, 2))
METHODS = ["linear", "lower", "higher", "midpoint", "nearest"]


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 2), (2, 0), ()])
@pytest.mark.parametrize("keepdims", [False, True])
def test_medians_are_those_of_numpy(axis, keepdims):
    wanted = np.median(X, axis=axis, keepdims=keepdims) if axis != () else X
    found = ab.median(X, axis, keepdims)
    assert np.shape(found) == np.shape(wanted)
    assert found == pytest.approx(wanted, rel=1e-15)


@pytest.mark.slow
@pytest.mark.usefixtures("on_reference")
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("q", [0.0, 1, 0.3, [0.5], [[0.25, 0.9], [0.0, 1.0]]], ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_quantiles_are_those_of_numpy(axis, keepdims, q, method):
    wanted = np.quantile(X, q, axis=axis, keepdims=keepdims, method=method)
    percent = np.multiply(q, 100) if isinstance(q, list) else q * 100
    for found in (
        ab.quantile(X, q, axis, keepdims=keepdims, method=method),
        ab.percentile(X, percent, axis, keepdims=keepdims, method=method),
        ab.compile(lambda x: ab.quantile(x, q, axis, keepdims=keepdims, method=method))(X),
    ):
        assert np.shape(found) == np.shape(wanted)
        assert found == pytest.approx(wanted, rel=1e-14, abs=1e-16)


def test_the_middle_elements_share_and_others_get_nothing(grad):
    assert grad(ab.median)([5.0, 1.0, 2.0]).tolist() == [0, 0, 1]
    assert grad(ab.median)([5.0, 1.0, 2.0, 9.0]).tolist() == [0.5, 0, 0.5, 0]
    assert grad(ab.median)([3.0]).tolist() == [1.0]
    # of equal ones those that a stable sort puts in the middle
    assert grad(ab.median)([2.0, 2.0, 2.0]).tolist() == [0, 1, 0]
    assert grad(ab.median)([2.0, 2.0]).tolist() == [0.5, 0.5]
    assert grad(lambda x: ab.quantile(x, 0.25))([1.0, 5.0, 2.0, 9.0]).tolist() == [0.25, 0, 0.75, 0]


def test_nan_wins_and_tells_where_it_was(grad):
    for f in (ab.median, lambda x: ab.quantile(x, 0.0), lambda x: ab.quantile(x, [0.5])[0]):
        x = np.array([1.0, nan, 2.0])
        with np.errstate(all="ignore"):
            assert math.isnan(f(x))
        assert grad(f)(x).tolist() == [0, 1, 0]
    rows = np.array([[1.0, nan], [3.0, 4.0]])
    with np.errstate(all="ignore"):
        found = ab.grad(lambda x: ab.sum(ab.median(x, axis=1) * np.array([0.0, 1.0])))(rows)
    assert found.tolist() == [[0, 0], [0.5, 0.5]]


def test_an_infinity_that_takes_no_part_does_not_reach_a_quantile(noiseless):
    x = np.array([-inf, 1.0, 2.0, inf, inf])
    assert ab.quantile(x, [0.0, 0.25, 0.5, 0.75, 1.0]).tolist() == [-inf, 1.0, 2.0, inf, inf]
    assert ab.quantile(x, [0.1, 0.6, 0.9]).tolist() == [-inf, inf, inf]
    assert math.isnan(ab.median(np.array([-inf, inf])))  # undecided, as in NumPy
    assert ab.grad(lambda x: ab.quantile(x, 0.5))(x).tolist() == [0, 0, 1, 0, 0]


def test_a_quantile_of_equal_elements_is_that_element():
    for value in (0.1, 1.7, 1e308, -1e-308):
        x = np.full(7, value)
        q = np.random.default_rng(0).random(200)
        assert (ab.quantile(x, q) == value).all()


@pytest.mark.parametrize("dtype", [np.float16, ab.bfloat16, np.float32], ids=str)
def test_quantiles_keep_narrow_floats(dtype):
    x = np.array([1.0, 2.0, 4.0], dtype)
    for f in (ab.median, lambda x: ab.quantile(x, 0.75), lambda x: ab.quantile(x, [0.75])):
        assert f(x).dtype == dtype
        assert ab.grad(lambda x, f=f: ab.sum(f(x)))(x).dtype == dtype
    assert float(ab.quantile(x, 0.75)) == 3.0
    large = np.array([-60000.0, 60000.0], dtype)
    assert float(ab.quantile(large, 0.5)) == 0.0


@pytest.mark.parametrize("f", [ab.median, lambda x: ab.quantile(x, [0.1, 0.7])])
def test_derivatives_agree_with_differences(f):
    assert ab.check_gradients(lambda x: ab.sum(f(x) ** 2), X).verdict == "pass"
    assert ab.check_gradients(lambda x: ab.sum(ab.grad(lambda x: ab.sum(f(x) ** 3))(x)), X).ok


def test_quantiles_that_do_not_exist():
    for q in (-0.1, 1.1, [0.5, 2.0], nan):
        with pytest.raises(ab.OutOfRangeError, match="between 0 and 1"):
            ab.quantile(X, q)
    with pytest.raises(ab.ArgumentError, match="hazen"):
        ab.quantile(X, 0.5, method="hazen")
    with pytest.raises(ab.ArgumentError, match="beforehand"):
        ab.quantile(X, ab.tensor(0.5))
    with pytest.raises(ab.ArgumentError, match="beforehand"):
        ab.compile(lambda x, q: ab.quantile(x, q))(X, 0.5)
    with pytest.raises(ab.DTypeError, match="unsupported-dtype"):
        ab.median(np.array([1j, 2.0]))
    with pytest.raises(ab.ShapeError, match=r"quantile .* has no value"):
        ab.quantile(np.zeros(0), 0.5)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("k", [0, 1, 2])
@pytest.mark.parametrize("largest", [True, False])
def test_the_largest_few(axis, k, largest):
    values, places = ab.top_k(X, k, axis, largest=largest)
    order = np.argsort(-X if largest else X, axis=axis, kind="stable")
    wanted = np.take(order, range(k), axis)
    assert np.array_equal(places, wanted)
    assert np.array_equal(values, np.take_along_axis(X, wanted, axis))
    assert ab.check_gradients(lambda x: ab.sum(ab.top_k(x, k, axis)[0] ** 2), X).ok


def test_ties_and_nan_among_the_largest(grad):
    values, places = ab.top_k(np.array([1.0, 3.0, 3.0, nan, 2.0]), 3)
    assert places.tolist() == [3, 1, 2]
    assert values.tolist()[1:] == [3.0, 3.0]
    assert math.isnan(values[0])
    weights = np.array([1.0, 10.0])
    found = grad(lambda x: ab.sum(ab.top_k(x, 2)[0] * weights))([3.0, 1.0, 3.0, 3.0])
    assert found.tolist() == [1, 0, 10, 0]
    with pytest.raises(ab.OutOfRangeError, match="top_k of 6"):
        ab.top_k(np.zeros(5), 6)
    with pytest.raises(ab.OutOfRangeError):
        ab.top_k(np.zeros(5), -1)
