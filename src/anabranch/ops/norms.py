"""Lengths of vectors: sums of powers, without overflow on the way and with a slope at 0.

What the derivatives are at 0 and at infinities is written in `docs/conventions.md`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.core.aval import Aval, aval
from anabranch.core.bind import bind
from anabranch.core.dtype import is_floating, is_half
from anabranch.core.op import MadeOf, Op
from anabranch.core.sample import normal, sample
from anabranch.errors import ArgumentError
from anabranch.ops.elementwise import absolute, astype, sign, sqrt
from anabranch.ops.extrema import min_
from anabranch.ops.layout import broadcast_to, reshaped
from anabranch.ops.matrices import float_of, in_floats, real_of
from anabranch.ops.powers import power
from anabranch.ops.reduce import max_, sum_
from anabranch.ops.rules import Axis, axes_tuple, kept, reduced, shape_of
from anabranch.ops.select import absorb, equal, less, not_equal, where

inf, nan = math.inf, math.nan


def _vector_norm(x: Any, axis: Axis = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """The norm of vectors along one axis, or of all elements along several (all by default).

    Args:
        x: an array; integers count as float64.
        axis: the axis or axes to measure along.
        keepdims: whether these axes stay, with length 1.
        ord: the order p of (sum |x|**p)**(1/p); also inf and -inf, the largest and the smallest
            size, and 0, the number of elements that are not 0.

    The derivative at a vector of zeros is 0; the second derivative of the norm is infinite there,
    for it has none. Neither large nor small elements overflow or vanish on the way.

    Raises:
        ArgumentError: `[bad-argument]` for an order that is no number.

    Example:
        >>> import numpy as np
        >>> import anabranch as ab
        >>> x = np.array([[3.0, 4.0], [0.0, 0.0]])
        >>> ab.linalg.vector_norm(x, axis=1)
        array([5., 0.])
        >>> ab.grad(lambda x: ab.sum(ab.linalg.vector_norm(x, axis=1)))(x)
        array([[0.6, 0.8],
               [0. , 0. ]])
    """
    p = float(ord) if isinstance(ord, int | float | np.number) else nan
    if math.isnan(p):
        raise ArgumentError("bad-argument", f"the order of a vector norm is a number, not {ord!r}")
    dtype = getattr(x, "dtype", np.dtype(np.float64))
    if not is_floating(dtype) and dtype.kind != "c":
        x = astype(x, np.float64)
    axes = axes_tuple(axis, len(shape_of(x)))
    if p == 0:
        return astype(sum_(not_equal(x, 0), axes, keepdims), absolute(x).dtype)
    if p == 1:
        return sum_(absolute(x), axes, keepdims)
    if p == inf:
        return max_(absolute(x), axes, keepdims)
    if p == -inf:
        return min_(absolute(x), axes, keepdims)
    return bind(vector_norm, x, p=p, axes=axes, keepdims=bool(keepdims))


def _norm_aval(x: Aval, *, p: float, axes: tuple[int, ...], keepdims: bool) -> Aval:
    return aval(reduced(x.shape, axes, keepdims), real_of(float_of(x)))


def _norm_ref(x: Any, *, p: float, axes: tuple[int, ...], keepdims: bool) -> Any:
    size = np.abs(x)
    with np.errstate(all="ignore"):
        scale = _scale(size, p, axes)
        terms = size / scale
        if p == 2:
            root = np.sqrt(np.sum(np.square(terms), axis=axes, keepdims=True))
        else:
            root = np.sum(terms**p, axis=axes, keepdims=True) ** (1 / p)
        return (root * scale).reshape(reduced(x.shape, axes, keepdims))


def _scale(size: Any, p: float, axes: tuple[int, ...]) -> Any:
    """What to divide by so that powers stay in range: nearly the size that decides."""
    decides = np.max if p > 0 else np.min
    scale = decides(size, axis=axes, keepdims=True, initial=0 if p > 0 else inf)
    if p == 2:  # a power of two, so that dividing rounds nothing
        scale = np.ldexp(np.ones_like(scale), np.frexp(scale)[1] - 1)
    return np.where(np.isfinite(scale) & (scale > 0), scale, np.ones_like(scale))


def _direction(y: Any, x: Any, p: float, axes: tuple[int, ...]) -> Any:
    """The derivative of the norm by each element.

    Where it is 0 by convention and its own derivative infinite, it is written as a 0 that says
    so: absorb(x, inf) at x = 0.
    """
    shape = kept(shape_of(x), axes)
    length = broadcast_to(reshaped(y, shape), shape_of(x))
    nothing = equal(length, 0)
    shares = x / where(nothing, 1.0, length)
    corner = absorb(x, inf)
    if p == 2:
        return where(nothing, corner, shares)
    zero = equal(x, 0)
    slopes = sign(x) * power(where(zero, 1.0, absolute(shares)), p - 1)
    if p < 1:
        corner = 0.0
    elif p > 2:
        corner = where(nothing, corner, 0.0)
    return where(nothing, corner, where(zero, corner, slopes))


def _spread(ct: Any, x: Any, axes: tuple[int, ...]) -> Any:
    return broadcast_to(reshaped(ct, kept(shape_of(x), axes)), shape_of(x))


# Below each size, from the largest element down, what squares are divided by to stay in range.
_STEPS = {4: ((50, 0), (-30, -60), (-90, -126)), 8: ((400, 0), (-400, -600))}
_ABOVE = {4: 80, 8: 600}


def _norm_made(x: Any, *, p: float, axes: tuple[int, ...], keepdims: bool) -> Any:
    """The same of other ops."""
    if x.dtype.kind == "c" or 0 in shape_of(x):
        return None
    x = x if is_floating(x.dtype) else astype(x, np.float64)
    wide = astype(x, np.float32) if is_half(x.dtype) else x
    length = (_length_made if p == 2 else _root_made)(absolute(wide), p, axes)
    length = reshaped(length, reduced(shape_of(x), axes, keepdims))
    return length if length.dtype == x.dtype else astype(length, x.dtype)


def _root_made(size: Any, p: float, axes: tuple[int, ...]) -> Any:
    """Divided by the size that decides, as in the reference."""
    decides = bind(max_ if p > 0 else min_, size, axes=axes, keepdims=True)
    scale = where(less(0, decides), where(less(decides, inf), decides, 1.0), 1.0)
    terms = bind(power, size / broadcast_to(scale, shape_of(size)), p)
    return bind(power, bind(sum_, terms, axes=axes, keepdims=True), 1 / p) * scale


def _length_made(size: Any, p: float, axes: tuple[int, ...]) -> Any:
    """Divided by a power of two, which rounds nothing."""
    dtype = size.dtype.type
    largest = bind(max_, size, axes=axes, keepdims=True)
    scale: Any = dtype(2.0 ** _ABOVE[size.dtype.itemsize])
    for below, power_of_two in _STEPS[size.dtype.itemsize]:
        scale = where(less(largest, dtype(2.0**below)), dtype(2.0**power_of_two), scale)
    scale = where(less(largest, inf), scale, dtype(1.0))
    terms = size / broadcast_to(scale, shape_of(size))
    total = bind(sum_, terms * terms, axes=axes, keepdims=True)
    return sqrt(total) * scale


vector_norm: Op = Op(
    "linalg.vector_norm",
    aval=_norm_aval,
    ref=in_floats(_norm_ref),
    vjp=(
        lambda ct, y, x, *, p, axes, keepdims: absorb(
            _spread(ct, x, axes), _direction(y, x, p, axes)
        ),
    ),
    jvp=(
        lambda t, y, x, *, p, axes, keepdims: sum_(
            absorb(t, _direction(y, x, p, axes)), axes, keepdims
        ),
    ),
    call=_vector_norm,
    lower=MadeOf(_norm_made),
    samples=(
        sample([3.0, 4.0], value=5.0, grads=([0.6, 0.8],), p=2.0, axes=(0,), keepdims=False),
        sample([0.0, 0.0], value=0.0, grads=([0, 0],), kink=True, p=2.0, axes=(0,), keepdims=False),
        sample(-3.0, value=3.0, grads=(-1.0,), p=2.0, axes=(), keepdims=False),
        # 27 + 64 + 125 = 216; the derivative is (x/y)²
        sample(
            [3.0, -4.0, 5.0],
            value=6.0,
            grads=([1 / 4, -4 / 9, 25 / 36],),
            p=3.0,
            axes=(0,),
            keepdims=False,
        ),
        sample([1.0, 4.0], value=9.0, grads=([3.0, 1.5],), p=0.5, axes=(0,), keepdims=False),
        sample([2.0, 2.0], value=1.0, grads=([0.25, 0.25],), p=-1.0, axes=(0,), keepdims=False),
        sample([0.0, 4.0], value=4.0, grads=([0, 1],), p=3.0, axes=(0,), keepdims=False),
        *(
            sample(
                [0.0, 4.0],
                value=0.0 if p < 0 else 4.0,
                grads=([0, 0] if p < 0 else [0, 1],),
                kink=True,
                p=p,
                axes=(0,),
                keepdims=False,
            )
            for p in (1.5, 0.5, -1.0)
        ),
        *(
            sample([0.0], value=0.0, grads=([0],), kink=True, p=p, axes=(0,), keepdims=False)
            for p in (3.0, 1.5, 0.5, -1.0)
        ),
        sample(
            [inf, 1.0], value=inf, grads=([nan, 0],), kink=True, p=2.0, axes=(0,), keepdims=False
        ),
        sample(
            [nan, 1.0], value=nan, grads=([nan, nan],), kink=True, p=3.0, axes=(0,), keepdims=False
        ),
        sample(normal(2, 3, 4), p=2.0, axes=(0, 2), keepdims=False),
        sample(normal(3, 4), p=2.0, axes=(1,), keepdims=True),
        sample(normal(3, 4), p=3.0, axes=(0,), keepdims=False),
        sample(normal(3, 4), p=2.5, axes=(0, 1), keepdims=False),
        sample(normal(3), p=1.5, axes=(0,), keepdims=False),
        sample(normal(3), p=0.5, axes=(0,), keepdims=False),
        sample(normal(3), p=-1.0, axes=(0,), keepdims=False),
        sample(normal(0, 3), p=2.0, axes=(0,), keepdims=False),
        sample(normal(1), p=2.0, axes=(0,), keepdims=False),
        sample(normal(1, 3), p=2.0, axes=(0,), keepdims=False),
    ),
)
