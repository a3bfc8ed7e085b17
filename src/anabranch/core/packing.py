"""Graphs as flat data, for pickle and deepcopy: rows of plain values, so that nothing recurses.

Edges become numbers and source positions become words; ops travel by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from anabranch.core.aval import Aval
from anabranch.core.leaves import CONSTANT, PARAMETER
from anabranch.core.node import Literal, Node, make_node
from anabranch.core.op import Op
from anabranch.core.source import RawSource, place_of

if TYPE_CHECKING:
    from anabranch.core.graph import Graph

# An edge is a node's number, or (number, output); a literal stays what it is.
Origin = tuple[int, int] | None


class Row(NamedTuple):
    """One node. `origin` counts the graph's own nodes from 0 and the others from -1 downward."""

    op: Op
    inputs: tuple[Any, ...]
    attrs: dict[str, Any]
    avals: tuple[Aval, ...]
    name: str | None
    scope: str
    raw_source: RawSource | None
    origin: Origin
    logs: tuple[tuple[str, int], ...]
    also: tuple[RawSource, ...]
    id: int


class Packed(NamedTuple):
    """A graph without its nodes: what was said of it, and the rows to make them from.

    `others` are nodes of other graphs whose derivatives stand in this one: their own rows, without
    inputs, since all that is asked of them is what they were and where they were written.
    """

    name: str
    backend: str | None
    rows: list[Row]
    others: list[Row]
    outputs: list[Any]


class _Packer:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.places: dict[RawSource, RawSource] = {}
        self.others: dict[int, int] = {}  # the object's id, in order of appearance
        self.waiting: list[Node] = []

    def packed(self) -> Packed:
        graph = self.graph
        rows = [self.row(node, tuple(map(_number, node.inputs))) for node in graph.nodes]
        # Origins lead one step out of the graph: the origins of the others stay behind.
        others = [self.row(node, ())._replace(origin=None) for node in tuple(self.waiting)]
        outputs = [_number(edge) for edge in graph.outputs]
        return Packed(graph.name, graph.backend, rows, others, outputs)

    def row(self, node: Node, inputs: tuple[Any, ...]) -> Row:
        return Row(
            node.op, inputs, node.attrs, node.avals, node.name, node.scope,
            None if node.raw_source is None else self.place(node.raw_source),
            self.origin(node), node.logs, tuple(map(self.place, node.also)), node.id,
        )  # fmt: skip

    def place(self, raw: RawSource) -> RawSource:
        found = self.places.get(raw)
        if found is None:
            found = self.places[raw] = RawSource(place_of(raw), 0)
        return found

    def origin(self, node: Node) -> Origin:
        if node.origin is None:
            return None
        source, slot = node.origin
        if source.graph is self.graph:
            return source.id, slot
        if id(source) not in self.others:
            self.others[id(source)] = len(self.others)
            self.waiting.append(source)
        return -1 - self.others[id(source)], slot


def pack(graph: Graph) -> Packed:
    """The graph as flat data."""
    return _Packer(graph).packed()


def unpack(graph: Graph, packed: Packed) -> None:
    """Fill an empty graph from flat data."""
    nodes = graph.nodes
    others = _others(packed.others)

    def edge(number: Any) -> Any:
        if type(number) is int:
            return nodes[number]
        return number if type(number) is Literal else nodes[number[0]].outputs[number[1]]

    for row in packed.rows:
        if row.op is CONSTANT:
            row.attrs["value"].flags.writeable = False
        like: Any = row
        if row.origin is not None:
            number, slot = row.origin
            like = row._replace(origin=((nodes if number >= 0 else others)[number], slot))  # type: ignore[arg-type]
        node = graph.append(row.op, tuple(map(edge, row.inputs)), row.attrs, row.avals, like=like)
        if row.op is PARAMETER:
            graph.parameters.append(node)
    if packed.outputs:
        graph.set_outputs(map(edge, packed.outputs))


def _others(rows: list[Row]) -> dict[int, Node]:
    """Nodes that stand for those of other graphs, by their numbers from -1 downward."""
    return {
        -1 - place: make_node(
            row.op, (), row.attrs, row.avals, row.id, row.raw_source, None, row.name, row.scope
        )
        for place, row in enumerate(rows)
    }


def _number(edge: Any) -> Any:
    if type(edge) is Literal:
        return edge
    return edge.node.id if len(edge.node.avals) == 1 else (edge.node.id, edge.index)
