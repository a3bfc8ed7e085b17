"""The table of nodes, and that of edges."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anabranch.inspection.to_text.cells import brief, gradient, value
from anabranch.inspection.to_text.columns import Cell, Column, columns
from anabranch.inspection.to_text.page import Line, Page, spread

if TYPE_CHECKING:
    from anabranch.inspection.table import EdgeRow, NodeRow, Table


def lines(report: Table, page: Page) -> list[Line]:
    """The table with its title; below it, what was left out."""
    counts = f"{_count(report.nodes, 'node')}, {_count(report.edges, 'edge')}"
    found = [*spread(page, page.line((report.title, "strong")), page.line((counts, "mute"))), []]
    heads, rows = (_nodes if report.of == "nodes" else _edges)(report, page)
    if not rows:
        return [*found, page.line(f"no {report.of[:-1]} matches")]
    body, hidden = columns(page, heads, rows)
    found += body
    notes = []
    if len(report.rows) < report.matching:
        notes.append(
            f"{len(report.rows)} of {report.matching} rows; --rows {report.matching} shows all"
        )
    if hidden:
        notes.append(f"no room for {', '.join(hidden)}: a wider terminal or --columns shows them")
    return [*found, *(line for note in notes for line in page.prose(note, style="mute"))]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


# Column: its place and importance, and the cell of a row.
_NODE_COLUMNS: dict[str, tuple[Column, Callable[[Page, NodeRow], Cell]]] = {
    "#": (Column("#", right=True, keep=9), lambda page, row: str(row.id)),
    "name": (Column("name", cut="right", keep=10), lambda page, row: row.name),
    "op": (Column("op", cut="right", keep=6), lambda page, row: row.formula or row.op),
    "shape": (Column("shape", keep=5), lambda page, row: row.shape),
    "dtype": (Column("dtype", keep=1), lambda page, row: row.dtype),
    "value": (Column("value", right=True, keep=8), lambda page, row: value(page, row.value)),
    "gradient": (
        Column("gradient", right=True, keep=8),
        lambda page, row: gradient(page, row.gradient, row.grad),
    ),
    "contributions": (
        Column("contributions", cut="right", keep=4),
        lambda page, row: _contributions(page, row),  # noqa: PLW0108  # defined below
    ),
    "scope": (Column("scope", cut="left", keep=2), lambda page, row: row.scope),
    "line": (Column("line", cut="left", keep=3), lambda page, row: (row.line or "", "mute")),
    "bytes": (
        Column("bytes", right=True),
        lambda page, row: "" if row.bytes is None else f"{row.bytes:,}",
    ),
    "seconds": (
        Column("seconds", right=True),
        lambda page, row: "" if row.seconds is None else f"{row.seconds:.1e}",
    ),
}


def _nodes(report: Table, page: Page) -> tuple[list[Column], list[list[Cell]]]:
    chosen = [_NODE_COLUMNS[name] for name in report.columns]
    short = short_places([row.line for row in report.rows if row.line])
    shown = [replace(row, line=short.get(row.line or "")) for row in report.rows]
    rows = [[cell(page, row) for _, cell in chosen] for row in shown]
    return [head for head, _ in chosen], rows


def short_places(places: Iterable[str]) -> dict[str, str]:
    """`mlp.py:12` for each `examples/mlp.py:12`, as long as no two files have that name."""
    files = {place.rpartition(":")[0] for place in places}
    last = [file.rpartition("/")[2] for file in files]
    if len(set(last)) < len(files):
        return {place: place for place in places}
    return {place: place.rpartition("/")[2] for place in places}


def _contributions(page: Page, row: NodeRow) -> Cell:
    if row.is_root and row.grad is not None:
        return ("seed", "mute")
    cell: Line = []
    for share in row.contributions:
        if cell:
            cell.append((" + ", "mute"))
        cell += [brief(page, share.amount, "grad"), (f" ({share.through})", "mute")]
    return cell


def _edges(report: Table, page: Page) -> tuple[list[Column], list[list[Cell]]]:
    heads = [
        Column("edge", cut="right", keep=9),
        Column("local derivative", cut="right", keep=8),
        Column("upstream", right=True, keep=6),
        Column("contribution", right=True, keep=7),
    ]
    return heads, [_edge(page, row) for row in report.rows]


def _edge(page: Page, row: EdgeRow) -> list[Cell]:
    sent = None if row.contribution is None else brief(page, row.contribution, "grad")
    return [
        f"{row.from_} → {row.to} #{row.slot}",
        _local(page, row),
        ("·", "mute") if row.upstream is None else brief(page, row.upstream, "grad"),
        ("none", "mute") if sent is None else sent,
    ]


def _local(page: Page, row: EdgeRow) -> Cell:
    cell: list[Any] = [] if row.rule is None else [row.rule]
    if row.local is not None:
        number = (
            brief(page, row.local, "value")
            if hasattr(row.local, "flat")
            else page.number(row.local)
        )
        cell += [" = ", number] if cell else [number]
    if row.gain is not None:
        cell.append((f"  ×{page.number(row.gain)}", "mute"))
    if row.summed:
        cell.append((f"  summed over {', '.join(map(str, row.summed))}", "mute"))
    return cell
