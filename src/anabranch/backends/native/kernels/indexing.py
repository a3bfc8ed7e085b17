"""Reading and writing by indices that are known when the code runs, each of them checked.

What an index that lies outside raises is the reference's to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from anabranch.backends.native.emit import F32, I64, Val
from anabranch.backends.native.kernels.code import Array, KernelCode
from anabranch.backends.native.view import View
from anabranch.core.aval import Shape
from anabranch.core.dtype import is_half
from anabranch.core.op import broadcast_shapes


def gather(k: KernelCode) -> None:
    (x, *indices), (result,), attrs = k.inputs, k.outputs, k.node.attrs
    with _spots_of(k, indices).each(x, result, splits=True) as (inside, source, target):
        if inside is None:
            k.copied(source, target)
        else:
            with k.when(inside):
                k.copied(source, target)
            with k.when(k._new(f"xor i1 {inside}, true")):
                k.filled(target, attrs.get("fill", 0))


def scatter(k: KernelCode) -> None:
    """Updates are taken in C order, so that of several for one place the last one stays."""
    (_, updates, *indices), (result,), join = k.inputs, k.outputs, k.join
    is_wide = is_half(result.dtype) and join != ""
    sums = k.in_scratch(F32, result.shape) if is_wide else result
    k.take_over(sums)
    spots = _spots_of(k, indices)
    with spots.each(sums, updates) as (inside, target, source), k.when(inside):
        if join:
            k.mapped(target.shape, [target, source], target, k.updated)
        else:
            k.copied(source, target)
    if is_wide:
        k.copied(sums, result)


@dataclass(frozen=True)
class _Spots:
    """The places that index operands name in an array, as the attrs of a gather say it."""

    k: KernelCode
    indices: Sequence[Array]
    axes: tuple[int, ...]
    at: int
    mode: str
    lengths: Shape

    @contextmanager
    def each(
        self, x: Array, other: Array, splits: bool = False
    ) -> Iterator[tuple[str | None, Array, Array]]:
        """A loop over the places: whether one lies inside, what stands there, what belongs to it.

        The first condition is None where every place lies inside.
        """
        k, space = self.k, self.indices[0].shape
        front = range(self.at, self.at + len(space))
        there = other.without([axis for axis in range(len(other.shape)) if axis not in front])
        with _nested(k, space, [*self.indices, there], splits) as (*indices, here):
            inside: str | None = None
            for axis, length, index in zip(self.axes, self.lengths, indices, strict=True):
                place, fits = self._counted(index, length)
                x = k.along(x, axis, place)
                if fits is not None:
                    inside = fits if inside is None else k._new(f"and i1 {inside}, {fits}")
            yield inside, x.without(self.axes), other.without(front)._replace(base=here.base)

    def _counted(self, index: Array, length: int) -> tuple[str, str | None]:
        """An index counted from 0, and whether it lies inside where the mode lets it be outside."""
        k, number = self.k, self.k.load(index)
        given = k.place(number)
        if self.mode in ("wrap", "clip"):
            if not length:
                k.require("false")
            last = max(length, 1) - 1
            if self.mode == "clip":
                low = k.chosen(k.test("slt", given, 0), "0", given)
                return k.chosen(k.test("sgt", low, last), str(last), low), None
            if index.dtype == np.uint64:
                return k.integer("urem", number.text, last + 1), None
            rest = k.integer("srem", given, last + 1)
            return k.chosen(k.test("slt", rest, 0), k.integer("add", rest, last + 1), rest), None
        place = _from_the_end(k, given, length)
        fits = k.test("ult", place, length)
        if self.mode == "raise":
            k.require(fits)
            return place, None
        return k.chosen(fits, place, "0"), fits


def _spots_of(k: KernelCode, indices: Sequence[Array]) -> _Spots:
    attrs = k.node.attrs
    common = broadcast_shapes(*(edge.aval for edge in k.node.inputs[-len(indices) :]))
    axes = attrs.get("axes", tuple(range(len(indices))))
    lengths = attrs.get("lengths")
    if lengths is None:
        lengths = tuple(k.inputs[0].shape[axis] for axis in axes)
    spread = [index.broadcast_to(common) for index in indices]
    return _Spots(k, spread, axes, attrs.get("at", axes[0]), attrs.get("mode", "raise"), lengths)


def _from_the_end(k: KernelCode, given: str, length: int) -> str:
    """What is negative counts from the end."""
    return k.chosen(k.test("slt", given, 0), k.integer("add", given, length), given)


@contextmanager
def _nested(
    k: KernelCode, space: Shape, arrays: Sequence[Array], splits: bool
) -> Iterator[list[Array]]:
    """Loops over the axes of a space, with the arrays moved to where each turn finds them."""
    if not space:
        yield list(arrays)
        return
    outer = k.rows_of(space[0]) if splits else k._counted_to(str(space[0]))
    with outer as counter:
        moved = [k.along(array, 0, counter).without([0]) for array in arrays]
        with _nested(k, space[1:], moved, False) as inner:
            yield inner


# Blocks


def _block(k: KernelCode, x: Array, starts: Sequence[Array], sizes: Shape) -> Array:
    """The block of x from these starts on."""
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        length = k.node.inputs[0].aval.shape[axis]
        first = _from_the_end(k, k.place(k.load(start)), length)
        k.require(k.test("ule", first, length - size))
        x = k.along(x, axis, first)
    return x._replace(shape=sizes)


def dynamic_slice(k: KernelCode) -> None:
    (x, *starts), (result,) = k.inputs, k.outputs
    k.copied(_block(k, x, starts, result.shape), result)


def dynamic_update_slice(k: KernelCode) -> None:
    (_, update, *starts), (result,) = k.inputs, k.outputs
    block = _block(k, result, starts, update.shape)
    k.take_over(result)
    k.copied(update, block)


def one_hot(k: KernelCode) -> None:
    (labels,), (result,) = k.inputs, k.outputs
    k.filled(result, 0)
    classes = result.shape[-1]
    with k.scalar() as e:
        one = e.number(1, result.dtype)
    with _nested(k, labels.shape, [labels, result], False) as (label, row):
        place = k.place(k.load(label))
        k.require(k.test("ult", place, classes))
        k.store(k.along(row, 0, place), one)


def index_repeats(k: KernelCode) -> None:
    """A table holds for each place the number of the last that named it."""
    (before, after), spots = k.outputs, _spots_of(k, k.inputs)
    count = before.shape[0]
    table = k.in_scratch(I64, spots.lengths)
    for array in (table, before, after):
        k.filled(array, count)
    numbered = k.shown(before, View.whole(spots.indices[0].shape))
    with spots.each(table, numbered) as (inside, last, here), k.when(inside):
        start, now = (k._new(f"ptrtoint ptr {x.base} to i64") for x in (before, here))
        number = k.integer("sdiv", k.integer("sub", now, start), I64.itemsize)
        earlier = k.load(last)
        k.store(here, earlier)
        with k.when(k.test("ne", earlier.text, count)):
            k.store(k.along(after, 0, earlier.text), Val(number, I64))
        k.store(last, Val(number, I64))
