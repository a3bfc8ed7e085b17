"""What a backend is: a name, what it can do, and how it makes a graph executable."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from anabranch.core.bind import state
from anabranch.core.config import held, options
from anabranch.core.identity import all_parts
from anabranch.core.node import Literal
from anabranch.core.once import once
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


class Wanted:
    """A graph that is to run: as it was built, and as passes make it, once somebody looks at that.

    Attributes:
        built: the graph, which its owner may let grow afterwards.
        passes: what says which passes of the library's own optimise it; None where there are
            others, so that only their result says what will run.
        given: parameters whose arrays results may be written into.
        options: those that hold for it.
        is_logged: whether the graph prints values at each run.
        is_called: whether who asks calls it at once, so that it may still be in the making when it
            is handed over.
    """

    def __init__(
        self,
        built: Graph,
        optimise: Callable[[Graph], tuple[Graph, Any]] = lambda graph: (graph, ()),
        passes: str | None = None,
        given: Sequence[int] = (),
        is_called: bool = False,
    ) -> None:
        self.built = built
        self.passes = passes
        self.given = tuple(given)
        self.is_called = is_called
        self._optimise = optimise
        self._version, self._outputs = built.version, built.outputs
        self.options = options()
        parts = (built, *all_parts(built))
        self.is_logged = any(node.logs for part in parts for node in part.nodes)

    @once
    def _made(self) -> tuple[Graph, Any]:
        graph = self.built
        if not self.is_logged:
            graph = graph.until(self._version, self._outputs)
        with self.as_asked():
            made, reports = self._optimise(graph)
        # What its owner may still mark, log or name is never what runs.
        return made.duplicate() if made is self.built else made, reports

    @contextmanager
    def as_asked(self) -> Iterator[None]:
        """In the block all is as it was when this was asked for, whatever the thread does now."""
        with held(self.options), state.changed(trace=None, guard=None, onlooker=None):
            yield

    @property
    def optimised(self) -> Graph:
        """The graph that runs."""
        return self._made[0]

    @property
    def reports(self) -> Any:
        """What the passes did."""
        return self._made[1]

    @once
    def donated(self) -> dict[int, int]:
        """For each parameter whose memory is used again, the output that takes it."""
        return reused(self.optimised, self.given)


def reused(graph: Graph, given: Sequence[int]) -> dict[int, int]:
    """For each of these parameters whose memory is used again, the output that takes it.

    An array that is returned unchanged is its own result. The others take, in order, the first
    output of the same shape and dtype that is still free.
    """
    outputs = graph.outputs
    pairs: dict[int, int] = {}
    free = {i: edge for i, edge in enumerate(outputs) if not isinstance(edge, Literal)}
    for parameter in given:
        node = graph.parameters[parameter]
        same = [i for i, edge in free.items() if edge.node is node]
        if same and node.avals[0].shape:
            pairs[parameter] = same[0]
            del free[same[0]]
    for parameter in given:
        aval = graph.parameters[parameter].avals[0]
        fits = [i for i, edge in free.items() if edge.aval == aval]
        if fits and aval.shape and parameter not in pairs:
            pairs[parameter] = fits[0]
            del free[fits[0]]
    return dict(sorted(pairs.items()))


class Executable(Protocol):
    """A compiled graph."""

    @property
    def donated(self) -> Mapping[int, int]:
        """For each parameter whose memory a result takes, that result."""
        ...

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

    def compile(self, wanted: Wanted) -> Executable:
        """Prepare a legal graph with outputs.

        `wanted.donated` says which parameters are arrays that an output may be written into, and
        which output. A run that fails has written nothing there.
        """
        ...
