"""Whether anything is going on, in any thread, that a call in machine code must leave to Python.

A running trace takes every call for its graph, options change what a call does, and someone may be
watching. Machine code cannot look into Python's threads; it reads one number, and while that is
not 0 it lets Python decide.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

from anabranch.core.locks import Lock

_going_on = ctypes.c_int64(0)
_changing = Lock()
ADDRESS = ctypes.addressof(_going_on)


@contextmanager
def attention() -> Iterator[None]:
    """Calls in machine code, of every thread, ask Python while this block runs."""
    with _changing:
        _going_on.value += 1
    try:
        yield
    finally:
        with _changing:
            _going_on.value -= 1
