"""Graphs within a graph: nodes such as `call` hold a part as an attr, and passes go inside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from anabranch.core.graph import Graph
from anabranch.core.identity import all_parts, held_parts, is_graph
from anabranch.core.node import Node
from anabranch.passes.rewrite import Pass, Rewrite, copied


def parts_of(node: Node) -> Iterator[Graph]:
    """The graphs that a node holds."""
    return (value for value in node.attrs.values() if is_graph(value))


def logging_parts(graph: Graph) -> set[int]:
    """Ids of the parts that print when they run, themselves or by a part of their own."""
    found: set[int] = set()
    for part in all_parts(graph):
        if any(n.logs or any(id(p) in found for p in parts_of(n)) for n in part.nodes):
            found.add(id(part))
    return found


def inside(graph: Graph, function: Pass) -> tuple[Graph, list[str]]:
    """The graph with each part rewritten by a pass, and what was done there.

    A part that several nodes hold stays one part.
    """
    parts = all_parts(graph)
    if not parts:
        return graph, []
    new: dict[int, Graph] = {}
    report: list[str] = []
    for part in parts:
        rewrite = function(_with_parts(part, new))
        new[id(part)] = rewrite.graph
        report += [f"in {part.name}: {line}" for line in rewrite.report]
    return _with_parts(graph, new), report


def _with_parts(graph: Graph, new: dict[int, Graph]) -> Graph:
    """The graph with these parts, by id of the old ones, in the place of what it holds."""

    def replace(rewrite: Rewrite, node: Node, inputs: tuple[Any, ...]) -> Any:
        if not any(map(is_graph, node.attrs.values())):
            return None
        attrs = {key: new.get(id(value), value) for key, value in node.attrs.items()}
        return rewrite.graph.append(node.op, inputs, attrs, node.avals, like=node)

    if not held_parts(graph):
        return graph
    return copied(graph, graph.nodes, replace).graph
