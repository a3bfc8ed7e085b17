"""Locks that a process does not inherit as taken from the one it was forked from."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any


class Lock:
    """For `with`; free in a process that was forked while another thread held it.

    The thread that held it is not there, so a plain lock would never be let go. What it guards must
    be whole at each step, or be of no use to who has not made it.

    Example:
        >>> lock = Lock()
        >>> with lock:
        ...     print("alone")
        alone
    """

    def __init__(self, make: Callable[[], Any] = threading.Lock) -> None:
        self._make = make
        self._lock = make()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Nobody holds it any more."""
        self._lock = self._make()


_locks: weakref.WeakSet[Lock] = weakref.WeakSet()


def _renew_all() -> None:
    for lock in list(_locks):
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
