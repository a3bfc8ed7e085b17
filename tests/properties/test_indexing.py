"""Indices as NumPy has them, of every kind and mixture: values, shapes, gradients, errors."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anabranch as ab

shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)
small = st.lists(st.sampled_from([2, 3, 1, 0]), max_size=3).map(tuple)
bounds = st.none() | st.integers(-6, 6)
slices = st.builds(slice, bounds, bounds, st.sampled_from([None, 1, 2, 3, -1, -2]))


@st.composite
def integer_arrays(draw: st.DrawFn, length: int, common: tuple[int, ...]) -> Any:
    """Indices into an axis, of a shape that broadcasts to the common one."""
    shape = tuple(
        draw(st.sampled_from([n, 1])) for n in common[draw(st.integers(0, len(common))) :]
    )
    count = int(np.prod(shape))
    values = draw(
        st.lists(st.integers(-length, max(length - 1, -length)), min_size=count, max_size=count)
    )
    array = np.array(values, draw(st.sampled_from([np.int64, np.int32, np.int8]))).reshape(shape)
    return draw(st.sampled_from([array, array.tolist()])) if array.ndim and array.size else array


@st.composite
def masks(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    count = int(np.prod(shape))
    flags = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    return np.array(flags, bool).reshape(shape)


KINDS = ["int", "slice", "slice", "new", "ellipsis", "array", "array", "mask", "flag"]


@st.composite
def indices(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """An index for a value of this shape, which NumPy may refuse now and then."""
    items: list[Any] = []
    common = draw(st.lists(st.sampled_from([2, 3, 1, 0]), max_size=2).map(tuple))
    has_ellipsis = False
    axis = 0
    while axis < len(shape) and draw(st.integers(0, 5)):
        kind = draw(st.sampled_from(KINDS))
        if kind == "int":
            items.append(draw(st.integers(-shape[axis] - 1, shape[axis])))
        elif kind == "slice":
            items.append(draw(slices))
        elif kind == "array":
            items.append(draw(integer_arrays(shape[axis], common)))
        elif kind == "mask":
            stop = draw(st.integers(axis + 1, len(shape)))
            items.append(draw(masks(shape[axis:stop])))
            axis = stop - 1
        elif kind == "flag":
            items.append(draw(st.sampled_from([True, False, np.True_])))
            continue
        elif kind == "new":
            items.append(None)
            continue
        elif not has_ellipsis:
            has_ellipsis = True
            items.append(Ellipsis)
            axis += draw(st.integers(0, len(shape) - axis))
            continue
        axis += 1
    return items[0] if len(items) == 1 and draw(st.booleans()) else tuple(items)


@st.composite
def selections(draw: st.DrawFn, sizes: Any = shapes) -> tuple[Any, Any]:
    shape = draw(sizes)
    return np.arange(1.0, 1.0 + np.prod(shape)).reshape(shape), draw(indices(shape))


def numpys(x: Any, index: Any) -> Any:
    """What NumPy says, or None for what it refuses.

    NumPy does not look at an index that has to broadcast with nothing; we do.
    """
    try:
        found = np.asarray(x[index])
    except (IndexError, ValueError, DeprecationWarning):  # the last from older versions of NumPy
        return None
    if not found.size:
        try:
            ab.index_get(x, index)
        except ab.OutOfRangeError:
            return None
    return found


def check_reading(x: Any, index: Any) -> None:
    wanted = numpys(x, index)
    leaf = ab.tensor(x, requires_grad=True)
    if wanted is None:
        with pytest.raises(ab.AnabranchError) as caught:
            leaf[index]
        assert isinstance(caught.value, IndexError | ValueError)
        return
    found = leaf[index]
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    assert found.numpy().tobytes() == wanted.tobytes()
    ct = np.arange(1.0, 1.0 + wanted.size).reshape(wanted.shape)
    found.backward(ct)
    gradient = np.zeros(x.shape)
    np.add.at(gradient, index, ct)
    assert leaf.grad.tolist() == gradient.tolist()
    run = ab.compile(lambda x: x[index], passes=())
    assert np.asarray(run(x)).tobytes() == wanted.tobytes()
    _, pushed = ab.jvp(lambda x: x[index], (x,), (x * 10.0,))
    assert np.asarray(pushed).tolist() == (wanted * 10.0).tolist()


A, B = np.array([1, 0, 1, 1, 0]), np.array([[0], [1]])
EYE = np.eye(2, 3, dtype=bool)
MIXTURES = [
    (A, slice(None), A), (A, A), (slice(None), A, A), (A, None, A), (A, ..., A, A, A),
    (slice(None), A, ..., A, A), (slice(None), A, slice(1, None), B[..., 0]), (0, slice(None), A),
    (slice(None), 0, A), (A, 0), (..., A, 0), (None, A, None), (A, slice(None, None, -1), 0, B[0]),
    (B, A), (B, slice(None), A), EYE, (EYE, A), (EYE, slice(None), A[:2]), (A[:2], EYE[0, :2]),
    (0, True), (True, A), (slice(None), True, A), (A, slice(None), True), (False, 0), True,
    (None, True), (0, slice(None), True), ([0, 1], [1, 0]), [], [[]],
    ([True, False], 0), (slice(None), [0, 2]),
    (np.int8(1), np.uint8(2)), np.array(1), (np.array(1), slice(None), [0, 1]), (..., None, A),
]  # fmt: skip


@pytest.mark.parametrize("index", MIXTURES, ids=lambda index: repr(index).replace("\n", ""))
def test_mixtures_that_have_rules_of_their_own(index: Any) -> None:
    check_reading(np.arange(1.0, 121.0).reshape(2, 3, 4, 5), index)
    check_reading(np.arange(1.0, 25.0).reshape(2, 3, 4), index)


@pytest.mark.slow
@settings(max_examples=250)
@given(selections())
def test_reading_gives_what_numpy_gives(selection: Any) -> None:
    check_reading(*selection)


@pytest.mark.usefixtures("on_reference")
@pytest.mark.long
@settings(max_examples=5_000)
@given(selections())
def test_reading_gives_what_numpy_gives_for_thousands(selection: Any) -> None:
    check_reading(*selection)


def computed(index: Any, leaves: list[Any]) -> Any:
    """The index with integer arrays replaced by those given, in order."""
    items = index if isinstance(index, tuple) else (index,)
    rest = iter(leaves)
    return tuple(next(rest) if is_integers(item) else item for item in items)


def is_integers(item: Any) -> bool:
    return isinstance(item, np.ndarray | list) and np.asarray(item).dtype.kind == "i"


@pytest.mark.slow
@settings(max_examples=250)
@given(selections())
def test_integer_arrays_that_are_computed_select_the_same(selection: Any) -> None:
    x, index = selection
    wanted = numpys(x, index)
    items = index if isinstance(index, tuple) else (index,)
    leaves = [np.asarray(item) for item in items if is_integers(item)]
    if wanted is None or not leaves:
        return
    f = lambda x, leaves: x[computed(index, leaves)]  # noqa: E731
    assert np.asarray(ab.compile(f)(x, leaves)).tolist() == wanted.tolist()
    assert np.asarray(f(ab.tensor(x), list(map(ab.asarray, leaves)))).tolist() == wanted.tolist()
    g = ab.Graph("by hand")
    nodes = [g.parameter(f"i{n}", i.shape, i.dtype) for n, i in enumerate(leaves)]
    picked = f(g.parameter("x", x.shape, x.dtype), nodes)
    assert np.asarray(g.compile(picked)(*leaves, x)).tolist() == wanted.tolist()
    ab.check(ab.parse(str(g)))
    assert str(ab.parse(str(g))) == str(g)


def updated(x: Any, index: Any, values: Any, way: str) -> Any:
    """What NumPy makes of a copy in place, with the last of several values set."""
    result = np.array(x)
    if way == "set":
        places = np.arange(x.size).reshape(x.shape)[index]
        for place, value in zip(
            np.ravel(places), np.ravel(np.broadcast_to(values, places.shape)), strict=True
        ):
            result.reshape(-1)[place] = value
        return result
    {"add": np.add, "multiply": np.multiply, "max": np.maximum, "min": np.minimum}[way].at(
        result, index, values
    )
    return result


@st.composite
def updates(draw: st.DrawFn) -> tuple[Any, Any, Any]:
    x, index = draw(selections(small))
    wanted = numpys(x, index)
    if wanted is None:
        index, wanted = (), x
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    shape = wanted.shape[draw(st.integers(0, wanted.ndim)) :]
    shape = tuple(draw(st.sampled_from([n, 1])) for n in shape)
    return rng.uniform(0.5, 2.0, x.shape), index, rng.uniform(0.5, 2.0, shape)


def check_writing(way: str, x: Any, index: Any, values: Any) -> None:
    wanted = updated(x, index, values, way)
    f = lambda x, v: getattr(x.at[index], way)(v)  # noqa: E731
    found = f(ab.tensor(x), values)
    assert found.shape == x.shape
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-13)
    before = x.tobytes()
    for passes in ((), None):
        assert np.asarray(ab.compile(f, passes=passes)(x, values)).tobytes() == (
            found.numpy().tobytes()
        )
    assert x.tobytes() == before
    if x.size:
        report = ab.check_gradients(f, x, values)
        assert report.verdict == "pass", report


@pytest.mark.slow
@pytest.mark.parametrize("way", ["set", "add", "multiply", "max", "min"])
@settings(max_examples=30)
@given(updates())
def test_writing_gives_what_numpy_gives_in_place(way: str, update: Any) -> None:
    check_writing(way, *update)


@pytest.mark.usefixtures("on_reference")
@pytest.mark.long
@pytest.mark.parametrize("way", ["set", "add", "multiply", "max", "min"])
@settings(max_examples=1_000)
@given(updates())
def test_writing_gives_what_numpy_gives_in_place_for_thousands(way: str, update: Any) -> None:
    check_writing(way, *update)


@settings(max_examples=40)
@given(updates(), st.sampled_from(["set", "add", "multiply", "max", "min"]))
def test_the_second_derivative_of_writing_agrees_with_differences(update: Any, way: str) -> None:
    x, index, values = update
    if not x.size or not values.size:
        return
    rng = np.random.default_rng(1)
    along = [rng.normal(size=v.shape) for v in (x, values)]
    weights = rng.normal(size=x.shape)

    def loss(x: Any, v: Any) -> Any:
        return ab.sum(weights * ab.square(getattr(x.at[index], way)(v)))

    def slope(x: Any, v: Any) -> Any:
        grads = ab.grad(loss, (0, 1))(x, v)
        return sum(ab.sum(g * t) for g, t in zip(grads, along, strict=True))

    report = ab.check_gradients(slope, x, values)
    assert report.verdict == "pass", report
