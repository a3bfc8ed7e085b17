"""New tensors: NumPy's content and dtypes, nodes in a trace, derivatives through what fills."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import anabranch as ab

M = np.arange(6.0, dtype=np.float32).reshape(2, 3)
CASES: dict[str, Callable[[Any], Any]] = {
    "zeros": lambda m: m.zeros((2, 3)),
    "zeros of a length": lambda m: m.zeros(3, m.int64),
    "zeros of none": lambda m: m.zeros((0, 2)),
    "ones": lambda m: m.ones((), m.float32),
    "ones of bools": lambda m: m.ones(2, bool),
    "full": lambda m: m.full((2, 2), 7.0),
    "full of an integer": lambda m: m.full(2, 7),
    "full of a bool": lambda m: m.full(2, True),
    "full of a scalar": lambda m: m.full(2, np.float32(7)),
    "full of an array": lambda m: m.full((2, 3), np.arange(3.0)),
    "full, cast": lambda m: m.full(2, 7, m.float16),
    "full_like": lambda m: m.full_like(M, 7),
    "full_like of others": lambda m: m.full_like(M, 7.5, dtype=m.float64),
    "zeros_like": lambda m: m.zeros_like(M),
    "ones_like": lambda m: m.ones_like(M, dtype=m.int32),
    "ones_like of a number": lambda m: m.ones_like(2.5),
    "ones_like of a list": lambda m: m.ones_like([1, 2]),
    "arange": lambda m: m.arange(5),
    "arange of floats": lambda m: m.arange(1.0, 2.0, 0.25),
    "arange back": lambda m: m.arange(5, -5, -3),
    "arange of none": lambda m: m.arange(5, 2),
    "arange, cast": lambda m: m.arange(3, dtype=m.float32),
    "arange from to": lambda m: m.arange(2, 5),
    "linspace": lambda m: m.linspace(0, 1, 5),
    "linspace open": lambda m: m.linspace(0.0, 1.0, 4, endpoint=False),
    "linspace of one": lambda m: m.linspace(3.0, 9.0, 1),
    "linspace of none": lambda m: m.linspace(3.0, 9.0, 0),
    "linspace of arrays": lambda m: m.linspace(np.array([0.0, 1.0]), 2.0, 3),
    "eye": lambda m: m.eye(3),
    "eye above": lambda m: m.eye(2, 3, 1, dtype=m.int64),
}


@pytest.mark.parametrize("name", CASES)
def test_content_and_dtype_are_numpys(name: str) -> None:
    make = CASES[name]
    wanted = np.asarray(make(np))
    made = make(ab)
    assert type(made) is ab.Tensor and not made.requires_grad
    assert (made.shape, made.dtype) == (wanted.shape, wanted.dtype)
    assert made.numpy().tolist() == wanted.tolist()
    assert made.data.flags.writeable  # a leaf, that may be changed like any other
    run = ab.compile(lambda x: make(ab) + 0 * x)
    assert np.asarray(run(np.zeros((), np.int64))).tolist() == (wanted + 0).tolist()


def test_empty_tensors_have_equal_bits() -> None:
    assert ab.empty((2, 3)).numpy().tolist() == ab.empty_like(M).numpy().tolist() == [[0.0] * 3] * 2
    assert ab.empty_like(M).dtype == np.float32


def test_one_repeated_value_is_a_node_and_no_array() -> None:
    g = ab.trace(lambda x: x + ab.zeros((1000,)) + ab.full_like(x, 2.0), np.ones(1000))
    assert [node.op.name for node in g.nodes] == [
        "parameter", "broadcast_to", "add", "broadcast_to", "add",
    ]  # fmt: skip


def test_derivatives_pass_through_what_fills() -> None:
    assert float(ab.grad(lambda c: ab.sum(ab.full((2, 3), c) * M))(2.0)) == 15.0
    assert float(ab.grad(lambda c: ab.sum(ab.full_like(M, c)))(2.0)) == 6.0
    slopes = ab.grad(lambda a, b: ab.sum(ab.linspace(a, b, 5) ** 2), (0, 1))(0.0, 1.0)
    assert [float(s) for s in slopes] == pytest.approx([1.25, 3.75])
    ends = ab.linspace(ab.tensor([0.0, 2.0]), ab.tensor(4.0), 3)
    assert ends.numpy().tolist() == [[0.0, 2.0], [2.0, 3.0], [4.0, 4.0]]
    assert ab.linspace(ab.tensor(0.1), ab.tensor(0.7), 7).numpy()[[0, -1]].tolist() == [0.1, 0.7]


REFUSED: dict[str, tuple[str, Callable[[], Any]]] = {
    "a negative length": ("bad-shape", lambda: ab.zeros(-1)),
    "no shape": ("bad-shape", lambda: ab.zeros("2")),
    "a dtype": ("unsupported-dtype", lambda: ab.zeros(2, object)),
    "a fill that is cut": ("fill-dtype", lambda: ab.full(2, 0.5, int)),
    "a fill that is too large": ("fill-dtype", lambda: ab.full(2, 300, np.uint8)),
    "a fill of another shape": ("shape-mismatch", lambda: ab.full(2, np.ones(3))),
    "no step": ("bad-argument", lambda: ab.arange(0, 5, 0)),
    "a computed end": ("traced-value", lambda: ab.trace(lambda n: ab.arange(n), 5)),
    "a negative number": ("bad-shape", lambda: ab.linspace(0.0, 1.0, -2)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused_by_code(name: str) -> None:
    code, call = REFUSED[name]
    with pytest.raises(ab.AnabranchError) as caught:
        call()
    assert caught.value.code == code
