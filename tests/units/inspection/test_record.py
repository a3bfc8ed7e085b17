"""Records are of the user's own run: the same bits, every way to build, nothing left behind."""

import gc
import weakref

import numpy as np
import pytest

import anabranch as ab
from anabranch.core.bind import state
from anabranch.inspection.watching import watching

RNG = np.random.default_rng(3)
X, T = RNG.normal(size=(8, 3)), RNG.normal(size=(8, 2))
W1, W2 = RNG.normal(size=(3, 5)), RNG.normal(size=(5, 2))


def mlp(w1, w2):
    h = ab.tanh(X @ w1)
    y = ab.log_softmax(h @ w2, axis=1)
    return ab.mean(y * T + ab.where(y > -1.0, y, y * y))


def shared(w1, w2):
    u = ab.sum(w1 @ w2)
    return u * u + ab.exp(-u) * u


def part():
    """A graph with two outputs, one of which is read inside it too."""
    g = ab.Graph("part")
    p, q = (g.parameter(name, (), ab.float64) for name in "pq")
    product = p * q
    g.set_outputs([product, product * product + p])
    return g


PART = part()


def called(w1, w2):
    a, b = PART(ab.sum(w1), ab.sum(w2))
    c, d = PART(b, a)
    return a * b + c * d * a


PROGRAMS = [mlp, shared, called]


def bits(array):
    return np.asarray(array).tobytes()


@pytest.mark.parametrize("program", PROGRAMS)
def test_looking_gives_the_bits_of_the_run_itself(program):
    w1, w2 = (ab.tensor(w, requires_grad=True) for w in (W1, W2))
    loss = program(w1, w2)
    report = ab.inspect(loss)
    loss.backward()
    found = {entry.node.id: entry for entry in report.record.entries}
    for leaf in (w1, w2):
        assert bits(found[leaf.node.id].grads[0]) == bits(leaf.grad)
    assert bits(found[loss.node.id].values[0]) == bits(loss.data)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_function_gives_the_bits_of_the_transforms(program):
    value, (by_w1, by_w2) = ab.value_and_grad(program, argnums=(0, 1))(W1, W2)
    record = ab.inspect(program, W1, W2).record
    named = {entry.name: entry for entry in record.entries}
    root = record.entries[record.roots[0][0]]
    assert bits(root.values[0]) == bits(value)
    assert [bits(named[n].grads[0]) for n in ("w1", "w2")] == [bits(by_w1), bits(by_w2)]


@pytest.mark.usefixtures("on_reference")
@pytest.mark.parametrize("passes", [None, ()])
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_compiled_run_is_recorded_with_its_bits(program, passes):
    compiled = ab.compile(program, passes=passes)
    value = compiled(W1, W2)
    record = ab.inspect(compiled, W1, W2).record
    root = record.entries[record.roots[0][0]]
    assert bits(root.values[0]) == bits(value)
    assert bits(compiled(W1, W2)) == bits(value)
    by_w1 = next(entry for entry in record.entries if entry.name == "w1").grads[0]
    np.testing.assert_allclose(by_w1, ab.grad(program)(W1, W2), rtol=1e-9)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.proves("S1-40")
def test_contributions_in_order_of_arrival_are_the_gradient(program):
    record = ab.inspect(program, W1, W2).record
    totals = {record.roots[0]: record.seed}
    for number in record.backward:
        entry = record.entries[number]
        for slot, part in sorted(entry.sent.items()):
            place = entry.inputs[slot]
            totals[place] = totals[place] + part if place in totals else part
    assert len(totals) > 3
    for (number, output), total in totals.items():
        assert bits(record.entries[number].grads[output]) == bits(total)
    for number, entry in enumerate(record.entries):
        for output, grad in enumerate(entry.grads):
            assert grad is None or (number, output) in totals or not np.any(grad)


def test_every_way_to_build_gives_the_same_story():
    def f(x, y):
        return (x * y + x) ** 2

    g = ab.Graph("by hand")
    x, y = (g.parameter(name, (), ab.float64) for name in "xy")
    z = f(x, y)
    reports = [
        ab.inspect(f(*(ab.tensor(v, requires_grad=True, name=n) for n, v in (("x", 2), ("y", 3))))),
        ab.inspect(f, 2.0, 3.0),
        ab.inspect(f, 2, 3),
        ab.inspect(ab.compile(f), 2.0, 3.0),
        ab.inspect(z, 2.0, 3.0),
        ab.inspect(g.compile(z, passes=()), 2.0, 3.0),
    ]
    for report in reports:
        trace = report.trace
        assert [edge.local.v for edge in trace.edges] == [3, 2, 1, 1, 8, 8]
        assert [edge.contribution.v for edge in trace.edges] == [48, 32, 16, 16, 8, 8]
        assert [node.grad.v for node in trace.nodes] == [64, 32, 16, 16, 1]
        assert [node.label for node in trace.nodes[:2]] == ["x", "y"]


def test_a_python_if_is_followed_as_it_went():
    def f(x):
        return x * 2.0 if x > 0.0 else x * -3.0

    assert ab.inspect(f, 1.0).trace.find("x")[0].grad.v == 2.0
    assert ab.inspect(f, -1.0).trace.find("x")[0].grad.v == -3.0


def test_structure_alone_has_no_values():
    g = ab.Graph("demo")
    x = g.parameter("x", (2,), ab.float64)
    g.set_outputs([ab.sum(x * x)])
    for report in (ab.inspect(g), ab.inspect(g.outputs[0])):
        assert [node.value for node in report.trace.nodes] == [None] * 3
        assert report.trace.nodes[0].requires_grad


def test_containers_name_their_leaves():
    trace = ab.inspect(lambda p: p["w"][0] * p["w"][1], {"w": [2.0, 3.0], "n": 4}).trace
    assert [node.name for node in trace.nodes[:2]] == ["p['w'][0]", "p['w'][1]"]


def test_variables_name_what_has_no_name():
    weights = {"w": ab.tensor([1.0, 2.0], requires_grad=True)}
    total = ab.sum(weights["w"] * 3.0)
    assert [node.name for node in ab.inspect(total).trace.nodes] == ["weights['w']", None, "total"]


def test_data_is_not_named_after_what_is_made_of_it():
    w = ab.tensor(np.ones((3, 2)), requires_grad=True)
    data = np.ones((4, 3))
    h = data @ w
    assert [node.name for node in ab.inspect(ab.sum(h)).trace.nodes][:3] == ["data", "w", "h"]


def test_a_call_is_a_scope_with_ports():
    trace = ab.inspect(called, W1, W2).trace
    assert [(s.name, s.kind, s.call) for s in trace.scopes[1:]] == [
        ("part", "graph", None),
        ("part", "graph", 2),
    ]
    inside = [node for node in trace.nodes if node.scope == 1]
    assert [node.label for node in inside[:2]] == ["p", "q"]
    assert trace.written(inside[0]) == trace.nodes[trace.inputs(inside[0].id)[0].from_].label


def test_composed_functions_and_named_parts_are_scopes():
    def f(x):
        with ab.scope("layer"):
            h = ab.relu(x)
        return ab.sum(h)

    trace = ab.inspect(f, np.ones(3)).trace
    assert [(s.name, s.kind, s.parent) for s in trace.scopes[1:]] == [
        ("layer", "scope", 0),
        ("relu", "function", 1),
    ]


def test_the_graph_of_a_gradient_is_a_scope_that_knows_its_origin():
    x = ab.tensor(2.0, requires_grad=True)
    z = x**3
    (slope,) = ab.gradients(z, [x], record=True)
    trace = ab.inspect(slope).trace
    assert trace.scopes[1].name == "backward of z"
    assert trace.scopes[1].kind == "backward"
    inside = [node for node in trace.nodes if node.scope == 1]
    assert {(n.origin.op, n.origin.slot, n.origin.name) for n in inside} == {
        ("integer_power", 0, "z")
    }
    assert trace.find("x")[0].grad.v == 12.0


def test_a_gradient_that_was_compiled_keeps_its_scope_when_it_is_replayed():
    slope = ab.compile(ab.grad(lambda x: ab.sin(x) ** 3))
    trace = ab.inspect(lambda x: slope(x) * 2.0, 0.5).trace
    assert [scope.kind for scope in trace.scopes] == [None, "backward"]


def test_derivatives_of_derivatives_have_a_scope_each():
    trace = ab.inspect(ab.grad(ab.grad(lambda x: ab.sin(x) ** 3)), 0.5).trace
    assert [scope.kind for scope in trace.scopes] == [None, "backward", "backward"]
    assert trace.find("x")[0].grad.v == pytest.approx(-0.1807108101607)


def test_a_root_that_is_no_scalar_needs_a_cotangent():
    x = ab.tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    assert ab.inspect(y).trace.order.backward == []
    with pytest.raises(ab.ShapeError, match="implicit-cotangent"):
        ab.inspect(y, backward=True)
    trace = ab.inspect(y, ct=[1.0, 10.0]).trace
    assert trace.find("x")[0].grad.v == [2.0, 40.0]
    assert trace.seed.v == [1.0, 10.0]
    with pytest.raises(ab.ShapeError, match="implicit-cotangent"):
        ab.inspect(ab.compile(lambda v: v * v), np.ones(2), backward=True)
    assert ab.inspect(y, ct=[1.0, 1.0], backward=False).trace.seed is None


def test_several_results_are_all_there():
    trace = ab.inspect(lambda x: (x * 2.0, x * 3.0), 1.0).trace
    assert trace.outputs == [1, 2]
    assert trace.find("x")[0].grad.v == 2.0


def test_arguments_that_nothing_reads_are_in_the_report():
    trace = ab.inspect(lambda x, y: x * x, 2.0, 3.0).trace
    assert trace.find("y")[0].grad is None
    x, w = (ab.tensor(v, requires_grad=True) for v in (1.0, 2.0))
    assert [n.name for n in ab.inspect(x * 1.0, [w]).trace.nodes][:2] == ["x", None]


def test_later_changes_do_not_reach_into_a_report():
    w = ab.tensor([1.0, 2.0], requires_grad=True)
    report = ab.inspect(ab.sum(w * w))
    w.data[...] = 7.0
    assert report.trace.find("w")[0].value.v == [1.0, 2.0]
    array = np.ones(2)
    of_call = ab.inspect(lambda v: ab.sum(v * v), array)
    compiled = ab.inspect(ab.compile(lambda v: ab.sum(v * v)), array)
    array[...] = 7.0
    assert of_call.trace.nodes[0].value.v == compiled.trace.nodes[0].value.v == [1.0, 1.0]


@pytest.mark.proves("S0-62")
def test_gradients_that_were_not_zero_are_told():
    x = ab.tensor(3.0, requires_grad=True)
    y = x * x
    y.backward()
    assert ab.inspect(y).trace.notes == []
    y.backward()
    trace = ab.inspect(y).trace
    assert trace.find("x")[0].held.v == 12.0
    assert "x.grad holds 12 and this pass brings 6" in trace.notes[0].text


def test_seconds_stay_out_of_the_text_by_default():
    trace = ab.inspect(mlp, W1, W2).trace
    assert any(node.seconds for node in trace.nodes)
    assert '"seconds":' not in trace.to_json()
    assert '"seconds":' in trace.to_json(seconds=True)
    assert any(n.seconds for n in ab.inspect(ab.compile(mlp), W1, W2).trace.nodes)


def test_what_backward_keeps_is_listed_with_its_reason():
    trace = ab.inspect(lambda x: ab.sum(ab.sin(ab.sin(x))), np.ones(3)).trace
    assert [(n.label, n.bytes, n.kept_for) for n in trace.kept()] == [
        ("x", 24, [1]),
        ("#1", 24, [2]),
    ]


def test_a_report_lets_go_of_what_it_recorded():
    x = ab.tensor(np.ones(4), requires_grad=True)
    loss = ab.sum(ab.exp(x))
    report = ab.inspect(loss)
    watched = weakref.ref(loss.node)
    assert watched() is not None
    gc.disable()
    try:
        del loss, report
        assert watched() is None
    finally:
        gc.enable()


def test_nobody_looks_on_unless_asked():
    assert state.onlooker is None
    assert state.door is None
    assert state.guard is None
    with watching() as seen:
        assert state.onlooker is seen
    assert state.onlooker is None


def test_watching_sees_the_program_s_own_passes():
    def f(x):
        return x * x

    with watching() as seen:
        x = ab.tensor(3.0, requires_grad=True, name="x")
        z = x * x
        z.backward()
        assert seen.count == 1
        assert seen.report.trace.find("x")[0].grad.v == 6.0
        z.backward(retain=False)
        ab.grad(f)(5.0)
        assert seen.count == 3
        assert seen.report.trace.find("x")[0].grad.v == 10.0
        ab.gradients(x * x, [x])
        ab.compile(ab.grad(f))(7.0)
        assert seen.count == 5
        assert seen.report.trace.nodes[seen.report.trace.root].value.v == 14.0
    assert x.grad == 12.0
    with watching(step=2) as seen:
        for value in (1.0, 2.0, 3.0):
            ab.grad(f)(value)
    assert seen.count == 3
    assert seen.report.trace.find("x")[0].value.v == 2.0


def test_what_records_nothing_is_refused():
    with pytest.raises(ab.ArgumentError, match="not-a-tensor"):
        ab.inspect(3.0)
    with pytest.raises(ab.ArgumentError, match="detail"):
        ab.inspect(ab.tensor(1.0), detail="half")
    with pytest.raises(ab.ArgumentError, match="bad-result"):
        ab.inspect(lambda: None)
