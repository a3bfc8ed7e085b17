"""The language of `einsum`: which axis carries which label.

A label is a letter, or the number of an axis under `...`, counted from the right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from types import EllipsisType
from typing import Any

from anabranch.core.aval import Shape
from anabranch.errors import DomainError, ShapeError

Label = str | int
Labels = tuple[Label, ...]
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"  # numbered as NumPy does
_DOTS = "..."


def parsed(subscripts: str, shapes: Sequence[Shape]) -> tuple[list[Labels], Labels]:
    """The labels of each operand's axes, and of the result's.

    Raises:
        DomainError: `[bad-subscripts]`.
        ShapeError: `[shape-mismatch]` where a term does not fit its operand.
    """
    text = "".join(subscripts.split())
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        raise _wrong(subscripts, f"has {len(terms)} terms for {len(shapes)} operands")
    inputs = [
        _labels(subscripts, term, len(shape), i)
        for i, (term, shape) in enumerate(zip(terms, shapes, strict=True))
    ]
    if arrow:
        return inputs, _output(subscripts, right, inputs)
    return inputs, _implied(inputs)


def lengths_of(inputs: Sequence[Labels], shapes: Sequence[Shape]) -> dict[Label, int]:
    """How long each label is; an axis of length 1 fits any length, as in broadcasting.

    Raises:
        ShapeError: `[shape-mismatch]` naming the label.
    """
    found: dict[Label, tuple[int, int]] = {}
    for i, (labels, shape) in enumerate(zip(inputs, shapes, strict=True)):
        own: dict[Label, int] = {}
        for label, n in zip(labels, shape, strict=True):
            if own.setdefault(label, n) != n:
                raise _unequal(label, (own[label], i), (n, i))
            length, where = found.get(label, (1, i))
            if length != n and 1 not in (length, n):
                raise _unequal(label, (length, where), (n, i))
            if length == 1:
                found[label] = (n, i)
    return {label: n for label, (n, _) in found.items()}


def from_sublists(operands: Sequence[Any]) -> tuple[str, list[Any]]:
    """NumPy's other form, `einsum(x, [0, 1], y, [1, 2], [0, 2])`, as a string and operands.

    Raises:
        DomainError: `[bad-subscripts]`.
    """
    pairs = len(operands) // 2
    text = ",".join(_letters(operands[2 * i + 1]) for i in range(pairs))
    if len(operands) % 2:
        text += "->" + _letters(operands[-1])
    return text, [operands[2 * i] for i in range(pairs)]


def _letters(sublist: Any) -> str:
    if not isinstance(sublist, list | tuple):
        raise DomainError(
            "bad-subscripts",
            f"einsum: axes are a list of numbers, not {sublist!r}",
            hint='ab.einsum("ij,jk->ik", x, y)',
        )
    return "".join(map(_letter, sublist))


def _letter(number: Any) -> str:
    if isinstance(number, EllipsisType):
        return _DOTS
    if not (isinstance(number, int) and 0 <= number < len(_LETTERS)):
        raise DomainError(
            "bad-subscripts", f"einsum: an axis is a number from 0 to 51, not {number!r}"
        )
    return _LETTERS[number]


def _split(subscripts: str, term: str) -> tuple[str, str, bool]:
    """The letters before and behind the dots, and whether there are dots."""
    before, dots, behind = term.partition(_DOTS)
    for letter in before + behind:
        if letter not in _LETTERS:
            raise _wrong(subscripts, f"has {letter!r} in the term {term!r}: letters and one ...")
    return before, behind, bool(dots)


def _labels(subscripts: str, term: str, ndim: int, operand: int) -> Labels:
    before, behind, has_dots = _split(subscripts, term)
    rest = ndim - len(before) - len(behind)
    if rest < 0 or (rest and not has_dots):
        raise ShapeError(
            "shape-mismatch",
            f"einsum: the term {term!r} names {len(before + behind)} axes,"
            f" operand {operand} has {ndim}",
            hint=f'"...{term}" takes more axes' if rest > 0 else None,
        )
    return (*before, *reversed(range(rest)), *behind)


def _output(subscripts: str, term: str, inputs: Sequence[Labels]) -> Labels:
    before, behind, has_dots = _split(subscripts, term)
    known = {label for labels in inputs for label in labels}
    for letter, count in Counter(before + behind).items():
        if letter not in known:
            raise _wrong(subscripts, f"has {letter!r} in its result, but in no operand")
        if count > 1:
            raise _wrong(subscripts, f"has {letter!r} twice in its result")
    dots = _under_dots(inputs)
    if dots and not has_dots:
        raise _wrong(subscripts, "has no ... in its result, though an operand has axes there")
    return (*before, *dots, *behind)


def _implied(inputs: Sequence[Labels]) -> Labels:
    """Without an arrow: the axes under the dots, then the letters that stand once, sorted."""
    counts = Counter(label for labels in inputs for label in labels)
    once = sorted(label for label, n in counts.items() if isinstance(label, str) and n == 1)
    return (*_under_dots(inputs), *once)


def _under_dots(inputs: Sequence[Labels]) -> Labels:
    numbers = {label for labels in inputs for label in labels if isinstance(label, int)}
    return tuple(sorted(numbers, reverse=True))


def _name(label: Label) -> str:
    return repr(label) if isinstance(label, str) else f"axis {-1 - label} under the dots"


def _wrong(subscripts: str, problem: str) -> DomainError:
    return DomainError("bad-subscripts", f"einsum: {subscripts!r} {problem}")


def _unequal(label: Label, one: tuple[int, int], other: tuple[int, int]) -> ShapeError:
    (n, i), (m, j) = one, other
    return ShapeError(
        "shape-mismatch",
        f"einsum: {_name(label)} has length {n} in operand {i} and {m} in operand {j}",
    )
