"""What a pass returns, and the loop that every node-by-node pass shares."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from anabranch.core.graph import Graph
from anabranch.core.node import Literal, Node
from anabranch.core.source import Source


@dataclass
class Rewrite:
    """A pass's result: the new graph, old node id to new node, and what was done, line by line."""

    graph: Graph
    mapping: dict[int, Node]
    report: list[str] = field(default_factory=list)

    def moved(self, edge: Any) -> Any:
        """The new edge for an old one; literals stay."""
        if isinstance(edge, Literal):
            return edge
        node = self.mapping[edge.node.id]
        return node if len(node.avals) == 1 else node.outputs[edge.index]


Pass = Callable[[Graph], Rewrite]


def copied(
    graph: Graph,
    nodes: Iterable[Node],
    replace: Callable[[Rewrite, Node, tuple[Any, ...]], Node | None] = lambda *_: None,
) -> Rewrite:
    """Copy these nodes into a new graph with all parameters, in order.

    `replace(rewrite, node, new inputs)` may name a node of the new graph that takes this node's
    place; then it also takes over its lines, names and logs.
    """
    new = Graph(graph.name, graph.backend)
    rewrite = Rewrite(new, {})
    kept = {node.id: node for node in (*graph.parameters, *nodes)}
    for _, node in sorted(kept.items()):
        inputs = tuple(map(rewrite.moved, node.inputs))
        found = replace(rewrite, node, inputs)
        if found is None:
            found = new.append(node.op, inputs, node.attrs, node.avals, like=node)
            if node.kind == "parameter":
                new.parameters.append(found)
        else:
            _take_over(found, node)
        rewrite.mapping[node.id] = found
    if graph.outputs:
        new.set_outputs(map(rewrite.moved, graph.outputs))
    return rewrite


def _take_over(stays: Node, goes: Node) -> None:
    lines = (stays.raw_source, *stays.also)
    more = [raw for raw in (goes.raw_source, *goes.also) if raw is not None and raw not in lines]
    object.__setattr__(stays, "also", (*stays.also, *dict.fromkeys(more)))
    object.__setattr__(stays, "logs", stays.logs + goes.logs)
    if stays.name is None:
        stays.name = goes.name


def place(node: Node) -> str:
    """`multiply (model.py:12)`: how reports name a node."""
    source: Source | None = node.source
    name = node.name or node.op.name
    return name if source is None else f"{name} ({source})"
