"""Random choices: of a class, of an order, of elements. None has a derivative by its odds."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from anabranch.composed.indexing import take
from anabranch.composed.naming import composed
from anabranch.composed.random import result_dtype, standard_gumbel
from anabranch.core.aval import aval, aval_of
from anabranch.core.bind import bind
from anabranch.core.op import broadcast_shapes
from anabranch.core.values import as_array, as_shape
from anabranch.errors import DomainError, ShapeError
from anabranch.ops.elementwise import log
from anabranch.ops.extrema import argmax
from anabranch.ops.layout import permute, reshape
from anabranch.ops.random import bits, randint
from anabranch.ops.rules import axis_index, shape_of
from anabranch.ops.select import equal, where
from anabranch.ops.sorting import argsort

in_random = functools.partial(composed, namespace="random")


@in_random
def categorical(key: Any, logits: Any, axis: int = -1, shape: Any = None) -> Any:
    """Classes drawn with the probabilities softmax(logits): argmax(logits + Gumbel numbers).

    A class of -inf is never drawn; where all are, the first is. E. J. Gumbel, "Statistical theory
    of extreme values", 1954.

    Args:
        key: what the bits are a function of.
        logits: log-probabilities, which need not be normalised, classes along `axis`.
        axis: the class axis.
        shape: of the result; by default that of logits without `axis`, which broadcasts to it.

    Returns:
        Integers in [0, number of classes).

    Raises:
        DTypeError: `[bad-key]`.
        ShapeError: `[shape-mismatch]`.

    Example:
        >>> import anabranch as ab
        >>> key = ab.random.key(0)
        >>> ab.random.categorical(key, ab.log(ab.tensor([0.1, 0.8, 0.1])), shape=(6,))
        tensor([1, 0, 1, 1, 1, 1], dtype=int64)
    """
    whole = shape_of(logits)
    place = axis_index(axis, len(whole))
    batch = (*whole[:place], *whole[place + 1 :])
    size = batch if shape is None else as_shape(shape)
    kind = np.dtype(np.bool_)
    if broadcast_shapes(aval(batch, kind), aval(size, kind)) != size:
        raise ShapeError("shape-mismatch", f"logits of shape {batch} do not broadcast to {size}")
    if place != len(whole) - 1:
        order = [i for i in range(len(whole)) if i != place]
        logits = permute(logits, [*order, place])
    noise = standard_gumbel(key, (*size, whole[place]), result_dtype(None, logits))
    return argmax(logits + noise, axis=-1)


def _order(key: Any, n: int) -> Any:
    return argsort(bind(bits, key, shape=(n,), width=64))


@in_random
def permutation(key: Any, x: Any, axis: int = 0) -> Any:
    """The numbers below x, or the slices of an array along an axis, in random order.

    The order is that of the first elements of the key's stream, as 64-bit integers. Every order is
    equally likely; gradients return along it to the array.

    Raises:
        DTypeError: `[bad-key]`.

    Example:
        >>> import anabranch as ab
        >>> ab.random.permutation(ab.random.key(0), 5)
        tensor([3, 0, 4, 1, 2], dtype=int64)
    """
    if type(x) is int:
        return _order(key, *as_shape(x))
    x = as_array(x) if isinstance(x, list | tuple) else x
    place = axis_index(axis, len(shape_of(x)))
    return take(x, _order(key, shape_of(x)[place]), axis=place)


@in_random
def choice(
    key: Any, a: Any, shape: Any = (), replace: bool = True, p: Any = None, axis: int = 0
) -> Any:
    """Elements drawn from the numbers below a, or from the slices of an array along an axis.

    Args:
        key: what the bits are a function of.
        a: a number, or an array to draw from.
        shape: how many are drawn, and in which shape.
        replace: whether one may be drawn again.
        p: the odds of each, equal by default; they need not sum to 1. Without replacement each is
            drawn with the odds among those that are left.
        axis: the axis to draw along.

    Raises:
        DomainError: `[bad-range]` for more than there are, without replacement.
        DTypeError: `[bad-key]`.
        ShapeError: `[shape-mismatch]` when p has not one number for each.

    Example:
        >>> import anabranch as ab
        >>> ab.random.choice(ab.random.key(0), 10, (4,), replace=False)
        tensor([3, 5, 7, 8], dtype=int64)
    """
    a = as_array(a) if isinstance(a, list | tuple) else a
    place = 0 if type(a) is int else axis_index(axis, len(shape_of(a)))
    n = a if type(a) is int else shape_of(a)[place]
    chosen = _chosen(key, n, as_shape(shape), replace, p)
    return chosen if type(a) is int else take(a, chosen, axis=place)


def _chosen(key: Any, n: int, shape: Any, replace: bool, p: Any) -> Any:
    """The places that are drawn."""
    count = math.prod(shape)
    if not replace and count > n:
        raise DomainError("bad-range", f"{count} of {n} cannot be drawn without replacement")
    if p is None:
        return randint(key, n, shape=shape) if replace else reshape(_order(key, n)[:count], shape)
    p = as_array(p) if isinstance(p, list | tuple) else p
    if shape_of(p) != (n,):
        raise ShapeError("shape-mismatch", f"p has shape {shape_of(p)}, need ({n},)")
    is_never = equal(p, 0)
    odds = where(is_never, -math.inf, log(where(is_never, 1, p)))
    if replace:
        return categorical(key, odds, shape=shape)
    # The largest of logits with Gumbel numbers are a draw without replacement: W. Kool, H. van
    # Hoof and M. Welling, "Stochastic beams and where to find them", 2019.
    noise = standard_gumbel(key, (n,), aval_of(odds).dtype)
    return reshape(argsort(odds + noise, descending=True)[:count], shape)
