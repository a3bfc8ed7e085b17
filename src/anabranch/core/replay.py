"""Run a graph on values of any front end by applying its ops again, one after another.

On arrays this computes, on eager tensors it records, on nodes it appends: the graph is a program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from anabranch.core.bind import bind
from anabranch.core.graph import Graph
from anabranch.core.node import Literal


def replay(
    graph: Graph, arguments: Sequence[Any], lift: Callable[[Any], Any] = lambda v: v
) -> list[Any]:
    """The graph's outputs for these arguments, one for each parameter.

    `lift` may turn the value of a constant node into something else.
    """
    env: dict[int, tuple[Any, ...]] = {
        node.id: (value,) for node, value in zip(graph.parameters, arguments, strict=True)
    }
    for node in graph.order(graph.outputs):
        if node.kind == "constant":
            env[node.id] = (lift(node.attrs["value"]),)
        elif node.id not in env:
            inputs = [
                e.value if isinstance(e, Literal) else env[e.node.id][e.index] for e in node.inputs
            ]
            result = bind(node.op, *inputs, **node.attrs)
            env[node.id] = result if len(node.avals) > 1 else (result,)
    return [env[edge.node.id][edge.index] for edge in graph.outputs]
