"""The short way into a compiled function: machine code that checks arrays and runs the program."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from anabranch.backends.base import Call
from anabranch.core.config import Options, options
from anabranch.frontends.execution import Program
from anabranch.frontends.trace import Trace


def quick_entry(
    name: str,
    trace: Trace,
    program: Program,
    leaves: Sequence[Any],
    structure: Any,
    slow: Callable[..., Any],
) -> Callable[..., Any] | None:
    """A function in machine code that does what `slow` does, for arguments like these.

    None where there is none: the backend has none, an argument is no array or number, the result
    holds more than tuples and lists, or a captured value is reached by more than names. It hands
    on to `slow` what it does not expect, and everything while `attention` is asked for.
    """
    bindings = [guard.bindings for guard in trace.guards]
    if options() != Options() or None in bindings:
        return None
    if not all(type(array) is np.ndarray for array in trace.captured):
        return None
    arguments, named = structure.children()
    if named.num_children or not _is_flat(arguments):
        return None
    if not all(type(leaf) is float or isinstance(leaf, np.ndarray | np.generic) for leaf in leaves):
        return None
    container = _container(trace)
    if container is None:
        return None
    distinct = {(id(b.holder), b.key): b for found in bindings for b in found or ()}
    call = Call(name, container, slow, trace.captured, list(distinct.values()))
    return program.executable.function(call)


def _is_flat(structure: Any) -> bool:
    return all(child.is_leaf() for child in structure.children())


def _container(trace: Trace) -> Any:
    """The result as tuples and lists of output numbers; None if it holds anything else."""
    numbers = list(range(len(trace.graph.outputs)))
    return _numbered(trace.structure, iter(numbers)) if trace.outputs == numbers else None


def _numbered(structure: Any, numbers: Iterator[int]) -> Any:
    if structure.is_leaf():
        return next(numbers)
    parts = [_numbered(child, numbers) for child in structure.children()]
    known = structure.type in (tuple, list) and None not in parts
    return (structure.type, parts) if known else None


def weakly(call: Callable[..., Any], owner: Any) -> Callable[..., Any]:
    """`call(owner, ...)` without holding the owner, which holds this."""
    found = weakref.ref(owner)

    def called(*args: Any, **kwargs: Any) -> Any:
        return call(found(), *args, **kwargs)

    return called
