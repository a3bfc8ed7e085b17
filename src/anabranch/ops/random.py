"""Random bits as functions of a key: threefry-2x32 with 20 rounds, and what is counted from it.

A key is two 32-bit words. Hashing it with the counters 0, 1, 2, ... gives its stream of words, of
which every element of a result reads a place of its own: nothing is carried from one element to
the next, so how the work is split changes no bit. Words, counters and keys stand low word first.

The hash is that of J. K. Salmon, M. A. Moraes, R. O. Dror and D. E. Shaw, "Parallel random
numbers: as easy as 1, 2, 3", SC 2011. Distributions stand in `composed/random.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.core.aval import Aval, Shape, aval, aval_of
from anabranch.core.bind import bind
from anabranch.core.op import Kernel, NoGradient, Op, broadcast_shapes
from anabranch.core.sample import integers, sample
from anabranch.core.values import as_dtype, as_shape, settled
from anabranch.errors import DomainError, DTypeError, ShapeError
from anabranch.ops.elementwise import astype
from anabranch.ops.rules import require_integers

Array = np.ndarray[Any, Any]
UINT32, UINT64 = np.dtype(np.uint32), np.dtype(np.uint64)
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)
_CHUNK = 1 << 15  # blocks that are hashed at once, few enough to stay in a cache
_DISCRETE = NoGradient("random bits and integers have no tangents")
_ZERO_KEY = np.zeros(2, np.uint32)


def _hashed(key: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """The words of the blocks at these counters, by a key or by one key for each."""
    words = (key[..., 0], key[..., 1], key[..., 0] ^ key[..., 1] ^ _PARITY)
    x, y = np.add(low, words[0]), np.add(high, words[1])
    for group in range(5):
        for distance in _ROTATIONS[group % 2]:
            np.add(x, y, out=x)
            y = np.bitwise_or(np.left_shift(y, distance), np.right_shift(y, 32 - distance))
            np.bitwise_xor(y, x, out=y)
        np.add(x, words[(group + 1) % 3], out=x)
        np.add(y, np.add(words[(group + 2) % 3], np.uint32(group + 1)), out=y)
    return x, y


def _require_words(what: str, x: Aval) -> None:
    if x.dtype != UINT32 or x.shape[-1:] != (2,):
        raise DTypeError("bad-key", f"{what} is u32[2], not {x}", hint="ab.random.key(0)")


def _require_key(key: Aval) -> None:
    _require_words("a key", key)
    if key.ndim > 1:
        raise ShapeError(
            "many-keys", f"one key is needed, got {key.shape[:-1]} of them", hint="keys[0]"
        )


def _threefry_aval(key: Aval, counter: Aval) -> Aval:
    _require_words("a key", key)
    _require_words("a counter", counter)
    shapes = (one.with_shape(one.shape[:-1]) for one in (key, counter))
    return aval((*broadcast_shapes(*shapes), 2), UINT32)


def _threefry(key: Array, counter: Array) -> Array:
    _threefry_aval(aval_of(key), aval_of(counter))
    shape = np.broadcast_shapes(key.shape, counter.shape)
    # With axes of its own no word is a NumPy scalar, which would warn where it wraps around.
    key, counter = (np.broadcast_to(x, shape).reshape(-1, 2) for x in (key, counter))
    return np.stack(_hashed(key, counter[:, 0], counter[:, 1]), axis=-1).reshape(shape)


def _known(*answers: tuple[list[int], list[int], list[int]]) -> tuple[Array, ...]:
    return tuple(np.array(column, UINT32) for column in zip(*answers, strict=True))


_ONES = [0xFFFFFFFF, 0xFFFFFFFF]
# The vectors that the authors publish with Random123: key, counter, block.
_KEYS, _COUNTERS, _BLOCKS = _known(
    ([0, 0], [0, 0], [0x6B200159, 0x99BA4EFE]),
    (_ONES, _ONES, [0x1CB996FC, 0xBB002BE7]),
    ([0x13198A2E, 0x03707344], [0x243F6A88, 0x85A308D3], [0xC4923A9C, 0x483DF7A0]),
)

threefry2x32: Op = Op(
    "random.threefry2x32",
    aval=_threefry_aval,
    ref=_threefry,
    vjp=_DISCRETE,
    arity=2,
    samples=(
        sample(_KEYS, _COUNTERS, value=_BLOCKS),
        sample(_KEYS[2], _COUNTERS[2], value=_BLOCKS[2]),
        sample(_KEYS[:1], _COUNTERS[:0]),
        sample(_KEYS[:, None], _COUNTERS[:1]),
    ),
    lower=Kernel("threefry"),
    doc="The block of two words that threefry-2x32-20 makes of a key and a counter, both `u32[2]`;"
    " leading axes broadcast.",
)


def _words(x: Any) -> Array:
    require_integers("what becomes words", np.asarray(x).dtype)
    wide = np.asarray(x).astype(UINT64)
    low, high = wide & UINT64.type(0xFFFFFFFF), wide >> UINT64.type(32)
    return np.stack((low, high), axis=-1).astype(UINT32)


def _words_aval(x: Aval) -> Aval:
    require_integers("what becomes words", x.dtype)
    return aval((*x.shape, 2), UINT32)


words: Op = Op(
    "random.words",
    aval=_words_aval,
    ref=_words,
    vjp=_DISCRETE,
    arity=1,
    samples=(
        sample(np.int64(5), value=[5, 0]),
        sample([(1 << 32) + 7, -1], value=[[7, 1], _ONES]),
        sample(integers(2, 3, below=9)),
        sample(integers(0, below=9)),
    ),
    lower=Kernel("words"),
    doc="The two 32-bit words of each integer, low word first, along a new last axis; negative"
    " integers as two's complement of 64 bits.",
)


def _bits_aval(key: Aval, *, shape: Shape, width: int) -> Aval:
    _require_key(key)
    return aval(shape, UINT32 if width <= 32 else UINT64)


def _bits_ref(key: Array, *, shape: Shape, width: int) -> Any:
    _require_key(aval_of(key))
    count = math.prod(shape)
    if width > 32:
        stream = _stream(key, count).astype(UINT64)
        return settled(_joined(stream[:, 0], stream[:, 1], 64 - width).reshape(shape))
    stream = _stream(key, (count + 1) // 2).reshape(-1)[:count]
    return settled((stream >> UINT32.type(32 - width)).reshape(shape))


def _joined(low: Array, high: Array, dropped: int) -> Any:
    return np.right_shift(low | high << UINT64.type(32), UINT64.type(dropped))


def _stream(key: Array, blocks: int) -> Array:
    """The first blocks of a key's stream, one a row."""
    result = np.empty((blocks, 2), UINT32)
    for start in range(0, blocks, _CHUNK):
        rows = result[start : start + _CHUNK]
        counter = _words(np.arange(start, start + len(rows)))
        rows[:, 0], rows[:, 1] = _hashed(key[None], counter[:, 0], counter[:, 1])
    return result


def _bits(key: Any, shape: Any = (), dtype: Any = np.uint32) -> Any:
    kind = as_dtype(dtype)
    if kind.kind != "u":
        raise DTypeError("random-dtype", f"bits are unsigned integers, not {kind.name}")
    made = bind(bits, key, shape=as_shape(shape), width=8 * kind.itemsize)
    return made if kind.itemsize >= 4 else astype(made, kind)


bits: Op = Op(
    "random.bits",
    aval=_bits_aval,
    ref=_bits_ref,
    vjp=_DISCRETE,
    arity=1,
    call=_bits,
    samples=(
        sample(_ZERO_KEY, value=_BLOCKS[0], shape=(2,), width=32),
        sample(_ZERO_KEY, value=[0x99BA4EFE6B200159 >> 11], shape=(1,), width=53),
        sample(_KEYS[2], shape=(3, 1), width=8),
        sample(_KEYS[2], shape=(), width=64),
        sample(_KEYS[2], shape=(0, 3), width=24),
    ),
    lower=Kernel("bits"),
    doc="Uniform random bits. 32-bit elements are the words of the key's stream, 64-bit elements"
    " its blocks, low word first; narrower elements are the top bits of a word.",
)


def _randint_aval(key: Aval, low: Aval, high: Aval, *, shape: Shape, dtype: Any) -> Aval:
    _require_key(key)
    for name, bound in (("low", low), ("high", high)):
        require_integers(name, bound.dtype)
        if broadcast_shapes(bound, aval(shape, UINT64)) != shape:
            raise ShapeError("shape-mismatch", f"{name}, {bound}, does not broadcast to {shape}")
    return aval(shape, dtype)


def _require_range(low: Array, high: Array, dtype: Any) -> None:
    limits = np.iinfo(dtype)
    if np.any(np.less(low, limits.min)) or np.any(np.greater(high, int(limits.max) + 1)):
        raise DomainError("bad-range", f"low and high are out of bounds for {dtype.name}")
    if not np.all(np.less(low, high)):
        raise DomainError("bad-range", "randint needs low < high, for high itself is not drawn")


def _randint_ref(key: Array, low: Any, high: Any, *, shape: Shape, dtype: Any) -> Any:
    low, high = np.asarray(low), np.asarray(high)
    _randint_aval(aval_of(key), aval_of(low), aval_of(high), shape=shape, dtype=dtype)
    _require_range(low, high, dtype)
    start = low.astype(UINT64)
    span = np.subtract(high.astype(UINT64), start)  # wraps around, as does the sum below
    drawn = _bits_ref(key, shape=shape, width=64)
    # A span of 0 is the whole of 64 bits.
    drawn = np.where(span == 0, drawn, np.remainder(drawn, np.maximum(span, 1)))
    return settled(np.asarray(np.add(drawn, start)).astype(dtype))


def _randint(key: Any, low: Any, high: Any = None, shape: Any = None, dtype: Any = np.int64) -> Any:
    kind = as_dtype(dtype)
    if kind.kind not in "iu":
        raise DTypeError("random-dtype", f"randint draws integers, not {kind.name}")
    low, high = (0, low) if high is None else (low, high)
    size = broadcast_shapes(aval_of(low), aval_of(high)) if shape is None else as_shape(shape)
    return bind(randint, key, low, high, shape=size, dtype=kind)


randint: Op = Op(
    "random.randint",
    aval=_randint_aval,
    ref=_randint_ref,
    vjp=_DISCRETE,
    arity=3,
    call=_randint,
    samples=(
        # the first block of the key 0 is 11,077,253,088,097,075,545
        sample(_ZERO_KEY, np.int64(-5), np.int64(5), value=0, shape=(), dtype=np.dtype(np.int64)),
        sample(_KEYS[2], np.int64(0), np.int64(7), shape=(2, 3), dtype=np.dtype(np.int32)),
        sample(_KEYS[2], [0, 3], [[5], [20]], shape=(2, 2), dtype=np.dtype(np.uint8)),
        sample(_KEYS[2], np.int64(3), np.int64(4), shape=(1,), dtype=np.dtype(np.int64)),
        sample(_KEYS[2], np.int64(0), np.int64(2), shape=(0,), dtype=np.dtype(np.int64)),
    ),
    lower=Kernel("randint"),
    doc="Integers in [low, high), or [0, low) without `high`: each is the 64-bit element of the"
    " key's stream modulo high - low, so no probability is off by 2**-64 or more. `shape` is by"
    " default what low and high broadcast to.",
)
