"""The suite that every op passes, the library's and users' own: what its record says must hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from anabranch.core.entry import boundary
from anabranch.core.op import Op
from anabranch.errors import GradientCheckError
from anabranch.testing import derivatives, values

Check = Callable[[Op], None]
CHECKS: Mapping[str, Check] = {
    check.__name__: check
    for check in (
        values.is_complete,
        values.draws_differ,
        values.golden_values_are_met,
        values.avals_agree,
        values.front_ends_agree,
        values.layouts_agree,
        values.inputs_stay,
        derivatives.delivers_once,
        derivatives.refuses_what_it_says,
        derivatives.reverse_agrees,
        derivatives.forward_agrees,
        derivatives.modes_agree,
        derivatives.second_order_agrees,
        derivatives.swaps_are_noticed,
    )
}


@dataclass(frozen=True)
class OpReport:
    """What the suite found of one op: for each check None, or what is wrong."""

    op: str
    results: Mapping[str, str | None]

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return not any(self.results.values())

    @property
    def failed(self) -> dict[str, str]:
        """What is wrong, by check."""
        return {name: text for name, text in self.results.items() if text}

    def __str__(self) -> str:
        lines = [
            f"op {self.op}: {len(self.results) - len(self.failed)} of {len(self.results)} pass"
        ]
        for name, text in self.results.items():
            lines.append(f"  {'FAIL' if text else 'pass'}  {name.replace('_', ' ')}")
            lines += [f"        {line}" for line in (text or "").splitlines()]
        return "\n".join(lines)


@boundary
def check_op(op: Op, *, raise_on_failure: bool = True) -> OpReport:
    """Run the suite on an op: the same one that the library's own ops pass.

    Nothing but the record is needed. Its samples are tried for values, shapes and dtypes, equal
    bits in every front end, derivatives of both modes and of second order against central
    differences and against each other; and the suite makes sure that the samples would notice if
    the rules of two inputs were swapped. `CHECKS` holds the checks one by one, for use as
    parameters of a test.

    Args:
        op: a record, as `ab.elementwise` and `ab.Op` make it.
        raise_on_failure: False returns the report also when something is wrong.

    Raises:
        GradientCheckError: `[op-check]` with the report in the message and in
            `details["report"]`.

    Example:
        >>> import anabranch as ab
        >>> from anabranch.testing import check_op
        >>> check_op(ab.ops.elementwise.tanh).ok
        True
    """
    report = OpReport(op.name, {name: _outcome(check, op) for name, check in CHECKS.items()})
    if raise_on_failure and not report.ok:
        raise GradientCheckError(
            "op-check", f"{op.name} fails {len(report.failed)} checks\n\n{report}", report=report
        )
    return report


def _outcome(check: Check, op: Op) -> str | None:
    try:
        check(op)
    except AssertionError as fault:
        return str(fault)
    except Exception as error:  # a rule that raises is a finding like any other
        return f"{type(error).__name__}: {error}"
    return None
