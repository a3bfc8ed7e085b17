"""What `why` answers: a finding with the trace that it speaks of, readable as text."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.core.told import number_text
from anabranch.inspection.lookup import named
from anabranch.inspection.parts import Evidence, Finding, Node, Path, Share, Summary
from anabranch.inspection.reading import norm
from anabranch.inspection.trace import Trace
from anabranch.inspection.why import first_trouble, why


@dataclass
class Explanation:
    """A finding about one value; `str` tells it, `finding` is the same as data.

    Attributes:
        trace: what the numbers in the finding count.
        finding: kind, cause, proof and all the rest, see `inspection/schema.json`.
    """

    trace: Trace
    finding: Finding

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

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        found, trace = self.finding, self.trace
        lines = []
        if found.about is not None:
            about = trace.nodes[found.about]
            lines.append(f"{trace.label(about.id)}   {about.type}   gradient {amount(about.grad)}")
        if found.text:
            lines += ["", found.text]
        if self.node is not None:
            lines += ["", f"  {self._place(self.node)}"]
        if found.bad and found.of and found.of > 1:
            at = f", first at {found.index}" if found.index else ""
            zeros = "" if self.is_trouble else "0 in "
            lines.append(f"  {zeros}{found.bad} of {found.of} elements{at}")
        lines += [f"  {self._evidence(one)}" for one in found.proof or ()]
        lines += self._more()
        if found.hint:
            lines += ["", f"way out: {found.hint}"]
        return lines

    def _more(self) -> list[str]:
        found, trace = self.finding, self.trace
        lines: list[str] = []
        if found.shares and not self.is_trouble:
            lines += ["", *(f"  {self._share(one)}" for one in found.shares)]
        if found.paths:
            lines += ["", *(f"  {self._path(one)}" for one in found.paths)]
        if found.more_paths:
            lines.append(f"  and {found.more_paths} more paths")
        if found.steps:
            lines += ["", *(self._step(one.node, one.at_fault) for one in found.steps)]
        if found.reaches:
            names = [trace.label(i) for i in found.reaches[:6]]
            more = f" and {len(found.reaches) - 6} more" if len(found.reaches) > 6 else ""
            lines += ["", f"  it reaches {', '.join(names)}{more}"]
        if found.reaches_root is False:
            lines += ["", "  it does not reach the result"]
        lines += [
            f"  {one.question}: {'yes' if one.yes else 'no'} ({one.evidence})"
            for one in found.answers or ()
        ]
        return lines

    def _place(self, node: Node) -> str:
        line = self.trace.line(node)
        written = self.trace.written(node) or node.op
        where = f"   {line[0]}:{line[1]}   {line[2]}" if line else ""
        return f"{self.trace.label(node.id)} = {written}   {node.type}{where}"

    def _evidence(self, one: Evidence) -> str:
        value = "" if one.v is None else f" = {number_text(one.v)}"
        size = "" if one.summary is None else f"   {amount(one.summary)}"
        note = f"   {one.note}" if one.note else ""
        return f"{one.label}{value}{size}{note}"

    def _share(self, one: Share) -> str:
        local = one.local
        factor = "" if local is None or local.v is None else f" × {number_text(local.v)}"
        through, up, came = self.trace.label(one.through), one.upstream, amount(one.amount)
        if factor:
            return f"through {through}   {amount(up)}{factor} = {came}"
        rule = f"   by {local.text}" if local is not None and local.text else ""
        return f"through {through}   {amount(up)} gives {came}{rule}"

    def _path(self, one: Path) -> str:
        names = " → ".join(map(self.trace.label, one.nodes))
        if one.factors is None:
            return names
        factors = [" + ".join(map(number_text, step)) for step in one.factors]
        written = " × ".join(f"({f})" if " " in f else f for f in factors)
        return f"{names}   {written} = {number_text(one.product)}"

    def _step(self, number: int, at_fault: bool | None) -> str:
        node = self.trace.nodes[number]
        mark = "▸" if at_fault else " "
        size = "none" if node.grad is None else number_text(norm(node.grad))
        line = self.trace.line(node)
        where = f"   {line[0]}:{line[1]}" if line else ""
        return f"{mark} {self.trace.label(number)}   |gradient| {size}{where}"


def amount(found: Summary | None) -> str:
    """A summary in a few words."""
    if found is None:
        return "none"
    if found.v is not None and not isinstance(found.v, list):
        return number_text(found.v)
    return f"of norm {number_text(norm(found))}"


def explained(trace: Trace, name: str | None = None) -> Explanation:
    """The explanation of one value's gradient, or of the first trouble where there is no name.

    Raises:
        ArgumentError: `[unknown-name]`, or `[ambiguous-name]` where several values have it.
    """
    if name is None:
        return Explanation(trace, first_trouble(trace))
    return Explanation(trace, why(trace, named(trace, name)))
