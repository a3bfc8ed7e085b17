"""Products over several axes at once, in any order of axes."""

from itertools import combinations

import numpy as np
import pytest

import anabranch as ab
from anabranch.ops.product import as_lines, from_lines


@pytest.mark.parametrize("axes", [c for n in range(4) for c in combinations(range(3), n)])
def test_lines_can_be_put_together_again(axes):
    x = np.arange(24.0).reshape(2, 3, 4)
    lines = as_lines(x, axes)
    assert lines.shape == (*(n for a, n in enumerate(x.shape) if a not in axes), lines.shape[-1])
    assert np.array_equal(from_lines(lines, axes, x), x)
    assert lines.sum(axis=-1) == pytest.approx(x.sum(axis=axes))


@pytest.mark.parametrize("axis", [(0, 2), (2, 0), (-1, 0), (1,), (0, 1, 2), None, ()])
@pytest.mark.parametrize("zeros", [0, 1, 3])
def test_several_axes_are_one_after_the_other(axis, zeros):
    x = np.random.default_rng(4).normal(size=(2, 3, 2))
    x.flat[[1, 5, 11][:zeros]] = 0.0
    weights = np.random.default_rng(5).normal(size=np.prod(x, axis=axis).shape)

    def at_once(x):
        return ab.sum(ab.prod(x, axis=axis) * weights)

    def step_by_step(x):
        axes = range(3) if axis is None else sorted({a % 3 for a in axis})
        for one in reversed(axes):
            x = ab.prod(x, axis=one)
        return ab.sum(x * weights)

    assert ab.grad(at_once)(x) == pytest.approx(ab.grad(step_by_step)(x), rel=1e-13)
    assert ab.check_gradients(at_once, x).ok
    assert ab.check_gradients(lambda x: ab.sum(ab.grad(at_once)(x) ** 2), x).ok


def test_a_slope_follows_the_products_in_their_order():
    """Before times after, as the loop does: each may leave the range though the result does not."""
    x = np.array([1e-200, 1e-100, 1e200, 1e200])
    with np.errstate(over="ignore"):
        found = ab.grad(ab.prod)(x)
        product = lambda x: x[0] * x[1] * x[2] * x[3]  # noqa: E731
        assert found.tolist() == ab.grad(product)(x).tolist()
