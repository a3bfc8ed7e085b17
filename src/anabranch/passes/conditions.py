"""What conditions of rows ask about a value."""

from __future__ import annotations

from typing import Any

from anabranch.core.bind import bind
from anabranch.ops.elementwise import stop_gradient
from anabranch.ops.index import slice_
from anabranch.ops.layout import broadcast_to, permute, reshape
from anabranch.ops.reduce import sum_

DEPTH = 6  # how many ops a condition looks through
MOVES = (reshape, broadcast_to, permute, slice_, stop_gradient)


def is_made_by(value: Any, *ops: Any) -> bool:
    return hasattr(value, "node") and value.node.op in ops


def is_floating(x: Any) -> bool:
    return hasattr(x, "node") and bool(x.aval.is_floating)


def total(x: Any, axes: Any, keepdims: Any = True) -> Any:
    return bind(sum_, x, axes=axes, keepdims=keepdims)
