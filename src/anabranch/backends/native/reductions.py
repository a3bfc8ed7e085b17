"""Joining many elements to one: across lanes, and what joins without effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anabranch.backends.native.emit import Emitter, Val, register_type
from anabranch.core.dtype import DType, extremes
from anabranch.core.record import record


@record
class Reduction:
    """How a reduction works.

    Attributes:
        join: the emitter's method that joins two elements.
        neutral: by dtype, what joins without effect.
    """

    join: str
    neutral: Callable[[DType], Any]

    def joined(self, e: Emitter, x: Val, y: Val) -> Val:
        """Two values, lane by lane."""
        result: Val = getattr(e, self.join)(x, y)
        return result

    def start(self, e: Emitter, dtype: DType) -> Val:
        """What joins without effect, in every lane."""
        return e.number(self.neutral(dtype), dtype)

    def masked(self, e: Emitter, value: Val, count: int) -> Val:
        """The value in the first `count` lanes, what joins without effect in the others."""
        if count == e.lanes:
            return value
        kind = e.type(register_type(value.dtype))
        start = self.start(e, value.dtype)
        text = e.new(f"select {e.first_lanes(count)}, {kind} {value.text}, {kind} {start.text}")
        return Val(text, value.dtype)

    def across(self, e: Emitter, value: Val, narrower: Callable[[int], Emitter]) -> Val:
        """All lanes joined, one half with the other until one is left."""
        kind, lanes, text = register_type(value.dtype), e.lanes, value.text
        while lanes > 1:
            narrow = narrower(lanes // 2)
            parts = halves(e, kind, text, lanes)
            text = self.joined(narrow, *(Val(part, value.dtype) for part in parts)).text
            e.lines += narrow.lines
            lanes //= 2
        return Val(text, value.dtype)


def halves(e: Emitter, kind: str, text: str, lanes: int | None = None) -> list[str]:
    """The first and the second half of a vector, of as many lanes as the emitter has or others."""
    lanes = lanes or e.lanes
    vector, half = f"<{lanes} x {kind}>", lanes // 2
    return [_part(e, vector, text, start, half) for start in (0, half)]


def _part(e: Emitter, vector: str, text: str, start: int, count: int) -> str:
    if count == 1:
        return e.new(f"extractelement {vector} {text}, i32 {start}")
    order = ", ".join(f"i32 {lane}" for lane in range(start, start + count))
    return e.new(f"shufflevector {vector} {text}, {vector} poison, <{count} x i32> <{order}>")


REDUCTIONS = {
    "sum": Reduction("add", lambda dtype: 0),
    "prod": Reduction("multiply", lambda dtype: 1),
    "max": Reduction("maximum", lambda dtype: extremes(dtype)[0]),
    "min": Reduction("minimum", lambda dtype: extremes(dtype)[1]),
    "any": Reduction("either", lambda dtype: False),
    "all": Reduction("both", lambda dtype: True),
}
