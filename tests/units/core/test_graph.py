"""The graph: nodes are made through it, edges go both ways, and it only grows."""

import pickle
import weakref

import numpy as np
import pytest

import anabranch as ab
from anabranch.core.node import Literal, Node


def scalars(*names: str) -> tuple[ab.Graph, list[Node]]:
    g = ab.Graph("demo")
    return g, [g.parameter(name, (), ab.float64) for name in names]


@pytest.mark.proves("S0-01")
def test_a_plus_b_times_c() -> None:
    g, (a, b, c) = scalars("a", "b", "c")
    product = b * c
    total = a + product
    assert [n.op.name for n in g.nodes] == ["parameter"] * 3 + ["multiply", "add"]
    edges = [(e.node, n, slot) for n in g.nodes for slot, e in enumerate(n.inputs)]
    assert edges == [(b, product, 0), (c, product, 1), (a, total, 0), (product, total, 1)]
    assert float(g.compile(total)(1.0, 2.0, 3.0)) == 7.0


@pytest.mark.proves("S0-10", "S4-06")
def test_ids_count_the_nodes_in_order_of_creation() -> None:
    for _ in range(2):  # the second graph starts at 0 again
        g, (x, y) = scalars("x", "y")
        made = [x, y, x + y, ab.exp(x), g.constant(np.ones(2))]
        assert g.nodes == made
        assert [n.id for n in made] == [0, 1, 2, 3, 4]


@pytest.mark.proves("S4-06")
def test_a_graph_answers_for_its_name_backend_parameters_and_outputs() -> None:
    g = ab.Graph("mine", backend="reference")
    x = g.parameter("x", (), ab.float64)
    y = x + 1.0
    z = ab.sin(y)
    g.set_outputs([z, y])
    assert (g.name, g.backend, g.parameters, g.outputs) == ("mine", "reference", [x], (z, y))
    assert len(g) == g.version == 3
    assert list(g) == [x, y, z]


@pytest.mark.proves("S4-12", "S0-08")
def test_a_node_answers_for_what_it_is() -> None:
    g, (x,) = scalars("x")
    y = (x * 2.0).named("twice")
    z = y + y
    assert (x.kind, y.kind, g.constant(np.ones(1)).kind) == ("parameter", "op", "constant")
    assert (y.graph, y.op.name, y.inputs[0], y.id, y.name) == (g, "multiply", x, 1, "twice")
    assert (str(y.aval), y.shape, y.dtype) == ("f64[]", (), np.float64)
    assert y.consumers == ((z, 0), (z, 1))
    assert z.consumers == ()


@pytest.mark.proves("S0-09")
def test_the_kinds_that_a_first_model_needs() -> None:
    g = ab.Graph("demo")
    v = g.parameter("v", (2, 2), ab.float64)
    made = [g.constant(np.eye(2)), v, v + v, v - v, v * v, v / v, v @ v, ab.relu(v)]
    assert [n.kind for n in made] == ["constant", "parameter", *["op"] * 6]
    assert [n.op.name for n in made[2:7]] == ["add", "subtract", "multiply", "divide", "matmul"]
    assert made[7].scope == "relu"
    assert all(f"#{n.id} " in str(g) for n in made)
    assert all(made[i].op.samples for i in range(2, 8))


@pytest.mark.proves("S0-11", "S0-14")
def test_both_directions_agree_after_every_single_call() -> None:
    g, (x, y) = scalars("x", "y")
    steps = [
        lambda: x * x,
        lambda: x + y,
        lambda: ab.relu(x),
        lambda: g.add_node("maximum", [x, y]),
        lambda: ab.gradients(x * y * x, [x, y]),
    ]
    for step in steps:
        step()
        into = sorted((e.node.id, n.id, s) for n in g for s, e in enumerate(n.inputs)
                      if not isinstance(e, Literal))  # fmt: skip
        out = sorted((n.id, user.id, slot) for n in g for user, slot in n.consumers)
        assert into == out


@pytest.mark.proves("S0-11")
def test_asking_for_readers_looks_at_the_readers_only() -> None:
    g, (x,) = scalars("x")
    y = x + 1.0
    readers = [y * 2.0, y - 1.0]
    for _ in range(500):
        x = ab.exp(x)

    class Counted(list):
        looks = 0

        def __getitem__(self, index):
            Counted.looks += 1
            return super().__getitem__(index)

        def __iter__(self):
            raise AssertionError("a scan over all nodes")

    g.nodes = Counted(g.nodes)
    assert y.consumers == ((readers[0], 0), (readers[1], 0))
    assert Counted.looks == 2


@pytest.mark.proves("S1-07", "S1-08", "S0-11")
def test_a_node_used_twice_by_one_op_has_two_edges() -> None:
    _, (a,) = scalars("a")
    square = a * a
    assert square.inputs == (a, a)
    assert a.consumers == ((square, 0), (square, 1))


@pytest.mark.proves("S0-13")
def test_nodes_are_not_made_by_hand() -> None:
    for make in (Node, ab.Node, lambda: ab.Node("add", ())):
        with pytest.raises(ab.errors.GraphError, match="direct-node"):
            make()


@pytest.mark.proves("S0-13", "S4-03", "S1-29", "S4-02")
def test_the_structure_of_a_node_does_not_change() -> None:
    _, (x, y) = scalars("x", "y")
    z = x + y
    for field in Node.__slots__ + tuple(Node.__annotations__):
        if field == "name":
            continue
        with pytest.raises(ab.errors.GraphError, match="immutable-node") as caught:
            setattr(z, field, None)
        assert field in caught.value.sentence
    with pytest.raises(TypeError):
        z.inputs[0] = z
    assert z.inputs == (x, y)
    z.name = "sum"
    assert z.name == "sum"


@pytest.mark.proves("S4-05", "S4-13")
def test_nodes_of_two_graphs_do_not_meet() -> None:
    g, (x,) = scalars("x")
    h = ab.Graph("other")
    y = h.parameter("y", (), ab.float64)
    for mix in (lambda: x + y, lambda: y * x, lambda: g.add_node("add", [x, y])):
        with pytest.raises(ab.errors.GraphError, match="foreign-graph") as caught:
            mix()
        assert '"demo"' in caught.value.sentence
        assert '"other"' in caught.value.sentence
    assert [len(g), len(h)] == [1, 1]
    assert all(n.graph is g for n in g)
    assert all(n.graph is h for n in h)


@pytest.mark.proves("S0-12")
def test_dropping_a_graph_frees_its_nodes(no_collector: None) -> None:
    g, (x, y) = scalars("x", "y")
    z = ab.relu(x * y) + x
    g.compile(z)(1.0, 2.0)
    dead = [weakref.ref(n) for n in g] + [weakref.ref(g)]
    del g, x, y, z
    assert [d() for d in dead] == [None] * len(dead)


@pytest.mark.proves("S0-12")
def test_a_node_does_not_keep_its_graph(no_collector: None) -> None:
    g, (x,) = scalars("x")
    del g
    assert x.graph is None
    with pytest.raises(ab.errors.TraceError, match="ended-trace"):
        x + 1.0


@pytest.mark.proves("S4-10")
def test_each_call_appends_the_documented_number_of_nodes() -> None:
    g = ab.Graph("demo")
    x, v = g.parameter("x", (3, 1), ab.float64), g.parameter("v", (4,), ab.float64)
    for call, nodes in [
        (lambda: x + v, 1),  # broadcasting takes no node
        (lambda: x * 2.0, 1),  # nor does a number
        (lambda: x**2, 1),
        (lambda: x**3, 1),
        (lambda: x.sum(), 1),
        (lambda: v[1:], 1),
        (lambda: v[None], 2),  # a slice and a reshape
        (lambda: v.mean(), 2),  # a sum and a division
        (lambda: v + np.ones(4), 2),  # an array becomes a constant
        (lambda: g.constant(np.ones(4)), 1),
    ]:
        before = len(g)
        call()
        assert len(g) - before == nodes


def test_numbers_and_numpy_scalars_stand_inline() -> None:
    _, (x,) = scalars("x")
    weak, strong = x * 2.0, x * np.float32(2.0)
    assert isinstance(weak.inputs[1], Literal) and weak.inputs[1].aval.weak
    assert isinstance(strong.inputs[1], Literal) and not strong.inputs[1].aval.weak
    assert [repr(weak.inputs[1]), repr(strong.inputs[1])] == ["2.0", "float32(2.0)"]


def test_square_by_power_is_a_product_of_two_edges_and_other_powers_have_one() -> None:
    _, (x,) = scalars("x")
    assert [(x**2).op.name, (x**2).inputs] == ["multiply", (x, x)]
    assert [(x**3).op.name, (x**3).inputs] == ["integer_power", (x,)]
    assert ab.square(x).inputs == (x,)


@pytest.mark.proves("S4-14", "S4-04")
def test_no_array_hangs_on_a_node_that_has_run() -> None:
    g, (x,) = scalars("x")
    y = ab.exp(x)
    z = y * y
    run = g.compile(z)
    run(1.0)
    fields = {s for cls in Node.__mro__ for s in getattr(cls, "__slots__", ())} - {"__weakref__"}
    for node in (x, y, z):
        for field in fields:
            assert not isinstance(getattr(node, field), np.ndarray | np.generic)
        assert node.attrs == {}


@pytest.mark.proves("S4-04")
@pytest.mark.parametrize("name", ["data", "grad", "item", "numpy", "backward"])
def test_a_node_has_no_value_to_ask_for(name: str) -> None:
    _, (x,) = scalars("x")
    with pytest.raises(ab.errors.TraceError, match="not-executed"):
        getattr(x + 1.0, name)
    assert not hasattr(x, name)


def test_a_constant_is_a_frozen_copy() -> None:
    g = ab.Graph("demo")
    array = np.ones(2)
    node = g.constant(array, name="c")
    array[:] = 5.0
    assert node.attrs["value"].tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="read-only"):
        node.attrs["value"][0] = 2.0


def test_a_parameter_name_is_taken_once() -> None:
    g, _ = scalars("x")
    with pytest.raises(ab.errors.GraphError, match="duplicate-name") as caught:
        g.parameter("x", (), ab.float64)
    assert '"demo"' in caught.value.sentence and '"x"' in caught.value.sentence


def test_a_parameter_that_was_renamed_has_its_new_name_only() -> None:
    g, (x, _) = scalars("x", "y")
    x.named("z")
    g.parameter("x", (), ab.float64)
    for copy in (g, g.duplicate(), pickle.loads(pickle.dumps(g))):
        for name in ("x", "y", "z"):
            with pytest.raises(ab.errors.GraphError, match="duplicate-name"):
                copy.parameter(name, (), ab.float64)
        copy.parameter("w", (), ab.float64)
    with pytest.raises(ab.errors.GraphError, match="duplicate-name"):
        g.parameter("w", (), ab.float64)


def test_a_new_parameter_is_not_compared_with_each_of_the_others() -> None:
    looks = []

    class Name(str):
        def __hash__(self) -> int:
            looks.append("hash")
            return str.__hash__(self)

        def __eq__(self, other: object) -> bool:
            looks.append("equal")
            return str.__eq__(self, other)

    g = ab.Graph("many")
    for number in range(100):
        g.parameter(Name(f"p{number}"), (), ab.float64)
    assert len(looks) < 500


@pytest.mark.parametrize("shape", [(-1,), (2.5,), "ab", None])
def test_a_parameter_shape_is_made_of_counts(shape: object) -> None:
    with pytest.raises(ab.AnabranchError):
        ab.Graph("demo").parameter("x", shape, ab.float64)  # type: ignore[arg-type]


def test_scopes_nest_and_end() -> None:
    _, (x,) = scalars("x")
    with ab.scope("encoder"):
        a = x + 1.0
        with ab.scope("attention"):
            b = a * a
        with pytest.raises(ZeroDivisionError), ab.scope("broken"):
            raise ZeroDivisionError
        c = b + a
    d = c + 1.0
    assert [n.scope for n in (x, a, b, c, d)] == [
        "", "encoder", "encoder/attention", "encoder", "",
    ]  # fmt: skip


@pytest.mark.proves("S0-15")
def test_the_explicit_graph_offers_what_is_needed() -> None:
    g = ab.Graph("demo")
    x = g.parameter("x", (2, 2), ab.float64)
    c = g.constant(np.eye(2))
    total = g.add_node("sum", [ab.relu(x @ c)], axes=(0, 1), keepdims=False)
    (dx,) = ab.gradients(total, [x])
    assert [n.op.name for n in g.order([total])][:3] == ["parameter", "constant", "matmul"]
    value, slope = g.compile(total, dx)(np.array([[1.0, -1.0], [2.0, 3.0]]))
    assert float(value) == 6.0
    assert slope.tolist() == [[1.0, 0.0], [1.0, 1.0]]


@pytest.mark.parametrize(
    ("op", "operands", "attrs", "said"),
    [
        ("exp", lambda x: x, {}, r"bad-argument.*operands of exp are given as a list, not as Node"),
        ("exp", lambda x: np.ones(3), {}, r"bad-argument.*not as ndarray"),
        ("exp", lambda x: [x, x], {}, r"argument-count.*exp takes 1 operand, got 2"),
        ("add", lambda x: [x], {}, r"argument-count.*add takes 2 operands, got 1"),
        ("exp", lambda x: [x], {"out": 1}, r"no-such-argument.*exp: .*out.*it has no attrs"),
        ("sum", lambda x: [x], {"axis": 0}, r"no-such-argument.*its attrs are axes, keepdims"),
        ("sum", lambda x: [x], {"axes": (0,)}, r"no-such-argument.*keepdims"),
        ("sum", lambda x: [x], {"axes": (-1,), "keepdims": False}, r"bad-argument.*from the end"),
        ("sum", lambda x: [x], {"axes": (1,), "keepdims": True}, r"axis-out-of-range.*axis 1 does"),
        ("argmax", lambda x: [x], {"axis": -1, "keepdims": False}, r"bad-argument.*from the end"),
    ],
)
def test_operands_and_attrs_that_an_op_does_not_take_are_refused(op, operands, attrs, said):
    g = ab.Graph("g")
    x = g.parameter("x", (3,), ab.float64)
    with pytest.raises(ab.AnabranchError, match=said):
        g.add_node(op, operands(x), **attrs)
    assert len(g.nodes) == 1


def test_ops_of_any_number_of_operands_take_any():
    g = ab.Graph("g")
    x = g.parameter("x", (3,), ab.float64)
    assert g.add_node("concatenate", (x,) * 7, axis=0).shape == (21,)
    assert g.add_node("index_repeats", [np.array([1, 2])], lengths=3) is not None
