"""Where a function's captured values live: the names and containers reachable from it.

A compiled function reads the arrays it captured anew at each call. To notice that a name was bound
to another array, it remembers for each one the path from the function: closure cells, globals that
the code names, attributes, items. A guard walks the path again at each call.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from anabranch.core.bind import NUMBERS
from anabranch.core.record import record
from anabranch.errors import is_library_file

_DEPTH = 6
_LIMIT = 5_000
_PLAIN = (str, bytes, *NUMBERS, np.generic)


class Binding(NamedTuple):
    """A name and what it must be bound to: in a closure's cell, or by `key` in a dict."""

    holder: Any
    key: str | None
    value: Any


@record(eq=False)
class Reach:
    """A value found from a function: how users write it, and how it follows from its parent.

    `binding` is the step as data, for the steps that are plain look-ups of names.
    """

    label: str
    value: Any
    parent: Reach | None = None
    step: Callable[[Any], Any] = lambda owner: owner
    binding: Binding | None = None

    def read(self) -> Any:
        """The value at this place now."""
        return self.value if self.parent is None else self.step(self.parent.read())

    @property
    def is_named_function(self) -> bool:
        """Whether this is a function of the user's that another one calls by its name."""
        return (
            isinstance(self.value, types.FunctionType)
            and self.parent is not None
            and isinstance(self.parent.value, types.FunctionType)
            and not (_is_library_function(self.value) or _is_library_function(self.parent.value))
        )

    @property
    def path(self) -> Iterator[Reach]:
        """This place and those that lead to it."""
        place: Reach | None = self
        while place is not None:
            yield place
            place = place.parent


@record
class Guard:
    """What must still hold when a compiled graph is used again, and what to say if it does not.

    `bindings` says the same as data, where look-ups of names can decide it.
    """

    reason: str
    holds: Callable[[], bool]
    bindings: tuple[Binding, ...] | None = None


def guards(reach: Reach) -> list[Guard]:
    """Guards for a captured value: it is still the same, and its containers have not grown."""
    kind = "array" if hasattr(reach.value, "dtype") else "function"
    reason = f"{reach.label} was bound to another {kind}"
    same = Guard(reason, lambda: _now(reach) is reach.value, _bindings(reach))
    return [same] + [
        _extent_guard(place) for place in reach.path if isinstance(place.value, dict | list | tuple)
    ]


def _bindings(reach: Reach) -> tuple[Binding, ...] | None:
    found = [place.binding for place in reach.path if place.parent is not None]
    return None if None in found else tuple(b for b in found if b is not None)


def _extent_guard(place: Reach) -> Guard:
    before = _extent(place.value)
    return Guard(f"{place.label} has other entries", lambda: _extent(_now(place)) == before)


def _now(reach: Reach) -> Any:
    try:
        return reach.read()
    except Exception:  # the path is gone, or an object on it answers in its own way
        return None


def _extent(container: Any) -> Any:
    if isinstance(container, dict):
        return list(container)
    return len(container) if isinstance(container, list | tuple) else None


def reachable(function: Any, *more: Any) -> Iterator[Reach]:
    """Values that the function, or one of `more`, reaches by names, attributes and items.

    Of classes and modules only the attributes are followed that code on the way names. Layers of
    the library's own wrappers do not count as depth.
    """
    named: set[str] = set()
    seen: set[int] = set()
    pending = deque((Reach("", root), 0) for root in (function, *more))
    while pending and len(seen) < _LIMIT:
        reach, depth = pending.popleft()
        value = reach.value
        yield reach  # also by a second name: each can be bound anew
        if id(value) in seen or isinstance(value, _PLAIN):
            continue
        seen.add(id(value))
        if depth < _DEPTH:
            if isinstance(value, types.FunctionType):
                named |= _global_names(value.__code__)
            deeper = depth + (not _is_library_function(value))
            pending.extend((child, deeper) for child in _children(reach, named))


def baked_numbers(places: Iterable[Reach]) -> dict[str, Any]:
    """The Python numbers among what user code reaches from a function: fixed by its trace."""
    return {
        reach.label: reach.value
        for reach in places
        if type(reach.value) in NUMBERS and not _is_the_librarys(reach)
    }


def _is_the_librarys(reach: Reach) -> bool:
    """Whether the code or object that holds this value is the library's own."""
    holder = next((p.value for p in reach.path if isinstance(p.value, types.FunctionType)), None)
    parent = None if reach.parent is None else reach.parent.value
    return _is_library_function(holder) or _is_library_object(parent)


def _is_library_object(value: Any) -> bool:
    return _is_library_function(value) or type(value).__module__.split(".")[0] == "anabranch"


def _is_library_function(value: Any) -> bool:
    """Whether this is a function of the library's or of NumPy's own."""
    if not isinstance(value, types.FunctionType):
        return False
    of_numpy = (value.__module__ or "").split(".")[0] == "numpy"
    return of_numpy or is_library_file(value.__code__.co_filename)


def _children(reach: Reach, named: set[str]) -> Iterator[Reach]:
    value, label = reach.value, reach.label
    if isinstance(value, types.FunctionType):
        yield from _function_names(reach)
    elif isinstance(value, types.MethodType):
        yield _attribute(reach, "__self__", "self")
        yield _attribute(reach, "__func__", label)
    elif isinstance(value, functools.partial):
        yield _attribute(reach, "func", label)
        yield _attribute(reach, "args", f"{label}.args")
        yield _attribute(reach, "keywords", f"{label}.keywords")
    elif isinstance(value, dict):
        yield from (_item(reach, key) for key in list(value)[:_LIMIT])
    elif isinstance(value, list | tuple):
        yield from (_item(reach, i) for i in range(min(len(value), _LIMIT)))
    elif isinstance(value, type | types.ModuleType):
        for name in sorted(named.intersection(vars(value))):
            yield _attribute(reach, name)
    elif not isinstance(value, np.ndarray):
        for name in _attribute_names(value):
            yield _attribute(reach, name)
        for cls in type(value).__mro__:  # an array of the class, until the object gets its own
            for name in sorted(named.intersection(cls.__dict__)):
                if hasattr(cls.__dict__[name], "dtype"):
                    yield _attribute(reach, name)
        if type(value).__module__ != "builtins":
            yield Reach(f"type({label})", type(value), reach, type)


def _attribute_names(value: Any) -> Iterator[str]:
    # Foreign classes may answer any name, or raise anything: only what is stored is looked at.
    with contextlib.suppress(Exception):
        yield from list(object.__getattribute__(value, "__dict__"))
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        names = [slots] if isinstance(slots, str) else slots
        yield from names


def _function_names(reach: Reach) -> Iterator[Reach]:
    function = reach.value
    code = function.__code__
    for i, (name, cell) in enumerate(
        zip(code.co_freevars, function.__closure__ or (), strict=True)
    ):
        try:
            content = cell.cell_contents
        except ValueError:  # a cell that is not filled yet
            continue
        binding = Binding(cell, None, content)
        yield Reach(name, content, reach, lambda f, i=i: f.__closure__[i].cell_contents, binding)  # type: ignore[misc]
    if function.__defaults__:
        yield _attribute(reach, "__defaults__", f"{function.__name__}.__defaults__")
    if not is_library_file(code.co_filename):
        for name in sorted(_global_names(code).intersection(function.__globals__)):
            content = function.__globals__[name]
            binding = Binding(function.__globals__, name, content)
            yield Reach(name, content, reach, lambda f, name=name: f.__globals__[name], binding)  # type: ignore[misc]


def _global_names(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _global_names(constant)
    return names


def _item(parent: Reach, key: Any) -> Reach:
    return Reach(f"{parent.label}[{key!r}]", parent.value[key], parent, lambda owner: owner[key])


def _attribute(parent: Reach, name: str, label: str | None = None) -> Reach:
    shown = f"{parent.label}.{name}" if label is None else label
    value = None
    with contextlib.suppress(Exception):
        value = getattr(parent.value, name)
    return Reach(shown, value, parent, lambda owner: getattr(owner, name))
