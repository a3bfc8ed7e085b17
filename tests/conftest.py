"""What every test shares: steady examples, and requirement ids that exist."""

import os
import tomllib
from pathlib import Path

import pytest
from hypothesis import settings

# One machine's luck must not decide a run, so examples are the same each time and nothing is timed.
# HYPOTHESIS_PROFILE=search looks for new ones.
settings.register_profile("fast", derandomize=True, deadline=None, database=None)
settings.register_profile("search", max_examples=2_000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

REQUIREMENTS = Path(__file__).with_name("requirements.toml")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that proves what nobody asked for has a slip in its id."""
    known = {row["id"] for row in tomllib.loads(REQUIREMENTS.read_text(encoding="utf-8"))["row"]}
    for item in items:
        for mark in item.iter_markers("proves"):
            if unknown := set(mark.args) - known:
                raise pytest.UsageError(
                    f"{item.nodeid} proves {', '.join(sorted(unknown))}, "
                    f"which {REQUIREMENTS.name} does not have"
                )
