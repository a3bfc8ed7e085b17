"""What makes a public function of one that is made of ops alone."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from anabranch.core.bind import scope
from anabranch.core.registry import register_function

Function = Callable[..., Any]


def composed(function: Function) -> Function:
    """Make a public function of this one, named as it is, whose nodes carry its name as scope."""

    @functools.wraps(function)
    def scoped(*args: Any, **kwargs: Any) -> Any:
        with scope(function.__name__):
            return function(*args, **kwargs)

    scoped.__module__ = "anabranch"
    register_function(function.__name__, scoped)
    return scoped
