"""The native backend: what is fused, what is called back, where values lie."""

import gc
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

import anabranch as ab
from anabranch.backends.native.program import Program
from anabranch.backends.native.schedule import Island

X = np.linspace(-2.0, 2.0, 12).reshape(3, 4)


def program(f: object, *args: object) -> Program:
    return Program(ab.compile(f, passes=()).graph(*args), 64)  # type: ignore[arg-type]


def kinds(made: Program) -> list[str]:
    return [type(step).__name__ for step in made.steps]


def test_a_chain_with_a_sum_and_two_results_is_one_loop() -> None:
    def f(x, b):
        y = (x + b) * 2.0
        return y, ab.sum(y * y), ab.sum(y, axis=0)

    made = program(f, X, np.ones(4))
    assert kinds(made) == ["Loop"]
    assert made.workspace == 0  # everything stays in registers or goes straight to a result


def test_what_reads_a_sum_waits_for_it() -> None:
    made = program(lambda x: x / ab.sum(x), X)
    assert [step.stage for step in made.steps] == [0, 1]


def test_moving_elements_costs_nothing() -> None:
    made = program(lambda x: (x.T[::-1] + 1.0).reshape(2, 6) * 2.0, X)
    assert kinds(made) == ["Loop", "Loop"]  # the sum over (4, 3), its reshape over (2, 6)


def test_what_has_no_code_is_called_back_with_a_reason() -> None:
    made = program(lambda x: ab.sum(ab.linalg.inv(x)), np.eye(3))
    assert kinds(made) == ["Island", "Loop"]
    island = made.steps[0]
    assert isinstance(island, Island)
    assert island.reason == "LAPACK computes it, through NumPy"


def test_dead_values_make_room() -> None:
    def f(x):
        for _ in range(20):
            x = x @ x
        return x

    made = program(f, np.eye(8))
    assert made.workspace == 2 * 8 * 8 * 8  # one is read while the next is written


def test_a_number_that_does_not_fit_is_refused_beside_one_that_does() -> None:
    x = np.array([1, 2], np.int8)
    assert ab.compile(lambda x: x + 100, backend="native")(x).tolist() == [101, 102]
    for f in (lambda x: (x + 100, x + 300), lambda x: (x * 2, x * -200)):
        for backend in ("native", "reference"):
            with pytest.raises(OverflowError, match="out of bounds for int8"):
                ab.compile(f, backend=backend)(x)


@pytest.mark.slow
def test_long_chains_are_cut_into_bodies_of_bounded_length() -> None:
    def f(x):
        for _ in range(1_000):
            x = x * 0.5 + 1.0
        return x

    made = program(f, X)
    assert [len(step.nodes) for step in made.steps] == [256] * 7 + [208]  # type: ignore[union-attr]
    np.testing.assert_array_equal(ab.compile(f, backend="native")(X), ab.compile(f)(X))


@pytest.mark.slow
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


SIZES = [(1, 1, 1), (2, 3, 4), (5, 7, 9), (14, 16, 32), (13, 1, 17), (64, 300, 40), (3, 600, 5)]
SIZES += [(33, 257, 65), (1, 50, 40), (40, 50, 1), (0, 3, 2), (2, 0, 3), (17, 300, 130)]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_products_of_every_layout(size: tuple[int, int, int], dtype: type) -> None:
    rows, depth, columns = size
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=s).astype(dtype) for s in ((rows, depth), (depth, columns)))
    wanted = np.matmul(a.astype(np.float64), b.astype(np.float64))
    bound = max(depth, 1) * np.finfo(dtype).eps * (np.abs(a) @ np.abs(b)).max(initial=0)
    for left, x in (
        (lambda v: v, a),
        (lambda v: v.T, a.T.copy()),
        (lambda v: v[::2], a.repeat(2, 0)),
    ):
        for right, y in (
            (lambda v: v, b),
            (lambda v: v.T, b.T.copy()),
            (lambda v: v[:, ::2], b.repeat(2, 1)),
        ):
            f = ab.compile(
                lambda x, y, left=left, right=right: left(x) @ right(y), backend="native"
            )
            found = f(x, y)
            assert kinds(f.program(x, y).executable.program) == ["Product"]
            assert found.dtype == dtype
            np.testing.assert_allclose(found, wanted, rtol=0, atol=bound)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((5, 2, 3), (5, 3, 4)), ((5, 1, 2, 3), (4, 3, 2)), ((3,), (4, 3, 2)), ((4, 2, 3), (3,)),
        ((3,), (3,)), ((0, 2, 3), (3, 4)),
    ],
)  # fmt: skip
def test_products_of_stacks_and_vectors(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=a), rng.normal(size=b)
    np.testing.assert_allclose(ab.compile(ab.matmul, backend="native")(x, y), x @ y, rtol=1e-13)


def test_without_llvmlite_the_reference_runs_and_it_is_said_once() -> None:
    program = """
import sys, warnings
sys.modules["llvmlite"] = None
import anabranch as ab
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    for n in range(3):
        assert float(ab.compile(lambda x: x * 2.0 + n, backend="native")(3.0)) == 6.0 + n
(one,) = seen
assert "pip install llvmlite" in str(one.message), one
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_importing_the_library_loads_no_llvm() -> None:
    program = "import sys, anabranch; assert 'llvmlite' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("dtype", ["c16", "c8"])
def test_complex_arrays_are_moved(dtype: str) -> None:
    z = (X + 1j * X[::-1]).astype(dtype)
    f = ab.compile(lambda z: (z, z.T, z[::-1, 1:3], z[1, 2], z), backend="native")
    for found, wanted in zip(f(z), (z, z.T, z[::-1, 1:3], z[1, 2], z), strict=True):
        assert found.dtype == z.dtype
        np.testing.assert_array_equal(found, wanted)
