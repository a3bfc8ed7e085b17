"""The two ops without inputs: a graph's parameter and an array constant."""

from __future__ import annotations

from typing import Any

from anabranch.core.aval import Aval, aval_of
from anabranch.core.op import Op
from anabranch.errors import InternalError


def _given(**_: Any) -> Aval:
    raise InternalError("leaf-rule", "the aval of a parameter is given, not inferred")


PARAMETER = Op(
    "parameter",
    aval=_given,
    ref=_given,
    doc="An input of the graph; its value comes with the call.",
    arity=0,
)
CONSTANT = Op(
    "constant",
    aval=lambda *, value: aval_of(value),
    ref=lambda *, value: value,
    doc="An array that belongs to the graph and never changes.",
    arity=0,
)
LEAVES = (PARAMETER, CONSTANT)
