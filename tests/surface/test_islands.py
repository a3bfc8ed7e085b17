"""What runs in the reference inside programs of machine code is what the docs say."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from anabranch.core.registry import lookup

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("islands", ROOT / "scripts" / "islands.py")
assert SPEC is not None and SPEC.loader is not None
islands: Any = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(islands)


@pytest.mark.slow
def test_the_docs_list_the_calls_back_that_are_left() -> None:
    """`python scripts/islands.py` prints what belongs there."""
    assert islands.table() in (ROOT / "docs" / "native.md").read_text()


def test_calls_back_are_counted_with_their_reasons() -> None:
    found, count, whole = islands.islands([lookup("linalg.det"), lookup("real")])
    assert ("linalg.det", "LAPACK computes it, through NumPy") in found
    assert ("real", "complex128 has no machine code yet") in found
    assert {way for rows in found.values() for _, way, _ in rows} == {
        "value",
        "gradient by input 0",
    }
    assert 0 < whole < count
