"""Views: elements that are moved without being copied lie where NumPy would find them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from anabranch.backends.native.view import View

shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


def read(flat: np.ndarray, view: View) -> np.ndarray:
    places = np.full(view.shape, view.offset)
    for axis, step in enumerate(view.strides):
        index = np.arange(view.shape[axis]) * step
        places = places + index.reshape([-1 if a == axis else 1 for a in range(len(view.shape))])
    return flat[places] if places.size else np.empty(view.shape, flat.dtype)


def entries(draw: st.DrawFn, length: int) -> object:
    if length and draw(st.booleans()):
        return draw(st.integers(0, length - 1))
    start, stop, step = slice(
        *draw(st.tuples(*[st.none() | st.integers(-5, 5)] * 2)), draw(st.sampled_from([1, 2, -1]))
    ).indices(length)
    return start, None if stop < 0 else stop, step


@st.composite
def programs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, View | None]:
    """An array, and what some moves make of it in NumPy and as a view."""
    shape = draw(shapes)
    array = flat = np.arange(int(np.prod(shape, dtype=int)))
    array, view = array.reshape(shape), View.whole(shape)
    for move in draw(
        st.lists(st.sampled_from(["permute", "slice", "spread", "reshape"]), max_size=4)
    ):
        if view is None:
            break
        if move == "permute":
            axes = tuple(draw(st.permutations(range(array.ndim))))
            array, view = array.transpose(axes), view.permute(axes)
        elif move == "slice":
            index = tuple(entries(draw, n) for n in array.shape)
            array = array[tuple(slice(*e) if isinstance(e, tuple) else e for e in index)]
            view = view.slice(index)
        elif move == "spread":
            wanted = (2, *(draw(st.integers(1, 3)) if n == 1 else n for n in array.shape))
            array, view = np.broadcast_to(array, wanted), view.broadcast_to(wanted)
        elif array.size:
            wanted = draw(st.sampled_from([(array.size,), (1, array.size), array.shape[::-1]]))
            array, view = array.reshape(wanted), view.reshape(wanted)
    return flat, array, view


@given(programs())
def test_a_view_finds_what_numpy_finds(program: tuple[np.ndarray, np.ndarray, View | None]) -> None:
    flat, array, view = program
    if view is not None:
        assert view.shape == array.shape
        np.testing.assert_array_equal(read(flat, view), array)
        if view.is_whole:
            np.testing.assert_array_equal(flat[: array.size].reshape(array.shape), array)


@pytest.mark.parametrize(
    ("view", "shape", "is_possible"),
    [
        (View.whole((2, 6)), (3, 4), True),
        (View.whole((2, 6)).permute((1, 0)), (12,), False),
        (View.whole((2, 6)).permute((1, 0)), (6, 1, 2), True),
        (View.whole((4, 6)).slice(((0, 4, 2), (0, 6, 1))), (12,), False),
        (View.whole((4, 6)).slice(((0, 4, 1), (0, 6, 2))), (2, 6), True),
        (View.whole((4, 6)).slice(((0, 4, 1), (0, 6, 2))), (12,), True),
        (View.whole((3,)).broadcast_to((2, 3)), (6,), False),
    ],
)
def test_a_reshape_is_a_view_where_one_step_reaches_on(
    view: View, shape: tuple[int, ...], is_possible: bool
) -> None:
    assert (view.reshape(shape) is not None) == is_possible
