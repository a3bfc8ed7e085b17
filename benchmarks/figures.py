"""Numbers made of blocks of time: medians with their spread, ratios, and whether peers agree."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

MOST = 4_000  # numbers of an array that are compared; larger ones are sampled


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, quartiles and the least; of one value, that value."""
    if len(values) == 1:
        return dict.fromkeys(("median", "low", "high", "least"), values[0])
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"median": median, "low": low, "high": high, "least": min(values)}


def ratio(theirs: Sequence[float], ours: Sequence[float]) -> dict[str, float] | None:
    """The peer's figure by ours: above 1, ours is smaller.

    Rounds are compared one by one where there are as many of both, so that what slows a whole
    round down cancels out.
    """
    if not min(ours, default=0.0) > 0.0:
        return None
    if len(theirs) == len(ours):
        return spread([a / b for a, b in zip(theirs, ours, strict=True)])
    mine = statistics.median(ours)
    return spread([a / mine for a in theirs])


def numbers(values: Mapping[str, Any]) -> dict[str, list[float]]:
    """What a peer computed, ready to be sent: of a long array a sample, and its norm."""
    told = {}
    for key, value in values.items():
        flat = np.asarray(value, np.float64).ravel()
        norm = float(np.linalg.norm(flat))
        step = max(1, 2 * flat.size // MOST) if flat.size > MOST else 1
        told[key] = [*flat[::step].tolist(), norm]
    return told


def disagreement(
    wanted: Mapping[str, Sequence[float]], found: Mapping[str, Sequence[float]]
) -> float:
    """The largest difference, relative to the largest entry of each array; inf for another shape.

    A NaN or an infinity agrees with itself only.
    """
    worst = 0.0
    for key, values in wanted.items():
        others = found.get(key, ())
        if len(others) != len(values):
            return math.inf
        scale = max((abs(v) for v in values if math.isfinite(v)), default=1.0) or 1.0
        for a, b in zip(values, others, strict=True):
            if a == b or (math.isnan(a) and math.isnan(b)):
                continue
            gap = abs(a - b) / scale
            worst = max(worst, gap if math.isfinite(gap) else math.inf)
    return worst


def rounds_that_fit(seconds: float, one: float, least: int, most: int) -> int:
    """How many rounds of this length there is time for."""
    return max(least, min(most, int(seconds / max(one, 1e-9))))
