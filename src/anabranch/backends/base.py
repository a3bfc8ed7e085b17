"""What a backend is: a name, what it can do, and how it makes a graph executable."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from anabranch.core.record import record

if TYPE_CHECKING:
    from anabranch.backends.plan import Plan, Timing
    from anabranch.core.graph import Graph


@record
class Capabilities:
    """What passes may count on: which ops and dtypes (by name) the backend takes; None for all."""

    ops: frozenset[str] | None = None
    dtypes: frozenset[str] | None = None


@record
class Same:
    """In a pattern: this very object, and no other."""

    value: Any


@record
class Box:
    """Objects of a type that hold a value in one of their `__slots__`.

    `fixed` are the objects that other slots must have in an argument, and get in a result.
    """

    kind: type
    slot: str
    fixed: tuple[tuple[str, Any], ...] = ()


@record
class Boxed:
    """What the box has in its slot at the time of a call."""

    owner: Any
    box: Box


# How values lie in containers: the number of one, `Same`, or (type, patterns of its parts). The
# parts of a dict are (key, pattern); the only part of a box is its value.
Pattern = int | Same | tuple[type | Box, Sequence[Any]]


@record
class Call:
    """How users call a program as a Python function.

    Attributes:
        name: what Python calls it.
        arguments: one pattern for each positional argument, of the numbers of parameters.
        named: one for each argument by name, in the order in which they are written.
        result: the pattern of what is returned, of the numbers of outputs.
        slow: a function for all that is not expected, with the same arguments.
        captured: the arrays for the last parameters, or what they are `Boxed` in; those before are
            arguments.
        bindings: (look, holder, key, value), in this order: looks that must still give `value`,
            else the call is not what was compiled. A look is at a "cell" of a closure, a "name" in
            the dict of a module, an "attribute" or an "item" of any object, its "type", the
            "length" of a sequence, or the "keys" of a dict in their order.
        converts: whether one of Python's floats is taken for a parameter `f64[]`.
    """

    name: str
    arguments: Sequence[Pattern]
    named: Mapping[str, Pattern]
    result: Pattern
    slow: Callable[..., Any]
    captured: Sequence[Any] = ()
    bindings: Sequence[Any] = ()
    converts: bool = False


class Executable(Protocol):
    """A compiled graph."""

    def run(self, arguments: Sequence[Any]) -> list[Any]:
        """The outputs for one value for each parameter, which the caller has checked.

        An output that may be written into a parameter's array can be that array.
        """
        ...

    def function(self, call: Call) -> Callable[..., Any] | None:
        """A quicker way to call it; None if there is none."""
        ...

    def raw(self, captured: Sequence[Any]) -> Any:
        """Its C function for the other parameters, with these arrays for the last; None if none."""
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

    def compile(self, graph: Graph, donated: Mapping[int, int] | None = None) -> Executable:
        """Prepare a legal graph with outputs.

        `donated` says which parameters are arrays that an output may be written into, and which
        output. A run that fails has written nothing there.
        """
        ...
