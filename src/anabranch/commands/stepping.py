"""The story on a terminal: one block at a time, redrawn in place as keys are pressed."""

from __future__ import annotations

import shutil
import sys
from typing import Any

from anabranch.commands.keys import keys
from anabranch.inspection.story import Story
from anabranch.inspection.to_text.page import Line
from anabranch.inspection.to_text.story import block_lines
from anabranch.inspection.to_text.terminal import console_for, has_colour, page_for, rich_lines

_SAVED = 2  # lines of the terminal that stay free: the prompt's, and the cursor's


def step_through(report: Story, start: int, color: str, digits: int) -> None:
    """Show the frame `start`, and others as keys are pressed, until `q`."""
    from rich.live import Live
    from rich.text import Text

    console = console_for(sys.stdout, coloured=has_colour(sys.stdout, color))

    def drawn(at: int) -> Any:
        page = page_for(sys.stdout, digits)
        lines = _fitted(block_lines(report, at, page, keys=True))
        return Text("\n").join(rich_lines(lines))

    at, last = start, len(report.blocks) - 1
    live = Live(
        drawn(at),
        console=console,
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
        vertical_overflow="crop",
    )
    with keys(sys.stdin) as read:
        try:
            live.start(refresh=True)
            while (key := read()) != "quit":
                moved = {
                    "next": min(at + 1, last),
                    "back": max(at - 1, 0),
                    "first": 0,
                    "last": last,
                }
                at = moved.get(key, at)
                live.update(drawn(at), refresh=True)
        finally:
            live.stop()  # an interrupt may come while it starts: the cursor is shown again


def _fitted(lines: list[Line]) -> list[Line]:
    """As many lines as the terminal has; the last one, which names the keys, stays."""
    room = shutil.get_terminal_size().lines - _SAVED
    if len(lines) <= room or room < 4:
        return lines
    return [*lines[: room - 2], [("  ...", "mute")], lines[-1]]
