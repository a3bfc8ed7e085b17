"""Random programs: every front end and every pass agrees on them, and orders are what they promise.

A program is plain data, a list of ops on earlier values, so the same one can be run on tensors,
traced, or laid out as a graph by hand.
"""

import gc
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anabranch as ab
from anabranch.backends.reference import ReferenceExecutable
from anabranch.core.node import Literal
from anabranch.passes.pipeline import run_passes

pytestmark = pytest.mark.usefixtures("on_reference")  # bits are compared

SMOOTH: list[Callable[[Any], Any]] = [
    ab.sin, ab.cos, ab.tanh, ab.sigmoid, ab.square, lambda x: -x, lambda x: x * 0.5,
    lambda x: 1 - x, lambda x: x**2, lambda x: ab.exp(-(x * x)), lambda x: x.reshape(3, 2).T,
    lambda x: x[::-1], lambda x: x + x[0:1] * 0.5, lambda x: x * x.mean(),
    lambda x: x - ab.logsumexp(x, axis=1, keepdims=True), lambda x: (x @ x.T) @ x * 0.1,
    lambda x: ab.take(x, [1, 0], axis=0),
]  # fmt: skip
UNARY = [
    *SMOOTH, ab.relu, abs, ab.stop_gradient, lambda x: ab.where(x > 0.25, x, 0.1 * x),
    lambda x: ab.clip(x, -1.5, 1.5), lambda x: x.max(axis=0, keepdims=True) - x,
]  # fmt: skip
SMOOTH_OF_TWO: list[Callable[[Any, Any], Any]] = [
    lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: x / (y * y + 1),
]  # fmt: skip
BINARY = [
    *SMOOTH_OF_TWO, ab.maximum, ab.minimum, lambda x, y: ab.where(x > y, x, y * 0.5)
]  # fmt: skip
SHAPE = (2, 3)


class Step(NamedTuple):
    """One op and the numbers of the values that it reads."""

    op: int
    inputs: tuple[int, ...]


class Program(NamedTuple):
    leaves: int
    steps: tuple[Step, ...]

    def __call__(self, *xs: Any) -> Any:
        """The sum over the last value, scaled so that long programs stay in range."""
        return self.values(xs)[-1].sum()

    def values(self, xs: Sequence[Any]) -> list[Any]:
        values = list(xs)
        for op, inputs in self.steps:
            table: list[Any] = UNARY if len(inputs) == 1 else BINARY
            # tanh holds every value in [-1, 1], whatever the program does.
            values.append(ab.tanh(table[op](*(values[i] for i in inputs))))
        return values


@st.composite
def programs(draw: st.DrawFn, most: int = 60, smooth: bool = False) -> Program:
    leaves = draw(st.integers(1, 3))
    unary = st.integers(0, len(SMOOTH if smooth else UNARY) - 1)
    binary = st.integers(0, len(SMOOTH_OF_TWO if smooth else BINARY) - 1)
    steps = []
    for number in range(draw(st.integers(1, most))):
        # Late values are read more often, so that the last one depends on many.
        pick = st.integers(0, leaves + number - 1)
        near = st.integers(max(0, leaves + number - 4), leaves + number - 1)
        if draw(st.booleans()):
            op, inputs = draw(unary), (draw(near),)
        else:
            op, inputs = draw(binary), (draw(near), draw(pick))
        steps.append(Step(op, inputs))
    return Program(leaves, tuple(steps))


def arguments(program: Program) -> list[np.ndarray]:
    rng = np.random.default_rng(len(program.steps))
    return [rng.uniform(-1.0, 1.0, SHAPE) for _ in range(program.leaves)]


def by_hand(program: Program, derivatives: bool = True) -> ab.Graph:
    g = ab.Graph("by hand")
    xs = [g.parameter(f"x{i}", SHAPE, ab.float64) for i in range(program.leaves)]
    y = program(*xs)
    g.set_outputs([y, *ab.gradients(y, xs)] if derivatives else [y])
    return g


def bits(values: Sequence[Any]) -> list[bytes]:
    return [np.asarray(v).tobytes() for v in values]


def eager(program: Program) -> list[Any]:
    xs = [ab.tensor(x, requires_grad=True) for x in arguments(program)]
    y = program(*xs)
    if y.requires_grad:
        y.backward()
    return [y.data, *(np.zeros(SHAPE) if x.grad is None else x.grad for x in xs)]


def check_all_ways_agree(program: Program) -> None:
    args = arguments(program)
    everything = tuple(range(program.leaves))
    g = by_hand(program)
    ab.check(g)
    wanted = bits(g.compile(list(g.outputs), passes=())(*args))
    assert bits(eager(program)) == wanted
    value, grads = ab.compile(ab.value_and_grad(program, everything), passes=())(*args)
    assert bits([value, *grads]) == wanted
    value, grads = ab.value_and_grad(program, everything)(*args)
    assert bits([value, *grads]) == wanted
    assert ab.structure_hash(by_hand(program, derivatives=False)) == ab.structure_hash(
        ab.trace(program, *args)
    )


@pytest.mark.proves("S0-48")
@settings(max_examples=40)
@given(programs())
def test_eager_traced_and_by_hand_have_the_same_bits(program: Program) -> None:
    check_all_ways_agree(program)


@pytest.mark.slow
@settings(max_examples=40)
@given(programs(most=500))
def test_eager_traced_and_by_hand_have_the_same_bits_in_long_programs(program: Program) -> None:
    check_all_ways_agree(program)


@pytest.mark.slow
@settings(max_examples=15)
@given(programs())
def test_machine_code_gives_what_the_reference_gives(program: Program) -> None:
    args = arguments(program)
    g = by_hand(program)
    for passes in ((), None):
        found = g.compile(list(g.outputs), passes=passes, backend="native")(*args)
        wanted = g.compile(list(g.outputs), passes=passes, backend="reference")(*args)
        for mine, its in zip(found, wanted, strict=True):
            np.testing.assert_allclose(mine, its, rtol=1e-9, atol=1e-12 * np.max(np.abs(its)))


def check_passes(program: Program) -> None:
    g = by_hand(program)
    args = arguments(program)
    before = {s.line for node in g for s in node.sources}
    wanted = bits(g.compile(list(g.outputs), passes=())(*args))
    current = g
    for name in ("prune", "merge", "prune"):
        needed = current.order(current.outputs)
        kept = {s.line for node in needed for s in node.sources}
        current, (report,) = run_passes(current, (name,))
        ab.check(current)
        assert report.after == len(current) <= report.before
        assert kept <= {s.line for node in current for s in node.sources} <= before
        assert bits(ReferenceExecutable(current).run(args)) == wanted
    again, _ = run_passes(current, ("merge", "prune"))
    assert ab.structure_hash(again) == ab.structure_hash(current)


@pytest.mark.slow
@settings(max_examples=40)
@given(programs())
def test_passes_keep_values_gradients_and_source_lines(program: Program) -> None:
    check_passes(program)


@pytest.mark.long
@settings(max_examples=25)
@given(programs(most=500))
def test_passes_keep_values_gradients_and_source_lines_in_long_programs(program: Program) -> None:
    check_passes(program)


def check_orders(program: Program) -> None:
    g = by_hand(program)
    # forward: the plan visits inputs first
    done: set[int] = set()
    for node in g.order(g.outputs):
        assert all(e.node.id in done for e in node.inputs if not isinstance(e, Literal))
        done.add(node.id)
    # backward: a node hands its cotangent on only after all its readers have delivered
    xs = [ab.tensor(x, requires_grad=True) for x in arguments(program)]
    y = program(*xs)
    if not y.requires_grad:
        return
    delivered: list[tuple[int, int, int]] = []

    def observer(node: Any, slot: int, _: Any) -> None:
        delivered.append((node.id, slot, node.inputs[slot].node.id))

    order = y.backward(observer=observer)
    places = {t.node.id: i for i, t in enumerate(order)}
    assert all(
        places[e.node.id] < places[t.node.id]
        for t in order
        for e in t.node.inputs
        if not isinstance(e, Literal) and e.node.id in places
    )
    visited = list(dict.fromkeys(reader for reader, _, _ in delivered))
    assert visited == sorted(visited, reverse=True)  # each node in one go, later ones first
    last_arrival = {source: i for i, (_, _, source) in enumerate(delivered)}
    first_departure: dict[int, int] = {}
    for i, (reader, _, _) in enumerate(delivered):
        first_departure.setdefault(reader, i)
    assert all(last_arrival[n] < i for n, i in first_departure.items() if n in last_arrival)
    assert len({(reader, slot) for reader, slot, _ in delivered}) == len(delivered)


@pytest.mark.slow
@pytest.mark.proves("S0-02", "S0-18", "S1-10", "S1-01", "S0-27", "S1-54")
@settings(max_examples=60)
@given(programs())
def test_forward_and_backward_orders(program: Program) -> None:
    check_orders(program)


@pytest.mark.long
@pytest.mark.proves("S0-02", "S0-18", "S1-10")
@settings(max_examples=1_000)
@given(programs(most=200))
def test_forward_and_backward_orders_of_a_thousand_programs(program: Program) -> None:
    check_orders(program)


@pytest.mark.proves("S1-40")
@settings(max_examples=40)
@given(programs(most=30))
def test_contributions_add_up_to_the_gradient_bit_for_bit(program: Program) -> None:
    xs = [ab.tensor(x, requires_grad=True) for x in arguments(program)]
    y = program(*xs)
    if not y.requires_grad:
        return
    totals: dict[int, Any] = {}

    def observer(node: Any, slot: int, part: Any) -> None:
        key = node.inputs[slot].node.id
        totals[key] = part if key not in totals else totals[key] + part

    for tensor in y.backward(observer=observer):
        if tensor is not y and tensor.node.id in totals:
            assert bits([totals[tensor.node.id]]) == bits([tensor.grad])


def directions(program: Program) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.normal(size=SHAPE) for _ in range(program.leaves)]


def along(program: Program) -> float:
    """The derivative of the program along its directions, by reverse mode."""
    grads = ab.grad(program, tuple(range(program.leaves)))(*arguments(program))
    return sum(float((g * d).sum()) for g, d in zip(grads, directions(program), strict=True))


@settings(max_examples=40)
@given(programs(most=30))
def test_forward_mode_agrees_with_reverse_mode(program: Program) -> None:
    _, slope = ab.jvp(program, tuple(arguments(program)), tuple(directions(program)))
    assert float(slope) == pytest.approx(along(program), rel=1e-9, abs=1e-9)


@settings(max_examples=60)
@given(programs(most=12, smooth=True))
def test_gradients_agree_with_differences(program: Program) -> None:
    args, ways, step = arguments(program), directions(program), 1e-5
    above, below = (
        float(program(*(x + sign * step * d for x, d in zip(args, ways, strict=True))))
        for sign in (1, -1)
    )
    assert along(program) == pytest.approx((above - below) / (2 * step), rel=1e-6, abs=1e-6)


@pytest.mark.slow
@pytest.mark.proves("S0-12")
@settings(max_examples=20)
@given(programs(most=30))
def test_everything_recorded_dies_with_its_result(program: Program) -> None:
    gc.collect()
    gc.disable()
    try:
        xs = [ab.tensor(x, requires_grad=True) for x in arguments(program)]
        values = program.values(xs)
        if values[-1].requires_grad:
            values[-1].sum().backward()
        dead = [weakref.ref(v) for v in values[program.leaves :]]
        del values
        assert [d() for d in dead] == [None] * len(dead)
        g = by_hand(program)
        nodes = [weakref.ref(n) for n in g]
        del g
        assert [n() for n in nodes] == [None] * len(nodes)
    finally:
        gc.enable()


@pytest.mark.proves("S0-37")
@settings(max_examples=40)
@given(programs(most=30), st.randoms(use_true_random=False))
def test_another_legal_order_of_the_same_program_gives_the_same_bits(program, random) -> None:
    """Shuffle the steps without breaking a dependency; every value keeps its bits."""
    remaining = list(range(program.leaves, program.leaves + len(program.steps)))
    place = {i: i for i in range(program.leaves)}
    steps: list[Step] = []
    while remaining:
        ready = [n for n in remaining
                 if all(i in place for i in program.steps[n - program.leaves].inputs)]  # fmt: skip
        chosen = random.choice(ready)
        op, inputs = program.steps[chosen - program.leaves]
        steps.append(Step(op, tuple(place[i] for i in inputs)))
        place[chosen] = program.leaves + len(steps) - 1
        remaining.remove(chosen)
    shuffled = Program(program.leaves, tuple(steps))
    last = program.leaves + len(program.steps) - 1

    def outputs(p: Program, number: int) -> list[bytes]:
        g = ab.Graph("order")
        xs = [g.parameter(f"x{i}", SHAPE, ab.float64) for i in range(p.leaves)]
        values = p.values(xs)
        return bits(g.compile(values[number].sum(), *values)(*arguments(program))[:1])

    assert outputs(program, last) == outputs(shuffled, place[last])
