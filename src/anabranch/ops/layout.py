"""Ops that move elements without computing with them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core.aval import Aval, Shape, aval_of
from anabranch.core.bind import bind
from anabranch.core.op import Kernel, Op
from anabranch.core.registry import functions
from anabranch.core.sample import normal, sample
from anabranch.core.values import as_shape, owned, settled
from anabranch.errors import ArgumentError, ShapeError
from anabranch.ops.places import require_fill
from anabranch.ops.rules import axis_index, shape_of


def _broadcast_aval(x: Aval, *, shape: Shape) -> Aval:
    missing = len(shape) - x.ndim
    fits = missing >= 0 and all(
        n in (1, wanted) for n, wanted in zip(x.shape, shape[missing:], strict=True)
    )
    if not fits:
        raise ShapeError("shape-mismatch", f"shape {x.shape} does not broadcast to {shape}")
    return x.with_shape(shape)


broadcast_to: Op = Op(
    "broadcast_to",
    aval=_broadcast_aval,
    ref=lambda x, *, shape: owned(np.broadcast_to(x, shape)),
    vjp=(lambda ct, y, x, *, shape: sum_to(ct, shape_of(x)),),
    linear=(0,),
    call=lambda x, shape: bind(broadcast_to, x, shape=as_shape(shape)),
    samples=(
        sample([1.0, 2.0], value=[[1.0, 2.0]] * 3, grads=([3.0, 3.0],), shape=(3, 2)),
        sample(normal(), shape=(2, 3)),
        sample(normal(3, 1), shape=(2, 3, 4)),
        sample(normal(1), shape=(0,)),
        sample(normal(0, 1), shape=(2, 0, 3)),
        sample(normal(1), shape=(1,)),
    ),
    lower=lambda view, *, shape: view.broadcast_to(shape),
    doc="The value repeated along new axes and axes of length 1, to a given shape.",
)


def sum_to(value: Any, shape: Shape) -> Any:
    """Sum a value over the axes that broadcasting from `shape` had spread."""
    given = shape_of(value)
    if given == shape:
        return value
    missing = len(given) - len(shape)
    spread = tuple(
        axis
        for axis, n in enumerate(given)
        if axis < missing or (shape[axis - missing] == 1 and n != 1)
    )
    return reshaped(functions()["sum"](value, axis=spread), shape)


def reshaped(value: Any, shape: Shape) -> Any:
    """The value in this shape; itself where it has it already."""
    return value if shape_of(value) == shape else reshape(value, shape)


def _permute_aval(x: Aval, *, axes: tuple[int, ...]) -> Aval:
    if sorted(axes) != list(range(x.ndim)):
        raise ShapeError("bad-permutation", f"axes {axes} are no permutation of {x.ndim} axes")
    return x.with_shape(tuple(x.shape[axis] for axis in axes))


def _permute(x: Any, axes: Sequence[int] | None = None) -> Any:
    ndim = len(shape_of(x))
    order = range(ndim)[::-1] if axes is None else [axis_index(a, ndim) for a in axes]
    return bind(permute, x, axes=tuple(order))


def _permute_vjp(ct: Any, y: Any, x: Any, *, axes: tuple[int, ...]) -> Any:
    return permute(ct, sorted(range(len(axes)), key=axes.__getitem__))


permute: Op = Op(
    "permute",
    aval=_permute_aval,
    ref=lambda x, *, axes: owned(np.transpose(x, axes)),
    vjp=(_permute_vjp,),
    linear=(0,),
    call=_permute,
    notation=lambda x, *, axes: f"{x}.T" if axes == tuple(range(len(axes)))[::-1] else None,
    samples=(
        sample([[1.0, 2.0]], value=[[1.0], [2.0]], grads=([[1.0, 1.0]],), axes=(1, 0)),
        sample(normal(2, 3, 4), axes=(2, 0, 1)),
        sample(normal(0, 3), axes=(1, 0)),
        sample(normal(), axes=()),
    ),
    lower=lambda view, *, axes: view.permute(axes),
    doc="Reorder axes; without `axes` they are reversed.",
)

Widths = tuple[tuple[int, int], ...]
# The pad modes that repeat elements; NumPy itself says which, on positions instead of elements.
_REPEATING = ("edge", "reflect", "symmetric", "wrap")


def _pad_aval(x: Aval, *, widths: Widths, fill: Any) -> Aval:
    if len(widths) != x.ndim or any(n < 0 for pair in widths for n in pair):
        raise ShapeError(
            "bad-padding", f"pad widths {widths} must be a pair of counts for each axis of {x}"
        )
    require_fill(fill, x.dtype)
    return x.with_shape(
        tuple(n + before + after for n, (before, after) in zip(x.shape, widths, strict=True))
    )


def _pairs(given: Any, ndim: int) -> Any:
    """A number, a pair, or a pair for each axis, as pairs."""
    try:
        return np.broadcast_to(np.asarray(given), (ndim, 2))
    except ValueError:
        raise ArgumentError(
            "bad-padding", f"{given!r} is no number, pair, or pair for each of {ndim} axes"
        ) from None


def _pad(x: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> Any:
    ndim = len(shape_of(x))
    counts = _pairs(pad_width, ndim)
    if counts.dtype.kind not in "iu":
        raise ArgumentError("bad-padding", f"pad widths must be integers, not {pad_width!r}")
    widths: Widths = tuple((int(before), int(after)) for before, after in counts)
    if mode in _REPEATING:
        return _pad_by_places(x, widths, mode)
    if mode != "constant":
        known = ", ".join(map(repr, ("constant", *_REPEATING)))
        raise ArgumentError("bad-argument", f"pad has the modes {known}, not {mode!r}")
    if hasattr(constant_values, "aval"):  # computed, and perhaps differentiated
        padded = bind(pad, x, widths=widths, fill=0)
        inside = np.pad(np.ones(shape_of(x), bool), widths)
        return functions()["where"](inside, padded, constant_values)
    if np.ndim(constant_values) == 0:
        return bind(pad, x, widths=widths, fill=constant_values)
    for axis, fills in enumerate(_pairs(constant_values, ndim).tolist()):
        for side in (0, 1):
            only = [[0, 0] for _ in widths]
            only[axis][side] = widths[axis][side]
            x = bind(pad, x, widths=tuple((b, a) for b, a in only), fill=fills[side])
    return x


def _pad_by_places(x: Any, widths: Widths, mode: Any) -> Any:
    for axis, (length, width) in enumerate(zip(shape_of(x), widths, strict=True)):
        if width == (0, 0):
            continue
        if min(width) < 0 or not length:
            raise ShapeError(
                "bad-padding", f"mode {mode!r} cannot pad axis {axis} of length {length} by {width}"
            )
        places = np.pad(np.arange(length), width, mode)
        x = bind("gather", x, places, axes=(axis,))
    return x


def _pad_ref(x: Any, *, widths: Widths, fill: float) -> Any:
    x = np.asarray(x)
    result = np.full(_pad_aval(aval_of(x), widths=widths, fill=fill).shape, fill, x.dtype)
    result[_inside(x, widths)] = x
    return settled(result)


def _inside(x: Any, widths: Widths) -> tuple[slice, ...]:
    pairs = zip(widths, shape_of(x), strict=True)
    return tuple(slice(before, before + n) for (before, _), n in pairs)


def _pad_vjp(ct: Any, y: Any, x: Any, *, widths: Widths, fill: float) -> Any:
    return functions()["slice"](ct, _inside(x, widths))


pad: Op = Op(
    "pad",
    aval=_pad_aval,
    ref=_pad_ref,
    vjp=(_pad_vjp,),
    jvp=(lambda t, y, x, *, widths, fill: bind(pad, t, widths=widths, fill=0),),
    call=_pad,
    samples=(
        sample([1.0, 2.0], value=[9.0, 1.0, 2.0], grads=([1.0, 1.0],), widths=((1, 0),), fill=9.0),
        sample(normal(2), widths=((1, 0),), fill=9.0),
        sample(normal(2, 3), widths=((0, 0), (2, 1)), fill=0),
        sample(normal(0, 1), widths=((1, 1), (0, 0)), fill=0),
        sample(normal(), widths=(), fill=0),
    ),
    lower=Kernel("pad"),
    doc="Surround the value: `pad_width` elements before and after each axis, which are"
    " `constant_values`, or repeat elements of x by `mode`, one of `'edge'`, `'reflect'`,"
    " `'symmetric'` and `'wrap'`.",
)


def _reshape_aval(x: Aval, *, shape: Shape) -> Aval:
    if math.prod(shape) != x.size:
        raise ShapeError(
            "shape-mismatch", f"{x} has {x.size} elements, shape {shape} holds {math.prod(shape)}"
        )
    return x.with_shape(shape)


def _reshape(x: Any, shape: Any, *more: int) -> Any:
    wanted = as_shape((shape, *more) if more else shape, free=True)
    if -1 in wanted:
        rest = math.prod(n for n in wanted if n != -1)
        size = math.prod(shape_of(x))
        wanted = tuple(size // max(rest, 1) if n == -1 else n for n in wanted)
    return bind(reshape, x, shape=wanted)


reshape: Op = Op(
    "reshape",
    aval=_reshape_aval,
    ref=lambda x, *, shape: owned(np.reshape(x, shape)),
    vjp=(lambda ct, y, x, *, shape: bind(reshape, ct, shape=shape_of(x)),),
    linear=(0,),
    call=_reshape,
    samples=(
        sample(
            [[1.0, 2.0], [3.0, 4.0]],
            value=[1.0, 2.0, 3.0, 4.0],
            grads=([[1, 1], [1, 1]],),
            shape=(4,),
        ),
        sample(normal(2, 6), shape=(3, 1, 4)),
        sample(normal(1), shape=()),
        sample(normal(), shape=(1, 1)),
        sample(normal(0, 3), shape=(3, 0)),
    ),
    lower=lambda view, *, shape: view.reshape(shape),
    doc="The same elements in another shape; one length may be -1.",
)
