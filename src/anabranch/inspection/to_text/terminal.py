"""From lines to a terminal, a pipe or a string; `rich` knows how terminals are spoken to."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from typing import IO, Any

from anabranch.errors import ArgumentError
from anabranch.inspection.to_text.page import Line, Page, stripped

PIPE = 100  # columns where nobody says how wide it is
_NEEDED = "×→▸●─…█✓"
WHEN = ("auto", "always", "never")
# Middle tones, which light and dark grounds both show.
_STYLES = {
    "value": "color(32)",
    "grad": "color(166)",
    "bad": "bold color(163)",
    "ok": "color(35)",
    "mute": "color(245)",
    "strong": "bold",
}


def page_for(file: Any, digits: int = 4, width: int | None = None) -> Page:
    """The page that this output is."""
    return Page(columns_of(file) if width is None else width, digits, not _knows_letters(file))


def is_terminal(file: Any) -> bool:
    """Whether a person watches this file."""
    try:
        return bool(file.isatty())
    except (AttributeError, ValueError):  # ValueError: it is closed
        return False


def can_redraw(file: Any) -> bool:
    """Whether a person watches, on a terminal whose cursor goes where it is told."""
    return is_terminal(file) and os.environ.get("TERM") != "dumb"


def columns_of(file: Any) -> int:
    """As wide as COLUMNS says, else as the terminal is, else 100."""
    named = os.environ.get("COLUMNS", "")
    if named.isdecimal() and int(named):
        return max(int(named), 20)
    if not is_terminal(file):
        return PIPE
    return max(shutil.get_terminal_size((PIPE, 24)).columns, 20)


def _knows_letters(file: Any) -> bool:
    if is_terminal(file) and os.environ.get("TERM") == "dumb":
        return False
    try:
        _NEEDED.encode(getattr(file, "encoding", None) or "utf-8")
    except (UnicodeError, LookupError):
        return False
    return True


def has_colour(file: Any, when: str = "auto") -> bool:
    """Whether what is written to this file is coloured: a word of the caller, of the user, or
    whether it is a terminal."""
    if when not in WHEN:
        raise ArgumentError("bad-argument", f'color is "auto", "always" or "never", not {when!r}')
    if when != "auto":
        return when == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return is_terminal(file) and os.environ.get("TERM") != "dumb"


def joined(lines: Iterable[Line]) -> str:
    """The lines as one string, without colours."""
    return "\n".join("".join(text for text, _ in stripped(line)) for line in lines)


def write(lines: Iterable[Line], file: IO[str], color: str = "auto") -> None:
    """The lines to a file, each with its end."""
    if not has_colour(file, color):
        for line in lines:
            file.write(joined([line]) + "\n")
        return
    console = console_for(file)
    for text in rich_lines(lines):
        console.print(text, soft_wrap=True)


def console_for(file: IO[str], coloured: bool = True) -> Any:
    """A console on this file, which adds nothing but colours."""
    from rich.console import Console

    system = "auto" if is_terminal(file) else "256"
    return Console(
        file=file,
        force_terminal=True,
        color_system=system if coloured else None,  # type: ignore[arg-type]
        no_color=not coloured,
        highlight=False,
        markup=False,
        emoji=False,
        width=10_000,
    )


def rich_lines(lines: Iterable[Line]) -> Iterator[Any]:
    """The lines as rich's texts."""
    from rich.text import Text

    for line in lines:
        yield Text.assemble(*[(text, _STYLES.get(style, "")) for text, style in stripped(line)])
