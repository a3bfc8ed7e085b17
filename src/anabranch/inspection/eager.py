"""Records of programs that ran eagerly: of tensors, and of a function that is called for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from types import FrameType
from typing import Any

import numpy as np

from anabranch.core.aval import aval_of
from anabranch.core.bind import bind, state
from anabranch.core.dtype import is_floating
from anabranch.core.guard import bare
from anabranch.core.leaves import PARAMETER
from anabranch.core.op import Op
from anabranch.core.values import ARRAYS
from anabranch.diff.region import Key, ancestors, dependents, key_of
from anabranch.errors import ArgumentError, TraceError
from anabranch.frontends import engine
from anabranch.frontends.containers import argument_names, flatten, leaf_names, unflatten
from anabranch.frontends.evaluation import Evaluation
from anabranch.frontends.tensor import Tensor, make_tensor
from anabranch.inspection.formula import LONGEST
from anabranch.inspection.naming import assigned_name, variables
from anabranch.inspection.record import Record, Recorder


def recorded_tensors(
    roots: Sequence[Tensor],
    *,
    ct: Any = None,
    backward: bool | None = None,
    also: Sequence[Tensor] = (),
    frame: FrameType | None = None,
) -> Record:
    """What was recorded for these tensors, and a backward pass from the first of them.

    `.grad` is neither read by the pass nor changed.

    Args:
        roots: the results, the one to differentiate first.
        ct: its cotangent.
        backward: whether to walk back; None does where that needs no `ct` and can reach anything.
        also: tensors that belong into the record though no root may depend on them.
        frame: the caller's, whose variables name tensors.
    """
    root = roots[0]
    if backward is None:
        backward = root.requires_grad and (ct is not None or not root.shape)
    start = {key_of(root): engine.seed(root, ct)} if backward else {}
    return recorded_walk(roots, start, also=also, frame=frame)


def recorded_walk(
    roots: Sequence[Tensor],
    start: dict[Key, Any],
    *,
    sources: Sequence[Any] = (),
    also: Sequence[Tensor] = (),
    frame: FrameType | None = None,
) -> Record:
    """The record of these tensors, walked back from the cotangents in `start`.

    With `sources`, only what leads to them is wanted; else all that requires a gradient.
    """
    record = Record()
    recorder = Recorder(record)
    edges = ancestors([*roots, *also, *sources])
    names = variables(frame) if any(map(_is_nameless, (*edges.values(), *roots))) else {}
    for edge in edges.values():
        if edge.node.id not in recorder.places:
            _enter(recorder, edge, names)
    record.roots = [recorder.place(root) for root in roots]  # type: ignore[misc]
    if start:
        wanted = _wanted(edges, sources)
        record.seed = start.get(key_of(roots[0]))
        region = [edge for edge in edges.values() if edge.node.id in wanted]
        recorder.walk_back(engine.steps(region, wanted, recorded=False), start, wanted)
        _compare(record, edges.values(), recorder)
    return record


def _wanted(edges: dict[Key, Any], sources: Sequence[Any]) -> set[int]:
    if sources:
        return dependents(edges.values(), sources)
    return {edge.node.id for edge in edges.values() if edge.requires_grad}


def _is_nameless(edge: Tensor) -> bool:
    """Whether only a variable of the caller can tell what an input is called."""
    return edge.is_leaf and edge.name is None and assigned_name(edge.node, ()) is None


def _enter(recorder: Recorder, edge: Tensor, names: dict[int, str]) -> None:
    node = edge.node
    single = len(node.avals) == 1
    values = (edge.value,) if single else edge.values
    if not node.inputs or edge.taken is not None:
        values = tuple(map(np.copy, values))  # users hold these and may change them
    recorder.add(
        node,
        values,
        name=edge.name or (node.name if single else None),
        variable=names.get(id(edge)),
        is_input=node.op is PARAMETER,
        requires_grad=edge.requires_grad,
    )


def _compare(record: Record, edges: Iterable[Any], recorder: Recorder) -> None:
    """Note where `.grad` holds something else than what this pass brings."""
    for edge in edges:
        held = edge._grad
        if held is None or not np.any(held):
            continue
        entry = record.entries[recorder.places[edge.node.id]]
        brought = entry.grads[edge.index] if entry.grads else None
        if brought is None or not np.array_equal(held, brought, equal_nan=True):
            entry.held = np.copy(held)


class Clock:
    """Stands at the door of `bind` and notes how long each recorded op took."""

    def __init__(self) -> None:
        self.seconds: dict[int, float] = {}
        self._inner = state.door

    def apply(self, op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        with state.changed(door=self._inner):
            start = time.perf_counter()
            out = bind(op, *args, **attrs)
            took = time.perf_counter() - start
        one = out[0] if isinstance(out, tuple) else out
        if isinstance(one, Tensor) and one.is_tracked:
            self.seconds[one.node.id] = took
        return out


def recorded_call(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    *,
    ct: Any = None,
    backward: bool | None = None,
) -> Record:
    """A call of the function, evaluated as the transforms do it, and a walk back from its result.

    Floating arguments become inputs under the names of the parameters; where there are none,
    Python integers do. Everything else is passed on as it is.
    """
    if state.trace is not None:
        raise TraceError("inspect-in-trace", "a trace has no values to look at")
    leaves, structure = flatten((tuple(args), kwargs))
    names = _names(function, structure)
    chosen = [i for i, leaf in enumerate(leaves) if _is_float(leaf)]
    chosen = chosen or [i for i, leaf in enumerate(leaves) if type(leaf) is int]

    def called(*values: Any) -> Any:
        filled = list(leaves)
        for i, value in zip(chosen, values, strict=True):
            filled[i] = value
        positional, named = unflatten(structure, filled)
        return function(*positional, **named)

    clock = Clock()
    wanted: dict[int | str, str] = {turn: names[i] for turn, i in enumerate(chosen)}
    with state.changed(door=clock), np.errstate(all="ignore"):
        values = [bare(leaves[i]) for i in chosen]
        run = Evaluation(called, values, {}, wanted, _refuse, copies=True)
    roots = [e if isinstance(e, Tensor) else _lone(e) for e in run.edges()]
    if not roots:
        raise ArgumentError("bad-result", f"{_label(function)} returned nothing to look at")
    record = recorded_tensors(roots, ct=ct, backward=backward, also=run.aliases)
    for entry in record.entries:
        entry.seconds = clock.seconds.get(entry.node.id)
    record.title = _title(function, names)
    record.notes += [("restated", line, None) for line in run.restated]
    return record


def _names(function: Callable[..., Any], structure: Any) -> list[str]:
    args, kwargs = structure.children()
    roots = [*argument_names(function, args.num_children), *kwargs.entries()]
    parts = [*args.children(), *kwargs.children()]
    return [
        leaf for part, root in zip(parts, roots, strict=True) for leaf in leaf_names(part, root)
    ]


def _is_float(leaf: Any) -> bool:
    return type(leaf) is float or (isinstance(leaf, (*ARRAYS, Tensor)) and is_floating(leaf.dtype))


def _lone(value: Any) -> Tensor:
    """A result that depends on nothing, as a value of its own."""
    if not isinstance(value, ARRAYS) and not isinstance(value, bool | int | float):
        raise ArgumentError("bad-result", f"a {type(value).__name__} is no value to look at")
    return make_tensor(np.asarray(value)[()])


def _title(function: Callable[..., Any], names: Sequence[str]) -> str | None:
    """`f(x, y)`, if that is short and the function has a name."""
    label = _label(function)
    text = f"{label}({', '.join(names)})"
    return None if label == "<lambda>" else text if len(text) <= LONGEST else label


def _label(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _refuse(name: str, value: Any) -> ArgumentError:
    return ArgumentError("not-differentiable", f"{name} is {aval_of(value)} and has no derivative")
