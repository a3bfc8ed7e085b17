"""ab.config(broadcast="strict"): no axis is added that nobody wrote."""

import numpy as np
import pytest

import anabranch as ab
from anabranch.core.registry import registered_ops

COLUMN, ROW = np.ones((128, 1)), np.ones(128)


def by_hand():
    g = ab.Graph("demo")
    return g.parameter("pred", (128, 1), ab.float64) - g.parameter("target", (128,), ab.float64)


WAYS = {
    "eager": lambda: ab.tensor(COLUMN, requires_grad=True) - ROW,
    "values": lambda: ab.subtract(COLUMN, ROW),
    "traced": lambda: ab.compile(lambda p, t: p - t)(COLUMN, ROW),
    "differentiated": lambda: ab.grad(lambda p, t: ab.sum((p - t) ** 2))(COLUMN, ROW),
    "by hand": by_hand,
    "a mask": lambda: ab.where(COLUMN > 0, ROW, 0.0),
}


@pytest.mark.proves("S1-47")
@pytest.mark.parametrize("way", WAYS)
def test_axes_that_nobody_wrote_are_refused_with_both_shapes(way: str) -> None:
    WAYS[way]()  # legal as NumPy has it
    with ab.config(broadcast="strict"), pytest.raises(ab.ShapeError) as caught:
        WAYS[way]()
    assert caught.value.code == "strict-broadcast"
    assert "(128, 1)" in str(caught.value) and "(128,)" in str(caught.value)
    assert "test_strictness.py" in str(caught.value)
    WAYS[way]()


@pytest.mark.proves("S1-47")
def test_what_was_written_passes() -> None:
    x = ab.tensor(COLUMN, requires_grad=True)
    with ab.config(broadcast="strict"):
        for y in (
            x * 2.0,
            x - ROW[:, None],
            x + np.ones((1, 3)),
            x * ab.tensor(2.0),
            x + np.float64(1),
        ):
            assert y.shape[0] == 128
        assert ab.softmax(x @ np.ones((1, 4))).shape == (128, 4)
        assert ab.compile(lambda x: ab.softmax(x) * 2.0)(COLUMN).shape == (128, 1)
        (x * x).sum().backward()
    assert x.grad.shape == (128, 1)


def test_functions_of_the_library_broadcast_inside() -> None:
    with ab.config(broadcast="strict"):
        assert ab.cov(np.ones((2, 3)) * np.arange(3.0)).shape == (2, 2)
        assert ab.grad(lambda x: ab.var(x, axis=0).sum())(np.ones((3, 2))).shape == (3, 2)


@pytest.mark.proves("S1-47")
def test_every_op_has_a_shape_rule() -> None:
    assert all(callable(op.aval) for op in registered_ops())


def test_strict_and_stopping_at_what_is_not_finite_hold_together() -> None:
    with ab.config(broadcast="strict", nonfinite="raise"):
        with pytest.raises(ab.ShapeError, match="strict-broadcast"):
            ab.tensor(COLUMN) - ROW
        with pytest.raises(FloatingPointError):
            ab.log(ab.tensor(0.0))
