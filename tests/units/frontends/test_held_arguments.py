"""Arguments that are not differentiated: tensors for arrays, so that a function sees one kind."""

import numpy as np
import pytest

import anabranch as ab

X, V = np.array([1.0, 2.0, 3.0]), np.array([5.0, 7.0, 11.0])


def replaced(x, v):
    return ab.sum(x.at[0].set(0.0) * v * v)


def test_an_array_that_is_held_has_what_a_tensor_has():
    wanted = 2 * np.array([0.0, 2.0, 3.0]) * V
    np.testing.assert_allclose(ab.grad(replaced, argnums=1)(X, V), wanted)
    np.testing.assert_allclose(ab.value_and_grad(replaced, argnums="v")(X, v=V)[1], wanted)
    np.testing.assert_allclose(ab.jacobian(replaced, argnums=1)(X, V), wanted)
    np.testing.assert_allclose(ab.hessian(replaced, argnums=1)(X, V), np.diag([0.0, 4.0, 6.0]))
    np.testing.assert_allclose(ab.compile(ab.grad(replaced, argnums=1))(X, V), wanted)


def test_results_are_numpys_and_the_array_stays_the_callers():
    x = X.copy()

    def f(v, x):
        x = x + 0.0
        x += 1.0
        return ab.sum(v * x), x

    slope, aux = ab.grad(f, has_aux=True)(V, x)
    assert type(slope) is type(aux) is np.ndarray
    assert x.tolist() == X.tolist()


def test_kinds_and_containers_are_kept():
    seen = {}

    def f(v, data, *, labels, name, n):
        seen.update(data=data, labels=labels, name=name, n=n)
        return ab.sum(ab.take(v, labels) * data["x"]) * n

    slope = ab.grad(f)(V, {"x": X}, labels=np.array([2, 0, 2]), name="one", n=2)
    assert slope.tolist() == [4.0, 0.0, 8.0]
    assert type(seen["data"]["x"]) is type(seen["labels"]) is ab.Tensor
    assert seen["labels"].dtype == np.int64
    assert (seen["name"], seen["n"]) == ("one", 2)


def test_what_no_tensor_can_hold_stays_as_it_is():
    words = np.array(["a", "b"])
    seen = []
    ab.grad(lambda v, w: seen.append(w) or ab.sum(v))(V, words)
    assert seen[0] is words


def test_a_held_array_may_be_what_it_was_after_the_call():
    """What is recorded of it is its value of that time, also where the walk comes later."""
    x = X.copy()
    _, pullback = ab.vjp(lambda v: ab.sum(v * x), V)
    x[:] = 0.0
    assert pullback(1.0)[0].tolist() == X.tolist()


@pytest.mark.parametrize("index", [0, slice(0, 2), np.array([0, 2])])
def test_a_held_array_is_indexed_as_before(index):
    slope = ab.grad(lambda v, x: ab.sum(v[index] * x[index]))(V, X)
    assert slope[index].tolist() == X[index].tolist()
