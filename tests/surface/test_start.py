"""What is loaded when: the package at its import, a module when what it makes is asked for."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import anabranch as ab
from anabranch.contents import CONTENTS
from anabranch.core.leaves import LEAVES
from anabranch.core.registry import functions, registered_ops

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "anabranch"


def printed(program: str) -> list[str]:
    """The words that a new process prints."""
    ran = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    return ran.stdout.split()


def test_the_table_of_contents_is_what_the_records_say() -> None:
    ran = subprocess.run(
        [sys.executable, ROOT / "scripts" / "contents.py", "--print"],
        check=True,
        capture_output=True,
        text=True,
    )
    now = (PACKAGE / "contents.py").read_text(encoding="utf-8")
    assert ran.stdout == now, "python scripts/contents.py writes it"


def test_the_table_of_contents_leaves_nothing_out() -> None:
    named = [name for names in CONTENTS.values() for name in names.split()]
    assert len(named) == len(set(named))
    ours = [*functions(), *(op.name for op in registered_ops() if op not in LEAVES)]
    assert set(ours) == set(named)


def test_what_the_table_of_contents_does_not_know_is_found_all_the_same() -> None:
    program = """
import sys, types
sys.modules["anabranch.contents"] = empty = types.ModuleType("anabranch.contents")
empty.CONTENTS = {}
import anabranch as ab
x = ab.tensor(1.0, requires_grad=True)
print(ab.softmax.__name__, ab.linalg.solve.__name__, (x + 1.0).node.op.name)
"""
    assert printed(program) == ["softmax", "solve", "add"]


def test_a_function_is_loaded_with_its_module_when_it_is_asked_for() -> None:
    program = """
import sys
import anabranch as ab
assert "anabranch.composed.pooling" not in sys.modules and "avg_pool" not in vars(ab)
first = ab.avg_pool
assert "anabranch.composed.pooling" in sys.modules
assert ab.avg_pool is first is vars(ab)["avg_pool"]
import anabranch.composed
assert ab.composed.pooling is sys.modules["anabranch.composed.pooling"]
assert not hasattr(ab.composed, "nothing") and not hasattr(ab.ops, "nothing")
print(*(name for name in sys.modules if name.startswith("anabranch.ops.spectral")))
print(ab.ops.spectral.svd.name)
"""
    assert printed(program) == ["linalg.svd"]


def test_a_users_op_cannot_take_the_name_of_one_that_is_not_loaded() -> None:
    program = """
import sys
import anabranch as ab
assert "anabranch.ops.spectral" not in sys.modules
try:
    ab.Op("linalg.svd", aval=lambda x: x, ref=lambda x: x, doc="Mine.")
except ab.ArgumentError as error:
    print(error.code)
"""
    assert printed(program) == ["duplicate-op"]


def test_the_public_names_that_load_late_are_imported_for_type_checkers_too() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    (call,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) == "_late_names"
    )
    late = ast.literal_eval(call.args[1])
    (typing,) = (node for node in tree.body if isinstance(node, ast.If))
    shown = {}
    for node in typing.body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                is_module = node.module == "anabranch"
                shown[alias.asname] = f"anabranch.{alias.name}" if is_module else node.module
    assert late == shown
    assert set(late) <= set(dir(ab)) and set(late) <= set(ab.__all__)


def late_modules(file: Path) -> list[tuple[str, str]]:
    """The names and modules that a file loads late."""
    return [
        (node.targets[0].id, node.value.args[0].value)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) in ("LateModule", "_LateModule")
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value.args[0], ast.Constant)
    ]


@pytest.mark.parametrize(
    "file", [f for f in sorted(PACKAGE.rglob("*.py")) if late_modules(f)], ids=lambda f: f.stem
)
def test_a_module_that_loads_late_is_imported_for_type_checkers_too(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    shown = set()
    for guard in (node for node in tree.body if isinstance(node, ast.If)):
        for node in guard.body:
            if isinstance(node, ast.Import):
                shown |= {(alias.asname or alias.name, alias.name) for alias in node.names}
            if isinstance(node, ast.ImportFrom):
                shown |= {(a.asname or a.name, f"{node.module}.{a.name}") for a in node.names}
    late = {one for one in late_modules(file) if file != PACKAGE / "__init__.py"}
    assert late <= shown


def test_a_look_at_what_stands_for_a_module_does_not_load_it() -> None:
    program = """
import inspect, sys
from anabranch.core.late import LateModule
late = LateModule("colorsys")
assert inspect.unwrap(late) is late and not hasattr(late, "__wrapped__")
print(late)
assert "colorsys" not in sys.modules
print(late.hls_to_rgb.__name__, "colorsys" in sys.modules)
"""
    words = "<colorsys, loaded at its first use> hls_to_rgb True"
    assert printed(program) == words.split()


# What may be loaded. A name here costs everybody who imports the package, or starts a program
# whose code is on disk: whoever adds one has looked for a way without it.
AT_IMPORT = {
    "anabranch": "backends composed contents core diff errors frontends ops",
    "anabranch.backends": "base native reference",
    "anabranch.core": (
        "attention aval bind check config domain dtype entry graph guard identity late leaves"
        " locks node nonfinite once op operators packing places record registry replay"
        " sample source strictness text told values"
    ),
    "anabranch.diff": "call forward needs refusing region reverse rules",
    "anabranch.frontends": (
        "arguments captures compiled containers conversions donation eager engine entries"
        " evaluation execution libraries manual quick signatures stale static tensor trace"
        " transforms"
    ),
    "anabranch.ops": "elementwise layout places rules select",
}
NOT_AT_IMPORT = {
    *("hashlib", "importlib.resources", "json", "llvmlite", "pathlib", "pkgutil", "tempfile"),
}
NOT_AT_SECOND_START = {
    *("hashlib", "importlib.resources", "importlib.util", "llvmlite", "numpy.ma", "pathlib"),
    *("signal", "tempfile"),
}
AT_SECOND_START = {
    "anabranch.backends.native": (
        "calls code described disk executable layout loading machine methods modules pool results"
        " threads view"
    ),
    "anabranch.core": "digest spare",
    "anabranch.ops": "elementary logic powers reduce",
    "anabranch.passes": "restate",
    "anabranch": "passes",
}
LOADED = """
import sys
import numpy
before = set(sys.modules)
import anabranch as ab
PROGRAM
for name, module in list(sys.modules.items()):
    if name not in before and getattr(module, "__spec__", None) is not None:
        print(name)
"""


def full(modules: dict[str, str]) -> set[str]:
    return {f"{room}.{name}" for room, names in modules.items() for name in names.split()}


def ours(loaded: list[str]) -> set[str]:
    return {name for name in loaded if name.startswith("anabranch.")}


def test_importing_the_package_loads_what_every_program_needs_and_no_more() -> None:
    loaded = printed(LOADED.replace("PROGRAM", ""))
    assert ours(loaded) == full(AT_IMPORT)
    assert not NOT_AT_IMPORT & set(loaded)


def test_a_second_start_loads_nothing_that_writes_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setenv("ANABRANCH_CACHE_DIR", str(tmp_path))
    program = LOADED.replace(
        "PROGRAM",
        "f = lambda x, y: (ab.sum(x * y) + y) ** 2\n"
        "ab.compile(ab.value_and_grad(f, (0, 1)))(numpy.ones(20), 3.0)\n",
    )
    first, second = printed(program), printed(program)
    writers = {f"anabranch.backends.native.{name}" for name in ("program", "loops", "schedule")}
    assert writers <= ours(first)
    assert ours(second) - full(AT_IMPORT) == full(AT_SECOND_START)
    assert not NOT_AT_SECOND_START & set(second)


def test_threads_that_ask_at_the_same_time_all_get_whole_functions() -> None:
    program = """
import sys, threading
sys.setswitchinterval(1e-6)
import numpy as np
import anabranch as ab
x, wrong = np.eye(3) + 1.0, []
asks = [
    lambda: ab.linalg.svd(x), lambda: ab.tensor(x, requires_grad=True) @ x, lambda: ab.cumsum(x),
    lambda: ab.linalg.norm(x), lambda: ab.grad(lambda v: ab.sum(ab.softmax(v)))(x),
    lambda: ab.sort(x), lambda: ab.compile(ab.gelu)(x), lambda: ab.erf(x),
]
start = threading.Barrier(len(asks))
def run(ask):
    start.wait()
    try:
        ask()
    except BaseException as error:
        wrong.append(error)
threads = [threading.Thread(target=run, args=(ask,)) for ask in asks]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(*map(repr, wrong))
"""
    assert printed(program) == []


def test_a_function_is_seen_by_others_once_its_module_is_whole(tmp_path: Path) -> None:
    (tmp_path / "half_way.py").write_text(
        "import time\n"
        "from anabranch.core.registry import register_function\n"
        "def slowly(): return DEFINED_LATER\n"
        "register_function('slowly', slowly)\n"
        "print('entered', flush=True)\n"
        "time.sleep(0.2)\n"
        "DEFINED_LATER = 'whole'\n"
    )
    program = f"""
import sys, threading
sys.path.insert(0, {str(tmp_path)!r})
import anabranch
from anabranch.core.late import Modules
from anabranch.core.registry import expect, functions
expect({{"half_way": "slowly"}}, Modules("anabranch.ops", []))
first = threading.Thread(target=lambda: __import__("half_way"))
first.start()
while not hasattr(sys.modules.get("half_way"), "slowly"):
    pass
print(functions()["slowly"]())
first.join()
"""
    assert printed(program) == ["entered", "whole"]


@pytest.mark.parametrize("first", ["", "ab.einsum, ab.linalg.svd", "ab.linalg.svd, ab.mean"])
def test_the_order_of_names_does_not_depend_on_what_was_loaded_first(first: str) -> None:
    program = f"""
import anabranch as ab
{first}
from anabranch.core.registry import functions, registered_ops
print(*functions(), *(op.name for op in registered_ops()))
"""
    assert printed(program) == [*functions(), *(op.name for op in registered_ops())]
