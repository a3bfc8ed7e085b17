"""The parameters with their gradients as bars, and what looks wrong in sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from anabranch.inspection.sparks import heights
from anabranch.inspection.to_text.cells import brief
from anabranch.inspection.to_text.columns import Cell, Column, columns
from anabranch.inspection.to_text.page import Line, Page

if TYPE_CHECKING:
    from anabranch.inspection.gradients import GradientRow, Gradients

_BAR = 16  # columns of the longest bar
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_BAR_TITLE, _STEP_TITLE = "", "by step"
_SPARKS = 16  # steps that are drawn
_LOG = 1_000.0  # from this ratio of the largest to the smallest on, bars are on a log axis


def lines(report: Gradients, page: Page) -> list[Line]:
    """The table, the totals, the findings."""
    if not report.rows:
        return [page.line("no parameter: nothing here was given and requires a gradient")]
    bars, axis = _bars(report.rows)
    has_shape = report.by == "parameter"
    heads = [
        Column("parameter" if has_shape else "scope", cut="right", keep=10),
        Column("shape" if has_shape else "parameters", right=not has_shape, keep=4),
        Column("|value|", right=True, keep=6),
        Column("|grad|", right=True, keep=9),
        Column(_BAR_TITLE, keep=3),
        Column("zero", right=True, keep=7),
        Column("grad/value", right=True, keep=5),
    ]
    rows = [_cells(row, bars[i], page) for i, row in enumerate(report.rows)]
    steps = max(len(row.steps or ()) for row in report.rows)
    if steps:
        heads.append(Column(_STEP_TITLE, keep=5))
        for cells, row in zip(rows, report.rows, strict=True):
            cells.append((_spark(row.steps or (), page), "grad"))
    body, left_out = columns(
        page, heads, rows, marks=["▸" if _is_odd(row) else "" for row in report.rows]
    )
    found = [*body, [], *page.prose(_totals(report, page))]
    if axis and _BAR_TITLE not in left_out:
        found += page.prose(axis, style="mute")
    if steps and _STEP_TITLE not in left_out:
        said = (
            f"By step: |grad| in the last {min(steps, _SPARKS)} passes, each row on its own scale"
        )
        found += page.prose(f"{said}.", style="mute")
    for one in report.findings:
        said = one.text if one.name in one.text else f"{one.name}: {one.text}"
        found += [[], *page.prose(f"{said}.", style="bad")]
        if one.hint:
            found += page.prose(f"Way out: {one.hint.rstrip('.')}.")
    return found


def _is_odd(row: GradientRow) -> bool:
    return bool(row.bad) or row.gradient == "none" or (row.zero == row.elements > 0)


def _cells(row: GradientRow, bar: str, page: Page) -> list[Cell]:
    shape: Cell = row.shape.replace("x", "×") if row.shape is not None else str(row.parameters)
    zero = "" if row.zero is None else f"{row.zero}/{row.elements}"
    return [
        row.name,
        "" if shape == "scalar" else shape,
        ("·", "mute") if row.value is None else (page.number(row.value), "value"),
        _grad(row, page),
        (_ascii_bar(bar) if page.ascii else bar, "grad"),
        (zero, "bad" if row.zero == row.elements > 0 else ""),
        ("—", "mute") if row.ratio is None else page.number(row.ratio),
    ]


def _grad(row: GradientRow, page: Page) -> Cell:
    if row.bad:
        return (f"{row.bad} not finite", "bad")
    if row.grad is None:
        return ("none", "bad") if row.gradient == "none" else ("·", "mute")
    return (page.number(row.grad), "grad" if row.grad else "bad")


def _bars(rows: Sequence[GradientRow]) -> tuple[list[str], str]:
    """A bar for each row, and how to read them where they are no plain lengths."""
    sizes = [row.grad if row.grad is not None and math.isfinite(row.grad) else 0.0 for row in rows]
    positive = [one for one in sizes if one > 0]
    if not positive:
        return [""] * len(sizes), ""
    low, high = min(positive), max(positive)
    if high < low * _LOG:
        return [_bar(one / high) for one in sizes], ""
    span = math.log10(high) - math.log10(low)
    shares = [(math.log10(one) - math.log10(low)) / span if one > 0 else 0.0 for one in sizes]
    bars = [_bar(0.1 + 0.9 * s) if one > 0 else "" for s, one in zip(shares, sizes, strict=True)]
    return (
        bars,
        f"Bars are on a logarithmic axis: the longest is {high / low:.1e} times the shortest.",
    )


def _bar(share: float) -> str:
    eighths = max(round(share * _BAR * 8), 1 if share > 0 else 0)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _spark(steps: Sequence[float], page: Page) -> str:
    """The last sizes as columns of eight heights; `!` stands for what is not finite."""
    marks = "12345678" if page.ascii else "▁▂▃▄▅▆▇█"
    return "".join("!" if s is None else marks[round(7 * s)] for s in heights(steps[-_SPARKS:]))


def _ascii_bar(bar: str) -> str:
    return "#" * len(bar)


def _totals(report: Gradients, page: Page) -> str:
    rows = report.rows
    parameters, elements = sum(r.parameters for r in rows), sum(r.elements for r in rows)
    zero = sum(row.zero or 0 for row in rows)
    said = (
        f"{parameters:,} parameter{'s' * (parameters != 1)},"
        f" {elements:,} element{'s' * (elements != 1)}, {zero:,} of them with gradient 0."
    )
    if all(row.gradient == "waiting" for row in rows):
        said = f"{parameters:,} parameter{'s' * (parameters != 1)};"
        said += " no backward pass has run, so there is no gradient yet."
    if report.loss is not None:
        said += f" {report.root} = {brief(page, report.loss)[0]}."
    return said
