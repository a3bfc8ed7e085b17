"""Properties that are computed when they are first asked for, and kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Kept = TypeVar("Kept")


class once(Generic[Kept]):  # noqa: N801 - a decorator, as `property` is
    """`functools.cached_property` without a lock; of what several threads compute the first stays.

    Python 3.11 holds one lock for all objects of a class while it computes: threads would wait for
    one another, and for ever in a process that was forked meanwhile.

    Example:
        >>> class Circle:
        ...     def __init__(self, radius):
        ...         self.radius = radius
        ...     @once
        ...     def area(self):
        ...         print("computed")
        ...         return 3 * self.radius**2
        >>> circle = Circle(2)
        >>> circle.area + circle.area
        computed
        24
    """

    def __init__(self, compute: Callable[[Any], Kept]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> once[Kept]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Kept: ...
    def __get__(self, instance: object | None, owner: type) -> once[Kept] | Kept:
        if instance is None:
            return self
        kept: Kept = vars(instance).setdefault(self._name, self._compute(instance))
        return kept
