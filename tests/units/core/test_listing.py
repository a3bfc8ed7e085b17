"""The listing of a graph, to the letter."""

import numpy as np
import pytest

import anabranch as ab


@pytest.mark.proves("S4-36", "S4-01", "S4-07")
def test_three_x_to_the_fourth() -> None:
    g = ab.Graph("3x^4")
    x = g.parameter("x", (), ab.float64)
    g.set_outputs([ab.square(ab.square(x)) * 3.0])
    assert str(g) == (
        'graph "3x^4": 4 nodes, 1 parameter\n'
        '#0 parameter "x" : f64[]\n'
        "#1 square(#0) : f64[]\n"
        "#2 square(#1) : f64[]\n"
        "#3 multiply(#2, 3.0) : f64[]\n"
        "outputs #3"
    )


@pytest.mark.proves("S4-01")
def test_three_x_to_the_fourth_at_two() -> None:
    def f(x):
        return ab.square(ab.square(x)) * 3.0

    graph = ab.trace(f, 2.0)
    assert sum(node.kind == "op" for node in graph) == 3
    value, slope = ab.value_and_grad(f)(2.0)
    assert (float(value), float(slope)) == (48.0, 96.0)


def test_names_attrs_constants_and_literals() -> None:
    g = ab.Graph('a "quoted" name')
    x = g.parameter("x", (2, 3), ab.float32)
    c = g.constant(np.array([1, 2, 3]), name="c")
    big = g.constant(np.zeros(9))
    y = (x * c).named("y")
    g.set_outputs([y.sum(axis=1), big, ab.maximum(x, np.float32(0.5)), x.astype(ab.int32)])
    assert str(g) == (
        'graph "a \\"quoted\\" name": 7 nodes, 1 parameter\n'
        '#0 parameter "x" : f32[2,3]\n'
        '#1 "c" = constant(value=[1, 2, 3]) : i64[3]\n'
        "#2 constant(value=<9 values 4e1d22d6257a>) : f64[9]\n"
        '#3 "y" = multiply(#0, #1) : f64[2,3]\n'
        "#4 sum(#3, axes=(1,), keepdims=False) : f64[2]\n"
        "#5 maximum(#0, float32(0.5)) : f32[2,3]\n"
        "#6 astype(#0, dtype=int32) : i32[2,3]\n"
        "outputs #4, #2, #5, #6"
    )


def test_an_empty_graph_and_one_without_outputs() -> None:
    g = ab.Graph("empty")
    assert str(g) == 'graph "empty": 0 nodes, 0 parameters'
    g.parameter("x", (0, 3), ab.bool_)
    assert str(g).splitlines()[1:] == ['#0 parameter "x" : bool[0,3]']


@pytest.mark.proves("S1-15")
def test_a_node_is_printed_by_label_then_op_then_as_a_leaf() -> None:
    x = ab.tensor(2.0, requires_grad=True)
    y = x * x
    z = y + x
    z.name = "z"
    order = z.backward()
    assert repr(order) == "<3 tensors: parameter, multiply, z>"
    assert repr(order[1].node).startswith("<#")
    assert " multiply:" in repr(order[1].node)


def test_repr_of_nodes() -> None:
    g = ab.Graph("demo")
    x = g.parameter("x", (3,), ab.float64)
    assert repr(x) == "<#0 parameter 'x': f64[3]>"
    assert repr(x + 1.0) == "<#1 add: f64[3]>"
    assert repr(g) == "<Graph 'demo': 2 nodes>"
