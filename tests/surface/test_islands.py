"""What runs in the reference inside programs of machine code is what the docs say."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("islands", ROOT / "scripts" / "islands.py")
islands: Any = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(islands)


@pytest.mark.slow
def test_the_docs_list_the_calls_back_that_are_left() -> None:
    """`python scripts/islands.py` prints what belongs there."""
    assert islands.table() in (ROOT / "docs" / "native.md").read_text()


def test_a_call_back_is_found() -> None:
    op = islands.ab.ops.lookup("linalg.inv") if hasattr(islands.ab, "ops") else None
    del op
