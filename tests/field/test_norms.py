"""Lengths where they are 0, and pooling where elements are equal."""

import math

import numpy as np
import pytest

import anabranch as ab

inf = math.inf
norm = ab.linalg.norm

SQUARES = {
    "power": lambda r: r**2,
    "float power": lambda r: r**2.0,
    "square": ab.square,
    "product": lambda r: r * r,
}
NORMS = {
    "norm": norm,
    "order 2": lambda x: norm(x, 2),
    "along an axis": lambda x: ab.sum(norm(ab.reshape(x, (1, -1)), axis=1)),
    "vector_norm": ab.linalg.vector_norm,
    "of a matrix": lambda x: norm(ab.reshape(x, (1, -1)), "fro"),
    "one by one": lambda x: norm(norm(ab.reshape(x, (-1, 1)), axis=1)),
}


@pytest.mark.proves("F-17")
@pytest.mark.parametrize("square", SQUARES)
@pytest.mark.parametrize("name", NORMS)
def test_the_square_of_a_length_has_the_slope_zero_at_zero(grad, name, square):
    def f(x):
        return SQUARES[square](NORMS[name](x))

    assert grad(f)([0.0, 0.0]).tolist() == [0.0, 0.0]
    assert grad(f)([3.0, -4.0]) == pytest.approx([6.0, -8.0])


@pytest.mark.proves("F-17")
@pytest.mark.parametrize("square", SQUARES)
@pytest.mark.parametrize("name", ["norm", "order 2", "vector_norm"])
def test_the_square_of_a_length_has_its_second_derivative_at_zero(name, square):
    """The Hessian is 2 everywhere, as that of the sum of squares which it is."""

    def f(x):
        return SQUARES[square](NORMS[name](x))

    np.testing.assert_array_equal(ab.hessian(f)(np.zeros(2)), 2 * np.eye(2))


@pytest.mark.proves("F-19")
@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("a", [1.3, -1.3, 0.0])
def test_a_factor_may_stand_inside_a_length_or_before_it(grad, name, a):
    for x in (np.zeros(2), np.array([0.0, 2.0])):
        inside = grad(lambda a, x: NORMS[name](a * x))(a, x)
        before = grad(lambda a, x: abs(a) * NORMS[name](x))(a, x)
        assert inside == before == np.sign(a) * np.linalg.norm(x)


@pytest.mark.proves("F-21")
@pytest.mark.parametrize("n", [1, 3])
def test_a_length_of_zero_has_no_second_derivative_and_none_is_made_up(n, noiseless):
    zero = np.zeros(n)
    assert not ab.grad(norm)(zero).any()
    assert ab.hessian(norm)(zero).tolist() == np.diag([inf] * n).tolist()
    assert np.isfinite(ab.hessian(norm)(np.ones(n))).all()


@pytest.mark.proves("F-15")
@pytest.mark.parametrize("order", [1, 1.5, 2, 3, inf])
def test_a_floor_below_a_length(grad, order):
    def f(v):
        return ab.maximum(norm(v, order), 1e-10)

    assert grad(f)([0.0, 0.0]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("order", [0.5, 1, 1.5, 2, 3, inf, -inf, -1])
def test_a_masked_length_reaches_no_element(grad, order):
    """Where the length is 0 it is not used; its slope there, and what would be NaN, stays out."""

    def f(x):
        rows = norm(ab.reshape(x, (2, 2)), order, axis=1)
        return ab.sum(ab.where(np.array([False, True]), 1.0 / rows, 0.0))

    found = grad(f)([0.0, 0.0, 3.0, 4.0])
    assert found[:2].tolist() == [0.0, 0.0]
    assert np.isfinite(found[2:]).all()
    assert found[2:].any()


POINTS = {
    "ties": [1.0, 1.0, -1.0, 1.0],
    "a zero": [2.0, 0.0, 3.0, 4.0],
    "zeros": [0.0, 0.0, 0.0, 0.0],
    "negative zeros": [-0.0, 0.0, -0.0, 1.0],
    "anywhere": [0.3, -1.2, 2.2, 0.7],
}
LENGTHS = {
    **{f"order {p}": lambda x, p=p: norm(x, p) for p in (0.5, 1, 1.5, 2, 3, inf, -inf, -1, 0)},
    **{
        f"matrix order {p}": lambda x, p=p: norm(ab.reshape(x, (2, 2)), p)
        for p in ("fro", "nuc", 1, -1, 2, -2, inf, -inf)
    },
    "max_pool": lambda x: ab.max_pool(ab.reshape(x, (1, 1, 4)), 3, 1),
    "avg_pool": lambda x: ab.avg_pool(ab.reshape(x, (1, 1, 4)), 3, 1),
    "conv": lambda x: ab.conv(ab.reshape(x, (1, 1, 4)), ab.reshape(x[:2], (1, 1, 2))),
    "det": lambda x: ab.linalg.det(ab.reshape(x, (2, 2))),
    "einsum": lambda x: ab.einsum("ij,kj,ii->k", *[ab.reshape(x, (2, 2))] * 3),
}


@pytest.mark.proves("F-103")
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("name", LENGTHS)
def test_both_modes_agree(name, point, noiseless):
    x, v = np.array(POINTS[point]), np.array([0.7, -1.1, 0.4, 2.0])
    out, pullback = ab.vjp(LENGTHS[name], x)
    u = np.random.default_rng(5).normal(size=np.shape(out))
    pushed = ab.jvp(LENGTHS[name], (x,), (v,))[1]
    assert np.sum(u * pushed) == pytest.approx(np.sum(pullback(u)[0] * v), rel=1e-12, abs=1e-14)


@pytest.mark.proves("F-43")
@pytest.mark.parametrize("values", [[1, 1], [1, 2, 2, 2], [3, 3, 3], [2, 1, 2], [inf, inf, 1]])
def test_pooling_shares_ties_as_max_does(grad, values):
    x = np.array(values, np.float64)
    pooled = grad(lambda x: ab.sum(ab.max_pool(ab.reshape(x, (1, 1, -1)), x.shape[0])))(x)
    np.testing.assert_array_equal(pooled, ab.grad(ab.max)(x))
    assert pooled.sum() == pytest.approx(1.0)


@pytest.mark.proves("F-115")
def test_pooling_keeps_nan(grad):
    x = np.array([[[math.nan, 1.0, 3.0, 2.0]]])
    assert np.isnan(ab.max_pool(x, 2)).tolist() == [[[True, False]]]
    assert np.isnan(ab.max_pool(x, 3, 1, padding=1)).tolist() == [[[True, True, False, False]]]
    assert np.isnan(ab.avg_pool(x, 2)).tolist() == [[[True, False]]]
    assert np.isnan(ab.conv(x, np.ones((1, 1, 2)))).tolist() == [[[True, False, False]]]
