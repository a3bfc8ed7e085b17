"""What is read and written by indices where a choice had to be made: repeats, ties, the outside."""

import numpy as np
import pytest

import anabranch as ab
from anabranch.ops.scatter import last_of_each

inf, nan = np.inf, np.nan


def slopes(f, *xs):
    """Value and gradients of the sum of f, by arrays."""
    out, pullback = ab.vjp(f, *(np.asarray(x, np.float64) for x in xs))
    return np.asarray(out).tolist(), *(g.tolist() for g in pullback(np.ones(np.shape(out))))


def writing(way, index, mode="raise"):
    return lambda x, v: getattr(ab, f"index_{way}")(x, index, v, mode=mode)


def test_of_repeated_places_the_last_one_is_set():
    value, x, v = slopes(writing("set", [2, 0, 2]), [1, 1, 1], [10, 20, 30])
    assert (value, x, v) == ([20.0, 1.0, 30.0], [0.0, 1.0, 0.0], [0.0, 1.0, 1.0])
    # Also where they repeat by broadcasting: the last in C order.
    rows, columns = np.array([[0], [1]]), np.array([0, 0, 1])
    value, x, v = slopes(
        writing("set", (rows, columns)), np.zeros((2, 2)), np.arange(6).reshape(2, 3)
    )
    assert value == [[1.0, 2.0], [4.0, 5.0]]
    assert v == [[0.0, 1.0, 1.0], [0.0, 1.0, 1.0]]


def test_the_last_of_equal_places_is_found_without_an_order_of_assignment():
    rows, columns = np.array([[0, 1], [0, 1]]), np.array([[1, 1], [1, 0]])
    assert last_of_each((rows, columns), (2, 2)).tolist() == [False, True, True, True]
    assert last_of_each((np.array([2, 0, 2, 2]),), (3,)).tolist() == [False, True, False, True]
    assert last_of_each((np.zeros(0, np.int64),), (0,)).tolist() == []


def test_the_order_of_setting_does_not_depend_on_the_layout_of_the_indices():
    i = np.array([[0, 1], [1, 0]])
    for array in (i, np.asfortranarray(i), i[::-1][::-1], np.repeat(i, 2, 1)[:, ::2]):
        value, _, v = slopes(writing("set", array), [0.0, 0.0], [[1, 2], [3, 4]])
        assert (value, v) == ([4.0, 3.0], [[0.0, 0.0], [1.0, 1.0]])


@pytest.mark.parametrize("way", ["eager", "compiled", "forward"])
def test_a_value_that_lost_its_place_cannot_poison_the_gradient(way):
    def f(v):
        return ab.sum(ab.tensor([0.0]).at[[0, 0]].set(ab.sqrt(v)))

    x = np.array([0.0, 4.0])
    with np.errstate(all="ignore"):
        if way == "forward":
            assert float(ab.jvp(f, (x,), (np.array([1.0, 1.0]),))[1]) == 0.25
        else:
            grad = ab.compile(ab.grad(f)) if way == "compiled" else ab.grad(f)
            assert grad(x).tolist() == [0.0, 0.25]


def test_what_was_replaced_cannot_poison_the_gradient():
    for index in (0, slice(0, 1), [0], [True, False], np.array([True, False])):
        with np.errstate(all="ignore"):
            grad = ab.grad(lambda x, index=index: ab.sum(ab.sqrt(x).at[index].set(1.0)))
            assert grad(np.array([0.0, 4.0])).tolist() == [0.0, 0.25]


@pytest.mark.parametrize("way", ["max", "min"])
def test_the_largest_of_a_place_share_equally(way):
    value, x, v = slopes(writing(way, [0, 0, 1]), [2, 1], [2, 2, 1])
    assert value == [2.0, 1.0]
    np.testing.assert_allclose(x, [1 / 3, 1 / 2])
    np.testing.assert_allclose(v, [1 / 3, 1 / 3, 1 / 2])


@pytest.mark.parametrize("way", ["max", "min"])
def test_nan_wins_in_a_place_and_takes_the_whole_cotangent(way):
    value, x, v = slopes(writing(way, [0, 1, 1]), [1, nan], [nan, 5, nan])
    assert np.isnan(value).all()
    assert (x, v) == ([0.0, 0.5], [1.0, 0.0, 0.5])


def test_a_count_of_ties_in_a_place_does_not_overflow_in_half_precision():
    def f(v):
        return ab.sum(ab.scatter_max(np.zeros(1, np.float16), np.zeros(70_000, np.int64), v))

    found = ab.grad(f)(np.ones(70_000, np.float16))
    assert found.dtype == np.float16
    np.testing.assert_allclose(found.astype(float), 1 / 70_000, rtol=1e-2)


def test_halves_that_meet_are_added_in_single_precision():
    v = np.full(5000, 0.1, np.float16)
    found = ab.scatter_add(np.zeros(1, np.float16), np.zeros(5000, np.int64), v)
    np.testing.assert_allclose(found.astype(float), 5000 * float(np.float16(0.1)), rtol=1e-3)


def test_products_are_right_at_zeros():
    """By every factor the product of the others, at first and second order, without a division."""
    f = writing("multiply", [0, 0, 0, 1])
    for values, wanted in (
        ([0, 3, 4, 7], [24.0, 0.0, 0.0, 5.0]),
        ([0, 0, 4, 7], [0.0, 0.0, 0.0, 5.0]),
        ([2, 3, 4, 0], [24.0, 16.0, 12.0, 5.0]),
    ):
        assert slopes(f, [2, 5], values)[2] == wanted
    # Six factors in one place: each is reached from each other.
    six = slopes(writing("multiply", [0] * 6), [1], [2, 3, 4, 5, 6, 7])[2]
    assert six == [2520.0, 1680.0, 1260.0, 1008.0, 840.0, 720.0]
    product = lambda v: ab.sum(f(np.array([2.0, 5.0]), v))  # noqa: E731
    second = ab.hessian(product)(np.array([0.0, 0.0, 4.0, 7.0]))
    wanted = np.zeros((4, 4))
    wanted[0, 1] = wanted[1, 0] = 8.0  # x times the third; the other pairs meet a zero
    assert second.tolist() == wanted.tolist()


def test_a_masked_factor_that_is_infinite_does_not_poison():
    def f(x):
        y = ab.tensor([1.0, 1.0]).at[[0, 1]].multiply(ab.sqrt(x))
        return ab.sum(ab.where(np.array([False, True]), y, 0.0))

    with np.errstate(all="ignore"):
        assert ab.grad(f)(np.array([0.0, 4.0])).tolist() == [0.0, 0.25]
    g = lambda x, v: ab.sum(  # noqa: E731
        ab.where(np.array([False, True]), ab.scatter_multiply(x, np.array([0, 1]), v), 0.0)
    )
    assert ab.grad(g, 0)(np.ones(2), np.array([inf, 3.0])).tolist() == [0.0, 3.0]
    assert ab.grad(g, 1)(np.array([inf, 3.0]), np.ones(2)).tolist() == [0.0, 3.0]
    with ab.config(absorb_zero=False), np.errstate(all="ignore"):
        assert np.isnan(ab.grad(g, 0)(np.ones(2), np.array([inf, 3.0]))[0])


def test_nothing_outside_is_read_or_written_unless_asked():
    x = ab.tensor([1.0, 2.0])
    for call in (
        lambda i: x[i], lambda i: ab.take(x, i), lambda i: ab.gather(x, i),
        lambda i: x.at[i].get(), lambda i: x.at[i].set(0.0), lambda i: x.at[i].add(1.0),
        lambda i: ab.scatter_max(x, i, 1.0 * i),
    ):  # fmt: skip
        for index in (np.array([2]), np.array([-3]), np.array([0, 7])):
            with pytest.raises(ab.OutOfRangeError, match="outside axis 0 of length 2"):
                call(index)


def test_an_index_outside_is_refused_where_nothing_would_be_read():
    """NumPy lets it pass: it never looks at the first index, as the second is empty."""
    x, first, none = np.ones((2, 2)), np.array([9]), np.zeros(0, np.int64)
    assert x[first, none].shape == (0,)
    with pytest.raises(ab.OutOfRangeError):
        ab.tensor(x)[first, none]
    for index in (np.array(2), np.array([0, 2]), [2], 2):
        with pytest.raises(ab.OutOfRangeError):
            ab.tensor(np.ones((0, 2)))[:, index]
        with pytest.raises(ab.OutOfRangeError):
            ab.take(np.ones((0, 2)), index, axis=1)


def test_a_fill_is_a_constant_and_ends_the_path():
    f = lambda x: ab.index_get(x, [0, 5, -1, -6], mode="fill", fill_value=9.0)  # noqa: E731
    assert slopes(f, [1, 2]) == ([1.0, 9.0, 2.0, 9.0], [1.0, 1.0])
    _, tangent = ab.jvp(f, (np.array([1.0, 2.0]),), (np.array([3.0, 4.0]),))
    assert tangent.tolist() == [3.0, 0.0, 4.0, 0.0]


def test_a_dropped_update_has_the_gradient_0():
    for way, wanted in (("set", [7.0, 2.0]), ("add", [8.0, 2.0]), ("max", [7.0, 2.0])):
        value, _, v = slopes(writing(way, [0, 5], "drop"), [1, 2], [7, 8])
        assert (value, v) == (wanted, [1.0, 0.0])


def test_a_block_that_does_not_lie_inside_is_refused_and_never_moved():
    x = np.arange(4.0)
    read, write = (
        lambda i: ab.dynamic_slice(x, i, 2),
        lambda i: ab.dynamic_update_slice(x, np.ones(2), i),
    )
    for call in (read, write, ab.compile(read), ab.compile(write)):
        for start in (3, -5, -1, 9):
            with pytest.raises(ab.OutOfRangeError, match="not inside axis 0 of length 4"):
                call(start)
    assert ab.dynamic_slice(x, -2, 2).tolist() == [2.0, 3.0]
    assert ab.dynamic_update_slice(x, np.zeros(2), 1).tolist() == [0.0, 0.0, 0.0, 3.0]


def test_a_slice_that_starts_before_the_front_and_runs_backward_is_empty():
    x = ab.tensor([1.0, 2.0, 3.0], requires_grad=True)
    assert x[-10::-1].shape == (0,)
    x[-10::-1].sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0]


def test_dtypes_are_promoted_and_nothing_is_cut_off():
    counts = ab.asarray([1, 2])
    assert counts.at[0].add(0.5).numpy().tolist() == [1.5, 2.0]
    assert counts.at[[0, 0]].add([0.5, 0.25]).dtype == np.float64
    assert counts.at[0].set(7).dtype == np.int64
    narrow = ab.tensor(np.ones(2, np.float32))
    for value in (0.5, np.float32(0.5), 3):
        assert narrow.at[0].set(value).dtype == narrow.at[[0]].add(value).dtype == np.float32
    assert narrow.at[0].set(np.float64(0.5)).dtype == np.float64
    for fill in (0.5, nan, 2**70, 1j):
        with pytest.raises(ab.DTypeError, match="fill-dtype"):
            ab.take(counts, [5], mode="fill", fill_value=fill)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64, np.int64])
def test_indices_of_every_width(dtype):
    x = np.arange(300.0)
    index = np.array([0, 100, 7], dtype)
    assert ab.take(x, index).tolist() == [0.0, 100.0, 7.0]
    assert ab.take(x, index, mode="wrap").tolist() == [0.0, 100.0, 7.0]
    assert ab.take(x, index, mode="clip").tolist() == [0.0, 100.0, 7.0]
    assert ab.take(x[:50], index, mode="fill", fill_value=-1).tolist() == [0.0, -1.0, 7.0]
    if dtype == np.uint64:
        huge = np.array([2**64 - 1], dtype)
        with pytest.raises(ab.OutOfRangeError):
            ab.take(x, huge)
        assert ab.take(x, huge, mode="wrap").tolist() == [(2**64 - 1) % 300]
        assert ab.take(x, huge, mode="clip").tolist() == [299.0]
        assert ab.take(x, huge, mode="fill", fill_value=7.0).tolist() == [7.0]
    elif dtype in (np.int8, np.int32, np.int64):
        assert ab.take(x, np.array([-1], dtype)).tolist() == [299.0]


def test_what_a_triangle_leaves_out_cannot_poison():
    x = np.array([[4.0, 0.0], [9.0, 16.0]])
    with np.errstate(all="ignore"):
        found = ab.grad(lambda x: ab.sum(ab.tril(ab.sqrt(x))))(x)
        assert found.tolist() == [[0.25, 0.0], [1 / 6, 0.125]]
        assert ab.triu(np.array([[1.0, 2.0], [nan, 3.0]])).tolist() == [[1.0, 2.0], [0.0, 3.0]]
