"""Truth values and bits: no derivative passes through any of these."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.core.aval import Aval, aval
from anabranch.core.dtype import promote, short_name
from anabranch.core.op import NO_GRADIENT, Op, broadcast_shapes, elementwise
from anabranch.core.sample import at, sample
from anabranch.errors import DTypeError
from anabranch.ops.rules import numeric, refuse_bools

inf, nan = math.inf, math.nan


def _truth(name: str, ref: Any, doc: str, *points: Any, arity: int = 2) -> Op:
    return elementwise(
        name, ref, partials=NO_GRADIENT, arity=arity, result="bool", samples=points, doc=doc
    )


isfinite: Op = _truth(
    "isfinite",
    np.isfinite,
    "Whether each element is neither infinite nor NaN.",
    at(1.0, value=True),
    at(-inf, value=False),
    at(nan, value=False),
    arity=1,
)
isinf: Op = _truth(
    "isinf",
    np.isinf,
    "Whether each element is infinite.",
    at(1.0, value=False),
    at(-inf, value=True),
    at(nan, value=False),
    arity=1,
)
logical_and: Op = _truth(
    "logical_and",
    np.logical_and,
    "Whether both are true; every number but 0 counts as true, NaN too.",
    at(1.0, 2.0, value=True),
    at(1.0, 0.0, value=False),
    at(-0.0, nan, value=False),
    at(nan, inf, value=True),
)
logical_not: Op = _truth(
    "logical_not",
    np.logical_not,
    "Whether x is not true; every number but 0 counts as true, NaN too.",
    at(0.5, value=False),
    at(-0.0, value=True),
    at(nan, value=False),
    arity=1,
)
logical_or: Op = _truth(
    "logical_or",
    np.logical_or,
    "Whether one or both are true; every number but 0 counts as true, NaN too.",
    at(0.0, 2.0, value=True),
    at(0.0, -0.0, value=False),
    at(nan, 0.0, value=True),
)
logical_xor: Op = _truth(
    "logical_xor",
    np.logical_xor,
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


def _bits(name: str, ref: Any, doc: str, *points: Any, arity: int = 2, rule: Any = None) -> Op:
    return elementwise(
        name,
        ref,
        aval=rule or _bits_aval,
        partials=NO_GRADIENT,
        arity=arity,
        domain=(0.0, 8.0, False),
        kinds=("int",) * arity,
        samples=points,
        doc=doc,
    )


bitwise_and: Op = _bits(
    "bitwise_and",
    np.bitwise_and,
    "The bits that both have; of bools, whether both are true.",
    sample(12, 10, value=8),
    sample(True, False, value=False),
)
bitwise_or: Op = _bits(
    "bitwise_or",
    np.bitwise_or,
    "The bits that one or both have; of bools, whether one or both are true.",
    sample(12, 10, value=14),
    sample(True, False, value=True),
)
bitwise_xor: Op = _bits(
    "bitwise_xor",
    np.bitwise_xor,
    "The bits that one of the two has; of bools, whether they differ.",
    sample(12, 10, value=6),
    sample(True, True, value=False),
)
invert: Op = _bits(
    "invert",
    np.invert,
    "Every bit changed: -x - 1 for signed integers; of bools, the opposite.",
    sample(12, value=-13),
    sample(True, value=False),
    arity=1,
)
left_shift: Op = _bits(
    "left_shift",
    numeric(np.left_shift),
    "x times 2**y; bits that leave at the left are lost.",
    sample(3, 2, value=12),
    sample(1, 64, value=0),
    rule=_shift_aval,
)
right_shift: Op = _bits(
    "right_shift",
    numeric(np.right_shift),
    "x divided by 2**y, rounded down.",
    sample(12, 2, value=3),
    sample(-1, 64, value=-1),
    rule=_shift_aval,
)
