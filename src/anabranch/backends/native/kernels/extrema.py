"""Where extrema stand along an axis: the first of equal ones, and of NaNs, which win."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from anabranch.backends.native.emit import I64, Val, register_bytes, register_type
from anabranch.backends.native.kernels.code import Array, Carried, KernelCode, Lanes
from anabranch.backends.native.mathematics import Mathematics
from anabranch.backends.native.reductions import Reduction
from anabranch.backends.native.view import View
from anabranch.core.dtype import is_floating

BLOCK = 8  # vectors that are compared with the best so far before anything else is done


def argument(k: KernelCode) -> None:
    """The place of the extremum: the first of equal ones, and of NaNs, which win."""
    (x,), (result,), axis = k.inputs, k.outputs, k.node.attrs["axis"]
    line = x.without([axis])
    target = k.shown(result, View.whole(line.shape))
    most: int | None
    runs_along = x.strides[axis] == 1 and line.strides[-1:] != (1,)
    if runs_along and x.shape[axis] >= 2 * k.vector_bytes // register_bytes(x.dtype):
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
    """One line, in blocks: only what holds something better than all before is looked into.

    The last block overlaps the one before it; what stands in both is no better than itself. What
    is carried is the best and the block that has it, in which its place is found at the end.
    """
    x, target = lanes.places
    width = k.vector_bytes // register_bytes(x.dtype)
    block = min(BLOCK, length // width) * width
    best = k.load(x)
    kind = register_type(best.dtype)
    with k.repeating([("i64", "0"), (kind, best.text), ("i64", "0")]) as loop:
        counter, value, first = loop.held
        goes_on = k.test("slt", counter, length)
        if is_floating(best.dtype):  # nothing is better than NaN
            goes_on = k._new(f"and i1 {goes_on}, {k._new(f'fcmp ord {kind} {value}, {value}')}")
        k.go_on(loop, goes_on)
        fits = k.test("sle", counter, length - block)
        start = k.chosen(fits, counter, str(length - block))
        better = _any_better(k, x, start, width, block, Val(value, best.dtype))
        with _changing(k, better, [(kind, value), ("i64", first)]) as inner:
            inner.next = [_best_of(k, x, start, width, block).text, start]
        loop.next = [k.integer("add", counter, block), *inner.held]
    _, value, first = loop.held
    k.store(target, Val(_place(k, x, first, width, Val(value, best.dtype)), I64))


def _vector(k: KernelCode, e: Mathematics, x: Array, place: str, width: int) -> Val:
    return Lanes(e, [k.at(x, place)], [1], width).load(0)


def _everywhere(e: Mathematics, value: Val) -> Val:
    return Val(e.in_every_lane(register_type(value.dtype), value.text), value.dtype)


def _vectors(
    k: KernelCode, e: Mathematics, x: Array, start: str, width: int, block: int
) -> Iterator[Val]:
    for step in range(0, block, width):
        place = k.integer("add", start, step)
        yield _vector(k, e, x, place, width)


def _any_better(k: KernelCode, x: Array, start: str, width: int, block: int, best: Val) -> str:
    """Whether some element of a block is better than the best, which is no NaN."""
    e = k._emitter(width)
    found: Val | None = None
    for vector in _vectors(k, e, x, start, width, block):
        wins = k.joined(e, vector, _everywhere(e, best))
        if is_floating(best.dtype):
            wins = e.either(wins, e.isnan(vector))
        found = wins if found is None else e.either(found, wins)
    assert found is not None
    text = e.any_lane(found)
    k._take(e)
    return text


class _Best(Reduction):
    """The better of two, NaN best of all."""

    k: KernelCode

    def __init__(self, k: KernelCode) -> None:
        object.__setattr__(self, "k", k)  # of a frozen record

    def joined(self, e: Any, x: Val, y: Val) -> Val:
        wins = self.k.joined(e, x, y)
        return e.select(e.either(wins, e.isnan(x)) if is_floating(x.dtype) else wins, x, y)  # type: ignore[no-any-return]


def _best_of(k: KernelCode, x: Array, start: str, width: int, block: int) -> Val:
    e, join = k._emitter(width), _Best(k)
    found = list(_vectors(k, e, x, start, width, block))
    while len(found) > 1:  # pairs first, so that little waits
        odd = found[-1:] if len(found) % 2 else []
        pairs = zip(found[::2], found[1::2], strict=False)
        found = [join.joined(e, one, other) for one, other in pairs] + odd
    result = join.across(e, found[0], k._emitter)
    k._take(e)
    return result


def _place(k: KernelCode, x: Array, first: str, width: int, best: Val) -> str:
    """Where the best stands, from the block on that has it."""
    with k.repeating([("i64", first)]) as loop:
        (counter,) = loop.held
        e = k._emitter(width)
        vector, wanted = _vector(k, e, x, counter, width), _everywhere(e, best)
        found = e.equal(vector, wanted)
        if is_floating(best.dtype):
            found = e.either(found, e.both(e.isnan(vector), e.isnan(wanted)))
        bits = e.new(f"bitcast <{width} x i1> {found.text} to i{width}")
        k._take(e)
        bits = bits if width == 64 else k._new(f"zext i{width} {bits} to i64")
        k.go_on(loop, k.test("eq", bits, 0))
        loop.next = [k.integer("add", counter, width)]
    k.declared.add("declare i64 @llvm.cttz.i64(i64, i1)")
    return k.integer("add", loop.held[0], k._new(f"call i64 @llvm.cttz.i64(i64 {bits}, i1 true)"))


@contextmanager
def _changing(k: KernelCode, condition: str, held: Sequence[tuple[str, str]]) -> Iterator[Carried]:
    """Values, each a type and a name, that the block changes where the condition holds."""
    before = k._block
    inner = Carried("", [value for _, value in held], [])
    with k.when(condition):
        yield inner
        after = k._block
    phis = zip(held, inner.next, strict=True)
    inner.held = [
        k._new(f"phi {kind} [{old}, %{before}], [{new}, %{after}]") for (kind, old), new in phis
    ]
