"""check() recognises every kind of graph that the public calls cannot build."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import anabranch as ab
from anabranch.core.aval import aval_of
from anabranch.core.node import Output


def example() -> tuple[ab.Graph, list[Any]]:
    g = ab.Graph("demo")
    x = g.parameter("x", (2,), ab.float64)
    c = g.constant(np.ones(2))
    y = x * c
    z = y + x
    g.set_outputs([z])
    return g, [x, c, y, z]


def put(node: Any, field: str, value: Any) -> None:
    object.__setattr__(node, field, value)


def test_an_honest_graph_passes() -> None:
    g, _ = example()
    ab.check(g)


FAULTS: dict[str, tuple[Callable[[ab.Graph, list[Any]], object], str]] = {
    "a loop": (lambda g, n: put(n[2], "inputs", (n[3], n[1])), "form a circle"),
    "its own input": (lambda g, n: put(n[2], "inputs", (n[2], n[1])), "form a circle"),
    "a foreign input": (lambda g, n: put(n[2], "inputs", (example()[1][0], n[1])), "input 0 of #2"),
    "a wrong id": (lambda g, n: put(n[2], "id", 7), "has id 7"),
    "a swap": (lambda g, n: g.nodes.reverse(), "has id"),
    "no such output": (lambda g, n: put(n[2], "inputs", (Output(n[0], 1), n[1])), "does not have"),
    "a lost edge": (lambda g, n: put(n[3], "inputs", (n[2], n[2])), "one of its ends only"),
    "a lost reader": (lambda g, n: g._consumers.__setitem__(0, None), "one of its ends only"),
    "a wrong type": (lambda g, n: put(n[2], "avals", (aval_of(1.0),)), "its op infers"),
    "no parameter": (lambda g, n: g.parameters.clear(), "list of parameters"),
    "a stray parameter": (lambda g, n: g.parameters.append(n[2]), "list of parameters"),
    "a foreign output": (lambda g, n: setattr(g, "outputs", (example()[1][3],)), "output"),
    "another owner": (lambda g, n: put(n[1], "_graph", example()[0]._self), "another graph"),
    "a soft constant": (
        lambda g, n: n[1].attrs.update(value=np.ones(2)),
        "constant #1 can change",
    ),
    "shapes that do not fit": (lambda g, n: put(n[0], "avals", (aval_of(np.ones(3)),)), "#2"),
}


@pytest.mark.proves("S1-29", "S4-02")
@pytest.mark.parametrize("name", FAULTS)
def test_each_kind_of_illegal_graph_is_recognised(name: str) -> None:
    tamper, wanted = FAULTS[name]
    g, nodes = example()
    tamper(g, nodes)
    with pytest.raises(ab.errors.InternalError, match="illegal-graph") as caught:
        ab.check(g)
    assert any(wanted in fault for fault in caught.value.details["faults"])
    assert 'graph "demo"' in str(caught.value)


def test_a_graph_by_hand_checks_itself() -> None:
    g = ab.Graph("demo")
    x = g.parameter("x", (), ab.float64)
    y = x * x
    g.check()
    put(y, "id", 7)
    with pytest.raises(ab.InternalError, match="illegal-graph"):
        g.check()
