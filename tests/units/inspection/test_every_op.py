"""Every op with every sample can be looked at: valid traces, true sums, an answer for each input."""

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import anabranch as ab
from anabranch import inspection
from anabranch.core.bind import bind
from anabranch.core.op import NoGradient, Unsupported
from anabranch.core.registry import registered_ops
from anabranch.inspection import formula, reader
from anabranch.inspection.explanation import explained

SCHEMA = json.loads((Path(inspection.__file__).parent / "schema.json").read_text("utf-8"))
VALID = jsonschema.Draft202012Validator(SCHEMA)
OPS = [op for op in registered_ops() if op.arity != 0]

pytestmark = pytest.mark.usefixtures("noiseless")


def samples():
    return [
        pytest.param(op, one, id=f"{op.name}-{i}") for op in OPS for i, one in enumerate(op.samples)
    ]


@pytest.mark.parametrize(("op", "sample"), samples())
def test_it_can_be_looked_at(op, sample):
    inputs = [np.asarray(x)[()] for x in sample.inputs]

    def f(*xs):
        return bind(op, *xs, **sample.attrs)

    def start(y):
        return np.ones(y.shape, y.dtype)

    out = f(*inputs)
    first = out[0] if isinstance(out, tuple) else out
    smooth = first.dtype.kind in "fV" and any(
        not isinstance(op.gradient(i), NoGradient | Unsupported) for i in range(len(inputs))
    )
    report = ab.inspect(f, *inputs, ct=start(first) if smooth else None)
    trace = report.trace
    VALID.validate(json.loads(trace.to_json()))
    again = reader.parsed(trace.to_json())
    assert again.to_json() == trace.to_json()
    for node in trace.nodes:
        assert str(explained(again, f"#{node.id}")) == str(report.why(f"#{node.id}"))
        assert trace.written(node) is not None
        if node.grad is not None and node.grad.v is not None and not node.shape:
            parts = [e.contribution.v for e in trace.arrivals(node.id)]
            if parts:
                total = parts[0]
                for part in parts[1:]:
                    total = total + part
                np.testing.assert_equal(total, node.grad.v)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_its_formula_has_each_input(op):
    sample = op.samples[0]
    g = ab.Graph("one")
    nodes = [
        g.parameter(f"x{i}", np.shape(x), np.asarray(x).dtype) for i, x in enumerate(sample.inputs)
    ]
    made = bind(op, *nodes, **sample.attrs)
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
