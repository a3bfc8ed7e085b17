"""Losses of numbers and distances; what weights, masks and reductions mean is in `losses`."""

from __future__ import annotations

from typing import Any

from anabranch.composed.activation import clip, relu
from anabranch.composed.losses import left_out, matched, sample_mask, to_one, weighed
from anabranch.composed.naming import composed
from anabranch.composed.normalisation import length
from anabranch.ops.elementwise import absolute
from anabranch.ops.layout import reshape, reshaped
from anabranch.ops.rules import axis_index, kept, reduced, shape_of
from anabranch.ops.select import where


def _residual(name: str, predictions: Any, targets: Any, mask: Any) -> Any:
    predictions, targets = matched(name, predictions, targets)
    return left_out(predictions - targets, mask)


@composed
def mse(
    predictions: Any,
    targets: Any,
    *,
    weights: Any = None,
    mask: Any = None,
    reduction: str = "mean",
) -> Any:
    """The square of the difference of each element.

    Args:
        predictions, targets: values of one shape.
        weights: numbers for each element, which broadcast; the mean divides by their sum.
        mask: bools, which broadcast; elements that are False are left out.
        reduction: `"mean"`, `"sum"` or `"none"`.

    Raises:
        ShapeError: `[shape-mismatch]` for two shapes, also where they would broadcast.

    Example:
        >>> import anabranch as ab, numpy as np
        >>> float(ab.mse(ab.tensor([1.0, 5.0]), np.array([1.0, 2.0])))
        4.5
    """
    difference = _residual("mse", predictions, targets, mask)
    return to_one(weighed(difference * difference, weights), reduction, mask, weights)


@composed
def mae(
    predictions: Any,
    targets: Any,
    *,
    weights: Any = None,
    mask: Any = None,
    reduction: str = "mean",
) -> Any:
    """The size of the difference of each element; its derivative at 0 is 0.

    Arguments and errors are those of `mse`.

    Example:
        >>> import anabranch as ab, numpy as np
        >>> float(ab.mae(ab.tensor([1.0, 5.0]), np.array([1.0, 2.0])))
        1.5
    """
    losses = absolute(_residual("mae", predictions, targets, mask))
    return to_one(weighed(losses, weights), reduction, mask, weights)


@composed
def huber(
    predictions: Any,
    targets: Any,
    delta: float = 1.0,
    *,
    weights: Any = None,
    mask: Any = None,
    reduction: str = "mean",
) -> Any:
    """r * r / 2 for a difference r up to delta, delta * (|r| - delta / 2) from there.

    At |r| = delta the second derivative is that of the parabola, 1. Other arguments and errors are
    those of `mse`. P. J. Huber, "Robust estimation of a location parameter", 1964.

    Example:
        >>> import anabranch as ab, numpy as np
        >>> float(ab.huber(ab.tensor([1.0, 5.0]), np.array([0.0, 2.0])))
        1.5
    """
    losses = _huber(_residual("huber", predictions, targets, mask), delta)
    return to_one(weighed(losses, weights), reduction, mask, weights)


def _huber(r: Any, delta: Any) -> Any:
    inner = clip(r, -delta, delta)
    return inner * (r - 0.5 * inner)


@composed
def smooth_l1(
    predictions: Any,
    targets: Any,
    beta: float = 1.0,
    *,
    weights: Any = None,
    mask: Any = None,
    reduction: str = "mean",
) -> Any:
    """huber(delta=beta) / beta, whose slope far out is 1; with beta = 0 it is `mae`.

    Other arguments and errors are those of `mse`.

    Example:
        >>> import anabranch as ab, numpy as np
        >>> float(ab.smooth_l1(ab.tensor([1.0, 5.0]), np.array([0.0, 2.0]), beta=2.0))
        1.125
    """
    difference = _residual("smooth_l1", predictions, targets, mask)
    losses = absolute(difference) if beta == 0 else _huber(difference, beta) / beta
    return to_one(weighed(losses, weights), reduction, mask, weights)


@composed
def triplet(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    axis: int = -1,
    *,
    mask: Any = None,
    reduction: str = "mean",
) -> Any:
    """max(0, |anchor - positive| - |anchor - negative| + margin), with lengths along an axis.

    A distance of 0 has the derivative 0, and so has the corner of the maximum.

    Raises:
        ShapeError: `[shape-mismatch]`.

    Example:
        >>> import anabranch as ab
        >>> zero, near, far = ab.tensor([0.0, 0.0]), ab.tensor([3.0, 4.0]), ab.tensor([0.0, 5.5])
        >>> float(ab.triplet(zero, near, far))
        0.5
    """
    shape = shape_of(anchor)
    place = axis_index(axis, len(shape))
    mask = sample_mask(mask, shape, place)
    distances = []
    for other in (positive, negative):
        a, b = matched("triplet", anchor, other)
        apart = a - b if mask is None else where(reshape(mask, kept(shape, (place,))), a - b, 0)
        distances.append(reshaped(length(apart, place), reduced(shape, (place,), keepdims=False)))
    return to_one(relu(distances[0] - distances[1] + margin), reduction, mask)
