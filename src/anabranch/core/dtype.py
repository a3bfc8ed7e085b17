"""Dtypes: their short names, which of them have derivatives, and promotion with weak scalars."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import Any

import ml_dtypes
import numpy as np

from anabranch.errors import DTypeError

DType = np.dtype[Any]

_SHORT = {
    np.dtype(long): short
    for long, short in {
        np.bool_: "bool",
        np.int8: "i8",
        np.int16: "i16",
        np.int32: "i32",
        np.int64: "i64",
        np.uint8: "u8",
        np.uint16: "u16",
        np.uint32: "u32",
        np.uint64: "u64",
        np.float16: "f16",
        ml_dtypes.bfloat16: "bf16",
        np.float32: "f32",
        np.float64: "f64",
        np.complex64: "c64",
        np.complex128: "c128",
    }.items()
}
BFLOAT16: DType = np.dtype(ml_dtypes.bfloat16)
FLOATS = frozenset(np.dtype(t) for t in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64))
# What a Python number becomes when nothing stronger decides; also its rank among weak scalars.
WEAK_DTYPES: dict[type, DType] = {
    bool: np.dtype(np.bool_),
    int: np.dtype(np.int64),
    float: np.dtype(np.float64),
    complex: np.dtype(np.complex128),
}
# Weak scalars as NumPy's promotion takes them, in rising rank; a weak bool is as strong as any.
_WEAK_KINDS: dict[DType, Any] = {
    np.dtype(np.bool_): np.dtype(np.bool_),
    np.dtype(np.int64): int,
    np.dtype(np.float64): float,
    np.dtype(np.complex128): complex,
}


_FOREIGN = {"U": "strings", "S": "byte strings", "O": "Python objects", "M": "dates"}


def short_name(dtype: DType) -> str:
    """`f64`, `i32`, `bool`: how types are written in listings and errors."""
    return _SHORT.get(dtype) or dtype.name


def is_supported(dtype: DType) -> bool:
    """Whether values of this dtype can stand in a graph (object and string arrays cannot)."""
    return dtype in _SHORT


def checked(dtype: DType) -> DType:
    """The dtype itself.

    Raises:
        DTypeError: `[unsupported-dtype]` for strings, objects, dates and other foreign dtypes.
    """
    if not is_supported(dtype):
        raise refused(dtype)
    return dtype


def is_swapped(dtype: DType) -> bool:
    """Whether the bytes of these values lie in the other order than this machine's."""
    return not is_supported(dtype) and is_supported(dtype.newbyteorder("="))


def refused(dtype: DType, facts: tuple[str, ...] = ()) -> DTypeError:
    """`[unsupported-dtype]`: what such values are, and what can stand in a graph instead."""
    if is_swapped(dtype):  # named alike, so what differs has to be said
        what, hint = f"{dtype.name} values of the other byte order", f'astype("{dtype.name}")'
    else:
        what = _FOREIGN.get(dtype.kind, f"values of dtype {dtype.name}")
        hint = "floats, integers, bool and complex numbers can"
    sentence = f"{what} cannot stand in a graph"
    return DTypeError("unsupported-dtype", sentence, facts=facts, hint=hint)


def is_floating(dtype: DType | None) -> bool:
    """Whether values of this dtype have tangents."""
    return dtype in FLOATS


def extremes(dtype: DType) -> tuple[Any, Any]:
    """The lowest and the highest value of a real dtype, as Python numbers."""
    if dtype.kind == "b":
        return False, True
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return int(limits.min), int(limits.max)
    return -math.inf, math.inf


def is_half(dtype: DType) -> bool:
    """Whether this is a 16-bit float: sums and counts of such values are made in float32."""
    return dtype in FLOATS and dtype.itemsize == 2


def promote(types: Iterable[tuple[DType, bool]]) -> tuple[DType, bool]:
    """NumPy 2 promotion of (dtype, weak) pairs; the result is weak only if all of them are."""
    pairs = list(types)
    if len(pairs) == 1:
        return pairs[0]
    if all(weak for _, weak in pairs):
        ranked = list(_WEAK_KINDS)
        return max((dtype for dtype, _ in pairs), key=ranked.index), True
    kinds = [_WEAK_KINDS.get(dtype, dtype) if weak else dtype for dtype, weak in pairs]
    return functools.reduce(_common, kinds), False


@functools.lru_cache(maxsize=1024)
def _common(one: Any, other: Any) -> DType:
    """What NumPy's addition makes of two dtypes, or of one and a Python number type."""
    if BFLOAT16 in (one, other) and (one is float or other is float):
        # NumPy widens it, for it is not one of its own.
        return BFLOAT16
    return np.add.resolve_dtypes((one, other, None))[-1]
