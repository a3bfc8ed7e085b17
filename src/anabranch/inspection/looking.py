"""`ab.inspect`: the one door to a report, for whatever way a program was built."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

from anabranch.core.entry import boundary
from anabranch.core.graph import Graph, ended
from anabranch.core.node import Edge
from anabranch.core.source import user_frame
from anabranch.errors import ArgumentError
from anabranch.frontends.compiled import CompiledFunction
from anabranch.frontends.execution import Program
from anabranch.frontends.manual import CompiledGraph
from anabranch.frontends.manual import Graph as ManualGraph
from anabranch.frontends.tensor import Tensor
from anabranch.inspection.eager import recorded_call, recorded_tensors
from anabranch.inspection.explanation import Explanation
from anabranch.inspection.graphs import recorded_graph, recorded_run
from anabranch.inspection.record import Record
from anabranch.inspection.report import Report

DETAILS = ("full", "summary", "shape")


@boundary
def inspect(
    subject: Any,
    *args: Any,
    ct: Any = None,
    backward: bool | None = None,
    detail: str = "full",
    **kwargs: Any,
) -> Report:
    """A report on a run: every value, every gradient, and how they came about.

    Args:
        subject: what to look at.
            A tensor, or a list of them: what was recorded for it; further tensors as arguments
            belong into the report though it may not depend on them.
            A function with its arguments: it is called once, as `ab.grad` would call it; floating
            arguments become inputs.
            A compiled function or graph with its arguments: one run on the reference backend.
            A node with values for the parameters of its graph: one run of the graph as built.
            A graph or a node alone: the structure, without values.
        ct: the cotangent of the (first) result, of its shape.
        backward: whether to walk back from the result. By default where it can: from a scalar, or
            with `ct`. `.grad` of tensors is never changed.
        detail: `"full"`; `"summary"` gives elements of scalars only; `"shape"` leaves all data out.

    Raises:
        ShapeError: `[implicit-cotangent]` for `backward=True` on what is no scalar, without `ct`.
        ArgumentError: `[not-a-tensor]` for what records nothing, `[bad-argument]`.

    Example:
        >>> import anabranch as ab
        >>> report = ab.inspect(lambda x, y: (x * y + x) ** 2, 2.0, 3.0)
        >>> [(node.label, node.value.v, node.grad.v) for node in report.trace.nodes[:2]]
        [('x', 2.0, 64.0), ('y', 3.0, 32.0)]
    """
    if detail not in DETAILS:
        raise ArgumentError("bad-argument", f"detail is {', '.join(DETAILS)}, not {detail!r}")
    options: dict[str, Any] = {"ct": ct, "backward": backward}
    return Report(_recorded(subject, args, kwargs, options), detail)


@boundary
def why(subject: Any, name: str | None = None, *args: Any, **kwargs: Any) -> Explanation:
    """Why a value has the gradient it has: short for `ab.inspect(subject, *args).why(name)`.

    Args:
        subject: as for `ab.inspect`.
        name: what the value is called; without it, the first thing that is wrong.
        args, kwargs: as for `ab.inspect`.

    Raises:
        ArgumentError: `[unknown-name]`, `[ambiguous-name]`, and what `ab.inspect` raises.

    Example:
        >>> import anabranch as ab
        >>> x = ab.tensor(2.0, requires_grad=True, name="x")
        >>> ab.why(x * 0.0 + 1.0, "x").cause
        'multiplied-by-zero'
    """
    return inspect(subject, *args, **kwargs).why(name)


def _recorded(
    subject: Any, args: Sequence[Any], kwargs: dict[str, Any], options: dict[str, Any]
) -> Record:
    tensors = _tensors(subject)
    if tensors:
        also = [tensor for one in args for tensor in _tensors(one, needed=True)]
        return recorded_tensors(tensors, **options, also=also, frame=user_frame())
    if isinstance(subject, types.MethodType) and isinstance(subject.__func__, CompiledFunction):
        args, subject = (subject.__self__, *args), subject.__func__
    if isinstance(subject, CompiledFunction | CompiledGraph):
        program, values = subject.prepared(*args, **kwargs)
        return recorded_run(program, values, **options)
    if isinstance(subject, Edge):
        graph = subject.node.graph
        if graph is None:
            raise ended(subject.node)
        return _of_node(graph, subject, args, kwargs, options)
    if isinstance(subject, Graph):
        return recorded_graph(subject)
    if callable(subject):
        return recorded_call(subject, args, kwargs, **options)
    raise ArgumentError(
        "not-a-tensor",
        f"a {type(subject).__name__} records nothing to look at",
        hint="ab.inspect(z) takes a tensor, ab.inspect(f, *args) a function",
    )


def _tensors(value: Any, needed: bool = False) -> list[Tensor]:
    found = list(value) if isinstance(value, list | tuple) else [value]
    if found and all(isinstance(one, Tensor) for one in found):
        return found
    if needed:
        raise ArgumentError("not-a-tensor", f"a {type(value).__name__} is no tensor")
    return []


def _of_node(
    graph: Graph, edge: Edge, args: Sequence[Any], kwargs: dict[str, Any], options: dict[str, Any]
) -> Record:
    """The graph of a node, as built: with its values if there are arguments, else without."""
    copy = graph.duplicate(ManualGraph(graph.name))
    copy.set_outputs([copy.nodes[edge.node.id].outputs[edge.index]])
    if not (args or kwargs or not graph.parameters):
        return recorded_graph(copy)
    program = Program(copy, "reference", ())
    compiled = CompiledGraph(copy, True, program)
    return recorded_run(program, compiled.prepared(*args, **kwargs)[1], **options)
