"""Values that are not finite, put into words: for errors and for reports alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core.nonfinite import Diagnosis, largest_number
from anabranch.core.op import Op
from anabranch.core.operators import SYMBOLS

_WAYS_OUT = {
    "overflow": "smaller values going in, or a function that never forms the large number:"
    " ab.log_softmax, ab.logsumexp, ab.softplus",
    "pole": "keep the operand away from the pole: ab.maximum(x, 1e-12), or ab.where with a safe"
    " value inside the op",
    "domain": "ab.where(is_valid, x, 1.0) before the op keeps x in its domain",
    "0/0": "ab.where(b == 0, 1.0, b) as divisor, and ab.where around the quotient",
    "data": "clean the data: np.isfinite(x).all() tells",
    "infinite-derivative": "keep the operand away from this point: ab.sqrt(x + 1e-12), or ab.where"
    " with a safe value inside the op",
}


def number_text(value: Any) -> str:
    """A number to four digits."""
    one = value.item() if isinstance(value, np.generic) else value
    if isinstance(one, complex):
        return f"{one:.4g}"
    return str(one) if isinstance(one, bool | int) else f"{float(one):.4g}"


def index_text(index: Sequence[int]) -> str:
    """`[2, 0]`; empty for a scalar."""
    return f"[{', '.join(map(str, index))}]" if index else ""


def way_out(cause: str) -> str | None:
    """What usually helps, in words that can be typed."""
    return _WAYS_OUT.get(cause)


def call_text(op: Op, operands: Sequence[str]) -> str:
    """`0 / 0`, `log(-3)`."""
    symbol = SYMBOLS.get(op.name)
    if symbol is None or not op.elementwise:
        return f"{op.name}({', '.join(operands)})"
    return f" {symbol} ".join(operands) if len(operands) == 2 else f"{symbol}{operands[0]}"


def reason(op: Op, found: Diagnosis, dtype: Any) -> str:
    """Why the result is not finite, in half a sentence."""
    given = [number_text(x) for x in found.operands]
    applied = call_text(op, given)
    name = np.dtype(dtype).name
    if not op.elementwise:
        return _in_bulk(op, found, name)
    if found.cause == "overflow":
        if found.limit is not None:
            side = "above" if found.limit >= 0 else "below"
            limit = number_text(found.limit)
            return f"{op.name} is larger than {name} holds {side} {limit}"
        largest = number_text(largest_number(dtype))
        return f"{applied} is larger than {name} holds ({largest})"
    if found.cause == "pole":
        if SYMBOLS.get(op.name) == "/":
            return "division by zero"
        is_zero = len(given) == 1 and found.operands[0] == 0
        return f"{op.name} of zero" if is_zero else f"{applied} is a pole"
    if found.cause == "domain":
        return f"{applied} has no value"
    return f"{applied} has no value ({found.cause.replace('*', ' times ')})"


def _in_bulk(op: Op, found: Diagnosis, name: str) -> str:
    largest = " and ".join(number_text(abs(x)) for x in found.operands)
    if found.cause == "overflow":
        return f"the sums in {op.name} are larger than {name} holds; largest operands {largest}"
    return f"{op.name} adds up {found.cause.replace('*', ' times ')}; largest operands {largest}"
