"""What runs along an axis, each step from the one before, and what stands first along it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from anabranch.backends.native.emit import BOOL, F32, I64, Val, register_type
from anabranch.backends.native.kernels.code import Array, KernelCode, Lanes
from anabranch.backends.native.mathematics import Mathematics
from anabranch.backends.native.view import View
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


def argument(k: KernelCode) -> None:
    """The place of the extremum: the first of equal ones, and of NaNs, which win."""
    (x,), (result,), axis = k.inputs, k.outputs, k.node.attrs["axis"]
    line = x.without([axis])
    target = k.shown(result, View.whole(line.shape))
    most: int | None
    runs_along = x.strides[axis] == 1 and line.strides[-1:] != (1,)
    if runs_along and x.shape[axis] >= 2 * k.vector_bytes // I64.itemsize:
        rule, most = _across, 1
    else:
        rule, most = _down, None if line.strides[-1:] == (1,) else 1
    k.over(
        line.shape,
        [line, target],
        lambda lanes: rule(k, lanes, x.strides[axis], x.shape[axis]),
        most=most,
        splits=True,
    )


def _beats(k: KernelCode, e: Mathematics, x: Val, best: Val) -> Val:
    wins = k.joined(e, x, best)
    if is_floating(x.dtype):
        wins = e.either(wins, e.both(e.isnan(x), e.equal(best, best)))
    return wins


def _down(k: KernelCode, lanes: Lanes, stride: int, length: int) -> None:
    """Several lines side by side, or one."""
    e = lanes.e
    best, place = lanes.load(0), e.number(0, I64)
    k._take(e)
    starts = [(e.type(register_type(best.dtype)), best.text), (e.type("i64"), place.text)]
    with k.carrying(starts, length, first=1) as loop:
        here = lanes._replace(
            places=[k.at(lanes.places[0], k._times(loop.counter, stride)), lanes.places[1]]
        )
        held, number = Val(loop.held[0], best.dtype), Val(loop.held[1], I64)
        x = here.load(0)
        wins = _beats(k, e, x, held)
        counter = Val(e.in_every_lane("i64", loop.counter), I64)
        loop.next = [e.select(wins, x, held).text, e.select(wins, counter, number).text]
        k._take(e)
    lanes.store(1, Val(loop.held[1], I64))


def _across(k: KernelCode, lanes: Lanes, stride: int, length: int) -> None:
    """One line, several elements at a time; then the lanes and the rest one by one."""
    x, target = lanes.places
    width = k.vector_bytes // I64.itemsize
    whole = length - length % width
    e = k._emitter(width)
    kind = register_type(x.dtype)
    order = f"<{', '.join(f'i64 {lane}' for lane in range(width))}>"
    vectors = Lanes(e, [x], [1], width)
    best = vectors.load(0)
    k._take(e)
    starts = [("i64", str(width)), (e.type(kind), best.text), (e.type("i64"), order)]
    with k.repeating(starts) as loop:
        counter, values, numbers = loop.held
        k.go_on(loop, k.test("slt", counter, whole))
        here = vectors._replace(places=[k.at(x, counter)])
        now, held = here.load(0), Val(values, x.dtype)
        wins = _beats(k, e, now, held)
        places = e.new(f"add {e.type('i64')} {e.in_every_lane('i64', counter)}, {order}")
        chosen = e.select(wins, Val(places, I64), Val(numbers, I64))
        found = e.select(wins, now, held)
        k._take(e)
        loop.next = [k.integer("add", counter, width), found.text, chosen.text]
    _, values, numbers = loop.held
    best, place = (
        Val(k._new(f"extractelement {e.type(one)} {text}, i32 0"), dtype)
        for one, text, dtype in ((kind, values, x.dtype), ("i64", numbers, I64))
    )
    for lane in range(1, width):
        other, number = (
            Val(k._new(f"extractelement {e.type(one)} {text}, i32 {lane}"), dtype)
            for one, text, dtype in ((kind, values, x.dtype), ("i64", numbers, I64))
        )
        with k.scalar() as one:
            wins = _beats(k, one, other, best)
            loses = _beats(k, one, best, other)
            ties = one.unless(one.either(wins, loses))
            wins = one.either(wins, one.both(ties, one.less(number, place)))
            best, place = one.select(wins, other, best), one.select(wins, number, place)
    for element in range(whole, length):
        with k.scalar() as one:
            other = Lanes(one, [k.at(x, str(element))], [1], 1).load(0)
            wins = _beats(k, one, other, best)
            best = one.select(wins, other, best)
            place = one.select(wins, one.number(element, I64), place)
    k.store(target, place)
