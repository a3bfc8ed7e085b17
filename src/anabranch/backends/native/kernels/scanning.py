"""What runs along an axis, each step from the one before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from anabranch.backends.native.emit import BOOL, F32, Val, register_type
from anabranch.backends.native.kernels.code import Array, KernelCode, Lanes
from anabranch.backends.native.mathematics import Mathematics
from anabranch.core.dtype import DType, is_floating, is_half

Step = Callable[[Mathematics, Val, Sequence[Val]], Val]  # what was, what stands here


def scan(k: KernelCode) -> None:
    """Running joins of elements."""
    (x,), (result,) = k.inputs, k.outputs
    wide = F32 if is_half(result.dtype) else result.dtype

    def first(e: Mathematics, xs: Sequence[Val]) -> Val:
        return e.convert(xs[0], wide)

    def step(e: Mathematics, held: Val, xs: Sequence[Val]) -> Val:
        return k.joined(e, held, e.convert(xs[0], wide))

    _run(k, [x], result, wide, first, step)


def recurrence(k: KernelCode) -> None:
    """y[k] = a[k] y[k-1] + b[k]; what is absorbed differs only where a product is NaN."""
    (a, b), (result,) = k.inputs, k.outputs
    wide = F32 if is_half(result.dtype) else result.dtype
    absorbs = k.node.attrs["absorbs"] and is_floating(wide)

    def first(e: Mathematics, xs: Sequence[Val]) -> Val:
        return e.convert(xs[1], wide)

    def step(e: Mathematics, held: Val, xs: Sequence[Val]) -> Val:
        if xs[0].dtype == BOOL:
            kept = e.select(xs[0], held, e.number(0, wide))
        else:
            factor = e.convert(xs[0], wide)
            kept = e.absorb(held, factor) if absorbs else e.multiply(held, factor)
        return e.add(kept, e.convert(xs[1], wide))

    _run(k, [a, b], result, wide, first, step)


def _run(
    k: KernelCode,
    inputs: Sequence[Array],
    result: Array,
    wide: DType,
    first: Callable[[Mathematics, Sequence[Val]], Val],
    step: Step,
) -> None:
    """Along the axis, several lines side by side where they lie side by side."""
    axis, length = k.node.attrs["axis"], result.shape[k.node.attrs["axis"]]
    arrays = [*inputs, result]
    if k.node.attrs["reverse"]:
        turned: list[Any] = [(0, n, 1) for n in result.shape]
        turned[axis] = (length - 1, None, -1) if length else (0, 0, 1)
        arrays = [k.sliced(array, turned) for array in arrays]
    strides = [array.strides[axis] for array in arrays]

    def at(lanes: Lanes, counter: str) -> Lanes:
        places = [
            k.at(place, k._times(counter, stride))
            for place, stride in zip(lanes.places, strides, strict=True)
        ]
        return lanes._replace(places=places)

    def body(lanes: Lanes) -> None:
        e, end = lanes.e, len(inputs)
        start = first(e, [lanes.load(i) for i in range(end)])
        lanes.store(end, start)
        k._take(e)
        with k.carrying([(e.type(register_type(wide)), start.text)], length, first=1) as loop:
            here = at(lanes, loop.counter)
            found = step(e, Val(loop.held[0], wide), [here.load(i) for i in range(end)])
            here.store(end, found)
            k._take(e)
            loop.next = [found.text]

    if length:
        lines = [array.without([axis]) for array in arrays]
        side_by_side = all(line.strides[-1:] == (1,) for line in lines)
        most = None if side_by_side else 1
        k.over(lines[0].shape, lines, body, most=most, widest=wide.itemsize, splits=True)
