"""`fold`: compute once, now, what does not depend on any parameter."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core.aval import aval_of
from anabranch.core.domain import outside
from anabranch.core.graph import Graph
from anabranch.core.leaves import CONSTANT
from anabranch.core.node import Literal, Node
from anabranch.core.text import attr_text
from anabranch.core.values import held_narrow
from anabranch.ops.layout import broadcast_to
from anabranch.passes.parts import parts_of
from anabranch.passes.pattern import known
from anabranch.passes.rewrite import Rewrite, copied, place

LARGEST = 4096  # elements of a result that was not as large before
_REPEATING = frozenset({broadcast_to})


def fold(graph: Graph) -> Rewrite:
    """Nodes on literals and constants become literals, or constants when they have axes.

    The reference computes them as a run would, so every bit is the same, NaN and infinities too.
    Not folded: what is logged or random, holds a graph, would fail, lies outside of its op's domain
    or would grow beyond `LARGEST` elements, a scalar output, and repetition by `broadcast_to`,
    cheaper to do than to keep.
    """

    def replace(rewrite: Rewrite, node: Node, inputs: tuple[Any, ...]) -> Any:
        if node.op is CONSTANT:
            return _scalar(node)
        if not _is_foldable(node) or not (node.avals[0].shape or rewrite.may_be_literal(node)):
            return None
        values = [known(edge) for edge in inputs]
        if any(value is None for value in values):
            return None
        result = _computed(node, values)
        if result is None:
            return None
        rewrite.report.append(f"folded {place(node)} to {_shown(result)}")
        return _standing(rewrite, node, inputs, result)

    return copied(graph, graph.nodes, replace, _concerns)


def _concerns(node: Node, inputs: tuple[Any, ...]) -> bool:
    if node.op is CONSTANT:
        return _scalar(node) is not None
    for edge in inputs:  # most graphs have no such node, so this is quick about the first one
        if known(edge) is None:
            return False
    return bool(inputs)


def _is_foldable(node: Node) -> bool:
    is_fixed = not getattr(node.op, "random", False) and node.op not in _REPEATING
    return bool(node.inputs and is_fixed and not (node.logs or any(parts_of(node))))


def _scalar(node: Node) -> Literal | None:
    """A constant without axes is a literal: readers show its value."""
    value = node.attrs["value"]
    return None if value.ndim else Literal(value[()])


def _computed(node: Node, values: list[Any]) -> Any:
    """What a run would compute; None where it would not have the node's aval, or fails."""
    largest = max([LARGEST, *(np.size(value) for value in values)])
    if len(node.avals) > 1 or node.avals[0].size > largest:
        return None
    if outside(node.op, values, node.attrs) is not None:
        return None  # a run may be asked to tell of it
    try:
        with np.errstate(all="ignore"):
            result = node.op.ref(*held_narrow(values), **node.attrs)
    except Exception:  # the run will raise it, at the user's line
        return None
    if node.avals[0].weak and hasattr(result, "item"):
        result = result.item()
    return result if aval_of(result) == node.avals[0] else None


def _standing(rewrite: Rewrite, node: Node, inputs: tuple[Any, ...], result: Any) -> Any:
    """The result as a literal, or as a constant that keeps the lines of those it came from."""
    if not node.avals[0].shape:
        return Literal(result[()] if isinstance(result, np.ndarray) else result)
    array = np.array(result, order="C")
    array.flags.writeable = False
    found = rewrite.graph.append(CONSTANT, (), {"value": array}, node.avals, like=node)
    for edge in inputs:
        if not isinstance(edge, Literal):
            rewrite.give(found, rewrite.kept(edge.node))
    return found


def _shown(value: Any) -> str:
    return attr_text(value) if np.ndim(value) else str(value)
