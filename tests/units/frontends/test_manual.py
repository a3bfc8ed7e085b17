"""Graphs by hand: compile for named outputs, run with checked arguments, grow, run again."""

import copy
from typing import Any

import numpy as np
import pytest

import anabranch as ab
from anabranch.core.graph import Graph as CoreGraph


def demo() -> tuple[ab.Graph, Any, Any]:
    g = ab.Graph("demo")
    return g, g.parameter("x", (), ab.float64), g.parameter("y", (), ab.float64)


@pytest.mark.proves("S4-21")
def test_three_plus_four() -> None:
    g, x, y = demo()
    run = g.compile(x + y)
    assert run(3.0, 4.0) == 7.0
    g, x, y = demo()
    assert g.compile(x - y)(3.0, 4.0) == -1.0
    assert g.compile(x - y)(y=4.0, x=3.0) == -1.0


@pytest.mark.proves("S4-22")
def test_compile_names_its_outputs() -> None:
    g, x, y = demo()
    other = ab.Graph("other").parameter("z", (), ab.float64)
    for outputs in ((), ([],)):
        with pytest.raises(ab.errors.GraphError, match="no-outputs"):
            g.compile(*outputs)
    kept = ab.Graph("kept")
    foreign = kept.parameter("z", (), ab.float64)
    with pytest.raises(ab.errors.GraphError, match="foreign-graph") as caught:
        g.compile(x, foreign)
    assert '"kept"' in caught.value.sentence and '"demo"' in caught.value.sentence
    with pytest.raises(ab.errors.TraceError, match="ended-trace"):
        g.compile(other)
    for nonsense in (3.0, "x", None, [x, 3.0], np.ones(2), ab.tensor(1.0)):
        with pytest.raises(ab.errors.GraphError, match="not-a-node"):
            g.compile(nonsense)
    assert g.compile(x * y)(3.0, 4.0) == 12.0


@pytest.mark.proves("S4-22")
def test_compile_twice_gives_two_executables_that_both_work() -> None:
    g, x, y = demo()
    total, both = g.compile(x + y), g.compile(x, x * y)
    assert total(3.0, 4.0) == 7.0
    assert [float(v) for v in both(3.0, 4.0)] == [3.0, 12.0]
    assert total(3.0, 4.0) == 7.0


def test_one_output_is_a_value_and_several_or_a_list_are_a_list() -> None:
    g, x, y = demo()
    assert isinstance(g.compile(x)(1.0, 2.0), np.float64)
    for outputs in ((x, y), ([x, y],), ((x, y),)):
        assert g.compile(*outputs)(1.0, 2.0) == [1.0, 2.0]
    assert g.compile([x])(1.0, 2.0) == [1.0]
    assert g.compile(x, x)(1.0, 2.0) == [1.0, 1.0]


@pytest.mark.parametrize("passes", [None, ()])
@pytest.mark.proves("S0-16")
def test_a_graph_that_has_run_can_grow_and_run_again(passes) -> None:
    g, x, y = demo()
    z = ab.sin(x) * y
    old = g.compile(z, passes=passes)
    before = old(0.3, 0.7)
    w = g.parameter("w", (), ab.float64)
    g.constant(np.ones(3))
    new = g.compile(z + w, passes=passes)
    assert new(0.3, 0.7, 1.0) == before + 1.0
    assert old(0.3, 0.7).tobytes() == before.tobytes()


@pytest.mark.proves("S0-17")
def test_the_order_is_settled_when_a_graph_is_compiled(monkeypatch) -> None:
    orders = []
    order = CoreGraph.order
    monkeypatch.setattr(CoreGraph, "order", lambda self, o: orders.append(1) or order(self, o))
    g, x, y = demo()
    run = g.compile(x * y + x)
    settled = len(orders)
    for _ in range(1_000):
        run(3.0, 4.0)
    assert len(orders) == settled > 0
    g.compile(x * y + y)
    assert len(orders) == 2 * settled


@pytest.mark.proves("S0-04")
def test_a_thousand_runs_build_nothing_and_give_the_same_bits() -> None:
    g, x, y = demo()
    z = ab.exp(x) * ab.sin(y)
    run = g.compile(z, *ab.gradients(z, [x, y]))
    version = g.version
    first = [v.tobytes() for v in run(0.3, 0.7)]
    for _ in range(1_000):
        assert [v.tobytes() for v in run(0.3, 0.7)] == first
    assert g.version == version


@pytest.mark.proves("S4-23", "S4-24")
@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        ((), "argument-count", "(images, step)"),
        ((np.ones((2, 3)),), "argument-count", "got 1"),
        ((np.ones((2, 3)), 1, 2), "argument-count", "got 3"),
        ((np.ones((3, 2)), 1), "argument-shape", '"images"'),
        ((np.ones((1, 3)), 1), "argument-shape", "f64[1,3]"),  # no broadcasting here
        ((1.0, 1), "argument-shape", '"images"'),
        ((np.ones((2, 3)), np.ones(1, np.int64)), "argument-shape", '"step"'),
        ((np.ones((2, 3), np.float32), 1), "argument-dtype", "f32[2,3]"),
        ((np.ones((2, 3)), 1.5), "argument-dtype", '"step"'),
        ((np.ones((2, 3)), np.float64(1.0)), "argument-dtype", '"step"'),
        ((np.ones((2, 3)), "1"), "bad-argument", '"step"'),
        ((np.ones((2, 3)), None), "bad-argument", '"step"'),
        ((None, 1), "bad-argument", '"images"'),
        (({}, 1), "bad-argument", '"images"'),
    ],
)
def test_wrong_arguments_are_named_before_anything_runs(arguments, code, part, spy) -> None:
    g = ab.Graph("demo")
    images = g.parameter("images", (2, 3), ab.float64)
    step = g.parameter("step", (), ab.int64)
    run = g.compile(spy(images, images), step + 1)
    with pytest.raises(ab.AnabranchError, match=code) as caught:
        run(*arguments)
    assert part in caught.value.sentence
    assert '"demo"' in caught.value.sentence
    assert spy.values == []
    assert caught.value.source.text == "run(*arguments)"
    if code != "argument-count":
        assert "was declared at test_manual.py:" in caught.value.facts[0]


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("i8", [1.5]), ("i8", [[1], [2, 3]]), ("u1", [-1]), ("u1", [300]), ("?", [2]), ("i8", ["1"]),
     ("f8", [1j]), ("i8", [True, None])],
)  # fmt: skip
def test_a_list_that_does_not_fit_is_refused_rather_than_bent(dtype: str, value: list) -> None:
    g = ab.Graph("demo")
    run = g.compile(g.parameter("x", (1,), dtype))
    with pytest.raises(ab.AnabranchError) as caught:
        run(value)
    assert '"x"' in caught.value.sentence


@pytest.mark.parametrize(("dtype", "value"), [("u1", -1), ("u1", 300), ("i8", 2**63), ("?", 2)])
def test_a_number_that_does_not_fit_is_refused(dtype: str, value: int) -> None:
    g = ab.Graph("demo")
    run = g.compile(g.parameter("x", (), dtype))
    with pytest.raises(ab.AnabranchError) as caught:
        run(value)
    assert '"x"' in caught.value.sentence


def test_numbers_lists_and_tensors_that_fit() -> None:
    g = ab.Graph("demo")
    x = g.parameter("x", (2,), ab.float32)
    s = g.parameter("s", (), ab.float32)
    run = g.compile(x * s)
    for argument in ([1, 2], (1.0, 2.0), np.array([1.0, 2.0], np.float32)):
        out = run(argument, 2)
        assert (out.tolist(), out.dtype) == ([2.0, 4.0], np.float32)
    out = run(ab.tensor([1.0, 2.0], dtype=ab.float32), True)
    assert type(out) is ab.Tensor and out.data.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((1.0,), {"x": 2.0}), ((), {"x": 1.0}), ((1.0, 2.0), {"y": 1.0}), ((1.0,), {"z": 2.0})],
)
def test_wrong_names_of_arguments(args, kwargs) -> None:
    g, x, y = demo()
    with pytest.raises(ab.errors.ArgumentError, match="argument-count"):
        g.compile(x + y)(*args, **kwargs)


def test_results_share_memory_with_nothing() -> None:
    g = ab.Graph("demo")
    x = g.parameter("x", (3,), ab.float64)
    c = g.constant(np.ones(3))
    run = g.compile(x, x.reshape(3), x[:2], c, x + c, x + c)
    argument = np.arange(3.0)
    results = run(argument)
    everything = [argument, c.attrs["value"], *results]
    for i, one in enumerate(everything):
        assert not any(np.shares_memory(one, other) for other in everything[i + 1 :])
    for out in results:
        out[...] = 9.0
    assert [r.tolist() for r in run(argument)][:2] == [[0.0, 1.0, 2.0]] * 2


@pytest.mark.proves("S4-25", "S4-27")
def test_a_part_stays_as_it_was_when_it_was_applied(capsys) -> None:
    part = ab.Graph("part")
    x = part.parameter("x", (), ab.float64)
    y = ab.sin(x)
    part.set_outputs([y])
    g = ab.Graph("whole")
    applied = part(g.parameter("z", (), ab.float64))
    part.set_outputs([x])
    y.log("late")
    assert g.compile(applied)(0.5) == np.sin(0.5)
    assert capsys.readouterr().out == ""


def test_names_branches_and_a_shared_part() -> None:
    def features(x):
        return ab.tanh(x * 2.0).named("features")

    def build(deep: bool) -> ab.Graph:
        g = ab.Graph("model")
        a, b = (g.parameter(n, (2,), ab.float64) for n in "ab")
        h = features(a) + features(b)
        g.set_outputs([(ab.exp(h) if deep else h).named("out")])
        return g

    deep, flat = build(True), build(False)
    assert ab.structure_hash(deep) != ab.structure_hash(flat)
    assert sum(node.name == "features" for node in flat) == 2
    assert '"features" = tanh(' in str(flat) and '"out" = ' in str(deep)
    one = np.ones(2)
    assert np.array_equal(deep.compile(*deep.outputs)(one, one),
                          np.exp(flat.compile(*flat.outputs)(one, one)))  # fmt: skip


@pytest.mark.proves("S4-34")
def test_only_what_the_outputs_need_is_computed(spy) -> None:
    g, x, y = demo()
    needed = spy(x, x)
    spy(y, y)
    assert g.compile(needed)(3.0, 4.0) == 9.0
    assert [tuple(map(float, v)) for v in spy.values] == [(3.0, 3.0)]


@pytest.mark.proves("S4-15")
def test_a_product_that_does_not_fit_fails_where_it_is_written(spy) -> None:
    g = ab.Graph("demo")
    a = g.parameter("a", (2, 3), ab.float64)
    b = g.parameter("b", (4, 5), ab.float64)
    with pytest.raises(ab.errors.ShapeError, match="shape-mismatch") as caught:
        a @ b
    assert caught.value.source.text == "a @ b"
    assert "got 3 and 4" in caught.value.sentence
    assert caught.value.facts[0].startswith("a: f64[2,3]")
    assert caught.value.facts[1].startswith("b: f64[4,5]")
    assert len(g) == 2


@pytest.mark.proves("S4-29")
@pytest.mark.parametrize(
    ("a", "b", "wanted"),
    [
        ((), (), ()), ((3,), (), (3,)), ((), (0,), (0,)), ((3,), (3,), (3,)), ((1,), (3,), (3,)),
        ((3, 1), (4,), (3, 4)), ((3, 1), (1, 4), (3, 4)), ((2, 3), (3,), (2, 3)),
        ((5, 1, 4), (3, 1), (5, 3, 4)), ((1, 1), (1,), (1, 1)), ((0, 3), (1, 3), (0, 3)),
        ((0, 1), (1, 0), (0, 0)), ((1,), (0,), (0,)), ((2, 4), (2,), None), ((2,), (3,), None),
        ((2, 1), (3, 3), None), ((0,), (2,), None), ((2, 3), (2, 4), None), ((3, 2), (3,), None),
        ((4, 1, 3), (2, 2, 3), None),
    ],
)  # fmt: skip
def test_elementwise_shapes(a, b, wanted) -> None:
    g = ab.Graph("demo")
    x, y = g.parameter("x", a, ab.float64), g.parameter("y", b, ab.float64)
    if wanted is None:
        with pytest.raises(ab.errors.ShapeError, match="shape-mismatch"):
            x * y
    else:
        assert (x * y).shape == wanted == np.broadcast_shapes(a, b)


@pytest.mark.proves("S4-30")
@pytest.mark.parametrize(
    ("a", "b", "wanted"),
    [
        ((2, 3), (3, 4), (2, 4)), ((3,), (3,), ()), ((2, 3), (3,), (2,)), ((3,), (3, 4), (4,)),
        ((5, 2, 3), (5, 3, 4), (5, 2, 4)), ((5, 1, 2, 3), (6, 3, 4), (5, 6, 2, 4)),
        ((1, 2, 3), (5, 3, 4), (5, 2, 4)), ((2, 0), (0, 3), (2, 3)), ((0, 3), (3, 4), (0, 4)),
        ((4, 2, 3), (3,), (4, 2)), ((), (3,), None), ((3,), (), None), ((2, 3), (4, 5), None),
        ((2, 3), (2, 3), None), ((3,), (4,), None), ((5, 2, 3), (4, 3, 2), None),
    ],
)  # fmt: skip
def test_product_shapes(a, b, wanted) -> None:
    g = ab.Graph("demo")
    x, y = g.parameter("x", a, ab.float64), g.parameter("y", b, ab.float64)
    if wanted is None:
        with pytest.raises(ab.errors.ShapeError, match="shape-mismatch"):
            x @ y
    else:
        assert (x @ y).shape == wanted == np.matmul(np.ones(a), np.ones(b)).shape


@pytest.mark.proves("S4-31")
@pytest.mark.parametrize("name", ["sum", "max", "mean", "min", "prod", "any", "all", "var", "std"])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, 1, -1, -3, (0, 2), (-1, 0), (1,), (), (0, 1, 2)])
def test_reduction_shapes(name: str, keepdims: bool, axis) -> None:
    g = ab.Graph("demo")
    x = g.parameter("x", (2, 3, 4), ab.float64)
    wanted = np.sum(np.ones((2, 3, 4)), axis=axis, keepdims=keepdims).shape
    assert getattr(x, name)(axis=axis, keepdims=keepdims).shape == wanted


@pytest.mark.parametrize("axis", [3, -4, (0, 0), (0, -3), 1.5, "a", (0, 5)])
def test_axes_that_do_not_exist(axis) -> None:
    x = ab.Graph("demo").parameter("x", (2, 3, 4), ab.float64)
    g = ab.Graph("demo")
    x = g.parameter("x", (2, 3, 4), ab.float64)
    for value in (x, ab.tensor(np.ones((2, 3, 4)))):
        with pytest.raises((ab.AnabranchError, TypeError)):
            value.sum(axis=axis)
    assert len(g) == 1


@pytest.mark.proves("S4-23")
def test_by_hand_derivatives_of_any_order() -> None:
    g = ab.Graph("demo")
    x = g.parameter("x", (), ab.float64)
    y = x**5
    derivatives = [y]
    for _ in range(5):
        derivatives += ab.gradients(derivatives[-1], [x])
    assert [float(v) for v in g.compile(derivatives)(2.0)] == [32, 80, 160, 240, 240, 120]
    ab.check(g)


@pytest.mark.proves("S0-27")
def test_no_rule_is_called_for_nodes_behind_a_stop(spy) -> None:
    g, x, _ = demo()
    z = spy(ab.stop_gradient(x) * 2.0, 3.0) + spy((x > 0.0).astype(float), 3.0) + x
    (dx,) = ab.gradients(z, [x])
    assert spy.rules == []
    assert float(g.compile(dx)(1.0, 2.0)) == 1.0


def test_gradients_of_nodes_say_what_is_missing() -> None:
    g, x, y = demo()
    z = ab.exp(x)
    (zero,) = ab.gradients(z, [y])
    assert float(g.compile(zero)(1.0, 2.0)) == 0.0
    assert ab.gradients(z, [y], unused="none") == [None]
    with pytest.raises(ab.errors.NoGradientError, match='"y"'):
        ab.gradients(z, [y], unused="raise")
    v = g.parameter("v", (2,), ab.float64)
    with pytest.raises(ab.errors.ShapeError, match="not-a-scalar"):
        ab.gradients(v * 2.0, [v])
    (with_ct,) = ab.gradients(v * 2.0, [v], ct=np.array([1.0, 10.0]))
    assert g.compile(with_ct)(0.0, 0.0, np.zeros(2)).tolist() == [2.0, 20.0]


def test_the_tangent_of_a_linear_op_is_the_op_itself() -> None:
    g = ab.Graph("demo")
    a, b, t = (g.parameter(name, (2, 2), ab.float64) for name in "abt")
    ab.jvp(lambda x: x @ b, (a,), (t,))
    assert [node.op.name for node in g if node.kind == "op"] == ["identity", "matmul", "matmul"]
    assert g.nodes[-1].inputs == (t, b)


def test_a_derivative_by_the_value_itself_is_a_node_too() -> None:
    g, x, _ = demo()
    (one,) = ab.gradients(x, [x])
    assert float(g.compile(one)(3.0, 4.0)) == 1.0


def test_bad_options_are_named() -> None:
    g, x, _ = demo()
    with pytest.raises(ab.errors.ArgumentError, match="unknown-backend"):
        g.compile(x, backend="abacus")
    with pytest.raises(ab.errors.ArgumentError, match="unknown-pass"):
        g.compile(x, passes=["polish"])


def test_parameters_that_nothing_reads_are_still_arguments() -> None:
    g, x, _ = demo()
    run = g.compile(x * 2.0)
    assert [p.name for p in run.parameters] == ["x", "y"]
    assert run(3.0, 0.0) == 6.0


def test_tensors_without_history_are_constants_and_others_are_refused() -> None:
    """So that a function may make tensors of its own and still be laid out by hand."""
    g = ab.Graph("demo")
    x = g.parameter("x", (2,), ab.float64)
    y = x * ab.ones(2) + ab.tensor([1.0, 2.0]) + ab.tensor(5.0)
    assert g.compile(y)(np.array([10.0, 20.0])).tolist() == [16.0, 27.0]
    for tracked in (ab.tensor([1.0, 2.0], requires_grad=True),):
        for value in (tracked, tracked * 2.0):
            with pytest.raises(ab.ArgumentError, match="bad-operand"):
                x + value


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy])
def test_copies_of_a_compiled_graph_compute_the_same(way) -> None:
    g = ab.Graph("by hand")
    run = g.compile(g.parameter("x", (2,), ab.float64) * 2.0)
    for _ in range(3):
        copied = way(run)
        assert copied(np.ones(2)).tolist() == run(np.ones(2)).tolist() == [2.0, 2.0]
        del copied
    assert run([1.0, 2.0]).tolist() == [2.0, 4.0]
