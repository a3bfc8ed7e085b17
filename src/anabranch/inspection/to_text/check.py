"""The check against central differences, input by input."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from anabranch.inspection.to_text.columns import Cell, Column, columns
from anabranch.inspection.to_text.page import Line, Page

if TYPE_CHECKING:
    from anabranch.inspection.checked import Checked, CheckedRow


def lines(report: Checked, page: Page) -> list[Line]:
    """How it was done, the table, the verdict, and what it points at."""
    heads = [
        Column("input", cut="right", keep=10),
        Column("backward", right=True, keep=8),
        Column("differences", right=True, keep=8),
        Column("error", right=True, keep=6),
        Column("allowed", right=True, keep=5),
        Column("", keep=9),
        Column("", cut="right", keep=4),
    ]
    body, _ = columns(page, heads, [_cells(row, page) for row in report.rows])
    found = [*page.prose(report.method, style="mute"), [], *body, []]
    right = sum(row.ok for row in report.rows)
    verb = "agrees" if right == 1 else "agree"
    found += page.prose(
        f"{right} of {len(report.rows)} {verb}.", style="ok" if report.ok else "bad"
    )
    for one in report.readings:
        found += page.prose(one, style="bad")
    for row in report.rows:
        for note in row.notes:
            found += page.prose(f"{row.name}: {note}", indent=2, style="mute")
    for one in report.suspects:
        found += page.prose(one, indent=2)
    return found


def _cells(row: CheckedRow, page: Page) -> list[Cell]:
    mark: Cell = ("✓", "ok") if row.ok else ("✗", "bad")
    if row.verdict == "kink":
        mark = ("·", "mute")
    return [
        row.name,
        (page.number(row.backward), "grad"),
        ("–", "mute") if math.isnan(row.differences) else (page.number(row.differences), "value"),
        _small(row.error, page),
        _small(row.allowed, page),
        mark,
        (row.remark, "mute"),
    ]


def _small(number: float, page: Page) -> Cell:
    return ("–", "mute") if math.isnan(number) else page.number(number, 2)
