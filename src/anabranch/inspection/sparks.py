"""Sizes over steps as a row of small columns."""

from __future__ import annotations

import math
from collections.abc import Sequence


def heights(sizes: Sequence[float]) -> list[float | None]:
    """Sizes between 0 for the lowest and 1 for the highest; None for what is not finite.

    Where the highest is 100 times the lowest or more, heights are logarithmic, and 0 is 0.

    Example:
        >>> from anabranch.inspection.sparks import heights
        >>> heights([4.0, 2.0, 3.0]), heights([1.0, 1000.0, 0.0, float("nan")])
        ([1.0, 0.0, 0.5], [0.0, 1.0, 0.0, None])
    """
    finite = [one for one in sizes if math.isfinite(one)]
    positive = [one for one in finite if one > 0]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    if positive and high >= 100 * min(positive):
        floor, span = math.log10(min(positive)), math.log10(high) - math.log10(min(positive))
        shares = [(math.log10(one) - floor) / span if one > 0 else 0.0 for one in sizes]
    else:
        shares = [(one - low) / (high - low) if high > low else 0.5 for one in sizes]
    return [s if math.isfinite(one) else None for s, one in zip(shares, sizes, strict=True)]
