"""Arrays in short: what is counted, and what cannot be."""

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import anabranch as ab
from anabranch import inspection
from anabranch.inspection.reading import is_finite, is_zero, size_of
from anabranch.inspection.summary import GRID, SMALL, counts, norm, summary
from anabranch.inspection.trace import number

SCHEMA = json.loads((Path(inspection.__file__).parent / "schema.json").read_text("utf-8"))
VALID = jsonschema.Draft202012Validator({**SCHEMA["$defs"]["summary"], "$defs": SCHEMA["$defs"]})


def data(found):
    def plain(one):
        if isinstance(one, float | int) and not isinstance(one, bool):
            return number(one)
        if isinstance(one, list):
            return [plain(item) for item in one]
        return {k: plain(v) for k, v in one.items()} if isinstance(one, dict) else one

    members = {name: getattr(found, name) for name in type(found).__slots__}
    return {name: plain(one) for name, one in members.items() if one is not None}


@pytest.mark.parametrize("dtype", [ab.float16, ab.bfloat16, ab.float32, ab.float64, np.int64, bool])
@pytest.mark.parametrize(
    "shape", [(), (3,), (0, 2), (2, 3), (5, 40), (2, 30, 7), (200,), (1, 1, 100)]
)
@pytest.mark.parametrize("detail", ["full", "summary"])
def test_every_shape_and_dtype_has_a_summary(dtype, shape, detail):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    found = summary(array, detail=detail)
    VALID.validate(data(found))
    assert (found.v is not None) == (shape == () or (detail == "full" and 0 < array.size <= SMALL))
    if found.grid:
        assert found.grid["rows"] <= GRID
        assert found.grid["cols"] <= GRID
    assert is_finite(found)


@given(hnp.arrays(np.float64, st.integers(65, 90), elements=st.floats()))
def test_counts_and_ranges_are_those_of_numpy(array):
    found = summary(array)
    finite = array[np.isfinite(array)]
    assert (found.nan or 0, found.inf or 0) == (np.isnan(array).sum(), np.isinf(array).sum())
    assert found.zero == (finite == 0).sum()
    assert found.negative == (finite < 0).sum()
    if finite.size:
        assert (found.min, found.max) == (finite.min(), finite.max())
    if found.first is not None:
        assert not np.isfinite(array[tuple(found.first)])
        assert np.isfinite(array[: found.first[0]]).all()
    if found.hist:
        assert sum(found.hist["bins"]) == finite.size
    VALID.validate(data(found))
    assert counts(array).norm == found.norm


@pytest.mark.parametrize("scale", [1e-320, 1e-200, 1.0, 1e200, 1e307])
def test_a_norm_does_not_leave_the_range(scale):
    assert norm(np.array([3.0, 4.0]) * scale) == pytest.approx(5.0 * scale, rel=1e-3)


def test_block_means_are_means_of_blocks():
    image = np.arange(48.0 * 72.0).reshape(48, 72)
    grid = summary(image).grid
    blocks = image.reshape(24, 2, 24, 3).mean(axis=(1, 3))
    np.testing.assert_allclose(np.reshape(grid["mean"], (24, 24)), blocks)


def test_complex_values_are_counted_by_size():
    found = summary(np.full(100, 3 + 4j))
    assert (found.n, found.norm) == (100, 50.0)


def test_zero_is_told_from_nothing():
    assert is_zero(summary(np.zeros(100)))
    assert is_zero(summary(np.zeros(3)))
    assert is_zero(summary(0.0))
    assert not is_zero(None)
    assert not is_zero(summary(np.array([0.0, np.nan])))
    assert size_of(summary(np.array([1.0, -2.0, 0.0]))).negative == 1
