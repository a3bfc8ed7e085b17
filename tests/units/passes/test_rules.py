"""Rules as users write them: patterns, conditions, and what the engine keeps."""

from typing import Any

import numpy as np
import pytest

import anabranch as ab
from anabranch.core.bind import bind
from anabranch.ops.layout import permute
from anabranch.ops.reduce import sum_
from anabranch.passes import Rule, rewritten, run_passes


def ops(graph: ab.Graph) -> list[str]:
    return [node.op.name for node in graph if node.kind == "op"]


def left(graph: ab.Graph, *rules: Rule) -> list[str]:
    new, _ = run_passes(graph, (lambda g: rewritten(g, rules), "prune"))
    ab.check(new)
    return ops(new)


SQUARE = Rule("square", lambda x: x * x, lambda x: ab.square(x))


def test_a_variable_stands_for_one_value_wherever_it_occurs() -> None:
    assert left(ab.trace(lambda x: x * x, 2.0), SQUARE) == ["square"]
    assert left(ab.trace(lambda x, y: x * y, 2.0, 3.0), SQUARE) == ["multiply"]


def test_operands_of_a_sum_are_tried_in_either_order() -> None:
    rule = Rule("cosine of a sum", lambda x, y: ab.sin(x) * 2.0 + y, lambda x, y: ab.cos(x) + y)
    for f in (
        lambda x, y: ab.sin(x) * 2.0 + y,
        lambda x, y: y + 2.0 * ab.sin(x),
        lambda x, y: y + ab.sin(x) * 2,
    ):
        assert left(ab.trace(f, 1.0, 2.0), rule) == ["cos", "add"]
    assert "sin" in left(ab.trace(lambda x, y: ab.sin(x) * 3.0 + y, 1.0, 2.0), rule)
    assert "sin" in left(ab.trace(lambda x, y: y - ab.sin(x) * 2.0, 1.0, 2.0), rule)


def test_a_row_can_ask_for_the_order_as_written() -> None:
    rule = Rule("first", lambda x, y: ab.sin(x) + y, lambda x, y: ab.cos(x) + y, in_order=True)
    assert left(ab.trace(lambda x, y: ab.sin(x) + y, 1.0, 2.0), rule) == ["cos", "add"]
    assert left(ab.trace(lambda x, y: y + ab.sin(x), 1.0, 2.0), rule) == ["sin", "add"]


def test_numbers_match_by_value_and_sign_in_any_dtype() -> None:
    rule = Rule("drop zero", lambda x: x + 0.0, lambda x: x)
    x = np.ones(2, np.float32)
    assert left(ab.trace(lambda x: x + np.float32(0.0), x), rule) == []
    assert left(ab.trace(lambda x: x + 0, x), rule) == []
    assert left(ab.trace(lambda x: x + -0.0, x), rule) == ["add"]


def test_attrs_can_be_variables_or_fixed() -> None:
    x = np.ones((2, 3))
    free = Rule(
        "sum of a transpose",
        lambda x, axes, k: bind(sum_, bind(permute, x, axes=(1, 0)), axes=axes, keepdims=k),
        lambda x, axes, k: bind(sum_, x, axes=tuple(1 - a for a in axes), keepdims=k),
        when=lambda axes: len(axes) == 1,
    )
    graph = ab.trace(lambda x: x.T.sum(axis=0), x)
    assert left(graph, free) == ["sum"]
    assert rewritten(graph, [free]).graph.outputs[0].attrs == {"axes": (1,), "keepdims": False}
    assert left(ab.trace(lambda x: x.T.sum(), x), free) == ["permute", "sum"]


def test_a_condition_sees_values_literals_as_numbers_and_the_result() -> None:
    seen = []

    def when(x: Any, c: Any, out: Any) -> bool:
        seen.append((getattr(x, "aval", None), c, out))
        return False

    rule = Rule("never", lambda x, c: x * c, lambda x: x, when=when)
    graph = ab.trace(lambda x: x * 2.5, np.ones(2, np.float32))
    assert left(graph, rule) == ["multiply"]
    (x, c, out), turned = seen  # a product may be read from either end
    assert (str(x), c, str(out)) == ("f32[2]", 2.5, "f32[2]")
    assert turned[0] is None


def test_a_result_of_another_aval_is_not_put_in() -> None:
    rule = Rule("sloppy", lambda x: ab.exp(x), lambda x: ab.sum(x))
    assert left(ab.trace(ab.exp, np.ones(2)), rule) == ["exp"]


def test_rows_follow_one_another_at_one_node() -> None:
    rules = [
        Rule("one", lambda x: ab.sin(x), lambda x: ab.cos(x)),
        Rule("two", lambda x: ab.cos(x), lambda x: ab.tanh(x)),
    ]
    graph = ab.trace(ab.sin, 1.0)
    assert left(graph, *rules) == ["tanh"]
    assert [line[:3] for line in rewritten(graph, rules).report] == ["one", "two"]


def test_rows_that_go_round_end() -> None:
    rules = [
        Rule("there", lambda x: ab.sin(x), lambda x: ab.cos(x)),
        Rule("and back", lambda x: ab.cos(x), lambda x: ab.sin(x)),
    ]
    assert left(ab.trace(ab.sin, 1.0), *rules) in (["sin"], ["cos"])


def test_the_first_row_of_a_table_wins() -> None:
    other = Rule("negate", lambda x: x * x, lambda x: -x)
    assert left(ab.trace(lambda x: x * x, 2.0), SQUARE, other) == ["square"]
    assert left(ab.trace(lambda x: x * x, 2.0), other, SQUARE) == ["negative"]


def test_the_new_node_keeps_every_line_name_scope_and_origin() -> None:
    g = ab.Graph("demo")
    x = g.parameter("x", (), ab.float64)
    with ab.scope("part"):
        inner = ab.exp(x)
        outer = ab.log(inner)
    outer.name = "value"
    g.set_outputs([outer * 2.0])
    rule = Rule("log exp", lambda x: ab.log(ab.exp(x)), lambda x: ab.sin(ab.cos(x)))
    new, _ = run_passes(g, (lambda graph: rewritten(graph, [rule]), "prune"))
    cos, sin = new.nodes[1:3]
    assert {s.line for s in sin.sources} == {inner.source.line, outer.source.line}
    assert cos.source.line == outer.source.line
    assert (sin.name, cos.name, sin.scope, cos.scope) == ("value", None, "part", "part")


def test_rows_that_follow_one_another_keep_the_lines_of_all() -> None:
    rules = [
        Rule("one", lambda x: ab.log(ab.exp(x)), lambda x: ab.cos(ab.sin(x))),
        Rule("two", lambda x: ab.cos(ab.sin(x)), lambda x: ab.tanh(x)),
    ]
    g = ab.Graph("demo")
    x = g.parameter("x", (), ab.float64)
    inner = ab.exp(x)
    outer = ab.log(inner)
    g.set_outputs([outer])
    new = rewritten(g, rules).graph
    assert new.outputs[0].op.name == "tanh"
    assert {s.line for s in new.outputs[0].sources} == {inner.source.line, outer.source.line}


def test_readers_of_a_literal_keep_the_lines_of_what_it_stands_for() -> None:
    rule = Rule("log exp", lambda x: ab.log(ab.exp(x)), lambda out: out.dtype.type(7.0))
    g = ab.Graph("demo")
    x = g.parameter("x", (), ab.float64)
    inner = ab.exp(x)
    outer = ab.log(inner)
    reader = x * outer
    g.set_outputs([reader])
    new = rewritten(g, [rule]).graph.outputs[0]
    assert new.inputs[1].value == 7.0
    assert {s.line for s in new.sources} == {n.source.line for n in (inner, outer, reader)}


def test_a_node_that_belongs_to_a_derivative_still_does() -> None:
    g = ab.Graph("demo")
    x = g.parameter("x", (), ab.float64)
    y = ab.exp(x * 3.0)
    (dx,) = ab.gradients(y, [x])
    g.set_outputs([dx])
    rule = Rule("product", lambda a, b: a * b, lambda a, b: ab.divide(a, 1 / b))
    new = rewritten(g, [rule]).graph
    assert new.outputs[0].op.name == "divide"
    assert new.outputs[0].origin == dx.origin
    assert new.outputs[0].source.line == dx.source.line


def test_a_report_names_the_row_what_it_may_change_and_both_lines() -> None:
    rule = Rule(
        "half", lambda x: x / 2.0, lambda x: x * 0.5, changes="nothing", may_change_nan=True
    )
    g = ab.Graph("demo")
    x = g.parameter("x", (), ab.float64)
    y = x / 2.0
    g.set_outputs([y])
    (line,) = rewritten(g, [rule]).report
    place = f"({y.source})"
    assert line == f"half [nothing, may change NaN]: divide {place} becomes multiply {place}"


def test_a_rule_in_the_middle_of_a_trace_does_not_write_into_it() -> None:
    def f(x: Any) -> Any:
        rule = Rule("inside", lambda x: x * x, lambda x: ab.square(x))
        inner = rewritten(ab.trace(lambda y: y * y, 2.0), [rule]).graph
        assert ops(inner)[-1] == "square"
        return x + 1.0

    assert ops(ab.trace(f, 1.0)) == ["add"]


@pytest.mark.parametrize(
    ("pattern", "becomes", "message"),
    [
        (lambda x: x, lambda x: x, "applies no op"),
        (lambda x: 2.0, lambda x: x, "applies no op"),
        (lambda x: -x, lambda y: y, "asks for y"),
        (lambda x: -x, lambda *others: others, "asks for others"),
    ],
)
def test_a_row_that_cannot_work_is_refused(pattern: Any, becomes: Any, message: str) -> None:
    with pytest.raises(ab.errors.ArgumentError, match=message) as caught:
        Rule("broken", pattern, becomes)
    assert caught.value.source is not None


def test_one_walk_however_many_rows_fire(executed_lines: Any) -> None:
    def chain(length: int) -> ab.Graph:
        g = ab.Graph("demo")
        y = g.parameter("x", (), ab.float64)
        for _ in range(length):
            y = ab.sin(y * y)
        g.set_outputs([y])
        return g

    small, large = chain(100), chain(200)
    steps = [executed_lines(lambda g=g: rewritten(g, [SQUARE])) for g in (small, large)]
    assert steps[1] <= 2.05 * steps[0]
    assert ops(rewritten(large, [SQUARE]).graph).count("square") == 200
