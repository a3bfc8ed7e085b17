"""What training makes small."""

from __future__ import annotations

from typing import Any

from anabranch.composed.exponential import log_softmax
from anabranch.composed.naming import composed
from anabranch.composed.statistics import mean
from anabranch.core.values import as_array
from anabranch.errors import ShapeError
from anabranch.ops.index import one_hot
from anabranch.ops.layout import permute
from anabranch.ops.reduce import sum_
from anabranch.ops.rules import axis_index, shape_of
from anabranch.ops.select import equal, where


@composed
def cross_entropy(logits: Any, labels: Any, axis: int = -1) -> Any:
    """The mean over all samples of -sum(labels * log_softmax(logits)) along the class axis.

    Args:
        logits: unnormalised log-probabilities, classes along `axis`.
        labels: integers of logits' shape without that axis, or probabilities of its full shape.

    Raises:
        ShapeError: `[shape-mismatch]` when labels do not fit.
        OutOfRangeError: `[index-out-of-range]` for a label that is no class.

    Example:
        >>> import anabranch as ab, numpy as np
        >>> round(float(ab.cross_entropy(ab.tensor([[0.0, 0.0]]), np.array([1]))), 4)
        0.6931
    """
    if isinstance(labels, list | tuple):
        labels = as_array(labels)
    shape = shape_of(logits)
    place = axis_index(axis, len(shape))
    is_integer = labels.dtype.kind in "iu"
    wanted = (*shape[:place], *shape[place + 1 :]) if is_integer else shape
    if shape_of(labels) != wanted:
        raise ShapeError("shape-mismatch", f"labels have shape {shape_of(labels)}, need {wanted}")
    scores = log_softmax(logits, axis)
    if is_integer:
        target = one_hot(labels, shape[place], dtype=bool)
        if place != len(shape) - 1:
            order = list(range(len(shape) - 1))
            order.insert(place, len(shape) - 1)
            target = permute(target, order)
        losses = where(target, scores, 0.0)
    else:
        losses = where(equal(labels, 0), 0.0, labels * scores)
    return -mean(sum_(losses, axis=place))
