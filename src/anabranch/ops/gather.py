"""Reading by index arrays, and which of them point to the same place."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from anabranch.core.aval import Aval, Shape, aval
from anabranch.core.bind import bind
from anabranch.core.op import NO_GRADIENT, Kernel, Op, broadcast_shapes
from anabranch.core.sample import integers, normal, sample
from anabranch.core.values import owned
from anabranch.ops.layout import broadcast_to
from anabranch.ops.places import (
    READING,
    Axes,
    attrs_of,
    index_operand,
    index_operands,
    placed,
    places_shape,
    places_text,
    require_fill,
    require_inside,
    require_mode,
)
from anabranch.ops.rules import require_integers, shape_of


def _gather_aval(
    x: Aval, *indices: Aval, axes: Axes, at: int | None = None, mode: str = "raise", fill: Any = 0
) -> Aval:
    require_mode(mode, READING)
    require_fill(fill, x.dtype)
    return x.with_shape(places_shape(x, indices, axes, at))


def _gather_ref(
    x: Any, *indices: Any, axes: Axes, at: int | None = None, mode: str = "raise", fill: Any = 0
) -> Any:
    x, place = np.asarray(x), axes[0] if at is None else at
    if len(axes) == 1 and mode == "raise" and place == axes[0]:
        index = np.asarray(indices[0])
        require_integers("indices", index.dtype)
        # NumPy would wrap uint64 round to negative places, and checks none where x is empty.
        if index.dtype != np.uint64 and x.size:
            with contextlib.suppress(IndexError):  # our own names index and axis, below
                return np.take(x, index, axis=place)
    places, inside = placed(indices, x.shape, axes, mode)
    common = range(places[0].ndim)
    if inside is not None:
        require_fill(fill, x.dtype)
        first = np.moveaxis(x, axes, range(len(axes)))
        found = np.full(inside.shape + first.shape[len(axes) :], fill, x.dtype)
        found[inside] = first[tuple(one[inside] for one in places)]
    else:
        found = np.moveaxis(x, axes, range(len(axes)))[tuple(places)]
    return owned(np.moveaxis(found, common, [place + i for i in common]))


def _gather_vjp(
    ct: Any,
    y: Any,
    x: Any,
    *indices: Any,
    axes: Axes,
    at: int | None = None,
    mode: str = "raise",
    fill: Any = 0,
) -> Any:
    mode = "drop" if mode == "fill" else mode
    return bind("scatter_add", zeros(shape_of(x), ct), ct, *indices, **attrs_of(axes, at, mode))


def _gather_jvp(t: Any, y: Any, x: Any, *indices: Any, fill: Any = 0, **attrs: Any) -> Any:
    return bind(gather, t, *indices, **attrs)


def zeros(shape: Shape, like: Any) -> Any:
    """Zeros of a shape, in the dtype of another value."""
    return broadcast_to(like.dtype.type(0), shape)


def _gather(
    x: Any, indices: Any, axis: Any = 0, mode: str = "raise", fill_value: Any = None
) -> Any:
    operands, axes = index_operands(indices, axis, len(shape_of(x)))
    return gathered(x, operands, axes, None if _is_run(axes) else 0, mode, fill_value)


def _is_run(axes: Axes) -> bool:
    return axes[-1] - axes[0] == len(axes) - 1


def gathered(
    x: Any,
    operands: tuple[Any, ...],
    axes: Axes,
    at: int | None = None,
    mode: str = "raise",
    fill_value: Any = None,
) -> Any:
    """A gather in its normal form: attrs that say nothing are left out.

    Raises:
        ArgumentError: `[bad-argument]` for an unknown mode, or a missing or needless fill value.
        DTypeError: `[fill-dtype]`.
    """
    require_mode(mode, READING)
    require_inside(x, operands, axes, mode)
    if mode != "fill":
        return bind(gather, x, *operands, **attrs_of(axes, at, mode))
    require_fill(fill_value, x.dtype)
    return bind(gather, x, *operands, **attrs_of(axes, at, mode, fill=fill_value))


def _gather_text(x: str, *indices: str, axes: Axes, mode: str = "raise", **_: Any) -> str | None:
    return f"{x}[{places_text(indices, axes)}]" if mode == "raise" else None


gather: Op = Op(
    "gather",
    aval=_gather_aval,
    ref=_gather_ref,
    vjp=lambda slot: NO_GRADIENT if slot else _gather_vjp,
    jvp=(_gather_jvp,),
    call=_gather,
    notation=_gather_text,
    samples=(
        sample(
            [1.0, 2.0, 3.0], [2, 0, 2], value=[3.0, 1.0, 3.0], grads=([1, 0, 2], None), axes=(0,)
        ),
        sample(
            [1.0, 2.0],
            [-1, -3, 2],
            value=[2.0, 9.0, 9.0],
            grads=([0, 1], None),
            axes=(0,),
            mode="fill",
            fill=9.0,
        ),
        sample([1.0, 2.0], [-1, 3], value=[2.0, 2.0], grads=([0, 2], None), axes=(0,), mode="wrap"),
        sample([1.0, 2.0], [-1, 3], value=[1.0, 2.0], grads=([1, 1], None), axes=(0,), mode="clip"),
        sample(normal(3, 4), integers(2, 2, below=4), axes=(1,)),
        sample(normal(3, 4), integers(below=3), axes=(0,)),
        sample(normal(3, 4), integers(5, below=3, above=-3), axes=(0,)),
        sample(normal(2, 3, 4), integers(5, below=2), integers(2, 1, below=4), axes=(0, 2), at=0),
        sample(normal(2, 3, 4), integers(2, 1, below=3), integers(2, below=4), axes=(1, 2)),
        sample(normal(2, 3, 4), integers(5, below=2), integers(below=4), axes=(0, 2), at=1),
        sample(normal(3, 2), integers(4, below=6, above=-6), axes=(0,), mode="fill", fill=1.5),
        sample(normal(0, 2), integers(3, below=2), axes=(0,), mode="fill", fill=0),
        sample(normal(1), integers(0, below=1), axes=(0,)),
    ),
    lower=Kernel("gather", selects=True),
    doc="Elements of x by integer arrays: one along an axis, or a tuple of them along as many axes,"
    " broadcast against each other. An index outside its axis raises; `mode` may also be `'wrap'`,"
    " `'clip'` or `'fill'`, which takes `fill_value` there.",
)


def _repeats_aval(*indices: Aval, lengths: Shape, mode: str = "raise") -> tuple[Aval, Aval]:
    for one in indices:
        require_integers("indices", one.dtype)
    count = aval(broadcast_shapes(*indices), np.dtype(np.int64)).size
    return (aval((count,), np.dtype(np.int64)),) * 2


def _repeats_ref(*indices: Any, lengths: Shape, mode: str = "raise") -> tuple[Any, Any]:
    places, inside = placed(indices, lengths, tuple(range(len(lengths))), mode)
    count = places[0].size
    flat = np.zeros(count, np.int64)
    for place, length in zip(places, lengths, strict=True):
        flat = flat * length + place.ravel()
    numbers = np.arange(count) if inside is None else np.flatnonzero(inside)
    order = numbers[np.argsort(flat[numbers], kind="stable")]
    meets = flat[order[1:]] == flat[order[:-1]]
    before, after = np.full(count, count), np.full(count, count)
    before[order[1:][meets]] = order[:-1][meets]
    after[order[:-1][meets]] = order[1:][meets]
    return before, after


index_repeats: Op = Op(
    "index_repeats",
    aval=_repeats_aval,
    ref=_repeats_ref,
    vjp=NO_GRADIENT,
    call=lambda indices, lengths, mode="raise": bind(
        index_repeats,
        *map(index_operand, indices),
        lengths=tuple(lengths),
        **({} if mode == "raise" else {"mode": mode}),
    ),
    samples=(
        sample([2, 0, 2, 2], value=([4, 4, 0, 2], [2, 4, 3, 4]), lengths=(3,)),
        sample([1, 5, 1, 5], value=([4, 4, 0, 4], [2, 4, 4, 4]), lengths=(3,), mode="drop"),
        sample([[0], [1]], [0, 0], value=([4, 0, 4, 2], [1, 4, 3, 4]), lengths=(2, 1)),
        sample(integers(6, below=2, above=-2), lengths=(2,)),
        sample(integers(below=2), lengths=(2,)),
        sample(integers(0, below=2), lengths=(2,)),
    ),
    lower=Kernel("index_repeats"),
    doc="For each of several places, given by index arrays for axes of these `lengths`, the number"
    " of the nearest earlier and of the nearest later one that is the same; their count for none.",
)
