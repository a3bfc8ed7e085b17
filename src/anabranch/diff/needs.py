"""Which values a derivative rule reads, found by laying the rule out on nodes."""

from __future__ import annotations

from typing import Any

from anabranch.core.aval import aval_of
from anabranch.core.bind import state
from anabranch.core.graph import Graph
from anabranch.core.node import Edge, Node
from anabranch.diff.region import ancestors
from anabranch.diff.rules import partial_value


def read_values(node: Node, slot: int, y: Any, xs: tuple[Any, ...]) -> tuple[set[int], bool]:
    """What the vjp rule of input `slot` reads: which inputs, and whether the output.

    Shapes and dtypes are no values: the rule of a sum reads nothing.
    """
    graph = Graph("needs")
    with state.changed(trace=None, origin=None):
        inputs = [
            graph.parameter(f"x{i}", (a := aval_of(x)).shape, a.dtype) for i, x in enumerate(xs)
        ]
        several = len(node.avals) > 1
        ys = [graph.parameter(f"y{i}", a.shape, a.dtype) for i, a in enumerate(node.avals)]
        cts = [graph.parameter(f"ct{i}", a.shape, a.dtype) for i, a in enumerate(node.avals)]
        out, ct = (tuple(ys), tuple(cts)) if several else (ys[0], cts[0])
        rule = node.op.gradient(slot)
        if node.op.partials is not None:
            value = partial_value(rule, out, tuple(inputs), node)
        else:
            common = node.op.common
            extra = {} if common is None else {"common": common(ct, out, *inputs, **node.attrs)}
            value = rule(ct, out, *inputs, **extra, **node.attrs)
    read = set(ancestors([value])) if isinstance(value, Edge) else set()
    return {i for i, x in enumerate(inputs) if x.id in read}, any(y.id in read for y in ys)
