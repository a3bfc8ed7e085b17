"""Every op with every sample can be looked at: valid traces, true sums, answers to every why."""

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import anabranch as ab
from anabranch import inspection
from anabranch.core.bind import bind
from anabranch.core.registry import registered_ops
from anabranch.inspection import formula, reader
from anabranch.inspection.explanation import explained
from anabranch.testing.cases import cases

SCHEMA = json.loads((Path(inspection.__file__).parent / "schema.json").read_text("utf-8"))
VALID = jsonschema.Draft202012Validator(SCHEMA)
OPS = [op for op in registered_ops() if op.arity != 0]

pytestmark = pytest.mark.usefixtures("noiseless")


@pytest.mark.slow
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_it_can_be_looked_at(op):
    for case in cases(op):
        if case.draw == 0:
            look(case)


def look(case):
    def f(*xs):
        return bind(case.op, *xs, **case.attrs)

    out = f(*case.values)
    first = np.asarray(out[0] if isinstance(out, tuple) else out)
    smooth = case.smooth and first.dtype.kind in "fV"
    ct = np.ones(first.shape, first.dtype) if smooth else None
    report = ab.inspect(f, *case.values, ct=ct)
    trace = report.trace
    VALID.validate(json.loads(trace.to_json()))
    again = reader.parsed(trace.to_json())
    assert again.to_json() == trace.to_json()
    for node in trace.nodes:
        assert str(explained(again, f"#{node.id}")) == str(report.why(f"#{node.id}"))
        assert trace.written(node) is not None


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_its_formula_has_each_input(op):
    case = next(iter(cases(op)))
    g = ab.Graph("one")
    nodes = [g.parameter(f"x{i}", x.shape, x.dtype) for i, x in enumerate(case.xs)]
    made = bind(op, *nodes, **case.attrs)
    node = made[0].node if isinstance(made, tuple) else made
    text = formula.formula(node)
    for slot in range(len(nodes)):
        assert f"{{{slot}}}" in text


def test_ops_with_several_outputs_and_rules_of_their_own():
    @ab.custom_derivative
    def both(x, y):
        return x * y, x + y

    @both.define_vjp
    def rule(ct, out, x, y):
        return ct[0] * y + ct[1], ct[0] * x + ct[1]

    def f(x, y):
        p, s = both(x, y)
        return p * s

    report = ab.inspect(f, 2.0, 3.0)
    trace = report.trace
    (node,) = [node for node in trace.nodes if node.outputs]
    assert [one.value.v for one in node.outputs] == [6.0, 5.0]
    assert [one.grad.v for one in node.outputs] == [5.0, 6.0]
    assert [edge.out for edge in trace.edges if edge.from_ == node.id] == [None, 1]
    assert trace.find("x")[0].grad.v == 21.0
    assert reader.parsed(trace.to_json()).to_json() == trace.to_json()
    assert str(report.why("x"))
