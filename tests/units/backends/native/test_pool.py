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
Steps = Callable[[Callable[[int], None], int], list[tuple[int, int]]]
LONG = 10.0  # seconds within which the others surely come


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[Steps]:
    """Runs a step of so many chunks on a pool of two threads; who did each, in order."""
    monkeypatch.setattr(pool, "LEAST", int(LONG * 1e9))
    monkeypatch.setattr(pool, "MOMENT", 50_000_000)
    monkeypatch.setattr(pool, "PATIENCE", 100_000_000)
    known = pool._known_functions()
    assert known is not None
    code = modules.object_code(pool._text(True))
    made = loading.Loaded([code], ["run", "resize", "reset"], known)
    reset = ctypes.CFUNCTYPE(None)(made.addresses["reset"])
    resize = ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_int64)(made.addresses["resize"])
    run = ctypes.CFUNCTYPE(None, Task, ctypes.c_void_p, ctypes.c_int64)(made.addresses["run"])
    reset()
    resize(2, 0)

    def step(work: Callable[[int], None], chunks: int) -> list[tuple[int, int]]:
        done: list[tuple[int, int]] = []

        def task(_: Any, chunk: int) -> None:
            work(chunk)
            done.append((chunk, threading.get_ident()))

        run(Task(task), None, chunks)
        assert sorted(chunk for chunk, _ in done) == list(range(chunks))  # each of them once
        return done

    yield step
    resize(1, 0)


def held_up(how: Callable[[], None]) -> Callable[[int], None]:
    """Two chunks: the caller waits in its own until the other thread has begun its own."""
    caller, begun = threading.get_ident(), threading.Event()

    def work(_: int) -> None:
        if threading.get_ident() == caller:
            assert begun.wait(LONG)
        else:
            begun.set()
            how()

    return work


def stand_still() -> None:
    time.sleep(0.2)  # no processor runs it: the same as when another process has taken that


def test_after_a_thread_has_lost_its_processor_short_steps_are_the_callers(steps: Steps) -> None:
    assert len({who for _, who in steps(held_up(stand_still), 2)}) == 2
    done = steps(lambda chunk: time.sleep(0.002), 8)
    assert done == [(i, threading.get_ident()) for i in range(8)]


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
    assert len({who for _, who in done}) == 2


def test_a_thread_that_computes_for_long_has_lost_nothing(steps: Steps) -> None:
    def compute() -> None:
        end = time.thread_time() + 0.1
        while time.thread_time() < end:
            pass

    steps(held_up(compute), 2)
    assert len({who for _, who in steps(held_up(lambda: None), 2)}) == 2
