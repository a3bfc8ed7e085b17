"""Where extrema stand: ties, NaN, flattened and kept axes."""

import numpy as np
import pytest

import anabranch as ab

nan = np.nan


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("axis", [None, 0, 1, -1, -2])
@pytest.mark.parametrize("keepdims", [False, True])
def test_places_are_those_of_numpy(name, axis, keepdims):
    x = np.array([[3.0, 1.0, 3.0], [1.0, nan, 2.0]])
    wanted = getattr(np, name)(x, axis=axis, keepdims=keepdims)
    for found in (
        getattr(ab, name)(x, axis, keepdims),
        getattr(ab.tensor(x), name)(axis=axis, keepdims=keepdims).data,
        ab.compile(lambda x: getattr(ab, name)(x, axis, keepdims))(x),
    ):
        assert found.dtype == np.int64
        assert np.array_equal(found, wanted)
        assert np.shape(found) == np.shape(wanted)


@pytest.mark.parametrize("dtype", [np.float16, ab.bfloat16, np.float32, np.int8, np.bool_], ids=str)
def test_every_dtype_has_a_place(dtype):
    x = np.array([0, 1, 1, 0]).astype(dtype)
    assert (int(ab.argmax(x)), int(ab.argmin(x))) == (1, 0)
    if np.dtype(dtype).kind in "fV":
        x[2] = nan
        assert (int(ab.argmax(x)), int(ab.argmin(x))) == (2, 2)


def test_several_axes_have_no_single_index():
    with pytest.raises((ab.AnabranchError, TypeError)):
        ab.argmax(np.zeros((2, 3)), axis=(0, 1))


def test_a_place_ends_the_path_and_what_is_taken_there_goes_on(grad):
    assert grad(lambda x: ab.take(x, ab.argmin(x)))([2.0, 1.0, 1.0]).tolist() == [0.0, 1.0, 0.0]
    with pytest.raises(ab.errors.AnabranchError):
        ab.grad(lambda x: ab.argmax(x))(np.array([1.0, 2.0]))


@pytest.mark.parametrize("dtype", [np.float16, ab.bfloat16], ids=str)
def test_a_count_of_ties_in_min_does_not_overflow_in_half_precision(dtype):
    x = np.ones(70_000, dtype)
    assert (ab.grad(ab.min)(x) == np.asarray(1 / 70_000).astype(dtype)).all()
