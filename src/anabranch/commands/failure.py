"""How a verb ends when it cannot do what was asked."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from anabranch.inspection.to_text.letters import cut, visible

_LONGEST = 1_000  # columns of a line
FINDING, USAGE, UNREADABLE, STOPPED = 1, 2, 3, 130


class CommandError(Exception):
    """The verb ends with this message on standard error and this exit status."""

    def __init__(self, message: str, status: int = UNREADABLE) -> None:
        super().__init__(message)
        self.status = status


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """` Did you mean 'table'?`, with a space before it, or nothing."""
    close = difflib.get_close_matches(word, list(known), 1, cutoff)
    return f" Did you mean '{close[0]}'?" if close else ""


def shown(message: str) -> str:
    """A message as a terminal may show it: names in it are somebody else's words.

    Example:
        >>> from anabranch.commands.failure import shown
        >>> print(shown("no node is called '\\x1b[2J'"))
        no node is called '\\x1b[2J'
    """
    return "\n".join(cut(visible(line), _LONGEST) for line in message.expandtabs(4).split("\n"))
