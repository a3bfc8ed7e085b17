"""Any and all, as NumPy reads numbers; and counts of what is true."""

import numpy as np
import pytest

import anabranch as ab

DTYPES = [np.float64, np.float16, ab.bfloat16, np.int8, np.bool_, np.complex64]


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1), ()])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", ["any", "all", "count_nonzero"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_truth_is_that_of_numpy(name, axis, keepdims, dtype):
    x = np.array([[1, 0, 0], [1, 1, 1]]).astype(dtype)
    found = getattr(ab, name)(x, axis, keepdims)
    wanted = np.asarray(getattr(np, name)(x, axis=axis, keepdims=keepdims))
    if name == "count_nonzero" and axis == ():
        wanted = (x != 0).astype(int)
    assert np.array_equal(found, wanted)
    assert np.shape(found) == wanted.shape
    assert found.dtype == (np.int64 if name == "count_nonzero" else np.bool_)


def test_nan_is_not_zero():
    x = np.array([np.nan, -0.0])
    assert bool(ab.any(x))
    assert not bool(ab.all(x))
    assert int(ab.count_nonzero(x)) == 1


def test_methods_and_traces():
    x = ab.tensor([0.0, 2.0])
    assert bool(x.any().data)
    assert not bool(x.all().data)
    found = ab.compile(lambda x: (ab.any(x > 1.0), x.all(), ab.count_nonzero(x)))(
        np.array([0.0, 2.0])
    )
    assert [v.item() for v in found] == [True, False, 1]
    assert [v.dtype.name for v in found] == ["bool", "bool", "int64"]
