"""Places of extrema: the first of equal ones and of NaNs, whatever the length and the dtype."""

import ml_dtypes
import numpy as np
import pytest

import anabranch as ab
from anabranch.backends.native.kernels import extrema

DTYPES = [
    *(np.dtype(f"{sign}int{bits}") for bits in (8, 16, 32, 64) for sign in ("", "u")),
    *map(np.dtype, (np.float64, np.float32, np.float16, ml_dtypes.bfloat16, bool)),
]
LENGTHS = (1, 2, 15, 16, 17, 31, 33, 63, 64, 127, 128, 129, 255, 257, 511, 513, 1023, 1025)


def agree(x: np.ndarray, axis: int | None = -1) -> None:
    def places(x: np.ndarray) -> tuple[ab.Tensor, ab.Tensor]:
        return ab.argmax(x, axis=axis), ab.argmin(x, axis=axis)

    compiled = ab.compile(places, backend="native")
    found, wanted = compiled(x), ab.compile(places, backend="reference")(x)
    assert not compiled.program(x).executable.program.islands
    for mine, its in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(mine, its)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_length_and_dtype(dtype: np.dtype) -> None:
    rng = np.random.default_rng(0)
    for length in LENGTHS:
        for top in (3, 120):  # many equal ones, and few
            agree(rng.integers(0, top, (3, length)).astype(dtype))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_the_first_nan_wins_wherever_it_stands(dtype: type) -> None:
    for length in (40, 128, 200, 700):
        x = np.arange(length).astype(dtype)
        rows = np.stack([x] * length)
        rows[np.arange(length), np.arange(length)] = np.nan
        rows[np.arange(length), np.minimum(np.arange(length) + 5, length - 1)] = np.nan
        agree(rows)


def test_zeros_of_both_signs_and_infinities_are_numbers_like_others() -> None:
    x = np.zeros((4, 300), np.float32)
    x[0, 7::3], x[1] = -0.0, -np.inf
    x[2, 150:], x[3] = np.inf, np.inf
    agree(x)
    agree(-x)


@pytest.mark.parametrize("turn", [1, -1])
def test_what_rises_or_falls_all_along(turn: int) -> None:
    for dtype in (np.float32, np.int32, np.float64):
        agree(np.arange(1000).astype(dtype)[::turn].copy())


def test_the_last_block_overlaps_the_one_before() -> None:
    block = extrema.BLOCK * 16
    x = np.zeros(2 * block + 3, np.float32)
    for place in (0, block - 1, block, 2 * block - 1, 2 * block, 2 * block + 2):
        y = x.copy()
        y[place] = 1.0
        agree(y)
        y[-1] = 1.0  # as good, but later
        agree(y)
