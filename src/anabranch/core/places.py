"""`x.at[index].set(values)` and its kin: writing that gives a new value and leaves x as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anabranch.core.entry import leaving
from anabranch.core.registry import functions
from anabranch.errors import AnabranchError

_functions = functions()


def _method(name: str) -> Callable[..., Any]:
    """A method that is the public function of this name with value and index as first arguments."""

    def method(self: Place, *args: Any, **kwargs: Any) -> Any:
        try:
            return _functions[name](self._value, self._index, *args, **kwargs)
        except AnabranchError as error:
            raise leaving(error) from error.__cause__

    method.__doc__ = f"See `ab.{name}`."
    return method


class Place:
    """The elements of a value that an index selects, to be read or replaced."""

    __slots__ = ("_index", "_value")

    def __init__(self, value: Any, index: Any) -> None:
        self._value = value
        self._index = index

    get = _method("index_get")
    set = _method("index_set")
    add = _method("index_add")
    multiply = _method("index_multiply")
    max = _method("index_max")
    min = _method("index_min")


class At:
    """What `x.at` is: brackets to choose places with."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def __getitem__(self, index: Any) -> Place:
        return Place(self._value, index)
