"""How our side is called: each feature is asked for here, so that no workload needs to know it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import anabranch as ab

OPTIONS = inspect.signature(ab.compile).parameters  # of the checkout that is measured


def compiled(function: Callable[..., Any], donate: str | None = None) -> Any:
    """Machine code for a function, which may write into the arrays of this argument."""
    given = {"donate": donate} if donate and "donate" in OPTIONS else {}
    return ab.compile(function, backend="native", **given)


def threads(count: int | None) -> None:
    """Use at most so many threads; None for as many as there are."""
    if count is not None and hasattr(ab, "set_num_threads"):
        ab.set_num_threads(count)


def raw(function: Any, *arguments: Any) -> Any:
    """The call without checks, on arrays that stay where they are: what to call, and its results.

    None if this checkout has none.
    """
    if not hasattr(function, "raw"):
        return None
    program = function.raw(*arguments)
    given, results = program.arrays()
    for array, value in zip(given, arguments, strict=True):
        array[...] = value
    return program.bind(given, results), results
