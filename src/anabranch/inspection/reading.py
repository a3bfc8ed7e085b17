"""Questions to a summary that has either its elements or numbers about them."""

from __future__ import annotations

import math

from anabranch.inspection.parts import Summary


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


def norm(found: Summary) -> float:
    """The root of the sum of the squares of the finite elements."""
    if found.v is None:
        return found.norm or 0.0
    numbers = [float(one) for one in found.flat() or () if math.isfinite(one)]
    return math.hypot(*numbers)


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
