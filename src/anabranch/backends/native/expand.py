"""Nodes that are made of others, written as those before the code is."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from anabranch.backends.native.reductions import REDUCTIONS
from anabranch.core.bind import bind
from anabranch.core.dtype import is_floating, is_half
from anabranch.core.graph import Graph
from anabranch.core.node import Edge, Literal, Node
from anabranch.core.op import MadeOf
from anabranch.ops.elementwise import astype, multiply
from anabranch.ops.layout import reshape
from anabranch.ops.reduce import sum_
from anabranch.passes.merging import merge
from anabranch.passes.rewrite import in_place_of

PRODUCT = "product"  # what the records of such ops say


def expanded(graph: Graph) -> Graph:
    """The graph in terms of ops that have code of their own; itself where all have."""
    found = graph
    while any(map(_rule, found.order(found.outputs))):
        once, count = _rewritten(found)
        if not count:
            break  # no rule had anything to say
        found = merge(once).graph
    return found


def _rewritten(graph: Graph) -> tuple[Graph, int]:
    """The graph with nodes replaced by what they are made of, and how many were."""
    new, count = Graph(graph.name, graph.backend), 0
    values: dict[int, Any] = {}  # the edges that stand for an old node's outputs

    def moved(edge: Any) -> Any:
        return edge if isinstance(edge, Literal) else values[edge.node.id][edge.index]

    nodes = {node.id: node for node in (*graph.parameters, *graph.order(graph.outputs))}
    for _, node in sorted(nodes.items()):
        inputs = tuple(map(moved, node.inputs))
        made = _made(node, inputs)
        if made is None:
            made = new.append(node.op, inputs, node.attrs, node.avals, like=node)
            if node.kind == "parameter":
                new.parameters.append(made)
            made = made.outputs
        else:
            count += 1
        values[node.id] = made if isinstance(made, tuple) else (made,)
    new.set_outputs(map(moved, graph.outputs))
    return new, count


def _made(node: Node, inputs: tuple[Any, ...]) -> Any:
    """A node's outputs in terms of other ops; None where it stays."""
    rule = _rule(node)
    given = [edge.value if isinstance(edge, Literal) else edge for edge in inputs]
    if rule is None or not any(isinstance(one, Edge) for one in given):
        return None
    with in_place_of(node):
        return rule(*given, **node.attrs)


def _rule(node: Node) -> Any:
    """What gives a node's outputs in terms of other ops; None for one with code of its own."""
    if node.kind != "op":
        return None
    lower, dtype = node.op.lower, node.avals[0].dtype
    if isinstance(lower, MadeOf):
        return lower.rule
    if is_half(dtype) and lower in REDUCTIONS:
        return functools.partial(_in_float32, node)
    if lower == PRODUCT and dtype.kind in "biu":
        return functools.partial(_by_sums, node)
    is_mixed = any(edge.aval.dtype != dtype for edge in node.inputs)
    if lower == PRODUCT and is_floating(dtype) and is_mixed:
        return functools.partial(_in_one_dtype, node)
    return None


def constants_of(graph: Graph) -> list[Node]:
    """The nodes whose arrays a program is handed, in order."""
    return [node for node in graph.order(graph.outputs) if node.kind == "constant"]


def _in_float32(node: Node, *xs: Any, **attrs: Any) -> Any:
    """Halves are joined in float32, and the result is rounded once."""
    wide = bind(node.op, *(astype(x, np.float32) for x in xs), **attrs)
    return astype(wide, node.avals[0].dtype)


def _by_sums(node: Node, a: Any, b: Any) -> Any:
    """A product of integers: products of elements, summed in one loop; both wrap as in NumPy."""
    aval = node.avals[0]
    inside = np.dtype(np.uint8) if aval.dtype.kind == "b" else aval.dtype
    a, b = (x if x.dtype == inside else astype(x, inside) for x in (a, b))
    rows = a if len(a.shape) > 1 else bind(reshape, a, shape=(1, *a.shape))
    columns = b if len(b.shape) > 1 else bind(reshape, b, shape=(*b.shape, 1))
    terms = bind(
        multiply,
        bind(reshape, rows, shape=(*rows.shape, 1)),
        bind(reshape, columns, shape=(*columns.shape[:-2], 1, *columns.shape[-2:])),
    )
    total = bind(sum_, terms, axes=(len(terms.shape) - 2,), keepdims=False)
    return bind(reshape, astype(total, aval.dtype), shape=aval.shape)


def _in_one_dtype(node: Node, *xs: Any, **attrs: Any) -> Any:
    dtype = node.avals[0].dtype
    return bind(node.op, *(x if x.dtype == dtype else astype(x, dtype) for x in xs), **attrs)
