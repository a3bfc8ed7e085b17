"""What makes a public function of one that is made of ops alone."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from anabranch.core.bind import on_value, scope
from anabranch.core.registry import register_function

Function = Callable[..., Any]


def composed(function: Function, namespace: str = "") -> Function:
    """Make a public function of this one, named as it is, whose nodes carry its name as scope.

    In the namespace `linalg` a function `norm` is `ab.linalg.norm`, and its scope `linalg.norm`.
    """
    name = f"{namespace}.{function.__name__}" if namespace else function.__name__

    @functools.wraps(function)
    def scoped(*args: Any, **kwargs: Any) -> Any:
        with scope(name):
            return on_value(function, args, kwargs)

    scoped.__module__ = f"anabranch.{namespace}" if namespace else "anabranch"
    register_function(name, scoped)
    return scoped
