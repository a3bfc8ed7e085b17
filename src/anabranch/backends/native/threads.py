"""How many threads a program may use."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from anabranch.errors import ArgumentError

if TYPE_CHECKING:
    from pathlib import Path

MOST = 1024
_CGROUPS = "/sys/fs/cgroup"
_MINE = "/proc/self/cgroup"


class _Count:
    """The number in force, and who must hear when it changes."""

    number: int | None = None  # None until someone asks
    listener: Callable[[int], None] | None = None


def get_num_threads() -> int:
    """How many threads a compiled function may use at once, the caller's own among them.

    Unless `set_num_threads` says otherwise, as many as there are processors that this process may
    run on: what its affinity allows, and no more whole ones than its control group's quota gives.

    Example:
        >>> import anabranch as ab
        >>> ab.get_num_threads() >= 1
        True
    """
    if _Count.number is None:
        _Count.number = min(usable_processors(), MOST)
    return _Count.number


def set_num_threads(count: int) -> None:
    """Let compiled functions use so many threads, in this whole process, from the next call on.

    Results do not depend on it. With 1 the caller's own thread does all.

    Raises:
        ArgumentError: `[bad-argument]` for anything but an integer from 1 to 1024.

    Example:
        >>> import anabranch as ab
        >>> before = ab.get_num_threads()
        >>> ab.set_num_threads(1)
        >>> ab.get_num_threads()
        1
        >>> ab.set_num_threads(before)
    """
    given: object = count
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= MOST:
        raise ArgumentError(
            "bad-argument", f"set_num_threads takes an integer from 1 to {MOST}, not {count!r}"
        )
    _Count.number = count
    if _Count.listener is not None:
        _Count.listener(count)


def when_changed(listener: Callable[[int], None]) -> None:
    """Tell this one of every change."""
    _Count.listener = listener


def usable_processors(cgroups: str | Path = _CGROUPS, mine: str | Path = _MINE) -> int:
    """Processors that this process may run on; the folders are where the kernel tells of groups."""
    processors = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))
    count = len(processors(0))  # macOS and Windows know no affinity
    quota = _quota(cgroups, mine)
    return count if quota is None else max(1, min(count, math.floor(quota)))


def _quota(cgroups: str | Path, mine: str | Path) -> float | None:
    """The smallest quota among this process's groups, in processors; None where there is none."""
    found = []
    for line in _text(mine).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            read, root = _version_two, os.fspath(cgroups)
        elif "cpu" in controllers.split(","):
            read, root = _version_one, os.path.join(cgroups, "cpu")
        else:
            continue
        names = [name for name in path.split("/") if name]
        for count in range(len(names) + 1):  # a group's limit holds for those inside
            found.append(read(os.path.join(root, *names[:count])))
    return min((quota for quota in found if quota is not None), default=None)


def _version_two(folder: str) -> float | None:
    return _ratio(_words(folder, "cpu.max"))


def _version_one(folder: str) -> float | None:
    return _ratio([*_words(folder, "cpu.cfs_quota_us"), *_words(folder, "cpu.cfs_period_us")])


def _words(folder: str, name: str) -> list[str]:
    return _text(os.path.join(folder, name)).split()


def _text(file: str | Path) -> str:
    """What a file of the system's says; nothing where there is none."""
    try:
        with open(file, encoding="ascii", errors="replace") as opened:
            return opened.read()
    except OSError:
        return ""


def _ratio(words: list[str]) -> float | None:
    """Of two numbers; a quota that is no positive number is none."""
    if len(words) != 2 or not all(word.isdigit() for word in words) or int(words[1]) == 0:
        return None
    return int(words[0]) / int(words[1])
