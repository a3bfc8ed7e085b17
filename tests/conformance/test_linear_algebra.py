"""Linear algebra where mathematics leaves a choice, or leaves none: one answer in every mode.

These are the rows of docs/conventions.md on matrices; each op's own points stand in its record.
"""

import math

import numpy as np
import pytest

import anabranch as ab

nan, inf = math.nan, math.inf
linalg = ab.linalg
RNG = np.random.default_rng(5)
GENERAL = RNG.normal(size=(3, 3))
SYMMETRIC = GENERAL + GENERAL.T
POSITIVE = GENERAL @ GENERAL.T + np.eye(3)
WEIGHTS = RNG.normal(size=(3, 3))
DIRECTION = RNG.normal(size=(3, 3))
SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])
pytestmark = pytest.mark.usefixtures("noiseless")


def gradients(f, x):
    """The gradient in reverse and forward mode, and compiled."""
    x = np.asarray(x, np.float64)
    forward = np.empty(x.shape)
    for index in np.ndindex(x.shape):
        t = np.zeros(x.shape)
        t[index] = 1.0
        forward[index] = ab.jvp(f, (x,), (t,))[1]
    return [ab.grad(f)(x), ab.compile(ab.grad(f))(x), forward]


def agree(f, x, wanted, rtol=1e-12, atol=1e-13):
    for found in gradients(f, x):
        np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol)


def along(f, direction=DIRECTION):
    """The derivative of f's gradient in a direction, as a function of x."""
    return ab.grad(lambda x: ab.sum(ab.grad(f)(x) * direction))


# Systems


@pytest.mark.parametrize("name", ["inv", "solve", "solve_triangular"])
def test_a_singular_matrix_is_refused_by_its_place_in_the_stack(name):
    stack = np.stack([np.eye(2), np.triu(SINGULAR) * [1.0, 0.0]])
    arguments = (stack,) if name == "inv" else (stack, np.ones((2, 2)))
    with pytest.raises(ab.DomainError, match=r"the matrix at \(1,\) is singular") as caught:
        getattr(linalg, name)(*arguments)
    assert caught.value.code == "singular-matrix"


@pytest.mark.parametrize("lower", [False, True])
def test_the_triangle_that_is_not_read_may_hold_anything(lower):
    keep = np.tril(np.ones((3, 3), bool)) if lower else np.triu(np.ones((3, 3), bool))
    a = np.where(keep, POSITIVE, nan)

    def f(a):
        return ab.sum(linalg.solve_triangular(a, WEIGHTS, lower=lower) ** 2)

    for found in gradients(f, a):
        assert (found[~keep] == 0).all()
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found, ab.grad(f)(np.where(keep, POSITIVE, 7.0)))


@pytest.mark.parametrize("name", ["inv", "det", "slogdet", "cholesky", "eigh", "svd", "qr", "pinv"])
def test_a_matrix_with_nan_gives_nan_and_spoils_no_other(name):
    x = np.stack([POSITIVE, np.where(np.eye(3) > 0, nan, POSITIVE), POSITIVE])
    found, alone = getattr(linalg, name)(x), getattr(linalg, name)(POSITIVE)
    if not isinstance(found, tuple):
        found, alone = (found,), (alone,)
    for many, one in zip(found, alone, strict=True):
        assert np.isnan(many[1]).any()
        np.testing.assert_allclose(many[0], one, rtol=1e-13)
        np.testing.assert_allclose(many[2], one, rtol=1e-13)


COMPLEX = GENERAL + 1j * WEIGHTS
HERMITIAN = COMPLEX @ COMPLEX.conj().T + np.eye(3)


@pytest.mark.parametrize(
    "name",
    ["inv", "det", "slogdet", "pinv", "svd", "qr", "cholesky", "eigh", "norm", "matrix_rank"],
)
def test_complex_values_compute_as_in_numpy(name):
    x = HERMITIAN if name in ("cholesky", "eigh") else COMPLEX
    found, wanted = getattr(linalg, name)(x), getattr(np.linalg, name)(x)
    pairs = zip(found, wanted, strict=True) if isinstance(found, tuple) else [(found, wanted)]
    for one, other in pairs:
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


def test_cofactors_of_complex_values_expand_the_determinant():
    assert np.isclose(np.sum(COMPLEX * linalg.cofactors(COMPLEX)), 3 * np.linalg.det(COMPLEX))


# Symmetric matrices


@pytest.mark.parametrize("name", ["cholesky", "eigvalsh"])
def test_both_triangles_of_a_symmetric_matrix_are_read_and_get_half_each(name):
    function = getattr(linalg, name)
    skewed = POSITIVE + np.triu(WEIGHTS, 1) - np.triu(WEIGHTS, 1).T
    np.testing.assert_allclose(function(skewed), function(POSITIVE), rtol=1e-12)
    slope = ab.grad(lambda x: ab.sum(function(x) ** 3))(skewed)
    np.testing.assert_array_equal(slope, slope.T)
    np.testing.assert_allclose(function(POSITIVE), getattr(np.linalg, name)(POSITIVE), rtol=1e-13)


@pytest.mark.parametrize("uplo", ["L", "U"])
def test_one_triangle_is_read_on_demand_and_gets_the_whole_gradient(uplo):
    read = np.tril if uplo == "L" else np.triu
    x = read(POSITIVE) + 5.0 * (POSITIVE - read(POSITIVE))

    def f(x):
        return ab.sum(linalg.eigvalsh(x, uplo) ** 3)

    np.testing.assert_allclose(linalg.eigvalsh(x, uplo), np.linalg.eigvalsh(x, uplo))
    full = ab.grad(lambda x: ab.sum(linalg.eigvalsh(x) ** 3))(POSITIVE)
    agree(f, x, read(full) + read(full.T, -1 if uplo == "L" else 1), rtol=1e-10)


@pytest.mark.parametrize("x", [np.diag([1.0, -1.0]), np.diag([1.0, 0.0]), np.zeros((2, 2))])
def test_a_matrix_that_is_not_positive_definite_is_refused(x):
    with pytest.raises(ab.DomainError, match="not positive definite"):
        linalg.cholesky(np.stack([np.eye(2), x]))


# Equal eigenvalues and singular values

EQUAL = {
    "identity": np.eye(3),
    "zero": np.zeros((3, 3)),
    "one pair": np.diag([2.0, 2.0, 5.0]),
    "split by rounding": np.ones((3, 3)),
}


@pytest.mark.parametrize("name", EQUAL)
def test_functions_of_all_eigenvalues_alike_are_smooth_where_some_are_equal(name):
    """The sum of their cubes is the trace of x³, with the gradient 3 x²."""
    x = EQUAL[name]
    agree(lambda x: ab.sum(linalg.eigvalsh(x) ** 3), x, 3 * x @ x)
    agree(lambda x: ab.sum(linalg.svdvals(x) ** 2), x, 2 * x)


def rebuilt(x, f=lambda values: values):
    values, vectors = linalg.eigh(x)
    return ab.sum(WEIGHTS * ((vectors * f(values)) @ ab.permute(vectors)))


def rebuilt_from_two_sides(x, f=lambda values: values):
    u, s, vh = linalg.svd(x, full_matrices=False)
    return ab.sum(WEIGHTS[:, : x.shape[1]] * ((u * f(s)) @ vh))


@pytest.mark.parametrize("name", EQUAL)
@pytest.mark.parametrize("build", [rebuilt, rebuilt_from_two_sides])
def test_a_derivative_through_vectors_of_equal_values_is_right_or_nan(name, build):
    """V Λ Vᵀ is x itself, but V and Λ do not tell so: setting the quotient to 0 would be wrong."""
    wanted = (WEIGHTS + WEIGHTS.T) / 2 if build is rebuilt else WEIGHTS
    found = ab.grad(build)(EQUAL[name])
    is_right = np.allclose(found, wanted, rtol=1e-8)
    assert is_right or np.isnan(found).any()
    assert is_right == (name == "split by rounding")  # values beside 0 still tell their distance
    assert np.isnan(ab.jvp(build, (EQUAL[name],), (DIRECTION,))[1])
    np.testing.assert_allclose(ab.grad(build)(SYMMETRIC), wanted, rtol=1e-10, atol=1e-12)
    assert np.isnan(ab.grad(lambda x: build(x, ab.exp))(EQUAL[name])).any()


@pytest.mark.parametrize("weights", [np.ones((3, 2)), WEIGHTS[:, :2]])
@pytest.mark.parametrize("x", [np.zeros((3, 2)), np.eye(3)[:, :2] * [2.0, 0.0]])
def test_a_single_value_of_zero_hides_no_use_of_its_vectors(x, weights):
    """U S Vᵀ of a tall matrix of less than full rank."""

    def f(x):
        u, s, vh = linalg.svd(x, full_matrices=False)
        return ab.sum(weights * ((u * s) @ vh))

    assert np.isnan(ab.grad(f)(x)).any()
    assert np.isnan(ab.grad(lambda x: f(x.T))(x.T)).any()


@pytest.mark.parametrize("name", EQUAL)
def test_vectors_that_are_masked_out_do_not_spoil_the_values(name):
    def f(x):
        values, vectors = linalg.eigh(x)
        return ab.sum(values**3) + ab.sum(ab.where(np.zeros((3, 3), bool), vectors, 0.0))

    agree(f, EQUAL[name], 3 * EQUAL[name] @ EQUAL[name])


def test_a_weight_of_zero_on_such_vectors_keeps_its_derivative_unknown():
    """By the matrix alone the weight hides the pole; by both together it is found."""

    def f(w, x):
        return w * ab.sum(linalg.eigh(x).eigenvectors * WEIGHTS)

    slope = ab.grad(f, 1)
    assert not slope(0.0, np.eye(3)).any()
    mixed = ab.grad(lambda w, x: ab.sum(slope(w, x) * DIRECTION), 0)
    assert np.isnan(mixed(0.0, np.eye(3)))
    assert np.isfinite(mixed(0.0, SYMMETRIC))


def test_one_eigenvector_apart_from_equal_ones_has_all_its_derivatives():
    """The projection on the vector of 5, beside a pair at 2."""
    x = EQUAL["one pair"]

    def projection(x):
        vector = linalg.eigh(x).eigenvectors[:, 2:]
        return ab.sum(WEIGHTS * (vector @ ab.permute(vector)))

    p, rest = np.diag([0.0, 0.0, 1.0]), np.diag([1.0, 1.0, 0.0]) / (5.0 - 2.0)
    weights = (WEIGHTS + WEIGHTS.T) / 2
    agree(projection, x, p @ weights @ rest + rest @ weights @ p)


@pytest.mark.parametrize("tail", [[0.0, 0.0], [1e-17, -3e-18], [1.0, 1.0 + 2e-16], [2.0, 1.0]])
def test_leading_vectors_do_not_mind_what_the_others_do(tail):
    """As in a principal component of fewer samples than features, beside the sum of all values."""
    turn, _ = np.linalg.qr(WEIGHTS)
    x = turn * [*tail, 7.0] @ turn.T

    def f(x):
        values, vectors = linalg.eigh(x)
        share = values[2] / (7.0 + ab.sum(values))
        return ab.sum((vectors[:, 2] * DIRECTION[0]) ** 2) + share

    assert ab.check_gradients(f, x, rtol=1e-5).ok


def test_one_of_several_equal_values_has_the_slope_of_its_vector():
    for found in gradients(lambda x: linalg.eigvalsh(x)[2], np.eye(3)):
        np.testing.assert_array_equal(found, np.diag([0.0, 0.0, 1.0]))


def test_the_second_derivative_of_a_largest_value_does_not_mind_equal_small_ones():
    """The Hessian of a simple largest eigenvalue: 2 Σ (v₁ᵀ T vⱼ)² / (λ₁ - λⱼ)."""
    x, t = EQUAL["one pair"], (DIRECTION + DIRECTION.T) / 2
    found = np.sum(along(lambda x: linalg.eigvalsh(x)[2])(x) * DIRECTION)
    assert found == pytest.approx(2 * (t[2, 0] ** 2 + t[2, 1] ** 2) / 3.0)
    assert np.isfinite(along(lambda x: linalg.norm(x, 2))(np.ones((3, 3)))).all()


def test_a_function_that_is_even_in_a_vanishing_singular_value_is_smooth_there():
    x = np.diag([2.0, 1.0, 0.0])
    np.testing.assert_allclose(
        along(lambda x: ab.sum(linalg.svdvals(x) ** 2))(x), 2 * DIRECTION, rtol=1e-12, atol=1e-13
    )


@pytest.mark.parametrize("full", ["svd", "qr"])
def test_what_is_arbitrary_has_no_derivative_and_says_which_has(full):
    x = RNG.normal(size=(3, 2))
    apply = linalg.svd if full == "svd" else lambda x: linalg.qr(x, "complete")
    wanted = np.linalg.svd(x) if full == "svd" else np.linalg.qr(x, "complete")
    for found, want in zip(apply(x), wanted, strict=True):
        np.testing.assert_allclose(found, want)
    with pytest.raises(ab.NoGradientError, match="arbitrary") as caught:
        ab.grad(lambda x: ab.sum(apply(x)[0]))(x)
    assert caught.value.code == "no-gradient-rule"


# Q and R


@pytest.mark.parametrize("x", [np.zeros((3, 2)), np.ones((3, 2)), np.ones((3, 2)) * [1.0, 1e-30]])
def test_dependent_columns_have_no_derivative_of_their_factors(x):
    assert np.isnan(ab.grad(lambda x: ab.sum(linalg.qr(x).Q))(x)).any()
    assert np.isnan(along(lambda x: ab.sum(linalg.qr(x).R), DIRECTION[:, :2])(x)).any()

    def masked(x):
        return ab.sum(ab.where(np.zeros((2, 2), bool), linalg.qr(x).R, 1.0))

    agree(masked, x, np.zeros(x.shape))


def test_columns_of_very_different_lengths_are_not_taken_for_dependent():
    x = np.eye(3)[:, :2] * [1.0, 1e-30]
    assert np.isfinite(ab.grad(lambda x: ab.sum(linalg.qr(x).Q))(x)).all()


@pytest.mark.parametrize("shape", [(2, 4), (2, 2, 3)])
def test_a_wide_matrix_is_factored_by_its_first_columns(shape):
    x, weights = RNG.normal(size=shape), RNG.normal(size=shape)
    for found, wanted in zip(linalg.qr(x), np.linalg.qr(x), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(linalg.qr(x, "r"), np.linalg.qr(x).R, rtol=1e-12, atol=1e-14)
    agree(lambda x: ab.sum(weights * (linalg.qr(x).Q @ linalg.qr(x).R)), x, weights, rtol=1e-9)


# Determinants


@pytest.mark.parametrize("rank", [0, 1, 2, 3, 4])
def test_a_determinant_has_derivatives_of_every_order_at_every_rank(rank):
    """Against minors written out, as polynomials: no rank is special."""
    x = RNG.normal(size=(4, rank)) @ RNG.normal(size=(rank, 4))
    t = RNG.normal(size=(3, 4, 4))

    def derivative(g, direction):
        return lambda x: ab.sum(ab.grad(g)(x) * direction)

    for order in (1, 2, 3, 4):
        directions = [*t, t[0]][:order]
        g = linalg.det
        for direction in directions:
            g = derivative(g, direction)
        wanted = mixed_difference(np.linalg.det, x, directions)
        assert float(g(x)) == pytest.approx(wanted, rel=1e-6, abs=1e-6)


def mixed_difference(f, x, directions):
    """The mixed derivative of a polynomial of low degree, by symmetric differences."""
    if not directions:
        return f(x)
    (first, *rest), h = directions, 0.5
    slopes = [
        (mixed_difference(f, x + s * first, rest) - mixed_difference(f, x - s * first, rest))
        / (2 * s)
        for s in (h, 2 * h)
    ]
    return (4 * slopes[0] - slopes[1]) / 3  # exact for cubes


def test_a_logarithm_of_no_determinant_has_no_slope_and_a_mask_hides_it():
    def f(x):
        return linalg.slogdet(x).logabsdet

    assert (linalg.slogdet(SINGULAR).sign, f(SINGULAR)) == (0.0, -inf)
    for found in (*gradients(f, SINGULAR)[:2], along(f, np.ones((2, 2)))(SINGULAR)):
        assert np.isnan(found).all()
    agree(lambda x: ab.where(linalg.det(x) > 1.0, f(x), 3.0), SINGULAR, np.zeros((2, 2)))


# Pseudo-inverse


def test_a_pseudo_inverse_moves_along_matrices_of_its_rank():
    """U(x) of rank 1 for every x, though it is singular as a matrix."""

    def f(v):
        matrix = ab.reshape(v, (3, 1)) * ab.reshape(v, (1, 3))
        return ab.sum(WEIGHTS * linalg.pinv(matrix, rtol=1e-8))

    def plain(v):
        return ab.sum(WEIGHTS * (ab.reshape(v, (3, 1)) * ab.reshape(v, (1, 3)))) / (
            ab.sum(v * v) ** 2
        )

    v = np.array([1.0, -2.0, 0.5])
    assert float(f(v)) == pytest.approx(float(plain(v)))
    agree(f, v, ab.grad(plain)(v), rtol=1e-9)


# Norms

ORDERS = [0.5, 1, 1.5, 2, 3, inf, -inf, -1, 0]


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("order", ORDERS)
def test_the_slope_of_a_norm_at_zero_is_zero_in_every_order(order, n):
    agree(lambda x: linalg.norm(x, order), np.zeros(n), np.zeros(n))


@pytest.mark.parametrize("order", ["fro", "nuc", 1, -1, 2, -2, inf, -inf, None])
def test_the_slope_of_a_matrix_norm_at_zero_is_zero_in_every_order(order):
    agree(lambda x: linalg.norm(x, order, (0, 1)), np.zeros((3, 2)), np.zeros((3, 2)))


@pytest.mark.parametrize("order", [1.5, 2, 3])
def test_the_second_derivative_of_a_norm_at_zero_is_infinite(order):
    found = along(lambda x: linalg.norm(x, order), np.ones(3))(np.zeros(3))
    assert found.tolist() == [inf, inf, inf]


@pytest.mark.parametrize("scale", [1e300, 1e-300, 1e-160, 5e-324])
@pytest.mark.parametrize("order", [2, 3])
def test_large_and_small_elements_do_not_overflow_or_vanish_in_a_norm(order, scale):
    x = np.array([3.0, 4.0, 0.0]) * scale
    wanted = np.linalg.norm([3.0, 4.0], order) * scale
    assert float(linalg.norm(x, order)) == pytest.approx(wanted, rel=1e-15 if scale > 1e-323 else 1)
    if scale > 1e-323:
        slopes = (np.array([3.0, 4.0, 0.0]) / np.linalg.norm([3.0, 4.0], order)) ** (order - 1)
        agree(lambda x: linalg.norm(x, order), x, slopes, rtol=1e-14)


def test_equal_largest_singular_values_share_the_slope():
    agree(lambda x: linalg.norm(x, 2), np.eye(2), np.eye(2) / 2)
    agree(lambda x: linalg.norm(x, -2), 3 * np.eye(2), np.eye(2) / 2)
    agree(lambda x: linalg.norm(x, "nuc"), np.diag([3.0, -2.0, 0.0]), np.diag([1.0, -1.0, 0.0]))


def test_the_power_zero_is_a_constant():
    found = ab.grad(lambda x: ab.sum(linalg.matrix_power(x, 0)), unused="none")(GENERAL)
    assert found is None
    agree(lambda x: ab.sum(WEIGHTS * linalg.matrix_power(x, 1)), GENERAL, WEIGHTS)


MATRICES = {
    "inv": linalg.inv,
    "pinv": linalg.pinv,
    "solve": lambda x: linalg.solve(x, WEIGHTS),
    "solve_triangular": lambda x: linalg.solve_triangular(x, WEIGHTS),
    "cholesky": lambda x: linalg.cholesky(x + 20 * np.eye(3)),
    "eigh": lambda x: linalg.eigh(x + np.diag([0.0, 3.0, 9.0])).eigenvectors ** 2,
    "svd": lambda x: linalg.svd(x + np.diag([2.0, 5.0, 9.0])).U ** 2,
    "qr": lambda x: linalg.qr(x).R,
    "cofactors": linalg.cofactors,
    "matrix_power": lambda x: linalg.matrix_power(x, 3) * 0.1,
    "norm": lambda x: linalg.norm(x, 2, axis=(0, 1), keepdims=True) * WEIGHTS,
    "det": lambda x: linalg.det(x) * WEIGHTS,
    "slogdet": lambda x: linalg.slogdet(x).logabsdet * WEIGHTS,
}


@pytest.mark.parametrize("outer", MATRICES)
def test_the_chain_rule_holds_for_every_pair_of_matrix_functions(outer):
    x = 0.3 * GENERAL + np.diag([1.0, 2.0, 3.0])
    for inner, g in MATRICES.items():

        def f(x, g=g):
            return MATRICES[outer](0.3 * g(x) + np.diag([1.0, 2.0, 3.0]))

        report = ab.check_gradients(f, x, rtol=1e-5)
        assert report.ok, f"{outer} of {inner}\n{report}"


@pytest.mark.parametrize("name", ["eigvalsh", "svdvals"])
def test_second_derivatives_through_equal_values_are_right_or_nan(name):
    """The first is made of vectors, which turn without bound where values are equal."""
    values = getattr(linalg, name)

    def f(x):
        return ab.sum(values(x) ** 2)

    with np.errstate(all="ignore"):
        assert np.isnan(ab.hessian(f)(np.eye(2))).all()
    apart = ab.hessian(f)(np.diag([1.0, 2.0])).reshape(4, 4)
    half = name == "eigvalsh"  # which reads both triangles
    wanted = np.diag([2.0, 1.0 if half else 2.0, 1.0 if half else 2.0, 2.0])
    wanted[1, 2] = wanted[2, 1] = 1.0 if half else 0.0
    np.testing.assert_allclose(apart, wanted, atol=1e-12)
