"""The linear recurrence: against a loop, at every order, and what a zero absorbs."""

import numpy as np
import pytest

import anabranch as ab
from anabranch.ops.recurrence import recurrence

inf, nan = np.inf, np.nan


def looped(a, b, axis=-1, reverse=False):
    """As a user would write it, of ops."""
    n = b.shape[axis]
    line = range(n)[::-1] if reverse else range(n)
    y, rows = None, {}
    for k in line:
        ak, bk = ab.take(a, k, axis), ab.take(b, k, axis)
        y = bk if y is None else ab.where(ak, y, 0.0) + bk if ak.dtype == bool else ak * y + bk
        rows[k] = y
    return [rows[k] for k in range(n)]


def stacked(rows, axis):
    return np.stack([np.asarray(r) for r in rows], axis)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("reverse", [False, True])
def test_it_is_the_loop(axis, reverse):
    rng = np.random.default_rng(0)
    a, b, w = rng.normal(size=(3, 3, 4))
    wanted = stacked(looped(a, b, axis, reverse), axis)
    assert ab.linear_recurrence(a, b, axis, reverse) == pytest.approx(wanted, rel=1e-15)
    keep = a > 0
    kept = stacked(looped(keep, b, axis, reverse), axis)
    assert ab.linear_recurrence(keep, b, axis, reverse) == pytest.approx(kept, rel=1e-15)

    def loss(a, b):
        return ab.sum(ab.sin(ab.linear_recurrence(a, b, axis, reverse)) * w)

    def loop_loss(a, b):
        rows = looped(a, b, axis, reverse)
        return sum(ab.sum(ab.sin(y) * np.take(w, k, axis)) for k, y in enumerate(rows))

    for slot in (0, 1):
        assert ab.grad(loss, slot)(a, b) == pytest.approx(ab.grad(loop_loss, slot)(a, b), rel=1e-12)
        found, wanted = (
            ab.grad(lambda a, b, g=g: ab.sum(g(a, b) * w), (0, 1))(a, b)
            for g in (ab.grad(loss, slot), ab.grad(loop_loss, slot))
        )
        for one, other in zip(found, wanted, strict=True):
            assert one == pytest.approx(other, rel=1e-11, abs=1e-13)


def test_a_number_broadcasts():
    """Discounted sums: what an agent's return is."""
    rewards = np.array([1.0, 0.0, 4.0])
    assert ab.linear_recurrence(0.5, rewards, reverse=True).tolist() == [2.0, 2.0, 4.0]
    assert ab.grad(lambda g: ab.linear_recurrence(g, rewards, reverse=True)[0])(0.5) == 4.0
    rows = ab.linear_recurrence(np.array([1.0, 2.0]), np.ones((3, 1)), axis=0)
    assert rows.tolist() == [[1, 1], [2, 3], [3, 7]]


def test_values_are_strict_and_derivatives_absorb(grad):
    """0 times inf is NaN in the value; a slope that is exactly 0 is not spoilt by it."""
    with np.errstate(all="ignore"):
        assert np.isnan(ab.linear_recurrence(np.array([1.0, inf]), np.array([0.0, 1.0]))[1])
    f = lambda b: ab.linear_recurrence(np.array([1.0, inf, nan]), b)[0]  # noqa: E731
    assert grad(f)([2.0, 1.0, 1.0]).tolist() == [1.0, 0.0, 0.0]
    by_a = grad(lambda a: ab.linear_recurrence(a, np.array([inf, 1.0]))[0])
    assert by_a([2.0, 3.0]).tolist() == [0.0, 0.0]


def test_what_is_absorbed_does_not_depend_on_the_coefficient():
    """The value is 0 whatever a is, so an infinite slope above it meets a 0 and not a NaN."""
    f = lambda a: ab.sqrt(recurrence(a, np.array([0.0, 0.0]), 0, False)[1])  # noqa: E731
    with np.errstate(all="ignore"):
        assert ab.grad(f)(np.array([1.0, 3.0])).tolist() == [0.0, 0.0]


def test_the_first_coefficient_is_not_used(grad):
    for first in (nan, inf, 5.0):
        found = grad(lambda a: ab.sum(ab.linear_recurrence(a, np.array([1.0, 2.0]))))([first, 3.0])
        assert found.tolist() == [0.0, 1.0]
    assert ab.linear_recurrence(np.array([nan, 3.0]), np.array([1.0, 2.0])).tolist() == [1.0, 5.0]


@pytest.mark.parametrize("dtype", [np.float16, ab.bfloat16], ids=str)
def test_halves_are_carried_wide(dtype):
    ones = np.ones(5_000, dtype)
    found = ab.linear_recurrence(ones, ones)
    assert found.dtype == dtype
    assert float(found[-1]) == float(np.asarray(5_000.0).astype(dtype))


def test_integers_bools_and_shapes():
    assert ab.linear_recurrence(np.array([2, 2, 2]), np.array([1, 1, 1])).tolist() == [1, 3, 7]
    with pytest.raises(ab.DTypeError, match="bool-arithmetic"):
        ab.linear_recurrence(np.ones(2), np.ones(2, bool))
    with pytest.raises(ab.ShapeError, match="shape-mismatch"):
        ab.linear_recurrence(np.ones(2), np.ones(3))
    with pytest.raises(ab.OutOfRangeError, match="axis-out-of-range"):
        ab.linear_recurrence(np.ones(2), np.ones(2), axis=1)
