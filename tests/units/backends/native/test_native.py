"""The native backend: what is fused, what is called back, where values lie."""

import gc
import threading
import weakref

import numpy as np
import pytest

import anabranch as ab

pytest.importorskip("llvmlite")

from anabranch.backends.native.program import Program
from anabranch.backends.native.schedule import Island, Loop

X = np.linspace(-2.0, 2.0, 12).reshape(3, 4)


def program(f: object, *args: object) -> Program:
    return Program(ab.compile(f, passes=()).graph(*args), 64)  # type: ignore[arg-type]


def kinds(made: Program) -> list[str]:
    return ["loop" if isinstance(step, Loop) else "island" for step in made.steps]


def test_a_chain_with_a_sum_and_two_results_is_one_loop() -> None:
    def f(x, b):
        y = (x + b) * 2.0
        return y, ab.sum(y * y), ab.sum(y, axis=0)

    made = program(f, X, np.ones(4))
    assert kinds(made) == ["loop"]
    assert made.workspace == 0  # everything stays in registers or goes straight to a result


def test_what_reads_a_sum_waits_for_it() -> None:
    made = program(lambda x: x / ab.sum(x), X)
    assert [step.stage for step in made.steps] == [0, 1]


def test_moving_elements_costs_nothing() -> None:
    made = program(lambda x: (x.T[::-1] + 1.0).reshape(2, 6) * 2.0, X)
    assert kinds(made) == ["loop", "loop"]  # the sum over (4, 3), its reshape over (2, 6)


def test_what_has_no_code_is_called_back_with_a_reason() -> None:
    made = program(lambda x, y: ab.sum(x @ y), X, X.T)
    assert kinds(made) == ["island", "loop"]
    island = made.steps[0]
    assert isinstance(island, Island)
    assert island.reason == "matmul has no machine code yet"


def test_dead_values_make_room() -> None:
    def f(x):
        for _ in range(20):
            x = x @ x
        return x

    made = program(f, np.eye(8))
    assert made.workspace == 2 * 8 * 8 * 8  # one is read while the next is written


def test_long_chains_are_cut_into_bodies_of_bounded_length() -> None:
    def f(x):
        for _ in range(1_000):
            x = x * 0.5 + 1.0
        return x

    made = program(f, X)
    assert [len(step.nodes) for step in made.steps] == [256] * 7 + [208]  # type: ignore[union-attr]
    np.testing.assert_array_equal(ab.compile(f, backend="native")(X), ab.compile(f)(X))


def test_every_length_and_its_tail() -> None:
    def f(x, b):
        return x * b + 1.0, ab.sum(x * b), ab.sum(x, axis=0), ab.sum(x, axis=1)

    for n in (*range(0, 40), 8191, 8192, 8193, 20_000):
        for dtype in (np.float64, np.float32):
            x = np.random.default_rng(n).normal(size=(2, n)).astype(dtype)
            fast, judge = ab.compile(f, backend="native"), ab.compile(f)
            for mine, its in zip(fast(x, x[1]), judge(x, x[1]), strict=True):
                assert mine.dtype == its.dtype
                scale = max(np.abs(x).sum(), 1.0)
                np.testing.assert_allclose(mine, its, rtol=0, atol=scale * np.finfo(dtype).eps)


def test_results_share_no_memory_with_arguments_or_each_other() -> None:
    f = ab.compile(lambda x: (x, x.T, x * 1.0, x * 1.0), backend="native")
    x = X.copy()
    results = f(x)
    for i, one in enumerate(results):
        one[...] = i
    np.testing.assert_array_equal(x, X)
    assert [one.flat[0] for one in results] == [0, 1, 2, 3]


def test_an_error_in_a_call_back_reaches_the_user_with_the_line() -> None:
    f = ab.compile(lambda x, i: ab.take(x, i) * 2.0, backend="native")
    f(X[0], np.array([1]))
    with pytest.raises(ab.OutOfRangeError) as caught:
        f(X[0], np.array([9]))
    assert "running" in str(caught.value)
    np.testing.assert_array_equal(f(X[0], np.array([1])), X[0, [1]] * 2.0)


def test_threads_run_one_program_at_once() -> None:
    f = ab.compile(lambda x: ab.exp(x @ x.T) / 3.0 + x[:, :3], backend="native")
    wanted = f(X)
    wrong = []

    def work() -> None:
        for _ in range(50):
            if not np.array_equal(f(X), wanted):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_program_is_freed_with_its_function() -> None:
    f = ab.compile(lambda x: x * 2.0, backend="native")
    f(X)
    held = weakref.ref(f.program(X).executable)
    gc.disable()
    try:
        del f
        assert held() is None
    finally:
        gc.enable()
    assert held() is None


def test_what_is_logged_prints_at_each_run(capsys: pytest.CaptureFixture[str]) -> None:
    f = ab.compile(lambda x: (x * 2.0).log("twice") + 1.0, backend="native")
    f(np.array(1.0))
    capsys.readouterr()
    f(np.array(3.0))
    assert capsys.readouterr().out == "twice = 6.0\n"
