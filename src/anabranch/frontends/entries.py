"""Entries in machine code for what is called like a function, and the way past them."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from anabranch.backends.base import Call, Pattern
from anabranch.core.config import Options, options
from anabranch.core.entry import boundary
from anabranch.frontends.execution import Program


def graph_entry(
    name: str, program: Program, single: bool, slow: Callable[..., Any]
) -> Callable[..., Any] | None:
    """A function in machine code for a graph that was built by hand; None where there is none.

    It takes one argument for each parameter, and hands on to `slow` what it does not expect.
    """
    if options() != Options():
        return None
    result: Pattern = 0 if single else (list, list(range(program.gives)))
    arguments = list(range(program.takes))
    return program.executable.function(Call(name, arguments, {}, result, slow, converts=True))


def weakly(call: Callable[..., Any], owner: Any) -> Callable[..., Any]:
    """`call(owner, ...)` without holding the owner, which holds this."""
    found = weakref.ref(owner)

    @boundary  # a frame of the library more, which errors leave without
    def called(*args: Any, **kwargs: Any) -> Any:
        return call(found(), *args, **kwargs)

    return called
