"""Rules on programs that exist already: nodes of a growing graph, and recorded tensors."""

from typing import Any

import numpy as np

import anabranch as ab
from anabranch.passes import Rule, restated
from anabranch.passes.restate import TABLES
from anabranch.passes.stability import RULES

X = np.array([-800.0, -1.0, 0.0, 3.0])


def naive(x: Any) -> Any:
    return ab.sum(ab.log(1 / (1 + ab.exp(-x))) * 2.0)


TRUE = 2 / (1 + np.exp(np.minimum(X, 700)))


def test_nodes_of_a_graph_by_hand() -> None:
    g = ab.Graph("demo")
    x = g.parameter("x", (4,), ab.float64)
    y = naive(x)
    size = len(g)
    (new,), report = restated([y])
    assert new is not y and len(g) > size and y.op is g.nodes[size - 1].op
    ab.check(g)
    assert [line.split(" = ")[0] for line in report] == ["1 / (1 + exp(-x))", "log(sigmoid(x))"]
    (slope,) = ab.gradients(new, [x])
    np.testing.assert_allclose(g.compile(slope)(X), TRUE)
    lines = {s.line for node in g.order([new]) for s in node.sources}
    assert {node.source.line for node in g.nodes[:size] if node.op.name != "multiply"} <= lines


def test_recorded_tensors() -> None:
    x = ab.tensor(X, requires_grad=True)
    with np.errstate(all="ignore"):
        y = naive(x)
    (new,), report = restated([y])
    assert len(report) == 2
    assert np.isinf(y.data) and np.isfinite(new.data)
    new.backward()
    np.testing.assert_allclose(x.grad, TRUE)


def test_what_no_rule_touches_stays_itself() -> None:
    x = ab.tensor(X[1:], requires_grad=True)
    y, z = ab.sigmoid(x), 1 / (1 + ab.exp(-x))
    (same, other), report = restated([y, z])
    assert same is y and other is not z and len(report) == 1
    assert restated([y])[0][0] is y


def test_nothing_behind_a_stop_is_read() -> None:
    x = ab.tensor(X[1:], requires_grad=True)
    middle = 1 / (1 + ab.exp(-x))
    end = middle * 2.0
    assert restated([end], after=[middle])[0][0] is end
    assert restated([end])[0][0] is not end


def test_in_a_running_trace_the_new_nodes_belong_to_it() -> None:
    def f(x: Any) -> Any:
        (new,), _ = restated([naive(x)])
        return new

    graph = ab.trace(f, X)
    ab.check(graph)
    needed = [node.op.name for node in graph.order(graph.outputs)]
    assert needed[1:] == ["negative", "softplus", "negative", "multiply", "sum"]


def test_rules_of_your_own_and_their_lines() -> None:
    rule = Rule("log exp", lambda x: ab.log(ab.exp(x)), lambda x: ab.sin(x))
    g = ab.Graph("demo")
    x = g.parameter("x", (), ab.float64)
    inner = ab.exp(x)
    outer = ab.log(inner)
    (new,), (line,) = restated([outer], [rule])
    assert {s.line for s in new.node.sources} == {inner.source.line, outer.source.line}
    assert line.startswith("log exp: log (test_restate.py:")


def test_each_row_of_a_table_has_one_of_the_ops_that_it_is_loaded_for() -> None:
    for marks, table in TABLES:
        for rule in table.RULES:
            assert marks & {op.name for op in rule.ops}, rule.name
    assert tuple(rule for _, table in TABLES for rule in table.RULES) == RULES
