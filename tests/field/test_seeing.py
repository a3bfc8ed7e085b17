"""Faults that people met while looking for NaN, zeros and memory, each by what must be seen."""

import json

import numpy as np
import pytest

import anabranch as ab

pytestmark = pytest.mark.usefixtures("noiseless")


def eager(f, x):
    return ab.inspect(f(ab.tensor(x, requires_grad=True, name="x")))


def compiled(f, x):
    return ab.inspect(ab.compile(f), np.asarray(x))


def by_hand(f, x):
    g = ab.Graph("by hand")
    return ab.inspect(f(g.parameter("x", np.shape(x), ab.float64)), x)


WAYS = [eager, lambda f, x: ab.inspect(f, x), compiled, by_hand]
WAY = pytest.mark.parametrize("look", WAYS, ids=["eager", "function", "compiled", "by hand"])


def nested_roots(x):
    inner = ab.sqrt(x - 2.0)
    return ab.sqrt(inner)


@WAY
@pytest.mark.proves("F-45")
def test_the_inner_root_is_the_origin_and_not_the_outer(look):
    report = look(nested_roots, 1.0)
    found = report.trace.findings[0]
    assert (found.kind, found.cause) == ("first-nan", "domain")
    assert report.trace.nodes[found.node].label == "inner"
    assert found.text == "sqrt(-1) has no value"
    assert [report.trace.nodes[i].op for i in found.reaches] == ["sqrt"]


@WAY
@pytest.mark.proves("F-45")
def test_a_loss_that_is_nan_is_never_passed_over(look):
    report = look(lambda x: ab.log(-x), 1.0)
    found = report.trace.findings[0]
    assert (found.kind, found.node) == ("first-nan", report.trace.root)
    assert found.text == "log(-1) has no value"
    assert report.why().is_trouble


@pytest.mark.parametrize("run", [lambda f, x: f(x), lambda f, x: ab.compile(f)(x)])
@pytest.mark.proves("F-45")
def test_one_can_stop_right_there(run):
    with ab.config(nonfinite="raise"), pytest.raises(FloatingPointError) as caught:
        run(nested_roots, np.float64(1.0))
    assert caught.value.details["operands"] == (-1.0,)
    assert "inner = ab.sqrt(x - 2.0)" in str(caught.value)


@WAY
@pytest.mark.proves("F-47")
def test_the_report_has_op_shape_dtype_counts_and_operands(look):
    report = look(lambda x: ab.sum(nested_roots(x)), np.array([1.0, 3.0]))
    told = report.why()
    node = told.node
    assert (node.op, node.shape, node.dtype) == ("sqrt", [2], "float64")
    assert (told.finding.bad, told.finding.of, told.finding.index) == (1, 2, [0])
    operand = told.finding.proof[0]
    assert (operand.v, operand.summary.min, operand.summary.max) == (-1.0, -1.0, 1.0)
    for words in ("sqrt", "float64 (2,)", "1 of 2 elements", "= -1", "runs from -1 to 1"):
        assert words in str(told)


@WAY
@pytest.mark.proves("F-49")
def test_a_nan_that_never_reaches_the_output_is_listed_as_such(look):
    def f(x):
        return ab.sum(ab.where(x > 0.0, ab.sqrt(x), 0.0))

    report = look(f, np.array([-1.0, 4.0]))
    (found,) = report.trace.findings
    assert (found.kind, found.index, found.reaches_root) == ("nan", [0], False)
    assert report.trace.nodes[report.trace.root].value.v == 2.0
    assert "does not reach the result" in str(report.why())


@pytest.mark.parametrize("passes", [None, ()], ids=["default passes", "as built"])
@pytest.mark.proves("F-51")
def test_constants_do_not_escape(passes):
    def f(x):
        return ab.sqrt(ab.tensor(-1.0)) + 0.0 * x

    g = ab.Graph("by hand")
    x = g.parameter("x", (), ab.float64)
    z = ab.sqrt(g.constant(np.float64(-1.0))) + 0.0 * x
    for report in (
        ab.inspect(f, 1.0),
        ab.inspect(f(ab.tensor(1.0, requires_grad=True))),
        ab.inspect(ab.compile(f, passes=passes), 1.0),
        ab.inspect(g.compile(z, passes=passes), 1.0),
    ):
        found = report.trace.findings[0]
        assert (found.kind, found.reaches_root) == ("first-nan", True)
        if passes == () and len(report.trace.nodes) == 5:
            assert report.trace.nodes[found.node].op == "sqrt"


@pytest.mark.proves("F-51")
def test_stopping_sees_constants_too():
    with ab.config(nonfinite="raise"), pytest.raises(ab.NonFiniteError, match="sqrt"):
        ab.grad(lambda x: ab.sqrt(ab.tensor(-1.0)) + 0.0 * x)(1.0)


def descent(x, steps=5):
    for turn in range(steps):
        with ab.scope(f"turn{turn}"):
            root = ab.sqrt(x)
            x = x - 0.1 * root
    return x


@WAY
@pytest.mark.proves("F-53")
def test_the_turn_of_a_loop_in_which_it_happened_is_named(look):
    report = look(descent, 0.004)
    trace, found = report.trace, report.trace.findings[0]
    node = trace.nodes[found.node]
    assert trace.scopes[node.scope].name == "turn1"  # the second turn
    assert node.op == "sqrt"
    assert found.proof[0].v == pytest.approx(-0.0023245553203, abs=1e-12)


@pytest.mark.proves("F-53")
def test_the_part_of_a_derivative_in_which_it_happened_is_named():
    x = ab.tensor(0.0, requires_grad=True, name="x")
    (first,) = ab.gradients(ab.sqrt(x * 2.0) * x, [x], record=True)
    told = ab.inspect(first).why("x")
    assert told.kind == "bad-gradient"
    assert told.finding.phase == "backward"


def clipped(gradient, limit):
    size = ab.sqrt(ab.sum(gradient * gradient))
    scale = limit / size
    return gradient * scale


@WAY
@pytest.mark.proves("F-55")
def test_clipping_that_hides_an_infinity_and_makes_nan_is_told(look):
    report = look(lambda g: ab.sum(clipped(g * 1e200, 1.0)), np.array([1e150, 1.0]))
    found = report.trace.findings[0]
    assert (found.kind, found.cause) == ("first-inf", "overflow")
    assert report.trace.nodes[found.becomes].op == "multiply"

    report = look(lambda g: ab.sum(clipped(g, 0.0)), np.zeros(2))
    found = report.trace.findings[0]
    assert (found.kind, found.cause) == ("first-nan", "0/0")
    assert report.trace.nodes[found.node].label == "scale"


@pytest.mark.proves("F-55")
def test_infinite_gradients_are_told_with_the_names_of_the_parameters():
    def loss(p):
        return ab.sum(ab.sqrt(p["w"])) + ab.sum(p["b"])

    report = ab.inspect(loss, {"w": np.array([0.0, 1.0]), "b": np.ones(2)})
    found = report.trace.findings[0]
    assert (found.kind, found.phase, found.cause) == (
        "first-inf",
        "backward",
        "infinite-derivative",
    )
    assert [report.trace.nodes[i].label for i in found.reaches] == ["p['w']"]


def used_before_and_after(x, n=3):
    g = x * x
    total = x
    for _ in range(n - 1):
        total = total + x
    return g * total


@WAY
@pytest.mark.proves("F-63")
def test_a_path_around_a_loop_is_seen_beside_the_one_through_it(look):
    report = look(used_before_and_after, 2.0)
    trace = report.trace
    x = trace.find("x")[0]
    assert x.grad.v == 36.0
    through = [(trace.nodes[e.to].op, e.contribution.v) for e in trace.arrivals(x.id)]
    assert sum(part for op, part in through if op == "add") == 12.0
    assert sum(part for op, part in through if op == "multiply") == 24.0
    assert ab.check_gradients(used_before_and_after, 2.0).ok


@pytest.mark.parametrize("passes", [None, ()])
@pytest.mark.proves("F-111")
def test_what_the_backward_pass_keeps_is_listed(passes):
    for look in (
        lambda f, x: ab.inspect(f, x),
        lambda f, x: ab.inspect(ab.compile(f, passes=passes), x),
    ):
        trace = look(lambda x: ab.sum(ab.sin(ab.sin(x))), np.ones(3)).trace
        kept = trace.kept()
        assert [node.bytes for node in kept] == [24, 24]
        assert all(trace.nodes[i].op == "sin" for node in kept for i in node.kept_for)
        assert [node["kept_for"] for node in json.loads(trace.to_json())["nodes"][:2]] == [[1], [2]]
