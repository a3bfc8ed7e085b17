"""Questions to a summary that has either its elements or numbers about them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from anabranch.inspection.parts import Node, Summary


def is_finite(found: Summary) -> bool:
    """Whether every element is."""
    if found.v is None:
        return not (found.nan or found.inf)
    return all(math.isfinite(one) for one in found.flat() or ())


def is_zero(found: Summary | None) -> bool:
    """Whether every element is exactly 0."""
    if found is None:
        return False
    if found.v is None:
        return found.zero == found.n
    return not any(found.flat() or ())


def listed(found: Summary | None, index: Sequence[int]) -> Any:
    """The element at an index; None where the summary does not list it."""
    here = None if found is None else found.v
    for i in index:
        if not isinstance(here, list) or i >= len(here):
            return None
        here = here[i]
    return None if isinstance(here, list) else here


def first_bad(found: Summary) -> list[int] | None:
    """The index of the first element that is not finite, where that is known."""
    if found.v is None:
        return found.first
    pending: list[tuple[list[int], Any]] = [([], found.v)]
    while pending:
        index, here = pending.pop()
        if isinstance(here, list):
            pending += [([*index, i], one) for i, one in reversed(list(enumerate(here)))]
        elif not math.isfinite(here):
            return index
    return None


def norm(found: Summary) -> float:
    """The root of the sum of the squares of the finite elements."""
    if found.v is None:
        return found.norm or 0.0
    numbers = [float(one) for one in found.flat() or () if math.isfinite(one)]
    return math.hypot(*numbers)


def grad_norm(node: Node) -> float | None:
    """The norm of a node's gradient, of all its outputs together; None where none arrived."""
    return math.hypot(*map(norm, node.grads)) if node.grads else None


def size_of(found: Summary | None) -> Summary:
    """The counts and the range of a summary, whether it has elements or not."""
    if found is None:
        return Summary(n=0)
    if found.v is None:
        return found
    numbers = [float(one) for one in found.flat() or ()]
    finite = [one for one in numbers if math.isfinite(one)]
    return Summary(
        n=len(numbers),
        nan=sum(math.isnan(one) for one in numbers),
        inf=sum(math.isinf(one) for one in numbers),
        zero=sum(one == 0 for one in numbers),
        negative=sum(one < 0 for one in numbers),
        min=min(finite, default=None),
        max=max(finite, default=None),
        norm=norm(found),
    )
