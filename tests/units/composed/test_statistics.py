"""Means and spreads: NumPy's numbers, and none of its traps."""

import math

import numpy as np
import pytest

import anabranch as ab

inf, nan = math.inf, math.nan
X = np.random.default_rng(7).normal(size=(3, 4, 2))
AXES = [None, 0, -1, (0, 2), (1, -3), ()]


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("ddof", [0, 1, 0.5])
@pytest.mark.parametrize("name", ["var", "std"])
def test_spreads_are_those_of_numpy(name, axis, keepdims, ddof):
    f, reference = getattr(ab, name), getattr(np, name)
    if axis == () and ddof == 1:
        return
    wanted = reference(X, axis=axis, ddof=ddof, keepdims=keepdims)
    for found in (
        f(X, axis, ddof, keepdims),
        f(X, axis=axis, correction=ddof, keepdims=keepdims),
        getattr(ab.tensor(X), name)(axis, ddof=ddof, keepdims=keepdims).data,
    ):
        assert np.shape(found) == np.shape(wanted)
        assert found == pytest.approx(wanted, rel=1e-14, abs=1e-300)


@pytest.mark.parametrize("name", ["var", "std"])
def test_a_spread_around_a_large_value_keeps_its_digits(name):
    x = np.array([1.0, 2.0, 4.0, 8.0])
    for offset in (0.0, 2.0**30, 2.0**49):
        assert getattr(ab, name)(x + offset) == getattr(ab, name)(x)
        slope = ab.grad(getattr(ab, name))
        assert np.array_equal(slope(x + offset), slope(x))


@pytest.mark.parametrize("f", [ab.var, ab.std, lambda x: ab.std(x, ddof=1)])
def test_derivatives_of_spreads_agree_with_differences(f):
    x = X[:, :, 0]
    assert ab.check_gradients(f, x).verdict == "pass"
    w = np.random.default_rng(1).normal(size=x.shape)
    assert ab.check_gradients(lambda x: ab.sum(ab.grad(f)(x) * w), x).verdict == "pass"


def test_a_slope_of_a_variance_is_twice_the_deviation():
    x = np.array([1.0, 2.0, 6.0])
    assert ab.grad(ab.var)(x).tolist() == pytest.approx([-4 / 3, -2 / 3, 2.0])
    assert ab.hessian(ab.var)(x) == pytest.approx(2 / 3 * (np.eye(3) - 1 / 3))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.bool_, np.int64])
def test_integers_have_float64_spreads(dtype):
    x = np.array([1, 0, 1]).astype(dtype)
    for name in ("var", "std", "mean", "median"):
        found = getattr(ab, name)(x)
        assert found.dtype == np.float64
        assert float(found) == pytest.approx(float(getattr(np, name)(x)), rel=1e-15)
    wide = np.array([200, 100], np.uint8)
    assert float(ab.std(wide)) == 50.0


@pytest.mark.parametrize("dtype", [np.float16, ab.bfloat16], ids=str)
def test_spreads_of_halves_are_computed_wide(dtype):
    x = np.array([-60000.0, 60000.0] * 5, dtype)
    assert ab.std(x).dtype == dtype
    assert float(ab.std(x)) == float(x[1])  # its square is beyond float16
    assert ab.grad(ab.std)(x).astype(float) == pytest.approx([-0.1, 0.1] * 5, rel=0.01)
    assert float(ab.average(np.full(70_000, 2.0, dtype), weights=np.ones(70_000, dtype))) == 2.0


def test_too_few_elements(noiseless):
    assert math.isnan(ab.var(np.zeros(0)))
    assert math.isnan(ab.std(np.array([1.0]), ddof=1))
    assert ab.var(np.array([1.0, 3.0]), ddof=2) == inf
    assert ab.var(np.array([1.0, 3.0]), ddof=5) == inf  # as in NumPy
    assert math.isnan(ab.var(np.array([1.0, 3.0]), where=np.zeros(2, bool)))
    assert ab.grad(ab.mean)(np.zeros(0)).shape == (0,)


def test_numbers_and_scalars():
    for f in (ab.std, lambda x: x.std(), lambda x: ab.std(x, correction=0), lambda x: x.var()):
        for x in (0.0, -3.0, 1e308):
            assert float(ab.grad(f)(x)) == float(ab.compile(ab.grad(f))(x)) == 0.0
            assert float(ab.jvp(f, (x,), (1.0,))[1]) == 0.0
    assert float(ab.std(3.0)) == float(ab.var(2)) == 0.0
    assert float(ab.mean(3)) == 3.0
    assert ab.grad(ab.var)(3.0) == 0.0


def test_options_that_contradict_or_have_no_meaning():
    for f in (ab.var, ab.std):
        with pytest.raises(ab.ArgumentError, match="bad-argument"):
            f(X, ddof=1, correction=1)
        with pytest.raises(ab.DTypeError, match="unsupported-dtype"):
            f(np.array([1j, 2.0]))


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1), (1, 0), ()])
@pytest.mark.parametrize("keepdims", [False, True])
def test_peak_to_peak_is_that_of_numpy(axis, keepdims):
    assert np.array_equal(ab.ptp(X, axis, keepdims), np.ptp(X, axis=axis, keepdims=keepdims))


def test_peak_to_peak_at_ties_and_single_elements(grad):
    assert grad(ab.ptp)([2.0, 1.0, 2.0]).tolist() == [0.5, -1.0, 0.5]
    assert grad(ab.ptp)([2.0]).tolist() == [0.0]
    assert grad(ab.ptp)([2.0, 2.0]).tolist() == [0.0, 0.0]
    with pytest.raises(ab.DTypeError, match="bool-arithmetic"):
        ab.ptp(np.array([True, False]))


@pytest.mark.parametrize(
    ("axis", "shape"),
    [(None, (3, 4, 2)), (0, (3,)), (-1, (2,)), ((0, 2), (3, 2)), ((2, 0), (2, 3)), (1, (3, 4, 2))],
)
@pytest.mark.parametrize("keepdims", [False, True])
def test_weighted_means_are_those_of_numpy(axis, shape, keepdims):
    weights = np.random.default_rng(2).uniform(0.5, 2.0, shape)
    found = ab.average(X, axis, weights, returned=True, keepdims=keepdims)
    wanted = np.average(X, axis, weights, returned=True, keepdims=keepdims)
    for one, other in zip(found, wanted, strict=True):
        assert np.shape(one) == np.shape(other)
        assert one == pytest.approx(other, rel=1e-14)
    report = ab.check_gradients(lambda x, w: ab.sum(ab.average(x, axis, w) ** 2), X, weights)
    assert report.ok, report


def test_weights_of_none_and_of_other_shapes():
    assert ab.average(X, 0) == pytest.approx(np.average(X, 0))
    found, total = ab.average(X, (0, 1), returned=True)
    assert total.tolist() == [12.0, 12.0]
    assert found == pytest.approx(X.mean((0, 1)))
    assert float(ab.average(np.array([1, 5]), weights=[3, 1])) == 2.0
    for weights in (np.ones(4), np.ones((3, 4))):
        with pytest.raises(ab.ShapeError, match="shape-mismatch"):
            ab.average(X, 0, weights)


def test_weights_that_sum_to_zero_divide_by_zero(noiseless):
    assert math.isnan(ab.average(np.array([1.0, 1.0]), weights=[1.0, -1.0]))
    assert ab.average(np.array([2.0, 1.0]), weights=[1.0, -1.0]) == inf


def test_they_are_named_scopes():
    for name in ("var", "std", "ptp", "average", "median", "cov", "count_nonzero"):
        graph = ab.trace(getattr(ab, name), np.ones((2, 3)))
        scopes = {node.scope.split("/")[0] for node in graph.nodes if node.kind == "op"}
        assert scopes == {name}


LARGE = {
    "int64": np.array([2**62, 2**62, -5, 2**62 - 1]),
    "uint64": np.array([2**63, 3, 2**64 - 1], np.uint64),
    "uint8": np.array([200, 10, 255], np.uint8),
    "bool": np.array([True, True, False]),
}


@pytest.mark.parametrize("x", LARGE.values(), ids=LARGE)
@pytest.mark.parametrize("backend", ["native", "reference"])
def test_means_of_integers_whose_sums_do_not_fit_are_those_of_numpy(x, backend):
    heavy = np.array([3, 1, 2, 1], x.dtype)[: x.size]
    for f, wanted in (
        (lambda x, _: ab.mean(x), np.mean(x)),
        (lambda x, _: ab.average(x), np.average(x)),
        (lambda x, w: ab.average(x, weights=w), np.average(x, weights=heavy)),
        (lambda x, _: ab.var(x), np.var(x)),
    ):
        for found in (f(x, heavy), ab.compile(f, backend=backend)(x, heavy)):
            assert np.asarray(found).dtype == wanted.dtype
            np.testing.assert_allclose(found, wanted, rtol=1e-15)
