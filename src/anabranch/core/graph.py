"""The graph: it owns its nodes, knows its parameters and outputs, and only ever grows.

Passes build a new graph. Consumer links are numbers, so dropping a graph frees it at once.
"""

from __future__ import annotations

import copy
import functools
import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from anabranch.core.aval import Aval, Shape, aval
from anabranch.core.bind import (
    NUMBERS,
    bad_operand,
    current_source,
    located,
    register_frontend,
    state,
)
from anabranch.core.entry import boundary
from anabranch.core.late import LateModule
from anabranch.core.leaves import CONSTANT, LEAVES, PARAMETER
from anabranch.core.node import Edge, Literal, Node, Output, make_node
from anabranch.core.op import Op
from anabranch.core.packing import Packed, pack, unpack
from anabranch.core.registry import lookup
from anabranch.core.text import listing
from anabranch.core.values import as_array, as_dtype, as_shape, plain
from anabranch.errors import AnabranchError, ArgumentError, GraphError, TraceError

if TYPE_CHECKING:
    from anabranch.core import form
else:
    form = LateModule("anabranch.core.form")

# How many frames of the library stand at least between a user's line and `capture`: itself,
# current_source, append.
_FRAMES = 3
_MANY = 8  # from here on the uses of a node stand in a list, which grows in place


def _inferred(op: Op, given: Sequence[Aval], attrs: dict[str, Any]) -> tuple[Aval, ...]:
    """The avals of the outputs, by the op's own rule."""
    found = op.aval(*given, **attrs)
    return found if isinstance(found, tuple) else (found,)


@functools.lru_cache(maxsize=4096)
def _inferred_of(op: Op, *given: Aval) -> tuple[Aval, ...]:
    """The same without attrs, remembered: long programs ask the same question over and over."""
    return _inferred(op, given, {})


def _mover(new: Graph) -> Callable[[Any], Any]:
    """What gives, for an edge of the graph that is copied, the same edge of the new one."""
    nodes = new.nodes

    def moved(edge: Any) -> Any:
        if type(edge) is Literal:
            return edge
        node = nodes[edge.node.id]
        return node if type(edge) is Node else node.outputs[edge.index]

    return moved


class Graph:
    """A computation graph: its nodes in creation order, parameters, outputs and a name.

    `version` counts structural changes. Two nodes of different graphs never meet in one op.
    """

    def __init__(self, name: str = "graph", backend: str | None = None) -> None:
        self.name = name
        self.backend = backend
        self.nodes: list[Node] = []
        self.parameters: list[Node] = []
        self.outputs: tuple[Any, ...] = ()
        # For each node, number and slot of every use, one after the other. Most nodes are used
        # once or twice, and a tuple of numbers is nothing the garbage collector has to look at.
        self._consumers: list[tuple[int, ...] | list[int] | None] = []
        self._names: set[str | None] | None = None  # of so many parameters; None: not known
        self._named = 0
        self._self = weakref.ref(self)

    @property
    def version(self) -> int:
        return len(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    # Building

    @boundary
    def parameter(self, name: str, shape: Shape | int, dtype: Any, *, weak: bool = False) -> Node:
        """Append an input of the graph.

        Raises:
            GraphError: `[duplicate-name]` when a parameter of this name exists.
            DTypeError: `[unsupported-dtype]`.
        """
        if not isinstance(name, str):
            raise ArgumentError("bad-argument", f"a parameter's name is a string, not {name!r}")
        names = self._parameter_names()
        if name in names:
            raise located(
                GraphError(
                    "duplicate-name", f'graph "{self.name}" has a parameter "{name}" already'
                )
            )
        made = aval(as_shape(shape), as_dtype(dtype), weak)
        node = self.append(PARAMETER, (), {}, (made,), name=name)
        self.parameters.append(node)
        names.add(name)
        self._named += 1
        return node

    def _parameter_names(self) -> set[str | None]:
        """The names of the parameters, gathered anew only where others have changed them."""
        if self._names is None or self._named != len(self.parameters):
            self._names = {parameter.name for parameter in self.parameters}
            self._named = len(self.parameters)
        return self._names

    @boundary
    def constant(self, value: Any, name: str | None = None) -> Node:
        """Append an array that belongs to the graph; it is copied and never changes."""
        array = as_array(value)
        array.flags.writeable = False
        made = (aval(array.shape, array.dtype),)
        return self.append(CONSTANT, (), {"value": array}, made, name=name)

    @boundary
    def add_node(self, op: Op | str, inputs: Sequence[Any], **attrs: Any) -> Any:
        """Append an application of `op`, a record or its name, to a list of operands.

        The attrs are all those of the record, as listings show them; the public functions of the
        same names take what NumPy's do.

        Raises:
            GraphError: `[leaf-op]` for what has no inputs, `[unknown-op]`.
            ArgumentError: `[bad-argument]`, `[argument-count]` or `[no-such-argument]` for operands
                or attrs that the op does not take.
        """
        record = op if isinstance(op, Op) else lookup(op)
        if record in LEAVES:
            raise GraphError(
                "leaf-op", f"a {record.name} has no inputs", hint=f"g.{record.name}(...) makes one"
            )
        form.require_form(record, inputs, attrs)
        return self.apply(record, tuple(inputs), attrs)

    def apply(self, op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        """Append `op` on these operands: the graph's side of `bind`.

        Returns:
            The node, or a tuple of edges when the op has several outputs.
        """
        this = self._self
        inputs = tuple(
            [
                arg if type(arg) is Node and arg._graph is this else self.lift(op, arg)
                for arg in args
            ]
        )
        given = [edge.aval for edge in inputs]
        try:
            avals = _inferred(op, given, attrs) if attrs else _inferred_of(op, *given)
        except AnabranchError as error:
            raise located(error, args, op) from error.__cause__
        node = self.append(op, inputs, attrs, avals)
        return node if len(avals) == 1 else node.outputs

    def lift(self, op: Op, arg: Any) -> Any:
        """An operand as an edge of this graph or a literal."""
        if isinstance(arg, Edge):
            if arg.node._graph is not self._self:
                raise self._foreign(op, arg.node)
            return arg
        if type(arg) in NUMBERS or isinstance(arg, np.generic):
            return Literal(arg)
        if isinstance(arg, np.ndarray):
            plain(arg)  # refuses what is no value
            return self.lift_array(arg)
        raise bad_operand(op, arg)

    def lift_array(self, array: np.ndarray[Any, Any]) -> Node:
        """How an array operand enters; a trace overrides this to read captured arrays anew."""
        return self.constant(array)

    def append(
        self,
        op: Op,
        inputs: tuple[Any, ...],
        attrs: dict[str, Any],
        avals: tuple[Aval, ...],
        *,
        name: str | None = None,
        like: Node | None = None,
    ) -> Node:
        """Append a node as given; `like` hands on name, scope, sources, origin and logs."""
        number = len(self.nodes)
        if like is None:
            node = make_node(
                op, inputs, attrs, avals, number, current_source(_FRAMES), self._self, name,
                state.scope, state.origin,
            )  # fmt: skip
        else:
            node = make_node(
                op, inputs, attrs, avals, number, like.raw_source, self._self, like.name,
                like.scope, like.origin, like.logs, like.also,
            )  # fmt: skip
        self.nodes.append(node)
        consumers = self._consumers
        consumers.append(None)
        for slot, edge in enumerate(inputs):
            if type(edge) is not Literal:
                source = edge.node.id
                uses = consumers[source]
                if uses is None:
                    consumers[source] = (number, slot)
                elif len(uses) < _MANY:
                    consumers[source] = (*uses, number, slot)
                elif type(uses) is list:
                    uses += (number, slot)
                else:
                    consumers[source] = [*uses, number, slot]
        return node

    @boundary
    def set_outputs(self, outputs: Iterable[Any]) -> None:
        """Mark the outputs.

        Raises:
            GraphError: `[no-outputs]` when there are none, `[foreign-graph]` for a node of another
                graph.
        """
        chosen = tuple(outputs)
        if not chosen:
            raise GraphError("no-outputs", f'graph "{self.name}" was given no outputs')
        for edge in chosen:
            if not isinstance(edge, Edge):
                raise located(
                    GraphError(
                        "not-a-node", f"an output must be a node, not a {type(edge).__name__}"
                    )
                )
            if edge.node._graph is not self._self:
                raise self._foreign(None, edge.node)
        self.outputs = chosen

    # Asking

    def consumers(self, node: Node) -> tuple[tuple[Node, int], ...]:
        """(node, input slot) of every use of this node, found without a search."""
        uses = iter(self._consumers[node.id] or ())
        return tuple((self.nodes[number], slot) for number, slot in zip(uses, uses, strict=True))

    def order(self, outputs: Sequence[Any]) -> list[Node]:
        """The nodes that the outputs need, dependencies first (ascending ids)."""
        last = max([edge.node.id for edge in outputs], default=-1)
        wanted = bytearray(last + 1)
        for edge in outputs:
            wanted[edge.node.id] = 1
        nodes = self.nodes
        for number in range(last, -1, -1):  # readers come later, so all of them have been asked
            if wanted[number]:
                for edge in nodes[number].inputs:
                    if type(edge) is Node:
                        wanted[edge.id] = 1
                    elif type(edge) is not Literal:
                        wanted[edge.node.id] = 1
        return list(itertools.compress(nodes, wanted))

    def _foreign(self, op: Op | None, node: Node) -> AnabranchError:
        other = node.graph
        if other is None:
            return ended(node, f' and cannot enter graph "{self.name}"')
        theirs = f'graph "{other.name}"'
        doing = (
            "an output must belong to its graph" if op is None else f"{op.name} mixes two graphs"
        )
        made = "" if node.source is None else f", written at {node.source}"
        return located(
            GraphError(
                "foreign-graph",
                f'{doing}: {node.name or node.ref} belongs to {theirs}, not to graph "{self.name}"',
                facts=(f"{node.name or node.ref}: {node.avals[0]}   of {theirs}{made}",),
                hint="build both nodes in one graph, or run one graph and pass its result on",
            )
        )

    # Copies

    def duplicate(self, new: Graph | None = None) -> Graph:
        """A plain graph, or the empty one given, with the same structure on the same lines."""
        new = Graph(self.name, self.backend) if new is None else new
        nodes, this, moved = new.nodes, new._self, _mover(new)
        for node in self.nodes:
            inputs = tuple([moved(edge) for edge in node.inputs])
            copied = make_node(
                node.op, inputs, node.attrs, node.avals, node.id, node.raw_source, this, node.name,
                node.scope, node.origin, node.logs, node.also,
            )  # fmt: skip
            nodes.append(copied)
        new._consumers = [list(uses) if type(uses) is list else uses for uses in self._consumers]
        new.parameters = [nodes[parameter.id] for parameter in self.parameters]
        new.outputs = tuple(map(moved, self.outputs))
        return new

    def until(self, version: int, outputs: tuple[Any, ...]) -> Graph:
        """The graph as it was at this version, without logs: itself if it is still that one."""
        is_same = self.version == version and self.outputs is outputs
        if is_same and not any(node.logs for node in self.nodes):
            return self
        new = Graph(self.name, self.backend)
        nodes, moved = new.nodes, _mover(new)
        for node in self.nodes[:version]:
            inputs = tuple(map(moved, node.inputs))
            made = new.append(node.op, inputs, node.attrs, node.avals, like=node)
            object.__setattr__(made, "logs", ())
        new.parameters = [nodes[p.id] for p in self.parameters if p.id < version]
        new.outputs = tuple(map(moved, outputs))
        return new

    def __reduce__(self) -> tuple[Any, ...]:
        own = {name: value for name, value in vars(self).items() if name not in _FIELDS}
        return _unpacked, (type(self), pack(self)), own or None

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        packed = pack(self)
        rows = [
            row._replace(attrs=copy.deepcopy(row.attrs, memo)) if row.attrs else row
            for row in packed.rows
        ]
        made = memo[id(self)] = _unpacked(type(self), packed._replace(rows=rows))
        own = {name: value for name, value in vars(self).items() if name not in _FIELDS}
        vars(made).update(copy.deepcopy(own, memo))
        return made

    def __str__(self) -> str:
        return listing(self)

    def __repr__(self) -> str:
        return f"<Graph {self.name!r}: {len(self.nodes)} nodes>"


_FIELDS = frozenset(vars(Graph()))


def _unpacked(kind: type[Graph], packed: Packed) -> Graph:
    """A graph of this kind from flat data."""
    graph = kind.__new__(kind)
    Graph.__init__(graph, packed.name, packed.backend)
    unpack(graph, packed)
    return graph


def ended(node: Node, consequence: str = "") -> AnabranchError:
    """The error for a node whose trace has ended or whose graph was dropped."""
    made = "" if node.source is None else f" written at {node.source}"
    return located(
        TraceError(
            "ended-trace",
            f"{node.name or node.op.name}{made} belongs to a trace that has ended, or to a graph"
            f" that is gone{consequence}",
            facts=(f"{node.name or node.ref}: {node.avals[0]}   {node.op.name}{made}",),
            hint="return it from the traced function, or keep the Graph object",
        )
    )


def _apply_to_nodes(op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Outside a trace, nodes decide where an op goes: to the graph of the first of them."""
    first: Node = [arg for arg in args if isinstance(arg, Edge)][0].node  # noqa: RUF015
    graph = first.graph
    if graph is None:
        raise ended(first)
    return graph.apply(op, args, attrs)


register_frontend(Node, 2, _apply_to_nodes)
register_frontend(Output, 2, _apply_to_nodes)
