"""Nothing recurses: a chain of 100,000 nodes under a recursion limit of 1,000."""

import sys
import weakref

import pytest

import anabranch as ab

pytestmark = [
    pytest.mark.usefixtures("low_recursion_limit"),
    pytest.mark.proves("S0-20", "S1-54"),
]
DEPTH = 100_000


def eager_chain(depth: int = DEPTH) -> tuple[ab.Tensor, ab.Tensor, ab.Tensor]:
    x = ab.tensor(0.0, requires_grad=True)
    y = first = x + 1.0
    for _ in range(depth - 1):
        y = y + 1.0
    return x, first, y


def test_eager_forward_backward_and_drop(no_collector: None) -> None:
    x, first, y = eager_chain()
    assert sys.getrecursionlimit() == 1_000
    assert float(y) == DEPTH
    assert len(y.backward()) == DEPTH + 1
    assert float(x.grad) == 1.0
    dead = [weakref.ref(x), weakref.ref(first), weakref.ref(first.node), weakref.ref(y.node)]
    del x, first, y
    assert [d() for d in dead] == [None] * 4


@pytest.mark.slow
def test_freeing_a_long_program_during_backward(no_collector: None) -> None:
    x, first, y = eager_chain()
    dead = weakref.ref(first)
    del first
    y.backward(retain=False)
    assert float(x.grad) == 1.0
    assert dead() is None


@pytest.mark.slow
def test_the_recorded_graph_is_listed_hashed_checked_and_dropped(no_collector: None) -> None:
    _, _, y = eager_chain()
    g = ab.graph(y)
    del y
    assert str(g).count("\n") == DEPTH + 2
    assert len(ab.structure_hash(g)) == 64
    ab.check(g)
    assert float(g.compile(*g.outputs)(2.0)) == DEPTH + 2.0
    dead = [weakref.ref(node) for node in (g.nodes[0], g.nodes[DEPTH // 2], g.nodes[-1])]
    del g
    assert [d() for d in dead] == [None] * 3


@pytest.mark.slow
def test_a_graph_by_hand_and_its_gradient(no_collector: None) -> None:
    g = ab.Graph("chain")
    x = y = g.parameter("x", (), ab.float64)
    for _ in range(DEPTH):
        y = y + 1.0
    (dx,) = ab.gradients(y * x, [x])
    value, slope = g.compile(y, dx)(2.0)
    assert (float(value), float(slope)) == (DEPTH + 2.0, DEPTH + 4.0)
    dead = [weakref.ref(g), weakref.ref(y)]
    del g, x, y, dx
    assert [d() for d in dead] == [None] * 2


@pytest.mark.slow
def test_transforms_and_compiled_functions() -> None:
    def f(x):
        y = x
        for _ in range(DEPTH // 2):
            y = y + 1.0
        return y * x

    assert float(ab.grad(f)(2.0)) == DEPTH / 2 + 4.0
    assert float(ab.jvp(f, (2.0,), (1.0,))[1]) == DEPTH / 2 + 4.0
    assert float(ab.compile(ab.grad(f))(2.0)) == DEPTH / 2 + 4.0
