"""What `why` answers: a finding with the trace that it speaks of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from anabranch.inspection.lookup import named
from anabranch.inspection.parts import Finding, Node
from anabranch.inspection.printed import Printed, plain
from anabranch.inspection.trace import Trace
from anabranch.inspection.why import first_trouble, why


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
        """`"gradient"` where nothing is wrong, else what is."""
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
        return self.kind != "gradient"


def explained(trace: Trace, name: str | None = None) -> Explanation:
    """The explanation of one value's gradient, or of the first trouble where there is no name.

    Raises:
        ArgumentError: `[unknown-name]`, or `[ambiguous-name]` where several values have it.
    """
    if name is None:
        first = first_trouble(trace)
        return Explanation(trace, first, [one for one in trace.findings if one is not first])
    return Explanation(trace, why(trace, named(trace, name)))
