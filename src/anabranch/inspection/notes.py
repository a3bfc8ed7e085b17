"""What else there is to know about a recording: nothing wrong, but good to see."""

from __future__ import annotations

from anabranch.core.told import number_text
from anabranch.inspection.parts import Note, Summary
from anabranch.inspection.reading import norm
from anabranch.inspection.trace import Trace

MOST = 20  # notes of a kind


def notes(trace: Trace) -> list[Note]:
    """Gradients that were not zero before, and edges where a zero absorbed an infinite slope."""
    return [*_held(trace)[:MOST], *_absorbed(trace)[:MOST]]


def _held(trace: Trace) -> list[Note]:
    return [
        Note(
            kind="gradients-not-zero",
            text=(
                f"{trace.label(node.id)}.grad holds {_size(node.held)} and this pass brings"
                f" {_size(node.grad)}: gradients add up until zero_grad() or backward_fresh()"
            ),
            node=node.id,
        )
        for node in trace.nodes
        if node.held is not None and node.is_leaf
    ]


def _absorbed(trace: Trace) -> list[Note]:
    return [
        Note(
            kind="absorbed",
            text=(
                f"{trace.label(edge.from_)} → {trace.label(edge.to)}: in {edge.absorbed} elements"
                " an upstream of 0 met a local derivative that is not finite, and 0 was sent"
            ),
            node=edge.to,
        )
        for edge in trace.edges
        if edge.absorbed
    ]


def _size(found: Summary | None) -> str:
    if found is None:
        return "nothing"
    if found.v is not None and not isinstance(found.v, list):
        return number_text(found.v)
    return f"a norm of {number_text(norm(found))}"
