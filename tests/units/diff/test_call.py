"""A graph as a node of another: values, derivatives, reuse."""

import numpy as np
import pytest

import anabranch as ab


def part() -> ab.Graph:
    g = ab.Graph("part")
    x, w = g.parameter("x", (3,), ab.float64), g.parameter("w", (3,), ab.float64)
    g.set_outputs([(ab.tanh(x * w) + x * x).sum()])
    return g


def twins() -> ab.Graph:
    """Two outputs; the second does not depend on w."""
    g = ab.Graph("twins")
    x, w = g.parameter("x", (3,), ab.float64), g.parameter("w", (3,), ab.float64)
    g.set_outputs([x * w, ab.sin(x)])
    return g


X, W = np.array([0.5, -1.0, 2.0]), np.array([1.5, 0.3, -0.7])


def plain(x, w):
    return (ab.tanh(x * w) + x * x).sum()


@pytest.mark.proves("S4-28")
def test_a_part_used_twice_is_two_nodes_and_its_own_are_built_once() -> None:
    encoder = part()
    before = len(encoder)
    g = ab.Graph("whole")
    x, w = g.parameter("x", (3,), ab.float64), g.parameter("w", (3,), ab.float64)
    total = encoder(x, w) + encoder(x * 2.0, w)
    assert [n.op.name for n in g.nodes if n.kind == "op"] == ["call", "multiply", "call", "add"]
    assert len(encoder) == before
    assert float(g.compile(total)(X, W)) == float(plain(X, W) + plain(X * 2.0, W))
    ab.check(g)


def test_it_computes_eagerly_records_and_traces() -> None:
    encoder = part()
    assert float(encoder(X, W)) == float(plain(X, W))
    x = ab.tensor(X, requires_grad=True)
    y = encoder(x, W)
    assert y.creator[0] == "call"
    y.backward()
    np.testing.assert_array_equal(x.grad, ab.grad(plain)(X, W))
    assert float(ab.compile(lambda x: encoder(x, W) * 2.0)(X)) == 2 * float(plain(X, W))


@pytest.mark.usefixtures("on_reference")
@pytest.mark.parametrize("argnum", [0, 1])
def test_derivatives_are_those_of_the_function_in_both_modes_and_at_second_order(
    argnum: int,
) -> None:
    f = part()
    t = np.array([1.0, -2.0, 0.5])

    def along(h):
        args = [X, W]
        return ab.jvp(lambda v: h(*args[:argnum], v, *args[argnum + 1 :]), (args[argnum],), (t,))

    def second(h):
        return ab.grad(lambda x, w: (ab.grad(h, argnum)(x, w) * t).sum(), argnum)(X, W)

    for way in (ab.grad, lambda h, n: ab.compile(ab.grad(h, n))):
        np.testing.assert_array_equal(way(f, argnum)(X, W), ab.grad(plain, argnum)(X, W))
    np.testing.assert_allclose(along(f), along(plain), rtol=1e-15)
    np.testing.assert_allclose(second(f), second(plain), rtol=1e-14)


def test_several_outputs_and_one_that_an_input_does_not_reach() -> None:
    f = twins()
    a, b = f(X, W)
    np.testing.assert_array_equal([a, b], [X * W, np.sin(X)])
    by_w = ab.grad(lambda w: (f(X, w)[0] * f(X, w)[1]).sum())(W)
    np.testing.assert_array_equal(by_w, X * np.sin(X))
    assert ab.grad(lambda w: f(X, w)[1].sum())(W).tolist() == [0.0, 0.0, 0.0]


def test_a_call_within_a_call() -> None:
    inner = part()
    outer = ab.Graph("outer")
    x = outer.parameter("x", (3,), ab.float64)
    outer.set_outputs([inner(x, ab.sin(x)) * 2.0])
    np.testing.assert_allclose(
        ab.grad(outer)(X), ab.grad(lambda x: plain(x, ab.sin(x)) * 2.0)(X), rtol=1e-15
    )


def test_what_was_built_does_not_change_with_the_part() -> None:
    f = part()
    g = ab.Graph("whole")
    x, w = g.parameter("x", (3,), ab.float64), g.parameter("w", (3,), ab.float64)
    y = f(x, w)
    f.set_outputs([f.nodes[2] * 0.0])
    assert float(g.compile(y)(X, W)) == float(plain(X, W))
    assert f(x, w).avals[0].shape == (3,)


def test_equal_parts_are_merged_and_others_are_not() -> None:
    one, same, other = part(), part(), part()
    other.set_outputs([other.outputs[0] * 2.0])
    g = ab.Graph("whole")
    x, w = g.parameter("x", (3,), ab.float64), g.parameter("w", (3,), ab.float64)
    run = g.compile(one(x, w) + same(x, w), other(x, w))
    assert [n.op.name for n in run.program.optimised.nodes].count("call") == 2
    first, second = run(X, W)
    assert first == second == 2 * float(plain(X, W))


def test_wrong_values_are_refused_by_the_parameters_name() -> None:
    f = part()
    with pytest.raises(ab.ArgumentError, match="argument-count"):
        f(X)
    with pytest.raises(ab.ShapeError, match='parameter "w"'):
        f(X, np.ones(2))
    with pytest.raises(ab.GraphError, match="no-outputs"):
        ab.Graph("empty")(X)


def test_a_log_inside_prints_at_each_run(capsys) -> None:
    g = ab.Graph("part")
    x = g.parameter("x", (), ab.float64)
    g.set_outputs([(x * x).log("inside") + 1.0])
    run = ab.compile(lambda v: g(v) * 2.0)
    assert [run(3.0), run(4.0)] == [20.0, 34.0]
    assert capsys.readouterr().out == "inside = 9.0\ninside = 16.0\n"


def test_a_tower_of_shared_calls_is_hashed_and_merged_in_linear_work() -> None:
    part = ab.Graph("0")
    x = part.parameter("x", (), ab.float64)
    part.set_outputs([x * 1.5])
    for level in range(1, 60):  # the last one stands for 2**59 multiplications
        outer = ab.Graph(str(level))
        x = outer.parameter("x", (), ab.float64)
        outer.set_outputs([part(x) - part(x * 1.0)])
        part = outer
    assert len(ab.structure_hash(part)) == 64
    assert [n.op.name for n in ab.passes.merge(part).graph.nodes].count("call") == 2


def test_passes_can_be_left_out_by_name() -> None:
    run = ab.compile(lambda x: x * x + x * x, without=["merge"])
    assert [n.op.name for n in run.graph(2.0).nodes].count("multiply") == 2
    with pytest.raises(ab.ArgumentError, match="unknown-pass"):
        ab.compile(lambda x: x, without=["nosuch"])(1.0)
