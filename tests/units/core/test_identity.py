"""The structure hash: what changes it, what does not, and that every process agrees."""

import os
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

import anabranch as ab
from anabranch.core.identity import value_key
from anabranch.core.registry import temporary_ops


def of(build: Callable[[ab.Graph, ab.Node], object], shape=(2,), dtype=ab.float64) -> str:
    g = ab.Graph("demo")
    x = g.parameter("x", shape, dtype)
    out = build(g, x)
    g.set_outputs(out if isinstance(out, list) else [out])
    return ab.structure_hash(g)


SAME = of(lambda g, x: x * 2.0)


@pytest.mark.proves("S4-27")
@pytest.mark.parametrize(
    "build",
    [
        lambda g, x: x * 3.0,
        lambda g, x: x * 2,
        lambda g, x: x * True,
        lambda g, x: x * np.float64(2.0),
        lambda g, x: x * np.full(2, 2.0),
        lambda g, x: 2.0 * x,
        lambda g, x: x / 2.0,
        lambda g, x: x * x,
        lambda g, x: [x * 2.0, x],
        lambda g, x: [x, x * 2.0],
        lambda g, x: [x * 2.0, x * 2.0],
    ],
)
def test_another_program_has_another_hash(build: Callable[[ab.Graph, ab.Node], object]) -> None:
    assert of(build) != SAME


def test_shape_and_dtype_of_a_parameter_count() -> None:
    assert len({SAME, of(lambda g, x: x * 2.0, (3,)), of(lambda g, x: x * 2.0, (2,), "f4"),
                of(lambda g, x: x * 2.0, (2, 1))}) == 4  # fmt: skip


@pytest.mark.parametrize(
    ("a", "b"), [(1, 1.0), (1, True), (1.0, True), (0.0, -0.0), (1.0, 1.0 + 2**-52)]
)
def test_literals_count_by_type_and_bits(a: object, b: object) -> None:
    assert of(lambda g, x: x + a) != of(lambda g, x: x + b)
    assert value_key(a) != value_key(b)


def test_constants_count_by_bits_dtype_and_shape() -> None:
    arrays = [np.array([0.0]), np.array([-0.0]), np.array([0]), np.array([[0.0]]), np.array([0j])]
    assert len({of(lambda g, x, a=a: g.constant(a)) for a in arrays}) == len(arrays)
    ordered = np.arange(6.0).reshape(2, 3)
    assert value_key(ordered) == value_key(np.asfortranarray(ordered))
    assert value_key(ordered) != value_key(ordered.T)


def test_attrs_count() -> None:
    assert len({of(lambda g, x, n=n: x**n) for n in (3, 4)}) == 2
    assert len({of(lambda g, x, k=k: x.sum(keepdims=k)) for k in (True, False)}) == 2
    with temporary_ops():
        op = ab.elementwise("attr", lambda x, *, a: x, partials=(1,), doc="For a test.")
        given = [1, 1.0, True, "1", (1,), [1], None, np.float64(1.0), slice(1, 2)]
        assert len({of(lambda g, x, a=a: g.add_node(op, [x], a=a)) for a in given}) == len(given)


@pytest.mark.proves("S4-09")
def test_names_scopes_lines_and_the_graphs_name_do_not_count() -> None:
    g = ab.Graph("another name")
    x = g.parameter("weights", (2,), ab.float64)
    with ab.scope("elsewhere"):
        y = (x * 2.0).named("doubled")
    y.log("printed")
    g.set_outputs([y])
    assert ab.structure_hash(g) == SAME


PROGRAM = """
import numpy as np, anabranch as ab
g = ab.Graph("any")
x = g.parameter("x", (2,), ab.float64)
y = ab.where(x > 0.5, x, np.array([0.25, -0.0])).astype(ab.float32)[::-1].sum() * 3.0
g.set_outputs([y, *ab.gradients(y.astype(ab.float64), [x])])
print(ab.structure_hash(g))
"""


@pytest.mark.slow
def test_every_process_agrees() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
    assert len(found.pop().strip()) == 64


@pytest.mark.proves("S4-27")
def test_a_python_if_on_a_setting_builds_two_structures() -> None:
    def model(x, deep: bool):
        h = ab.tanh(x)
        return ab.tanh(h) if deep else h

    hashes = {ab.structure_hash(ab.trace(lambda x, d=deep: model(x, d), np.ones(2)))
              for deep in (True, False)}  # fmt: skip
    assert len(hashes) == 2
