"""Running sums and products under the array API's names."""

import numpy as np
import pytest

import anabranch as ab


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize("name, plain, first", [("sum", np.cumsum, 0), ("prod", np.cumprod, 1)])
def test_they_run_along_an_axis_and_may_start_before_it(name, plain, first, axis, start):
    f = getattr(ab, f"cumulative_{name}")
    for dtype in (np.float64, np.int8, ab.bfloat16):
        x = np.array([[1, 2, 0], [3, 1, 2]]).astype(dtype)
        wanted = plain(x, axis=axis)
        if start:
            wanted = np.insert(wanted, 0, first, axis=axis)
        found = f(x, axis=axis, include_initial=start)
        assert np.array_equal(found, wanted)
        assert found.dtype == wanted.dtype


def test_the_slope_of_a_start_is_none(grad):
    f = lambda x: ab.sum(ab.cumulative_prod(x, include_initial=True))  # noqa: E731
    assert grad(f)([0.0, 2.0, 3.0]).tolist() == [9, 0, 0]


def test_an_axis_is_needed_where_there_are_several_or_none():
    for f in (ab.cumulative_sum, ab.cumulative_prod):
        with pytest.raises(ab.ArgumentError, match="which one"):
            f(np.zeros((2, 2)))
        with pytest.raises(ab.ArgumentError, match="which one"):
            f(2.0)
        assert f(np.zeros(0), include_initial=True).shape == (1,)
        assert f(np.ones(2, np.int8), dtype=np.float32).dtype == np.float32
