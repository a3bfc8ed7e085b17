"""What bends a line: bounds and activation functions.

Slopes at corners stand in `docs/conventions.md`. Far out, where a smooth one equals a ramp to the
last bit, it is that ramp: so infinities have the limits, and nothing overflows on the way.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from anabranch.composed.naming import Function, composed
from anabranch.core.aval import aval_of
from anabranch.core.bind import NUMBERS
from anabranch.core.late import LateModule
from anabranch.core.op import float_result
from anabranch.errors import ShapeError
from anabranch.ops.elementary import expm1
from anabranch.ops.elementwise import absolute, astype, sigmoid, sign, softplus, tanh
from anabranch.ops.index import slice_
from anabranch.ops.rules import axis_index, shape_of
from anabranch.ops.select import greater, greater_equal, isnan, less, less_equal, maximum, where

if TYPE_CHECKING:
    from anabranch.ops import error_functions
else:
    error_functions = LateModule("anabranch.ops.error_functions")

_FAR = 800.0  # exp(-x) is 0 from 745.2 on
_FAR_BELL = 40.0  # exp(-x * x / 2) is 0 from 38.6 on
# The fixed point of mean 0 and variance 1; Klambauer, Unterthiner, Mayr and Hochreiter,
# "Self-normalizing neural networks", 2017, in closed form in its appendix.
_SELU_SCALE, _SELU_ALPHA = 1.0507009873554804934, 1.6732632423543772848


@composed
def clip(x: Any, min: Any = None, max: Any = None) -> Any:
    """x held inside the closed interval [min, max]; a bound of None is no bound.

    At a bound the derivative by x is 1, for the interval is closed; outside it is 0 and the bound
    itself gets the cotangent. NaN stays NaN.

    Example:
        >>> import anabranch as ab
        >>> ab.clip(ab.tensor([-1.0, 0.5, 3.0]), 0.0, 1.0)
        tensor([0. , 0.5, 1. ])
    """
    result = x if min is None else _bounded(x, min, less)
    return result if max is None else _bounded(result, max, greater)


def _bounded(x: Any, bound: Any, passes: Function) -> Any:
    result = where(passes(x, bound), bound, x)
    return result if type(bound) in NUMBERS else where(isnan(bound), bound, result)


def _held(x: Any, low: float, high: float) -> Any:
    """x between two numbers, with slope 0 at both: the corners belong to the flat parts."""
    return where(less_equal(x, low), low, where(greater_equal(x, high), high, x))


def _ramp_from(far: float, f: Function, x: Any) -> Any:
    """f(x), and from |x| = far on the ramp that it has become."""
    is_far = greater_equal(absolute(x), far)
    return where(is_far, maximum(x, 0), f(where(is_far, 0, x)))


def _bent(x: Any, f: Function) -> Any:
    """x where it is positive, f(x) elsewhere; f never sees what it is not asked for."""
    is_below = less_equal(x, 0)
    return where(is_below, f(where(is_below, x, 0)), x)


# Ramps


@composed
def relu(x: Any) -> Any:
    """x where x is positive, else 0; the derivative at 0 is 0, and NaN stays NaN.

    Example:
        >>> import anabranch as ab
        >>> ab.relu(ab.tensor([-2.0, 0.0, 3.0]))
        tensor([0., 0., 3.])
    """
    return where(less_equal(x, 0), 0, x)


@composed
def relu6(x: Any) -> Any:
    """x held between 0 and 6; the derivative at 0 and at 6 is 0.

    Example:
        >>> import anabranch as ab
        >>> ab.relu6(ab.tensor([-2.0, 3.0, 9.0]))
        tensor([0., 3., 6.])
    """
    return _held(x, 0.0, 6.0)


@composed
def leaky_relu(x: Any, negative_slope: Any = 0.01) -> Any:
    """x where x is positive, else negative_slope * x; the derivative at 0 is negative_slope.

    Example:
        >>> import anabranch as ab
        >>> ab.leaky_relu(ab.tensor([-2.0, 3.0]))
        tensor([-0.02,  3.  ])
    """
    return _bent(x, lambda below: negative_slope * below)


@composed
def prelu(x: Any, weight: Any) -> Any:
    """`leaky_relu` with a slope that is learned: weight broadcasts against x and has a gradient.

    Example:
        >>> import anabranch as ab
        >>> ab.prelu(ab.tensor([[-2.0, -2.0]]), ab.tensor([0.25, 0.5]))
        tensor([[-0.5, -1. ]])
    """
    return _bent(x, lambda below: weight * below)


@composed
def hardtanh(x: Any, min_val: float = -1.0, max_val: float = 1.0) -> Any:
    """x held between two numbers; the derivative at both is 0, where that of `clip` is 1.

    Example:
        >>> import anabranch as ab
        >>> ab.hardtanh(ab.tensor([-2.0, 0.5, 3.0]))
        tensor([-1. ,  0.5,  1. ])
    """
    return _held(x, min_val, max_val)


@composed
def hardsigmoid(x: Any) -> Any:
    """relu6(x + 3) / 6, a sigmoid of three straight lines; the derivative at -3 and 3 is 0.

    Example:
        >>> import anabranch as ab
        >>> ab.hardsigmoid(ab.tensor([-4.0, 0.0, 4.0]))
        tensor([0. , 0.5, 1. ])
    """
    return _held(x + 3.0, 0.0, 6.0) / 6.0


@composed
def hardswish(x: Any) -> Any:
    """x * hardsigmoid(x); the derivatives at -3 and 3 are those of the straight parts, 0 and 1.

    Example:
        >>> import anabranch as ab
        >>> ab.hardswish(ab.tensor([-4.0, 1.5, 4.0]))
        tensor([0.   , 1.125, 4.   ])
    """
    inside = where(less_equal(x, -3.0), 0, x)  # so that minus infinity meets no 0
    return inside * (_held(x + 3.0, 0.0, 6.0) / 6.0)


# Exponentials below 0


@composed
def elu(x: Any, alpha: Any = 1.0) -> Any:
    """x where x is positive, else alpha * (exp(x) - 1); the derivative at 0 is alpha.

    Example:
        >>> import anabranch as ab
        >>> ab.elu(ab.tensor([-1.0, 2.0]))
        tensor([-0.63212056,  2.        ])
    """
    return _bent(x, lambda below: alpha * expm1(below))


@composed
def selu(x: Any) -> Any:
    """1.0507 * elu(x, 1.6733), with numbers that keep mean 0 and variance 1 from layer to layer.

    The derivative at 0 is that of the part below, 1.7581.

    Example:
        >>> import anabranch as ab
        >>> ab.selu(ab.tensor([-1.0, 2.0]))
        tensor([-1.11133074,  2.10140197])
    """
    return _SELU_SCALE * _bent(x, lambda below: _SELU_ALPHA * expm1(below))


@composed
def celu(x: Any, alpha: Any = 1.0) -> Any:
    """x where x is positive, else alpha * (exp(x / alpha) - 1); the derivative at 0 is 1.

    Example:
        >>> import anabranch as ab
        >>> ab.celu(ab.tensor([-2.0, 2.0]), 2.0)
        tensor([-1.26424112,  2.        ])
    """
    return _bent(x, lambda below: alpha * expm1(below / alpha))


# Smooth ramps


@composed
def silu(x: Any) -> Any:
    """x * sigmoid(x).

    Example:
        >>> import anabranch as ab
        >>> ab.silu(ab.tensor([-1.0, 0.0, 1.0]))
        tensor([-0.26894142,  0.        ,  0.73105858])
    """
    return _ramp_from(_FAR, lambda near: near * sigmoid(near), x)


@composed
def swish(x: Any) -> Any:
    """The other name of `silu`.

    Example:
        >>> import anabranch as ab
        >>> float(ab.swish(0.0))
        0.0
    """
    return silu(x)


@composed
def mish(x: Any) -> Any:
    """x * tanh(softplus(x)).

    Example:
        >>> import anabranch as ab
        >>> ab.mish(ab.tensor([-1.0, 0.0, 1.0]))
        tensor([-0.30340146,  0.        ,  0.86509839])
    """
    return _ramp_from(_FAR, lambda near: near * tanh(softplus(near)), x)


@composed
def gelu(x: Any, approximate: bool = False) -> Any:
    """x times the share of the normal distribution below x.

    `approximate` takes x * sigmoid(2u), u = sqrt(2 / pi) * (x + 0.044715 x**3), which is
    x / 2 * (1 + tanh(u)) without its cancellation; D. Hendrycks and K. Gimpel, "Gaussian error
    linear units", 2016.

    Example:
        >>> import anabranch as ab
        >>> ab.gelu(ab.tensor([-1.0, 0.0, 1.0]))
        tensor([-0.15865525,  0.        ,  0.84134475])
    """
    return _ramp_from(_FAR_BELL, _gelu_of_a_sigmoid if approximate else _gelu_of_a_bell, x)


def _gelu_of_a_bell(x: Any) -> Any:
    return 0.5 * x * error_functions.erfc(x * -math.sqrt(0.5))


def _gelu_of_a_sigmoid(x: Any) -> Any:
    return x * sigmoid(2.0 * math.sqrt(2.0 / math.pi) * x * (1.0 + 0.044715 * (x * x)))


# Others


@composed
def softsign(x: Any) -> Any:
    """x / (1 + |x|), written so that neither value nor derivative cancels; its limits are -1 and 1.

    Example:
        >>> import anabranch as ab
        >>> ab.softsign(ab.tensor([-3.0, 0.0, 1.0]))
        tensor([-0.75,  0.  ,  0.5 ])
    """
    size = absolute(x)
    rest = 1.0 / (1.0 + size)
    is_near = less(size, 1.0)
    return where(is_near, where(is_near, x, 0) * rest, sign(x) * (1.0 - rest))


@composed
def log_sigmoid(x: Any) -> Any:
    """log(sigmoid(x)), finite for every finite x.

    Example:
        >>> import anabranch as ab
        >>> ab.log_sigmoid(ab.tensor([-1000.0, 0.0]))
        tensor([-1.00000000e+03, -6.93147181e-01])
    """
    if (kind := aval_of(x)).dtype.kind == "u":  # which has no negative
        x = astype(x, float_result(kind).dtype)
    return -softplus(-x)


@composed
def glu(x: Any, axis: int = -1) -> Any:
    """The first half of an axis times the sigmoid of the second.

    Raises:
        ShapeError: `[odd-length]` when the axis has no two halves.

    Example:
        >>> import anabranch as ab
        >>> ab.glu(ab.tensor([3.0, 4.0, 0.0, 0.0]))
        tensor([1.5, 2. ])
    """
    shape = shape_of(x)
    place = axis_index(axis, len(shape))
    half, is_odd = divmod(shape[place], 2)
    if is_odd:
        raise ShapeError("odd-length", f"axis {axis} of length {shape[place]} has no two halves")
    before = (slice(None),) * place
    first, second = ((*before, slice(*part)) for part in ((0, half), (half, 2 * half)))
    return slice_(x, first) * sigmoid(slice_(x, second))
