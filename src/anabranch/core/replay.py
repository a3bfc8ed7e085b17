"""Run a graph on values of any front end by applying its ops again, one after another.

On arrays this computes, on eager tensors it records, on nodes it appends: the graph is a program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core.bind import bind, state
from anabranch.core.graph import Graph
from anabranch.core.node import Edge, Literal, Node


def replay(graph: Graph, arguments: Sequence[Any]) -> list[Any]:
    """The graph's outputs for these arguments, one for each parameter.

    What it records or appends keeps the lines, scopes and origins of the replayed nodes.
    """
    env = replayed(graph, arguments)
    return [env[edge.node.id][edge.index] for edge in graph.outputs]


def replayed(graph: Graph, arguments: Sequence[Any]) -> dict[int, tuple[Any, ...]]:
    """The output values of every node that the graph's outputs need, by node id."""
    env: dict[int, tuple[Any, ...]] = {
        node.id: (value,) for node, value in zip(graph.parameters, arguments, strict=True)
    }
    before = _, _, origin = state.line, state.scope, state.origin
    try:
        for node in graph.order(graph.outputs):
            if node.kind == "constant":
                env[node.id] = (node.attrs["value"],)
            elif node.id not in env:
                state.line, state.scope = node.raw_source, node.scope
                state.origin = node.origin or origin
                env[node.id] = _applied(node, env)
    finally:
        state.line, state.scope, state.origin = before
    return env


def _applied(node: Node, env: dict[int, tuple[Any, ...]]) -> tuple[Any, ...]:
    inputs = [e.value if isinstance(e, Literal) else env[e.node.id][e.index] for e in node.inputs]
    result = bind(node.op, *inputs, **node.attrs)
    if node.avals[0].weak and isinstance(result, np.generic):
        result = result.item()  # what came from Python numbers stays one
    values = result if len(node.avals) > 1 else (result,)
    for label, index in node.logs:
        if not isinstance(values[index], Edge):  # there is a value to print
            print(f"{label} = {getattr(values[index], 'value', values[index])}")
    return values
