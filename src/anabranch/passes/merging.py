"""`merge`: join nodes with the same op, inputs and attrs (common sub-expression elimination)."""

from __future__ import annotations

from typing import Any

from anabranch.core.graph import Graph
from anabranch.core.identity import attrs_key, edge_key, part_digests
from anabranch.core.leaves import PARAMETER
from anabranch.core.node import Node
from anabranch.passes.parts import logging_parts, parts_of
from anabranch.passes.rewrite import Rewrite, copied, place


def merge(graph: Graph) -> Rewrite:
    """The first of several equal nodes stays and keeps the source lines of all.

    Parameters stay apart, and so do parts that print: each prints for itself.
    """
    printing = logging_parts(graph)
    known = part_digests(graph)
    first: dict[tuple[Any, ...], int] = {}  # key to the id of the old node that stays

    def stays(node: Node, inputs: tuple[Any, ...]) -> int:
        """The id of the old node that stays for this one, often itself."""
        if node.op is PARAMETER or (
            node.attrs and any(id(part) in printing for part in parts_of(node))
        ):
            return node.id
        key = (node.op, *map(_key, inputs), attrs_key(node, known) if node.attrs else "")
        return first.setdefault(key, node.id)

    def concerns(node: Node, inputs: tuple[Any, ...]) -> bool:
        return stays(node, inputs) != node.id

    def replace(rewrite: Rewrite, node: Node, inputs: tuple[Any, ...]) -> Any:
        found = rewrite.mapping[stays(node, inputs)]
        rewrite.report.append(f"merged {place(node)} into {place(found)}")
        return found

    return copied(graph, graph.nodes, replace, concerns)


def _key(edge: Any) -> Any:
    """What tells an input apart: a number for a node with one output, which most are."""
    return edge.id if type(edge) is Node and len(edge.avals) == 1 else edge_key(edge)
