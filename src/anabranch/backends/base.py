"""What a backend is: a name, what it can do, and how it makes a graph executable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from anabranch.core.graph import Graph


@dataclass(frozen=True)
class Capabilities:
    """What passes may count on: which ops and dtypes (by name) the backend takes; None for all."""

    ops: frozenset[str] | None = None
    dtypes: frozenset[str] | None = None


class Executable(Protocol):
    """A compiled graph."""

    def run(self, arguments: Sequence[Any]) -> list[Any]:
        """The outputs for one value for each parameter, which the caller has checked."""
        ...


class Backend(Protocol):
    """A way to run graphs."""

    name: str
    capabilities: Capabilities

    def compile(self, graph: Graph) -> Executable:
        """Prepare a legal graph with outputs."""
        ...
