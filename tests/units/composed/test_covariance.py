"""Covariances and correlations, as NumPy has them."""

import numpy as np
import pytest

import anabranch as ab

X, Y = np.random.default_rng(4).normal(size=(2, 3, 5))
CALLS = [
    lambda m, x, y: m.cov(x),
    lambda m, x, y: m.cov(x[0]),
    lambda m, x, y: m.cov(x, y[:2]),
    lambda m, x, y: m.cov(x[0], y[0]),
    lambda m, x, y: m.cov(x, rowvar=False),
    lambda m, x, y: m.cov(x, bias=True),
    lambda m, x, y: m.cov(x, ddof=2),
    lambda m, x, y: m.corrcoef(x),
    lambda m, x, y: m.corrcoef(x[0]),
    lambda m, x, y: m.corrcoef(x, y),
    lambda m, x, y: m.corrcoef(x, rowvar=False),
]


@pytest.mark.parametrize("call", CALLS)
def test_they_are_those_of_numpy_and_their_slopes_agree_with_differences(call):
    found, wanted = call(ab, X, Y), call(np, X, Y)
    assert np.shape(found) == np.shape(wanted)
    assert found == pytest.approx(wanted, rel=1e-13, abs=1e-15)
    w = np.random.default_rng(5).normal(size=np.shape(wanted))
    report = ab.check_gradients(lambda x, y: ab.sum(call(ab, x, y) * w) + 0 * ab.sum(y), X, Y)
    assert report.ok, report


def test_equal_observations_have_exactly_no_covariance():
    x = np.array([[0.1, 0.1, 0.1], [1.0, 2.0, 4.0]])
    assert ab.cov(x)[0].tolist() == [0.0, 0.0]
    assert ab.grad(lambda x: ab.cov(x)[0, 0])(x)[0].tolist() == [0.0, 0.0, 0.0]
    with np.errstate(all="ignore"):
        assert np.isnan(ab.corrcoef(x)).tolist() == [[True, True], [True, False]]


def test_a_correlation_stays_within_one():
    x = np.random.default_rng(6).normal(size=100)
    for scale in (1e-9, 1.0, 3e7):
        found = ab.corrcoef(x, scale * x + 1.0)
        assert np.abs(found).max() <= 1.0
        assert found == pytest.approx(np.ones((2, 2)))


def test_what_has_no_covariance():
    with pytest.raises(ab.ShapeError, match="shape-mismatch"):
        ab.cov(np.zeros((2, 3, 4)))
    with pytest.raises(ab.ShapeError, match="as many observations"):
        ab.cov(X, Y[:, :4])
    with pytest.raises(ab.DTypeError, match="unsupported-dtype"):
        ab.cov(X + 1j)
