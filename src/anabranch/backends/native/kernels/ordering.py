"""Sorting by keys whose order is that of the elements, and looking up among sorted ones.

Short lines are sorted by insertion, longer ones digit by digit from the lowest, by counting. Both
keep equal elements in their order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anabranch.backends.native.emit import I64, Val, register_type
from anabranch.backends.native.kernels.code import Array, KernelCode, Lanes
from anabranch.backends.native.mathematics import Mathematics
from anabranch.core.dtype import DType, is_floating, is_half, promote

SHORT = 48  # elements: up to here by insertion
_DIGITS = 256


def _key_dtype(dtype: DType) -> DType:
    size = 4 if is_half(dtype) else dtype.itemsize
    return np.dtype(f"u{size}")


def _key(e: Mathematics, x: Val, descends: bool) -> Val:
    """An unsigned integer in whose order the elements stand: zeros are equal, and so are NaNs."""
    dtype = _key_dtype(x.dtype)
    kind = f"i{8 * dtype.itemsize}"
    if is_floating(x.dtype):
        bits = Val(
            e.new(f"bitcast {e.type(register_type(x.dtype))} {x.text} to {e.type(kind)}"), dtype
        )
        signed = np.dtype(f"i{dtype.itemsize}")
        top = e.number(1 << (8 * dtype.itemsize - 1), dtype)
        below = e.less(Val(bits.text, signed), e.number(0, signed))
        turned = e.exclusive(bits, e.number(-1 % (1 << (8 * dtype.itemsize)), dtype))
        found = e.select(below, turned, e.either(bits, top))
        found = e.select(e.equal(x, e.number(0, x.dtype)), top, found)
        last = e.number((1 << (8 * dtype.itemsize)) - 1, dtype)
        found = e.select(e.isnan(x), last, found)
    elif x.dtype.kind == "i":
        found = e.exclusive(Val(x.text, dtype), e.number(1 << (8 * dtype.itemsize - 1), dtype))
    else:
        found = e.convert(x, dtype)
    if descends:
        found = e.exclusive(found, e.number((1 << (8 * dtype.itemsize)) - 1, dtype))
    return found


def argsort(k: KernelCode) -> None:
    _sorted(k, gives_places=True)


def sort(k: KernelCode) -> None:
    _sorted(k, gives_places=False)


def _sorted(k: KernelCode, gives_places: bool) -> None:
    (x,), (result,), axis = k.inputs, k.outputs, k.node.attrs["axis"]
    length, descends = x.shape[axis], k.node.attrs["descending"]
    dtype = _key_dtype(x.dtype)
    number = np.dtype(np.uint32 if length < 1 << 31 else np.uint64)
    keys, places = (
        [k.in_scratch(one, (length,)) for _ in range(1 if length <= SHORT else 2)]
        for one in (dtype, number)
    )
    counts = k.in_scratch(I64, (dtype.itemsize, _DIGITS)) if length > SHORT else None

    def line(lanes: Lanes) -> None:
        source, target = (
            array._replace(shape=(length,), strides=(like.strides[axis],))
            for array, like in zip(lanes.places, (x, result), strict=True)
        )
        k.mapped((length,), [source], keys[0], lambda e, one: _key(e, one, descends))
        if counts is None:
            _inserted(k, keys[0], places[0])
            order = places[0]
        else:
            order = _counted(k, keys, places, counts)
        _written(k, source, order, target, gives_places)

    if length:
        k.over(x.without([axis]).shape, [x.without([axis]), result.without([axis])], line, most=1)


def _written(k: KernelCode, source: Array, order: Array, target: Array, gives_places: bool) -> None:
    if gives_places:
        k.mapped(target.shape, [order], target)
        return
    source, target = source.raw(), target.raw()
    with k._counted(target.shape[0]) as counter:
        place = k.place(k.load(k.along(order, 0, counter)))
        k.store(k.along(target, 0, counter), k.load(k.along(source, 0, place)))


def _inserted(k: KernelCode, keys: Array, places: Array) -> None:
    """Each in turn moved to where it belongs among those before it."""
    kind = f"i{8 * keys.dtype.itemsize}"
    with k.carrying([], keys.shape[0]) as outer:
        now = k.load(k.along(keys, 0, outer.counter))
        with k.repeating([("i64", outer.counter)]) as loop:
            (free,) = loop.held
            number = loop.counter
            before = k.integer("sub", free, 1)
            some, looks = k.test("sgt", free, 0), f"looks{number}"
            k._line(f"br i1 {some}, label %{looks}, label %done{number}")
            k._label(looks)
            earlier = k.load(k.along(keys, 0, before))
            k.go_on(loop, k._new(f"icmp ugt {kind} {earlier.text}, {now.text}"))
            k.store(k.along(keys, 0, free), earlier)
            k.store(k.along(places, 0, free), k.load(k.along(places, 0, before)))
            loop.next = [before]
        k.store(k.along(keys, 0, loop.held[0]), now)
        k.store(k.along(places, 0, loop.held[0]), Val(outer.counter, I64))


def _counted(k: KernelCode, keys: Sequence[Array], places: Sequence[Array], counts: Array) -> Array:
    """The order, digit by digit; digits that all elements share are passed over."""
    length, size = keys[0].shape[0], keys[0].dtype.itemsize
    k.filled(counts, 0)
    with k._counted(length) as counter:
        key = k.load(k.along(keys[0], 0, counter))
        for digit in range(size):
            spot = k.along(k.along(counts, 0, str(digit)), 1, _digit(k, key, digit))
            k.store(spot, Val(k.integer("add", k.load(spot).text, 1), I64))
        k.store(k.along(places[0], 0, counter), Val(counter, I64))
    here, there = (keys[0], places[0]), (keys[1], places[1])
    for digit in range(size):
        here, there = _passed(k, here, there, k.along(counts, 0, str(digit)).without([0]), digit)
    return here[1]


Pair = tuple[Array, Array]  # keys and their places


def _passed(k: KernelCode, here: Pair, there: Pair, counts: Array, digit: int) -> tuple[Pair, Pair]:
    """One digit: where the elements lie after it, and where there is room."""
    length = here[0].shape[0]

    def spot(counter: str) -> tuple[Val, Array]:
        key = k.load(k.along(here[0], 0, counter))
        return key, k.along(counts, 0, _digit(k, key, digit))

    differs = k.test("ne", k.load(spot("0")[1]).text, length)
    with k.when(differs):
        with k.carrying([("i64", "0")], _DIGITS) as loop:  # where each digit's elements begin
            one = k.along(counts, 0, loop.counter)
            found = k.load(one).text
            k.store(one, Val(loop.held[0], I64))
            loop.next = [k.integer("add", loop.held[0], found)]
        with k._counted(length) as counter:
            key, one = spot(counter)
            to = k.load(one).text
            k.store(one, Val(k.integer("add", to, 1), I64))
            k.store(k.along(there[0], 0, to), key)
            k.store(k.along(there[1], 0, to), k.load(k.along(here[1], 0, counter)))

    def either(x: Array, y: Array) -> Array:
        return x._replace(base=k._new(f"select i1 {differs}, ptr {x.base}, ptr {y.base}"))

    (a, b), (c, d) = here, there
    return (either(c, a), either(d, b)), (either(a, c), either(b, d))


def _digit(k: KernelCode, key: Val, digit: int) -> str:
    kind = f"i{8 * key.dtype.itemsize}"
    moved = k._new(f"lshr {kind} {key.text}, {8 * digit}")
    low = k._new(f"and {kind} {moved}, 255")
    return low if kind == "i64" else k._new(f"zext {kind} {low} to i64")


def search(k: KernelCode) -> None:
    """By halving; with NaN behind everything, as sorting has it."""
    (a, v), (result,), side = k.inputs, k.outputs, k.node.attrs["side"]
    length = a.shape[0]
    wide, _ = promote([(one.dtype, one.weak) for one in (edge.aval for edge in k.node.inputs)])

    def less(e: Mathematics, x: Val, y: Val) -> Val:
        found = e.less(x, y)
        if is_floating(wide):
            found = e.either(found, e.both(e.isnan(y), e.equal(x, x)))
        return found

    def body(lanes: Lanes) -> None:
        with k.scalar() as e:
            wanted = e.convert(lanes.load(0)._replace(weak=False), wide)
            e.lines[:0] = lanes.e.lines
            lanes.e.lines.clear()
        with k.repeating([("i64", "0"), ("i64", str(length))]) as loop:
            low, high = loop.held
            k.go_on(loop, k.test("slt", low, high))
            middle = k.integer("lshr", k.integer("add", low, high), 1)
            here = k.load(k.along(a, 0, middle))
            with k.scalar() as e:
                here = e.convert(here, wide)
                goes_on = less(e, here, wanted)
                if side == "right":
                    goes_on = e.unless(less(e, wanted, here))
            behind = k.integer("add", middle, 1)
            loop.next = [k.chosen(goes_on.text, behind, low), k.chosen(goes_on.text, high, middle)]
        lanes.store(1, Val(loop.held[0], I64))

    k.over(result.shape, [v, result], body, most=1, splits=True)
