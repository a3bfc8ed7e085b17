"""Losses of classes and distributions; what weights, masks and reductions mean is in `losses`."""

from __future__ import annotations

from typing import Any

from anabranch.composed.activation import relu
from anabranch.composed.exponential import log_softmax
from anabranch.composed.losses import as_operand, left_out, matched, sample_mask, to_one, weighed
from anabranch.composed.naming import composed
from anabranch.core.aval import Shape, aval_of
from anabranch.errors import ShapeError
from anabranch.ops.elementwise import astype, log, softplus
from anabranch.ops.index import one_hot
from anabranch.ops.layout import broadcast_to, permute, reshape
from anabranch.ops.reduce import sum_
from anabranch.ops.rules import axis_index, kept, reduced, shape_of
from anabranch.ops.select import absorb_either, equal, where


@composed
def cross_entropy(
    logits: Any,
    labels: Any,
    axis: int = -1,
    *,
    weights: Any = None,
    mask: Any = None,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Any:
    """-sum(labels * log_softmax(logits)) along the class axis, of each sample.

    Args:
        logits: unnormalised log-probabilities, classes along `axis`.
        labels: integers of logits' shape without that axis, or probabilities of its full shape.
        axis: the class axis.
        weights: a number for each class; the mean divides by the weights of the labels.
        mask: bools of logits' shape without `axis`; samples that are False are left out.
        label_smoothing: the share of each label that is spread over all classes evenly.
        reduction: `"mean"`, `"sum"` or `"none"`.

    Raises:
        ShapeError: `[shape-mismatch]` when labels, weights or mask do not fit.
        OutOfRangeError: `[index-out-of-range]` for a label that is no class, unless left out.

    Example:
        >>> import anabranch as ab, numpy as np
        >>> round(float(ab.cross_entropy(ab.tensor([[0.0, 0.0]]), np.array([1]))), 4)
        0.6931
    """
    place = axis_index(axis, len(shape_of(logits)))
    mask = sample_mask(mask, shape_of(logits), place)
    if mask is not None:
        logits = where(reshape(mask, kept(shape_of(logits), (place,))), logits, 0)
    return _likelihood(
        log_softmax(logits, axis), labels, place, weights, mask, label_smoothing, reduction
    )


@composed
def nll(
    log_probs: Any,
    labels: Any,
    axis: int = -1,
    *,
    weights: Any = None,
    mask: Any = None,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Any:
    """-sum(labels * log_probs) along the class axis: `cross_entropy` of what is normalised already.

    Arguments and errors are those of `cross_entropy`.

    Example:
        >>> import anabranch as ab, numpy as np
        >>> float(ab.nll(ab.tensor([[-0.5, -1.0], [-3.0, -0.25]]), np.array([1, 1])))
        0.625
    """
    place = axis_index(axis, len(shape_of(log_probs)))
    mask = sample_mask(mask, shape_of(log_probs), place)
    return _likelihood(log_probs, labels, place, weights, mask, label_smoothing, reduction)


def _class_weights(weights: Any, classes: int, place: int, ndim: int) -> Any:
    weights = as_operand(weights)
    if shape_of(weights) != (classes,):
        raise ShapeError(
            "shape-mismatch", f"weights have shape {shape_of(weights)}, need ({classes},)"
        )
    return reshape(weights, tuple(classes if i == place else 1 for i in range(ndim)))


def _likelihood(
    scores: Any,
    labels: Any,
    place: int,
    weights: Any,
    mask: Any,
    smoothing: float,
    reduction: str,
) -> Any:
    labels, shape = as_operand(labels), shape_of(scores)
    classes = shape[place]
    is_integer = labels.dtype.kind in "iu"
    wanted = reduced(shape, (place,), keepdims=False) if is_integer else shape
    if shape_of(labels) != wanted:
        raise ShapeError("shape-mismatch", f"labels have shape {shape_of(labels)}, need {wanted}")
    shares = _shares(labels, mask, shape, place)
    measure = None
    if weights is not None:
        weights = _class_weights(weights, classes, place, len(shape))
        measure = sum_(_share_of(shares, broadcast_to(weights, shape)), axis=place)
        scores = absorb_either(weights, scores)
    losses = sum_(_share_of(shares, scores), axis=place)
    if smoothing:
        even = sum_(scores, axis=place)
        losses = (1.0 - smoothing) * losses + (smoothing / classes) * even
    return -to_one(losses, reduction, mask, measure)


def _shares(labels: Any, mask: Any, shape: Shape, place: int) -> Any:
    """What each class has of each sample: bools for labels that are classes."""
    if labels.dtype.kind not in "iu":
        if mask is None:
            return labels
        return where(reshape(mask, kept(shape, (place,))), labels, 0)
    target = one_hot(left_out(labels, mask), shape[place], dtype=bool)
    if place == len(shape) - 1:
        return target
    order = list(range(len(shape) - 1))
    order.insert(place, len(shape) - 1)
    return permute(target, order)


def _share_of(shares: Any, values: Any) -> Any:
    """Shares times values, where a share of 0 is 0 whatever the value: 0 log 0 is 0."""
    if shares.dtype.kind == "b":
        return where(shares, values, 0.0)
    return absorb_either(shares, values)


@composed
def binary_cross_entropy(
    logits: Any, labels: Any, *, weights: Any = None, mask: Any = None, reduction: str = "mean"
) -> Any:
    """-y log p - (1 - y) log(1 - p) of each element, with p = sigmoid(logits) and y the labels.

    It is finite for every finite logit and 0 for an infinite one that is right.

    Args:
        logits: log-odds.
        labels: 0 and 1, bools, or probabilities, of the same shape.
        weights: numbers for each element, which broadcast; the mean divides by their sum.
        mask: bools, which broadcast; elements that are False are left out.
        reduction: `"mean"`, `"sum"` or `"none"`.

    Raises:
        ShapeError: `[shape-mismatch]`.

    Example:
        >>> import anabranch as ab, numpy as np
        >>> round(float(ab.binary_cross_entropy(ab.tensor([0.0, 0.0]), np.array([1.0, 0.0]))), 4)
        0.6931
    """
    logits, labels = matched("binary_cross_entropy", logits, labels)
    if aval_of(labels).dtype.kind == "b":
        labels = astype(labels, logits.dtype)
    logits, labels = left_out(logits, mask), left_out(labels, mask)
    losses = absorb_either(labels, softplus(-logits)) + absorb_either(1 - labels, softplus(logits))
    return to_one(weighed(losses, weights), reduction, mask, weights)


@composed
def kl_div(
    log_probs: Any, targets: Any, axis: int = -1, *, mask: Any = None, reduction: str = "mean"
) -> Any:
    """sum(p * (log p - log_probs)) along an axis, of each sample: from log_probs to p, the targets.

    Where a target is 0 it adds nothing, and p log p counts there with the derivative 0.

    Args:
        log_probs: log-probabilities.
        targets: probabilities, of the same shape.
        axis: the class axis.
        mask: bools of that shape without `axis`; samples that are False are left out.
        reduction: `"mean"` over samples, `"sum"` or `"none"`.

    Raises:
        ShapeError: `[shape-mismatch]`.

    Example:
        >>> import anabranch as ab
        >>> scores = ab.log(ab.tensor([0.5, 0.5]))
        >>> round(float(ab.kl_div(scores, ab.tensor([1.0, 0.0]))), 4)
        0.6931
    """
    scores, p = matched("kl_div", log_probs, targets)
    shape = shape_of(scores)
    place = axis_index(axis, len(shape))
    mask = sample_mask(mask, shape, place)
    if mask is not None:
        wide = reshape(mask, kept(shape, (place,)))
        scores, p = where(wide, scores, 0), where(wide, p, 0)
    own = log(where(equal(p, 0), 1, p))
    return to_one(sum_(absorb_either(p, own - scores), axis=place), reduction, mask)


@composed
def hinge(
    scores: Any, labels: Any, *, weights: Any = None, mask: Any = None, reduction: str = "mean"
) -> Any:
    """max(0, 1 - labels * scores) of each element, with labels -1 and 1.

    At the margin, labels * scores = 1, the derivative is 0, as that of `relu`. `weights`, `mask`
    and `reduction` are those of `binary_cross_entropy`.

    Raises:
        ShapeError: `[shape-mismatch]`.

    Example:
        >>> import anabranch as ab, numpy as np
        >>> float(ab.hinge(ab.tensor([0.5, 3.0]), np.array([1.0, -1.0])))
        2.25
    """
    scores, labels = matched("hinge", scores, labels)
    losses = relu(1.0 - left_out(scores, mask) * labels)
    return to_one(weighed(losses, weights), reduction, mask, weights)
