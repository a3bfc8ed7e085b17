"""After which steps of a long program a look for signals is worth its microsecond."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anabranch.backends.native.schedule import Island, Loop, Product, Step, Structured

_OFTEN = 1_000_000.0  # ns of work between two looks, about
_PER_ELEMENT = 0.3  # ns for one node of a loop
_PER_TERM = 0.02  # ns for one product that is added up
_PER_MOVE = 2.0  # ns for one element that a kernel of another kind touches


def pauses(steps: Sequence[Step], end: int) -> Iterator[int]:
    """The steps, of those before `end`, after which the program looks for signals."""
    waited = 0.0
    for i, step in enumerate(steps[:end]):
        if isinstance(step, Island):  # which looks for itself
            waited = 0.0
            continue
        waited += nanoseconds(step)
        if waited > _OFTEN and i + 1 < len(steps):
            waited = 0.0
            yield i


def nanoseconds(step: Loop | Product | Structured) -> float:
    """About how long a step takes on one thread; a factor of a few does not matter."""
    if isinstance(step, Loop):
        elements = 1.0
        for length in step.space:
            elements *= length
        return elements * len(step.nodes) * _PER_ELEMENT
    if isinstance(step, Structured):
        touched = (*step.node.avals, *(edge.aval for edge in step.node.inputs))
        return _PER_MOVE * sum(int(aval.size) for aval in touched)
    left = step.node.inputs[0].aval
    finish = nanoseconds(step.finish) if step.finish else 0.0
    return finish + step.node.avals[0].size * (left.shape[-1] if left.shape else 1) * _PER_TERM
