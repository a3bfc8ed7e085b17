"""Records of graphs: of one run of a compiled one with all its values, or of its structure."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core.aval import aval_of
from anabranch.core.graph import Graph
from anabranch.core.leaves import CONSTANT, PARAMETER
from anabranch.core.node import Literal, Node
from anabranch.core.values import as_array
from anabranch.diff.region import Key, Step, ancestors, dependents, key_of
from anabranch.errors import GraphError, ShapeError
from anabranch.frontends.execution import Program
from anabranch.inspection.record import Record, Recorder, strong


def recorded_run(
    program: Program, arguments: Sequence[Any], *, ct: Any = None, backward: bool | None = None
) -> Record:
    """One run of the optimised graph on the reference backend with every value, and a walk back.

    The walk starts from the first output and goes to all floating parameters.
    """
    graph = program.optimised
    run = _Run()
    run.before()
    program.reference.run(arguments, run.observe)
    for node, value in zip(graph.parameters, arguments, strict=True):
        run.values[node.id] = (np.copy(value)[()] if isinstance(value, np.ndarray) else value,)
    record = recorded_graph(graph, run.values)
    for entry in record.entries:
        entry.seconds = run.seconds.get(entry.node.id)
    _walk_back(record, graph, run.values, ct, backward)
    return record


class _Run:
    """Watches a run: the values of each node, and how long it took."""

    def __init__(self) -> None:
        self.values: dict[int, tuple[Any, ...]] = {}
        self.seconds: dict[int, float] = {}
        self._since = 0.0

    def before(self) -> None:
        self._since = time.perf_counter()

    def observe(self, node: Node, xs: list[Any], out: Any) -> None:
        self.seconds[node.id] = time.perf_counter() - self._since
        self.values[node.id] = out if isinstance(out, tuple) else (out,)
        self._since = time.perf_counter()


def recorded_graph(graph: Graph, values: dict[int, tuple[Any, ...]] | None = None) -> Record:
    """The record of a graph: its structure, and the values where there are any.

    Raises:
        GraphError: `[no-outputs]`.
    """
    if not graph.outputs:
        raise GraphError("no-outputs", f'graph "{graph.name}" was given no outputs to look at')
    record = Record()
    recorder = record.recorder = Recorder(record)
    nodes = {node.id: node for node in (*graph.parameters, *graph.order(graph.outputs))}
    sources = [p for p in graph.parameters if p.aval.is_floating]
    wanted = dependents([e for _, n in sorted(nodes.items()) for e in n.outputs], sources)
    for _, node in sorted(nodes.items()):
        found = None if values is None else values.get(node.id)
        if node.op is CONSTANT:
            found = (node.attrs["value"],)
        recorder.add(
            node,
            found,
            name=node.name,
            is_input=node.op is PARAMETER,
            requires_grad=node.id in wanted,
        )
    record.roots = [recorder.place(edge) for edge in graph.outputs]  # type: ignore[misc]
    return record


def _walk_back(
    record: Record,
    graph: Graph,
    values: dict[int, tuple[Any, ...]],
    ct: Any,
    backward: bool | None,
) -> None:
    root = graph.outputs[0]
    region = ancestors([root])
    wanted = dependents(region.values(), [p for p in graph.parameters if p.aval.is_floating])
    can = root.node.id in wanted and (ct is not None or not root.shape)
    if not (can if backward is None else backward):
        return
    seed = _seed(root, ct)
    steps = []
    for node in dict.fromkeys(edge.node for edge in region.values()):
        if node.id in wanted and node.inputs:
            ys = tuple(map(strong, values[node.id]))
            xs = tuple(
                e.value if isinstance(e, Literal) else strong(_value(values, e))
                for e in node.inputs
            )
            steps.append(Step(node, ys if len(ys) > 1 else ys[0], xs))
    cts: dict[Key, Any] = {key_of(root): seed}
    assert record.recorder is not None
    record.recorder.walk_back(steps, cts, wanted)
    record.seed = seed


def _value(values: dict[int, tuple[Any, ...]], edge: Any) -> Any:
    node = edge.node
    return node.attrs["value"] if node.op is CONSTANT else values[node.id][edge.index]


def _seed(root: Any, ct: Any) -> Any:
    if ct is None:
        if root.shape:
            raise ShapeError(
                "implicit-cotangent",
                f"a gradient starts from a scalar, but this is {root.aval}",
                hint="ab.inspect(..., ct=...) starts from a cotangent of its shape",
            )
        return root.dtype.type(1)
    start = as_array(getattr(ct, "value", ct), root.dtype)
    if start.shape != root.shape:
        raise ShapeError(
            "shape-mismatch", f"the cotangent is {aval_of(start)}, the value {root.aval}"
        )
    return start
