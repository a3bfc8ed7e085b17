"""How a gradient came about, and why one is zero or missing: one program a cause."""

import json

import numpy as np
import pytest

import anabranch as ab
from anabranch.inspection import reader
from anabranch.inspection.answers import ADDED, IN_ORDER, OWN_INPUT, answers
from anabranch.inspection.explanation import explained
from anabranch.inspection.why import MOST_PATHS, paths

pytestmark = pytest.mark.usefixtures("noiseless")


def story(x, y):
    p = x * y
    s = p + x
    z = s * s
    return z


@pytest.mark.proves("S1-04")
def test_paths_are_listed_with_their_products():
    told = ab.inspect(story, 2.0, 3.0).why("x")
    trace = told.trace
    found = told.finding
    assert (told.kind, told.cause, told.is_trouble) == ("gradient", None, False)
    ways = [
        (" ".join(trace.label(i) for i in p.nodes), p.factors, p.product, p.edges)
        for p in found.paths
    ]
    assert ways == [
        ("x s z", [[1.0], [8.0, 8.0]], 16.0, 2),
        ("x p s z", [[3.0], [1.0], [8.0, 8.0]], 48.0, 2),
    ]
    assert sum(path.edges for path in found.paths) == 4
    assert found.more_paths is None
    assert [
        (trace.label(s.through), s.upstream.v, s.local.v, s.amount.v) for s in found.shares
    ] == [
        ("s", 16.0, 1.0, 16.0),
        ("p", 16.0, 3.0, 48.0),
    ]
    assert told.text == "the gradient of x arrived through s and p"
    assert "x → p → s → z   3 × 1 × (8 + 8) = 48" in str(told)


def test_paths_beyond_a_number_are_counted_not_walked():
    def f(x):
        for _ in range(200):
            x = x * 0.5 + ab.sin(x) * 0.5
        return x

    trace = ab.inspect(f, 0.3).trace
    found, count = paths(trace, 0)
    assert len(found) == MOST_PATHS
    assert count == 2**200
    told = explained(trace, "x")
    assert told.finding.more_paths == 2**200 - MOST_PATHS
    assert "and 1.607e60 more paths" in str(told)
    again = reader.parsed(trace.to_json())
    assert str(explained(again, "x")) == str(told)


def test_tensors_are_told_by_rules_and_norms():
    def f(x, w):
        h = x @ w
        return ab.sum(h * h)

    told = str(ab.inspect(f, np.ones((2, 3)), np.ones((3, 4))).why("w"))
    assert "through h" in told
    assert "by x.T @ ct" in told


# Zero


def multiplied_by_nothing(a, b):
    k = a * 0
    return k + b


def multiplied_by_a_zero(a, b):
    k = a * (b - 3.0)
    return k + b


def a_dead_relu(a, b):
    k = ab.relu(a - 10.0)
    return k * b + b


def not_the_largest(a, b):
    k = ab.maximum(a, b)
    return k * 2.0


def outside_the_clip(a, b):
    k = ab.clip(a, -1.0, 1.0)
    return k * b


def a_saturated_tanh(a, b):
    k = ab.tanh(a * 400.0)
    return k * b


def an_underflow(a, b):
    k = a * 1e-200
    return k * (b * 1e-200)


def a_cancellation(a, b):
    k = a * b
    return k - a * b


def the_branch_not_taken(a, b):
    k = ab.where(b > 0.0, b, a)
    return k * 1.0


ZEROS = {
    multiplied_by_nothing: ("multiplied-by-zero", "k", "multiplied by zero at k"),
    multiplied_by_a_zero: ("multiplied-by-zero", "k", "multiplied by zero at k"),
    a_dead_relu: ("local-zero", "k", "relu at"),
    not_the_largest: ("local-zero", "k", "maximum at"),
    outside_the_clip: ("local-zero", "k", "clip at"),
    a_saturated_tanh: ("local-zero", "k", "tanh at"),
    an_underflow: ("underflow", "k", "smaller than float64 can hold"),
    a_cancellation: ("cancelled", "a", "cancel: (-3) + 3 = 0"),
    the_branch_not_taken: ("local-zero", "k", "where at"),
}


@pytest.mark.parametrize("way", ["eager", "function", "compiled", "by hand"])
@pytest.mark.parametrize("program", ZEROS, ids=lambda program: program.__name__)
@pytest.mark.proves("S0-68", "S0-69")
def test_a_zero_gradient_has_a_cause_a_place_and_a_line(program, way):
    cause, place, words = ZEROS[program]
    a, b = 2.0, 3.0
    if way == "eager":
        leaves = [ab.tensor(v, requires_grad=True, name=n) for v, n in ((a, "a"), (b, "b"))]
        report = ab.inspect(program(*leaves))
    elif way == "function":
        report = ab.inspect(program, a, b)
    elif way == "compiled":
        report = ab.inspect(ab.compile(program, passes=()), np.float64(a), np.float64(b))
    else:
        g = ab.Graph("by hand")
        report = ab.inspect(program(*(g.parameter(n, (), ab.float64) for n in "ab")), a, b)
    told = report.why("a")
    assert (told.kind, told.cause) == ("zero-gradient", cause)
    assert told.node.label == place
    assert words.replace("test_why.py", "") in told.text.replace(
        "tests/units/inspection/test_why.py", ""
    )
    if place == "k":
        assert told.trace.line(told.node)[2].startswith("k = ")
    assert [answer.yes for answer in told.finding.answers] == [True] * 3
    assert [answer.question for answer in told.finding.answers] == [ADDED, IN_ORDER, OWN_INPUT]
    assert [f.kind for f in report.trace.findings if f.about == told.finding.about] == [
        "zero-gradient"
    ]
    if cause != "cancelled":
        (step,) = [s for s in told.finding.steps if s.at_fault]
        edge = told.trace.edges[told.finding.edge]
        assert (edge.from_, edge.to) == (step.node, told.finding.node)
        assert step.grad == 0.0
        assert told.finding.steps[0].node == told.trace.root
        assert told.finding.steps[-1].node == told.finding.about


def test_the_proof_of_a_dead_relu_says_by_how_much():
    def f(x, w, b):
        z = x @ w + b
        h = ab.relu(z)
        return ab.sum(h) + ab.sum(x)

    x, w = np.ones((4, 2)), np.ones((2, 20))
    told = ab.inspect(f, x, w, np.full(20, -7.139)).why("w")
    assert "its local derivative is 0 in all 80 elements" in told.text
    assert "all 80 elements of z are below 0 (largest -5.139)" in told.text
    norms = [step.grad for step in told.finding.steps]
    assert norms[0] == 1.0
    assert norms[-1] == 0.0


def test_a_zero_from_above_is_followed_to_its_beginning():
    def f(x):
        a = x * 2.0
        b = ab.sin(a)
        c = b * 0.0
        return c + 1.0

    told = ab.inspect(f, 1.0).why("x")
    assert told.node.label == "c"
    assert [told.trace.label(s.node) for s in told.finding.steps] == ["#5", "c", "b", "a", "x"] or [
        told.trace.label(s.node) for s in told.finding.steps
    ][1:] == ["c", "b", "a", "x"]


def test_a_cotangent_of_zero_is_told():
    told = ab.inspect(lambda x: x * 2.0, 1.0, ct=0.0).why("x")
    assert told.cause == "upstream-zero"


def test_inputs_that_suffer_from_one_place_are_one_finding():
    def f(ps):
        total = 0.0
        for p in ps:
            total = total + p
        return (total * 0.0) + 1.0

    (found,) = ab.inspect(f, [1.0] * 5).trace.findings
    assert found.cause == "multiplied-by-zero"
    assert len(found.reaches) == 4


# The three questions, where the answer is no


def test_an_overwritten_contribution_is_noticed():
    trace = ab.inspect(story, 2.0, 3.0).trace
    x = trace.find("x")[0]
    assert [answer.yes for answer in answers(trace, x)] == [True, True, True]
    assert answers(trace, x)[0].evidence == "16 + 48 = 64"
    x.grad.v = 48.0
    assert [answer.yes for answer in answers(trace, x)] == [False, True, True]


def test_a_contribution_in_the_wrong_place_is_noticed():
    trace = ab.inspect(lambda x, y: x * y, 2.0, 3.0).trace
    first, second = trace.edges
    first.contribution, second.contribution = second.contribution, first.contribution
    x, y = trace.nodes[:2]
    x.grad, y.grad = y.grad, x.grad
    assert [answer.yes for answer in answers(trace, x)] == [True, True, False]


def test_a_reader_that_took_no_turn_is_noticed():
    data = json.loads(ab.inspect(story, 2.0, 3.0).trace.to_json())
    data["order"]["backward"].remove(2)
    trace = reader.parsed(json.dumps(data))
    assert not answers(trace, trace.nodes[0])[1].yes


# None


def stopped(a, b):
    k = ab.stop_gradient(a)
    return k * b


def compared(a, b):
    k = a > 0.0
    return ab.where(k, b, b * 2.0)


def rounded_to_an_integer(a, b):
    k = a.astype(int)
    return k * b


def unread(a, b):
    return b * 1.0


def read_for_nothing(a, b):
    k = a * 2.0
    del k
    return b * 1.0


NONES = {
    stopped: ("no-gradient", "stopped", "k", "which is stop_gradient"),
    compared: ("no-gradient", "stopped", "k", "whose result is bool"),
    rounded_to_an_integer: ("no-gradient", "stopped", "k", "whose result is int64"),
    unread: ("unused-parameter", "not-reached", None, "nothing reads a"),
}


@pytest.mark.parametrize("program", NONES, ids=lambda program: program.__name__)
def test_a_missing_gradient_has_a_cause(program):
    kind, cause, place, words = NONES[program]
    report = ab.inspect(program, 2.0, 3.0)
    told = report.why("a")
    assert (told.kind, told.cause) == (kind, cause)
    assert words in told.text
    assert (told.node.label if told.node else None) == place
    assert report.trace.find("a")[0].grad is None
    assert [(f.kind, f.about) for f in report.trace.findings] == [(kind, 0)]


def test_zero_and_none_are_told_apart():
    trace = ab.inspect(lambda a, b, c: a * 0 + b, 1.0, 2.0, 3.0).trace
    a, b, c = (trace.find(name)[0] for name in "abc")
    assert (a.grad.v, b.grad.v, c.grad) == (0.0, 1.0, None)
    assert {f.kind for f in trace.findings} == {"zero-gradient", "unused-parameter"}


def test_no_way_to_the_result_is_told():
    x, y = (ab.tensor(v, requires_grad=True) for v in (1.0, 2.0))
    lost = x * 3.0
    told = ab.inspect(y * 2.0, [lost]).why("x")
    assert told.cause == "not-reached"
    assert "no path leads there" in told.text


def test_constants_and_integers_ask_for_none():
    x = ab.tensor(2.0, requires_grad=True)
    c = ab.tensor(3.0, name="c")
    n = ab.asarray(np.array([1, 2]))
    n.name = "n"
    report = ab.inspect(ab.sum(x * c * n))
    assert "is a constant" in report.why("c").text
    assert "only floats have gradients" in report.why("n").text


def test_before_backward_nothing_is_called_zero():
    report = ab.inspect(story, 2.0, 3.0, backward=False)
    assert report.trace.findings == []
    assert report.why("x").text == "backward has not run"
    shapes = ab.inspect(story, 2.0, 3.0, detail="shape")
    assert "without gradients" in shapes.why("x").text


# Names, and loaded traces


def test_why_is_short_for_looking_and_asking():
    report = ab.inspect(story, 2.0, 3.0)
    assert ab.why(story, "x", 2.0, 3.0).finding == report.why("x").finding
    assert ab.why(story, None, 2.0, 3.0).kind == "gradient"


def test_names_are_looked_up_with_care():
    report = ab.inspect(story, 2.0, 3.0)
    assert report.why("#0").finding == report.why("x").finding
    with pytest.raises(ab.ArgumentError, match="unknown-name") as caught:
        report.why("sum")
    assert "x" in str(caught.value)


@pytest.mark.parametrize("program", [*ZEROS, *NONES], ids=lambda program: program.__name__)
def test_a_loaded_trace_gives_the_same_answers(program):
    report = ab.inspect(program, 2.0, 3.0)
    again = reader.parsed(report.trace.to_json())
    for node in report.trace.nodes:
        name = f"#{node.id}"
        assert str(explained(again, name)) == str(report.why(name))
    assert str(explained(again)) == str(report.why())
