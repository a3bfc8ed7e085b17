"""Passes over random graphs with their gradients: every bit, every line, and legal graphs."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anabranch as ab
from anabranch.backends.reference import ReferenceExecutable
from anabranch.core.bind import bind
from anabranch.core.node import Literal
from anabranch.ops.elementwise import identity
from anabranch.ops.index import unslice
from anabranch.ops.layout import broadcast_to
from anabranch.ops.select import absorb
from anabranch.passes import DEFAULT, PASSES, Rewrite, run_passes

SHAPE = (2, 3)
WHOLE = ((0, 2, 1), (0, 3, 1))
EXACT = ("prune", "fold", "algebra", "merge")
UNARY: list[Callable[[Any], Any]] = [
    lambda x: x * 1,
    lambda x: 1.0 * x,
    lambda x: x / 1,
    lambda x: x + -0.0,
    lambda x: x + 0.0,
    lambda x: x - 0,
    lambda x: -ab.negative(x),
    lambda x: x**1,
    lambda x: x * 0.0,
    lambda x: x - x,
    lambda x: bind(identity, x),
    lambda x: x.astype(ab.float64).astype(x.dtype),
    lambda x: x.reshape(6).reshape(3, 2).reshape(SHAPE),
    lambda x: x.T.T,
    lambda x: x[:, ::-1],
    lambda x: x[:],
    lambda x: bind(unslice, x[:1], shape=SHAPE, index=((0, 1, 1), (0, 3, 1))),
    lambda x: bind(unslice, x, shape=SHAPE, index=WHOLE),
    lambda x: ab.where(True, x, 2.0),
    lambda x: ab.where(np.zeros(SHAPE, bool), 1.0, x),
    lambda x: ab.where(x > 0.5, x, x),
    lambda x: ab.where(x > 0.5, ab.sqrt(x), x),
    lambda x: x + broadcast_to(x[0, 1].reshape(1, 1), SHAPE),
    lambda x: absorb(2.0, x),
    lambda x: absorb(x, 3.0),
    lambda x: absorb(x, np.array(0.5).astype(x.dtype)),
    lambda x: x * ab.exp(np.full(3, 0.25).astype(x.dtype)),
    lambda x: x * (ab.sqrt(np.array(2.0).astype(x.dtype)) * 3),
    lambda x: ab.sigmoid(x),
    lambda x: 1 / (1 + ab.exp(-x)),
    lambda x: ab.relu(x),
    lambda x: ab.log(ab.softmax(x)),
    lambda x: x - x.max(axis=1, keepdims=True),
    lambda x: x * x.mean(),
    lambda x: x @ np.eye(3).astype(x.dtype),
    lambda x: ab.maximum(x, 0.0),
    lambda x: ab.tanh(x),
    lambda x: x * x,
]
BINARY: list[Callable[[Any, Any], Any]] = [
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: x * y,
    lambda x, y: x / y,
    lambda x, y: ab.where(ab.where(x > y, False, True), x, y),
    lambda x, y: ab.where(ab.where(x > y, True, False), x, y),
    lambda x, y: ab.minimum(x, y),
    lambda x, y: absorb(x, y),
]
Steps = Sequence[tuple[int, int, int | None]]


@st.composite
def programs(draw: st.DrawFn, most: int = 25) -> Steps:
    """Ops by number, each on one or two earlier values."""
    steps = []
    for number in range(1, draw(st.integers(1, most)) + 1):
        near = st.integers(max(0, number - 3), number - 1)
        if draw(st.integers(0, 2)):
            steps.append((draw(st.integers(0, len(UNARY) - 1)), draw(near), None))
        else:
            op = draw(st.integers(0, len(BINARY) - 1))
            steps.append((op, draw(near), draw(st.integers(0, number - 1))))
    return steps


def laid_out(steps: Steps, dtype: Any) -> ab.Graph:
    """A graph with the last value, its gradient, and another value that is read twice."""
    g = ab.Graph("random")
    x = g.parameter("x", SHAPE, dtype)
    values: list[Any] = [x * 0.5]
    for op, one, other in steps:
        made = UNARY[op](values[one]) if other is None else BINARY[op](values[one], values[other])
        values.append(made.astype(dtype))
    y = ab.sum(values[-1])
    g.set_outputs([y, *ab.gradients(y, [x]), values[len(values) // 2]])
    return g


ARGUMENTS = [
    np.array([[0.3, -1.7, 2.0], [1.0, 0.5, -0.25]]),
    np.array([[0.0, -0.0, 1.0], [np.inf, -np.inf, np.nan]]),
    np.array([[1e-320, -1e-45, 1e30], [-1e300, 709.0, -750.0]]),
]


def outcomes(graph: ab.Graph, dtype: Any) -> list[bytes]:
    """The bits of all outputs for ordinary and special arguments, with one NaN for all."""
    run = ReferenceExecutable(graph).run
    found = []
    with np.errstate(all="ignore"):
        for argument in ARGUMENTS:
            for out in run([argument.astype(dtype)]):
                array = np.array(out)
                array[np.isnan(array)] = np.nan
                found.append(array.tobytes())
    return found


def check_lines(graph: ab.Graph, rewrite: Rewrite) -> None:
    """What stands for a node keeps all its lines; where that is a literal, its readers do."""
    for node in graph:
        if node.id not in rewrite.mapping:
            continue
        stands = [rewrite.mapping[node.id]]
        if isinstance(stands[0], Literal):
            readers = [user for user, _ in node.consumers if user.id in rewrite.mapping]
            stands = [rewrite.mapping[user.id] for user in readers]
        for edge in stands:
            if not isinstance(edge, Literal):
                assert {s.line for s in node.sources} <= {s.line for s in edge.node.sources}
    assert all(node.raw_source is not None for node in rewrite.graph)


def pruned(rewrite: Rewrite) -> str:
    return ab.structure_hash(PASSES["prune"](rewrite.graph).graph)


def check_program(steps: Steps, dtype: Any) -> None:
    graph = laid_out(steps, dtype)
    wanted = outcomes(graph, dtype)
    for name in EXACT:
        rewrite = PASSES[name](graph)
        ab.check(rewrite.graph)
        check_lines(graph, rewrite)
        assert outcomes(rewrite.graph, dtype) == wanted, name
        assert pruned(PASSES[name](rewrite.graph)) == pruned(rewrite), name
    before = {s.line for node in graph.order(graph.outputs) for s in node.sources}
    current = graph
    for name in DEFAULT:
        current, (report,) = run_passes(current, (name,))
        ab.check(current)
        assert report.after == len(current)
        assert outcomes(current, dtype) == wanted, name
    assert len(current) <= len(graph)
    assert {s.line for node in current for s in node.sources} <= before | {
        s.line for node in graph.parameters for s in node.sources
    }


@pytest.mark.slow
@settings(max_examples=80)
@given(programs(), st.sampled_from([np.float64, np.float32, np.float16]))
def test_exact_passes_keep_every_bit_and_line(steps: Steps, dtype: Any) -> None:
    check_program(steps, dtype)


@pytest.mark.long
@settings(max_examples=100)
@given(programs(most=250), st.sampled_from([np.float64, np.float32]))
def test_exact_passes_keep_every_bit_and_line_of_long_programs(steps: Steps, dtype: Any) -> None:
    check_program(steps, dtype)


@settings(max_examples=60)
@given(programs())
def test_stable_spellings_keep_values_lines_and_legal_graphs(steps: Steps) -> None:
    graph = laid_out(steps, np.float64)
    for one in (graph, PASSES["merge"](graph).graph):
        rewrite = PASSES["stabilise"](one)
        ab.check(rewrite.graph)
        check_lines(one, rewrite)
        assert pruned(PASSES["stabilise"](rewrite.graph)) == pruned(rewrite)
        if not rewrite.report:
            assert outcomes(rewrite.graph, np.float64) == outcomes(one, np.float64)


NAIVE: list[Callable[[Any], Any]] = [
    lambda x: 1 / (1 + ab.exp(-x)),
    lambda x: ab.exp(x) / (ab.exp(x) + 1),
    lambda x: ab.log(ab.exp(x) + 1.0),
    lambda x: ab.log(ab.softmax(x)),
    lambda x: ab.exp(x) / ab.exp(x).sum(axis=1, keepdims=True),
    lambda x: x * ab.log(ab.sum(ab.exp(x))),
    lambda x: x + ab.sqrt(ab.sum(x * x)) ** 2,
    lambda x: ab.tanh(x),
    lambda x: x * 0.75,
    lambda x: x - x.mean(),
]


@settings(max_examples=60)
@given(st.lists(st.integers(0, len(NAIVE) - 1), min_size=1, max_size=6))
def test_stable_towers_have_the_same_values_and_gradients(ops: list[int]) -> None:
    def tower(x: Any) -> Any:
        for op in ops:
            x = ab.tanh(NAIVE[op](x))
        return ab.sum(x)

    x = ARGUMENTS[0]
    plain = ab.trace(tower, x)
    stable, _ = run_passes(plain.duplicate(), ("merge", "stabilise"))
    results = []
    for graph in (plain, stable):
        (y,) = graph.outputs
        graph.set_outputs([y, *ab.gradients(y, list(graph.parameters))])
        results.append(ReferenceExecutable(graph).run([x]))
    for before, after in zip(*results, strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-9, atol=1e-12)
