"""Random bits: the published vectors of threefry, and one stream however it is computed."""

import warnings

import numpy as np
import pytest

import anabranch as ab
from anabranch.ops import random as bits_of

KEY = np.array([0x13198A2E, 0x03707344], np.uint32)
WORD = 0xFFFFFFFF


# From Random123, file tests/kat_vectors: counter, key and block of threefry2x32 with 20 rounds.
VECTORS = """
00000000 00000000  00000000 00000000  6b200159 99ba4efe
ffffffff ffffffff  ffffffff ffffffff  1cb996fc bb002be7
243f6a88 85a308d3  13198a2e 03707344  c4923a9c 483df7a0
"""


@pytest.mark.parametrize("line", VECTORS.strip().splitlines())
def test_the_published_vectors(line):
    low, high, k0, k1, *block = (np.uint32(int(word, 16)) for word in line.split())
    found = ab.random.threefry2x32(np.array([k0, k1]), np.array([low, high]))
    assert found.tolist() == block


def plainly(key, counter):
    """The hash written out with Python's integers, a round a line."""
    k0, k1 = (int(word) for word in key)
    words = (k0, k1, k0 ^ k1 ^ 0x1BD11BDA)
    x, y = ((int(c) + w) & WORD for c, w in zip(counter, words, strict=False))
    for step in range(20):
        turn = (13, 15, 26, 6, 17, 29, 16, 24)[step % 8]
        x = (x + y) & WORD
        y = ((y << turn | y >> (32 - turn)) & WORD) ^ x
        if step % 4 == 3:
            group = step // 4 + 1
            x = (x + words[group % 3]) & WORD
            y = (y + words[(group + 1) % 3] + group) & WORD
    return [x, y]


def test_the_hash_is_that_of_its_definition():
    rng = np.random.default_rng(0)
    keys, counters = rng.integers(0, 1 << 32, (2, 50, 2), dtype=np.uint32)
    found = ab.random.threefry2x32(keys, counters)
    assert found.tolist() == [plainly(k, c) for k, c in zip(keys, counters, strict=True)]
    crossed = ab.random.threefry2x32(keys[:3, None], counters[:4])
    assert crossed.shape == (3, 4, 2)
    assert crossed[2, 1].tolist() == plainly(keys[2], counters[1])


def stream(blocks):
    """The first words of KEY's stream, by the definition."""
    return [word for block in range(blocks) for word in plainly(KEY, (block, 0))]


def test_bits_are_the_stream_of_the_key():
    words = stream(6)
    assert ab.random.bits(KEY, (12,)).tolist() == words
    assert ab.random.bits(KEY, (5,)).tolist() == words[:5]
    assert ab.random.bits(KEY, (2, 3)).tolist() == [words[:3], words[3:6]]
    wide = [low | high << 32 for low, high in zip(words[::2], words[1::2], strict=True)]
    assert ab.random.bits(KEY, (6,), np.uint64).tolist() == wide
    assert ab.random.bits(KEY, (4,), np.uint8).tolist() == [word >> 24 for word in words[:4]]
    assert ab.random.bits(KEY, (4,), np.uint16).tolist() == [word >> 16 for word in words[:4]]
    assert int(ab.random.bits(KEY)) == words[0]


def test_a_counter_goes_on_into_its_second_word():
    key = KEY[None]
    for number in (0, WORD, WORD + 1, 5 << 32 | 7):
        counter = ab.random.words(np.array([number]))
        assert counter.tolist() == [[number & WORD, number >> 32]]
        assert ab.random.threefry2x32(key, counter).tolist() == [plainly(KEY, counter[0])]


@pytest.mark.parametrize("chunk", [1, 3, 4, 1 << 20])
def test_how_the_work_is_split_changes_no_bit(monkeypatch, chunk):
    wanted = [ab.random.bits(KEY, (101,), kind) for kind in (np.uint32, np.uint64, np.uint8)]
    monkeypatch.setattr(bits_of, "_CHUNK", chunk)
    for value in wanted:
        assert ab.random.bits(KEY, (101,), value.dtype).tobytes() == value.tobytes()


def test_a_longer_draw_begins_with_a_shorter_one():
    for kind in (np.uint32, np.uint64):
        longest = ab.random.bits(KEY, (40,), kind)
        for length in range(40):
            assert (ab.random.bits(KEY, (length,), kind) == longest[:length]).all()


def test_words_of_integers():
    assert ab.random.words(np.array([-1, -2])).tolist() == [[WORD, WORD], [WORD - 1, WORD]]
    assert ab.random.words(np.uint64((1 << 64) - 2)).tolist() == [WORD - 1, WORD]
    assert ab.random.words(np.int8(-1)).tolist() == [WORD, WORD]
    with pytest.raises(ab.DTypeError, match="index-dtype"):
        ab.random.words(np.ones(2))


def test_nothing_warns_where_words_wrap_around():
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        full = np.array([WORD, WORD], np.uint32)
        ab.random.threefry2x32(full, full)
        ab.random.bits(full)
        ab.random.randint(full, -(1 << 63), 1 << 62)


# Integers


def test_integers_are_the_wide_elements_modulo_the_span():
    wide = [int(one) for one in ab.random.bits(KEY, (50,), np.uint64)]
    assert ab.random.randint(KEY, 7, shape=(50,)).tolist() == [one % 7 for one in wide]
    found = ab.random.randint(KEY, -5, 1000, (50,), np.int16)
    assert found.dtype == np.int16
    assert found.tolist() == [one % 1005 - 5 for one in wide]


def test_integers_reach_the_ends_of_their_dtype():
    for kind in (np.int8, np.uint8, np.int32, np.int64):
        limits = np.iinfo(kind)
        found = ab.random.randint(KEY, limits.min, int(limits.max) + 1, (2000,), kind)
        assert found.dtype == kind
        span = int(limits.max) - int(limits.min)
        reached = (int(found.max()) - int(found.min())) / span
        assert reached > 0.99
    assert ab.random.randint(KEY, limits.max - 1, limits.max, (3,)).tolist() == [limits.max - 1] * 3


def test_bounds_broadcast():
    low, high = np.array([0, 10]), np.array([[5], [20]])
    with pytest.raises(ab.DomainError, match="low < high"):
        ab.random.randint(KEY, low, high)
    found = ab.random.randint(KEY, low, low + high)
    assert found.shape == (2, 2)
    assert ((found >= low) & (found < low + high)).all()
    assert ab.random.randint(KEY, low, 100, (500, 2)).min(axis=0).tolist() == [0, 10]


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda r: r.randint(KEY, 0), "bad-range"),
        (lambda r: r.randint(KEY, 3, 3), "bad-range"),
        (lambda r: r.randint(KEY, 0, 300, dtype=np.uint8), "bad-range"),
        (lambda r: r.randint(KEY, -1, 3, dtype=np.uint8), "bad-range"),
        (lambda r: r.randint(KEY, 0.5), "index-dtype"),
        (lambda r: r.randint(KEY, 3, dtype=float), "random-dtype"),
        (lambda r: r.randint(KEY, np.arange(1, 4), shape=(2,)), "shape-mismatch"),
        (lambda r: r.bits(KEY, (2,), np.int32), "random-dtype"),
        (lambda r: r.bits(np.zeros(2), (2,)), "bad-key"),
        (lambda r: r.bits(np.zeros(3, np.uint32), (2,)), "bad-key"),
        (lambda r: r.bits(np.zeros((4, 2), np.uint32)), "many-keys"),
        (lambda r: r.bits(0), "bad-key"),
        (lambda r: r.bits(KEY, -1), "bad-shape"),
        (lambda r: r.threefry2x32(KEY, np.zeros(2, np.int64)), "bad-key"),
    ],
)
def test_what_cannot_be_is_refused(call, code):
    with pytest.raises(ab.AnabranchError) as caught:
        call(ab.random)
    assert caught.value.code == code
    with pytest.raises(ab.AnabranchError) as caught:
        ab.compile(lambda: call(ab.random))()
    assert caught.value.code == code


def test_bits_have_no_derivative():
    def f(x, key):
        return ab.sum(x * ab.random.randint(key, 5, shape=(3,)))

    found = ab.grad(f)(np.ones(3), KEY)
    assert found.tolist() == ab.random.randint(KEY, 5, shape=(3,)).tolist()
    with pytest.raises(ab.DTypeError, match="integer-gradient"):
        ab.grad(f, "key")(np.ones(3), KEY)
