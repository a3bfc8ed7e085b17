"""Locks and forks."""

import os
import re
import threading
from pathlib import Path

import pytest

import anabranch as ab
from anabranch.core.locks import Lock


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("make", [threading.Lock, threading.RLock])
def test_a_lock_that_another_thread_held_is_free_after_a_fork(make):
    lock, taken, over = Lock(make), threading.Event(), threading.Event()

    def hold():
        with lock:
            taken.set()
            over.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    taken.wait(30)
    child = os.fork()
    if child == 0:
        threading.Timer(10, os._exit, [1]).start()
        with lock:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    over.set()
    holder.join()


def test_one_at_a_time():
    lock, entered = Lock(), threading.Event()

    def enter():
        with lock:
            entered.set()

    with lock:
        other = threading.Thread(target=enter)
        other.start()
        assert not entered.wait(0.05)
    assert entered.wait(30)
    other.join()


def test_every_lock_of_the_package_bears_forks():
    plain = re.compile(r"threading\.R?Lock\(\)|from threading import")
    sources = Path(ab.__file__).parent.rglob("*.py")
    assert [file.name for file in sources if plain.search(file.read_text("utf-8"))] == []
