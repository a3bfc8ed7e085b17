"""The gradients of a recorded run against central differences of the same run.

The recorded operations are computed again with moved inputs, so what is checked are the rules that
brought these gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from anabranch.core.bind import bind, state
from anabranch.core.dtype import is_floating
from anabranch.core.node import Literal
from anabranch.errors import ArgumentError
from anabranch.inspection.printed import Printed
from anabranch.inspection.record import Record
from anabranch.inspection.summary import norm
from anabranch.testing.gradients import check_gradients
from anabranch.testing.report import GradientReport


@dataclass
class CheckedRow:
    """One input.

    Attributes:
        name, shape: of the input.
        backward, differences: the two derivatives; of an array their norms.
        error: the largest difference of two elements.
        allowed: what the error there may be.
        verdict: `"pass"`, `"kink"`, `"precision"`, `"wrong"` or `"not-finite"`.
        worst: the index of the element that failed most clearly.
        differing, compared: elements (or directions) that disagree, of how many.
        notes: what else there is to say.
    """

    name: str
    shape: str
    backward: float
    differences: float
    error: float
    allowed: float
    verdict: str
    worst: list[int] | None = None
    differing: int = 0
    compared: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against this gradient."""
        return self.verdict in ("pass", "kink")

    @property
    def remark(self) -> str:
        """Where and how often it disagrees, or why it was not judged."""
        if self.verdict == "kink":
            return "a kink: it lies between the slopes"
        if self.verdict == "not-finite":
            return "not finite, not judged"
        if self.ok or self.worst is None:
            return ""
        where = f"worst at {self.worst}" if self.worst else ""
        many = f"{self.differing} of {self.compared} differ" if self.compared > 1 else ""
        return "; ".join(filter(None, [where, many]))


@dataclass
class Checked(Printed):
    """The outcome of a check.

    Attributes:
        root: the label of the differentiated value.
        method: how it was done, and what was allowed, in one sentence.
        rows: one for each input.
        readings: where a wrong gradient is a right one in the wrong place.
        suspects: single operations whose rule the differences deny, with their lines.
    """

    view: ClassVar[str] = "check"
    root: str
    method: str
    rows: list[CheckedRow]
    readings: list[str]
    suspects: list[str]

    @property
    def ok(self) -> bool:
        """Whether every row is."""
        return all(row.ok for row in self.rows)


def checked(record: Record, labels: Sequence[str], **options: Any) -> Checked:
    """The check of a record.

    Args:
        record: of a run whose values are there.
        labels: what its entries are called.
        options: of `check_gradients`.

    Raises:
        ArgumentError: `[nothing-to-check]`.
    """
    leaves = [
        number
        for number, entry in enumerate(record.entries)
        if entry.is_leaf and entry.requires_grad and entry.values is not None
    ]
    if not leaves:
        raise ArgumentError("nothing-to-check", "nothing here was given and requires a gradient")
    number, output = record.roots[0]
    root, value = labels[number], (record.entries[number].values or (np.nan,))[output]
    if not np.all(np.isfinite(value)):
        reason = f"{root} is not finite, and from there differences say nothing; `why` says where."
        return Checked(root, reason, [_unjudged(record, labels, one) for one in leaves], [], [])
    given = [_first(record.entries[number].values) for number in leaves]
    names = [labels[number] for number in leaves]
    function = again(record, leaves)
    function.__name__ = root
    report = check_gradients(function, *given, names=names, raise_on_failure=False, **options)
    found = from_report(report, root, options.get("sample"))
    for i, one in enumerate(leaves):
        if not np.all(np.isfinite(_gradient(record, one))):
            found.rows[i] = _unjudged(record, labels, one)
    return found


def _first(values: Any) -> Any:
    return np.array(values[0])[()]


def _gradient(record: Record, number: int) -> Any:
    grads = record.entries[number].grads
    return 0.0 if not grads or grads[0] is None else grads[0]


def _unjudged(record: Record, labels: Sequence[str], number: int) -> CheckedRow:
    backward = float(norm(_gradient(record, number)))
    shape = str(record.entries[number].node.avals[0])
    none = (np.nan, np.nan, np.nan)
    return CheckedRow(labels[number], shape, backward, *none, verdict="not-finite")


def again(record: Record, leaves: Sequence[int]) -> Callable[..., Any]:
    """The recorded program as a function of the values of these entries.

    Each operation stands at the line where its user wrote it.
    """

    def function(*values: Any) -> Any:
        known: dict[int, tuple[Any, ...]] = {
            number: (value,) for number, value in zip(leaves, values, strict=True)
        }
        for number, entry in enumerate(record.entries):
            if number in known:
                continue
            if entry.is_leaf:
                known[number] = entry.values or ()
                continue
            inputs = [
                one.value if isinstance(one, Literal) else known[one[0]][one[1]]
                for one in entry.inputs
            ]
            if entry.port:  # an end of a part that is drawn opened: what goes in comes out
                known[number] = tuple(inputs)
                continue
            node = entry.node
            with state.changed(line=node.raw_source, scope=node.scope):
                out = bind(node.op, *inputs, **node.attrs)
            known[number] = out if isinstance(out, tuple) else (out,)
        return _result(known, record)

    return function


def _result(known: dict[int, tuple[Any, ...]], record: Record) -> Any:
    number, output = record.roots[0]
    result = known[number][output]
    if record.seed is None or np.ndim(record.seed) == 0:
        return result
    # Not a scalar: its gradient started from this cotangent, so the scalar is their product.
    return bind("sum", result * np.asarray(record.seed)) if is_floating(result.dtype) else result


def from_report(report: GradientReport, root: str, sample: int | None = None) -> Checked:
    """The neutral form of a gradient report; sample: how many elements an input were drawn."""
    rows = [
        CheckedRow(
            row.name, row.shape, row.analytic, row.numeric, row.absolute,
            row.atol + row.rtol * row.scale, row.verdict,
            None if row.worst is None else list(row.worst), row.differing, row.compared,
            list(row.notes),
        )
        for row in report.rows
    ]  # fmt: skip
    way = "element by element"
    if sample is not None:
        way = f"element by element, at most {sample:,} of an input"
    if any(row.method == "directions" for row in report.rows):
        way = f"along {max(row.compared for row in report.rows)} random directions an input"
    first = report.rows[0]
    method = (
        f"Central differences, {way}, {report.evaluations:,} evaluations;"
        f" allowed: {first.atol:.1e} + {first.rtol:.0e} × the larger one"
    )
    return Checked(root, method, rows, list(report.readings), list(report.suspects))
