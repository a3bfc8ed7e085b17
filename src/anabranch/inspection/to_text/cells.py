"""Values, gradients and contributions as cells."""

from __future__ import annotations

import math
from typing import Any

from anabranch.inspection.to_text.page import Page, Span

_LISTED = 4  # elements of an array that a cell still shows one by one


def brief(page: Page, summary: Any, style: str = "") -> Span:
    """A value in short: the number, a few elements, what is bad in it, or its norm between bars."""
    flat = summary.flat()
    bad = bad_text(summary)
    if flat is not None and not isinstance(summary.v, list):
        text = page.number(summary.v)
    elif bad:
        text = bad
    elif _same(summary, flat) is not None:
        text = page.number(_same(summary, flat))
    elif flat is not None and len(flat) <= _LISTED:
        text = f"[{' '.join(map(page.number, flat))}]"
    else:
        text = f"‖{page.number(norm(summary))}‖"
    return text, "bad" if bad else style


def bad_text(summary: Any) -> str:
    """`2 inf, 1 nan of 12`; empty where everything is finite."""
    flat = summary.flat()
    if flat is None:
        counts = {"nan": summary.nan or 0, "inf": summary.inf or 0}
        size = summary.n or 0
    else:
        values = [float(one) for one in flat]
        counts = {"nan": sum(map(math.isnan, values)), "inf": sum(map(math.isinf, values))}
        size = len(values)
    said = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    return f"{said} of {size}" if said else ""


def _same(summary: Any, flat: list[Any] | None) -> Any:
    """The number that all elements are; None if they differ."""
    if flat is not None:
        return flat[0] if flat and all(one == flat[0] for one in flat) else None
    return summary.min if summary.min is not None and summary.min == summary.max else None


def ends(summary: Any) -> tuple[float, float]:
    """The smallest and the largest of the finite elements; NaN where there is none."""
    flat = summary.flat()
    if flat is None:
        found = (summary.min, summary.max)
    else:
        finite = [float(one) for one in flat if math.isfinite(float(one))]
        found = (min(finite, default=None), max(finite, default=None))
    low, high = (math.nan if one is None else float(one) for one in found)
    return low, high


def norm(summary: Any) -> float:
    """The norm of the finite elements; NaN where it is not known."""
    flat = summary.flat()
    if flat is None:
        return math.nan if summary.norm is None else float(summary.norm)
    return math.hypot(*(float(one) for one in flat if math.isfinite(float(one))))


def gradient(page: Page, state: str, summary: Any) -> Span:
    """A gradient: a number, `·` awaited, `none` where nothing arrived, `—` where none is wanted.

    `…` stands for what several contributions make of a large array before the last one is there.
    """
    if summary is not None:
        return brief(page, summary, "grad")
    return {"none": "none", "unwanted": "—", "arrived": "…"}.get(state, "·"), "mute"


def value(page: Page, summary: Any) -> Span:
    """A value, or `·` where it was not recorded."""
    return ("·", "mute") if summary is None else brief(page, summary, "value")
