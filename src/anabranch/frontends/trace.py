"""Tracing: run a Python function once on nodes, so that what it does becomes a graph."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from anabranch.core.attention import attention
from anabranch.core.aval import aval_of
from anabranch.core.bind import NUMBERS, state
from anabranch.core.entry import boundary
from anabranch.core.graph import Graph
from anabranch.core.late import LateModule
from anabranch.core.node import Edge, Literal, Node
from anabranch.core.op import Op
from anabranch.core.source import warn
from anabranch.core.strictness import strictly
from anabranch.errors import ArgumentError, TraceError
from anabranch.frontends.captures import Guard, Reach, Reachable, guards
from anabranch.frontends.containers import argument_names, flatten, leaf_names, unflatten
from anabranch.frontends.manual import Graph as ManualGraph
from anabranch.frontends.static import Static, leaf_aval
from anabranch.frontends.tensor import Tensor
from anabranch.ops.layout import broadcast_to

if TYPE_CHECKING:
    from anabranch.passes import rewrite as rewriting
else:
    rewriting = LateModule("anabranch.passes.rewrite")

Signature = Sequence[Any]
_UNNAMED = "captured "  # and a number: as long as nothing is known that leads to an array
_COMPARED = 65_536  # bytes of arrays whose content is compared at each call


class TraceGraph(Graph):
    """A graph under construction by a running function; it takes in what the function captures."""

    def __init__(self, name: str, backend: str | None) -> None:
        super().__init__(name, backend)
        self.captured: dict[int, tuple[Any, Node]] = {}
        self._bits: dict[int, Any] = {}

    def lift(self, op: Op, arg: Any) -> Any:
        return self.capture(arg) if type(arg) is Tensor else super().lift(op, arg)

    def lift_array(self, array: np.ndarray[Any, Any]) -> Node:
        return self.capture(array)

    def capture(self, value: Any) -> Node:
        """The input through which a captured array or tensor is read at each call."""
        found = self.captured.get(id(value))
        if found is None:
            kind = aval_of(value)
            node = self.parameter(f"{_UNNAMED}{len(self.captured)}", kind.shape, kind.dtype)
            found = self.captured[id(value)] = (value, node)
            self._bits[id(value)] = np.array(_array_of(value))
        return found[1]

    def check_captures(self) -> None:
        """Refuse a function that changes what it captured: it would not do so when it is run.

        Raises:
            TraceError: `[changed-capture]`.
        """
        for key, (value, node) in self.captured.items():
            if _array_of(value).tobytes() != self._bits[key].tobytes():
                raise TraceError(
                    "changed-capture",
                    f"{self.name} changes an array of {node.avals[0]} in place that its graph"
                    " reads; a compiled run would not repeat that",
                    source=node.source,
                    hint="pass the array as an argument and return the new one",
                )
        self._bits.clear()


def _array_of(value: Any) -> Any:
    return value.value if type(value) is Tensor else value


@dataclass
class Trace:
    """What one trace of a function found: the graph as built and what stands around it.

    Attributes:
        graph: parameters are the arguments' array and number leaves, then the captured inputs.
        captured: the captured arrays and tensors, read at each call.
        guards: for those that a name or container leads to, the path to check.
        constants: arrays that only the trace held, with the lines where they came in.
        baked: captured Python numbers by name, which are part of the program.
        outputs: for each leaf of the result, the number of a graph output or a fixed value.
    """

    graph: Graph
    structure: Any
    outputs: list[int | Static]
    captured: list[Any] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    constants: list[str] = field(default_factory=list)
    baked: dict[str, Any] = field(default_factory=dict)

    def result(self, values: Sequence[Any]) -> Any:
        """The function's result from the graph's outputs."""
        leaves = [one.value if isinstance(one, Static) else values[one] for one in self.outputs]
        return unflatten(self.structure, leaves)


def trace_function(
    function: Callable[..., Any],
    leaves: Sequence[Any],
    structure: Any,
    *,
    name: str,
    backend: str | None,
    log: Callable[[str], None] = lambda _: None,
) -> Trace:
    """Trace `function` for argument leaves (avals or Static) in the structure of (args, kwargs)."""
    graph = TraceGraph(name, backend)
    log(f'1 new graph "{name}"')
    names = _parameter_names(function, structure)
    inputs = [
        leaf.value
        if isinstance(leaf, Static)
        else graph.parameter(label, leaf.shape, leaf.dtype, weak=leaf.weak)
        for leaf, label in zip(leaves, names, strict=True)
    ]
    log(f"2 parameters {', '.join(str(p.name) for p in graph.parameters)}")
    args, kwargs = unflatten(structure, inputs)
    statics = [leaf.value for leaf in leaves if isinstance(leaf, Static)]
    reached = Reachable(function, *statics)
    with attention(), state.changed(trace=graph, origin=None, scope=""), strictly():
        log(f"3 call {name}")
        out = function(*args, **kwargs)
        values, out_structure = flatten(out)
        del out
        outputs = _outputs(graph, values)
        graph.check_captures()
    del args, kwargs, inputs, values
    reached.settle()
    log(f"4 outputs {', '.join(repr(e) for e in graph.outputs)}")
    trace = Trace(graph, out_structure, outputs)
    fixed, unwatched = _settle_captures(trace, graph, reached)
    if unwatched:  # the function itself has made them
        unwatched = _watch(trace, Reachable(function, *statics), unwatched)
    _warn_of_unwatched(trace, unwatched)
    _watch_parts(trace, reached)
    if trace.constants:
        _watch_sources(trace, reached)
    trace.graph = _with_constants(graph, fixed)
    return trace


def _parameter_names(function: Callable[..., Any], structure: Any) -> list[str]:
    """Each leaf of (args, kwargs) as the user would write it."""
    args, kwargs = structure.children()
    names = [*argument_names(function, args.num_children), *kwargs.entries()]
    roots = [*args.children(), *kwargs.children()]
    return [
        leaf for root, name in zip(roots, names, strict=True) for leaf in leaf_names(root, name)
    ]


def _outputs(graph: TraceGraph, values: Sequence[Any]) -> list[int | Static]:
    """Mark the graph's outputs; what is no array is a fixed part of the result."""
    edges: list[Any] = []
    places: list[int | Static] = []
    for value in values:
        if isinstance(value, Edge | np.ndarray | Tensor):
            edges.append(value if isinstance(value, Edge) else graph.capture(value))
            places.append(len(edges) - 1)
        elif isinstance(value, str | bytes | np.generic) or type(value) in NUMBERS:
            places.append(Static(value))
        else:
            # A set, a generator or an object could carry nodes out of their trace unseen.
            kind = type(value).__name__
            raise ArgumentError("bad-result", f"a compiled function cannot return a {kind}")
    if edges:
        graph.set_outputs(edges)
    return places


def _settle_captures(
    trace: Trace, graph: TraceGraph, reached: Reachable
) -> tuple[dict[int, Any], dict[int, Node]]:
    """Tell captured arrays that the program still holds from those that only the trace holds.

    The first are inputs, read at each call; the nodes of those that nothing leads to are returned,
    by the id of the array. The second are temporaries that NumPy derived while tracing: they can
    never change again, so they become constants, and are returned by the number of the node; but a
    view of an array that the program holds changes with it, so it is an input like that.
    """
    found = [graph.captured.pop(key) for key in list(graph.captured)]
    nodes = [node for _, node in found]
    values = [value for value, _ in found]
    del found
    probe = [np.empty(0)]
    alone = sys.getrefcount(probe[0])
    held = [sys.getrefcount(values[i]) > alone for i in range(len(values))]
    owners = {} if all(held) else _owners(reached)
    for i, node in enumerate(nodes):
        if not held[i] and (places := owners.get(id(_owner(values[i])))):
            held[i] = True
            node.name = _free_name(graph, f"a view of {places[0].label}")
            trace.guards += [guard for place in places for guard in guards(place)]
    fixed = {node.id: value for node, value, h in zip(nodes, values, held, strict=True) if not h}
    trace.captured = [value for value, h in zip(values, held, strict=True) if h]
    wanted = {
        id(value): node
        for node, value in zip(nodes, values, strict=True)
        if node.id not in fixed and str(node.name).startswith(_UNNAMED)
    }
    unwatched = _watch(trace, reached, wanted)
    trace.constants = [
        f"{node.avals[0]} used at {node.source}" for node in nodes if node.id in fixed
    ] + _scalar_constants(graph)
    return fixed, unwatched


def _watch(trace: Trace, reached: Reachable, wanted: dict[int, Node]) -> dict[int, Node]:
    """Name captured arrays by what leads to them and watch that; gives those nothing leads to."""
    unwatched = dict(wanted)
    for reach in reached.places:
        node = wanted.get(id(reach.value))
        if node is not None:
            unwatched.pop(id(reach.value), None)
            if str(node.name).startswith(_UNNAMED):
                node.name = _free_name(trace.graph, reach.label)
            trace.guards += guards(reach)
    return unwatched


def _watch_parts(trace: Trace, reached: Reachable) -> None:
    """Watch what became part of the program; numbers are listed."""
    for reach in reached.parts:
        trace.guards += guards(reach)
        if type(reach.value) in NUMBERS:
            trace.baked[reach.label] = reach.value


def _watch_sources(trace: Trace, reached: Reachable) -> None:
    """Watch the arrays that NumPy may have derived constants from: those that code names.

    What the graph reads is watched already. Of what it does not read the content is compared, too,
    as long as that is little.
    """
    read = {id(_owner(value)) for value in trace.captured}
    left = _COMPARED
    for reach in reached.sources:
        array = reach.value
        trace.guards += guards(reach)
        if id(_owner(array)) not in read and array.nbytes <= left:
            left -= array.nbytes
            trace.guards.append(_content_guard(reach.label, array))


def _content_guard(label: str, array: np.ndarray[Any, Any]) -> Guard:
    before = array.tobytes()
    return Guard(f"{label} has another content", lambda: array.tobytes() == before, None)


def _owner(value: Any) -> Any:
    """The array whose memory this is, at the end of a chain of views."""
    value = _array_of(value)
    while type(value.base) is np.ndarray:
        value = value.base
    return value


def _owners(reached: Reachable) -> dict[int, list[Reach]]:
    """The places of arrays, those of tensors too, by the id of what owns their memory."""
    found: dict[int, list[Reach]] = {}
    for reach in reached.places:
        if type(_array_of(reach.value)) is np.ndarray:
            found.setdefault(id(_owner(reach.value)), []).append(reach)
    return found


def _warn_of_unwatched(trace: Trace, unwatched: dict[int, Node]) -> None:
    for node in unwatched.values():
        warn(
            f"{trace.graph.name} reads an array of {node.avals[0]} (first used at {node.source})"
            " that no name or container leads to: its content is read at each call, but replacing"
            " it by another array is not noticed"
        )


def _scalar_constants(graph: Graph) -> list[str]:
    """The NumPy scalars that user code brought in; those of derivative rules have an origin."""
    return [
        f"{edge.aval} {edge.value} used at {node.source}"
        for node in graph.nodes
        if node.origin is None and node.op is not broadcast_to  # zeros of structural zeros
        for edge in node.inputs
        if isinstance(edge, Literal) and not edge.aval.weak
    ]


def _free_name(graph: Graph, label: str) -> str:
    taken = {p.name for p in graph.parameters}
    name = label
    while name in taken:
        name += "'"
    return name


def _with_constants(graph: Graph, fixed: dict[int, Any]) -> Graph:
    """A copy with these parameters turned into constants; the trace's own nodes end with it."""
    if not fixed:
        return graph.duplicate(ManualGraph(graph.name, graph.backend))

    def replace(rewrite: rewriting.Rewrite, node: Node, _: Any) -> Node | None:
        if node.id not in fixed:
            return None
        return rewrite.graph.constant(_array_of(fixed[node.id]))

    return rewriting.copied(graph, graph.nodes, replace).graph


@boundary
def trace(function: Callable[..., Any], *args: Any, **kwargs: Any) -> ManualGraph:
    """The graph of a function as built, for arguments of these shapes and dtypes.

    NumPy's `trace`, the sum along a diagonal, is `ab.matrix_trace`, the method `x.trace()`, and
    `ab.xp.linalg.trace` of matrices in the last two axes.

    Example:
        >>> import anabranch as ab
        >>> print(ab.trace(lambda x: ab.square(ab.square(x)) * 3.0, 2.0))
        graph "<lambda>": 4 nodes, 1 parameter
        #0 parameter "x" : f64[] weak
        #1 square(#0) : f64[]
        #2 square(#1) : f64[]
        #3 multiply(#2, 3.0) : f64[]
        outputs #3
    """
    leaves, structure = flatten((args, kwargs))
    name = getattr(function, "__name__", type(function).__name__)
    avals = [leaf_aval(leaf) for leaf in leaves]
    made = trace_function(function, avals, structure, name=name, backend=None).graph
    if isinstance(made, ManualGraph):
        return made
    return made.duplicate(ManualGraph(made.name, made.backend))  # type: ignore[return-value]
