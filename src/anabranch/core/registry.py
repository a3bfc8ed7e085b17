"""The tables of ops and of public functions by name, filled by those who make them.

An op enters when its record is made and a composed function when it is defined, so nobody keeps a
list: the public namespace, the operators of values and the tests are gathered from here.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from anabranch.errors import ArgumentError

if TYPE_CHECKING:
    from anabranch.core.op import Op

_ops: dict[str, Op] = {}
_functions: dict[str, Callable[..., Any]] = {}


def gather(package: str, path: Iterable[str]) -> None:
    """Import every module of a package, so that the records in them are made."""
    for module in pkgutil.iter_modules(path):
        importlib.import_module(f"{package}.{module.name}")


def register(op: Op) -> None:
    """Enter a record.

    Raises:
        ArgumentError: when another record of this name is registered already.
    """
    if op.name in _ops:
        raise ArgumentError("duplicate-op", f"an op named {op.name!r} is registered already")
    _ops[op.name] = op


def register_function(name: str, function: Callable[..., Any]) -> None:
    """Enter the public function of this name; operators find it here."""
    _functions[name] = function


def functions() -> dict[str, Callable[..., Any]]:
    """Every function by name, for reading: the table itself."""
    return _functions


def lookup(name: str) -> Op:
    """The record of this name.

    Raises:
        ArgumentError: for a name that no record has; lists the known ones.
    """
    found = _ops.get(name)
    if found is None:
        close = difflib.get_close_matches(name, _ops, 1)
        raise ArgumentError(
            "unknown-op",
            f"no op is named {name!r}; known ops: {', '.join(sorted(_ops))}",
            hint=f"did you mean {close[0]!r}?" if close else None,
        )
    return found


def registered_ops() -> tuple[Op, ...]:
    """Every record, sorted by name."""
    return tuple(_ops[name] for name in sorted(_ops))


@contextmanager
def temporary_ops() -> Iterator[None]:
    """Forget, at the end of the block, the records that were made in it (for tests)."""
    before = [dict(table) for table in (_ops, _functions)]
    try:
        yield
    finally:
        for table, content in zip((_ops, _functions), before, strict=True):
            table.clear()  # type: ignore[attr-defined]
            table.update(content)  # type: ignore[attr-defined]
