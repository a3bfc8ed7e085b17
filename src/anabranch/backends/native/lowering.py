"""What becomes of one node: instructions on values in registers, or why it has no machine code."""

from __future__ import annotations

import functools
import itertools
from typing import Any

from anabranch.backends.native.emit import Emitter, NotNativeError, Val, memory_type
from anabranch.backends.native.expand import PRODUCT
from anabranch.backends.native.mathematics import Mathematics
from anabranch.backends.native.reductions import REDUCTIONS
from anabranch.core.dtype import extremes, is_floating
from anabranch.core.node import Literal, Node
from anabranch.core.op import Kernel, MadeOf, Op, Unsupported


def is_reduction(node: Node) -> bool:
    """Whether the node joins many elements to one."""
    return isinstance(node.op.lower, str) and node.op.lower != PRODUCT


@functools.lru_cache(maxsize=1024)
def is_heavy(op: Op) -> bool:
    """Whether one element takes many instructions, as those of most functions do."""
    is_joining = isinstance(op.lower, str) and op.lower != PRODUCT
    return not is_joining and not (isinstance(op.scalar, str) and hasattr(Emitter, op.scalar))


def reason_against(node: Node) -> str | None:
    """Why there is no machine code for this node; None where there is."""
    try:
        for aval in (*node.avals, *(edge.aval for edge in node.inputs)):
            memory_type(aval.dtype)
        if node.op.lower == PRODUCT:
            _try_product(node)
        elif is_reduction(node):
            _try_reduction(node)
        elif isinstance(node.op.lower, MadeOf):
            raise NotNativeError("such operands are left to NumPy")
        elif isinstance(node.op.lower, Unsupported) and node.op.lower is not Op.lower:
            raise NotNativeError(node.op.lower.reason)
        elif isinstance(node.op.lower, Kernel):
            pass  # it says so when it is written
        elif callable(node.op.lower) and not isinstance(node.inputs[0], Literal):
            pass
        else:
            _try_element(node)
    except NotNativeError as reason:
        return str(reason)
    return None


def _try_reduction(node: Node) -> None:
    if node.op.lower not in REDUCTIONS:
        raise NotNativeError(f"{node.op.name} has no machine code yet")
    if isinstance(node.inputs[0], Literal):
        raise NotNativeError("a number is reduced by NumPy")
    if node.avals[0].dtype.itemsize == 2:
        raise NotNativeError("sums of halves are made wide by NumPy")


def _try_product(node: Node) -> None:
    dtypes = {aval.dtype for aval in (*node.avals, *(edge.aval for edge in node.inputs))}
    if len(dtypes) > 1 or not all(map(is_floating, dtypes)):
        raise NotNativeError("products of such dtypes are left to NumPy")


def _try_element(node: Node) -> None:
    _try_numbers(node)
    avals = [edge.aval for edge in node.inputs]
    xs = [Val(f"%x{i}", aval.dtype, aval.weak) for i, aval in enumerate(avals)]
    element(Mathematics(1, itertools.count(), set()), node, xs)


def _try_numbers(node: Node) -> None:
    """Refuse Python integers that may not fit the array's dtype: NumPy raises where they do not.

    Comparisons take any.
    """
    dtype = node.avals[0].dtype
    if dtype.kind not in "iu" or len(node.inputs) == 1:
        return
    low, high = extremes(dtype)
    if dtype.itemsize == 8 and low < 0:
        return
    for edge in node.inputs:
        is_number = edge.aval.weak and edge.aval.dtype.kind == "i"
        if is_number and not (isinstance(edge, Literal) and low <= edge.value <= high):
            raise NotNativeError("whether the number fits the dtype is checked by NumPy")


def element(e: Emitter, node: Node, xs: list[Val]) -> Val:
    """One elementwise node on values in registers."""
    rule = node.op.scalar
    if isinstance(rule, str) and hasattr(e, rule):
        result: Val = getattr(e, rule)(*e.promoted(xs))
    elif callable(rule):
        result = rule(e, *xs, **node.attrs)
    elif callable(node.op.lower) and isinstance(node.inputs[0], Literal):
        result = xs[0]  # a number, moved
    else:
        raise NotNativeError(f"{node.op.name} has no machine code yet")
    return e.convert(result, node.avals[0].dtype)


def kind_of(edge: Any) -> Any:
    """What decides of an operand whether there is machine code: of an integer, its value, too."""
    if type(edge) is not Literal:
        return id(edge.aval)
    return edge.aval, edge.value if edge.aval.dtype.kind in "iu" else None
