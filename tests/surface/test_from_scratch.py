"""`docs/from_scratch.py` runs, is short, and gives what the library gives."""

import ast
import importlib.util
import math
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import anabranch as ab

FILE = Path(__file__).parents[2] / "docs" / "from_scratch.py"


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("from_scratch", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["from_scratch"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


small = loaded()
EXAMPLES: dict[str, Callable[[Any, Any], Any]] = {
    "product and sum": lambda m, x: (x * 3.0 + x) * (x * 3.0 + x),
    "cube": lambda m, x: x * x * x,
    "all ops": lambda m, x: m.tanh(m.sin(x) * m.exp(-x)) / (2.0 - m.cos(x)) - 1.0 / x,
    "shared": lambda m, x: m.exp(m.sin(x)) * m.sin(x) + m.sin(x),
    "one path through a literal": lambda m, x: 5.0 * m.identity(x) + 0.0 * x,
}
POINTS = (0.7, 2.0, -1.3)
close = pytest.approx


def test_it_runs_and_prints_its_results(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(FILE), run_name="__main__")
    out = capsys.readouterr().out.splitlines()
    assert out[0].split() == ["eager", "64.0", "64.0", "32.0"]
    assert out[-3].split(maxsplit=1)[1] == "[8.0, 12.0, 12.0]"
    assert out[-2].split()[1] == "1.0"
    assert out[-1].split()[1] == "True"


def test_it_is_short() -> None:
    tree = ast.parse(FILE.read_text(encoding="utf-8"))
    lines = {
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt)
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    }
    assert len(lines) < 150
    assert len(FILE.read_text(encoding="utf-8").splitlines()) < 240


@pytest.mark.parametrize("x", POINTS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_values_and_three_orders_of_derivatives_are_the_librarys(name: str, x: float) -> None:
    f = EXAMPLES[name]
    mine, theirs = (lambda x: f(small, x)), (lambda x: f(ab, x))
    for _ in range(4):
        assert mine(x) == close(float(theirs(x)), rel=1e-12)
        mine, theirs = small.grad(mine), ab.grad(theirs)


@pytest.mark.parametrize("name", EXAMPLES)
def test_backward_and_graphs_give_what_the_librarys_give(name: str) -> None:
    f, x = EXAMPLES[name], 0.7
    a, b = small.Tensor(x), ab.tensor(x, requires_grad=True)
    f(small, a).backward()
    f(ab, b).backward()
    assert a.grad == close(float(b.grad), rel=1e-12)
    g, h = small.Graph("demo"), ab.Graph("demo")
    p, q = g.parameter("x"), h.parameter("x", (), ab.float64)
    y, z = f(small, p), f(ab, q)
    (dy,), (dz,) = small.gradients(y, [p]), ab.gradients(z, [q])
    value, slope = h.compile(z, dz)(x)
    assert g.run(y, x=x) == close(float(value), rel=1e-12)
    assert g.run(dy, x=x) == close(float(slope), rel=1e-12)


def test_its_listing_is_the_librarys() -> None:
    def build(g: Any, m: Any, a: Any, b: Any) -> str:
        _ = m.sin(a * b) / (1.0 + m.exp(a))
        return str(g)

    g, h = small.Graph("demo"), ab.Graph("demo")
    theirs = build(h, ab, *(h.parameter(n, (), ab.float64) for n in "ab"))
    assert build(g, small, *map(g.parameter, "ab")) == theirs


def test_derivatives_inside_derivatives_do_not_mix() -> None:
    for m in (small, ab):
        found = m.grad(lambda x, m=m: x * m.grad(lambda y: x * y)(2.0))(3.0)
        assert float(found) == 6.0  # d/dx x·x
        found = m.grad(lambda x, m=m: x * m.grad(lambda y: x + y)(x))(3.0)
        assert float(found) == 1.0  # d/dx x·1


def test_its_checker_finds_a_wrong_rule() -> None:
    wrong = small.Op("wrong", math.sin, (lambda y, x: -small.cos(x),))
    assert small.check(small.sin, 0.5) < 1e-9
    assert small.check(wrong, 0.5) > 1.0


def test_a_long_chain_needs_no_recursion() -> None:
    y = x = small.Tensor(1.0)
    for _ in range(20_000):
        y = y + 1.0
    y.backward()
    assert x.grad == 1.0
