"""What losses have in common: how those of samples or elements become one number.

Each loss is one number for each sample or element, of which `reduction` makes one: `"mean"`, which
counts weights and what a mask leaves, `"sum"`, or `"none"`. What a mask takes out has no say: it
may be NaN or infinite, its label may be no class, and its gradient is exactly 0. A mean over
nothing, where a mask or weights leave nothing, is 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.composed.normalisation import narrowed
from anabranch.composed.statistics import mean, widened
from anabranch.core.aval import Shape, aval_of
from anabranch.core.dtype import promote
from anabranch.core.values import as_array
from anabranch.errors import ArgumentError, ShapeError
from anabranch.ops.elementwise import astype
from anabranch.ops.layout import broadcast_to
from anabranch.ops.reduce import sum_
from anabranch.ops.rules import reduced, shape_of
from anabranch.ops.select import absorb_either, equal, where

_REDUCTIONS = ("mean", "sum", "none")


def as_operand(values: Any) -> Any:
    return as_array(values) if isinstance(values, list | tuple) else values


def matched(name: str, x: Any, y: Any) -> tuple[Any, Any]:
    """Two operands of one shape; a scalar fits any. Others would broadcast into a wrong mean.

    Integers become float64: their differences and products would wrap.
    """
    x, y = as_operand(x), as_operand(y)
    if shape_of(x) != shape_of(y) and () not in (shape_of(x), shape_of(y)):
        raise ShapeError(
            "shape-mismatch",
            f"{name} compares values of one shape, not {shape_of(x)} and {shape_of(y)}",
            hint="reshape one of them: broadcasting would compare each with all",
        )
    if promote((one.dtype, one.weak) for one in (aval_of(x), aval_of(y)))[0].kind in "iu":
        x, y = astype(x, np.float64), astype(y, np.float64)
    return x, y


def left_out(values: Any, mask: Any) -> Any:
    """Values with a number in place of those that a mask takes out."""
    return values if mask is None else where(mask, values, 0)


def to_one(losses: Any, reduction: str, mask: Any = None, weights: Any = None) -> Any:
    """Losses made one by `reduction`; the weights have been multiplied in already."""
    if reduction not in _REDUCTIONS:
        known = ", ".join(f'"{one}"' for one in _REDUCTIONS)
        raise ArgumentError("bad-argument", f"reduction is one of {known}, not {reduction!r}")
    losses = left_out(losses, mask)
    if reduction == "none":
        return losses
    if reduction == "sum":
        return sum_(losses)
    if mask is None and weights is None:
        return mean(losses)
    wide, dtype = widened(losses)
    counts = astype(mask, wide.dtype) if weights is None else weights
    total = sum_(broadcast_to(widened(left_out(counts, mask))[0], shape_of(losses)))
    is_nothing = equal(total, 0)
    return narrowed(where(is_nothing, 0.0, sum_(wide) / where(is_nothing, 1.0, total)), dtype)


def weighed(losses: Any, weights: Any) -> Any:
    """Losses times weights, of which a 0 takes out as a mask does."""
    return losses if weights is None else absorb_either(weights, losses)


def sample_mask(mask: Any, shape: Shape, place: int) -> Any:
    mask, wanted = as_operand(mask), reduced(shape, (place,), keepdims=False)
    if mask is not None and shape_of(mask) != wanted:
        raise ShapeError("shape-mismatch", f"mask has shape {shape_of(mask)}, need {wanted}")
    return mask
