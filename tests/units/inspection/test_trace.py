"""The trace of a run: complete, true to the run, and the same text for the same graph."""

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import anabranch as ab
from anabranch import inspection

SCHEMA = json.loads((Path(inspection.__file__).parent / "schema.json").read_text("utf-8"))
VALID = jsonschema.Draft202012Validator(SCHEMA)


def story():
    x = ab.tensor(2.0, requires_grad=True)
    y = ab.tensor(3.0, requires_grad=True)
    p = x * y
    s = p + x
    z = s**2
    return z, (x, y, p, s)


def checked(report):
    """The trace as any reader of JSON has it, valid after the schema."""
    data = json.loads(report.trace.to_json())
    VALID.validate(data)
    return data


@pytest.mark.proves("S1-39")
def test_edges_carry_local_derivatives_and_contributions():
    trace = ab.inspect(story()[0]).trace
    name = [node.label for node in trace.nodes]
    edges = [(name[e.from_], name[e.to], e.local.v, e.contribution.v) for e in trace.edges]
    assert edges == [
        ("x", "p", 3.0, 48.0),
        ("y", "p", 2.0, 32.0),
        ("p", "s", 1.0, 16.0),
        ("x", "s", 1.0, 16.0),
        ("s", "z", 8.0, 8.0),
        ("s", "z", 8.0, 8.0),
    ]
    assert [edge.local.text for edge in trace.edges] == ["y", "x", None, None, "s", "s"]


@pytest.mark.proves("S1-35")
def test_the_forward_order_is_that_of_the_program():
    trace = ab.inspect(story()[0]).trace
    assert [node.label for node in trace.nodes] == ["x", "y", "p", "s", "z"]
    assert trace.order.forward == [0, 1, 2, 3, 4]
    assert [trace.written(node) for node in trace.nodes] == ["", "", "x × y", "p + x", "s × s"]
    assert trace.title == "z = (x·y + x)²"


@pytest.mark.proves("S1-36")
def test_the_backward_pass_is_told_as_it_went():
    trace = ab.inspect(story()[0]).trace
    assert [trace.nodes[i].label for i in trace.order.backward] == ["z", "s", "p"]
    x = trace.find("x")[0]
    total, screen = 0.0, []
    for edge in trace.arrivals(x.id):
        total += edge.contribution.v
        screen.append((trace.nodes[edge.to].label, edge.contribution.v, total))
    assert screen == [("s", 16.0, 16.0), ("p", 48.0, 64.0)]
    assert x.grad.v == 64.0


def test_names_come_from_the_source_and_say_where():
    z, _ = story()
    trace = ab.inspect(z).trace
    lines = [trace.line(node) for node in trace.nodes]
    assert {line[0] for line in lines} == {"tests/units/inspection/test_trace.py"} or all(
        not line[0].startswith("/") for line in lines
    )
    assert [line[2] for line in lines[:3]] == [
        "x = ab.tensor(2.0, requires_grad=True)",
        "y = ab.tensor(3.0, requires_grad=True)",
        "p = x * y",
    ]


def test_a_node_without_a_certain_name_has_none():
    x = ab.tensor(2.0, requires_grad=True)
    z = (x * 3.0 + x) ** 2
    assert [node.name for node in ab.inspect(z).trace.nodes] == ["x", None, None, "z"]


def test_looking_changes_no_gradient():
    z, (x, *_) = story()
    ab.inspect(z)
    assert x.grad is None
    z.backward()
    assert x.grad == 64.0
    ab.inspect(z)
    assert x.grad == 64.0


def test_the_same_program_gives_the_same_bytes():
    texts = {ab.inspect(story()[0]).trace.to_json() for _ in range(2)}
    assert len(texts) == 1
    checked(ab.inspect(story()[0]))


@pytest.mark.parametrize("detail", ["full", "summary", "shape"])
def test_traces_fit_the_schema_at_every_detail(detail):
    x = ab.tensor(np.linspace(-1.0, 1.0, 12).reshape(4, 3), name="x")
    w = ab.tensor(np.ones((3, 40)), requires_grad=True)
    b = ab.tensor(np.zeros(40), requires_grad=True)
    loss = ab.mean(ab.log_softmax(ab.relu(x @ w + b)) ** 2)
    data = checked(ab.inspect(loss, detail=detail))
    values = [node for node in data["nodes"] if "value" in node]
    assert len(values) == (0 if detail == "shape" else len(data["nodes"]))
    assert ("linspace" in json.dumps(data["nodes"])) is False
