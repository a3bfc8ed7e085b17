"""`merge`: join nodes with the same op, inputs and attrs (common sub-expression elimination)."""

from __future__ import annotations

from typing import Any

from anabranch.core.graph import Graph
from anabranch.core.identity import edge_key, value_key
from anabranch.core.node import Node
from anabranch.passes.rewrite import Rewrite, copied, place


def merge(graph: Graph) -> Rewrite:
    """The first of several equal nodes stays and keeps the source lines of all."""
    first: dict[tuple[Any, ...], int] = {}  # key to the id of the old node that stays

    def replace(rewrite: Rewrite, node: Node, inputs: tuple[Any, ...]) -> Node | None:
        if node.kind == "parameter":
            return None
        attrs = tuple((key, value_key(value)) for key, value in sorted(node.attrs.items()))
        stays = first.setdefault((node.op, tuple(map(edge_key, inputs)), attrs), node.id)
        if stays == node.id:
            return None
        found = rewrite.mapping[stays]
        rewrite.report.append(f"merged {place(node)} into {place(found)}")
        return found

    return copied(graph, graph.nodes, replace)
