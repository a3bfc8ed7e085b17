"""Writing by index arrays: a new value, with updates put or combined into places of another.

Every record takes x, the updates, and one index array for each of `axes`; the updates have the
shape that `gather` reads there. Where several updates meet in one place, they are taken in C order;
for `scatter_set` that means that the last one stays and the others get the gradient 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.core.aval import Aval, Shape, aval, aval_of
from anabranch.core.bind import bind
from anabranch.core.dtype import is_half, promote
from anabranch.core.op import NO_GRADIENT, Kernel, Op, broadcast_shapes
from anabranch.core.sample import Sample, integers, normal, sample
from anabranch.core.values import settled
from anabranch.errors import ShapeError
from anabranch.ops.gather import gather, index_repeats, zeros
from anabranch.ops.layout import permute, reshaped
from anabranch.ops.places import (
    WRITING,
    Axes,
    attrs_of,
    index_operands,
    placed,
    places_shape,
    places_text,
    require_inside,
    require_mode,
)
from anabranch.ops.rules import shape_of
from anabranch.ops.select import equal, where

Write = Callable[[Any, tuple[Any, ...], Any], None]


def _aval(
    x: Aval, updates: Aval, *indices: Aval, axes: Axes, at: int | None = None, mode: str = "raise"
) -> Aval:
    require_mode(mode, WRITING)
    wanted = places_shape(x, indices, axes, at)
    if updates.shape != wanted:
        raise ShapeError("shape-mismatch", f"updates have shape {updates.shape}, need {wanted}")
    return aval(x.shape, promote((a.dtype, a.weak) for a in (x, updates))[0])


def _reference(write: Write) -> Any:
    def ref(
        x: Any, updates: Any, *indices: Any, axes: Axes, at: int | None = None, mode: str = "raise"
    ) -> Any:
        avals = map(aval_of, (x, updates, *indices))
        dtype = _aval(*avals, axes=axes, at=at, mode=mode).dtype
        result = np.array(x, np.float32 if is_half(dtype) else dtype, order="C")
        places, inside = placed(indices, result.shape, axes, mode)
        common, place = places[0].ndim, axes[0] if at is None else at
        source = np.moveaxis(np.asarray(updates), range(place, place + common), range(common))
        if inside is not None:
            places, source = [one[inside] for one in places], source[inside]
        write(np.moveaxis(result, axes, range(len(axes))), tuple(places), source)
        return settled(result if result.dtype == dtype else result.astype(dtype))

    return ref


def _assign(target: Any, places: tuple[Any, ...], source: Any) -> None:
    """Assign so that the last of several updates of one place stays.

    NumPy promises no order for an assignment by index arrays, so those that lose are left out.
    """
    stays = last_of_each(places, target.shape[: len(places)])
    source = source.reshape(stays.size, *source.shape[places[0].ndim :])
    target[tuple(one.ravel()[stays] for one in places)] = source[stays]


def last_of_each(places: tuple[Any, ...], lengths: Shape) -> Any:
    """Which places, in C order, are named by none that follows."""
    numbers, flat = np.arange(places[0].size), np.zeros(places[0].size, np.int64)
    for one, length in zip(places, lengths, strict=True):
        flat = flat * length + one.ravel()
    last = np.full(math.prod(lengths), -1)
    np.maximum.at(last, flat, numbers)
    return last[flat] == numbers


# Reading at the places of a scatter


class Places:
    """The places that a scatter's index operands and attrs name, for its derivative rules."""

    def __init__(
        self, indices: tuple[Any, ...], axes: Axes, at: int | None = None, mode: str = "raise"
    ) -> None:
        self.indices, self.axes, self.mode = indices, axes, mode
        self.at = axes[0] if at is None else at
        self.attrs = attrs_of(axes, at, mode)

    def read(self, value: Any) -> Any:
        """What stands there; 0 for places that are dropped."""
        mode = "fill" if self.mode == "drop" else self.mode
        return bind(gather, value, *self.indices, **attrs_of(self.axes, self.at, mode))

    def write(self, op: Op, x: Any, updates: Any) -> Any:
        """Another scatter at the same places."""
        return bind(op, x, updates, *self.indices, **self.attrs)

    def repeats(self, shape: Shape) -> tuple[Any, Any]:
        """The nearest equal places before and after each of them."""
        lengths = tuple(shape[axis] for axis in self.axes)
        mode = {} if self.mode == "raise" else {"mode": self.mode}
        return bind(index_repeats, *self.indices, lengths=lengths, **mode)  # type: ignore[no-any-return]

    @property
    def common(self) -> Shape:
        """The shape of the index arrays together."""
        return broadcast_shapes(*map(aval_of, self.indices))

    def by_place(self, updates: Any) -> Any:
        """The updates with one axis for all places, in front."""
        ndim, common = len(shape_of(updates)), len(self.common)
        front = list(range(self.at, self.at + common))
        order = [*front, *(axis for axis in range(ndim) if axis not in front)]
        moved = permute(updates, order) if order != sorted(order) else updates
        return reshaped(moved, (math.prod(self.common), *shape_of(moved)[common:]))

    def as_updates(self, flat: Any) -> Any:
        """What `by_place` made, with its axes where the updates have them."""
        rest, common = shape_of(flat)[1:], len(self.common)
        spread = reshaped(flat, (*self.common, *rest))
        order = [*range(common, common + self.at), *range(common)]
        order += range(common + self.at, common + len(rest))
        return permute(spread, order) if order != sorted(order) else spread


# The records


def scatter_op(name: str, write: Write, doc: str, samples: tuple[Sample, ...], **rules: Any) -> Op:
    """The record of a scatter: `write(target, places, source)` and the rules for x and updates."""
    vjp = rules.pop("vjp")

    def call(x: Any, indices: Any, updates: Any, axis: Any = 0, mode: str = "raise") -> Any:
        require_mode(mode, WRITING)
        operands, axes = index_operands(indices, axis, len(shape_of(x)))
        at = None if axes[-1] - axes[0] == len(axes) - 1 else 0
        require_inside(x, operands, axes, mode)
        return bind(made, x, updates, *operands, **attrs_of(axes, at, mode))

    def text(x: str, updates: str, *indices: str, axes: Axes, **_: Any) -> str:
        return f"{x}.at[{places_text(indices, axes)}].{name.removeprefix('scatter_')}({updates})"

    made = Op(
        name,
        aval=_aval,
        ref=_reference(write),
        vjp=lambda slot: vjp[slot] if slot < 2 else NO_GRADIENT,
        call=call,
        notation=text,
        arity=2,
        doc=f"x with updates {doc} at integer indices along an axis, or along several by a tuple of"
        " index arrays. An index outside its axis raises; `mode` may also be `'wrap'`, `'clip'` or"
        " `'drop'`, which leaves such updates out.",
        samples=(*samples, *DRAWN),
        **rules,
    )
    return made


DRAWN = (
    sample(normal(3, 4), normal(3, 2, 2), integers(2, 2, below=4), axes=(1,)),
    sample(normal(3, 4), normal(4), integers(below=3, above=-3), axes=(0,)),
    sample(normal(3, 2), normal(7, 2), integers(7, below=3), axes=(0,)),
    sample(normal(6), normal(6), integers(6, below=6), axes=(0,)),  # equal shapes, some repeats
    sample(
        normal(2, 3, 2),
        normal(4, 3),
        integers(4, below=2),
        integers(4, below=2),
        axes=(0, 2),
        at=0,
    ),
    sample(
        normal(2, 3, 2), normal(3, 2, 4), integers(4, below=2), integers(2, 1, below=2),
        axes=(0, 2), at=1,
    ),
    sample(normal(3), normal(5), integers(5, below=5, above=-5), axes=(0,), mode="drop"),
    sample(normal(3), normal(5), integers(5, below=5, above=-5), axes=(0,), mode="wrap"),
    sample(normal(3), normal(5), integers(5, below=5, above=-5), axes=(0,), mode="clip"),
    sample(normal(1), normal(0), integers(0, below=1), axes=(0,)),
    sample(normal(0), normal(2), integers(2, below=1), axes=(0,), mode="drop"),
)  # fmt: skip


def _add_vjp(ct: Any, y: Any, x: Any, updates: Any, *indices: Any, **attrs: Any) -> Any:
    return Places(indices, **attrs).read(ct)


def _add_jvp(t: Any, y: Any, x: Any, updates: Any, *indices: Any, **attrs: Any) -> Any:
    return Places(indices, **attrs).write(scatter_add, zeros(shape_of(x), y), t)


scatter_add: Op = scatter_op(
    "scatter_add",
    np.add.at,
    "added; a repeated index adds each time,",
    lower=Kernel("scatter", "add"),
    vjp=(lambda ct, y, x, updates, *indices, **attrs: ct, _add_vjp),
    jvp=(lambda t, y, x, updates, *indices, **attrs: t, _add_jvp),
    samples=(
        sample(
            [1.0, 1.0, 1.0],
            [10.0, 20.0, 30.0],
            [2, 0, 2],
            value=[21.0, 1.0, 41.0],
            grads=([1, 1, 1], [1, 1, 1], None),
            axes=(0,),
        ),
        sample(
            [1.0, 1.0],
            [10.0, 20.0],
            [2, 0],
            value=[21.0, 1.0],
            grads=([1, 1], [0, 1], None),
            axes=(0,),
            mode="drop",
        ),
    ),
)


def _set_vjp_x(ct: Any, y: Any, x: Any, updates: Any, *indices: Any, **attrs: Any) -> Any:
    return Places(indices, **attrs).write(scatter_set, ct, zeros(shape_of(updates), ct))


def _set_vjp_updates(ct: Any, y: Any, x: Any, updates: Any, *indices: Any, **attrs: Any) -> Any:
    places = Places(indices, **attrs)
    found, common = places.read(ct), places.common
    count = math.prod(common)
    if count < 2:
        return found
    stays = equal(places.repeats(shape_of(x))[1], count)
    after = len(shape_of(updates)) - places.at - len(common)
    spread = reshaped(stays, (*(1,) * places.at, *common, *(1,) * after))
    return where(spread, found, 0.0)


def _set_jvp_updates(t: Any, y: Any, x: Any, updates: Any, *indices: Any, **attrs: Any) -> Any:
    return Places(indices, **attrs).write(scatter_set, zeros(shape_of(x), y), t)


scatter_set: Op = scatter_op(
    "scatter_set",
    _assign,
    "in the places of its own elements; of repeated indices the last one counts,",
    lower=Kernel("scatter"),
    vjp=(_set_vjp_x, _set_vjp_updates),
    jvp=(_set_vjp_x, _set_jvp_updates),
    samples=(
        sample(
            [1.0, 2.0, 3.0],
            [10.0, 20.0, 30.0],
            [2, 0, 2],
            value=[20.0, 2.0, 30.0],
            grads=([0, 1, 0], [0, 1, 1], None),
            axes=(0,),
        ),
        sample(
            [1.0, math.nan],
            [math.inf, 7.0],
            [1, -3],
            value=[1.0, math.inf],
            grads=([1, 0], [1, 0], None),
            kink=True,
            axes=(0,),
            mode="drop",
        ),
    ),
)
