"""The public namespace: gathered from the records, documented, and in step with the operators."""

import ast
import inspect
import subprocess
import sys
from operator import attrgetter
from pathlib import Path

import pytest

import anabranch as ab
from anabranch.core import operators
from anabranch.core.registry import functions, registered_ops

PUBLIC = sorted(name for name in dir(ab) if not name.startswith("_"))
SUBPACKAGES = {
    path.stem for path in Path(ab.__file__).parent.iterdir() if path.suffix in ("", ".py")
}


def test_every_op_and_composed_function_is_public_under_its_own_name() -> None:
    for op in registered_ops():
        if op.arity != 0:
            function = attrgetter(op.name)(ab)
            room, _, last = op.name.rpartition(".")
            assert (function.__name__, function.__doc__) == (last, op.doc)
            assert function.__module__ == f"anabranch.{room}".rstrip(".")
    assert all(callable(attrgetter(name)(ab)) for name in functions())


@pytest.mark.parametrize(
    "name", sorted({*functions(), *(n for n in PUBLIC if callable(getattr(ab, n)))})
)
def test_every_public_name_says_what_it_is(name: str) -> None:
    assert inspect.getdoc(attrgetter(name)(ab))


@pytest.mark.proves("S0-42")
def test_the_source_of_every_rule_can_be_read() -> None:
    for op in registered_ops():
        for rule in (op.aval, op.ref, *(r for r in map(op.gradient, range(op.inputs)))):
            if callable(rule) and getattr(rule, "__module__", "").startswith("anabranch"):
                assert inspect.getsource(rule)


def test_operators_name_functions_that_exist() -> None:
    tree = ast.parse(Path(operators.__file__).read_text(encoding="utf-8"))
    named = {
        call.args[0].value
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id in ("_binary", "_reflected", "_call")
        and isinstance(call.args[0], ast.Constant)
    }
    assert len(named) > 15
    assert named <= set(functions())


def test_type_checkers_see_no_private_helper_among_the_public_names() -> None:
    shown = {n for n in PUBLIC if inspect.ismodule(getattr(ab, n))}
    assert shown <= SUBPACKAGES


def test_names_that_load_late_are_public_like_the_others() -> None:
    program = """
import sys
import anabranch as ab
late = {"inspect", "why", "Report", "check_gradients", "testing"}
assert not late & set(vars(ab))
assert late <= set(dir(ab)) and late <= set(ab.__all__)
rooms = ("anabranch.inspection", "anabranch.testing")
loaded = [name for name in sys.modules if name.startswith(rooms)]
assert not loaded, loaded
from anabranch import *
assert Report is ab.Report and inspect is ab.inspect is vars(ab)["inspect"]
x = ab.tensor(3.0, requires_grad=True, name="x")
assert isinstance(inspect(x * x), Report)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_name_that_is_nowhere_is_told_as_python_tells_it() -> None:
    with pytest.raises(AttributeError, match="module 'anabranch' has no attribute 'inspekt'") as e:
        ab.inspekt
    assert e.value.name == "inspekt" and e.value.obj is ab
    assert not hasattr(ab, "inspekt")
