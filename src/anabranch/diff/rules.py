"""How a cotangent or a tangent meets a node: what both walks share.

Where a partial derivative may be infinite or NaN, cotangent and partial meet in `absorb`, so that a
branch that was masked out (cotangent exactly 0) cannot poison what it does not touch.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.core.aval import aval_of
from anabranch.core.bind import NUMBERS, bind
from anabranch.core.config import options
from anabranch.core.node import Node
from anabranch.core.op import NoGradient, Unsupported
from anabranch.core.values import ARRAYS
from anabranch.errors import InternalError, NoGradientError
from anabranch.ops.layout import broadcast_to, sum_to
from anabranch.ops.select import absorb, where

Meet = Callable[[Any, Any], Any]
_NO_RULE = (NoGradient, Unsupported)


def meeting(y: Any) -> Meet:
    """How a cotangent and a partial meet in a walk over values like `y`."""
    if not options().absorb_zero:
        return operator.mul
    # With arrays in hand, the reference itself: no way through the front ends.
    return absorb.ref if isinstance(y, ARRAYS) else _absorb


def _absorb(ct: Any, partial: Any) -> Any:
    if isinstance(ct, np.generic) and ct == 1 and type(partial) not in NUMBERS:
        return partial  # the start of a walk over nodes: nothing to multiply
    return absorb(ct, partial)


def scaled(ct: Any, partial: Any, selects: bool, meet: Meet) -> Any:
    """Cotangent (or tangent) times partial derivative."""
    kind = type(partial)
    if kind in NUMBERS:
        if kind is bool:
            return where(partial, ct, 0.0)
        if kind is int and partial in (1, -1):
            return ct if partial == 1 else -ct
        if math.isfinite(partial):
            return ct * partial
    elif partial.dtype.kind == "b":
        return where(partial, ct, 0.0)
    return absorb(partial, ct) if selects else meet(ct, partial)


def partial_value(rule: Any, y: Any, xs: tuple[Any, ...], node: Node) -> Any:
    """The local derivative on an edge: a rule's value, or the constant that stands for it."""
    return rule(y, *xs, **node.attrs) if callable(rule) else rule


def pulled_back(
    node: Node, slot: int, ct: Any, y: Any, xs: tuple[Any, ...], common: Any, meet: Meet
) -> Any:
    """The contribution of this node's cotangent to its input `slot`; None for no path."""
    op = node.op
    rule = op.gradient(slot)
    if isinstance(rule, _NO_RULE):
        if isinstance(rule, NoGradient):
            return None
        raise missing_rule(node, slot, rule)
    x = xs[slot]
    if op.partials is not None:
        partial = rule(y, *xs, **node.attrs) if callable(rule) else rule
        part = scaled(ct, partial, op.selects, meet)
    elif op.common is not None:
        part = rule(ct, y, *xs, common=common, **node.attrs)
    else:
        part = rule(ct, y, *xs, **node.attrs)
    if type(part) is type(x) and isinstance(x, np.generic):
        return part  # scalars of one type agree in shape and dtype
    if part.shape != x.shape:
        if not op.elementwise:
            raise wrong_shape(node, slot, aval_of(x), aval_of(part))
        part = sum_to(part, x.shape)
    # A cotangent lives in the space of its primal, so mixed precision comes back here.
    return part if part.dtype == x.dtype else bind("astype", part, dtype=x.dtype)


def fitted(t: Any, y: Any) -> Any:
    """A tangent in the shape and dtype of its output."""
    if t.shape != y.shape:
        t = broadcast_to(t, y.shape)
    return t if t.dtype == y.dtype else bind("astype", t, dtype=y.dtype)


def missing_rule(node: Node, slot: int, rule: Unsupported) -> NoGradientError:
    """The error for a derivative that an op's record refuses."""
    return NoGradientError(
        "no-gradient-rule",
        f"{node.op.name} has no derivative for its input {slot}: {rule.reason}",
        source=node.source,
        hint="ab.stop_gradient(x) declares that none is wanted",
        node=node,
    )


def wrong_shape(node: Node, slot: int, wanted: Any, got: Any) -> InternalError:
    """The error for a rule whose cotangent does not have its input's shape."""
    return InternalError(
        "bad-rule",
        f"the derivative rule of {node.op.name} for input {slot} must give {wanted}, it gave {got}",
        source=node.source,
        node=node,
    )
