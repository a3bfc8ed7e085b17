"""What the standard asks of dtypes: kinds, limits, promotion and casts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from anabranch.core.aval import aval_of
from anabranch.core.bind import NUMBERS
from anabranch.core.dtype import BFLOAT16, FLOATS, DType, promote
from anabranch.core.values import as_dtype
from anabranch.errors import ArgumentError, DTypeError

DTYPES: dict[str, DType] = {
    name: np.dtype(name)
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float32", "float64", "complex64", "complex128"),
    )
}
KINDS: dict[str, frozenset[DType]] = {
    "bool": frozenset([np.dtype(bool)]),
    "signed integer": frozenset(d for d in DTYPES.values() if d.kind == "i"),
    "unsigned integer": frozenset(d for d in DTYPES.values() if d.kind == "u"),
    "real floating": FLOATS,
    "complex floating": frozenset(d for d in DTYPES.values() if d.kind == "c"),
}
KINDS["integral"] = KINDS["signed integer"] | KINDS["unsigned integer"]
KINDS["numeric"] = KINDS["integral"] | FLOATS | KINDS["complex floating"]


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is this one, or of this kind; or one of several.

    Raises:
        ArgumentError: `[bad-argument]` for a kind that the standard does not name.

    Example:
        >>> from anabranch import xp
        >>> xp.isdtype(xp.int8, "integral"), xp.isdtype(xp.int8, (xp.bool, "real floating"))
        (True, False)
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if not isinstance(kind, str):
        return as_dtype(dtype) == as_dtype(kind)
    if kind not in KINDS:
        raise ArgumentError("bad-argument", f"no kind of dtype is called {kind!r}")
    return as_dtype(dtype) in KINDS[kind]


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype that values of these dtypes have together; numbers take that of what they meet.

    Raises:
        ArgumentError: `[bad-argument]` without any.

    Example:
        >>> from anabranch import xp
        >>> xp.result_type(xp.int8, xp.asarray([1], dtype=xp.int32), 3)
        dtype('int32')
    """
    if not arrays_and_dtypes:
        raise ArgumentError("bad-argument", "result_type needs an array or a dtype")
    return promote([_typed(one) for one in arrays_and_dtypes])[0]


def _typed(one: Any) -> tuple[DType, bool]:
    if type(one) in NUMBERS or (hasattr(one, "shape") and not isinstance(one, np.dtype | type)):
        kind = aval_of(one)
        return kind.dtype, kind.weak
    return as_dtype(one), False


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether every value of the first dtype is one of the second.

    Example:
        >>> from anabranch import xp
        >>> xp.can_cast(xp.int8, xp.int16), xp.can_cast(xp.float64, xp.float32)
        (True, False)
    """
    return bool(np.can_cast(_typed(from_)[0], as_dtype(to)))


@dataclass(frozen=True)
class FloatInfo:
    """The limits of a floating dtype, as Python numbers."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True)
class IntegerInfo:
    """The limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(type: Any, /) -> FloatInfo:
    """The limits of a floating dtype (of the parts of a complex one), or of an array's.

    Raises:
        DTypeError: `[unsupported-dtype]` for integers and bools.

    Example:
        >>> from anabranch import xp
        >>> xp.finfo(xp.float32).eps
        1.1920928955078125e-07
    """
    dtype = _typed(type)[0]
    part = np.dtype(f"float{dtype.itemsize * 4}") if dtype.kind == "c" else dtype
    if part not in FLOATS:
        raise DTypeError("unsupported-dtype", f"{dtype} is no dtype of floats")
    of: Any = ml_dtypes.finfo if part == BFLOAT16 else np.finfo
    found = of(part)
    eps, top, bottom, normal = map(float, (found.eps, found.max, found.min, found.smallest_normal))
    return FloatInfo(int(found.bits), eps, top, bottom, normal, part)


def iinfo(type: Any, /) -> IntegerInfo:
    """The limits of an integer dtype, or of an array's.

    Raises:
        DTypeError: `[unsupported-dtype]` for floats and bools.

    Example:
        >>> from anabranch import xp
        >>> xp.iinfo(xp.int8).max
        127
    """
    dtype = _typed(type)[0]
    if dtype.kind not in "iu":
        raise DTypeError("unsupported-dtype", f"{dtype} is no dtype of integers")
    limits = np.iinfo(dtype)
    return IntegerInfo(int(limits.bits), int(limits.max), int(limits.min), dtype)
