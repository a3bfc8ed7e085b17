"""Records of programs that ran eagerly: of a tensor, and of a function called for it."""

from __future__ import annotations

from collections.abc import Sequence
from types import FrameType
from typing import Any

import numpy as np

from anabranch.core.leaves import PARAMETER
from anabranch.diff.region import Key, ancestors, key_of
from anabranch.frontends import engine
from anabranch.frontends.tensor import Tensor
from anabranch.inspection.naming import variables
from anabranch.inspection.record import Record, Recorder


def recorded_tensors(
    roots: Sequence[Tensor], ct: Any, backward: bool, frame: FrameType | None
) -> Record:
    """What was recorded for these tensors, and a backward pass from the first of them.

    `.grad` is neither read by the pass nor changed. The pass is left out when nothing requires a
    gradient.
    """
    record = Record()
    recorder = Recorder(record)
    edges = ancestors(roots)
    names = variables(frame)
    for edge in edges.values():
        if edge.node.id not in recorder.places:
            _enter(recorder, edge, names)
    record.roots = [recorder.place(root) for root in roots]  # type: ignore[misc]
    if backward and roots[0].requires_grad:
        seed = engine.seed(roots[0], ct)
        wanted = {edge.node.id for edge in edges.values() if edge.requires_grad}
        cts: dict[Key, Any] = {key_of(roots[0]): seed}
        region = {key: edge for key, edge in edges.items() if edge.node.id in wanted}
        recorder.walk_back(engine.steps(region.values(), wanted, recorded=False), cts, wanted)
        record.seed = seed
        _compare(record, edges, recorder)
    return record


def _enter(recorder: Recorder, edge: Tensor, names: dict[int, str]) -> None:
    node = edge.node
    single = len(node.avals) == 1
    values = (edge.value,) if single else edge.values
    if not node.inputs or edge.taken is not None:
        values = tuple(map(np.copy, values))  # users hold these and may change them
    name = edge.name or (node.name if single else None)
    recorder.add(
        node,
        values,
        name=name,
        variable=names.get(id(edge)),
        is_input=node.op is PARAMETER,
        requires_grad=edge.requires_grad,
    )


def _compare(record: Record, edges: dict[Key, Any], recorder: Recorder) -> None:
    """Note where `.grad` holds something else than what this pass brings."""
    for edge in edges.values():
        held = edge._grad
        if held is None or not np.any(held):
            continue
        entry = record.entries[recorder.places[edge.node.id]]
        brought = entry.grads[edge.index] if entry.grads else None
        if brought is None or not np.array_equal(held, brought, equal_nan=True):
            entry.held = np.copy(held)
