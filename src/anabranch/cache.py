"""Compiled code on disk: where it is, how much, and away with it.

Machine code that was made once is found again by the next process. `ANABRANCH_CACHE_DIR` names the
directory (empty: no cache), `ANABRANCH_CACHE_BYTES` how much it may hold (256 MiB by default).
"""

from __future__ import annotations

from pathlib import Path as _Path

from anabranch.backends.native import disk as _disk
from anabranch.backends.native.disk import Counts


def directory() -> _Path | None:
    """Where compiled code is kept; None where the cache is switched off.

    Example:
        >>> import os
        >>> import anabranch as ab
        >>> os.environ["ANABRANCH_CACHE_DIR"] = ""
        >>> print(ab.cache.directory())
        None
    """
    store = _disk.store()
    return None if store is None else store.directory


def size() -> int:
    """How many bytes the cache holds."""
    store = _disk.store()
    return 0 if store is None else store.size()


def bound() -> int:
    """How many bytes it may hold; what was not used for longest goes first."""
    store = _disk.store()
    return 0 if store is None else store.bound


def clear() -> int:
    """Remove what it holds; gives how many entries that were. Programs that run are not touched."""
    store = _disk.store()
    return 0 if store is None else store.clear()


def counts() -> Counts:
    """What this process has done so far: modules compiled by LLVM, and code found on disk.

    Example:
        >>> import anabranch as ab
        >>> before = ab.cache.counts()
        >>> ab.cache.counts().emitted - before.emitted
        0
    """
    return _disk.Counts(**vars(_disk.counts))
