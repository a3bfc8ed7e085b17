"""Graphs of functions that depend on nothing but their parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from anabranch.core.aval import Aval, aval_of
from anabranch.core.bind import state
from anabranch.core.graph import Graph
from anabranch.core.node import Edge, Node
from anabranch.core.op import Op
from anabranch.core.values import ARRAYS
from anabranch.frontends.tensor import Tensor


class ClosedGraph(Graph):
    """A graph under construction that takes what a function captures as further parameters."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.captured: dict[Any, tuple[Any, Node]] = {}

    def lift(self, op: Op, arg: Any) -> Any:
        foreign = isinstance(arg, Edge) and arg.node._graph is not self._self
        return self.capture(arg) if foreign or type(arg) is Tensor else super().lift(op, arg)

    def lift_array(self, array: Any) -> Node:
        return self.capture(array)

    def capture(self, value: Any) -> Node:
        """The parameter that stands for a value from outside."""
        key = (id(value.node), value.index) if isinstance(value, Edge) else id(value)
        if key not in self.captured:
            node = self.given(f"captured {len(self.captured)}", aval_of(value))
            self.captured[key] = value, node
        return self.captured[key][1]

    def given(self, name: str, kind: Aval) -> Node:
        return self.parameter(name, kind.shape, kind.dtype, weak=kind.weak)

    def edge(self, value: Any) -> Any:
        """A result as an edge of this graph; None for what is no array."""
        if isinstance(value, Edge) and value.node._graph is self._self:
            return value
        return self.capture(value) if isinstance(value, (*ARRAYS, Tensor, Edge)) else None

    def closed(self) -> ClosedGraph:
        """This graph, done: it lets go of the values that its parameters stood for."""
        self.captured.clear()
        return self

    @contextmanager
    def running(self) -> Iterator[None]:
        with state.changed(trace=self, origin=None, scope="", line=None):
            yield


def cut(body: ClosedGraph, outputs: Sequence[Any], saved: Sequence[Any]) -> ClosedGraph:
    """The body with these outputs; saved values are parameters of it instead of being computed."""
    if not saved:
        body.set_outputs(outputs)
        return body
    new = ClosedGraph(body.name)
    moved: dict[tuple[int, int], Any] = {}

    for node in body.parameters:
        moved[node.id, 0] = new.given(str(node.name), node.avals[0])
    for i, edge in enumerate(saved):
        moved[edge.node.id, edge.index] = new.given(f"saved {i}", edge.aval)
    for node in body.order(outputs):
        if all((node.id, i) in moved for i in range(len(node.avals))):
            continue
        inputs = tuple(moved[e.node.id, e.index] if isinstance(e, Edge) else e for e in node.inputs)
        made = new.append(node.op, inputs, node.attrs, node.avals, like=node)
        for i, edge in enumerate(made.outputs):
            moved.setdefault((node.id, i), edge)
    new.set_outputs([moved[e.node.id, e.index] for e in outputs])
    return new
