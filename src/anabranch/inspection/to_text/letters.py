"""Text that a terminal may show: nothing in it acts, and it knows how wide it is.

Names, sources and operations of a trace are somebody else's words. Whatever could move the cursor,
hide or reverse what stands around it is written out as an escape, and where the output knows no
letters beyond ASCII, marks have a spelling there.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

# Controls, invisible formatting (bidirectional marks among them), halves of letters, line ends.
_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
_ASCII = {
    "×": "*", "→": "->", "←": "<-", "▸": ">", "●": "*", "○": "o", "─": "-", "▍": "|", "…": "..",
    "✓": "ok", "✗": "NO", "·": ".", "‖": "|", "∂": "d", "∅": "none", "—": "-", "–": "-", "−": "-",
    "≤": "<=", "≥": ">=", "²": "^2", "ᵀ": ".T", "Σ": "sum", "ḡ": "g", "∞": "inf", "±": "+-",
    **dict.fromkeys("█▉▊▋▌", "#"), **dict.fromkeys("▎▏", ""),
}  # fmt: skip


def visible(text: str) -> str:
    """The text with everything that acts or hides written out: `\\x1b`, `\\n`, `\\u202e`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join([_shown(letter) for letter in text])


def ascii_only(text: str) -> str:
    """The text in ASCII: marks by their spelling, other letters as escapes."""
    if text.isascii():
        return text
    spelled = "".join([_ASCII.get(letter, letter) for letter in text])
    return spelled.encode("ascii", "backslashreplace").decode()


def _shown(letter: str) -> str:
    if unicodedata.category(letter) not in _HIDDEN:
        return letter
    return letter.encode("unicode_escape").decode()


def width(text: str) -> int:
    """How many columns a terminal gives this text; wide letters count two."""
    return len(text) if text.isascii() else _cells(text)


@lru_cache(4096)
def _cells(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text)


def cut(text: str, columns: int, mark: str = "…", left: bool = False) -> str:
    """The text in at most this many columns; what is missing on the right (or left) is marked."""
    if width(text) <= columns:
        return text
    room = columns - width(mark)
    if room <= 0:
        return _head(mark, columns)
    return mark + _head(text[::-1], room)[::-1] if left else _head(text, room) + mark


def _head(text: str, columns: int) -> str:
    """As many letters as fit."""
    used = 0
    for at, letter in enumerate(text):
        used += width(letter)
        if used > columns:
            return text[:at]
    return text
