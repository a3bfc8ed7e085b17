"""Functions made of ops: against formulas, against differences, and where a row is -inf."""

import math

import numpy as np
import pytest

import anabranch as ab

inf = math.inf
ROWS = np.random.default_rng(3).normal(size=(3, 4)) * 2.0
AXES = [0, 1, -1]


def plain_softmax(x, axis):
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


def close(value, rel=1e-13):
    return pytest.approx(value, rel=rel, abs=1e-15)


@pytest.mark.parametrize("axis", AXES)
def test_values_are_those_of_the_formulas(axis):
    p = plain_softmax(ROWS, axis)
    assert ab.softmax(ROWS, axis) == close(p)
    assert ab.log_softmax(ROWS, axis) == close(np.log(p))
    assert ab.logsumexp(ROWS, axis) == close(np.log(np.exp(ROWS).sum(axis=axis)))
    assert ab.mean(ROWS, axis) == close(ROWS.mean(axis=axis))
    assert ab.relu(ROWS).tolist() == np.maximum(ROWS, 0.0).tolist()
    assert ab.clip(ROWS, -1.0, 0.5).tolist() == np.clip(ROWS, -1.0, 0.5).tolist()


def test_reductions_over_all_axes_and_kept_ones():
    assert ab.logsumexp(ROWS) == close(np.log(np.exp(ROWS).sum()))
    assert ab.logsumexp(ROWS, 0, keepdims=True).shape == (1, 4)
    assert ab.mean(ROWS) == close(ROWS.mean())
    assert ab.mean(ROWS, (0, 1), keepdims=True).shape == (1, 1)
    assert math.isnan(quietly(ab.mean, np.zeros(0)))


FUNCTIONS = {
    "softmax": ab.softmax,
    "softmax, axis 0": lambda x: ab.softmax(x, 0),
    "log_softmax": ab.log_softmax,
    "log_softmax, axis 0": lambda x: ab.log_softmax(x, 0),
    "logsumexp": ab.logsumexp,
    "logsumexp, axis 1": lambda x: ab.logsumexp(x, 1, keepdims=True),
    "mean": ab.mean,
    "mean, axis 0": lambda x: ab.mean(x, 0),
    "relu": ab.relu,
    "clip": lambda x: ab.clip(x, -1.0, 1.0),
    "cross_entropy": lambda x: ab.cross_entropy(x, np.array([1, 3, 0])),
    "cross_entropy, axis 0": lambda x: ab.cross_entropy(x, np.array([1, 0, 2, 0]), axis=0),
    "cross_entropy, shares": lambda x: ab.cross_entropy(x, plain_softmax(ROWS, 1)),
}


@pytest.mark.proves("S1-31")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_agree_with_differences(name):
    assert ab.check_gradients(FUNCTIONS[name], ROWS).verdict == "pass"
    # and those of the gradient: the second order
    weights = np.random.default_rng(8).normal(size=ROWS.shape)
    report = ab.check_gradients(
        lambda x: ab.sum(ab.grad(lambda v: ab.sum(FUNCTIONS[name](v) * 1.5))(x) * weights), ROWS
    )
    assert report.verdict == "pass", report


def test_gradients_are_those_of_the_formulas():
    p = plain_softmax(ROWS, 1)
    assert ab.grad(ab.logsumexp)(ROWS[0]) == close(plain_softmax(ROWS[0], 0))
    labels = np.array([1, 3, 0])
    target = np.eye(4)[labels]
    found = ab.grad(ab.cross_entropy)(ROWS, labels)
    assert found == close((p - target) / 3, rel=1e-12)
    assert ab.grad(lambda x: ab.log_softmax(x)[0, 1])(ROWS)[0] == close(target[0] - p[0], 1e-12)


def test_labels_as_classes_and_as_shares_agree():
    labels = np.array([1, 3, 0])
    whole = ab.cross_entropy(ROWS, labels)
    assert ab.cross_entropy(ROWS, np.eye(4)[labels]) == close(whole)
    assert ab.cross_entropy(ROWS.T, labels, axis=0) == close(whole)


@pytest.mark.parametrize("shift", [0.0, 800.0, -800.0, 1e300])
def test_a_common_shift_changes_nothing_and_never_overflows(shift):
    x = np.array([0.0, math.log(3.0)])
    assert ab.softmax(x + shift) == pytest.approx(
        [0.25, 0.75] if abs(shift) < 1e300 else [0.5, 0.5], rel=1e-12
    )
    assert np.isfinite(ab.log_softmax(x + shift)).all()
    assert ab.logsumexp(x) + shift == pytest.approx(float(ab.logsumexp(x + shift)), rel=1e-12)
    assert np.isfinite(ab.grad(lambda x: ab.log_softmax(x)[0])(x + shift)).all()


def quietly(f, *args):
    with np.errstate(all="ignore"):
        return f(*args)


def test_an_element_of_minus_infinity_gets_nothing():
    x = np.array([0.0, -inf, 0.0])
    assert quietly(ab.softmax, x).tolist() == [0.5, 0.0, 0.5]
    assert quietly(ab.logsumexp, x) == close(math.log(2.0))
    assert quietly(ab.grad(ab.logsumexp), x).tolist() == [0.5, 0.0, 0.5]
    assert quietly(ab.grad(lambda x: ab.log_softmax(x)[0]), x).tolist() == [0.5, 0.0, -0.5]
    assert quietly(ab.grad(lambda x: ab.softmax(x)[0]), x).tolist() == [0.25, 0.0, -0.25]


def test_a_row_of_nothing_but_minus_infinity():
    x = np.array([[-inf, -inf], [0.0, 0.0]])
    assert quietly(lambda: ab.logsumexp(x, 1)).tolist() == [-inf, close(math.log(2.0))]
    assert quietly(ab.grad(lambda x: ab.sum(ab.logsumexp(x, 1))), x).tolist() == [
        [0, 0],
        [0.5, 0.5],
    ]
    p = quietly(ab.softmax, x)
    assert np.isnan(p[0]).all()
    assert p[1].tolist() == [0.5, 0.5]
    # masked out, the row's NaN stays where it is
    keep = np.array([[False], [True]])
    masked = ab.grad(lambda x: ab.sum(ab.where(keep, ab.softmax(x) * np.array([1.0, 2.0]), 0.0)))
    assert quietly(masked, x).tolist() == [[0.0, 0.0], [-0.25, 0.25]]


def test_an_element_of_plus_infinity():
    x = np.array([0.0, inf])
    assert quietly(ab.logsumexp, x) == inf
    assert quietly(ab.grad(ab.logsumexp), x).tolist() == [0.0, 0.0]


def test_labels_that_do_not_fit_are_refused():
    with pytest.raises(ab.errors.ShapeError, match=r"labels have shape \(2,\), need \(3,\)"):
        ab.cross_entropy(ROWS, np.array([0, 1]))
    with pytest.raises(ab.errors.OutOfRangeError):
        ab.cross_entropy(ROWS, np.array([0, 1, 4]))
    with pytest.raises(ab.errors.OutOfRangeError):
        ab.cross_entropy(ROWS, np.array([0, -1, 2]))


def test_they_are_named_scopes():
    graph = ab.trace(lambda x: ab.softmax(x), np.zeros(3))
    assert {node.scope for node in graph.nodes if node.kind == "op"} == {"softmax"}
