"""The pool itself, called with tasks in Python: who does which chunk when a thread is held up."""

import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from anabranch.backends.native import loading, modules, pool

pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity"), reason="this system does not tell of processors"
)
Task = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
Work = Callable[[int], None]
LONG = 10.0  # seconds within which the others surely come


def alone(chunks: int) -> list[tuple[int, int]]:
    return [(chunk, threading.get_ident()) for chunk in range(chunks)]


def is_shared(done: list[tuple[int, int]]) -> bool:
    return len({who for _, who in done}) == 2


class Steps:
    """Runs steps of so many chunks on a pool of threads; tells who did each, in order."""

    def __init__(self, threads: int = 2) -> None:
        known = pool._known_functions()
        assert known is not None
        code = modules.object_code(pool._text(True))
        names = ["run", "offer", "resize", "reset"]
        self._loaded = loading.Loaded([code], names, known)
        at = self._loaded.addresses
        self.reset = ctypes.CFUNCTYPE(None)(at["reset"])
        self._resize = ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_int64)(at["resize"])
        kind = ctypes.CFUNCTYPE(None, Task, ctypes.c_void_p, ctypes.c_int64)
        self._run, self._offer = kind(at["run"]), kind(at["offer"])
        self.reset()
        self._resize(threads, 0)

    def end(self) -> None:
        self._resize(1, 0)

    def __call__(self, work: Work, chunks: int) -> list[tuple[int, int]]:
        return self._done(self._run, work, chunks)

    def offered(self, work: Work, chunks: int) -> list[tuple[int, int]]:
        return self._done(self._offer, work, chunks)

    def _done(self, call: Callable[..., None], work: Work, chunks: int) -> list[tuple[int, int]]:
        done: list[tuple[int, int]] = []

        def task(_: Any, chunk: int) -> None:
            work(chunk)
            done.append((chunk, threading.get_ident()))

        call(Task(task), None, chunks)
        assert sorted(chunk for chunk, _ in done) == list(range(chunks))  # each of them once
        return done


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Times so long that a busy machine changes nothing."""
    monkeypatch.setattr(pool, "LEAST", int(LONG * 1e9))
    monkeypatch.setattr(pool, "MOMENT", 50_000_000)
    monkeypatch.setattr(pool, "PATIENCE", 100_000_000)
    monkeypatch.setattr(pool, "SOON", int(LONG * 1e9))
    return monkeypatch


@pytest.fixture
def steps(patient: pytest.MonkeyPatch) -> Iterator[Steps]:
    made = Steps()
    yield made
    made.end()


@pytest.fixture
def on_the_lookout(patient: pytest.MonkeyPatch) -> Iterator[Steps]:
    """A pool whose threads look out for so long that another step surely comes."""
    patient.setattr(pool, "LOOKOUT", 500_000_000)
    patient.setattr(pool, "GLANCE", 500_000_000)
    made = Steps()
    yield made
    made.end()


def held_up(how: Callable[[], None]) -> Callable[[int], None]:
    """Two chunks: the caller waits in its own until the other thread has begun its own."""
    caller, begun = threading.get_ident(), threading.Event()

    def work(_: int) -> None:
        if threading.get_ident() == caller:
            assert begun.wait(LONG)
            time.sleep(0.02)  # until the other has come to what it does
        else:
            begun.set()
            how()

    return work


def stand_still() -> None:
    time.sleep(0.2)  # no processor runs it: the same as when another process has taken that


def test_after_a_thread_has_lost_its_processor_short_steps_are_the_callers(steps: Steps) -> None:
    assert is_shared(steps(held_up(stand_still), 2))
    done = steps(lambda chunk: time.sleep(0.002), 8)
    assert done == alone(8)


def test_a_step_that_takes_longer_is_opened_to_the_others(steps: Steps) -> None:
    steps(held_up(stand_still), 2)
    wait_for_others = held_up(lambda: None)

    def work(chunk: int) -> None:
        if chunk == 0:
            time.sleep(2e-9 * pool.PATIENCE)
        else:
            wait_for_others(chunk)

    done = steps(work, 6)
    assert done[0] == (0, threading.get_ident())
    assert is_shared(done)


def test_a_thread_that_computes_for_long_has_lost_nothing(steps: Steps) -> None:
    def compute() -> None:
        end = time.thread_time() + 0.1
        while time.thread_time() < end:
            pass

    steps(held_up(compute), 2)
    assert is_shared(steps(held_up(lambda: None), 2))


def nothing(_: int) -> None:
    pass


def test_a_short_step_is_shared_with_a_thread_that_looks_out(on_the_lookout: Steps) -> None:
    on_the_lookout(held_up(lambda: None), 2)
    for _ in range(3):
        done = on_the_lookout.offered(held_up(lambda: None), 2)
        assert is_shared(done)


def test_short_steps_wake_a_thread_once_they_follow_one_another(steps: Steps) -> None:
    for before in (pool.OFTEN, pool.OFTEN - 1):
        for _ in range(before):
            assert steps.offered(nothing, 3) == alone(3)
        assert is_shared(steps.offered(held_up(lambda: None), 2))
        time.sleep(0.05)  # until it sleeps


def test_many_chunks_are_claimed_in_runs_and_few_one_by_one(steps: Steps) -> None:
    done = steps(held_up(lambda: None), 64)
    mine = [chunk for chunk, who in done if who == threading.get_ident()]
    others = [chunk for chunk, who in done if who != threading.get_ident()]
    assert mine[:16] == list(range(16))
    assert others[:12] == list(range(52, 64))
    few = steps(held_up(lambda: None), 4)
    assert dict(few)[3] != threading.get_ident()


def test_short_steps_far_from_one_another_wake_nobody(patient: pytest.MonkeyPatch) -> None:
    patient.setattr(pool, "SOON", 0)
    steps, before = Steps(), len(os.listdir("/proc/self/task"))
    for _ in range(3 * pool.OFTEN):
        assert steps.offered(nothing, 3) == alone(3)
    assert len(os.listdir("/proc/self/task")) == before


def test_after_a_thread_has_lost_its_processor_nothing_is_offered(steps: Steps) -> None:
    steps(held_up(stand_still), 2)
    for _ in range(3 * pool.OFTEN):
        assert steps.offered(nothing, 3) == alone(3)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_does_not_go_on_with_the_step_of_its_parent(patient: pytest.MonkeyPatch) -> None:
    steps = Steps(40)  # the first of them look for chunks while others are still to be started
    caller, begun = threading.get_ident(), threading.Event()
    forked: list[int] = []
    strange: list[int] = []  # chunks of this step that are done in the child

    def in_the_child() -> bool:
        steps.reset()
        steps(held_up(lambda: None), 2)
        time.sleep(0.05)
        return not strange

    def work(chunk: int) -> None:
        if forked == [0]:
            strange.append(chunk)
        elif threading.get_ident() != caller:
            begun.set()
            while not forked:
                time.sleep(1e-3)
        elif chunk == 0:
            assert begun.wait(LONG)
            child = os.fork()
            forked.append(child)
            if child == 0:
                os._exit(0 if in_the_child() else 1)

    steps(work, 400)
    assert os.waitpid(forked[0], 0)[1] == 0
    steps.end()


def test_behind_short_steps_a_thread_looks_out_for_a_short_time(
    patient: pytest.MonkeyPatch,
) -> None:
    patient.setattr(pool, "LOOKOUT", 300_000_000)
    steps = Steps()

    def wait(_: int) -> None:
        time.sleep(0.005)  # another thread would find a chunk

    for _ in range(pool.OFTEN):
        steps.offered(nothing, 2)
    assert is_shared(steps.offered(held_up(lambda: None), 2))
    time.sleep(0.05)
    assert steps.offered(wait, 4) == alone(4)
    assert is_shared(steps(held_up(lambda: None), 2))
    for _ in range(2):  # for no less than behind the longer step
        time.sleep(0.05)
        assert is_shared(steps.offered(wait, 4))
    steps.end()
