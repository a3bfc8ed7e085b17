"""Passes: a new graph, a report with lines, sources and logs kept, and always a legal graph."""

from typing import Any

import numpy as np
import pytest

import anabranch as ab
from anabranch.core.node import Literal
from anabranch.passes.merging import merge
from anabranch.passes.pipeline import DEFAULT, PASSES, run_passes
from anabranch.passes.pruning import prune
from anabranch.passes.rewrite import Rewrite, copied


def doubled() -> tuple[ab.Graph, Any]:
    """x*x + x*x with its gradient, the products on two lines."""
    g = ab.Graph("demo")
    x = g.parameter("x", (2,), ab.float64)
    first = x * x
    second = x * x
    total = first + second
    g.set_outputs([total])
    return g, x


def ops(graph: ab.Graph) -> list[str]:
    return [node.op.name for node in graph if node.kind == "op"]


@pytest.mark.proves("S4-17")
def test_merge_makes_one_product_of_two_and_keeps_both_edges() -> None:
    g, _ = doubled()
    rewrite = merge(g)
    ab.check(rewrite.graph)
    assert ops(rewrite.graph) == ["multiply", "add"]
    product, total = rewrite.graph.nodes[1:]
    assert total.inputs == (product, product)
    assert product.consumers == ((total, 0), (total, 1))


@pytest.mark.proves("S4-17")
def test_the_gradient_after_merge_is_exact() -> None:
    f = ab.compile(ab.grad(lambda x: (x * x + x * x).sum()))
    assert f(np.array([1.0, 3.0])).tolist() == [4.0, 12.0]
    g, x = doubled()
    total = g.outputs[0].sum()
    run = g.compile(total, *ab.gradients(total, [x]))
    assert [v.tolist() for v in run(np.array([1.0, 3.0]))] == [20.0, [4.0, 12.0]]


def test_a_merged_node_keeps_both_lines_names_and_logs(capsys) -> None:
    g, _ = doubled()
    _, first, second, _ = g.nodes
    second.name = "second"
    first.log("one")
    second.log("two")
    new = merge(g).graph
    stays = new.nodes[1]
    assert [s.line for s in stays.sources] == [first.source.line, second.source.line]
    assert stays.source.line == first.source.line
    assert stays.name == "second"
    g.compile(g.outputs[0])(np.array([1.0, 2.0]))
    assert capsys.readouterr().out == "one = [1. 4.]\ntwo = [1. 4.]\n"


def test_merge_tells_apart_what_differs() -> None:
    g = ab.Graph("demo")
    x = g.parameter("x", (2, 2), ab.float64)
    y = g.parameter("y", (2, 2), ab.float64)
    different = [
        x * y, y * x, x + y, x * 0.0, x * -0.0, x * 0, x * np.float64(0.0), x * False,
        x.sum(axis=0), x.sum(axis=1), x.sum(axis=0, keepdims=True), x**3, x**4,
        x * g.constant(np.zeros((2, 2))), x * g.constant(-np.zeros((2, 2))),
        x.astype(ab.float32), x.astype(ab.int32),
    ]  # fmt: skip
    g.set_outputs(different)
    assert len(ops(merge(g).graph)) == len(different)


def test_merge_joins_constants_and_whole_towers() -> None:
    g = ab.Graph("demo")
    x = g.parameter("x", (2,), ab.float64)
    g.set_outputs([ab.exp(ab.sin(x + np.ones(2))) * 2.0, ab.exp(ab.sin(x + np.ones(2))) * 2.0])
    new = merge(g).graph
    assert len(new) == 6
    assert new.outputs[0] is new.outputs[1]


def test_parameters_are_never_merged() -> None:
    g = ab.Graph("demo")
    x, y = g.parameter("x", (), ab.float64), g.parameter("y", (), ab.float64)
    run = g.compile(x - y)
    assert run(3.0, 1.0) == 2.0


@pytest.mark.proves("S4-34")
def test_prune_drops_what_no_output_needs_and_keeps_parameters_and_logs() -> None:
    g = ab.Graph("demo")
    x, unused = g.parameter("x", (), ab.float64), g.parameter("unused", (), ab.float64)
    ab.exp(unused)
    logged = ab.sin(x)
    logged.log("sin")
    g.set_outputs([x + 1.0])
    new = prune(g).graph
    ab.check(new)
    assert ops(new) == ["sin", "add"]
    assert [p.name for p in new.parameters] == ["x", "unused"]
    assert len(g) == 5  # the old graph stays as it was


def test_reports_say_what_was_done_and_where() -> None:
    g, x = doubled()
    dead = ab.exp(x)
    product = g.nodes[1]
    _, reports = run_passes(g, ("prune", "merge"))
    assert [(r.name, r.before, r.after) for r in reports] == [("prune", 5, 4), ("merge", 4, 3)]
    assert reports[0].changes == (f"dropped exp ({dead.source})",)
    (change,) = reports[1].changes
    assert change == f"merged multiply ({g.nodes[2].source}) into multiply ({product.source})"
    assert str(reports[1]) == f"merge: 4 nodes to 3\n  {change}"


def test_the_map_leads_from_every_old_node_to_its_new_one() -> None:
    g, _ = doubled()
    rewrite = merge(g)
    assert sorted(rewrite.mapping) == [0, 1, 2, 3]
    assert rewrite.mapping[1] is rewrite.mapping[2]
    assert all(node.graph is rewrite.graph for node in rewrite.mapping.values())
    assert rewrite.moved(g.nodes[3]) is rewrite.graph.outputs[0]


def test_gradient_nodes_keep_their_origin_through_passes() -> None:
    g, x = doubled()
    total = g.outputs[0].sum()
    (dx,) = ab.gradients(total, [x])
    g.set_outputs([dx])
    new, _ = run_passes(g, ("prune", "merge", "prune"))
    out = new.outputs[0]
    assert out.origin is not None and out.source is not None
    assert out.source.line == dx.source.line


NOTHING_TO_DO = ab.trace(
    ab.value_and_grad(lambda x, w: ab.tanh(x @ w).sum(), (0, 1)), *[np.eye(2)] * 2
)


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_that_finds_nothing_gives_the_very_same_graph(name) -> None:
    graph, _ = run_passes(NOTHING_TO_DO)
    rewrite = PASSES[name](graph)
    assert rewrite.graph is graph
    assert rewrite.report == []
    assert all(rewrite.mapping[node.id] is node for node in graph)
    assert [rewrite.moved(edge) for edge in graph.outputs] == [*graph.outputs]
    optimised, reports = run_passes(graph)
    assert optimised is graph
    assert [(r.before, r.after) for r in reports] == [(len(graph), len(graph))] * len(DEFAULT)


@pytest.mark.parametrize("passes", [None, ()])
def test_what_its_owner_does_to_a_graph_later_changes_no_compiled_one(passes, capsys) -> None:
    for backend in ("native", "reference"):
        g = ab.Graph("owned")
        x = g.parameter("x", (), ab.float64)
        y, z = ab.sin(x), ab.cos(x)
        first = g.compile(y + z, backend=backend, passes=passes)
        second = g.compile(y, z, backend=backend, passes=passes)
        y.log("late")
        g.set_outputs([x])
        assert first(0.0) == 1.0
        assert second(0.0) == [0.0, 1.0]
        assert g.compile(y, backend=backend, passes=passes)(0.0) == 0.0
    assert capsys.readouterr().out.splitlines() == ["late = 0.0"] * 2


def test_what_is_found_late_leaves_what_came_before() -> None:
    g = ab.Graph("late")
    x = g.parameter("x", (2,), ab.float64)
    a = ab.sin(x).named("a")
    b = ab.cos(a)
    c = ab.sin(x)
    g.set_outputs([b * c + 1.0, a])
    rewrite = merge(g)
    ab.check(rewrite.graph)
    assert rewrite.graph is not g
    assert ops(rewrite.graph) == ["sin", "cos", "multiply", "add"]
    kept = rewrite.mapping[a.id]
    assert kept is rewrite.mapping[c.id] is rewrite.graph.nodes[1]
    assert kept.name == "a"
    assert [s.line for s in kept.sources] == [a.source.line, c.source.line]
    assert [s.line for s in rewrite.mapping[b.id].sources] == [b.source.line]


def test_an_unknown_pass_lists_the_known_ones() -> None:
    g, _ = doubled()
    with pytest.raises(ab.errors.ArgumentError, match="unknown-pass") as caught:
        run_passes(g, ("prune", "polish"))
    assert all(name in caught.value.sentence for name in PASSES)


def test_a_users_pass_is_a_function_from_graph_to_rewrite() -> None:
    def exp_of_zero(graph: ab.Graph) -> Rewrite:
        """Write x + 0.0 as x; wrong for -0.0, which is the user's business."""

        def replace(rewrite, node, inputs):
            zero = node.op.name == "add" and getattr(inputs[1], "value", None) == 0.0
            if zero:
                rewrite.report.append("dropped an addition of zero")
            return inputs[0] if zero else None

        return copied(graph, graph.nodes, replace)

    f = ab.compile(lambda x: ab.exp(x + 0.0) + 0.0, passes=(exp_of_zero, "prune"))
    assert f(0.0) == 1.0
    program = f.program(0.0)
    assert ops(program.optimised) == ["exp"]
    assert [r.name for r in program.reports] == ["exp_of_zero", "prune"]
    assert len(program.reports[0].changes) == 2
    ab.check(program.optimised)


def test_no_passes_run_the_graph_as_built(spy) -> None:
    f = ab.compile(lambda x: spy(x, x) + spy(x, x), passes=())
    f(2.0)
    assert len(spy.values) == 2
    spy.values.clear()
    ab.compile(lambda x: spy(x, x) + spy(x, x))(2.0)
    assert len(spy.values) == 1


def test_a_literal_stands_for_no_output_and_for_nothing_that_is_logged() -> None:
    def seven(graph: ab.Graph) -> Rewrite:
        return copied(graph, graph.nodes, lambda r, n, i: Literal(7.0) if n.kind == "op" else None)

    g = ab.Graph("demo")
    x = g.parameter("x", (), ab.float64)
    inner, logged = ab.exp(x), ab.sin(x).log("sin")
    g.set_outputs([inner + logged])
    new = seven(g).graph
    ab.check(new)
    assert ops(new) == ["sin", "add"]
    assert new.outputs[0].inputs[0].value == 7.0
    assert {s.line for s in new.outputs[0].sources} >= {inner.source.line}


def part_of(shape: tuple[int, ...] = (), log: bool = False) -> ab.Graph:
    """x * 1 + x * 1, with something that no output needs."""
    part = ab.Graph("part")
    x = part.parameter("x", shape, ab.float64)
    ab.exp(x)
    doubled = x * 1 + x * 1
    if log:
        doubled.log("doubled")
    part.set_outputs([doubled])
    return part


def parts(graph: ab.Graph) -> list[ab.Graph]:
    return [node.attrs["graph"] for node in graph if "graph" in node.attrs]


def test_passes_go_into_parts_and_a_shared_part_stays_shared() -> None:
    part, outer = part_of(), ab.Graph("outer")
    y = outer.parameter("y", (), ab.float64)
    outer.set_outputs([part(y) + part(y * 2.0)])
    new, reports = run_passes(outer)
    ab.check(new)
    one, other = parts(new)
    assert one is other
    assert ops(one) == ["add"]
    assert any(line.startswith("in part: x * 1 = x: ") for line in reports[2].changes)
    assert outer.compile(outer.outputs[0])(3.0) == 18.0
    assert len(parts(outer)[0]) == 4  # the old part stays as it was


def test_parts_of_parts_are_entered_once_each() -> None:
    part = part_of()
    for level in range(60):  # 2**60 ways lead in
        outer = ab.Graph(f"level {level}")
        y = outer.parameter("y", (), ab.float64)
        outer.set_outputs([part(y) - part(y * 0.5)])
        part = outer
    new, _ = run_passes(part, ("algebra", "prune"))
    for _ in range(60):
        (new, other) = parts(new)
        assert new is other
    assert ops(new) == ["add"]


def test_equal_parts_merge_but_each_that_prints_prints(capsys) -> None:
    for log, calls in ((False, 1), (True, 2)):
        part, outer = part_of(log=log), ab.Graph("outer")
        y = outer.parameter("y", (), ab.float64)
        run = outer.compile(part(y) + part(y))
        assert len(parts(run.program.optimised)) == calls
        assert run(1.0) == 4.0
    assert capsys.readouterr().out == "doubled = 2.0\n" * 2


def test_a_part_of_constants_is_not_folded() -> None:
    part, outer = part_of((2,)), ab.Graph("outer")
    y = outer.parameter("y", (2,), ab.float64)
    outer.set_outputs([y + part(outer.constant([1.0, 2.0]))])
    assert len(parts(run_passes(outer)[0])) == 1


@pytest.mark.proves("S4-42")
def test_a_pass_can_be_left_out() -> None:
    g, x = doubled()
    _, reports = run_passes(g, without="merge")
    assert [r.name for r in reports] == ["prune", "fold", "algebra", "prune"]
    _, reports = run_passes(g, without=("prune", "fold", "algebra"))
    assert [r.name for r in reports] == ["merge"]
    assert [r.name for r in run_passes(g, "merge")[1]] == ["merge"]
    with pytest.raises(ab.errors.ArgumentError, match="unknown-pass"):
        run_passes(g, without="polish")
    assert x.graph is g


def test_after_merge_there_is_one_product_and_one_sum() -> None:
    run = ab.compile(lambda x: x * x + x * x)
    assert ops(run.graph(3.0)) == ["multiply", "add"]
    assert run(3.0) == 18.0


def test_the_default_order_changes_no_bit_and_says_so() -> None:
    assert DEFAULT == ("prune", "fold", "algebra", "merge", "prune")
    assert set(PASSES) == {*DEFAULT, "stabilise"}


def test_a_report_prints_every_change_with_its_line() -> None:
    g, x = doubled()
    scaled = (g.outputs[0] * 1).named("scaled")
    g.set_outputs([scaled - ab.exp(g.constant([0.0, 1.0]))])
    _, reports = run_passes(g)
    text = "\n".join(map(str, reports))
    head = [line for line in text.splitlines() if not line.startswith("  ")]
    assert [line.split(":")[0] for line in head] == list(DEFAULT)
    assert all("test_passes.py:" in line for line in text.splitlines() if line.startswith("  "))
    assert f"  x * 1 = x: scaled ({scaled.source}) becomes add" in text
    assert x.graph is g


def test_nodes_of_a_users_pass_belong_to_the_line_that_they_replace() -> None:
    def narrower(graph: ab.Graph) -> Rewrite:
        def replace(rewrite, node, inputs):
            if node.op.name != "exp":
                return None
            return ab.exp(inputs[0].astype(ab.float32)).astype(node.dtype)

        return copied(graph, graph.nodes, replace)

    g = ab.Graph("demo")
    x = g.parameter("x", (), ab.float64)
    with ab.scope("part"):
        y = ab.exp(x)
    g.set_outputs([y + 1.0])
    made = narrower(g).graph.nodes[1:4]
    assert [node.op.name for node in made] == ["astype", "exp", "astype"]
    assert {node.source.line for node in made} == {y.source.line}
    assert {node.scope for node in made} == {"part"}
