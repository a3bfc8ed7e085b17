"""The parts of complex values; of real ones they are the value, and 0."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core.aval import Aval
from anabranch.core.op import Op, elementwise
from anabranch.core.sample import at
from anabranch.core.values import owned
from anabranch.ops.rules import numeric, of_parts, refuse_bools


def _same_aval(x: Aval) -> Aval:
    refuse_bools(x)
    return x


def _part_aval(x: Aval) -> Aval:
    refuse_bools(x)
    return of_parts(x)


def _part(part: Any) -> Any:
    return numeric(lambda x: owned(np.asarray(part(np.asarray(x)))))


conj: Op = elementwise(
    "conj",
    numeric(np.conjugate),
    aval=_same_aval,
    partials=(1,),
    samples=(at(3.0, value=3.0, grads=1.0), at(-0.0, value=-0.0, grads=1.0)),
    scalar="identity",
    doc="The complex conjugate; a real value itself.",
)

imag: Op = elementwise(
    "imag",
    _part(np.imag),
    aval=_part_aval,
    partials=(0,),
    samples=(at(3.0, value=0.0, grads=0.0),),
    scalar=lambda e, x: e.number(0, x.dtype),
    doc="The imaginary part; 0 of a real value.",
)

real: Op = elementwise(
    "real",
    _part(np.real),
    aval=_part_aval,
    partials=(1,),
    samples=(at(3.0, value=3.0, grads=1.0), at(-0.0, value=-0.0, grads=1.0)),
    scalar="identity",
    doc="The real part; a real value itself.",
)
