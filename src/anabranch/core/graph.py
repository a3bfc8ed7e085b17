"""The graph: it owns its nodes, knows its parameters and outputs, and only ever grows.

Passes build a new graph. Consumer links are numbers, so dropping a graph frees it at once.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

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
from anabranch.core.leaves import CONSTANT, LEAVES, PARAMETER
from anabranch.core.node import Edge, Literal, Node, Output, make_node
from anabranch.core.op import Op
from anabranch.core.registry import lookup
from anabranch.core.text import listing
from anabranch.core.values import as_array, as_dtype, as_shape, plain
from anabranch.errors import AnabranchError, ArgumentError, GraphError, TraceError


class Graph:
    """A computation graph: its nodes in creation order, parameters, outputs and a name.

    `version` counts structural changes. Two nodes of different graphs never meet in one op.
    """

    def __init__(self, name: str = "graph", backend: str = "reference") -> None:
        self.name = name
        self.backend = backend
        self.nodes: list[Node] = []
        self.parameters: list[Node] = []
        self.outputs: tuple[Any, ...] = ()
        self._consumers: list[list[tuple[int, int]] | None] = []
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
        if any(p.name == name for p in self.parameters):
            raise located(
                GraphError(
                    "duplicate-name", f'graph "{self.name}" has a parameter "{name}" already'
                )
            )
        if not isinstance(name, str):
            raise ArgumentError("bad-argument", f"a parameter's name is a string, not {name!r}")
        made = aval(as_shape(shape), as_dtype(dtype), weak)
        node = self.append(PARAMETER, (), {}, (made,), name=name)
        self.parameters.append(node)
        return node

    @boundary
    def constant(self, value: Any, name: str | None = None) -> Node:
        """Append an array that belongs to the graph; it is copied and never changes."""
        array = as_array(value)
        array.flags.writeable = False
        made = (aval(array.shape, array.dtype),)
        return self.append(CONSTANT, (), {"value": array}, made, name=name)

    @boundary
    def add_node(self, op: Op | str, inputs: Sequence[Any], **attrs: Any) -> Any:
        """Append an application of `op`; the same as applying the op to the inputs."""
        record = op if isinstance(op, Op) else lookup(op)
        if record in LEAVES:
            raise GraphError(
                "leaf-op", f"a {record.name} has no inputs", hint=f"g.{record.name}(...) makes one"
            )
        return self.apply(record, tuple(inputs), attrs)

    def apply(self, op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        """Append `op` on these operands: the graph's side of `bind`.

        Returns:
            The node, or a tuple of edges when the op has several outputs.
        """
        inputs = tuple(self.lift(op, arg) for arg in args)
        try:
            inferred = op.aval(*(edge.aval for edge in inputs), **attrs)
        except AnabranchError as error:
            raise located(error, args, op) from error.__cause__
        avals = inferred if isinstance(inferred, tuple) else (inferred,)
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
                op, inputs, attrs, avals, number, current_source(), self._self, name,
                state.scope, state.origin,
            )  # fmt: skip
        else:
            node = make_node(
                op, inputs, attrs, avals, number, like.raw_source, self._self, like.name,
                like.scope, like.origin, like.logs, like.also,
            )  # fmt: skip
        self.nodes.append(node)
        self._consumers.append(None)
        for slot, edge in enumerate(inputs):
            if not isinstance(edge, Literal):
                uses = self._consumers[edge.node.id]
                if uses is None:
                    uses = self._consumers[edge.node.id] = []
                uses.append((number, slot))
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
        uses = self._consumers[node.id] or ()
        return tuple((self.nodes[number], slot) for number, slot in uses)

    def order(self, outputs: Iterable[Any]) -> list[Node]:
        """The nodes that the outputs need, dependencies first (ascending ids)."""
        wanted: set[int] = set()
        pending = [edge.node for edge in outputs]
        while pending:
            node = pending.pop()
            if node.id not in wanted:
                wanted.add(node.id)
                pending += [e.node for e in node.inputs if not isinstance(e, Literal)]
        return [self.nodes[number] for number in sorted(wanted)]

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

    def __str__(self) -> str:
        return listing(self)

    def __repr__(self) -> str:
        return f"<Graph {self.name!r}: {len(self.nodes)} nodes>"


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
    first = next(arg for arg in args if isinstance(arg, Edge))
    graph = first.node.graph
    if graph is None:
        raise ended(first.node)
    return graph.apply(op, args, attrs)


register_frontend(Node, 2, _apply_to_nodes)
register_frontend(Output, 2, _apply_to_nodes)
