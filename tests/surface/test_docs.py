"""Every snippet in docs/ and every example in a docstring runs as printed."""

import doctest
import importlib
import pkgutil
from pathlib import Path

import numpy as np
import pytest

import anabranch as ab
from anabranch.core.registry import functions

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
FLAGS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
MODULES = sorted(
    name
    for _, name, _ in pkgutil.walk_packages(ab.__path__, "anabranch.")
    if not name.endswith("__main__")
)


@pytest.fixture(autouse=True)
def as_on_a_page():
    """Infinities and NaN are values that pages talk about."""
    with np.errstate(all="ignore"), np.printoptions(precision=8, suppress=False):
        yield


def run(test):
    report = []
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    runner.run(test, out=report.append)
    assert not runner.failures, "\n".join(report)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page(page):
    text = page.read_text(encoding="utf-8")
    # A fence would count as the last line of expected output.
    text = "\n".join("" if line.startswith("```") else line for line in text.splitlines())
    run(doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0))


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    module = importlib.import_module(name)
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, name):
        if test.examples:
            run(test)


@pytest.mark.parametrize("name", [n for n, f in functions().items() if ">>>" in (f.__doc__ or "")])
def test_examples_of_public_functions(name):
    """Ops and composed functions say that they are of `anabranch`, so no module owns them."""
    for test in doctest.DocTestFinder().find(functions()[name], name, module=False):
        run(test)


def test_examples_are_found():
    """The finder must see through the decorators of public functions."""
    module = importlib.import_module("anabranch.frontends.transforms")
    found = {test.name for test in doctest.DocTestFinder().find(module) if test.examples}
    assert {"anabranch.frontends.transforms.grad", "anabranch.frontends.transforms.vjp"} <= found
    assert ">>>" in functions()["relu"].__doc__


def test_a_wrong_line_is_noticed():
    test = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "page", "page", 0)
    with pytest.raises(AssertionError, match="Expected"):
        run(test)


def test_the_conventions_name_tests_that_exist():
    page = (ROOT / "docs" / "conventions.md").read_text(encoding="utf-8")
    tests = "".join(
        file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("test_*.py")
    )
    named = {word.strip("`(),.") for word in page.split() if word.startswith("`test_")}
    functions = {name for name in named if "[" not in name and not name.endswith(".py")}
    assert len(functions) > 15
    missing = {name for name in functions if f"def {name}(" not in tests}
    assert not missing
