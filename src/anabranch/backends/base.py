"""What a backend is: a name, what it can do, and how it makes a graph executable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from anabranch.backends.plan import Plan, Timing
from anabranch.core.graph import Graph


@dataclass(frozen=True)
class Capabilities:
    """What passes may count on: which ops and dtypes (by name) the backend takes; None for all."""

    ops: frozenset[str] | None = None
    dtypes: frozenset[str] | None = None


@dataclass(frozen=True)
class Call:
    """How users call a program as a Python function.

    Attributes:
        name: what Python calls it.
        container: how the outputs come: the number of one, or (tuple or list, containers).
        slow: a function for all that is not expected, with the same arguments.
        captured: the arrays for the last parameters; those before are arguments.
        bindings: (holder, key, value): look-ups that must still give `value`, by `key` in a dict
            or, for None, in a closure's cell; else the call is not what was compiled.
    """

    name: str
    container: Any
    slow: Callable[..., Any]
    captured: Sequence[Any] = ()
    bindings: Sequence[Any] = ()


class Executable(Protocol):
    """A compiled graph."""

    def run(self, arguments: Sequence[Any]) -> list[Any]:
        """The outputs for one value for each parameter, which the caller has checked."""
        ...

    def function(self, call: Call) -> Callable[..., Any] | None:
        """A quicker way to call it; None if there is none."""
        ...

    # Looking at it

    def plan(self) -> Plan:
        """What it consists of."""
        ...

    def text(self, kind: str) -> str | None:
        """Its `"ir"` or `"asm"`; None if it has none."""
        ...

    def timing(self, arguments: Sequence[Any]) -> Timing | None:
        """What each step of the plan takes with these arguments; None if there are no steps."""
        ...


class Backend(Protocol):
    """A way to run graphs."""

    name: str
    capabilities: Capabilities

    def compile(self, graph: Graph) -> Executable:
        """Prepare a legal graph with outputs."""
        ...
