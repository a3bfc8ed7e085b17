"""What is known of a value before it is computed."""

import numpy as np
import pytest

from anabranch.core.aval import Aval, aval, aval_of


@pytest.mark.parametrize(
    ("value", "text", "weak"),
    [
        (np.zeros((3, 4), np.float32), "f32[3,4]", False),
        (np.zeros(0), "f64[0]", False),
        (np.float64(1.0), "f64[]", False),
        (np.array(1), "i64[]", False),
        (1.5, "f64[]", True),
        (1, "i64[]", True),
        (True, "bool[]", True),
        (1j, "c128[]", True),
    ],
)
def test_types_are_written_short(value: object, text: str, weak: bool) -> None:
    found = aval_of(value)
    assert (str(found), found.weak) == (text, weak)


def test_equal_avals_are_equal_and_weakness_counts() -> None:
    f64 = np.dtype(np.float64)
    assert aval((2,), f64) == Aval((2,), f64)
    assert aval((), f64, True) != aval((), f64)


def test_only_a_scalar_stays_weak() -> None:
    weak = aval_of(2.0)
    assert weak.with_shape(()).weak
    assert not weak.with_shape((2,)).weak
    assert not weak.with_dtype(np.float32).weak


def test_size_of_an_empty_and_of_a_huge_shape() -> None:
    f64 = np.dtype(np.float64)
    assert aval((0, 10**9), f64).size == 0
    assert aval((10**9, 10**9), f64).size == 10**18
