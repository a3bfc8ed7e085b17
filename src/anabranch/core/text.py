"""The listing of a graph: a header, then one line for each node, then the outputs.

graph "demo": 4 nodes, 1 parameter
#0 parameter "x" : f64[]
#1 square(#0) : f64[]
#2 square(#1) : f64[]
#3 multiply(#2, 3.0) : f64[]
outputs #3
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from anabranch.core.graph import Graph
    from anabranch.core.node import Node

_INLINE = 8  # elements of a constant that a line still shows in full


def listing(graph: Graph) -> str:
    """The whole listing of a graph."""
    lines = [
        f"graph {json.dumps(graph.name)}: {_count(len(graph.nodes), 'node')}, "
        f"{_count(len(graph.parameters), 'parameter')}"
    ]
    lines += map(node_line, graph.nodes)
    if graph.outputs:
        lines.append("outputs " + ", ".join(map(edge_text, graph.outputs)))
    return "\n".join(lines)


def node_line(node: Node) -> str:
    """`#1 "u" = multiply(#0, #0) : f64[]`."""
    types = ", ".join(map(str, node.avals))
    if node.kind == "parameter":
        return f"{node.ref} parameter {json.dumps(node.name)} : {types}"
    arguments = [edge_text(edge) for edge in node.inputs]
    arguments += [f"{key}={attr_text(value)}" for key, value in sorted(node.attrs.items())]
    name = f"{json.dumps(node.name)} = " if node.name else ""
    return f"{node.ref} {name}{node.op.name}({', '.join(arguments)}) : {types}"


def edge_text(edge: Any) -> str:
    """`#3`, `#3.1` for a further output, or the literal itself."""
    if not hasattr(edge, "node"):
        return repr(edge)
    node = edge.node
    return node.ref if len(node.avals) == 1 else f"{node.ref}.{edge.index}"


def attr_text(value: Any) -> str:
    """An attr as it stands in a line; long constants are shortened."""
    if isinstance(value, np.ndarray):
        if value.size <= _INLINE:
            return json.dumps(value.tolist())
        return f"<{value.size} values>"
    if isinstance(value, np.dtype):
        return value.name
    return repr(value)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
