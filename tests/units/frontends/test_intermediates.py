"""Values in the middle: found by op, name, scope and line; derived by, and derived through."""

import inspect
import math

import numpy as np
import pytest

import anabranch as ab


def f1(x):
    return ab.sin(x)


def f2(z):
    return z * z


def f3(z):
    return ab.exp(z) + 1.0


def chain(x):
    return f3(f2(f1(x)))


def recorded():
    x = ab.tensor(0.5, requires_grad=True, name="x")
    return x, chain(x)


Z1 = math.sin(0.5)
DY_DZ1 = 2.0 * Z1 * math.exp(Z1**2)


@pytest.mark.proves("F-97")
def test_an_intermediate_of_a_function_left_as_it_is() -> None:
    x, y = recorded()
    [z1] = ab.find(y, op="sin")
    [z2] = ab.find(y, op=ab.find(y, op="multiply")[0].node.op)
    (by_z1,) = ab.gradients(y, [z1])
    assert float(by_z1) == pytest.approx(DY_DZ1, rel=1e-15)
    (moved,) = ab.tangents([z2], [z1], [3.0])
    assert float(moved) == pytest.approx(2.0 * Z1 * 3.0, rel=1e-15)
    assert x.grad is None and z1.grad is None
    by_both = ab.gradients(y, [z1, z2, x])
    assert float(by_both[2]) == pytest.approx(DY_DZ1 * math.cos(0.5), rel=1e-14)


@pytest.mark.proves("F-97")
def test_the_same_on_a_graph() -> None:
    g = ab.Graph("chain")
    y = chain(g.parameter("x", (), ab.float64))
    [z1], [z2] = ab.find(g, op="sin"), ab.find(g, op="multiply")
    (slope,), (moved,) = ab.gradients(y, [z1]), ab.tangents([z2], [z1], [3.0])
    found = g.compile(slope, moved)(0.5)
    assert [float(one) for one in found] == pytest.approx([DY_DZ1, 6.0 * Z1], rel=1e-15)


@pytest.mark.proves("F-97")
def test_the_same_through_compiled_and_traced_functions() -> None:
    line = inspect.getsourcelines(f1)[1] + 1
    x = ab.tensor(0.5, requires_grad=True)
    y = ab.compile(chain)(x)
    [z1] = ab.find(y, line=line)
    assert z1.node.op.name == "sin"
    assert float(ab.gradients(y, [z1])[0]) == pytest.approx(DY_DZ1, rel=1e-15)

    def slope(x):
        y = chain(x)
        return ab.gradients(y, ab.find(y, op="sin"))[0]

    assert float(ab.compile(slope)(0.5)) == pytest.approx(DY_DZ1, rel=1e-15)
    traced = ab.trace(chain, 0.5)
    (by_z1,) = ab.gradients(traced.outputs[0], ab.find(traced, op="sin"))
    assert by_z1.node.graph is traced


def test_found_by_source_line() -> None:
    _, y = recorded()
    line = inspect.getsourcelines(f2)[1] + 1
    assert [t.node.op.name for t in ab.find(y, line=line)] == ["multiply"]
    assert ab.find(y, line=f"test_intermediates.py:{line}") == ab.find(y, line=line)
    assert ab.find(y, line="other.py:1") == [] == ab.find(y, line=10**6)


def test_found_by_name_and_scope() -> None:
    g = ab.Graph("demo")
    x = g.parameter("x", (3,), ab.float64)
    with ab.scope("model"):
        with ab.scope("layer"):
            h = ab.tanh(x).named("h")
        y = ab.softmax(h)
    ab.exp(x)
    assert ab.find(g, name="h") == [h] and ab.find(g, name="x") == [x]
    assert ab.find(g, scope="model/layer") == [h]
    assert ab.find(g, scope="model/softmax", op="exp") == [ab.find(y, op="exp")[0]]
    assert len(ab.find(g, op="exp")) == 2 and len(ab.find(y, op="exp")) == 1
    assert ab.find(g, scope="mod") == [] and set(ab.find(g, scope="model")) < set(ab.find(g))
    assert [n.id for n in ab.find(g)] == list(range(len(g)))
    x = ab.tensor(1.0, requires_grad=True, name="x")
    assert ab.find(x * x, name="x") == [x]


@pytest.mark.parametrize("thing", [3.0, np.ones(2), None, chain])
def test_what_records_nothing_is_refused(thing: object) -> None:
    with pytest.raises(ab.errors.ArgumentError, match="not-a-tensor"):
        ab.find(thing)
    with pytest.raises(ab.errors.ArgumentError, match="not-a-tensor"):
        ab.tangents([thing], [ab.tensor(1.0, requires_grad=True)], [1.0])


def test_tangents_of_several_by_several() -> None:
    x, y = (ab.tensor(v, requires_grad=True) for v in ([1.0, 2.0], 3.0))
    h = x * y
    z = h.sum() * y
    assert [t.data.tolist() for t in ab.tangents([h, z], [x, y], [np.ones(2), 0.5])] == [
        [3.5, 4.0],
        3.5 * 3.0 + 4.0 * 3.0 + 9.0 * 0.5,
    ]
    # By h and x as variables of their own: x alone no longer moves h.
    moved = ab.tangents([z], [h, x], [np.zeros(2), np.ones(2)])
    assert float(moved[0]) == 0.0
    g = ab.Graph("demo")
    p = g.parameter("x", (2,), ab.float64)
    h = p * p
    (moved,) = ab.tangents([h.sum()], [p, h], [np.ones(2), np.array([1.0, 10.0])])
    assert float(g.compile(moved)(np.ones(2))) == 11.0


def test_tangents_match_gradients() -> None:
    x, w = (ab.tensor(v, requires_grad=True) for v in (np.arange(3.0), np.ones((2, 3))))
    z = ab.tanh(ab.matmul(w, x))
    t, ct = np.array([1.0, -1.0, 0.5]), np.array([0.3, 0.7])
    (moved,), (pulled,) = ab.tangents([z], [x], [t]), ab.gradients(z, [x], ct)
    assert (moved.data * ct).sum() == pytest.approx((pulled.data * t).sum(), rel=1e-14)


def test_recorded_tangents_have_derivatives() -> None:
    x = ab.tensor(2.0, requires_grad=True)
    (moved,) = ab.tangents([x * x * x], [x], [1.0], record=True)
    assert float(moved) == 12.0
    assert float(ab.gradients(moved, [x])[0]) == 12.0
    (plain,) = ab.tangents([x * x * x], [x], [1.0])
    assert not plain.requires_grad


def test_no_path_as_asked() -> None:
    x, y = ab.tensor(2.0, requires_grad=True), ab.tensor(3.0, requires_grad=True)
    z = y * 2.0
    assert float(ab.tangents([z], [x], [1.0])[0]) == 0.0
    assert ab.tangents([z], [x], [1.0], unused="none") == [None]
    with pytest.raises(ab.errors.NoGradientError, match="unused-argument"):
        ab.tangents([z], [x], [1.0], unused="raise")
    with pytest.raises(ab.errors.ShapeError, match="shape-mismatch"):
        ab.tangents([z], [y], [np.ones(2)])
    with pytest.raises(ab.errors.ArgumentError, match="container-mismatch"):
        ab.tangents([z], [y], [1.0, 2.0])


def test_a_value_of_a_graph_that_is_gone() -> None:
    node = ab.Graph("gone").parameter("x", (), ab.float64)
    for run in (lambda: ab.find(node), lambda: ab.tangents([node], [node], [1.0])):
        with pytest.raises(ab.errors.TraceError, match="ended-trace"):
            run()
