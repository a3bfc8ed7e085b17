"""How our side is called: each feature is asked for here, so that no workload needs to know it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import anabranch as ab

OPTIONS = inspect.signature(ab.compile).parameters


def compiled(function: Callable[..., Any], donate: tuple[int, ...] = ()) -> Any:
    """Machine code for a function, whose arguments at these places may be written into."""
    options: dict[str, Any] = {"backend": "native"}
    if donate and "donate" in OPTIONS:
        options["donate"] = donate
    return ab.compile(function, **options)


def threads(count: int) -> None:
    """Use at most so many threads."""
    if hasattr(ab, "set_num_threads"):
        ab.set_num_threads(count)


def raw(function: Any, *arguments: Any) -> Any:
    """The call without any checks, as a pair: what to call, and the results that it fills."""
    if not hasattr(function, "raw"):
        return None
    return function.raw(*arguments)
