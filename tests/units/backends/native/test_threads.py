"""Threads: whatever their number, the same bits; and a pool that bears forks, crowds and rest."""

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anabranch as ab
from anabranch.backends.native import chunked, executable, partition, threads
from anabranch.backends.native.schedule import Loop

COUNTS = (1, 2, 3, 7)


@pytest.fixture(autouse=True)
def number_of_threads() -> Iterator[None]:
    before = ab.get_num_threads()
    yield
    ab.set_num_threads(before)


@pytest.fixture(params=["for all", "for those awake"])
def cut_everything(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops are cut into chunks however small they are, as large ones or as short ones are."""
    if request.param == "for all":
        monkeypatch.setattr(partition, "CHUNK", 1e-3)
        monkeypatch.setattr(partition, "SHARED_FROM", 0.0)
    else:
        monkeypatch.setattr(chunked, "time_of", lambda *_: 3_000.0)
        monkeypatch.setattr(partition, "_FAR_BYTE", 0.0)


def cuts(f: Any, *args: Any) -> list[Any]:
    return [loop.cut for loop in f.program(*args).executable.program.loops]


def results(f: Any, *args: Any) -> list[list[bytes]]:
    """The bits of all results, for each number of threads."""
    found = []
    for count in COUNTS:
        ab.set_num_threads(count)
        out = f(*args)
        found.append([np.asarray(one).tobytes() for one in (out if type(out) is tuple else (out,))])
    return found


def everything(x: Any, b: Any) -> Any:
    y = ab.tanh(x) * b
    return (
        y, ab.sum(y), ab.sum(y, axis=0), ab.sum(y, axis=-1), ab.max(y), ab.min(y, axis=0),
        ab.any(y > 1.0), ab.all(y < 9.0, axis=-1), y.T.reshape(-1), y[..., ::2], ab.prod(y),
    )  # fmt: skip


SHAPES = [
    *((n,) for n in (1, 2, 7, 31, 32, 33, 100, 4095, 4096, 4097, 8192, 12_289, 20_000)),
    *[(2, 3), (3, 1000), (1000, 3), (64, 65), (5, 7, 11), (3, 4097), (2, 2, 8192), (7, 1, 9)],
]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_cut_gives_the_numbers_of_the_reference(
    cut_everything: None, shape: tuple[int, ...], dtype: type
) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=shape).astype(dtype)
    b = rng.normal(size=shape[-1:]).astype(dtype)
    f = ab.compile(everything, backend="native")
    found = f(x, b)
    for mine, its in zip(found, ab.compile(everything, backend="reference")(x, b), strict=True):
        assert (mine.dtype, mine.shape) == (its.dtype, its.shape)
        bound = 8 * np.finfo(dtype).eps * max(np.abs(x).sum(), 1.0)
        np.testing.assert_allclose(mine, its, rtol=0, atol=bound)
    if x.size > 8192:
        assert any(cuts(f, x, b))
    assert all(bits == results(f, x, b)[0] for bits in results(f, x, b))


@pytest.mark.parametrize("shape", [(3000, 7), (7, 3001), (20_001,)], ids=str)
def test_chunks_write_nothing_beside_their_results(
    cut_everything: None, shape: tuple[int, ...]
) -> None:
    f = ab.compile(everything, backend="native")
    x = np.random.default_rng(0).normal(size=shape)
    b = x.copy() if x.ndim == 1 else x[0].copy()
    wanted, executable_ = f(x, b), f.program(x, b).executable
    assert any(cuts(f, x, b))
    blocks = [np.full(np.asarray(one).nbytes + 2048, 85, np.uint8) for one in wanted]
    constants = executable_._constants
    places = [x.ctypes.data, b.ctypes.data, *(one.ctypes.data for one in constants)]
    table = [*places, *(block.ctypes.data + 1024 for block in blocks)]
    space = executable_._workspace()
    entry = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 3)(
        executable_._load().addresses["entry"]
    )
    given = (ctypes.c_void_p * len(table))(*table)
    assert entry(given, space.ctypes.data, executable_._context.address) == 0
    for block, one in zip(blocks, wanted, strict=True):
        assert block[1024:-1024].tobytes() == np.asarray(one).tobytes()
        assert set(block[:1024]) | set(block[-1024:]) == {85}


def test_large_loops_are_cut_and_small_ones_are_not() -> None:
    f = ab.compile(lambda x: ab.exp(x) + 1.0, backend="native")
    assert cuts(f, np.ones(1_000)) == [None]
    (made,) = cuts(f, np.ones(1_000_000))
    assert 16 <= made.chunks <= partition.MOST


def much(x: Any) -> Any:
    return ab.sum(ab.tanh(x) * ab.exp(x) + ab.tanh(2.0 * x))


def test_short_loops_are_offered_where_they_compute_much_for_what_they_read() -> None:
    f = ab.compile(much, backend="native")
    (made,) = cuts(f, np.ones(1_000))
    assert (made.chunks, made.wakes) == (2, False)
    assert f.explain().kernels[0].order.endswith(", in 2 chunks for threads that are awake")
    assert made.units < 2 * (made.each + made.lead) < 1.5 * made.units  # the others begin later
    assert cuts(f, np.ones(300)) == [None]  # over before it is handed on
    (large,) = cuts(f, np.ones(10_000))
    assert large.wakes
    assert f.explain().kernels[0].order.endswith(f", in {large.chunks} chunks")
    g = ab.compile(lambda x: x + 1.0, backend="native")
    assert cuts(g, np.ones(50_000)) == [None]  # it would be moved from one cache to the other
    assert cuts(g, np.ones(1_000_000))[0].wakes


def test_short_loops_in_a_row_have_the_same_bits_alone_and_together() -> None:
    f = ab.compile(ab.value_and_grad(much), backend="native")
    x = np.random.default_rng(0).normal(size=1_003)
    assert not cuts(f, x)[0].wakes
    seen = set()
    for count in COUNTS:
        ab.set_num_threads(count)
        for _ in range(300):
            seen.add(tuple(np.asarray(one).tobytes() for one in f(x)))
    assert len(seen) == 1


def test_cuts_and_bits_do_not_depend_on_the_number_of_threads() -> None:
    x = np.random.default_rng(0).normal(size=(300, 1001))
    seen = set()
    for count in COUNTS:
        ab.set_num_threads(count)
        f = ab.compile(everything, backend="native")
        seen.add((tuple(cuts(f, x, x[0])), tuple(results(f, x, x[0])[0])))
    assert len(seen) == 1


def test_a_sum_over_the_first_axis_is_cut_where_no_chunk_needs_sums_of_its_own() -> None:
    f = ab.compile(lambda x: ab.sum(x, axis=0), backend="native")
    (wide,) = cuts(f, np.ones((4, 300_000)))
    assert wide.axis == 1
    assert f.program(np.ones((4, 300_000))).executable.program.workspace == 0
    (tall,) = cuts(f, np.ones((300_000, 4)))
    assert tall.axis == 0


def test_empty_and_single_values_are_never_cut(cut_everything: None) -> None:
    f = ab.compile(lambda x: (ab.exp(x), ab.sum(x)), backend="native")
    for x in (np.ones(0), np.ones((0, 3)), np.array(2.0), np.ones(1)):
        assert cuts(f, x) == [None]
        np.testing.assert_array_equal(f(x)[1], x.sum())


def test_an_empty_axis_beside_a_long_one(cut_everything: None) -> None:
    f = ab.compile(lambda x: ab.sum(x, axis=0), backend="native")
    np.testing.assert_array_equal(f(np.ones((0, 1000))), np.zeros(1000))


def test_the_number_of_threads_is_an_integer_from_one() -> None:
    for wrong in (0, -1, 1.0, True, None, "2", threads.MOST + 1):
        with pytest.raises(ab.ArgumentError) as caught:
            ab.set_num_threads(wrong)  # type: ignore[arg-type]
        assert caught.value.code == "bad-argument"
    ab.set_num_threads(3)
    assert ab.get_num_threads() == 3


def test_the_default_is_what_affinity_and_quota_allow(tmp_path: Path) -> None:
    mine = tmp_path / "cgroup"
    mine.write_text("0::/outer/inner\n")
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    allowed = threads.usable_processors(tmp_path, mine)
    (tmp_path / "outer" / "cpu.max").write_text("100000 100000\n")
    (inner / "cpu.max").write_text("max 100000\n")
    assert threads.usable_processors(tmp_path, mine) == 1
    (tmp_path / "outer" / "cpu.max").write_text("50000 100000\n")
    assert threads.usable_processors(tmp_path, mine) == 1
    (tmp_path / "outer" / "cpu.max").write_text("damaged\n")
    assert threads.usable_processors(tmp_path, mine) == allowed
    mine.write_text("4:cpu,cpuacct:/outer\n")
    old = tmp_path / "cpu" / "outer"
    old.mkdir(parents=True)
    (old / "cpu.cfs_quota_us").write_text("150000\n")
    (old / "cpu.cfs_period_us").write_text("100000\n")
    assert threads.usable_processors(tmp_path, mine) == 1
    (old / "cpu.cfs_quota_us").write_text("-1\n")
    assert threads.usable_processors(tmp_path, mine) == allowed


X = np.linspace(-1.0, 1.0, 40_000).reshape(200, 200)


def work(x: Any) -> Any:
    y = ab.tanh(x) + ab.exp(x)
    return y, ab.sum(y * y), ab.sum(y, axis=0)


def same(xs: Any, ys: Any) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(xs, ys, strict=True))


def test_many_python_threads_run_the_same_and_different_programs() -> None:
    ab.set_num_threads(3)
    f, g = ab.compile(work, backend="native"), ab.compile(lambda x: work(x * 2.0), backend="native")
    wanted = f(X), g(X)
    wrong = []

    def many(one: Any, right: Any) -> None:
        for _ in range(200):
            if not same(one(X), right):
                wrong.append(1)

    crowd = [
        threading.Thread(target=many, args=pair)
        for pair in zip((f, g) * 3, wanted * 3, strict=True)
    ]
    for one in crowd:
        one.start()
    ab.set_num_threads(2)  # while they are at it
    for one in crowd:
        one.join()
    assert not wrong


def test_threads_without_work_sleep_and_wake() -> None:
    ab.set_num_threads(2)
    f = ab.compile(work, backend="native")
    wanted = f(X)
    before = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - before < 0.02  # nobody turned round for half a second
    assert same(f(X), wanted)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_process_has_threads_of_its_own() -> None:
    ab.set_num_threads(3)
    f = ab.compile(work, backend="native")
    wanted = f(X)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        good = same(f(X), wanted) and same(f(X), wanted)
        tasks = len(os.listdir("/proc/self/task")) if os.path.exists("/proc/self/task") else 3
        os.write(write, f"{good} {tasks}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 100) == b"True 3"
    assert same(f(X), wanted)
    os.close(read)
    os.close(write)


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="cannot count threads here")
def test_threads_come_with_large_work_and_go_when_fewer_are_wanted() -> None:
    def tasks() -> int:
        return len(os.listdir("/proc/self/task"))

    ab.set_num_threads(1)
    f = ab.compile(work, backend="native")
    short = ab.compile(much, backend="native")
    few = X.reshape(-1)[:1_000]
    f(X)
    short(few)
    assert cuts(short, few)[0]
    alone = tasks()
    ab.set_num_threads(4)
    assert tasks() == alone
    short(few)
    assert tasks() == alone
    f(X)
    assert tasks() == alone + 3
    ab.set_num_threads(2)
    assert tasks() == alone + 1


@pytest.mark.slow
def test_the_interpreter_ends_while_threads_work() -> None:
    program = """
import threading, numpy as np, anabranch as ab
ab.set_num_threads(4)
f = ab.compile(lambda x: ab.sum(ab.tanh(x)), backend="native")
x = np.ones(300_000)
f(x)
def forever():
    while True:
        f(x)
threading.Thread(target=forever, daemon=True).start()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.slow
def test_python_goes_on_while_a_long_program_runs_and_not_for_a_short_one() -> None:
    def is_long(x: np.ndarray) -> bool:
        f = ab.compile(work, backend="native")
        f(x)
        return bool(f.program(x).executable.program.time > executable.LONG)

    assert not is_long(X[:2])
    assert is_long(X)

    f = ab.compile(lambda x: ab.sum(ab.tanh(ab.exp(x))), backend="native")
    x, count, end = np.ones(20_000_000), [0], threading.Event()
    f(x)

    def turn() -> None:
        while not end.is_set():
            count[0] += 1
            time.sleep(1e-4)

    other = threading.Thread(target=turn)
    switch = sys.getswitchinterval()
    sys.setswitchinterval(100.0)  # nobody is made to let go: the program does by itself
    try:
        other.start()
        while not count[0]:
            time.sleep(1e-3)
        before = count[0]
        f(x)
        turned = count[0] - before
    finally:
        sys.setswitchinterval(switch)
        end.set()
        other.join()
    assert turned > 5


@pytest.mark.slow
def test_calls_back_of_a_long_program_hold_the_lock_again() -> None:
    f = ab.compile(lambda x: ab.linalg.inv(ab.tanh(x) + 9.0 * ab.eye(200)) * 2.0, backend="native")
    for _ in range(5):
        np.testing.assert_array_equal(f(X), f(X))
    assert f.program(X).executable.program.islands
    with pytest.raises(ab.OutOfRangeError):
        ab.compile(lambda x, i: ab.tanh(ab.take(work(x)[0], i)), backend="native")(
            X, np.array(10**6)
        )


def test_a_loop_that_is_cut_is_still_one_loop() -> None:
    f = ab.compile(work, backend="native")
    steps = f.program(X).executable.program.steps
    assert [type(step) for step in steps] == [Loop]
