"""Random bits: threefry-2x32 on as many counters at once as fit into a register."""

from __future__ import annotations

import math

import numpy as np

from anabranch.backends.native.emit import NotNativeError, Val
from anabranch.backends.native.kernels.code import Array, KernelCode, Lanes
from anabranch.backends.native.mathematics import Mathematics
from anabranch.core.op import broadcast_shapes

U32, U64 = np.dtype(np.uint32), np.dtype(np.uint64)
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def _rotated(e: Mathematics, x: Val, distance: int) -> Val:
    kind, function = e.type("i32"), f"@llvm.fshl.{e.suffix('i32')}"
    e.declared.add(f"declare {kind} {function}({kind}, {kind}, {kind})")
    by = e.splat("i32", str(distance))
    given = f"{kind} {x.text}, {kind} {x.text}, {kind} {by}"
    return Val(e.new(f"call {kind} {function}({given})"), U32)


def _hashed(e: Mathematics, key: tuple[Val, Val], low: Val, high: Val) -> tuple[Val, Val]:
    """The words of the blocks at these counters."""
    both = e.exclusive(*key)
    words = (*key, e.exclusive(both, e.number(_PARITY, U32)))
    x, y = e.add(low, words[0]), e.add(high, words[1])
    for group in range(5):
        for distance in _ROTATIONS[group % 2]:
            x = e.add(x, y)
            y = e.exclusive(_rotated(e, y, distance), x)
        x = e.add(x, words[(group + 1) % 3])
        y = e.add(y, e.add(words[(group + 2) % 3], e.number(group + 1, U32)))
    return x, y


def threefry(k: KernelCode) -> None:
    (result,) = k.outputs
    space = result.shape[:-1]
    key, counter = (x.broadcast_to((*space, 2)) for x in k.inputs)
    axis = len(space)
    arrays = [
        k.along(one, axis, str(word)).without([axis])
        for one in (key, counter, result)
        for word in (0, 1)
    ]

    def body(lanes: Lanes) -> None:
        a, b, low, high = (lanes.load(i) for i in range(4))
        for i, word in enumerate(_hashed(lanes.e, (a, b), low, high), 4):
            lanes.store(i, word)

    k.over(space, arrays, body, splits=True)


def words(k: KernelCode) -> None:
    (x,), (result,) = k.inputs, k.outputs
    axis = len(x.shape)
    halves = [k.along(result, axis, str(word)).without([axis]) for word in (0, 1)]

    def body(lanes: Lanes) -> None:
        e = lanes.e
        wide = e.convert(lanes.load(0), U64)
        lanes.store(1, wide)
        lanes.store(2, _shifted(e, wide, "lshr", 32))

    k.over(x.shape, [x, *halves], body, widest=8)


def bits(k: KernelCode) -> None:
    (key,), (result,) = k.inputs, k.outputs
    _drawn(k, key, result, k.node.attrs["width"])


def _drawn(k: KernelCode, key: Array, result: Array, width: int) -> None:
    """The stream of a key in a result: its blocks in order, or their words."""
    count = math.prod(result.shape)
    with k.scalar() as e:
        halves = [Lanes(e, [k.along(key, 0, str(word))], [1], 1).load(0) for word in (0, 1)]
    per_block = 2 if width <= 32 else 1
    lanes = k.vector_bytes // 4
    blocks = -(-count // per_block)
    while lanes >= 2 * blocks and lanes > 1:
        lanes //= 2
    whole, rest = divmod(count, lanes * per_block)
    if whole:
        with k.rows_of(whole) as row:
            _vector(k, halves, result, width, k.integer("mul", row, lanes), lanes, None)
    if rest:
        with k.when(k.test("eq", "%first", 0)):
            _vector(k, halves, result, width, str(whole * lanes), lanes, rest)


def _vector(
    k: KernelCode,
    key: list[Val],
    result: Array,
    width: int,
    block: str,
    lanes: int,
    rest: int | None,
) -> None:
    """Neighbouring blocks, of whose elements the first `rest` are wanted, by default all."""
    e = k._emitter(lanes)
    kind = e.type("i64")
    first = e.in_every_lane("i64", block)
    order = "0" if lanes == 1 else f"<{', '.join(f'i64 {lane}' for lane in range(lanes))}>"
    counter = Val(e.new(f"add {kind} {first}, {order}"), U64)
    low, high = e.convert(counter, U32), e.convert(_shifted(e, counter, "lshr", 32), U32)
    pair = [Val(e.in_every_lane("i32", one.text), U32) for one in key]
    x, y = _hashed(e, (pair[0], pair[1]), low, high)
    if width > 32:
        joined = e.either(e.convert(x, U64), _shifted(e, e.convert(y, U64), "shl", 32))
        found, element = _shifted(e, joined, "lshr", 64 - width), 8
        wide = e
        text = found.text
    else:
        wide, element = k._emitter(2 * lanes), 4
        text = _interleaved(e, x, y)
    k._take(e)
    if width < 32:
        text = _shifted(wide, Val(text, U32), "lshr", 32 - width).text
    per_block = 2 if width <= 32 else 1
    place = k.at(result, k._times(block, per_block))
    count = wide.lanes if rest is None else rest
    wide.store(text, f"i{8 * element}", element, place.base, count)
    k._take(wide)


def _interleaved(e: Mathematics, x: Val, y: Val) -> str:
    """The first of one, the first of the other, and so on."""
    if e.lanes == 1:
        first = e.new(f"insertelement <2 x i32> poison, i32 {x.text}, i32 0")
        return e.new(f"insertelement <2 x i32> {first}, i32 {y.text}, i32 1")
    order = ", ".join(f"i32 {n}" for i in range(e.lanes) for n in (i, i + e.lanes))
    kind = e.type("i32")
    return e.new(f"shufflevector {kind} {x.text}, {kind} {y.text}, <{2 * e.lanes} x i32> <{order}>")


def _shifted(e: Mathematics, x: Val, word: str, by: int) -> Val:
    element = f"i{8 * x.dtype.itemsize}"
    if by == 0:
        return x
    return Val(e.new(f"{word} {e.type(element)} {x.text}, {e.splat(element, str(by))}"), x.dtype)


def randint(k: KernelCode) -> None:
    """The bounds are looked at first; what they may not be is said by the reference."""
    (key, low, high), (result,) = k.inputs, k.outputs
    limits = np.iinfo(result.dtype)
    if U64 in (low.dtype, high.dtype, result.dtype):
        raise NotNativeError("bounds of 64 bits without a sign are looked at by NumPy")
    i64 = np.dtype(np.int64)
    common = broadcast_shapes(*(edge.aval for edge in k.node.inputs[1:]))
    bounds = [one.broadcast_to(common) for one in (low, high)]

    def look(lanes: Lanes) -> None:
        e = lanes.e
        a, b = (e.convert(lanes.load(i), i64) for i in (0, 1))
        fits = e.both(e.less(a, b), e.greater_equal(a, e.number(limits.min, i64)))
        top = e.number(min(int(limits.max) + 1, int(np.iinfo(i64).max)), i64)
        fits = e.both(fits, e.less_equal(b, top))
        k._take(e)
        k.require(fits.text)

    k.over(common, bounds, look, most=1)
    drawn = k.in_scratch(U64, result.shape)
    _drawn(k, key, drawn, 64)

    def rule(e: Mathematics, a: Val, b: Val, one: Val) -> Val:
        start = e.convert(e.convert(a, i64), U64)
        span = e.subtract(e.convert(e.convert(b, i64), U64), start)
        some = e.maximum(span, e.number(1, U64))  # lanes behind the end hold zeros
        rest = Val(e.new(f"urem {e.type('i64')} {one.text}, {some.text}"), U64)
        return e.convert(e.add(rest, start), result.dtype)

    reads = [*(one.broadcast_to(result.shape) for one in (low, high)), drawn]
    k.mapped(result.shape, reads, result, rule, widest=8)
