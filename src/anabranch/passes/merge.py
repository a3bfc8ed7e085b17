"""`merge`: join nodes with the same op, inputs and attrs (common sub-expression elimination)."""

from __future__ import annotations

from typing import Any

from anabranch.core.graph import Graph
from anabranch.core.identity import edge_key, part_digests, value_key
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

    def replace(rewrite: Rewrite, node: Node, inputs: tuple[Any, ...]) -> Any:
        if node.kind == "parameter" or any(id(part) in printing for part in parts_of(node)):
            return None
        attrs = tuple((key, value_key(value, known)) for key, value in sorted(node.attrs.items()))
        stays = first.setdefault((node.op, tuple(map(edge_key, inputs)), attrs), node.id)
        if stays == node.id:
            return None
        found = rewrite.mapping[stays]
        rewrite.report.append(f"merged {place(node)} into {place(found)}")
        return found

    return copied(graph, graph.nodes, replace)
