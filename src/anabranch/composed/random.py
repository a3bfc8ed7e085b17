"""Distributions: arithmetic on the bits of a key, so parameters have derivatives and keys none.

Each element reads a place of its own in the key's stream: the first elements of a longer draw are
those of a shorter one. Half types are computed in float32 and rounded at the end.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from anabranch.composed.activation import clip
from anabranch.composed.naming import composed
from anabranch.core.aval import Shape, aval, aval_of
from anabranch.core.bind import NUMBERS, bind
from anabranch.core.dtype import WEAK_DTYPES, DType, is_floating, is_half, promote
from anabranch.core.op import broadcast_shapes
from anabranch.core.values import as_dtype, as_shape
from anabranch.errors import DTypeError, ShapeError
from anabranch.ops.elementary import log1p
from anabranch.ops.elementwise import astype, cos, log, sqrt
from anabranch.ops.error_functions import erf, erfinv
from anabranch.ops.random import bits, threefry2x32, words
from anabranch.ops.select import less, minimum

FLOAT32, FLOAT64 = np.dtype(np.float32), WEAK_DTYPES[float]
_DIGITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
in_random = functools.partial(composed, namespace="random")


# Keys


def _purpose(number: int) -> Any:
    """A counter that no stream reaches, so that keys made of a key repeat none of its bits."""
    return np.array([number, 0xFFFFFFFF], np.uint32)


@in_random
def split(key: Any, n: int = 2) -> Any:
    """`n` new keys, along the first axis: independent of each other and of the key's own stream.

    Example:
        >>> import anabranch as ab
        >>> one, other = ab.random.split(ab.random.key(0))
        >>> ab.random.split(ab.random.key(0), 3).shape
        (3, 2)
    """
    return bind(bits, threefry2x32(key, _purpose(0)), shape=(*as_shape(n), 2), width=32)


@in_random
def fold_in(key: Any, data: Any) -> Any:
    """The new key that an integer, such as a step or an index, makes of a key.

    An array of integers gives a key for each, along its axes.

    Raises:
        DTypeError: `[index-dtype]` for what is no integer.

    Example:
        >>> import anabranch as ab
        >>> key = ab.random.key(0)
        >>> [int(ab.random.randint(ab.random.fold_in(key, step), 100)) for step in range(3)]
        [28, 6, 94]
    """
    return threefry2x32(threefry2x32(key, _purpose(1)), bind(words, data))


# What distributions are made of


def result_dtype(dtype: Any, *parameters: Any) -> DType:
    """The dtype of a draw: as asked, or that of the parameters if they are floating arrays."""
    if dtype is None:
        found, weak = promote((a.dtype, a.weak) for a in map(aval_of, parameters))
        return found if is_floating(found) and not weak else FLOAT64
    if not is_floating(found := as_dtype(dtype)):
        raise DTypeError(
            "random-dtype", f"this distribution draws floats, not {found.name}", hint="dtype=float"
        )
    return found


def _shape(shape: Any, *parameters: Any) -> Shape:
    """The shape of a draw: as asked, or what the parameters broadcast to."""
    avals = [a if a.shape else aval((), a.dtype) for a in map(aval_of, parameters)]
    common = broadcast_shapes(*avals)
    if shape is None:
        return common
    wanted = as_shape(shape)
    if broadcast_shapes(*avals, aval(wanted, FLOAT64)) != wanted:
        raise ShapeError(
            "shape-mismatch", f"parameters of shape {common} do not broadcast to {wanted}"
        )
    return wanted


def _wide(dtype: DType) -> DType:
    return FLOAT32 if is_half(dtype) else dtype


def _narrowed(x: Any, dtype: DType) -> Any:
    return x if x.dtype == dtype else astype(x, dtype)


def _unit(key: Any, shape: Shape, dtype: DType) -> Any:
    """[0, 1) in equal steps: each multiple of 2**-53 in float64 (2**-24, 2**-11, 2**-8)."""
    digits = _DIGITS[dtype.name]
    return astype(bind(bits, key, shape=shape, width=digits), _wide(dtype)) * 2.0**-digits


def _inner(key: Any, shape: Shape, dtype: DType) -> Any:
    """(0, 1) with all the bits of a word or block: fine steps near 0, and never 0 or 1."""
    size = 8 * dtype.itemsize
    whole = astype(bind(bits, key, shape=shape, width=size), dtype) * 2.0**-size
    return minimum(whole + 2.0 ** -(size + 1), 1.0 - 2.0 ** -_DIGITS[dtype.name])


# Distributions


@in_random
def uniform(key: Any, shape: Any = None, low: Any = 0.0, high: Any = 1.0, dtype: Any = None) -> Any:
    """Floats in [low, high), as low + (high - low) * u.

    u is one of the 2**53 multiples of 2**-53 in [0, 1), all equally likely (2**-24 in float32,
    2**-11 in float16, 2**-8 in bfloat16). Where low is not 0, rounding can give high itself.

    Args:
        key: what the bits are a function of.
        shape: of the result; by default what low and high broadcast to.
        low, high: bounds, which have derivatives: 1 - u and u.
        dtype: by default that of low and high if they are floating arrays, else float64.

    Raises:
        DTypeError: `[bad-key]`, `[random-dtype]`.

    Example:
        >>> import anabranch as ab
        >>> ab.random.uniform(ab.random.key(0), (2,))
        tensor([0.60049909, 0.75339122])
    """
    wanted = result_dtype(dtype, low, high)
    unit = _unit(key, _shape(shape, low, high), wanted)
    if type(low) is type(high) is float and (low, high) == (0.0, 1.0):
        return _narrowed(unit, wanted)
    return _narrowed(low + (high - low) * unit, wanted)


@in_random
def normal(key: Any, shape: Any = None, loc: Any = 0.0, scale: Any = 1.0, dtype: Any = None) -> Any:
    """Normal numbers with mean `loc` and deviation `scale`, as loc + scale * z.

    z is sqrt(-2 log u) cos(2 pi v), with u and v from two elements of the key's stream (G. E. P.
    Box and M. E. Muller, "A note on the generation of random normal deviates", 1958). Its bits are
    the key's on one platform; log and cos may differ in the last bit on another.

    Args:
        key: what the bits are a function of.
        shape: of the result; by default what loc and scale broadcast to.
        loc, scale: mean and deviation, which have derivatives: 1 and z.
        dtype: by default that of loc and scale if they are floating arrays, else float64.

    Raises:
        DTypeError: `[bad-key]`, `[random-dtype]`.

    Example:
        >>> import anabranch as ab
        >>> ab.random.normal(ab.random.key(0), (2,), loc=10.0)
        tensor([10.02151792, 10.17411263])
    """
    wanted = result_dtype(dtype, loc, scale)
    wide, size = _wide(wanted), _shape(shape, loc, scale)
    pairs = _inner(key, (*size, 2), wide)
    z = sqrt(-2.0 * log(pairs[..., 0])) * cos(2.0 * math.pi * pairs[..., 1])
    return _scaled(z, loc, scale, wanted)


def _scaled(z: Any, loc: Any, scale: Any, dtype: DType) -> Any:
    """loc + scale * z in this dtype, without what would change nothing."""
    if not (type(scale) is float and scale == 1.0):
        z = scale * z
    if not (type(loc) is float and loc == 0.0):
        z = loc + z
    return _narrowed(z, dtype)


@in_random
def truncated_normal(
    key: Any,
    shape: Any = None,
    lower: Any = -2.0,
    upper: Any = 2.0,
    loc: Any = 0.0,
    scale: Any = 1.0,
    dtype: Any = None,
) -> Any:
    """loc + scale * z with z normal, given that it lies in [lower, upper].

    z is sqrt(2) erfinv of a uniform number between erf(lower / sqrt(2)) and erf(upper / sqrt(2)),
    which is coarse where both bounds lie on one side beyond about 6 (4 in float32).

    Args:
        key: what the bits are a function of.
        shape: of the result; by default what the parameters broadcast to.
        lower, upper: bounds of z; they have derivatives, as have loc and scale.
        loc, scale: what z is scaled and moved by, after it was bounded.
        dtype: by default that of the parameters if they are floating arrays, else float64.

    Raises:
        DTypeError: `[bad-key]`, `[random-dtype]`.

    Example:
        >>> import anabranch as ab
        >>> ab.random.truncated_normal(ab.random.key(0), (2,))
        tensor([0.24281685, 0.64909604])
    """
    wanted = result_dtype(dtype, lower, upper, loc, scale)
    wide, size = _wide(wanted), _shape(shape, lower, upper, loc, scale)
    u = _unit(key, size, wide)
    below, above = (erf(_in_dtype(bound, wide) * math.sqrt(0.5)) for bound in (lower, upper))
    z = math.sqrt(2.0) * erfinv((1.0 - u) * below + u * above)
    return _scaled(clip(z, lower, upper), loc, scale, wanted)


def _in_dtype(parameter: Any, dtype: DType) -> Any:
    """A number as a scalar of this dtype; other parameters as they are."""
    return dtype.type(parameter) if type(parameter) in NUMBERS else parameter


@in_random
def exponential(key: Any, shape: Any = None, scale: Any = 1.0, dtype: Any = None) -> Any:
    """Exponential numbers of mean `scale`, as -scale * log u; the derivative by it is -log u.

    `shape` and `dtype` are those of scale by default.

    Raises:
        DTypeError: `[bad-key]`, `[random-dtype]`.

    Example:
        >>> import anabranch as ab
        >>> ab.random.exponential(ab.random.key(0), (2,))
        tensor([0.50999415, 0.28317064])
    """
    wanted = result_dtype(dtype, scale)
    drawn = -log(_inner(key, _shape(shape, scale), _wide(wanted)))
    return _scaled(drawn, 0.0, scale, wanted)


@in_random
def gumbel(key: Any, shape: Any = None, loc: Any = 0.0, scale: Any = 1.0, dtype: Any = None) -> Any:
    """Gumbel numbers, as loc - scale * log(e) with e exponential: of large values the largest.

    `shape` and `dtype` are those of loc and scale by default, which have derivatives.

    Raises:
        DTypeError: `[bad-key]`, `[random-dtype]`.

    Example:
        >>> import anabranch as ab
        >>> ab.random.gumbel(ab.random.key(0), (2,))
        tensor([ 0.08605993, -0.336438  ])
    """
    wanted = result_dtype(dtype, loc, scale)
    drawn = standard_gumbel(key, _shape(shape, loc, scale), wanted)
    return _scaled(drawn, loc, scale, wanted)


def standard_gumbel(key: Any, shape: Shape, dtype: DType) -> Any:
    """Gumbel numbers in float32 for halves; the largest come from the smallest v, in fine steps."""
    return -log(-log1p(-_inner(key, shape, _wide(dtype))))


@in_random
def bernoulli(key: Any, shape: Any = None, p: Any = 0.5) -> Any:
    """Bools that are True with probability p: u < p, with u as `uniform` draws it.

    p = 0 is never and p = 1 always True. `shape` is that of p by default; p has no derivative.

    Raises:
        DTypeError: `[bad-key]`.

    Example:
        >>> import anabranch as ab
        >>> ab.random.bernoulli(ab.random.key(0), (3,), p=0.9)
        tensor([ True,  True, False], dtype=bool)
    """
    return less(_unit(key, _shape(shape, p), _wide(result_dtype(None, p))), p)
