"""The short way into a compiled function: machine code that checks arrays and runs the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.backends.base import Call, Pattern, Same
from anabranch.core.config import Options, options
from anabranch.core.values import ARRAYS
from anabranch.frontends.containers import unflatten
from anabranch.frontends.execution import Program
from anabranch.frontends.trace import Static, Trace

_NUMBERS = (float, int, bool)


def quick_entry(
    name: str,
    trace: Trace,
    program: Program,
    leaves: Sequence[Any],
    structure: Any,
    slow: Callable[..., Any],
) -> Callable[..., Any] | None:
    """A function in machine code that does what `slow` does, for arguments like these.

    None where there is none: the backend has none, an argument is no array or number, containers
    are others than tuples, lists and dicts, or a captured value is reached by more than names. It
    hands on to `slow` what it does not expect, and everything while `attention` is asked for.
    """
    bindings = [guard.bindings for guard in trace.guards]
    if options() != Options() or None in bindings:
        return None
    if not all(type(array) is np.ndarray for array in trace.captured):
        return None
    if not all(type(leaf) in _NUMBERS or isinstance(leaf, ARRAYS) for leaf in leaves):
        return None
    numbers = list(range(len(leaves)))
    args, named = unflatten(structure, numbers)
    outputs = [Same(one.value) if isinstance(one, Static) else one for one in trace.outputs]
    try:
        arguments = [_pattern(one) for one in args]
        by_name = {name: _pattern(one) for name, one in named.items()}
        result = _pattern(unflatten(trace.structure, outputs))
    except _UnknownError:
        return None
    distinct = {(id(b.holder), b.key): b for found in bindings for b in found or ()}
    wanted = slow, trace.captured, list(distinct.values())
    return program.executable.function(Call(name, arguments, by_name, result, *wanted))


class _UnknownError(Exception):
    """There is a container of which machine code knows nothing."""


def _pattern(held: Any) -> Pattern:
    """How numbers lie in containers."""
    if held is None:
        return Same(None)
    if type(held) in (int, Same):
        return held  # type: ignore[no-any-return]
    if type(held) is dict and all(type(key) in (str, int) for key in held):
        return dict, [(key, _pattern(part)) for key, part in held.items()]
    if type(held) in (tuple, list):
        return type(held), [_pattern(part) for part in held]
    raise _UnknownError
