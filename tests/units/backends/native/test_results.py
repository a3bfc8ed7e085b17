"""Results lie in memory that is used again, and are arrays as any other to everybody else."""

import gc
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

import anabranch as ab
from anabranch.backends.native import layout
from anabranch.backends.native.results import ResultPool, result_pool, size_class

X = np.arange(40_000.0)  # 320,000 bytes


def double() -> object:
    return ab.compile(lambda x: x * 2.0, backend="native")


def handler(array: np.ndarray) -> str:
    return np._core.multiarray.get_handler_name(array)  # type: ignore[attr-defined]


@pytest.fixture
def spares() -> ResultPool:
    found = result_pool()
    assert found is not None  # this NumPy says who frees memory
    ab.trim()
    return found


def test_a_dropped_result_makes_room_for_the_next(spares: ResultPool) -> None:
    f = double()
    first = f(X)
    place = first.ctypes.data
    assert handler(first) == "anabranch"
    assert first.flags.owndata
    assert first.flags.writeable
    del first
    assert f(X).ctypes.data == place
    kept = f(X)
    assert kept.ctypes.data == place
    assert f(X).ctypes.data != place
    np.testing.assert_array_equal(kept, X * 2.0)


def test_sizes_have_classes_that_hold_them() -> None:
    def holds(number: int) -> int:
        return 64 * number if number < 4 else (number % 4 + 4) << (number // 4 + 5)

    for size in (*range(70_000), *(2**k + d for k in range(17, 60) for d in (-1, 0, 1))):
        number = size_class(size)
        assert holds(number) >= size
        assert number == 1 or holds(number - 1) < size
    assert size_class(2**62) < 256


def test_machine_code_finds_the_same_class(spares: ResultPool) -> None:
    f = double()
    for n in (1, 7, 8, 9, 100, 129, 5_000, 100_001):
        x = np.ones(n)
        f(x)  # which compiles
        out = f(x)
        place = out.ctypes.data
        out.resize(n + 1, refcheck=False)  # through the pool, in code that sorts sizes itself
        assert handler(out) == "anabranch"
        np.testing.assert_array_equal(out, np.append(x * 2.0, 0.0))
        assert f(x).ctypes.data == place


@pytest.mark.parametrize("n", [2, 100, 10_000, 1_000_000])
def test_resizing_keeps_what_was_there(n: int) -> None:
    f = double()
    f(X[:1_000])
    out = f(X[:1_000])
    assert handler(out) == "anabranch"
    out.resize(n, refcheck=False)
    wanted = np.zeros(n)
    wanted[: min(n, 1_000)] = X[: min(n, 1_000)] * 2.0
    np.testing.assert_array_equal(out, wanted)


def test_results_outlive_their_program_and_every_view_holds_them(spares: ResultPool) -> None:
    f = double()
    out = f(X)
    view, memory = out[10:20], memoryview(out)
    del f, out
    gc.collect()
    others = [double()(X + k) for k in range(3)]
    np.testing.assert_array_equal(view, X[10:20] * 2.0)
    assert memory[39_999] == 79_998.0
    before = spares.living
    del view, memory
    assert spares.living < before
    assert [one[1] for one in others] == [2.0, 4.0, 6.0]


def test_results_travel(spares: ResultPool) -> None:
    out = double()(X)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(out, protocol)), out)
    parts: list[pickle.PickleBuffer] = []
    text = pickle.dumps(out, 5, buffer_callback=parts.append)
    np.testing.assert_array_equal(pickle.loads(text, buffers=parts), out)
    assert handler(out.copy()) != "anabranch"  # NumPy's own arrays stay NumPy's


def test_freed_in_another_thread(spares: ResultPool) -> None:
    f = double()
    wrong: list[int] = []

    def work(k: int) -> None:
        x = X[: 1_000 * (k + 1)] + k
        held: list[np.ndarray] = []
        for i in range(200):
            held.append(f(x))
            if i % 7 == 0:
                box.append(held.pop(0))  # the other threads free it
            if len(box) > 5:
                box.clear()
            if len(held) > 3:
                del held[0]
            if not all(np.array_equal(one, x * 2.0) for one in held):
                wrong.append(k)

    box: list[np.ndarray] = []
    for k in range(4):
        f(X[: 1_000 * (k + 1)])
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


def test_what_rests_stays_under_the_limit(spares: ResultPool) -> None:
    f = double()
    held = [f(X) for _ in range(10)]
    size = 64 * 5_120  # the class of 320,000 bytes
    before = ab.set_spare_limit(3 * size)
    try:
        del held
        assert spares.resting == 3 * size
        assert ab.set_spare_limit(size) == 3 * size
        assert spares.resting == size
        assert ab.trim(size) == 0
        assert ab.trim() == size
        assert spares.resting == 0
    finally:
        ab.set_spare_limit(before)


def test_with_a_limit_of_nothing_nothing_rests(spares: ResultPool) -> None:
    before = ab.set_spare_limit(0)
    try:
        out = double()(X)
        del out
        assert spares.resting == 0
    finally:
        ab.set_spare_limit(before)


def test_blocks_of_old_sizes_go_when_new_ones_are_wanted(spares: ResultPool) -> None:
    rested = []
    for n in range(20_000, 40_000, 1_000):
        out = double()(X[:n])
        rested.append((spares.resting, spares.living))
        del out
    assert all(resting <= living for resting, living in rested)


def test_trim_gives_workspaces_back_too(spares: ResultPool) -> None:
    f = ab.compile(lambda x: ab.exp(x) @ ab.exp(x), backend="native")
    x = np.ones((50, 50))
    size = f.program(x).executable.program.workspace
    assert size > 0
    ab.trim()
    for given in (np.asfortranarray(x), x):  # by the Python way, and by the entry
        assert f(given)[0, 0] == pytest.approx(50 * np.e**2)
        assert ab.trim() >= size
        assert ab.trim() == 0


@pytest.mark.parametrize(("keep", "word"), [(-1, "-1"), (1.5, "1.5"), (True, "True"), ("a", "'a'")])
def test_bytes_are_whole_numbers(keep: object, word: str) -> None:
    for function in (ab.trim, ab.set_spare_limit):
        with pytest.raises(ab.ArgumentError, match=word) as caught:
            function(keep)  # type: ignore[arg-type]
        assert caught.value.code == "bad-argument"


def test_without_handlers_numpy_makes_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "handler_is_known", lambda: False)
    f = double()
    for _ in range(3):
        out = f(X)
        np.testing.assert_array_equal(out, X * 2.0)
        assert handler(out) == "default_allocator"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.slow
def test_after_a_fork_each_process_has_its_own() -> None:
    code = """
import os, numpy as np, anabranch as ab
f = ab.compile(lambda x: x * 2.0, backend="native")
x = np.arange(40_000.0)
held, dropped = f(x), f(x)
del dropped
child = os.fork()
outs = [f(x + k) for k in range(5)]
del held
outs += [f(x + k) for k in range(5)]
good = all(np.array_equal(out, (x + i % 5) * 2.0) for i, out in enumerate(outs))
if child == 0:
    os._exit(0 if good else 1)
print(good, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert _printed(code) == "True 0"


@pytest.mark.slow
def test_at_the_end_of_the_interpreter_results_may_still_be_alive() -> None:
    code = """
import numpy as np, anabranch as ab, sys, builtins
f = ab.compile(lambda x: (x * 2.0, ab.exp(x) @ ab.exp(x)), backend="native")
x = np.ones((50, 50))
kept = [f(x), f(x)]
builtins.kept = kept          # outlives the modules
class Late:
    def __del__(self):
        self.array.resize(5_000, refcheck=False)
late = Late()
late.array = f(x)[0]
sys.late = late
cycle = [f(x)]
cycle.append(cycle)
print("end")
"""
    assert _printed(code) == "end"


def _printed(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout.strip()
