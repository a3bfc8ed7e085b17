"""Frozen dataclasses that cost next to nothing to define.

`dataclasses` writes and compiles five functions for each class, which for all of ours takes longer
than a tenth of the whole start. A record has the same fields and the same behaviour (`fields`,
`replace` and `asdict` work on it) with methods that all records share.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")


@overload
def record(cls: type[T]) -> type[T]: ...
@overload
def record(*, eq: bool = True) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: Any = None, *, eq: bool = True) -> Any:
    """Make this class what `dataclass(frozen=True, eq=eq)` would make it.

    What the class defines itself is kept.

    Example:
        >>> from anabranch.core.record import record
        >>> @record
        ... class Point:
        ...     x: float
        ...     y: float = 0.0
        >>> Point(1.0), Point(1.0) == Point(1.0, 0.0), hash(Point(1.0)) == hash(Point(1.0))
        (Point(x=1.0, y=0.0), True, True)
    """
    if cls is None:
        return lambda cls: record(cls, eq=eq)  # type: ignore[call-overload]
    own = set(vars(cls))
    cls.__doc__ = cls.__doc__ or cls.__name__  # else its signature is written there, which is slow
    dataclass(init=False, repr=False, eq=False)(cls)
    compared = [one.name for one in fields(cls) if one.compare]
    methods: dict[str, Any] = {
        "__init__": _initialiser(cls),
        "__signature__": _Signature(),
        "__repr__": _repr,
        "__setattr__": _refuse_to_set,
        "__delattr__": _refuse_to_delete,
    }
    if eq:
        methods |= _equality(cls, attrgetter(*compared) if len(compared) > 1 else None, compared)
    for name, method in methods.items():
        if name not in own:
            setattr(cls, name, method)
    return cls


def _initialiser(cls: Any) -> Callable[..., None]:
    names = [one.name for one in fields(cls) if one.init]
    defaults = {one.name: one.default for one in fields(cls) if one.default is not MISSING}
    makers = {
        one.name: one.default_factory for one in fields(cls) if one.default_factory is not MISSING
    }
    known = frozenset(names)
    count = len({*names, *defaults, *makers})
    whole = len(names) if len(names) == count else -1
    is_prepared = hasattr(cls, "__post_init__")

    def init(self: Any, /, *args: Any, **kwargs: Any) -> None:
        if len(args) == whole and not kwargs:  # all that there are, in order
            self.__dict__.update(zip(names, args, strict=True))
        else:
            self.__dict__.update(chosen(args, kwargs))
        if is_prepared:
            self.__post_init__()

    def chosen(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        given = dict(zip(names, args, strict=False)) if args else {}
        values = {**defaults, **given, **kwargs}
        for name, make in makers.items():
            if name not in values:
                values[name] = make()
        is_twice = bool(given) and not kwargs.keys().isdisjoint(given)
        if len(values) != count or len(args) > len(names) or is_twice or not kwargs.keys() <= known:
            _complain(cls, args, kwargs)
        return values

    return init


def _complain(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Say what is wrong with these arguments, as Python does."""
    try:
        inspect.signature(cls).bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{cls.__name__}: {error}") from None


class _Signature:
    """The signature of a record's class, made when somebody asks."""

    def __get__(self, instance: Any, owner: Any) -> inspect.Signature:
        if instance is not None:
            raise AttributeError("__signature__")
        return inspect.Signature(
            [
                inspect.Parameter(
                    one.name,
                    inspect.Parameter.POSITIONAL_OR_KEYWORD,
                    default=_shown_default(one),
                    annotation=one.type,
                )
                for one in fields(owner)
                if one.init
            ],
            return_annotation=None,
        )


def _shown_default(one: Any) -> Any:
    if one.default is not MISSING:
        return one.default
    return inspect.Parameter.empty if one.default_factory is MISSING else one.default_factory


def _equality(cls: Any, several: Any, names: list[str]) -> dict[str, Any]:
    """Equal are records of one class whose compared fields are equal."""

    def key(self: Any) -> tuple[Any, ...]:
        if several is not None:
            found: tuple[Any, ...] = several(self)
            return found
        return tuple(getattr(self, name) for name in names)

    def equal(self: Any, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return key(self) == key(other)

    def hashed(self: Any) -> int:
        return hash(key(self))

    return {"__eq__": equal, "__hash__": hashed}


def _repr(self: Any) -> str:
    shown = (f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse_to_set(self: Any, name: str, value: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")
