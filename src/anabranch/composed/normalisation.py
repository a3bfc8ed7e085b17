"""Values brought to a common size: by mean and variance, by mean square, by length.

Half types are computed in float32 and rounded at the end.
"""

from __future__ import annotations

import math
from typing import Any

from anabranch.composed.naming import composed
from anabranch.composed.statistics import mean, widened
from anabranch.core.aval import Shape
from anabranch.core.dtype import DType, is_half, promote
from anabranch.errors import ShapeError
from anabranch.ops.elementwise import absolute, astype, sqrt, stop_gradient
from anabranch.ops.layout import reshaped
from anabranch.ops.reduce import max_, sum_
from anabranch.ops.rules import Axis, axes_tuple, axis_index, shape_of
from anabranch.ops.select import equal, where


def narrowed(value: Any, dtype: DType) -> Any:
    """A result in the dtype of what it was made of, if that is a half."""
    return astype(value, dtype) if is_half(dtype) else value


def _placed(parameter: Any, shape: Shape, axes: tuple[int, ...], what: str) -> Any:
    """A parameter with one number for each place along some axes, ready to broadcast."""
    lengths = tuple(shape[axis] for axis in axes)
    if shape_of(parameter) != lengths:
        raise ShapeError(
            "shape-mismatch", f"{what} needs shape {lengths}, got {shape_of(parameter)}"
        )
    return reshaped(parameter, tuple(n if i in axes else 1 for i, n in enumerate(shape)))


def _scaled(x: Any, weight: Any, bias: Any, axes: tuple[int, ...]) -> Any:
    shape = shape_of(x)
    if weight is not None:
        x = x * _placed(weight, shape, axes, "weight")
    return x if bias is None else x + _placed(bias, shape, axes, "bias")


@composed
def layer_norm(
    x: Any, weight: Any = None, bias: Any = None, axis: Axis = -1, eps: float = 1e-5
) -> Any:
    """(x - mean) / sqrt(variance + eps) over an axis or several, times weight, plus bias.

    The variance divides by the number of elements. Where all are equal the result is 0 (NaN with
    eps = 0); J. L. Ba, J. R. Kiros and G. E. Hinton, "Layer normalization", 2016.

    Args:
        x: values.
        weight, bias: one number for each place along `axis`.
        axis: what is normalised together.
        eps: keeps the root away from 0.

    Raises:
        ShapeError: `[shape-mismatch]` when weight or bias does not fit.

    Example:
        >>> import anabranch as ab
        >>> ab.layer_norm(ab.tensor([1.0, 3.0]), eps=0.0)
        tensor([-1.,  1.])
    """
    axes = axes_tuple(axis, len(shape_of(x)))
    wide, dtype = widened(x)
    around = wide - mean(wide, axis=axes, keepdims=True)
    spread = mean(around * around, axis=axes, keepdims=True)
    return narrowed(_scaled(around / sqrt(spread + eps), weight, bias, axes), dtype)


@composed
def rms_norm(x: Any, weight: Any = None, axis: Axis = -1, eps: float = 1e-5) -> Any:
    """x / sqrt(mean(x * x) + eps) over an axis or several, times weight.

    B. Zhang and R. Sennrich, "Root mean square layer normalization", 2019.

    Args:
        x: values.
        weight: one number for each place along `axis`.
        axis: what is normalised together.
        eps: keeps the root away from 0.

    Raises:
        ShapeError: `[shape-mismatch]` when weight does not fit.

    Example:
        >>> import anabranch as ab
        >>> ab.rms_norm(ab.tensor([1.0, 7.0]), eps=0.0)
        tensor([0.2, 1.4])
    """
    axes = axes_tuple(axis, len(shape_of(x)))
    wide, dtype = widened(x)
    size = sqrt(mean(wide * wide, axis=axes, keepdims=True) + eps)
    return narrowed(_scaled(wide / size, weight, None, axes), dtype)


@composed
def batch_norm(
    x: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    axis: int = 1,
) -> tuple[Any, Any, Any]:
    """(x - mean) / sqrt(variance + eps) for each channel, times weight, plus bias.

    In training, mean and variance are those of the batch, over all axes but `axis`, and the running
    ones move towards them by `momentum`; the running variance divides by one less than the number
    of elements, the other by that number. Otherwise the running ones are used, and returned as they
    came. Nothing is changed in place. S. Ioffe and C. Szegedy, "Batch normalization", 2015.

    Args:
        x: values, channels along `axis`.
        running_mean, running_var: one number for each channel.
        weight, bias: the same.
        training: whether the batch is its own measure.
        momentum: the share of the batch in the new running values.
        eps: keeps the root away from 0.
        axis: the channel axis.

    Returns:
        The normalised values, the running mean and the running variance.

    Raises:
        ShapeError: `[too-few-values]` in training with less than two values for each channel;
            `[shape-mismatch]` when a parameter does not fit.

    Example:
        >>> import anabranch as ab
        >>> x = ab.tensor([[1.0], [3.0]])
        >>> y, mean, var = ab.batch_norm(x, ab.tensor([0.0]), ab.tensor([1.0]), training=True)
        >>> y.data.round(3).tolist(), mean, var
        ([[-1.0], [1.0]], tensor([0.2]), tensor([1.1]))
    """
    shape = shape_of(x)
    channel = axis_index(axis, len(shape))
    others = tuple(i for i in range(len(shape)) if i != channel)
    wide, dtype = widened(x)
    centre = _placed(running_mean, shape, (channel,), "running_mean")
    spread = _placed(running_var, shape, (channel,), "running_var")
    if not training:
        y = (wide - centre) / sqrt(spread + eps)
        return narrowed(_scaled(y, weight, bias, (channel,)), dtype), running_mean, running_var
    count = math.prod(shape[i] for i in others)
    if count < 2:
        raise ShapeError(
            "too-few-values",
            f"training measures the variance of {count} values for each channel; it needs two",
            hint="training=False",
        )
    batch_mean = mean(wide, axis=others, keepdims=True)
    around = wide - batch_mean
    batch_var = mean(around * around, axis=others, keepdims=True)
    y = _scaled(around / sqrt(batch_var + eps), weight, bias, (channel,))
    means = (1.0 - momentum) * centre + momentum * batch_mean
    variances = (1.0 - momentum) * spread + (momentum * count / (count - 1)) * batch_var
    return narrowed(y, dtype), _as(means, running_mean), _as(variances, running_var)


def _as(x: Any, like: Any) -> Any:
    x = reshaped(x, shape_of(like))
    return x if x.dtype == like.dtype else astype(x, like.dtype)


def _measured(x: Any, axis: Axis) -> tuple[Any, Any, Any]:
    """Vectors divided by their largest element, what that is, and which have none but zeros.

    The largest is no part of the derivative: what is made of the three does not depend on it.
    """
    largest = stop_gradient(max_(absolute(x), axis=axis, keepdims=True))
    is_nothing = equal(largest, 0)
    return x / where(is_nothing, 1, largest), largest, is_nothing


def _root(scaled: Any, axis: Axis, is_nothing: Any) -> Any:
    return sqrt(where(is_nothing, 1.0, sum_(scaled * scaled, axis=axis, keepdims=True)))


def length(x: Any, axis: Axis) -> Any:
    """The lengths of vectors, with axes kept; the derivative at zeros is 0, in every order."""
    scaled, largest, is_nothing = _measured(x, axis)
    return where(is_nothing, 0.0, largest * _root(scaled, axis, is_nothing))


@composed
def normalize(x: Any, axis: Axis = -1) -> Any:
    """x divided by its length along an axis or several.

    Of zeros, which have no direction, the value and the derivative are 0. Neither large nor small
    elements overflow or vanish on the way.

    Example:
        >>> import anabranch as ab
        >>> ab.normalize(ab.tensor([[3.0, 4.0], [0.0, 0.0]]))
        tensor([[0.6, 0.8],
                [0. , 0. ]])
    """
    wide, dtype = widened(x)
    scaled, _, is_nothing = _measured(wide, axis)
    return narrowed(where(is_nothing, 0.0, scaled / _root(scaled, axis, is_nothing)), dtype)


@composed
def cosine_similarity(x: Any, y: Any, axis: int = -1) -> Any:
    """The cosine of the angle between vectors along an axis, which broadcast against each other.

    With a vector of zeros the value and both derivatives are 0.

    Example:
        >>> import anabranch as ab
        >>> float(ab.cosine_similarity(ab.tensor([3.0, 4.0]), ab.tensor([1e200, 0.0])))
        0.6
    """
    (one, first), (other, second) = widened(x), widened(y)
    found = sum_(normalize(one, axis) * normalize(other, axis), axis=axis)
    return narrowed(found, promote([(first, False), (second, False)])[0])
