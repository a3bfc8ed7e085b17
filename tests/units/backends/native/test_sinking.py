"""Values that wait for their only reader: what moves, what stays, and that no bit changes."""

from typing import Any

import numpy as np
import pytest

import anabranch as ab
from anabranch.backends.native import schedule
from anabranch.backends.native.program import Program

X, Y = np.linspace(-2.0, 2.0, 35).reshape(5, 7), np.linspace(0.5, 3.0, 35).reshape(5, 7)
W = np.linspace(-1.0, 1.0, 49).reshape(7, 7)


def program(f: Any, *args: Any) -> Program:
    return Program(ab.compile(f, passes=()).graph(*args), 64)


def loops(f: Any, *args: Any) -> list[list[str]]:
    steps = program(f, *args).steps
    return [[n.op.name for n in step.nodes] for step in steps if isinstance(step, schedule.Loop)]


def decayed(m: Any, x: Any, w: Any) -> Any:
    slope = x @ w
    m = 0.9 * m + 0.1 * slope
    return m, x - ab.sqrt(m * m) * 0.5


def test_what_one_later_loop_reads_is_computed_there() -> None:
    (loop,) = loops(decayed, X, Y, W)
    assert loop == ["multiply", "multiply", "add", "multiply", "sqrt", "multiply", "subtract"]
    product, _ = program(decayed, X, Y, W).steps
    assert list(program(decayed, X, Y, W).rooms) == [(product.node.id, 0)]


def test_a_chain_moves_as_a_whole() -> None:
    (loop,) = loops(lambda x, w: ab.exp(ab.sin(x * 2.0)) + x @ w, X, W)
    assert loop == ["multiply", "sin", "exp", "add"]


def test_what_two_loops_read_stays_and_so_does_a_result() -> None:
    def shared(x: Any, w: Any) -> Any:
        half = x * 0.5
        first = ab.tanh(half + x @ w)
        return ab.sum(first @ w * half)

    assert loops(shared, X, W)[0] == ["multiply"]
    kept = loops(lambda x, w: ((half := x * 0.5), half + x @ w), X, W)
    assert kept[0] == ["multiply"]


def test_what_would_make_the_reader_read_more_stays() -> None:
    assert loops(lambda x, y, w: x * y + x @ w, X, Y, W)[0] == ["multiply"]
    masked = loops(lambda x, y, w: ab.where(x * 3.0 > 1.0, y @ w, 0.0), X, Y, W)
    assert masked[0] == ["multiply", "greater"]
    (loop,) = loops(lambda x, y, w: x * y + x @ w * y - x, X, Y, W)  # it reads both anyhow
    assert loop == ["multiply", "multiply", "add", "subtract"]


def test_no_body_grows_beyond_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "LONGEST", 2)

    def f(x: Any, w: Any) -> Any:
        return ab.sin(x) + ab.cos(x * 2.0) * (x @ w)

    assert max(map(len, loops(f, X, W))) <= 2
    np.testing.assert_allclose(
        ab.compile(f, backend="native")(X, W), np.sin(X) + np.cos(X * 2.0) * (X @ W), rtol=1e-14
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_bits_are_those_of_steps_that_stay(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    args = [v.astype(dtype) for v in (X, Y, W)]
    moved = ab.compile(decayed, backend="native", donate="m")(args[0].copy(), *args[1:])
    monkeypatch.setattr(schedule.Sinking, "run", lambda self: None)
    stayed = ab.compile(decayed, backend="native")(*args)
    for one, other in zip(moved, stayed, strict=True):
        assert one.tobytes() == other.tobytes()
