"""Normalisation: by formulas, at equal and single elements and zeros, and in every dtype."""

import math

import numpy as np
import pytest

import anabranch as ab

nan, inf = math.nan, math.inf
ROWS = np.random.default_rng(4).normal(size=(3, 4)) * 2.0 + 1.0
IMAGES = np.random.default_rng(5).normal(size=(2, 3, 4, 2))
close = pytest.approx


def plain_layer_norm(x, axes, eps=1e-5):
    mean, var = x.mean(axis=axes, keepdims=True), x.var(axis=axes, keepdims=True)
    return (x - mean) / np.sqrt(var + eps)


def plain_rms_norm(x, axes, eps=1e-5):
    return x / np.sqrt((x * x).mean(axis=axes, keepdims=True) + eps)


@pytest.mark.parametrize("axis", [0, 1, -1, (0, 1), None])
def test_values_are_those_of_the_formulas(axis):
    assert ab.layer_norm(ROWS, axis=axis) == close(plain_layer_norm(ROWS, axis))
    assert ab.rms_norm(ROWS, axis=axis) == close(plain_rms_norm(ROWS, axis))
    assert ab.normalize(ROWS, axis=axis) == close(
        ROWS / np.sqrt((ROWS**2).sum(axis=axis, keepdims=True))
    )


def test_weights_stand_along_the_normalised_axes():
    w, b = np.arange(1.0, 5.0), np.arange(4.0)
    assert ab.layer_norm(ROWS, w, b) == close(plain_layer_norm(ROWS, 1) * w + b)
    assert ab.layer_norm(ROWS.T, w, b, axis=0) == close(ab.layer_norm(ROWS, w, b).T)
    assert ab.rms_norm(ROWS.T, w, axis=0) == close(plain_rms_norm(ROWS, 1).T * w[:, None])
    w = np.random.default_rng(0).normal(size=(3, 2))
    found = ab.layer_norm(IMAGES, w, axis=(1, 3))
    assert found == close(plain_layer_norm(IMAGES, (1, 3)) * w[:, None, :])
    for call in (
        lambda: ab.layer_norm(ROWS, np.ones(3)),
        lambda: ab.layer_norm(ROWS, bias=np.ones((3, 4))),
        lambda: ab.rms_norm(ROWS, np.ones(1)),
    ):
        with pytest.raises(ab.ShapeError, match="shape-mismatch"):
            call()


W4 = np.array([0.5, -1.0, 2.0, 0.3])
FUNCTIONS = {
    "layer_norm": lambda x: ab.layer_norm(x, W4, W4[::-1].copy()),
    "layer_norm, axis 0": lambda x: ab.layer_norm(x, axis=0),
    "layer_norm, both": lambda x: ab.layer_norm(x, axis=(0, 1)),
    "rms_norm": lambda x: ab.rms_norm(x, W4),
    "rms_norm, axis 0": lambda x: ab.rms_norm(x, axis=0),
    "normalize": ab.normalize,
    "normalize, both": lambda x: ab.normalize(x, axis=None),
    "cosine_similarity": lambda x: ab.cosine_similarity(x, ROWS[::-1].copy() + 0.5),
    "batch_norm": lambda x: ab.batch_norm(x, np.zeros(4), np.ones(4), W4, W4, training=True)[0],
    "batch_norm's mean": lambda x: ab.batch_norm(x, W4, W4, training=True)[1],
    "batch_norm's variance": lambda x: ab.batch_norm(x, W4, W4, training=True)[2],
    "batch_norm, inference": lambda x: ab.batch_norm(x, W4, W4**2, W4)[0],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_two_orders_of_derivatives_in_both_modes(name):
    f = FUNCTIONS[name]
    weights = np.random.default_rng(8).normal(size=ROWS.shape)
    assert ab.check_gradients(f, ROWS).verdict == "pass"
    report = ab.check_gradients(
        lambda x: ab.sum(ab.grad(lambda v: ab.sum(ab.tanh(f(v))))(x) * weights), ROWS
    )
    assert report.verdict == "pass", report
    pushed = ab.jvp(f, (ROWS,), (weights,))[1]
    ct = np.random.default_rng(9).normal(size=pushed.shape)
    assert np.sum(pushed * ct) == close(np.sum(ab.vjp(f, ROWS)[1](ct)[0] * weights), rel=1e-11)


@pytest.mark.usefixtures("on_reference")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_front_ends_agree_to_the_bit(name):
    f = FUNCTIONS[name]
    wanted = f(ROWS).tobytes()
    for run in (ab.compile(f), ab.compile(f, passes=()), lambda x: f(ab.tensor(x)).data):
        assert run(ROWS).tobytes() == wanted


def test_parameters_have_gradients(grad):
    x = np.array([[1.0, 3.0], [2.0, -2.0]])
    assert grad(lambda w: ab.sum(ab.layer_norm(x, w, eps=0.0) * x))([1.0, 1.0]).tolist() == [1, 5]
    assert grad(lambda b: ab.sum(ab.layer_norm(x, bias=b) * x))([1.0, 1.0]).tolist() == [3, 1]


# Equal and single elements, zeros, infinities


@pytest.mark.parametrize("value", [0.0, 3.0, -1e8, 1e-300])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_equal_elements_are_0_with_a_finite_slope(grad, n, value):
    x = np.full(n, value)
    assert ab.layer_norm(x).tolist() == [0.0] * n
    found = grad(lambda x: ab.sum(ab.layer_norm(x) * np.arange(1.0, n + 1)))(x)
    wanted = (np.arange(1.0, n + 1) - (n + 1) / 2) / math.sqrt(1e-5)
    assert found == close(wanted, rel=1e-9, abs=1e-9)


def test_zeros_have_no_direction(grad):
    x = np.array([[3.0, 4.0], [0.0, 0.0], [-0.0, 0.0]])
    assert ab.normalize(x).tolist() == [[0.6, 0.8], [0.0, 0.0], [0.0, 0.0]]
    found = grad(lambda x: ab.sum(ab.normalize(x) * np.array([1.0, 2.0])))(x)
    assert found == close(
        np.array([[(1 - 11 / 5 * 0.6) / 5, (2 - 11 / 5 * 0.8) / 5], [0, 0], [0, 0]])
    )
    assert (found[1:] == 0).all()
    y = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    assert ab.cosine_similarity(x, y).tolist() == [close(0.6), 0.0, 0.0]
    assert (grad(lambda x: ab.sum(ab.cosine_similarity(x, y)))(x)[1:] == 0.0).all()
    assert (grad(lambda y: ab.sum(ab.cosine_similarity(x, y)))(y)[1:] == 0.0).all()
    for f in (ab.normalize, lambda x: ab.cosine_similarity(x, np.ones(2))):
        second = ab.grad(lambda x, f=f: ab.sum(ab.grad(lambda v: ab.sum(f(v)))(x)))
        assert second(np.zeros(2)).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("size", [1e-320, 1e-200, 1e-30, 1.0, 1e200, 1.7e308])
def test_no_size_of_a_vector_is_too_large_or_too_small(size):
    x = np.array([0.6, 0.8]) * size
    rounding = 1e-15 if size > 1e-300 else 1e-2
    assert ab.normalize(x) == close(np.array([0.6, 0.8]), rel=rounding)
    assert float(ab.cosine_similarity(x, np.array([1e-200, 0.0]))) == close(0.6, rel=rounding)
    if 1e-300 < size < 1e300:
        slope = ab.grad(lambda x: ab.cosine_similarity(x, np.array([1.0, 0.0])))(x)
        assert slope * size == close(np.array([0.64, -0.48]), rel=1e-13)


def test_the_cosine_of_vectors_that_are_parallel_or_at_right_angles(grad):
    x = np.array([3.0, -4.0])
    assert float(ab.cosine_similarity(x, 5 * x)) == close(1.0)
    assert float(ab.cosine_similarity(x, -x)) == close(-1.0)
    assert float(ab.cosine_similarity(x, np.array([4.0, 3.0]))) == close(0.0, abs=1e-16)
    assert grad(lambda x: ab.cosine_similarity(x, 5 * x))(x) == close([0.0, 0.0], abs=1e-15)
    assert ab.cosine_similarity(IMAGES, IMAGES[:, :1], axis=2).shape == (2, 3, 2)


def test_nan_and_infinity_are_told(noiseless):
    for f in (ab.layer_norm, ab.rms_norm, ab.normalize):
        assert np.isnan(f(np.array([nan, 1.0]))).all()
    assert np.isnan(ab.normalize(np.array([inf, 1.0]))[0])
    with pytest.raises(ab.ShapeError, match="empty-reduction"):
        ab.normalize(np.zeros((2, 0)))


# Batches


def plain_batch_norm(x, mean, var):
    around = (x - mean.reshape(1, -1, 1, 1)) / np.sqrt(var.reshape(1, -1, 1, 1) + 1e-5)
    return around


def test_a_batch_is_its_own_measure_in_training():
    mean, var = np.array([0.5, 0.0, -1.0]), np.array([1.0, 2.0, 3.0])
    y, new_mean, new_var = ab.batch_norm(IMAGES, mean, var, training=True)
    batch_mean, batch_var = IMAGES.mean(axis=(0, 2, 3)), IMAGES.var(axis=(0, 2, 3))
    assert y == close(plain_batch_norm(IMAGES, batch_mean, batch_var))
    assert new_mean == close(0.9 * mean + 0.1 * batch_mean)
    assert new_var == close(0.9 * var + 0.1 * batch_var * 16 / 15)
    y, same_mean, same_var = ab.batch_norm(IMAGES, mean, var)
    assert y == close(plain_batch_norm(IMAGES, mean, var))
    assert same_mean is mean and same_var is var
    last = np.moveaxis(IMAGES, 1, -1)
    y = ab.batch_norm(last, mean, var, training=True, axis=-1, momentum=1.0)
    assert y[1] == close(batch_mean)
    assert np.moveaxis(y[0], -1, 1) == close(plain_batch_norm(IMAGES, batch_mean, batch_var))


def test_running_values_go_on_from_step_to_step():
    state = ab.tensor([0.0]), ab.tensor([1.0])
    for _ in range(60):
        x = ab.tensor([[2.0], [4.0]])
        _, *state = ab.batch_norm(x, *state, training=True)
    assert [float(s[0]) for s in state] == [close(3.0, rel=1e-2), close(2.0, rel=1e-2)]


def test_a_batch_that_is_too_small_is_refused():
    for x in (np.ones((1, 3)), np.ones((0, 3)), np.ones((1, 3, 1))):
        with pytest.raises(ab.ShapeError, match="too-few-values"):
            ab.batch_norm(x, np.zeros(3), np.ones(3), training=True)
        assert ab.batch_norm(x, np.zeros(3), np.ones(3))[0].shape == x.shape
    with pytest.raises(ab.ShapeError, match="running_var needs shape"):
        ab.batch_norm(np.ones((2, 3)), np.zeros(3), np.ones(2))


# Half types


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_halves_are_computed_wide(dtype):
    kind = np.dtype(getattr(ab, dtype))
    x = np.array([[300.0, 304.0, 296.0, 300.0]]).astype(kind)  # whose squares no float16 holds
    one = np.ones(4).astype(kind)
    rounding = 1e-6 if dtype == "float32" else 1e-2
    exact = {
        "layer_norm": (ab.layer_norm, plain_layer_norm(x.astype(float), -1)),
        "rms_norm": (ab.rms_norm, plain_rms_norm(x.astype(float), -1)),
        "normalize": (ab.normalize, x.astype(float) / np.linalg.norm(x.astype(float))),
    }
    for f, wanted in exact.values():
        found = f(x)
        assert found.dtype == kind
        assert found.astype(float) == close(wanted, rel=rounding, abs=rounding)
        assert ab.grad(lambda x, f=f: ab.sum(f(x)))(x).dtype == kind
    cosine = ab.cosine_similarity(x, x)
    assert (cosine.dtype, cosine.tolist()) == (kind, [close(1.0, rel=rounding)])
    y, mean, var = ab.batch_norm(x.T, one[:1], one[:1], training=True)
    assert y.dtype == mean.dtype == var.dtype == kind
    assert float(mean[0]) == close(30.9, rel=rounding)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_is_one_scope_and_asks_for_nothing_outside_of_a_domain(name):
    graph = ab.trace(FUNCTIONS[name], ROWS)
    scopes = {n.scope.split("/")[0] for n in graph.nodes if n.kind == "op"}
    assert name.replace("'", ",").split(",", maxsplit=1)[0] in scopes
    with ab.config(domain="raise"):
        for x in (ROWS, np.zeros((3, 4)), np.ones((3, 4))):
            ab.grad(lambda x: ab.sum(FUNCTIONS[name](x)))(x)
