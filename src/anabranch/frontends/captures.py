"""Where a function's captured values live: the names and containers reachable from it.

A compiled function reads the arrays it captured anew at each call. To notice that a name was bound
to another array, it remembers for each one a path from the function: closure cells, globals that
the code names, attributes, items.
"""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from anabranch.core.bind import NUMBERS
from anabranch.errors import is_library_file

_DEPTH = 6
_LIMIT = 5_000
_PLAIN = (str, bytes, *NUMBERS, np.generic)


class Reach(NamedTuple):
    """A value found from a function: how to name it, how to read it again, and what it was."""

    label: str
    read: Callable[[], Any]
    value: Any

    @property
    def is_same(self) -> bool:
        try:
            return self.read() is self.value
        except (LookupError, AttributeError, ValueError):
            return False


def reachable(function: Any, *more: Any) -> Iterator[Reach]:
    """Values that the function, or one of `more`, reaches by names, attributes and items.

    Of classes and modules only the attributes are followed that code on the way names. Layers of
    the library's own wrappers do not count as depth.
    """
    named: set[str] = set()
    seen: set[int] = set()
    pending = deque((Reach("", lambda root=root: root, root), 0) for root in (function, *more))  # type: ignore[misc]
    while pending and len(seen) < _LIMIT:
        reach, depth = pending.popleft()
        value = reach.value
        if isinstance(value, _PLAIN):
            continue
        yield reach  # also by a second name: each can be bound anew
        if id(value) in seen:
            continue
        seen.add(id(value))
        if depth < _DEPTH:
            if isinstance(value, types.FunctionType):
                named |= _global_names(value.__code__)
            deeper = depth + (not _is_library_function(value))
            pending.extend((child, deeper) for child in _children(reach, named))


def baked_numbers(function: Any) -> dict[str, Any]:
    """The Python numbers that user code reachable from the function names: fixed by a trace."""
    return {
        child.label: child.value
        for reach in reachable(function)
        if isinstance(reach.value, types.FunctionType) and not _is_library_function(reach.value)
        for child in _function_names(reach.value)
        if type(child.value) in NUMBERS
    }


def _is_library_function(value: Any) -> bool:
    code = getattr(value, "__code__", None)
    return code is not None and is_library_file(code.co_filename)


def _children(reach: Reach, named: set[str]) -> Iterator[Reach]:
    label, _, value = reach
    if isinstance(value, types.FunctionType):
        yield from _function_names(value)
    elif isinstance(value, types.MethodType):
        yield Reach("self", lambda: value.__self__, value.__self__)
        yield Reach(label, lambda: value.__func__, value.__func__)
    elif isinstance(value, functools.partial):
        yield Reach(label, lambda: value.func, value.func)
        yield from (_item(label, value.args, i) for i in range(len(value.args)))
        yield from (_item(label, value.keywords, key) for key in value.keywords)
    elif isinstance(value, dict):
        yield from (_item(label, value, key) for key in list(value)[:_LIMIT])
    elif isinstance(value, list | tuple):
        yield from (_item(label, value, i) for i in range(min(len(value), _LIMIT)))
    elif isinstance(value, type | types.ModuleType):
        names = named.intersection(vars(value))
        yield from (_attribute(label, value, name) for name in sorted(names))
    else:
        yield from (_attribute(label, value, name) for name in _attribute_names(value))
        if type(value).__module__ != "builtins":
            yield Reach(f"type({label})", lambda: type(value), type(value))


def _attribute_names(value: Any) -> Iterator[str]:
    yield from list(getattr(value, "__dict__", ()))
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        yield from (
            name for name in ([slots] if isinstance(slots, str) else slots) if hasattr(value, name)
        )


def _function_names(function: types.FunctionType) -> Iterator[Reach]:
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield Reach(name, lambda cell=cell: cell.cell_contents, cell.cell_contents)  # type: ignore[misc]
        except ValueError:  # a cell that is not filled yet
            continue
    for i, _ in enumerate(function.__defaults__ or ()):
        yield _item(function.__name__, function.__defaults__, i)
    if not is_library_file(code.co_filename):
        for name in sorted(_global_names(code)):
            if name in function.__globals__:
                yield _item("", function.__globals__, name)._replace(label=name)


def _global_names(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _global_names(constant)
    return names


def _item(label: str, container: Any, key: Any) -> Reach:
    return Reach(f"{label}[{key!r}]", lambda: container[key], container[key])


def _attribute(label: str, owner: Any, name: str) -> Reach:
    return Reach(f"{label}.{name}", lambda: getattr(owner, name), getattr(owner, name, None))
