"""Imports point down the ladder, and `import anabranch` brings in only what it declares."""

import ast
import subprocess
import sys
from collections.abc import Container, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "anabranch"
PUBLIC = "anabranch"  # the package as its users see it: its __init__
BELOW_TESTING = {
    *("errors", "core", "ops", "composed", "diff", "passes"),
    *("backends", "backends.plan", "backends.base", "backends.reference", "backends.native"),
    *("frontends", "datasets", "linalg", "random", "xp"),
}
# room: the rooms that it may import from.  Its own modules are always allowed.
LADDER: dict[str, set[str]] = {
    "errors": set(),
    "contents": set(),
    "core": {"errors"},
    "ops": {"contents", "errors", "core"},
    "composed": {"contents", "errors", "core", "ops"},
    "diff": {"errors", "core", "ops"},
    "passes": {"errors", "core", "ops"},
    "backends.plan": {"core"},
    "backends.base": {"errors", "core", "backends.plan"},
    "backends.reference": {"errors", "core", "passes", "backends.base", "backends.plan"},
    "backends.native": {
        *("errors", "core", "ops", "passes"),
        *("backends.base", "backends.plan", "backends.reference"),
    },
    "backends": {"backends.base", "backends.reference"},  # its __init__ gathers them
    "frontends": {
        *("errors", "core", "ops", "composed", "diff", "passes"),
        *("backends", "backends.plan", "backends.base", "backends.reference", "backends.native"),
    },
    "testing": BELOW_TESTING | {PUBLIC},
    "inspection": BELOW_TESTING | {"testing"},
    "datasets": set(),
    "linalg": {"core", "composed"},  # a namespace of what they hold
    "random": {"core", "composed", "frontends"},  # a namespace of what they hold
    "cache": {"backends.native"},  # a namespace of what it tells
    "xp": {"frontends"},  # the same, under the names of the array API standard
    "demo": {PUBLIC},
    "commands": {PUBLIC, "errors", "core", "frontends", "inspection"},
    "cli": {PUBLIC, "demo", "commands"},
    "__main__": {"cli"},
    PUBLIC: BELOW_TESTING | {"cache", "testing", "inspection"},
}
REQUIRED = {"numpy", "ml_dtypes", "optree"}


class Import(NamedTuple):
    """One imported module, by its full name, and where it is written."""

    module: str
    line: int
    in_function: bool
    typing_only: bool


def name_of(file: Path) -> str:
    """anabranch.core.node for core/node.py, anabranch.core for core/__init__.py."""
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {name_of(file): file for file in sorted(PACKAGE.rglob("*.py"))}


def room_of(module: str) -> str:
    """The rung that a module stands on."""
    parts = module.split(".")[1:]
    if not parts:
        return PUBLIC
    return ".".join(parts[:2] if parts[0] == "backends" else parts[:1])


def imports_of(
    tree: ast.Module, module: str, is_package: bool, known: Container[str] = FILES
) -> Iterator[Import]:
    """Every import statement; a name that is itself a known module counts as that module."""
    pending: list[tuple[ast.AST, bool, bool]] = [(tree, False, False)]
    while pending:
        node, in_function, typing_only = pending.pop()
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, in_function, typing_only)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                above = parts[: len(parts) - node.level + is_package]
                base = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                target = inner if inner in known else base
                yield Import(target, node.lineno, in_function, typing_only)
        in_function |= isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        guarded = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for child in ast.iter_child_nodes(node):
            pending.append((child, in_function, typing_only or guarded))


@cache
def parsed(module: str) -> list[Import]:
    file = FILES[module]
    tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
    return list(imports_of(tree, module, file.name == "__init__.py"))


def ours(found: Import) -> bool:
    return found.module.split(".")[0] == PUBLIC


@pytest.mark.parametrize("module", FILES)
def test_imports_point_down_the_ladder(module):
    room = room_of(module)
    assert room in LADDER, f"{room} stands on no rung: give it one in LADDER"
    allowed = LADDER[room] | {room}
    wrong = [
        f"{module}:{found.line} imports {found.module}"
        for found in parsed(module)
        if ours(found) and room_of(found.module) not in allowed
    ]
    assert not wrong, f"{room} may import from {sorted(allowed)}"


def test_the_ladder_has_no_circle():
    below = {room: rooms - {PUBLIC} for room, rooms in LADDER.items()}
    assert list(TopologicalSorter(below).static_order())


def test_modules_import_each_other_in_no_circle():
    edges = {
        module: {found.module for found in parsed(module) if ours(found) and not found.typing_only}
        for module in FILES
    }
    try:
        assert list(TopologicalSorter(edges).static_order())
    except CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


@pytest.mark.parametrize("module", FILES)
def test_imports_in_functions_are_for_optional_libraries(module):
    wrong = [
        f"{module}:{found.line} imports {found.module}"
        for found in parsed(module)
        if found.in_function
        and (
            ours(found)
            or found.module.split(".")[0] in REQUIRED
            or found.module.split(".")[0] in sys.stdlib_module_names
        )
    ]
    assert not wrong


def test_the_package_brings_in_only_what_it_declares():
    # Modules without a spec were made by running code (Cython's helpers), not imported.
    program = """
import sys
before = set(sys.modules)
import anabranch
for name, module in list(sys.modules.items()):
    if name not in before and getattr(module, "__spec__", None) is not None:
        print(name.partition(".")[0])
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    loaded = set(ran.stdout.split()) - sys.stdlib_module_names - {PUBLIC}
    assert loaded - REQUIRED <= {"typing_extensions"}  # which optree needs
    assert not REQUIRED - loaded


def test_relative_imports_are_resolved_as_python_does():
    source = """
from . import aval
from .aval import Aval
from ..errors import ShapeError
import numpy as np
if TYPE_CHECKING:
    from .graph import Node
def late():
    import jax.numpy
"""
    found = imports_of(ast.parse(source), "anabranch.core.op", False, {"anabranch.core.aval"})
    found = sorted(found, key=lambda i: i.line)
    assert [(i.module, i.in_function, i.typing_only) for i in found] == [
        ("anabranch.core.aval", False, False),
        ("anabranch.core.aval", False, False),
        ("anabranch.errors", False, False),
        ("numpy", False, False),
        ("anabranch.core.graph", False, True),
        ("jax.numpy", True, False),
    ]
    package = list(imports_of(ast.parse("from .op import Op"), "anabranch.core", True))
    assert [i.module for i in package] == ["anabranch.core.op"]
