"""`prune`: drop the nodes that no output needs (dead code elimination)."""

from __future__ import annotations

from anabranch.core.graph import Graph
from anabranch.passes.rewrite import Rewrite, copied, place


def prune(graph: Graph) -> Rewrite:
    """Keep parameters, what the outputs depend on, and what is logged."""
    logged = [node for node in graph.nodes if node.logs]
    needed = graph.order([*graph.outputs, *logged])
    rewrite = copied(graph, needed)
    rewrite.report += [
        f"dropped {place(node)}" for node in graph.nodes if node.id not in rewrite.mapping
    ]
    return rewrite
