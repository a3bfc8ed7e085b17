"""Reverse mode: cotangents pushed from later nodes to earlier ones.

The invariant: when a node is reached, every node that uses it has already delivered, because ids
rise along edges and the walk counts them down. A node is visited once; each of its edges delivers
once, also when two edges join the same two nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.core.bind import state
from anabranch.core.node import Literal, Node
from anabranch.core.values import ARRAYS
from anabranch.diff.refusing import Observer, refusing
from anabranch.diff.region import Key, Step, key_of
from anabranch.diff.rules import meeting, pulled_back
from anabranch.ops.layout import broadcast_to


def reverse(
    steps: Sequence[Step],
    cts: dict[Key, Any],
    wanted: set[int],
    observer: Observer | None = None,
) -> dict[Key, Any]:
    """Walk the steps backward from the cotangents in `cts`, which is filled and returned.

    Args:
        steps: applied ops in topological order.
        cts: cotangents of the outputs by edge key.
        wanted: ids of nodes that lead to what is differentiated; other edges get nothing.
        observer: called with (node, input slot, contribution) for each contribution, in order.

    A key that is missing at the end is a structural zero: no path led there.

    Raises:
        NonFiniteError: `[non-finite]` under `config(nonfinite="raise")`.
    """
    if state.guard is None:
        return _walked(steps, cts, wanted, observer)
    # What is sent is judged, not what the rules form on the way: a slope may be infinite.
    with state.changed(door=state.trace):
        return _walked(steps, cts, wanted, refusing(steps, cts, observer))


def _walked(
    steps: Sequence[Step], cts: dict[Key, Any], wanted: set[int], observer: Observer | None
) -> dict[Key, Any]:
    before = state.origin
    y = steps[-1].y if steps else None
    meet = meeting(y)
    builds = not isinstance(y, ARRAYS)  # then what the rules make belongs to what they derive
    try:
        for node, y, xs in reversed(steps):
            ct = cts.get(node.id) if len(node.avals) == 1 else _all_cts(node, y, cts)
            if ct is None:
                continue
            common = node.op.common
            if common is not None:
                state.origin = (node, 0)
                common = common(ct, y, *xs, **node.attrs)
            for slot, edge in enumerate(node.inputs):
                if type(edge) is Literal or (source := edge.node).id not in wanted:
                    continue
                if len(source.avals) > 1 and not source.avals[edge.index].is_floating:
                    continue
                if builds:
                    state.origin = (node, slot)
                part = pulled_back(node, slot, ct, y, xs, common, meet)
                if part is None:
                    continue
                if observer is not None:
                    observer(node, slot, part)
                key = (source.id, edge.index) if edge.index else source.id
                arrived = cts.get(key)
                cts[key] = part if arrived is None else arrived + part
    finally:
        state.origin = before
    return cts


def _all_cts(node: Node, ys: Sequence[Any], cts: dict[Key, Any]) -> tuple[Any, ...] | None:
    """The cotangents of a node with several outputs, zeros where none arrived."""
    found = [cts.get(key_of(output)) for output in node.outputs]
    if all(ct is None for ct in found):
        return None
    return tuple(zeros_like(y) if ct is None else ct for y, ct in zip(ys, found, strict=True))


def zeros_like(value: Any) -> Any:
    """Zeros in the shape and dtype of a value of any front end."""
    return broadcast_to(value.dtype.type(0), value.shape)
