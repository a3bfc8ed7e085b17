"""The graph of a recorded eager result, as a graph of its own."""

from __future__ import annotations

from typing import Any

from anabranch.core.entry import boundary
from anabranch.core.node import Literal, Node
from anabranch.diff.region import ancestors
from anabranch.errors import ArgumentError
from anabranch.frontends.manual import Graph
from anabranch.frontends.tensor import Tensor


@boundary
def graph(*results: Tensor, name: str = "eager") -> Graph:
    """What was recorded for these tensors, in order.

    Leaves that require a gradient are parameters, in order of first use; others are constants.

    Raises:
        ArgumentError: `[not-a-tensor]`.

    Example:
        >>> import anabranch as ab
        >>> x = ab.tensor(2.0, requires_grad=True, name="x")
        >>> print(ab.graph(x * x))
        graph "eager": 2 nodes, 1 parameter
        #0 parameter "x" : f64[]
        #1 multiply(#0, #0) : f64[]
        outputs #1
    """
    for result in results:
        if not isinstance(result, Tensor):
            raise ArgumentError("not-a-tensor", f"a {type(result).__name__} records nothing")
    found = {tensor.node.id: tensor for tensor in ancestors(results).values()}
    leaves = [t for t in found.values() if t.node.kind == "parameter"]
    others = [t for t in found.values() if t.node.kind != "parameter"]
    new = Graph(name)
    moved: dict[int, Node] = {}

    def edge_of(edge: Any) -> Any:
        if isinstance(edge, Literal):
            return edge
        node = moved[edge.node.id]
        return node.outputs[edge.index] if len(node.avals) > 1 else node

    # Parameters come first, as in a graph by hand or by a trace.
    for tensor in leaves + others:
        old = tensor.node
        if old.kind == "constant":
            made = new.constant(tensor.value, name=tensor.name)
        else:
            inputs = tuple(map(edge_of, old.inputs))
            made = new.append(old.op, inputs, old.attrs, old.avals, like=old)
            if old.kind == "parameter":
                new.parameters.append(made)
                made.name = tensor.name or f"p{len(new.parameters) - 1}"
            elif len(old.avals) == 1:
                made.name = tensor.name
        moved[old.id] = made
    new.set_outputs(map(edge_of, results))
    return new
