"""Where a function's captured values live: the names and containers reachable from it.

A compiled function reads the arrays it captured anew at each call. To notice that a name was bound
to another array, it remembers for each one the path from the function: closure cells, globals that
the code names, attributes, items. A guard walks the path again at each call.
"""

from __future__ import annotations

import contextlib
import functools
import opcode
import types
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from anabranch.core.bind import NUMBERS
from anabranch.core.record import record
from anabranch.frontends.libraries import Libraries

_DEPTH = 10
_LIMIT = 5_000
_PLAIN = (str, bytes, *NUMBERS, np.generic)
_WRITTEN = 64  # entries of a container that somebody has written out, not collected
_DEFAULTS = ("__defaults__", "__kwdefaults__")
_OWN = {"__self__", "__func__", *_DEFAULTS, "fget", "func", "args", "keywords"}
_GONE = object()  # what a look gives that fails
_CONTAINERS = (dict, list, tuple)
_ENDS = (np.ndarray, *_PLAIN)  # nothing is reached through these
_UNNAMED = (types.FunctionType, types.MethodType, np.ndarray, *_CONTAINERS)
_GLOBAL, _EXTENDED = opcode.opmap["LOAD_GLOBAL"], opcode.EXTENDED_ARG


class Binding(NamedTuple):
    """A step as data: what one look at `holder` must give; the looks are those of a `Call`."""

    look: str
    holder: Any
    key: Any
    value: Any


@record(eq=False)
class Reach:
    """A value found from a function: how users write it, and how it follows from its parent.

    `binding` is the step as data; only that of a function itself, which no step leads to, is None.
    """

    label: str
    value: Any
    parent: Reach | None = None
    step: Callable[[Any], Any] = lambda owner: owner
    binding: Binding | None = None

    @property
    def is_global(self) -> bool:
        """Whether code finds this by the name of a global."""
        return self.binding is not None and self.binding.look == "name"

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

    `bindings` says the same as data; None if no looks can say it.
    """

    reason: str
    holds: Callable[[], bool]
    bindings: tuple[Binding, ...] | None


def guards(reach: Reach) -> list[Guard]:
    """Guards for a value: it is still the same, and the containers it lies in have not grown."""
    value = reach.value
    is_plain = value is None or isinstance(value, _PLAIN)
    kind = "value" if is_plain else "array" if hasattr(value, "dtype") else "function"
    reason = f"{reach.label} was bound to another {kind}"
    same = Guard(reason, lambda: _is_equal(_now(reach), value), _bindings(reach))
    return [same] + [
        _extent_guard(place) for place in reach.path if isinstance(place.value, _CONTAINERS)
    ]


def _is_equal(one: Any, other: Any) -> bool:
    """Whether these are one object, or plain values of one type with the same sign and digits."""
    return one is other or (
        isinstance(other, _PLAIN) and type(one) is type(other) and repr(one) == repr(other)
    )


def _bindings(reach: Reach) -> tuple[Binding, ...]:
    """From the function on: what a step leads to is looked at when that has been found."""
    found = [place.binding for place in reach.path if place.binding is not None]
    return tuple(reversed(found))


def _extent_guard(place: Reach) -> Guard:
    before = _extent(place.value)
    look = "keys" if isinstance(place.value, dict) else "length"
    bindings = *_bindings(place), Binding(look, place.value, None, before)
    reason = f"{place.label} has other entries"
    return Guard(reason, lambda: _extent(_now(place)) == before, bindings)


def _now(reach: Reach) -> Any:
    """What lies here now."""
    return _behind(reach, _now)


def _behind(reach: Reach, owner_of: Callable[[Reach], Any]) -> Any:
    """What lies here now, one step behind what lies at the place before."""
    if reach.parent is None:
        return reach.value
    owner = owner_of(reach.parent)
    if owner is _GONE:
        return _GONE
    try:
        return reach.step(owner)
    except Exception:  # the path is gone, or an object on it answers in its own way
        return _GONE


def _extent(container: Any) -> Any:
    if isinstance(container, dict):
        return list(container)
    return len(container) if isinstance(container, list | tuple) else None


class Reachable:
    """Values that a function, or one of `more`, reaches by names, attributes and items.

    Of classes and modules only the attributes are followed that code on the way names. Layers of
    the library's own wrappers do not count as depth.

    Attributes:
        places: the values with their paths.
        names: the attributes that code on the way names.
    """

    def __init__(self, function: Any, *more: Any) -> None:
        self.places: list[Reach] = []
        self.names = {"__call__"}  # which code need not name
        self._pending = deque((Reach("", root), 0) for root in (function, *more))
        self._seen: set[int] = set()
        self._extents: dict[int, Any] = {}
        self._ours: dict[Reach, bool] = {}  # whether what is reached from here is a library's
        self._libraries = Libraries()
        self._owners: list[tuple[Reach, int]] = []  # whose attributes are followed by name
        self._follow()
        self._follow_names()

    def _follow_names(self) -> None:
        """Code that is found later names more of what was found before."""
        known: set[str] = set()
        done = 0
        while self.names - known or done < len(self._owners):
            names, fresh, count = set(self.names), self.names - known, len(self._owners)
            for i, (reach, depth) in enumerate(self._owners):
                children = self._named(reach, fresh if i < done else names)
                self._pending.extend((child, depth) for child in children)
            known, done = names, count
            self._follow()

    def _follow(self) -> None:
        while self._pending and len(self._seen) < _LIMIT:
            reach, depth = self._pending.popleft()
            value = reach.value
            self.places.append(reach)  # also by a second name: each can be bound anew
            if id(value) in self._seen or isinstance(value, _ENDS):
                continue
            self._seen.add(id(value))
            if isinstance(value, _CONTAINERS) and len(value) <= _WRITTEN:
                self._extents[id(value)] = _extent(value)
            if depth < _DEPTH:
                is_users = self._is_users(reach)
                if is_users and isinstance(value, types.FunctionType):
                    self.names |= _named_by(value.__code__)
                deeper = depth + is_users
                self._pending.extend((child, deeper) for child in _children(reach, is_users))
                if not isinstance(value, _UNNAMED):
                    self._owners.append((reach, deeper))

    def _is_users(self, reach: Reach) -> bool:
        """Whether this is anything but a function of a library's."""
        value = reach.value
        if isinstance(value, types.FunctionType) and not any(p.is_global for p in reach.path):
            self._libraries.leave_out(value)  # it is compiled, or what a wrapper of it holds
        return not self._libraries.wrote(value)

    def _named(self, reach: Reach, names: set[str]) -> Iterator[Reach]:
        """What is followed of a class, a module or an object for its name in code."""
        return iter(()) if self._libraries.hold(reach.value) else _named(reach, names)

    def settle(self) -> None:
        """Drop what a trace has changed since then, as a count of traces, or makes at each look."""
        found: dict[Reach, Any] = {}  # what lies there now; what leads to a place comes before it
        for reach in self.places:
            found[reach] = _behind(reach, found.__getitem__)
        self.places = [reach for reach in self.places if found[reach] is reach.value]
        self._owners.clear()  # nothing that was dropped is held

    @property
    def parts(self) -> Iterator[Reach]:
        """Plain values and functions that are part of a program traced since then.

        Those that user code finds by names: in cells and globals, in attributes, and in containers
        that are no longer than a user would write them, and that the trace has not changed.
        """
        return (reach for reach in self.places if self._is_part(reach))

    @property
    def sources(self) -> Iterator[Reach]:
        """Arrays that user code finds likewise, and can have computed with outside of the graph."""
        arrays = (reach for reach in self.places if type(reach.value) is np.ndarray)
        return (reach for reach in arrays if self._is_found_by_users(reach))

    def _is_part(self, reach: Reach) -> bool:
        value = reach.value
        can_be = value is None or isinstance(value, _PLAIN) or callable(value)
        return can_be and self._is_found_by_users(reach)

    def _is_found_by_users(self, reach: Reach) -> bool:
        return (
            reach.parent is not None
            and not self._is_the_librarys(reach.parent)
            and all(self._is_named(place.binding) for place in reach.path)
        )

    def _is_the_librarys(self, parent: Reach) -> bool:
        """Whether code of a library's, or an object of its own, holds what lies here."""
        found = self._ours.get(parent)
        if found is None:
            holders = (p.value for p in parent.path if not isinstance(p.value, _CONTAINERS))
            holder = next(holders, None)
            if isinstance(holder, functools.partial):
                holder = holder.func
            found = self._ours[parent] = self._libraries.hold(holder)
        return found

    def _is_named(self, step: Binding | None) -> bool:
        if step is None:
            return True
        if step.look == "item":
            return bool(self._extents.get(id(step.holder)) == _extent(step.holder))
        return step.look != "attribute" or step.key in self.names or step.key in _OWN


def _children(reach: Reach, is_users: bool) -> Iterator[Reach]:
    value, label = reach.value, reach.label
    if isinstance(value, types.FunctionType):
        yield from _function_names(reach, is_users)
    elif isinstance(value, types.MethodType):
        yield _attribute(reach, "__self__", "self")
        yield _attribute(reach, "__func__", label)
    elif isinstance(value, property):
        yield _attribute(reach, "fget", label)
    elif isinstance(value, functools.partial):
        yield _attribute(reach, "func", label)
        yield _attribute(reach, "args", f"{label}.args")
        yield _attribute(reach, "keywords", f"{label}.keywords")
    elif isinstance(value, dict):
        yield from (_item(reach, key) for key in list(value)[:_LIMIT])
    elif isinstance(value, list | tuple):
        yield from (_item(reach, i) for i in range(min(len(value), _LIMIT)))
    elif not isinstance(value, type | types.ModuleType | np.ndarray):
        for name in _attribute_names(value):
            yield _attribute(reach, name)
        if type(value).__module__ != "builtins":
            binding = Binding("type", value, None, type(value))
            yield Reach(f"type({label})", type(value), reach, type, binding)


def _named(reach: Reach, names: set[str]) -> Iterator[Reach]:
    """What is followed of a class, a module or an object for its name in code."""
    value = reach.value
    if isinstance(value, types.ModuleType):
        found = names.intersection(vars(value))
    elif isinstance(value, type):
        found = {name for cls in value.__mro__ for name in names.intersection(vars(cls))}
    else:  # an array or number of the class, until the object gets its own
        kind = type(value)
        found = {name for cls in kind.__mro__ for name in names.intersection(vars(cls))}
        found = {name for name in found if _is_data(getattr(kind, name, None))}
    for name in sorted(found):
        yield _attribute(reach, name)


def _is_data(value: Any) -> bool:
    return isinstance(value, _PLAIN) or hasattr(value, "dtype")


def _attribute_names(value: Any) -> Iterator[str]:
    # Foreign classes may answer any name, or raise anything: only what is stored is looked at.
    with contextlib.suppress(Exception):
        yield from list(object.__getattribute__(value, "__dict__"))
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        names = [slots] if isinstance(slots, str) else slots
        yield from names


def _function_names(reach: Reach, is_users: bool) -> Iterator[Reach]:
    function = reach.value
    code = function.__code__
    for i, (name, cell) in enumerate(
        zip(code.co_freevars, function.__closure__ or (), strict=True)
    ):
        try:
            content = cell.cell_contents
        except ValueError:  # a cell that is not filled yet
            continue
        binding = Binding("cell", cell, None, content)
        yield Reach(name, content, reach, lambda f, i=i: f.__closure__[i].cell_contents, binding)  # type: ignore[misc]
    for defaults in _DEFAULTS:
        if getattr(function, defaults):
            yield _attribute(reach, defaults, f"{function.__name__}.{defaults}")
    if is_users:
        for name in sorted(_global_names(code).intersection(function.__globals__)):
            content = function.__globals__[name]
            binding = Binding("name", function.__globals__, name, content)
            yield Reach(name, content, reach, lambda f, name=name: f.__globals__[name], binding)  # type: ignore[misc]


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """A function's code and that of the functions written in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _named_by(code: types.CodeType) -> set[str]:
    """The names of attributes, and of globals, that code uses."""
    return {name for one in _codes(code) for name in one.co_names}


def _global_names(code: types.CodeType) -> set[str]:
    """The globals among them: an attribute `x.T` asks for no global `T`."""
    found = set()
    for one in _codes(code):
        argument = 0
        for word, byte in zip(one.co_code[::2], one.co_code[1::2], strict=True):
            argument = argument << 8 | byte
            if word == _GLOBAL:
                found.add(one.co_names[argument >> 1])  # the lowest bit is of the call behind
            if word != _EXTENDED:
                argument = 0
    return found


def _item(parent: Reach, key: Any) -> Reach:
    value = parent.value[key]
    binding = Binding("item", parent.value, key, value)
    return Reach(f"{parent.label}[{key!r}]", value, parent, lambda owner: owner[key], binding)


def _attribute(parent: Reach, name: str, label: str | None = None) -> Reach:
    shown = f"{parent.label}.{name}" if label is None else label
    value = None
    with contextlib.suppress(Exception):
        value = getattr(parent.value, name)
    binding = Binding("attribute", parent.value, name, value)
    return Reach(shown, value, parent, lambda owner: getattr(owner, name), binding)
