"""What a walk costs: steps and bytes in proportion to the graph, and nothing left afterwards."""

import gc
import tracemalloc
import weakref

import numpy as np
import pytest

import anabranch as ab
from anabranch.testing import numerical_gradient, temporary_ops


def net(length, x):
    """A chain in which every value is read twice: 2 nodes and 4 edges a level."""
    for _ in range(length):
        x = x * -0.5 + x
    return x


@pytest.mark.proves("S1-25")
def test_the_steps_of_ordering_and_walking_grow_with_nodes_and_edges(executed_lines):
    counts = []
    for length in (100, 200, 400):
        z = net(length, ab.tensor(1.0, requires_grad=True))
        counts.append(executed_lines(z.backward))
    assert counts[1] - counts[0] == pytest.approx((counts[2] - counts[1]) / 2, rel=0.01)
    assert counts[2] / counts[1] <= 2.01


@pytest.mark.proves("S1-25")
def test_each_edge_delivers_once_however_often_values_are_shared():
    for length in (10, 100):
        x = ab.tensor(1.0, requires_grad=True)
        seen = []
        net(length, x).backward(observer=lambda *one, seen=seen: seen.append(one))
        assert len(seen) == 3 * length  # 2 edges into the sum, 1 into the product with a number


@pytest.mark.slow
@pytest.mark.proves("S1-25")
def test_the_bytes_of_graph_and_gradients_grow_with_the_graph():
    sizes = []
    for length in (50, 250, 500, 1_000):
        x = ab.tensor(1.0, requires_grad=True)
        gc.collect()
        tracemalloc.start()
        z = net(length, x)
        z.backward()
        sizes.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        del z
    assert sizes[2] - sizes[1] == pytest.approx((sizes[3] - sizes[2]) / 2, rel=0.2)


@pytest.mark.proves("S1-26")
def test_one_walk_for_ten_thousand_parameters_where_differences_take_twenty_thousand():
    calls = 0

    def energy(w):
        nonlocal calls
        calls += 1
        return w.dot(w) / 2 if isinstance(w, np.ndarray) else (w @ w) / 2

    w = np.linspace(-1.0, 1.0, 10_000)
    gradient = ab.grad(energy)(w)
    assert calls == 1
    calls = 0
    by_differences = numerical_gradient(energy, w.copy(), eps=1e-4)
    assert calls == 20_000
    assert gradient == pytest.approx(by_differences, abs=1e-7)


@pytest.mark.proves("S1-52")
def test_intermediates_are_dead_after_a_walk_that_frees():
    x = ab.tensor(np.ones(3), requires_grad=True)
    hidden = ab.tanh(x * 2.0)
    z = ab.sum(hidden * hidden)
    watched = [weakref.ref(hidden.node), weakref.ref(hidden.node.inputs[0].node)]
    del hidden
    gc.disable()
    try:
        assert all(one() is not None for one in watched)
        z.backward(retain=False)
        assert all(one() is None for one in watched)
    finally:
        gc.enable()
    assert x.grad is not None


@pytest.mark.slow
@pytest.mark.proves("S1-52")
def test_a_thousand_steps_of_training_leave_nothing():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(16, 4))
    y = x @ rng.normal(size=(4, 1))
    w = ab.tensor(np.zeros((4, 1)), requires_grad=True)

    def steps(count):
        for _ in range(count):
            loss = ab.mean((x @ w - y) ** 2)
            loss.backward()
            w.data -= 0.05 * w.grad
            w.zero_grad()

    tracemalloc.start()
    try:
        steps(100)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        steps(1_000)
        gc.collect()
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert after - before < 50_000  # fifty bytes a step, less than the head of an array
    assert float(ab.mean((x @ w.data - y) ** 2)) < 1e-6


@pytest.mark.proves("S1-53")
def test_a_report_of_memory_adds_up_to_what_is_held(allocated):
    def build():
        y = ab.tensor(np.linspace(0.1, 0.9, 400), requires_grad=True)
        for _ in range(200):
            y = ab.sin(y) * 1.5
        ab.sum(y).backward()
        return y

    y, size = allocated(build)
    held = ab.memory_report(y)
    assert held.total == held.values + held.saved + held.gradients + held.overhead
    assert held.total == pytest.approx(size, rel=0.05)
    assert min(held.values, held.saved, held.gradients, held.overhead) > 0


@pytest.mark.proves("S1-53")
def test_a_list_of_results_is_seen_to_keep_their_graphs_and_not_gradients():
    w = ab.tensor(np.ones(200), requires_grad=True)
    kept = [ab.sum(ab.tanh(w * float(k))) for k in range(20)]
    held = ab.memory_report(*kept)
    assert held.gradients == 0
    assert held.saved > 20 * w.data.nbytes
    assert ab.memory_report(*kept[:1]).saved < held.saved / 10


@pytest.fixture
def counted():
    """An op that counts how often its value is computed."""
    calls = []

    def double(x):
        calls.append(x)
        return x * 2.0

    with temporary_ops():
        op = ab.elementwise("counted", double, partials=(lambda y, x: 2.0,), doc="Counts.")
        yield op, calls


@pytest.mark.proves("S4-33")
def test_shapes_that_do_not_fit_fail_before_anything_is_computed(counted):
    op, calls = counted

    def model(x, w):
        return op(x) @ w

    run = ab.compile(model)
    with pytest.raises(ab.ShapeError):
        run(np.ones((2, 3)), np.ones((4, 5)))
    g = ab.Graph("by hand")
    with pytest.raises(ab.ShapeError):
        model(g.parameter("x", (2, 3), ab.float64), g.parameter("w", (4, 5), ab.float64))
    assert calls == []
    assert run(np.ones((2, 3)), np.ones((3, 5))).tolist() == [[6.0] * 5] * 2
    assert len(calls) == 1


@pytest.mark.proves("S4-28")
def test_a_part_that_is_used_again_is_built_once():
    part = ab.Graph("part")
    x, w = part.parameter("x", (3,), ab.float64), part.parameter("w", (3,), ab.float64)
    part.set_outputs([ab.sum(ab.tanh(x * w))])
    size = len(part)

    whole = ab.Graph("whole")
    a, b, w = (whole.parameter(name, (3,), ab.float64) for name in "abw")
    counts = []
    for value in (a, b, a):
        part(value, w)
        counts.append(len(whole))
    assert counts == [4, 5, 6]
    assert len(part) == size


@pytest.mark.proves("S4-28")
def test_shared_weights_are_one_node_and_equal_uses_merge():
    def encoder(x, w):
        return ab.sum(ab.tanh(x * w))

    program = ab.compile(lambda a, b, w: encoder(a, w) + encoder(b, w) + encoder(a, w))
    graph = program.program(*np.ones((3, 2))).optimised
    assert sum(node.op.name == "tanh" for node in graph) == 2
    assert sum(node.kind == "parameter" for node in graph) == 3
