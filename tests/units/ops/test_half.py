"""16-bit floats: stored narrow, summed and counted wide."""

import ml_dtypes
import numpy as np
import pytest

import anabranch as ab

HALF = [np.float16, ml_dtypes.bfloat16]


@pytest.mark.parametrize("dtype", HALF)
def test_a_sum_of_many_small_values_does_not_stall(dtype: type) -> None:
    x = np.ones(5_000, dtype)
    for total in (ab.sum(x), ab.tensor(x).sum().data, ab.compile(ab.sum)(x)):
        assert total.dtype == dtype
        assert float(total) == float(dtype(5_000.0))


@pytest.mark.parametrize("dtype", HALF)
def test_a_mean_whose_sum_would_overflow(dtype: type) -> None:
    x = ab.tensor(np.full(70_000, 2.0, dtype), requires_grad=True)
    y = ab.mean(x)
    assert (float(y), y.dtype) == (2.0, dtype)
    y.backward()
    assert x.grad.dtype == dtype
    np.testing.assert_allclose(x.grad.astype(float), 1 / 70_000, rtol=0.01)


@pytest.mark.parametrize("dtype", HALF)
def test_a_small_model_stays_narrow_and_its_gradient_is_near_that_in_float64(dtype: type) -> None:
    rng = np.random.default_rng(0)
    w, x = rng.normal(size=(3, 4)) / 2, rng.normal(size=(5, 3))

    def loss(w, x):
        return ab.logsumexp(ab.tanh(x @ w), axis=1).mean()

    narrow = ab.grad(loss)(w.astype(dtype), x.astype(dtype))
    assert narrow.dtype == dtype
    np.testing.assert_allclose(narrow.astype(float), ab.grad(loss)(w, x), atol=0.02)


@pytest.mark.parametrize("dtype", HALF)
def test_a_python_number_leaves_a_half_as_narrow_as_it_was(dtype: type) -> None:
    def f(x):
        return [x * 2.5, 1.0 / x, x**2.5, ab.where(x > 0.5, x, 0.1), ab.maximum(x, 0.1), x + 2]

    x = np.array([0.5, 1.0, 3.0], dtype)
    wide = [y.astype(dtype) for y in f(x.astype(np.float32))]
    for made in (f(ab.tensor(x)), f(ab.tensor(x, requires_grad=True)), ab.compile(f)(x)):
        for y, about in zip(made, wide, strict=True):
            assert y.dtype == dtype
            np.testing.assert_allclose(
                np.asarray(ab.tensor(y).data, float), about.astype(float), rtol=0.01
            )
    assert {
        ab.softmax(x).dtype,
        ab.log_softmax(x).dtype,
        ab.grad(lambda x: ab.sum(x * 2.5))(x).dtype,
    } == {np.dtype(dtype)}
