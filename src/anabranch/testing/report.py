"""What a gradient check found: one row for each input, readable by people and by tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_HEAD = (
    *("input", "shape", "gradient", "analytic", "numeric"),
    *("abs error", "rel error", "atol", "rtol", "verdict"),
)
PASS_BELOW = 1e-8
WRONG_FROM = 1e-3


def band(relative: float) -> str:
    """How to read a relative error (in the norm): "pass", "precision" or "wrong".

    Below 1e-8 nothing is left to explain. From there to 1e-3, most often around 1e-5, it is usually
    the step or floating point. From 1e-3 on the derivative is wrong; an error of 1, or of hundreds,
    most often means mixed-up shapes or axes.

    Example:
        >>> from anabranch.testing.report import band
        >>> band(1e-10), band(1e-5), band(3.0)
        ('pass', 'precision', 'wrong')
    """
    if relative < PASS_BELOW:
        return "pass"
    return "precision" if relative < WRONG_FROM else "wrong"


@dataclass(frozen=True)
class GradientRow:
    """One input of the checked function.

    Attributes:
        name: as a user would write it, `params['w']`.
        shape, gradient_shape: with dtype, `f64[3,4]`.
        analytic, numeric: the value for one element, else the norm; along directions, the norm of
            the directional derivatives.
        absolute: the largest difference of two elements (or directional derivatives).
        relative: the norm of the difference over the larger of the two norms; 0 if both are 0.
        atol, rtol, scale: the tolerance at the largest error, atol + rtol * scale.
        method: `"elements"` or `"directions"`.
        verdict: `"pass"`, `"kink"`, `"precision"` or `"wrong"`.
        differing, compared: how many of the elements or directions do not pass, of how many.
        worst: the index of the element that failed most clearly; None if none did.
        notes: what else there is to say, a sentence each.
    """

    name: str
    shape: str
    gradient_shape: str
    analytic: float
    numeric: float
    absolute: float
    relative: float
    atol: float
    rtol: float
    scale: float
    method: str
    verdict: str
    differing: int = 0
    compared: int = 0
    worst: tuple[int, ...] | None = None
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against this gradient."""
        return self.verdict in ("pass", "kink")

    @property
    def cells(self) -> tuple[str, ...]:
        numbers = (self.absolute, self.relative, self.atol, self.rtol)
        return (
            *(self.name, self.shape, self.gradient_shape),
            *(f"{value:.6g}" for value in (self.analytic, self.numeric)),
            *(f"{value:.1e}" for value in numbers),
            self.verdict,
        )


@dataclass(frozen=True)
class GradientReport:
    """The rows of a gradient check, the shapes of what was differentiated, and its cost.

    `str(report)` is a table; when something is wrong, the shapes come first. `suspects` names the
    ops with a wrong rule, and those that stand at a kink, with their lines; `readings` says where
    a wrong gradient is a right one in the wrong place: swapped, transposed, times a factor.
    """

    function: str
    outputs: tuple[str, ...]
    rows: tuple[GradientRow, ...]
    evaluations: int
    suspects: tuple[str, ...] = ()
    readings: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every row is."""
        return all(row.ok for row in self.rows)

    @property
    def failed(self) -> tuple[GradientRow, ...]:
        """The rows that are not ok."""
        return tuple(row for row in self.rows if not row.ok)

    @property
    def verdict(self) -> str:
        """The gravest verdict of all rows."""
        order = ("pass", "kink", "precision", "wrong")
        return max((row.verdict for row in self.rows), key=order.index, default="pass")

    @property
    def sentence(self) -> str:
        """The outcome in one line."""
        if self.ok:
            return f"the gradient of {self.function} agrees with central differences"
        where = ", ".join(
            row.name + (f" at {list(row.worst)}" if row.worst else "") for row in self.failed
        )
        reading = "" if self.verdict == "wrong" else ", by as much as a bad step can cause"
        return (
            f"the gradient of {self.function} disagrees with central differences"
            f" by {where}{reading}"
        )

    def __str__(self) -> str:
        lines = [self.sentence, ""]
        if self.verdict == "wrong":
            lines += [*self._shapes(), ""]
        lines += _table([_HEAD, *(row.cells for row in self.rows)])
        lines += [f"  {row.name}: {note}" for row in self.rows for note in row.notes]
        lines += [f"  {one}" for one in (*self.readings, *self.suspects)]
        lines += [
            "  passes where |analytic - numeric| <= atol + rtol * scale,"
            " scale = max(|analytic|, |numeric|)",
            f"  {self.evaluations} evaluations",
        ]
        return "\n".join(lines)

    def _shapes(self) -> list[str]:
        lines = [f"  shapes: {self.function} returns {', '.join(self.outputs)}"]
        lines += [
            f"    {row.name} is {row.shape}, its gradient {row.gradient_shape}" for row in self.rows
        ]
        return lines


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  " + "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
