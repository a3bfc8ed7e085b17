"""What `why` answers: a finding with the trace that it speaks of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from anabranch.errors import ArgumentError
from anabranch.inspection.element import Elements, gradient_at, index_of, value_of
from anabranch.inspection.lookup import named
from anabranch.inspection.parts import Finding, Node
from anabranch.inspection.printed import Printed, plain
from anabranch.inspection.reading import is_finite
from anabranch.inspection.record import Record
from anabranch.inspection.trace import Trace
from anabranch.inspection.why import first_trouble, missing, why

PHASES = ("forward", "backward")


@dataclass
class Explanation(Printed):
    """A finding about one value, or the first thing that is wrong; as text, and as data.

    Attributes:
        trace: what the numbers in the finding count.
        finding: kind, cause, proof and all the rest, see `inspection/schema.json`.
        others: what else the trace has found, where nothing in particular was asked.
    """

    view: ClassVar[str] = "why"
    trace: Trace
    finding: Finding
    others: list[Finding] = field(default_factory=list)

    @property
    def data(self) -> dict[str, Any]:
        """The finding as plain data, with the names of the nodes that it numbers."""
        label = self.trace.label
        return {
            "report": self.view,
            "title": self.trace.title,
            "names": {str(node.id): label(node.id) for node in self.trace.nodes},
            "finding": plain(self.finding),
            "others": plain(self.others),
        }

    @property
    def kind(self) -> str:
        """`"gradient"`, or `"value"`, where nothing is wrong, else what is."""
        return self.finding.kind

    @property
    def cause(self) -> str | None:
        """The cause, from a closed list."""
        return self.finding.cause

    @property
    def text(self) -> str:
        """The reason in one sentence."""
        return self.finding.text or ""

    @property
    def node(self) -> Node | None:
        """The node where the cause sits."""
        place = self.finding.node
        return None if place is None else self.trace.nodes[place]

    @property
    def is_trouble(self) -> bool:
        """Whether there is something to look at."""
        return self.kind not in ("gradient", "value")


def explained(
    trace: Trace,
    name: str | None = None,
    *,
    index: Sequence[int] | None = None,
    phase: str | None = None,
    record: Record | None = None,
) -> Explanation:
    """The explanation of a value, of one element of it, or of the first trouble without a name.

    Args:
        trace: what is asked about.
        name: of the value.
        index: of one element.
        phase: `"forward"` asks for the value, `"backward"` for the gradient; else the gradient,
            but first the value if that is not finite.
        record: where single elements are taken from; else those that the trace lists.

    Raises:
        ArgumentError: `[unknown-name]`, or `[ambiguous-name]` where several values have it;
            `[bad-argument]` for a phase that there is not, or an index without a name;
            `[not-recorded]` for an element that is not there.
        OutOfRangeError: `[index-out-of-range]`.
    """
    if phase not in (None, *PHASES):
        raise ArgumentError("bad-argument", f"phase is {' or '.join(PHASES)}, not {phase!r}")
    if name is None:
        if index is not None:
            raise ArgumentError("bad-argument", "an index is one of a value: which one is it?")
        first, others = first_trouble(trace, phase)
        return Explanation(trace, first, others)
    node = named(trace, name)
    elements = Elements(trace, record)
    place = None if index is None else index_of(trace, node, index)
    if place is None:
        if phase == "forward" and (node.value is None or is_finite(node.value)):
            return Explanation(trace, value_of(elements, node, None))
        return Explanation(trace, why(trace, node, phase=phase))
    if phase is None:
        value = elements.value(node.id, place)
        phase = "forward" if value is not None and not math.isfinite(value) else "backward"
    if phase == "backward" and node.grad is None:
        return Explanation(trace, missing(trace, node))
    answer = value_of if phase == "forward" else gradient_at
    return Explanation(trace, answer(elements, node, place))
