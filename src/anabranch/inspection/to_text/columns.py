"""Cells in columns, fitted to the width of a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.inspection.to_text.page import Line, Page, Part, measure, padded, stripped

GAP = 2
_SHORTEST = 8  # columns that a cut cell keeps at least
Cell = Part | Line


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        title: its heading.
        right: whether cells stand at the right end.
        cut: where long cells lose letters: `"right"`, `"left"` or, for numbers, `""`: nowhere.
        keep: where the page is too narrow, columns with the smallest `keep` go first.
    """

    title: str
    right: bool = False
    cut: str = ""
    keep: int = 0


def columns(
    page: Page, heads: Sequence[Column], rows: Sequence[Sequence[Cell]], marks: Sequence[str] = ()
) -> tuple[list[Line], list[str]]:
    """The lines of a table, and the titles of the columns for which there was no room.

    `marks` holds one letter a row that stands before it, as a sign.
    """
    cells = [[_line(page, cell) for cell in row] for row in rows]
    titles = [[page.span(head.title, "mute")] for head in heads]
    wide = [
        max([measure(titles[i]), *(measure(row[i]) for row in cells)]) for i in range(len(heads))
    ]
    shown = list(range(len(heads)))
    margin = 2 if page.width >= 40 else 0
    while len(shown) > 1 and not _fits(page, heads, wide, shown, margin):
        # The one that matters least; among equals the last.
        shown.remove(min(shown, key=lambda i: (heads[i].keep, -i)))
    widths = _shrunk(page, heads, wide, shown, margin)
    lines = [_row(page, heads, titles, widths, shown, " " * margin)]
    rule = page.clean("─") * min(margin + sum(widths.values()) + GAP * (len(shown) - 1), page.width)
    lines.append([(rule, "mute")])
    for at, row in enumerate(cells):
        sign = page.clean(marks[at]) if marks else ""
        lines.append(_row(page, heads, row, widths, shown, sign.ljust(margin)[:margin]))
    return lines, [head.title for i, head in enumerate(heads) if i not in shown]


def _line(page: Page, cell: Cell) -> Line:
    line = [page.span(part) for part in (cell if isinstance(cell, list) else [cell])]
    return page.fit(line, 4 * page.width)


def _total(widths: Sequence[int], margin: int) -> int:
    return margin + sum(widths) + GAP * (len(widths) - 1)


def _fits(
    page: Page, heads: Sequence[Column], wide: Sequence[int], shown: Sequence[int], margin: int
) -> bool:
    least = [min(wide[i], _least(heads[i])) if heads[i].cut else wide[i] for i in shown]
    return _total(least, margin) <= page.width


def _least(head: Column) -> int:
    return max(_SHORTEST, len(head.title))


def _shrunk(
    page: Page, heads: Sequence[Column], wide: Sequence[int], shown: Sequence[int], margin: int
) -> dict[int, int]:
    """The widths of the shown columns: the widest of those that may be cut gives way first."""
    widths = {i: wide[i] for i in shown}
    while _total(list(widths.values()), margin) > page.width:
        able = [i for i in shown if heads[i].cut and widths[i] > min(wide[i], _least(heads[i]))]
        if not able:
            break
        widths[max(able, key=lambda i: (widths[i], i))] -= 1
    return widths


def _row(
    page: Page,
    heads: Sequence[Column],
    cells: Sequence[Line],
    widths: dict[int, int],
    shown: Sequence[int],
    start: str,
) -> Line:
    line: Line = [(start, "")]
    for i in shown:
        if len(line) > 1:
            line.append((" " * GAP, ""))
        cell = page.fit(cells[i], widths[i], left=heads[i].cut == "left")
        line += padded(cell, widths[i], heads[i].right)
    return page.fit(stripped(line), page.width)
