"""A page of text: how wide it is, how numbers look on it, and lines made of coloured spans."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from anabranch.inspection import numerals
from anabranch.inspection.to_text.letters import ascii_only, cut, visible, width

Span = tuple[str, str]  # text and style: "", "value", "grad", "bad", "ok", "mute" or "strong"
Line = list[Span]
Part = str | Span
_LONGEST = 4_000  # letters of one text, so that a label of megabytes costs nothing


@dataclass(frozen=True)
class Page:
    """What text is laid out for.

    Attributes:
        width: columns.
        digits: significant digits of a number.
        ascii: whether the output knows ASCII only.
    """

    width: int = 100
    digits: int = 4
    ascii: bool = False

    def clean(self, text: str) -> str:
        """Text as this page can show it; of a very long one, both ends."""
        if len(text) > _LONGEST:
            text = f"{text[: _LONGEST // 2]}…{text[-_LONGEST // 2 :]}"
        text = visible(text)
        return ascii_only(text) if self.ascii else text

    @property
    def ellipsis(self) -> str:
        return self.clean("…")

    def line(self, *parts: Part) -> Line:
        """A line of this page, cut where it is too long."""
        return self.fit([self.span(part) for part in parts], self.width)

    def span(self, part: Part, style: str = "") -> Span:
        text, own = part if isinstance(part, tuple) else (part, style)
        return self.clean(text), own

    def fit(self, line: Sequence[Span], columns: int, left: bool = False) -> Line:
        """The spans in at most this many columns."""
        line = stripped(line)
        if measure(line) <= columns:
            return line
        if left:
            return [(cut("".join(text for text, _ in line), columns, self.ellipsis, True), "")]
        room, kept = columns - width(self.ellipsis), []
        for text, style in line:
            short = cut(text, max(room, 0), "")
            kept.append((short, style))
            room -= width(short)
            if short != text:
                break
        return [*kept, (cut(self.ellipsis, columns, ""), kept[-1][1])]

    def prose(self, text: str, indent: int = 0, style: str = "") -> list[Line]:
        """Sentences, broken between words."""
        indent = max(min(indent, self.width - 16), 0)
        room = self.width - indent
        lines, words = [], self.clean(text).split(" ")
        current = ""
        for word in words:
            joined = f"{current} {word}" if current else word
            if current and width(joined) > room:
                lines.append(current)
                joined = word
            while width(joined) > room:  # a word that no line can hold
                head = cut(joined, room, "")
                lines.append(head)
                joined = joined[len(head) :]
            current = joined
        lines.append(current)
        return [[(" " * indent, ""), (one, style)] if indent else [(one, style)] for one in lines]

    def number(self, value: Any, digits: int | None = None) -> str:
        """A number in the digits of this page; whole ones up to a million in full."""
        said = numerals.text(value, digits or self.digits, minus="-")
        return {"NaN": "nan", "∞": "inf", "-∞": "-inf"}.get(said, said)

    def narrower(self, by: int) -> Page:
        """The page without so many of its columns."""
        return replace(self, width=max(self.width - by, 16))


def measure(line: Iterable[Span]) -> int:
    """The columns of a line."""
    return sum([width(text) for text, _ in line])


def padded(line: Line, columns: int, right: bool = False) -> Line:
    """The line, filled up with spaces."""
    room = columns - measure(line)
    if room <= 0:
        return line
    return [(" " * room, ""), *line] if right else [*line, (" " * room, "")]


def stripped(line: Sequence[Span]) -> Line:
    """The line without spaces at its end."""
    kept = list(line)
    while kept and not kept[-1][0].strip(" "):
        kept.pop()
    if kept:
        kept[-1] = (kept[-1][0].rstrip(" "), kept[-1][1])
    return kept


def spread(page: Page, left: Line, right: Line, gap: int | None = None) -> list[Line]:
    """Something at each end of a line; on two lines where there is no room for both.

    `gap` puts the second so many columns behind the first.
    """
    room = page.width - measure(left) - measure(right)
    if room >= 2 or not right:
        return [[*left, (" " * (room if gap is None else min(gap, room)), ""), *right]]
    return [page.fit(left, page.width), [("  ", ""), *page.fit(right, page.width - 2)]]
