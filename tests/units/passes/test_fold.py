"""Folding: once, now, by the reference, to the bits of a run; and what is left alone."""

from typing import Any

import numpy as np
import pytest

import anabranch as ab
from anabranch.core.bind import bind
from anabranch.core.text import attr_text
from anabranch.passes import fold, run_passes
from anabranch.passes.folding import LARGEST

inf, nan = float("inf"), float("nan")


def ops(graph: ab.Graph) -> list[str]:
    return [node.op.name for node in graph if node.kind != "parameter"]


def folded(graph: ab.Graph) -> ab.Graph:
    new, _ = run_passes(graph, ("fold", "prune"))
    ab.check(new)
    return new


def graph_with(*constants: Any) -> tuple[ab.Graph, Any, list[Any]]:
    g = ab.Graph("demo")
    x = g.parameter("x", (2,), ab.float64)
    return g, x, [g.constant(c) for c in constants]


def test_a_scalar_becomes_a_literal_in_its_reader() -> None:
    g, x, (c,) = graph_with(np.float64(3.0))
    g.set_outputs([x * (ab.exp(c) + 1.0)])
    assert str(folded(g)).splitlines()[2:] == [
        f"#1 multiply(#0, float64({np.exp(3.0) + 1.0})) : f64[2]",
        "outputs #1",
    ]


def test_an_array_becomes_a_constant() -> None:
    g, x, (c,) = graph_with([1.0, 2.0])
    g.set_outputs([x * ab.square(c)])
    _, constant, product = folded(g).nodes
    assert constant.attrs["value"].tolist() == [1.0, 4.0]
    assert (product.op.name, product.inputs[1]) == ("multiply", constant)
    assert not constant.attrs["value"].flags.writeable


def test_a_tower_of_constants_is_one() -> None:
    g, x, (c,) = graph_with([0.1, 0.2])
    y = c
    for _ in range(50):
        y = ab.sin(y) * 1.5 + c
    g.set_outputs([x + y])
    new = folded(g)
    assert ops(new) == ["constant", "add"]
    run = g.compile(x + y, passes=())
    assert new.nodes[1].attrs["value"].tobytes() == run(np.zeros(2)).tobytes()


def test_nan_infinities_and_signs_are_what_a_run_makes_of_them() -> None:
    g, x, (zero, big) = graph_with([0.0, -0.0], [inf, 1e308])
    values = [big - big, big * 10.0, -zero, ab.exp(big), ab.tanh(big), zero * big]
    g.set_outputs([x, *values])
    with np.errstate(all="raise"):  # the user's own setting is none of a pass's business
        new = folded(g)
    assert ops(new) == ["constant"] * len(values)
    wanted = g.compile([x, *values], passes=())(np.zeros(2))
    for edge, value in zip(new.outputs[1:], wanted[1:], strict=True):
        assert edge.node.attrs["value"].tobytes() == value.tobytes()


def test_what_lies_outside_of_a_domain_is_left_to_the_run_that_may_be_asked_to_tell() -> None:
    g, x, (zero, one) = graph_with([0.0, -0.0], [1.0, 1.0])
    values = [one / zero, ab.log(zero), ab.sqrt(-one), zero**-1, ab.power(zero, -0.5)]
    g.set_outputs([x, *values, one / one])
    new = folded(g)
    assert sum(name == "constant" for name in ops(new)) > 1
    outside = ["divide", "log", "sqrt", "integer_power", "power"]
    assert [edge.node.op.name for edge in new.outputs[1:]] == [*outside, "constant"]
    for edge in values:
        run = g.compile(edge, x)
        run(np.zeros(2))
        with ab.config(domain="raise"), pytest.raises(ab.DomainError, match="outside-domain"):
            run(np.zeros(2))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int32", "uint8"])
def test_every_dtype_keeps_its_own(dtype: str) -> None:
    value = np.array([1, 2, 3]).astype(getattr(ab, dtype, dtype))
    g, x, (c, scalar) = graph_with(value, value[1])
    outputs = [c + c, c * 2, c * scalar, ab.sum(c), scalar * scalar + c]
    g.set_outputs([x, *outputs])
    new = folded(g)
    assert [a.aval for a in new.outputs] == [b.aval for b in g.outputs]
    plain = g.compile([x, *outputs], passes=())(np.zeros(2))
    fast = g.compile([x, *outputs], passes=("fold", "prune"))(np.zeros(2))
    assert [(v.dtype, v.tobytes()) for v in fast] == [(v.dtype, v.tobytes()) for v in plain]


def test_weak_numbers_stay_weak() -> None:
    g = ab.Graph("demo")
    x = g.parameter("x", (2,), ab.float32)
    third = g.add_node("divide", [1, 3])
    g.set_outputs([x * third])
    new = folded(g)
    assert repr(new.nodes[1].inputs[1]) == repr(1 / 3)
    g.set_outputs([x * g.add_node("exp", [2.0])])
    assert repr(folded(g).nodes[1].inputs[1]) == repr(float(np.exp(2.0)))
    assert new.outputs[0].dtype == np.float32


def test_the_report_says_what_became_of_what() -> None:
    g, x, (c,) = graph_with([1.0, 2.0])
    root = ab.sqrt(c[1])
    big = c * 2.0
    g.set_outputs([x * root, x * big])
    lines = fold(g).report
    assert lines == [
        f"folded slice ({root.source}) to 2.0",
        f"folded sqrt ({root.source}) to {np.sqrt(2.0)}",
        f"folded multiply ({big.source}) to {attr_text(np.array([2.0, 4.0]))}",
    ]


def test_lines_of_what_was_folded_live_on_in_the_readers() -> None:
    g, x, (c,) = graph_with([1.0, 2.0])
    one = c[1]
    two = one + 1.0
    three = two * 3.0
    four = x * three
    g.set_outputs([four])
    (node,) = (n for n in folded(g) if n.kind == "op")
    assert {s.line for s in node.sources} >= {n.source.line for n in (one, two, three, four)}
    assert node.source.line == four.source.line


def test_lines_of_arrays_live_on_too() -> None:
    g, x, (c,) = graph_with([1.0, 2.0])
    one = c + 1.0
    two = one * 2.0
    g.set_outputs([x + two])
    constant = next(n for n in folded(g) if n.kind == "constant")
    assert {s.line for s in constant.sources} == {n.source.line for n in (c, one, two)}


def test_a_scalar_output_stays_an_op_and_a_run_gives_a_scalar() -> None:
    g, x, (c,) = graph_with(np.float64(2.0))
    y = ab.sqrt(c)
    run = g.compile(x, y)
    assert ops(run.program.optimised) == ["sqrt"]
    assert isinstance(run(np.zeros(2))[1], np.float64)


def test_what_is_logged_stays_and_prints_at_each_run(capsys: Any) -> None:
    g, x, (c,) = graph_with([1.0, 2.0])
    doubled = (c * 2.0).log("doubled")
    run = g.compile(x + ab.exp(doubled))
    assert capsys.readouterr().out == ""
    run(np.zeros(2))
    run(np.zeros(2))
    assert capsys.readouterr().out == "doubled = [2. 4.]\n" * 2


def test_results_stay_within_a_size() -> None:
    side = int(LARGEST**0.5) + 1
    g, x, (row, large) = graph_with(np.ones(side), np.ones((side, side)))
    outer = row.reshape(side, 1) * row
    g.set_outputs([x, outer, large + 1.0])
    # The outer product would grow; what was as large before may be folded.
    assert ops(folded(g)) == ["constant", "constant", "multiply", "constant"]


def test_repetition_is_done_when_it_is_needed() -> None:
    g, x, (c,) = graph_with([1.0, 2.0])
    g.set_outputs([x + 1.0, ab.broadcast_to(c, (3, 2))])
    assert "broadcast_to" in ops(folded(g))


def test_what_would_fail_fails_when_it_runs() -> None:
    g, x, (c,) = graph_with([1.0, 2.0])
    picked = g.add_node("gather", [c, np.array([5])], axes=(0,))  # ab.take would refuse it now
    run = g.compile(x + picked)
    assert "gather" in ops(run.program.optimised)
    with pytest.raises(ab.errors.OutOfRangeError):
        run(np.zeros(2))


def test_random_ops_are_never_folded(spy: Any) -> None:
    object.__setattr__(spy.op, "random", True)
    g, x, (c,) = graph_with([1.0, 2.0])
    g.set_outputs([x + spy(c, c)])
    assert "spy" in ops(folded(g))
    assert spy.values == []


def test_each_constant_is_computed_once_and_not_by_the_run(spy: Any) -> None:
    g, x, (c,) = graph_with([1.0, 2.0])
    run = g.compile(x + spy(c, c))
    assert len(spy.values) == 1
    run(np.zeros(2))
    assert len(spy.values) == 1


def test_folding_twice_is_folding_once() -> None:
    g, x, (c,) = graph_with([1.0, 2.0])
    g.set_outputs([x * ab.exp(c[0]), ab.sqrt(c[1])])
    once = fold(g).graph
    again = fold(once)
    assert again.report == []
    assert ab.structure_hash(again.graph) == ab.structure_hash(once)


def test_nothing_is_folded_that_a_parameter_decides() -> None:
    g, x, (c,) = graph_with([1.0, 2.0])
    y = bind("multiply", x, c) * 0.0
    g.set_outputs([y])
    assert ops(folded(g)) == ["constant", "multiply", "multiply"]
