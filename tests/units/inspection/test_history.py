"""Gradients of the same leaf in the passes before: who is known again, and how it is shown."""

import json

import numpy as np
import pytest

import anabranch as ab
from anabranch.inspection import history, sparks
from anabranch.inspection.reader import parsed
from anabranch.inspection.report import Report
from anabranch.inspection.watching import watching


def leaf():
    return ab.tensor([1.0, 2.0], requires_grad=True, name="w")


def descended(w):
    """A pass that makes the gradient half as long as before."""
    w.zero_grad()
    (w * w).sum().backward()
    w.data -= 0.25 * w.grad


def seen_steps(seen):
    return seen.report.trace.nodes[0].steps


def test_a_weight_is_known_again():
    w = leaf()
    with watching() as seen:
        for _ in range(4):
            descended(w)
    first = 2 * np.sqrt(5.0)
    np.testing.assert_allclose(seen_steps(seen), [first, first / 2, first / 4, first / 8])


def test_an_argument_that_is_made_anew_goes_on_with_the_last_one():
    slope = ab.grad(lambda w: (w * w).sum())
    with watching() as seen:
        for k in range(3):
            slope(np.array([1.0 + k, 0.0]))
    assert seen_steps(seen) == [2.0, 4.0, 6.0]


def test_two_models_of_one_class_stay_two():
    one, two = leaf(), leaf()
    with watching() as seen:
        for _ in range(2):
            descended(one)
            descended(one)
            descended(two)
    assert len(seen_steps(seen)) == 2


def test_leaves_of_one_line_in_one_pass_are_not_mixed():
    with watching() as seen:
        for k in range(3):
            a, b = (ab.tensor([n + k], requires_grad=True, name="w") for n in (1.0, 5.0))
            (a * a + b * b).sum().backward()
    assert [node.steps for node in seen.report.trace.nodes if node.is_leaf] == [None, None]


def test_one_pass_has_no_history():
    w = leaf()
    with watching() as seen:
        descended(w)
    assert seen_steps(seen) is None


def test_the_last_passes_only_are_kept_up_to_the_one_that_is_asked_for():
    w = leaf()
    with watching(step=40) as seen:
        for k in range(45):
            w.data[:] = [k, 0.0]
            (w * w).sum().backward()
    assert seen_steps(seen) == [2.0 * k for k in range(40 - history.STEPS, 40)]


def test_what_is_not_finite_travels_and_is_marked():
    w = leaf()
    with watching() as seen, np.errstate(all="ignore"):
        for value in (2.0, np.inf, np.nan, 1.0):
            w.data[:] = [value, 0.0]
            (w * w).sum().backward()
    text = seen.report.trace.to_json()
    assert json.loads(text)["nodes"][0]["steps"] == [4, "inf", "nan", 2]
    loaded = Report(None, trace=parsed(text))
    assert "█!!▁" in str(loaded.grads()) and str(loaded.grads()) == str(seen.report.grads())
    assert json.loads(loaded.grads().to_json())["rows"][0]["steps"][1] == "inf"


def test_shapes_alone_tell_nothing_of_it():
    w = leaf()
    with watching(detail="shape") as seen:
        descended(w)
        descended(w)
    assert seen_steps(seen) is None


def test_a_scope_has_the_norms_of_all_its_leaves():
    one = ab.tensor([3.0], requires_grad=True, name="layer.a")
    two = ab.tensor([4.0], requires_grad=True, name="layer.b")
    with watching() as seen:
        for _ in range(2):
            (one * one + two * two).sum().backward()
    assert seen.report.grads(by="scope").rows[0].steps == [10.0, 10.0]


@pytest.mark.parametrize(
    ("sizes", "heights"),
    [
        ([1.0, 1.0], [0.5, 0.5]),
        ([0.0, 0.0], [0.5, 0.5]),
        ([0.0, 99.0, 1.0], [0.0, 1.0, 1 / 99]),
        ([0.0, 100.0, 10.0, 1.0], [0.0, 1.0, 0.5, 0.0]),
        ([float("inf"), 2.0], [None, 0.5]),
        ([float("nan")], [None]),
    ],
)
def test_heights(sizes, heights):
    assert sparks.heights(sizes) == heights


def test_a_compiled_value_and_gradient_is_walked_back_from_its_value():
    slope = ab.compile(ab.value_and_grad(lambda w: (w * w).sum()))
    with watching() as seen:
        for k in range(2):
            slope(np.array([3.0 + k, 0.0]))
    row = seen.report.grads().rows[0]
    assert (row.grad, row.steps) == (8.0, [6.0, 8.0])


def test_a_compiled_gradient_alone_is_no_value_to_walk_back_from():
    with watching() as seen:
        ab.compile(ab.grad(lambda x: ab.sin(x)))(2.0)
    assert seen.count == 1
    assert seen.report.grads().rows[0].gradient == "waiting"


def test_a_gradient_that_is_a_value_of_the_forward_pass_is_not_taken_for_the_result():
    def f(x, y):
        return x * (y * y)  # its derivative by x is y * y, which was computed going forward

    with watching() as seen:
        ab.compile(ab.grad(f, argnums=(0, 1)))(2.0, 3.0)
    assert {row.gradient for row in seen.report.grads().rows} == {"waiting"}


def test_a_run_that_needs_no_gradient_is_none_though_its_graph_has_some():
    graph = ab.Graph("both")
    x = graph.parameter("x", (), ab.float64)
    y = x * x
    slope = ab.gradients(y, [x])[0]
    with watching() as seen:
        graph.compile(y)(3.0)
        assert seen.count == 0
        graph.compile(y, slope)(3.0)
    assert seen.count == 1 and seen.report.grads().rows[0].grad == 6.0
