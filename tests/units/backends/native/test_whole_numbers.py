"""Integers in machine code: products that wrap, and indices without a sign."""

from typing import Any

import numpy as np
import pytest

import anabranch as ab

INTEGERS = [np.dtype(f"{sign}int{bits}") for bits in (8, 16, 32, 64) for sign in ("", "u")]
SHAPES = [
    ((4, 5), (5, 3)), ((5,), (5,)), ((5,), (5, 3)), ((4, 5), (5,)), ((2, 1, 4, 5), (3, 5, 2)),
    ((4, 0), (0, 3)), ((0, 5), (5, 3)), ((33, 70), (70, 65)), ((3, 2, 5), (5,)),
]  # fmt: skip


def agree(f: Any, *args: Any) -> Any:
    compiled = ab.compile(f, backend="native")
    found, wanted = compiled(*args), ab.compile(f, backend="reference")(*args)
    assert not compiled.program(*args).executable.program.islands
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)
    return found


def whole(rng: Any, shape: Any, dtype: np.dtype) -> Any:
    if dtype.kind == "b":
        return rng.random(shape) < 0.2
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


@pytest.mark.parametrize("dtype", [*INTEGERS, np.dtype(bool)], ids=str)
def test_products_of_integers_wrap_as_in_numpy(dtype: np.dtype) -> None:
    rng = np.random.default_rng(0)
    for left, right in SHAPES:
        a, b = whole(rng, left, dtype), whole(rng, right, dtype)
        np.testing.assert_array_equal(agree(lambda a, b: a @ b, a, b), a @ b)


def test_products_of_integers_of_two_dtypes() -> None:
    rng = np.random.default_rng(1)
    for one, other in (("int8", "uint8"), ("uint32", "int64"), ("bool", "int16")):
        a, b = whole(rng, (4, 6), np.dtype(one)), whole(rng, (6, 3), np.dtype(other))
        agree(lambda a, b: a @ b, a, b)


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint16"])
def test_convolutions_of_integers_wrap_as_in_numpy(dtype: str) -> None:
    rng = np.random.default_rng(2)
    x, w = (whole(rng, shape, np.dtype(dtype)) for shape in ((2, 4, 9, 8), (6, 2, 3, 2)))
    agree(lambda x, w: ab.conv(x, w, stride=(2, 1), padding=1, groups=2), x, w)
    agree(lambda x, w: ab.conv_transpose(x, w, groups=2), whole(rng, (2, 6, 4, 4), x.dtype), w)


HUGE = [2**63, 2**64 - 1, 2**64 - 3]


@pytest.mark.parametrize("mode", ["clip", "wrap"])
def test_indices_without_a_sign_may_be_huge_where_all_are_taken_in(mode: str) -> None:
    x, i = np.arange(7.0), np.array([0, 6, 7, 13, *HUGE], np.uint64)
    agree(lambda x, i: ab.gather(x, i, mode=mode), x, i)
    agree(lambda x, i: ab.scatter_add(x, i, np.arange(7.0), mode=mode), x, i)


def test_indices_without_a_sign_that_are_outside() -> None:
    x, i = np.arange(7.0), np.array([0, 6, 7, *HUGE], np.uint64)
    agree(lambda x, i: ab.gather(x, i, mode="fill", fill_value=-1.0), x, i)
    agree(lambda x, i: ab.scatter_add(x, i, np.ones(6), mode="drop"), x, i)
    for outside in (7, *HUGE):
        texts = []
        for backend in ("native", "reference"):
            take = ab.compile(lambda x, i: ab.take(x, i) * 1.0, backend=backend)
            assert take(x, i[:2]).tolist() == [0.0, 6.0]
            with pytest.raises(ab.AnabranchError) as caught:
                take(x, np.array([0, outside], np.uint64))
            texts.append(str(caught.value))
        assert texts[0] == texts[1]


def test_blocks_and_labels_without_a_sign() -> None:
    x, s = np.arange(12.0), np.uint64(5)
    agree(lambda x, s: ab.dynamic_slice(x, s, 3), x, s)
    agree(lambda x, s: ab.dynamic_update_slice(x, np.ones(3), s), x, s)
    agree(lambda i: ab.one_hot(i, 4), np.array([3, 0, 2], np.uint64))
    for f, value in (
        (lambda s: ab.dynamic_slice(x, s, 3), 2**64 - 4),
        (lambda s: ab.one_hot(s, 4), 2**64 - 4),
    ):
        with pytest.raises(ab.AnabranchError):
            ab.compile(lambda s, f=f: f(s) * 1.0, backend="native")(np.uint64(value))


def test_the_gradient_of_a_scatter_that_drops() -> None:
    x, i, u = np.zeros(4), np.array([0, 9, 3]), np.array([1.0, 2.0, 3.0])

    def slope(x: Any, u: Any) -> Any:
        return ab.grad(lambda u: ab.sum(ab.scatter_add(x, i, u, mode="drop") ** 2.0))(u)

    np.testing.assert_array_equal(agree(slope, x, u), [2.0, 0.0, 6.0])
