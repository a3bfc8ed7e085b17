"""Truth values and bits: no derivative passes through any of these."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.core.aval import Aval, aval
from anabranch.core.dtype import is_floating, promote, short_name
from anabranch.core.op import NO_GRADIENT, UNSUPPORTED, Op, broadcast_shapes, elementwise
from anabranch.core.sample import at, sample
from anabranch.errors import DTypeError
from anabranch.ops.rules import numeric, refuse_bools

inf, nan = math.inf, math.nan
_BOOL = np.dtype(np.bool_)
_LEFT = UNSUPPORTED("left to NumPy")  # no machine code


def _truth(name: str, ref: Any, scalar: Any, doc: str, *points: Any, arity: int = 2) -> Op:
    return elementwise(
        name,
        ref,
        partials=NO_GRADIENT,
        arity=arity,
        result="bool",
        samples=points,
        scalar=scalar,
        doc=doc,
    )


def _size_is(comparison: str, of_integers: bool) -> Any:
    """Machine code for a comparison of |x| with infinity."""

    def scalar(e: Any, x: Any) -> Any:
        if not is_floating(x.dtype):
            return e.number(of_integers, _BOOL)
        return getattr(e, comparison)(e.absolute(x), e.number(inf, x.dtype))

    return scalar


def _of_truth(method: str) -> Any:
    """Machine code for a method on bools."""
    return lambda e, *xs: getattr(e, method)(*(e.convert(x, _BOOL) for x in xs))


def _of_bits(method: str) -> Any:
    return lambda e, *xs: getattr(e, method)(*e.promoted(xs))


isfinite: Op = _truth(
    "isfinite",
    np.isfinite,
    _size_is("less", True),
    "Whether each element is neither infinite nor NaN.",
    at(1.0, value=True),
    at(-inf, value=False),
    at(nan, value=False),
    arity=1,
)
isinf: Op = _truth(
    "isinf",
    np.isinf,
    _size_is("equal", False),
    "Whether each element is infinite.",
    at(1.0, value=False),
    at(-inf, value=True),
    at(nan, value=False),
    arity=1,
)
logical_and: Op = _truth(
    "logical_and",
    np.logical_and,
    _of_truth("both"),
    "Whether both are true; every number but 0 counts as true, NaN too.",
    at(1.0, 2.0, value=True),
    at(1.0, 0.0, value=False),
    at(-0.0, nan, value=False),
    at(nan, inf, value=True),
)
logical_not: Op = _truth(
    "logical_not",
    np.logical_not,
    _of_truth("unless"),
    "Whether x is not true; every number but 0 counts as true, NaN too.",
    at(0.5, value=False),
    at(-0.0, value=True),
    at(nan, value=False),
    arity=1,
)
logical_or: Op = _truth(
    "logical_or",
    np.logical_or,
    _of_truth("either"),
    "Whether one or both are true; every number but 0 counts as true, NaN too.",
    at(0.0, 2.0, value=True),
    at(0.0, -0.0, value=False),
    at(nan, 0.0, value=True),
)
logical_xor: Op = _truth(
    "logical_xor",
    np.logical_xor,
    _of_truth("not_equal"),
    "Whether one of the two is true; every number but 0 counts as true, NaN too.",
    at(0.0, 2.0, value=True),
    at(1.0, 2.0, value=False),
    at(nan, 0.0, value=True),
)


def _bits_aval(*avals: Aval) -> Aval:
    dtype, weak = promote((one.dtype, one.weak) for one in avals)
    if dtype.kind not in "biu":
        raise DTypeError(
            "bits-dtype",
            f"this works on the bits of integers and bools, not on {short_name(dtype)}",
            hint="compare to get bools, x.astype(int) gives integers",
        )
    shape = broadcast_shapes(*avals)
    return aval(shape, dtype, weak and shape == ())


def _shift_aval(x: Aval, y: Aval) -> Aval:
    refuse_bools(x, y)
    return _bits_aval(x, y)


def _bits(
    name: str,
    ref: Any,
    doc: str,
    *points: Any,
    arity: int = 2,
    rule: Any = None,
    scalar: Any = _LEFT,
) -> Op:
    return elementwise(
        name,
        ref,
        aval=rule or _bits_aval,
        partials=NO_GRADIENT,
        arity=arity,
        domain=(0.0, 8.0, False),
        kinds=("int",) * arity,
        samples=points,
        scalar=scalar,
        doc=doc,
    )


bitwise_and: Op = _bits(
    "bitwise_and",
    np.bitwise_and,
    "The bits that both have; of bools, whether both are true.",
    sample(12, 10, value=8),
    sample(True, False, value=False),
    scalar=_of_bits("both"),
)
bitwise_or: Op = _bits(
    "bitwise_or",
    np.bitwise_or,
    "The bits that one or both have; of bools, whether one or both are true.",
    sample(12, 10, value=14),
    sample(True, False, value=True),
    scalar=_of_bits("either"),
)
bitwise_xor: Op = _bits(
    "bitwise_xor",
    np.bitwise_xor,
    "The bits that one of the two has; of bools, whether they differ.",
    sample(12, 10, value=6),
    sample(True, True, value=False),
    scalar=_of_bits("exclusive"),
)
invert: Op = _bits(
    "invert",
    np.invert,
    "Every bit changed: -x - 1 for signed integers; of bools, the opposite.",
    sample(12, value=-13),
    sample(True, value=False),
    arity=1,
    scalar=lambda e, x: e.exclusive(x, e.number(True if x.dtype == _BOOL else -1, x.dtype)),
)
left_shift: Op = _bits(
    "left_shift",
    numeric(np.left_shift),
    "x times 2**y; bits that leave at the left are lost.",
    sample(3, 2, value=12),
    sample(1, 64, value=0),
    rule=_shift_aval,
    scalar="left_shift",
)
right_shift: Op = _bits(
    "right_shift",
    numeric(np.right_shift),
    "x divided by 2**y, rounded down.",
    sample(12, 2, value=3),
    sample(-1, 64, value=-1),
    rule=_shift_aval,
    scalar="right_shift",
)
