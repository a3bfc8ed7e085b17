"""Order: stable, NaN where NumPy puts it, and cotangents that go back where elements came from."""

import math

import numpy as np
import pytest

import anabranch as ab

inf, nan = math.inf, math.nan
DTYPES = [np.float64, np.float32, np.float16, ab.bfloat16, np.int8, np.uint8, np.bool_]


@pytest.mark.parametrize("axis", [0, 1, -1, -2, None])
@pytest.mark.parametrize("descending", [False, True])
def test_it_is_numpys_stable_order(axis, descending):
    x = np.random.default_rng(0).integers(0, 4, (5, 6)).astype(float)
    x[1, 2] = x[3, 4] = nan
    order = ab.argsort(x, axis, descending=descending)
    wanted = np.sort(x, axis=axis)
    wanted = np.flip(wanted, -1 if axis is None else axis) if descending else wanted
    assert np.array_equal(ab.sort(x, axis, descending=descending), wanted, equal_nan=True)
    values = x.ravel() if axis is None else x
    along = 0 if axis is None else axis
    assert np.array_equal(np.take_along_axis(values, order, along), wanted, equal_nan=True)
    if not descending:
        assert np.array_equal(order, np.argsort(x, axis=axis, kind="stable"))
    # equal elements in rising order of index, in both directions
    ties = np.diff(order, axis=along)
    same = np.diff(wanted, axis=along) == 0
    assert (ties[same] > 0).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_has_an_order(dtype):
    x = np.array([1, 0, 1, 0]).astype(dtype)
    assert ab.argsort(x).tolist() == [1, 3, 0, 2]
    assert ab.argsort(x, descending=True).tolist() == [0, 2, 1, 3]
    assert ab.sort(x).dtype == dtype
    assert ab.searchsorted(ab.sort(x), x).tolist() == [2, 0, 2, 0]
    if np.dtype(dtype).kind in "fV":
        x[0] = nan
        assert ab.argsort(x).tolist() == [1, 3, 2, 0]
        assert ab.argsort(x, descending=True).tolist() == [0, 2, 1, 3]
        assert np.isnan(float(ab.sort(x)[-1]))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2, None])
def test_what_arrives_goes_back_where_it_came_from(axis, descending):
    rng = np.random.default_rng(1)
    x, t = rng.integers(0, 3, (2, 3, 4, 5)).astype(float)[0], rng.normal(size=(3, 4, 5))
    f = lambda x: ab.sort(x, axis, descending=descending)  # noqa: E731
    order = ab.argsort(x, axis, descending=descending)
    along = 0 if axis is None else axis
    pushed = ab.jvp(f, (x,), (t,))[1]
    flat = t.ravel() if axis is None else t
    assert np.array_equal(pushed, np.take_along_axis(flat, order, along))
    out, pullback = ab.vjp(f, x)
    ct = rng.normal(size=out.shape)
    (back,) = pullback(ct)
    wanted = np.empty(ct.shape)
    np.put_along_axis(wanted, order, ct, along)
    assert np.array_equal(back, wanted.reshape(x.shape))


def test_ties_in_a_sort_are_not_shared(grad):
    """A sort moves elements, each whole: the first of two equal ones comes first."""
    weights = np.array([1.0, 10.0, 100.0])
    assert grad(lambda x: ab.sum(ab.sort(x) * weights))([2.0, 1.0, 2.0]).tolist() == [10, 1, 100]
    falling = grad(lambda x: ab.sum(ab.sort(x, descending=True) * weights))
    assert falling([2.0, 1.0, 2.0]).tolist() == [1, 100, 10]


def test_methods_return_a_new_value():
    x = ab.tensor([3.0, 1.0, 2.0], requires_grad=True)
    y = x.sort(descending=True)
    assert x.data.tolist() == [3.0, 1.0, 2.0]
    assert y.data.tolist() == [3.0, 2.0, 1.0]
    assert x.argsort().data.tolist() == [1, 2, 0]
    assert ab.tensor([1.0, 2.0]).searchsorted(1.5).data.item() == 1
    (y * np.array([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [1.0, 3.0, 2.0]


def test_a_scalar_has_no_axis_to_sort_along():
    for f in (ab.sort, ab.argsort):
        with pytest.raises(ab.OutOfRangeError, match="axis-out-of-range"):
            f(np.float64(2.0))
        assert f(2.0, axis=None).shape == (1,)


@pytest.mark.parametrize("side", ["left", "right"])
def test_places_among_sorted_values(side):
    rng = np.random.default_rng(2)
    a = np.sort(rng.integers(0, 5, 9).astype(float))
    v = np.array([[-inf, 0.0, 1.5], [2.0, inf, nan]])
    assert np.array_equal(ab.searchsorted(a, v, side), np.searchsorted(a, v, side))
    mixed = rng.permutation(a)
    found = ab.searchsorted(mixed, v, side, sorter=np.argsort(mixed))
    assert np.array_equal(found, np.searchsorted(a, v, side))
    assert ab.searchsorted(a, 2, side) == np.searchsorted(a, 2, side)
    assert ab.searchsorted(np.array([1, 2, 3]), 2.5, side) == 2  # not rounded to integers


def test_searches_that_have_no_meaning():
    with pytest.raises(ab.ShapeError, match="one axis"):
        ab.searchsorted(np.zeros((2, 2)), 1.0)
    with pytest.raises(ab.ArgumentError, match="bad-argument"):
        ab.searchsorted(np.zeros(2), 1.0, side="middle")
