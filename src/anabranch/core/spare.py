"""Memory that is kept for reuse: how much there may be, and how to give it back.

Fresh memory comes from the system page by page, at a price that can exceed that of the work done in
it. So results of compiled functions lie in blocks that are used again once a result is dropped.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

from anabranch.errors import ArgumentError

_GIB = 1 << 30
_givers: list[Callable[[int], int]] = []


def _default_limit() -> int:
    """A GiB, or an eighth of the machine's memory if that is less."""
    try:
        installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not every system tells
        return _GIB
    return min(_GIB, installed // 8)


_limit = ctypes.c_int64(_default_limit())
LIMIT_ADDRESS = ctypes.addressof(_limit)  # machine code reads it there


def when_trimmed(give: Callable[[int], int]) -> None:
    """Let `trim` call this with the bytes that may stay; it says how many it gave back."""
    _givers.append(give)


def trim(keep: int = 0) -> int:
    """Give memory that is kept for reuse back to the system.

    Compiled functions keep the memory of results that were dropped, for the next ones, and the
    workspaces of their programs. Nothing that is in use is touched.

    Args:
        keep: bytes that may stay for results.

    Returns:
        The bytes that were given back.

    Example:
        >>> import anabranch as ab, numpy as np
        >>> double = ab.compile(lambda x: x * 2.0, backend="native")
        >>> y = double(np.ones(100_000))
        >>> del y
        >>> ab.trim() >= 800_000  # what y lay in
        True
        >>> ab.trim()
        0
    """
    _require_bytes("keep", keep)
    return sum(give(keep) for give in _givers)


def set_spare_limit(limit: int) -> int:
    """Say how many bytes may be kept for the results of compiled functions, in this process.

    It is a GiB to begin with, or an eighth of the machine's memory if that is less. With 0 nothing
    is kept.

    Returns:
        The limit until now.

    Example:
        >>> import anabranch as ab
        >>> before = ab.set_spare_limit(100_000_000)
        >>> ab.set_spare_limit(before)
        100000000
    """
    _require_bytes("limit", limit)
    before = _limit.value
    _limit.value = limit
    for give in _givers:
        give(limit)
    return before


def _require_bytes(name: str, value: int) -> None:
    if type(value) is not int or value < 0:
        raise ArgumentError("bad-argument", f"{name} is a number of bytes, not {value!r}")
