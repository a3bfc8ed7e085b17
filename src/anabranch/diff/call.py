"""`call`: a graph as one node of another, so that a part is built once and used in several places.

The record stands here and not in `ops`, because its derivative rule is a walk over the part itself.
"""

from __future__ import annotations

from typing import Any

from anabranch.core.aval import Aval, aval_of
from anabranch.core.graph import Graph
from anabranch.core.identity import all_parts, is_graph
from anabranch.core.node import Literal, Node
from anabranch.core.op import MadeOf, Op
from anabranch.core.replay import replay, replayed
from anabranch.core.sample import normal, sample
from anabranch.core.values import settled
from anabranch.diff.region import Step, dependents, key_of
from anabranch.diff.reverse import reverse, zeros_like
from anabranch.errors import ArgumentError, ShapeError

_MANY = 20_000  # nodes: a part within a part within a part, each used twice, grows fast


def _aval(*inputs: Aval, graph: Graph) -> tuple[Aval, ...] | Aval:
    if len(inputs) != len(graph.parameters):
        names = ", ".join(str(p.name) for p in graph.parameters)
        raise ArgumentError(
            "argument-count",
            f'graph "{graph.name}" takes {len(graph.parameters)} values ({names}),'
            f" got {len(inputs)}",
        )
    for given, parameter in zip(inputs, graph.parameters, strict=True):
        wanted = parameter.avals[0]
        if (given.shape, given.dtype) != (wanted.shape, wanted.dtype):
            raise ShapeError(
                "argument-shape",
                f'parameter "{parameter.name}" of graph "{graph.name}" is {wanted}, got {given}',
            )
    outputs = tuple(edge.aval for edge in graph.outputs)
    return outputs if len(outputs) > 1 else outputs[0]


def _ref(*values: Any, graph: Graph) -> Any:
    _aval(*map(aval_of, values), graph=graph)  # names the parameter, not an op inside
    outputs = tuple(map(settled, replay(graph, values)))
    return outputs if len(outputs) > 1 else outputs[0]


def _all_cotangents(ct: Any, y: Any, *xs: Any, graph: Graph) -> list[Any]:
    """The cotangents of all inputs: the part is run again, and walked back through."""
    env = replayed(graph, xs)
    needed = graph.order(graph.outputs)
    edges = [edge for node in needed for edge in node.outputs]
    within = dependents(edges, graph.parameters)
    steps = [
        Step(
            node,
            env[node.id] if len(node.avals) > 1 else env[node.id][0],
            tuple(
                e.value if isinstance(e, Literal) else env[e.node.id][e.index] for e in node.inputs
            ),
        )
        for node in needed
        if node.id in within and node.inputs
    ]
    cts: dict[Any, Any] = {}
    several = len(graph.outputs) > 1
    for edge, one in zip(graph.outputs, ct if several else (ct,), strict=True):
        key = key_of(edge)
        cts[key] = one if key not in cts else cts[key] + one
    reverse(steps, cts, within)
    return [_cotangent(cts, p, x) for p, x in zip(graph.parameters, xs, strict=True)]


def _cotangent(cts: dict[Any, Any], parameter: Node, x: Any) -> Any:
    found = cts.get(key_of(parameter))
    return zeros_like(x) if found is None and hasattr(x, "dtype") else found


def _inlined(*xs: Any, graph: Graph) -> tuple[Any, ...] | None:
    """The part's own nodes; a part that prints, or that holds very many, stays one."""
    counts: dict[int, int] = {}  # of nodes, with those of the parts within, each time again
    for part in (*all_parts(graph), graph):
        if any(node.logs for node in part.nodes):
            return None
        held = [value for node in part.nodes for value in node.attrs.values() if is_graph(value)]
        counts[id(part)] = len(part.nodes) + sum(counts[id(one)] for one in held)
    return tuple(replay(graph, xs)) if counts[id(graph)] <= _MANY else None


def _rule(slot: int) -> Any:
    return lambda ct, y, *xs, common, graph: common[slot]


def _part(length: int) -> Graph:
    """A graph for the samples: x times y, plus x."""
    graph = Graph("part")
    x, y = (graph.parameter(name, (length,), float) for name in "xy")
    graph.set_outputs([x * y + x])
    return graph


CALL = Op(
    "call",
    aval=_aval,
    ref=_ref,
    vjp=_rule,
    common=_all_cotangents,
    arity=2,
    lower=MadeOf(_inlined),
    samples=(
        sample([2.0, 3.0], [5.0, 7.0], value=[12.0, 24.0], grads=([6, 8], [2, 3]), graph=_part(2)),
        sample(normal(3), normal(3), graph=_part(3)),
        sample(normal(1), normal(1), graph=_part(1)),
        sample(normal(0), normal(0), graph=_part(0)),
    ),
    doc="The outputs of a graph for these values, one for each of its parameters.",
)
