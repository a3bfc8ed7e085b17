"""The tables of ops and of public functions by name, filled by those who make them.

An op enters when its record is made and a composed function when it is defined, so nobody keeps a
list: the public namespace, the operators of values and the tests are gathered from here. Where
each name is made is known beforehand (`contents.py`, which is written from these tables), so that a
module is loaded when somebody first asks for what it makes.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from anabranch.core.late import LateModule, Modules
from anabranch.errors import ArgumentError

if TYPE_CHECKING:
    import difflib

    from anabranch.core.op import Op
else:
    difflib = LateModule("difflib")

_ops: dict[str, Op] = {}
_made: dict[str, Callable[..., Any]] = {}  # every function, also of modules that still run
_where: dict[str, str] = {}  # the module that makes what has this name
_own: set[str] = set()  # the names that the library itself makes
_packages: list[Modules] = []  # whose modules are all gathered


class _Functions(dict[str, Callable[..., Any]]):
    """Every function by name; one that nobody has asked for yet is loaded on the way.

    What is found here is whole: modules that another thread is loading have ended.
    """

    def __missing__(self, name: str) -> Callable[..., Any]:
        _load(name)
        if name not in _made:
            gather()
        self[name] = found = _made[name]
        return found

    def __contains__(self, name: object) -> bool:
        return name in _made or name in _where

    def __iter__(self) -> Iterator[str]:
        gather()
        return iter(sorted(_made))  # whatever was asked for first

    def __len__(self) -> int:
        gather()
        return len(_made)

    get, keys, items, values = Mapping.get, Mapping.keys, Mapping.items, Mapping.values  # type: ignore[assignment]


_functions = _Functions()


def expect(contents: Mapping[str, str], modules: Modules) -> None:
    """Say what will be made where.

    Args:
        contents: for each module the names that it makes, with blanks between them.
        modules: those that may make more, which are all loaded for a name that nobody knows.
    """
    for module, names in contents.items():
        _where.update(dict.fromkeys(names.split(), module))
        _own.update(names.split())
    _packages.append(modules)


def gather() -> None:
    """Load every module that makes records, so that all of them are made."""
    for module in dict.fromkeys(_where.values()):  # in the same order in every process
        importlib.import_module(module)
    for package in _packages:
        package.load()
    _where.clear()


def _load(name: str) -> None:
    module = _where.get(name)
    if module is not None:
        importlib.import_module(module)


def register(op: Op) -> None:
    """Enter a record.

    Raises:
        ArgumentError: when another record of this name is registered already.
    """
    if _where.get(op.name) not in sys.modules:
        _load(op.name)
    if op.name in _ops:
        raise ArgumentError("duplicate-op", f"an op named {op.name!r} is registered already")
    _ops[op.name] = op


def register_function(name: str, function: Callable[..., Any]) -> None:
    """Enter the public function of this name; operators find it here."""
    _made[name] = function
    _functions.pop(name, None)


def functions() -> Mapping[str, Callable[..., Any]]:
    """Every function by name, for reading: the table itself."""
    return _functions


def is_own(op: Op) -> bool:
    """Whether this is a record of the library's own, of which there is one in each version."""
    return op.name in _own and _ops.get(op.name) is op


def is_op(name: str) -> bool:
    """Whether a record has this name, among those that are made so far."""
    return name in _ops


def lookup(name: str) -> Op:
    """The record of this name.

    Raises:
        ArgumentError: for a name that no record has; lists the known ones.
    """
    _load(name)
    if name not in _ops:
        gather()
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
    gather()
    return tuple(_ops[name] for name in sorted(_ops))


@contextmanager
def temporary_ops() -> Iterator[None]:
    """Forget, at the end of the block, the records that were made in it (for tests)."""
    gather()
    before = [dict(table) for table in (_ops, _made)]
    try:
        yield
    finally:
        _functions.clear()
        for table, content in zip((_ops, _made), before, strict=True):
            table.clear()  # type: ignore[attr-defined]
            table.update(content)  # type: ignore[attr-defined]
