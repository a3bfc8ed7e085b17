"""Putting values one after the other, and turning them round."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core.aval import Aval, aval, aval_of
from anabranch.core.bind import bind
from anabranch.core.dtype import promote
from anabranch.core.op import Kernel, Op
from anabranch.core.sample import normal, sample
from anabranch.core.values import owned
from anabranch.errors import ArgumentError, OutOfRangeError, ShapeError
from anabranch.ops.layout import pad, reshape
from anabranch.ops.rules import axes_tuple, axis_index, shape_of


def _concatenate_aval(*xs: Aval, axis: int) -> Aval:
    if not xs:
        raise ArgumentError("bad-argument", "concatenate needs at least one value")
    first = xs[0].shape
    if not 0 <= axis < len(first):
        raise OutOfRangeError("axis-out-of-range", f"axis {axis} does not exist in {xs[0]}")
    for x in xs:
        others = (*x.shape[:axis], *x.shape[axis + 1 :])
        if x.ndim != len(first) or others != (*first[:axis], *first[axis + 1 :]):
            raise ShapeError(
                "shape-mismatch",
                f"shapes {first} and {x.shape} differ in more than axis {axis}, along which they"
                " are put together",
            )
    length = sum(x.shape[axis] for x in xs)
    dtype, _ = promote((x.dtype, x.weak) for x in xs)
    return aval((*first[:axis], length, *first[axis + 1 :]), dtype)


def _concatenate_ref(*xs: Any, axis: int) -> Any:
    wanted = _concatenate_aval(*map(aval_of, xs), axis=axis)
    result = np.empty(wanted.shape, wanted.dtype)  # in C order, whatever the order of the parts
    return np.concatenate([x.astype(wanted.dtype, copy=False) for x in xs], axis, out=result)


def _concatenate(arrays: Sequence[Any], axis: int | None = 0) -> Any:
    if not isinstance(arrays, list | tuple):
        arrays = list(arrays)
    if axis is None:
        arrays, axis = [reshape(x, -1) for x in arrays], 0
    ndim = len(shape_of(arrays[0])) if arrays else 1
    return bind(concatenate, *arrays, axis=axis_index(axis, ndim))


def _around(slot: int, xs: Sequence[Any], axis: int) -> tuple[int, int]:
    """How much of the result stands before and after the part that is input `slot`."""
    lengths = [shape_of(x)[axis] for x in xs]
    return sum(lengths[:slot]), sum(lengths[slot + 1 :])


def _concatenate_vjp(slot: int, ct: Any, y: Any, *xs: Any, axis: int) -> Any:
    before, _ = _around(slot, xs, axis)
    index = [(0, n, 1) for n in shape_of(xs[slot])]
    index[axis] = (before, before + shape_of(xs[slot])[axis], 1)
    return bind("slice", ct, index=tuple(index))


def _concatenate_jvp(slot: int, t: Any, y: Any, *xs: Any, axis: int) -> Any:
    widths = [(0, 0)] * len(shape_of(t))
    widths[axis] = _around(slot, xs, axis)
    return bind(pad, t, widths=tuple(widths), fill=0)


concatenate: Op = Op(
    "concatenate",
    aval=_concatenate_aval,
    ref=_concatenate_ref,
    vjp=lambda slot: functools.partial(_concatenate_vjp, slot),
    jvp=lambda slot: functools.partial(_concatenate_jvp, slot),
    call=_concatenate,
    notation=lambda *xs, axis: f"concatenate([{', '.join(xs)}], axis={axis})",
    samples=(
        sample([1.0, 2.0], [3.0], value=[1.0, 2.0, 3.0], grads=([1, 1], [1]), axis=0),
        sample(normal(2, 3), normal(2, 1), normal(2, 3), axis=1),
        sample(normal(3, 2), normal(3, 2), axis=0),
        sample(normal(3, 1), normal(3, 1), axis=1),
        sample(normal(1), normal(1), axis=0),
        sample(normal(2), axis=0),
        sample(normal(0, 2), normal(1, 2), axis=0),
    ),
    lower=Kernel("concatenate"),
    doc="Values put one after the other along an axis that they have (`stack` makes a new one);"
    " flattened ones without an axis. Lengths of the other axes agree, and dtypes are promoted.",
)


def _flip_aval(x: Aval, *, axes: tuple[int, ...]) -> Aval:
    if any(not 0 <= axis < x.ndim for axis in axes):
        raise OutOfRangeError("axis-out-of-range", f"axis {axes[-1]} does not exist in {x}")
    return x


def _flip_view(view: Any, *, axes: tuple[int, ...]) -> Any:
    return view.slice(
        tuple(
            (n - 1, None, -1) if axis in axes and n else (0, n, 1)
            for axis, n in enumerate(view.shape)
        )
    )


flip: Op = Op(
    "flip",
    aval=_flip_aval,
    ref=lambda x, *, axes: owned(np.flip(x, axes)),
    vjp=(lambda ct, y, x, *, axes: bind(flip, ct, axes=axes),),
    linear=(0,),
    call=lambda x, axis=None: bind(flip, x, axes=axes_tuple(axis, len(shape_of(x)))),
    samples=(
        sample([1.0, 2.0, 4.0], value=[4.0, 2.0, 1.0], grads=([1, 1, 1],), axes=(0,)),
        sample(normal(2, 3), axes=(0, 1)),
        sample(normal(2, 3, 4), axes=(1,)),
        sample(normal(2, 3), axes=()),
        sample(normal(), axes=()),
        sample(normal(0, 3), axes=(0, 1)),
    ),
    lower=_flip_view,
    doc="Elements in reverse order along axes, all of them by default.",
)
