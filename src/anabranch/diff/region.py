"""The part of a recorded program that a derivative concerns, as steps for the walks.

A step is a node with its output and its input values. Which values they are decides what a walk
does: arrays compute at once, tensors record, nodes append. Several outputs come as a tuple.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from anabranch.core.node import Literal, Node
from anabranch.core.op import NoGradient

Key = int | tuple[int, int]


class Step(NamedTuple):
    """One applied op with the values at its ends."""

    node: Node
    y: Any
    xs: tuple[Any, ...]


def key_of(edge: Any) -> Key:
    """What cotangents and tangents are filed under: the node's id, with the index if not 0."""
    number: int = edge.node.id
    return (number, edge.index) if edge.index else number


def ancestors(edges: Iterable[Any]) -> dict[Key, Any]:
    """Every edge that these depend on, themselves included, by key in topological order."""
    found: dict[Key, Any] = {}
    pending = list(edges)
    while pending:
        edge = pending.pop()
        key = key_of(edge)
        if key not in found:
            found[key] = edge
            pending += [e for e in edge.node.inputs if type(e) is not Literal]
    return in_order(found)


def in_order(found: dict[Key, Any]) -> dict[Key, Any]:
    """These edges by rising node id, which is topological."""
    try:
        return {key: found[key] for key in sorted(found)}
    except TypeError:  # some keys are pairs
        return dict(sorted(found.items(), key=_number))


def _number(item: tuple[Key, Any]) -> tuple[int, int]:
    key = item[0]
    return key if isinstance(key, tuple) else (key, 0)


def dependents(edges: Iterable[Any], sources: Iterable[Any]) -> set[int]:
    """Ids of the nodes among `edges` that depend smoothly on a source, sources included.

    Edges through integers, bools and slots without gradient do not count: what lies behind them
    is a structural zero.
    """
    found = {edge.node.id for edge in sources}
    for edge in edges:
        node = edge.node
        if node.id not in found and any(aval.is_floating for aval in node.avals):
            for slot, source in enumerate(node.inputs):
                if (
                    not isinstance(source, Literal)
                    and source.node.id in found
                    and source.aval.is_floating
                    and not isinstance(node.op.gradient(slot), NoGradient)
                ):
                    found.add(node.id)
                    break
    return found


def node_steps(edges: Iterable[Any], within: set[int]) -> list[Step]:
    """Steps of graph nodes, whose values are the edges themselves."""
    nodes = {edge.node.id: edge.node for edge in edges if edge.node.id in within}
    return [
        Step(
            node,
            node if len(node.avals) == 1 else node.outputs,
            tuple(e.value if isinstance(e, Literal) else e for e in node.inputs),
        )
        for node in nodes.values()
    ]
