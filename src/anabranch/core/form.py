"""Whether what a user writes for a node is what its op takes: so many operands, and these attrs."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anabranch.core.node import Edge
from anabranch.core.op import Op
from anabranch.errors import ArgumentError

_AXES = {"axis", "axes"}


def require_form(op: Op, inputs: Any, attrs: Mapping[str, Any]) -> None:
    """Refuse what the rules of the op would misread.

    Raises:
        ArgumentError: `[bad-argument]` for operands that are no list and for axes from the end,
            `[argument-count]` for too many or too few operands, `[no-such-argument]` for attrs that
            the op does not have, or that it needs and was not given.
    """
    if isinstance(inputs, Edge | str) or not isinstance(inputs, Sequence):
        raise ArgumentError(
            "bad-argument",
            f"the operands of {op.name} are given as a list, not as {type(inputs).__name__}",
            hint=f'g.add_node("{op.name}", [x])',
        )
    counts = sorted({len(sample.inputs) for sample in op.samples})
    if counts and not callable(op._rules) and len(inputs) not in counts:
        wanted = " or ".join(map(str, counts))
        raise ArgumentError(
            "argument-count",
            f"{op.name} takes {wanted} operand{'s' * (counts != [1])}, got {len(inputs)}",
        )
    rule = op.ref if op.elementwise else op.aval
    if isinstance(rule, np.ufunc):  # whose own options are no attrs
        if attrs:
            raise _unknown(op, f"got an unexpected {', '.join(attrs)}")
    else:
        try:
            inspect.signature(rule).bind(*inputs, **attrs)
        except TypeError as error:
            raise _unknown(op, str(error)) from None
    for name in _AXES & attrs.keys():
        given = attrs[name]
        if any(type(axis) is int and axis < 0 for axis in np.atleast_1d(given).tolist()):
            raise ArgumentError(
                "bad-argument", f"{op.name}: attrs count axes from 0, not from the end: {given}"
            )


def _unknown(op: Op, reason: str) -> ArgumentError:
    names = sorted({name for sample in op.samples for name in sample.attrs})
    known = f"; its attrs are {', '.join(names)}" if names else "; it has no attrs"
    return ArgumentError("no-such-argument", f"{op.name}: {reason}{known if op.samples else ''}")
