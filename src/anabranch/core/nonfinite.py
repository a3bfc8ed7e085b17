"""Where a value that is not finite came from, and why: the producer told apart from who passes on.

The op's own reference is asked at the point in question, so nothing here knows single ops but by
the operator that Python writes for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from anabranch.core.bind import NUMBERS
from anabranch.core.dtype import is_floating
from anabranch.core.op import Op
from anabranch.core.operators import SYMBOLS

_NEAR = 1e-3  # how far to the side a pole is told from an overflow
_BISECTIONS = 80


class Diagnosis(NamedTuple):
    """What is wrong with one result.

    Attributes:
        kind: `"nan"` or `"inf"`.
        cause: `overflow`, `pole`, `domain`, `0/0`, `inf-inf`, `inf/inf` or `0*inf`.
        at: the index of the first element that was produced here.
        operands: the operands' values at that element; for ops that are not elementwise, of each
            input the largest magnitude.
        value: what came out there.
        bad, of: how many elements were produced here, out of how many.
        limit: for an overflow of one operand, the operand from which on it happens.
    """

    kind: str
    cause: str
    at: tuple[int, ...]
    operands: tuple[Any, ...]
    value: Any
    bad: int
    of: int
    limit: float | None = None


def is_finite(value: Any) -> bool:
    """Whether every element is; what is no float always is."""
    array = np.asarray(value)
    if array.dtype.kind in "biu":
        return True
    return bool(np.isfinite(array).all())


def diagnose(op: Op, xs: Sequence[Any], y: Any, attrs: dict[str, Any]) -> Diagnosis | None:
    """What this application produced that is not finite; None if it only passes on what came.

    For an elementwise op each element is judged by its own operands: it is produced here where
    they are finite, or where it is NaN and none of them is. For other ops all inputs are judged
    as a whole.
    """
    out = np.asarray(y)
    if is_finite(out):
        return None
    with np.errstate(all="ignore"):
        arrays = [np.asarray(x) for x in xs]
        made = _produced(op, arrays, out)
        if not made.any():
            return None
        index = tuple(int(i) for i in np.unravel_index(int(np.argmax(made)), made.shape))
        value = out[index]
        kind = "nan" if np.isnan(value) else "inf"
        if op.elementwise:
            operands = tuple(_at(x, index, out.shape) for x in xs)
            cause = _cause(op, operands, kind, _repeated(op, attrs))
        else:
            operands = tuple(_largest(x) for x in arrays)
            cause = _cause_in_bulk(arrays, kind)
        limit = None
        if cause == "overflow" and op.elementwise and len(operands) == 1:
            limit = _limit(_repeated(op, attrs), operands[0])
    return Diagnosis(kind, cause, index, operands, value, int(made.sum()), out.size, limit)


def _produced(op: Op, xs: Sequence[Any], out: Any) -> Any:
    bad, nan = ~np.isfinite(out), np.isnan(out)
    floats = [x for x in xs if is_floating(x.dtype) or x.dtype.kind == "c"]
    if op.elementwise:
        finite, no_nan = np.ones(out.shape, bool), np.ones(out.shape, bool)
        for x in floats:
            finite = finite & np.isfinite(x)
            no_nan = no_nan & ~np.isnan(x)
        return (bad & finite) | (nan & no_nan)
    if all(np.isfinite(x).all() for x in floats):
        return bad
    return nan & all(not np.isnan(x).any() for x in floats)


def _at(x: Any, index: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    # A Python number stays one, so that it takes the dtype of what it meets.
    return x if type(x) in NUMBERS else np.broadcast_to(x, shape)[index]


def _largest(x: Any) -> Any:
    if not x.size:
        return x.dtype.type(0)
    flat = x.ravel()
    sizes = np.abs(flat.astype(np.float64)) if x.dtype.kind != "c" else np.abs(flat)
    return flat[int(np.argmax(np.where(np.isnan(sizes), np.inf, sizes)))]


def _repeated(op: Op, attrs: dict[str, Any]) -> Callable[..., Any]:
    """The op on scalars; NaN where its reference refuses."""

    def again(*operands: Any) -> float:
        try:
            return float(op.ref(*operands, **attrs))
        except (ArithmeticError, ValueError, TypeError):
            return math.nan

    return again


def _cause(op: Op, operands: tuple[Any, ...], kind: str, again: Callable[..., Any]) -> str:
    infinite = [x for x in operands if np.isinf(x)]
    zeros = [x for x in operands if x == 0]
    symbol = SYMBOLS.get(op.name)
    if kind == "inf":
        return "pole" if _is_pole(operands, again) else "overflow"
    if not infinite:
        return "0/0" if symbol == "/" and len(zeros) == len(operands) else "domain"
    if len(operands) == 1:
        return "domain"
    if zeros and len(infinite) < len(operands):
        return "0*inf"
    return "inf/inf" if symbol == "/" else "inf-inf" if len(infinite) > 1 else "domain"


def _is_pole(operands: tuple[Any, ...], again: Callable[..., Any]) -> bool:
    """Whether a step to either side in one operand leads back to what is not infinite."""
    for slot, x in enumerate(operands):
        if not is_floating(np.asarray(x).dtype):
            continue
        step = type(x)(_NEAR) * (abs(x) if x else type(x)(1))
        sides = [(*operands[:slot], near, *operands[slot + 1 :]) for near in (x - step, x + step)]
        if not any(math.isinf(again(*side)) for side in sides):
            return True
    return False


def _cause_in_bulk(xs: Sequence[Any], kind: str) -> str:
    if kind == "inf":
        return "overflow"
    infinite = np.concatenate([x.ravel()[np.isinf(x.ravel())] for x in xs])
    if not infinite.size:
        return "inf-inf"  # partial sums overflowed both ways
    both_signs = bool((infinite > 0).any() and (infinite < 0).any())
    has_zero = len(xs) > 1 and any(bool((x == 0).any()) for x in xs)
    return "0*inf" if has_zero and not both_signs else "inf-inf"


def _limit(again: Callable[..., Any], operand: Any) -> float | None:
    """From which operand on the way from 0 the result is too large, by bisection."""
    low, high = 0.0, float(operand)
    kind = type(operand)
    if math.isinf(again(kind(low))):
        return None
    for _ in range(_BISECTIONS):
        middle = low + (high - low) / 2
        low, high = (low, middle) if math.isinf(again(kind(middle))) else (middle, high)
    return low


def largest_number(dtype: Any) -> float:
    """The largest finite number of a floating dtype."""
    return float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]
