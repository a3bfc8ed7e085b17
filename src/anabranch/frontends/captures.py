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

from anabranch.core.bind import NUMBERS
from anabranch.errors import is_library_file

_DEPTH = 6
_LIMIT = 5_000
_OPAQUE = (type, types.ModuleType, str, bytes, *NUMBERS)


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


def reachable(function: Any) -> Iterator[Reach]:
    """Values that the function can reach by names, attributes and items, nearest first."""
    seen: set[int] = set()
    pending = deque([(Reach("", lambda: function, function), 0)])
    while pending and len(seen) < _LIMIT:
        reach, depth = pending.popleft()
        if id(reach.value) in seen:
            continue
        seen.add(id(reach.value))
        if depth:
            yield reach
        if depth < _DEPTH and not isinstance(reach.value, _OPAQUE):
            pending.extend((child, depth + 1) for child in _children(reach))


def baked_numbers(function: Any) -> dict[str, Any]:
    """The Python numbers that user code reachable from the function names: fixed by a trace."""
    found = {}
    for reach in [Reach("", lambda: function, function), *reachable(function)]:
        if isinstance(reach.value, types.FunctionType):
            for child in _function_names(reach.value):
                if type(child.value) in NUMBERS:
                    found[child.label] = child.value
    return found


def _children(reach: Reach) -> Iterator[Reach]:
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
    else:
        for name in list(getattr(value, "__dict__", ())):
            yield _attribute(label, value, name)


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
