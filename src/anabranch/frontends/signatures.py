"""What one compiled graph serves: the signature of a call, as a key, and how two of them differ."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

from anabranch.core.aval import Aval
from anabranch.core.config import options
from anabranch.core.identity import value_key
from anabranch.frontends.static import leaf_aval

Key = tuple[Any, ...]


def signature(leaves: Sequence[Any], structure: Any) -> Key:
    """The key of a call with these leaves in this structure, under the options in force."""
    return (options(), structure, *map(_leaf_key, leaves))


def difference(last: Key | None, key: Key) -> str:
    """Why no compiled graph fits, told against the last one that was made."""
    if last is None:
        return "first call"
    if last[1] != key[1]:
        return "the containers or the number of arguments changed"
    if last[0] != key[0]:
        return "the options changed"
    return (
        "; ".join(
            f"argument {i}: {_shown(old)} became {_shown(new)}"
            for i, (old, new) in enumerate(zip(last[2:], key[2:], strict=True))
            if old != new
        )
        or "an earlier one was dropped from the cache"
    )


def _leaf_key(leaf: Any) -> Any:
    kind = leaf_aval(leaf)
    if isinstance(kind, Aval):
        return kind
    value = kind.value
    if callable(value) or value_key(value).startswith(f"{type(value).__name__}:<"):
        return _Same(value)
    return type(value), value_key(value)


class _Same:
    """A key that holds on to an object and equals only itself."""

    def __init__(self, value: Any) -> None:
        self.value = value

    @property
    def _parts(self) -> tuple[int, int]:
        # Each access to a method makes a new object: what counts is its owner and its function.
        if isinstance(self.value, types.MethodType):
            return id(self.value.__self__), id(self.value.__func__)
        return id(self.value), 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._parts == other._parts

    def __hash__(self) -> int:
        return hash(self._parts)

    def __repr__(self) -> str:
        return repr(self.value)


def _shown(key: Any) -> str:
    if isinstance(key, Aval):
        return f"{key} number" if key.weak else str(key)
    return str(key[1]) if isinstance(key, tuple) else repr(key)
