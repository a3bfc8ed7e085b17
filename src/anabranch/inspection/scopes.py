"""The scopes of a trace: each entry into a named part of the program is one of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anabranch.core.node import Node
from anabranch.core.registry import functions
from anabranch.inspection.parts import Scope
from anabranch.inspection.record import CALLED, Entry

Path = tuple[tuple[str, str], ...]  # name and kind of each scope, outermost first


class Scopes:
    """All scopes, and for each entry the one that it is in.

    A scope that is left and entered again is a second scope of the same name; leaves that appear
    in between do not count as leaving.
    """

    def __init__(self, entries: Sequence[Entry], label: Callable[[Node], str]) -> None:
        self.found = [Scope(0, "", None)]
        self.of: list[int] = []
        self._calls: dict[tuple[int, str], int] = {}
        self._backward: dict[str, int] = {}
        self._open: list[int] = [0]
        self._label = label
        self._last = _differentiated(entries)
        for entry in entries:
            path = self._path(entry)
            self.of.append(self._enter(path) if path or not entry.is_leaf else 0)

    def _path(self, entry: Entry) -> Path:
        path = tuple((name, _kind(name)) for name in entry.scope)
        order = order_of(entry.node)
        if not order:
            return path
        return ((f"backward of {self._label(self._last[order])}", "backward"), *path)

    def _enter(self, path: Path) -> int:
        names = [name for name, _ in path]
        shared = 0
        while shared < min(len(names), len(self._open) - 1):
            if self._full_name(self._open[shared + 1]) != names[shared]:
                break
            shared += 1
        del self._open[shared + 1 :]
        for name, kind in path[shared:]:
            self._open.append(self._opened(name, kind))
        return self._open[-1]

    def _full_name(self, number: int) -> str:
        scope = self.found[number]
        return scope.name + (CALLED if scope.kind == "graph" else "")

    def _opened(self, name: str, kind: str) -> int:
        if kind == "backward" and name in self._backward:
            return self._backward[name]  # one gradient's graph, however it is interleaved
        parent = self._open[-1]
        call = self._calls[parent, name] = self._calls.get((parent, name), 0) + 1
        number = len(self.found)
        shown = name.removesuffix(CALLED)
        self.found.append(Scope(number, shown, parent, kind, call if call > 1 else None))
        if kind == "backward":
            self._backward[name] = number
        return number


def _kind(name: str) -> str:
    if name.endswith(CALLED):
        return "graph"
    return "function" if name in functions() else "scope"


def order_of(node: Node) -> int:
    """How many derivatives stand between a node and the user's program."""
    order = 0
    while node.origin is not None:
        node = node.origin[0]
        order += 1
    return order


def _differentiated(entries: Sequence[Entry]) -> dict[int, Node]:
    """For each order of derivative, the last node that it differentiates."""
    found: dict[int, Node] = {}
    for entry in entries:
        origin = entry.node.origin
        if origin is not None:
            order = order_of(entry.node)
            if order not in found or origin[0].id > found[order].id:
                found[order] = origin[0]
    return found
