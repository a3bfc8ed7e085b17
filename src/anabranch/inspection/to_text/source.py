"""Lines of the user's program, with marks at those that matter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.inspection.to_text.letters import width
from anabranch.inspection.to_text.page import Line, Page, measure

if TYPE_CHECKING:
    from anabranch.inspection.trace import Trace

_AROUND = 1
_FAR = 8  # lines between two marked ones, from which on they are shown apart


def excerpt(trace: Trace, marks: dict[int, str], page: Page) -> list[Line]:
    """The lines of these nodes and their neighbours, each marked with what happened there."""
    wanted: dict[int, dict[int, str]] = {}
    for number, mark in marks.items():
        at = trace.nodes[number].at
        if at is not None:
            wanted.setdefault(at[0], {}).setdefault(at[1], mark)
    found: list[Line] = []
    for source, lines in sorted(wanted.items()):
        for block in _blocks(sorted(lines)):
            found += [*([[]] if found else []), *_block(trace, source, block, lines, page)]
    return found


def _blocks(numbers: list[int]) -> list[list[int]]:
    blocks: list[list[int]] = []
    for number in numbers:
        if blocks and number - blocks[-1][-1] <= _FAR:
            blocks[-1].append(number)
        else:
            blocks.append([number])
    return blocks


def _block(
    trace: Trace, source: int, numbers: list[int], marks: dict[int, str], page: Page
) -> list[Line]:
    text, first = trace.sources[source].text, trace.sources[source].first
    last = first + len(text) - 1
    shown = range(max(numbers[0] - _AROUND, first), min(numbers[-1] + _AROUND, last) + 1)
    room = len(str(shown[-1])) if shown else 1
    lines = []
    for number in shown:
        is_marked = number in marks
        sign = "▸ " if is_marked else "  "
        code = text[number - first].rstrip()
        mark = marks.get(number, "")
        line = page.line((f" {sign}", "bad"), (f"{number:>{room}}   ", "mute"), code)
        free = page.width - (width(mark) + 2 if mark else 0)
        lines.append((page.fit(line, free), mark))
    widest = max((measure(line) for line, mark in lines if mark), default=0)
    found = []
    for line, mark in lines:
        gap = " " * max(min(widest + 4, page.width - width(mark)) - measure(line), 2)
        marked = [(gap, ""), page.span((mark, "bad"))] if mark else []
        found.append(page.fit([*line, *marked], page.width))
    return found
