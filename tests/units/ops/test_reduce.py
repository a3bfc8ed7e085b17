"""The options of NumPy's reductions: masks, start values, dtypes; and what none of them hides."""

from functools import partial

import numpy as np
import pytest

import anabranch as ab

X = np.array([[3.0, -1.0, 2.0], [0.5, 4.0, -2.0]])
MASK = np.array([[True, False, True], [False, True, True]])


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1), ()])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_masks_and_start_values_are_those_of_numpy(name, axis, keepdims):
    f, reference = getattr(ab, name), getattr(np, name)
    for options in ({"initial": 2.5}, {"initial": 2.5, "where": MASK}):
        found = f(X, axis=axis, keepdims=keepdims, **options)
        wanted = reference(X, axis=axis, keepdims=keepdims, **options)
        assert np.shape(found) == np.shape(wanted)
        assert np.array_equal(found, wanted)
    eager = getattr(ab.tensor(X), name)(axis=axis, keepdims=keepdims, initial=2.5, where=MASK)
    assert np.array_equal(eager.data, wanted)


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "any", "all", "var", "std"])
def test_a_mask_alone(name):
    for axis in (None, 0, 1):
        found = getattr(ab, name)(X, axis=axis, where=MASK)
        assert found == pytest.approx(getattr(np, name)(X, axis=axis, where=MASK), rel=1e-15)
    row = MASK[0]  # broadcasts against the values
    assert getattr(ab, name)(X, where=row) == pytest.approx(
        getattr(np, name)(X, where=row), rel=1e-15
    )
    assert getattr(ab, name)(X, where=True) == getattr(ab, name)(X)
    assert getattr(ab, name)(X[0], where=[True, False, True]) == pytest.approx(
        getattr(np, name)(X[0], where=row)
    )


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "std"])
def test_a_masked_element_gets_nothing_whatever_it_holds(name, grad):
    for bad in (np.nan, np.inf):
        x = np.array([2.0, bad, 3.0])
        f = lambda x: getattr(ab, name)(x, where=np.array([True, False, True]))  # noqa: E731
        alone = ab.grad(getattr(ab, name))(x[::2])
        assert grad(f)(x).tolist() == [alone[0], 0.0, alone[1]]


@pytest.mark.parametrize("name, start", [("max", 0.0), ("min", 9.0)])
def test_a_masked_element_cannot_be_the_extremum(name, start, grad):
    worst = np.array([1.0, 50.0 if name == "max" else -50.0, 2.0])
    f = lambda x: getattr(ab, name)(x, where=MASK[0], initial=start)  # noqa: E731
    assert grad(f)(worst).tolist() == ([0, 0, 1] if name == "max" else [1, 0, 0])


@pytest.mark.parametrize("f, best", [(ab.max, 1.0), (ab.min, -1.0)])
def test_a_start_value_takes_part_as_one_of_two(f, best, grad):
    x = [0.0, best]
    assert grad(lambda x: f(x, initial=-2.0 * best))(x).tolist() == [0.0, 1.0]
    assert grad(lambda x: f(x, initial=best))(x).tolist() == [0.0, 0.5]
    assert grad(lambda x: f(x, initial=2.0 * best))(x).tolist() == [0.0, 0.0]
    by_start = grad(lambda start: f(np.array(x), initial=start))
    assert float(by_start(2.0 * best)) == 1.0


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.bool_, np.float32, ab.bfloat16])
def test_extrema_with_a_start_value_keep_the_dtype(dtype):
    x = np.array([[1, 0, 1]]).astype(dtype)
    start = True if dtype == np.bool_ else 1
    for f in (ab.max, ab.min):
        assert f(x, axis=1, initial=start).dtype == dtype
        assert f(x, axis=1, initial=start, where=np.array([True, False, False])).tolist() == [start]
        empty = f(x[:0], axis=0, initial=start)
        assert (empty.dtype, empty.tolist()) == (dtype, [start] * 3)


@pytest.mark.parametrize("dtype", [np.float16, ab.bfloat16, np.float32], ids=str)
def test_options_do_not_widen_narrow_floats(dtype):
    x = np.ones(3, dtype)
    for f in (ab.sum, ab.prod, ab.max, ab.min):
        assert f(x, initial=1.0).dtype == dtype
        assert f(x, initial=1.0, where=MASK[0]).dtype == dtype
    for f in (ab.mean, ab.var, ab.std):
        assert f(x, where=MASK[0]).dtype == dtype


def test_an_axis_of_length_zero_needs_a_start_value(grad):
    for f in (ab.max, ab.min, ab.ptp, ab.median):
        with pytest.raises(ab.ShapeError, match="empty-reduction"):
            f(np.zeros((0, 3)), axis=0)
        assert f(np.zeros((0, 3)), axis=1).shape == (0,)
    assert ab.max(np.zeros((0, 2)), axis=0, initial=np.array([7.0, 8.0])).tolist() == [7.0, 8.0]
    assert grad(lambda x: ab.max(x, initial=1.0))(np.zeros(0)).shape == (0,)
    for f, nothing in ((ab.sum, 0), (ab.prod, 1), (ab.any, False), (ab.all, True)):
        assert f(np.zeros((0, 2)), axis=0).tolist() == [nothing] * 2
    for f in (ab.argmax, ab.argmin):
        with pytest.raises(ab.ShapeError, match="empty-reduction"):
            f(np.zeros(0))


def test_a_mask_over_an_extremum_needs_a_start_value():
    for f in (ab.max, ab.min):
        with pytest.raises(ab.ArgumentError, match="missing-initial") as caught:
            f(X, where=MASK)
        assert "initial=" in caught.value.hint


def test_masks_of_other_shapes_and_dtypes_are_refused():
    largest = partial(ab.max, initial=0.0)
    for f in (ab.sum, ab.prod, ab.mean, ab.var, ab.any, largest):
        with pytest.raises(ab.ShapeError, match="shape-mismatch"):
            f(X, where=np.ones((2, 2, 3), bool))
        with pytest.raises(ab.DTypeError, match="mask-dtype"):
            f(X, where=np.ones(3))


@pytest.mark.parametrize("name", ["sum", "prod", "cumsum", "cumprod", "mean"])
def test_a_dtype_to_compute_in(name):
    x = np.array([100, 100, 2], np.int8)
    for dtype in (np.float32, np.int16, np.float64):
        found = getattr(ab, name)(x, dtype=dtype)
        wanted = getattr(np, name)(x.astype(dtype))
        if name != "mean" or np.dtype(dtype).kind == "f":
            assert found.dtype == (np.int64 if dtype == np.int16 else dtype)
        assert found == pytest.approx(wanted)
    assert ab.grad(lambda x: ab.sum(getattr(ab, name)(x, dtype=np.float32)))(X).dtype == np.float64


@pytest.mark.parametrize("name", ["sum", "prod", "max", "cumsum", "std", "sort"])
def test_what_numpy_writes_into_is_not_offered(name):
    with pytest.raises(TypeError, match=f"{name}.*unexpected keyword argument 'out'"):
        getattr(ab, name)(X, out=np.zeros(3))


def test_products_and_sums_of_small_integers_do_not_wrap():
    for dtype, wide in ((np.int8, np.int64), (np.uint8, np.uint64), (np.bool_, np.int64)):
        x = np.full(9, 3).astype(dtype)
        for name in ("sum", "prod", "cumsum", "cumprod"):
            found = getattr(ab, name)(x)
            assert found.dtype == wide
            assert np.array_equal(found, getattr(np, name)(x))
