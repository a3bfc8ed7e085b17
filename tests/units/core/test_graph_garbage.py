"""Large graphs are built without searches for garbage, which they have none of."""

import gc

import numpy as np
import pytest

import anabranch as ab
from anabranch.core.graph import LARGE, uncollected


@pytest.fixture
def searches():
    """How many there were so far."""
    found = []
    gc.callbacks.append(note := lambda phase, _: found.append(phase) if phase == "start" else None)
    yield found
    gc.callbacks.remove(note)


def test_it_is_on_again_behind_the_block_whatever_happens_there() -> None:
    assert gc.isenabled()
    with uncollected(LARGE):
        assert not gc.isenabled()
        with uncollected(LARGE):
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), uncollected(LARGE):
        1 / 0
    assert gc.isenabled()


def test_who_has_switched_it_off_keeps_it_off() -> None:
    gc.disable()
    try:
        with uncollected(LARGE):
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_small_graphs_do_not_touch_it() -> None:
    with uncollected(LARGE - 1):
        assert gc.isenabled()


def test_a_large_graph_is_compiled_without_a_search(searches) -> None:
    def f(x):
        for _ in range(3_000):
            x = ab.sin(x) * 0.5
        return x

    graph = ab.trace(f, np.float64(0.5))
    gc.collect()
    x = np.float64(0.5)
    before = len(searches)
    run = graph.compile(*graph.outputs)
    during = len(searches) - before
    assert gc.isenabled()
    assert during <= 2  # before it begins and when it has ended
    assert run(x) == pytest.approx(0.0, abs=1e-9)


def test_it_is_on_while_a_users_function_is_traced() -> None:
    seen = []

    def f(x):
        for _ in range(2 * LARGE):
            x = x + 1.0
        seen.append(gc.isenabled())
        return x

    ab.compile(ab.value_and_grad(f))(1.0)
    assert seen == [True]
