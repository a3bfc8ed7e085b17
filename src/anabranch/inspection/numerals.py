"""Numbers and names as pictures print them; page/story.js has the same rules."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Context, Decimal
from math import isnan
from typing import Any

_NAMES = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}
_WIDE = {"W", "F"}


def number(value: Any) -> float:
    """A number of a trace: NaN, infinities and large integers travel as strings.

    Example:
        >>> from anabranch.inspection.numerals import number
        >>> number("-inf"), number(3), number("9007199254740993")
        (-inf, 3.0, 9007199254740992.0)
    """
    if isinstance(value, str):
        return _NAMES[value] if value in _NAMES else float(value)
    return float(value)


def text(value: Any, digits: int = 4, minus: str = "−") -> str:
    """`digits` significant digits and no fewer than a whole number has; a true minus sign.

    From a million on, and below 0.0001, with a power of ten.

    Example:
        >>> from anabranch.inspection.numerals import text
        >>> [text(v) for v in (64.0, -0.123456, 12345.678, 1234567.0, 1.8e-9, float("inf"))]
        ['64', '−0.1235', '12346', '1.235e6', '1.8e−9', '∞']
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    v = number(value)
    if isnan(v):
        return "NaN"
    if v in (float("inf"), float("-inf")):
        return "∞" if v > 0 else f"{minus}∞"
    if v == int(v) and abs(v) < 1e6:
        return str(int(v)).replace("-", minus)
    rounded = _rounded(v, digits)
    if digits <= rounded.adjusted() < 6:
        rounded = _rounded(v, rounded.adjusted() + 1)
    plain = -4 <= rounded.adjusted() < 6
    return (f"{rounded:f}" if plain else _power(rounded)).replace("-", minus)


def short(value: Any, room: int) -> str:
    """`text` with as many digits as fit into so many columns, at least one.

    Example:
        >>> from anabranch.inspection.numerals import short
        >>> short(-0.000123456, 8), short(123456, 5)
        ('−0.00012', '1.2e5')
    """
    said = ""
    for digits in (4, 3, 2):
        said = text(value, digits)
        if len(said) <= room:
            return said
    v = number(value)
    for digits in (3, 2, 1):
        said = _power(_rounded(v, digits)).replace("-", "−")
        if len(said) <= room:
            break
    return said


def _rounded(v: float, digits: int) -> Decimal:
    return Context(prec=digits, rounding=ROUND_HALF_UP).create_decimal(v).normalize()


def _power(rounded: Decimal) -> str:
    power = rounded.adjusted()
    return f"{rounded.scaleb(-power):f}e{power}"


def columns(said: str) -> int:
    """How many columns of a monospaced face a text takes: wide characters take two.

    Example:
        >>> from anabranch.inspection.numerals import columns
        >>> columns("loss"), columns("损失")
        (4, 4)
    """
    return sum(2 if unicodedata.east_asian_width(c) in _WIDE else 1 for c in said)


def fit(said: str, room: int) -> str:
    """A text cut to so many columns, with … where something is missing.

    Example:
        >>> from anabranch.inspection.numerals import fit
        >>> fit("attention", 6), fit("x", 6)
        ('atten…', 'x')
    """
    if len(said) <= room and columns(said) <= room:
        return said
    used, kept = 1, []
    for c in said:
        used += 2 if unicodedata.east_asian_width(c) in _WIDE else 1
        if used > room:
            break
        kept.append(c)
    return "".join(kept).rstrip() + "…"


def clean(said: str) -> str:
    """A text in which nothing controls anything: control characters become �, ends of lines ␤.

    Example:
        >>> from anabranch.inspection.numerals import clean
        >>> clean("a\\x00b\\nc")
        'a�b␤c'
    """
    return "".join(_shown(c) for c in said)


def _shown(c: str) -> str:
    if c == "\n":
        return "␤"
    # Cc: controls. Cs: halves of pairs. Cf with bidi overrides could turn the rest of a line.
    if unicodedata.category(c) in ("Cc", "Cs") or c in "\u202a\u202b\u202c\u202d\u202e\ufffe\uffff":
        return "\ufffd"
    return c


def elements(nested: Any) -> Iterator[Any]:
    """The elements of a nested list in order; a number is its own element.

    Example:
        >>> from anabranch.inspection.numerals import elements
        >>> list(elements([[1, "nan"], [], [2, 3]]))
        [1, 'nan', 2, 3]
    """
    stack = [nested]
    while stack:
        top = stack.pop()
        if isinstance(top, list):
            stack.extend(reversed(top))
        else:
            yield top
