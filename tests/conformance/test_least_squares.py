"""Least squares: beside NumPy's, in stacks, and where the rank is not full."""

import numpy as np
import pytest

import anabranch as ab
from anabranch import linalg


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (3, 3), (1, 2), (2, 0), (0, 2)])
@pytest.mark.parametrize("columns", [(), (2,)])
def test_least_squares_are_numpys(shape, columns):
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=shape), rng.normal(size=(shape[0], *columns))
    found, wanted = linalg.lstsq(a, b), np.linalg.lstsq(a, b)
    for mine, its in zip(found, wanted, strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-10)
        assert np.shape(mine) == np.shape(its)


def test_a_stack_of_least_squares_is_one_by_one_and_compiles():
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(4, 5, 2)), rng.normal(size=(4, 5, 3))
    wanted = np.stack([np.linalg.lstsq(x, y)[0] for x, y in zip(a, b, strict=True)])
    np.testing.assert_allclose(linalg.lstsq(a, b).x, wanted, rtol=1e-10)
    np.testing.assert_allclose(ab.compile(lambda a, b: linalg.lstsq(a, b).x)(a, b), wanted)


def test_residuals_and_solution_have_the_derivatives_of_what_they_are_made_of():
    """|b - a x|² by b is 2 (b - a x), for x is best."""
    rng = np.random.default_rng(6)
    a, b = rng.normal(size=(5, 2)), rng.normal(size=5)
    rest = b - a @ linalg.lstsq(a, b).x
    slope = ab.grad(lambda b: ab.sum(linalg.lstsq(a, b).residuals))(b)
    np.testing.assert_allclose(slope, 2 * rest, rtol=1e-10)

    def by_normal_equations(a):
        return ab.sum(linalg.solve(a.T @ a, a.T @ b) ** 2)

    def mine(a):
        return ab.sum(linalg.lstsq(a, b).x ** 2)

    for transform in (ab.grad, ab.hessian):
        wanted = transform(by_normal_equations)(a)
        np.testing.assert_allclose(transform(mine)(a), wanted, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("build", [lambda r: r, lambda r: r.T], ids=["tall", "wide"])
def test_least_squares_of_lesser_rank_are_refused(build):
    poor = build(np.outer([1.0, 2.0, 3.0], [1.0, 2.0]))
    b = np.ones(poor.shape[0])
    with pytest.raises(ab.DomainError, match=r"rank-deficient.*(?s:.*)pinv"):
        linalg.lstsq(poor, b)
    good = build(np.array([[1.0, 2.0], [0.0, 1.0], [1.0, 0.0]]))
    with pytest.raises(ab.DomainError, match=r"matrix at \(1,\)"):
        linalg.lstsq(np.stack([good, poor]), b)
    assert linalg.lstsq(good, b, rcond=1e-3).rank == 2
    with pytest.raises(ab.DomainError, match="rank-deficient"):
        linalg.lstsq(good, b, rcond=0.9)
    with pytest.raises(ab.ShapeError, match="right side of"):
        linalg.lstsq(good, np.ones(7))


def test_a_matrix_with_nan_has_no_least_squares():
    found = linalg.lstsq(np.array([[1.0, np.nan], [1.0, 2.0], [0.0, 1.0]]), np.ones(3))
    assert np.isnan(found.x).all()
