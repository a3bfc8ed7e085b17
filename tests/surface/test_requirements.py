"""The table of requirements is well formed, and tests name only what is in it."""

import ast
import importlib.util
import re
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "requirements.py"


def load():
    spec = importlib.util.spec_from_file_location("requirements_script", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


requirements = load()
ROWS = requirements.rows()


def test_ids_are_unique_and_sorted():
    ids = [row.id for row in ROWS]
    assert ids == sorted(set(ids), key=lambda one: (one.split("-")[0], int(one.split("-")[1])))


def test_a_row_says_what_must_hold_and_what_would_break_it():
    for row in ROWS:
        assert re.fullmatch(r"S[0-9]-[0-9]{2}|F-[0-9]{2,3}", row.id)
        assert row.text.strip(), row.id
        assert row.mutation.strip(), row.id


def test_tests_name_only_rows_that_exist():
    unknown = requirements.claims().keys() - {row.id for row in ROWS}
    assert not unknown


def test_a_claim_is_found_wherever_pytest_takes_a_mark():
    source = """
pytestmark = [pytest.mark.slow, pytest.mark.proves("A")]

@pytest.mark.proves("B", "C")
def test_one(): ...

@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.proves("D"))])
def test_two(x): ...
"""
    assert sorted(requirements.marks(ast.parse(source))) == [("A", 2), ("B", 4), ("C", 4), ("D", 7)]


def test_a_claim_that_cannot_be_read_is_refused():
    with pytest.raises(SyntaxError, match="written out"):
        list(requirements.marks(ast.parse("pytest.mark.proves(NAME)")))
