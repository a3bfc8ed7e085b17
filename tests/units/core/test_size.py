"""Graphs at size: counts and generous bounds; `benchmarks/run.py size` has the seconds."""

import copy
import gc
import pickle
import sys
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import anabranch as ab

pytestmark = pytest.mark.usefixtures("low_recursion_limit")
DEPTH = 100_000
BYTES = 800  # a node, with everything that the graph keeps for it
Builder = Callable[[int], Any]


def chain(x: Any, depth: int) -> Any:
    for _ in range(depth):
        x = ab.sin(x)
    return x


def by_hand(depth: int) -> ab.Graph:
    g = ab.Graph("chain")
    g.set_outputs([chain(g.parameter("x", (), ab.float64), depth)])
    return g


def traced(depth: int) -> Any:
    return ab.trace(lambda x: chain(x, depth), 1.0)


def eager(depth: int) -> ab.Tensor:
    return chain(ab.tensor(1.0, requires_grad=True), depth)


def with_gradient(depth: int) -> ab.Graph:
    g = by_hand(depth)
    g.set_outputs([*g.outputs, *ab.gradients(g.outputs[0], g.parameters)])
    return g


def fibonacci(depth: int) -> ab.Graph:
    """Each node reads the two before it: as a tree it would have more nodes than atoms exist."""
    g = ab.Graph("fibonacci")
    a = g.parameter("x", (), ab.float64)
    b = a * 0.5
    for _ in range(depth):
        a, b = b, (a + b) * 0.6
    g.set_outputs([b, *ab.gradients(b, g.parameters)])
    return g


@pytest.mark.slow
@pytest.mark.parametrize("build", [by_hand, traced, eager])
def test_bytes_for_each_node(build: Builder) -> None:
    depth = 2_000
    build(10)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        kept = build(depth)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < BYTES * depth
    finally:
        tracemalloc.stop()
    del kept


WORK: dict[str, Callable[[ab.Graph], Any]] = {
    "gradients": lambda g: ab.gradients(g.outputs[0], g.parameters),
    "copy": copy.deepcopy,
    "pack": lambda g: g.__reduce__(),
    "listing": str,
    "read back": lambda g: ab.parse(str(g)),
    "structure hash": ab.structure_hash,
    "check": ab.check,
    "compile": lambda g: g.compile(*g.outputs),
    "run": lambda g: g.compile(*g.outputs, passes=())(0.5),
}


@pytest.mark.slow
@pytest.mark.parametrize("work", WORK)
@pytest.mark.parametrize("build", [with_gradient, fibonacci])
def test_twice_the_nodes_take_twice_the_steps(
    build: Builder, work: str, executed_lines: Callable[[Callable[[], Any]], int]
) -> None:
    small, large = build(100), build(200)
    WORK[work](build(10))
    once, twice = (executed_lines(lambda g=g: WORK[work](g)) for g in (small, large))
    assert twice < 2.1 * once


@pytest.mark.parametrize("build", [by_hand, traced, eager, fibonacci])
def test_building_twice_the_nodes_takes_twice_the_steps(
    build: Builder, executed_lines: Callable[[Callable[[], Any]], int]
) -> None:
    build(10)
    assert executed_lines(lambda: build(200)) < 2.1 * executed_lines(lambda: build(100))


def test_the_gradient_graph_has_two_nodes_for_each() -> None:
    assert len(with_gradient(100)) == 1 + 100 + 100 + 99


def test_a_node_with_many_readers_knows_them_all() -> None:
    g = ab.Graph("fan")
    x = g.parameter("x", (), ab.float64)
    readers = [(x + 1.0, 0), *((ab.sin(x), 0) for _ in range(30))]
    both = x * x
    other = g.duplicate()
    readers += [(both, 0), (both, 1), (ab.cos(x), 0)]
    assert list(x.consumers) == readers
    assert len(other.nodes[0].consumers) == len(readers) - 1
    assert all(user.graph is other for user, _ in other.nodes[0].consumers)
    ab.check(g)
    ab.check(other)


def test_a_shared_graph_of_depth_1000() -> None:
    g = fibonacci(1_000)
    ab.check(g)
    value, slope = g.compile(*g.outputs)(2.0)
    a, b = 1.0, 0.5
    for _ in range(1_000):
        a, b = b, (a + b) * 0.6
    assert float(value) == pytest.approx(2.0 * b, rel=1e-12)
    assert float(slope) == pytest.approx(b, rel=1e-12)


def test_the_collectors_settings_are_the_users() -> None:
    before = gc.get_threshold(), gc.isenabled(), gc.get_freeze_count()
    g = with_gradient(300)
    g.compile(*g.outputs)(0.5)
    eager(300).backward()
    copy.deepcopy(g)
    assert (gc.get_threshold(), gc.isenabled(), gc.get_freeze_count()) == before


def _pickled(graph: ab.Graph) -> ab.Graph:
    return pickle.loads(pickle.dumps(graph))


@pytest.mark.slow
def test_a_chain_of_100000_through_everything(no_collector: None) -> None:
    g = with_gradient(DEPTH)
    assert sys.getrecursionlimit() == 1_000
    ab.check(g)
    value, slope = g.compile(*g.outputs, passes=(), backend="reference")(1.0)
    y = eager(DEPTH)
    (x,) = [t for t in y.backward() if t.is_leaf]
    assert (float(value), float(slope)) == (float(y), float(x.grad))
    assert str(g).count("\n") == len(g) + 1
    wanted = ab.structure_hash(g)
    for copied in (_pickled, copy.deepcopy, lambda graph: ab.parse(str(graph))):
        other = copied(g)
        assert ab.structure_hash(other) == wanted
        dead = [weakref.ref(other.nodes[i]) for i in (0, DEPTH, -1)]
        del other
        assert [d() for d in dead] == [None] * 3
    dead = [weakref.ref(one) for one in (g, g.nodes[0], g.nodes[-1], y, x)]
    del g, y, x
    assert [d() for d in dead] == [None] * 5


@pytest.mark.slow
def test_a_million_eager_steps_on_constants_leave_nothing() -> None:
    x = ab.tensor(0.5)
    for _ in range(1_000):
        x = x * 0.5 + 0.25
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(1_000_000 // 2):
            x = x * 0.5 + 0.25
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 10_000
    finally:
        tracemalloc.stop()
    assert not x.is_tracked
    assert not x.has_node
    assert ab.memory_report(x).tensors == 1
