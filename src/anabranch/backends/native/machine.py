"""What decides which machine code is made of a text, found out without asking LLVM.

LLVM takes longer to load than a program whose code is on disk takes to start.
"""

from __future__ import annotations

import functools
import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from anabranch.core.late import BEGAN, LateModule

if TYPE_CHECKING:
    from pathlib import Path

    from anabranch.backends.native import target
else:
    target = LateModule("anabranch.backends.native.target")

PROCESSORS = "/proc/cpuinfo"
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
_ROOMS = ("core", "ops", "passes", "backends")  # what decides the code for a graph
_ENOUGH = 8192  # bytes of it, in which the first processor is described
_TELLING = (  # what says which instructions it has, and which model it is
    *("vendor_id", "cpu family", "model", "stepping", "flags"),
    *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features"),
)
_MAKING = (".py", ".ll", ".so", ".pyd", ".dll", ".dylib")


def identity() -> tuple[str, ...] | None:
    """What decides, besides IR, which machine code is made; None where LLVM is not installed."""
    library = _llvm()
    return None if library is None else (library, *_processor(PROCESSORS))


@functools.lru_cache(maxsize=1)
def _llvm() -> str | None:
    """The installed llvmlite, as files."""
    if "llvmlite" in sys.modules:
        spec = getattr(sys.modules["llvmlite"], "__spec__", None)
    else:  # as `importlib.util` finds it, which is a module more to load
        found = (finder.find_spec("llvmlite", None) for finder in sys.meta_path)
        spec = next((one for one in found if one is not None), None)
    if spec is None or spec.origin is None:
        return None
    return stamp(os.path.dirname(spec.origin), ["binding"])


@functools.lru_cache(maxsize=4)
def _processor(file: str) -> tuple[str, ...]:
    """The processor that runs this program: as the system describes it, or as LLVM does."""
    said = _described(file) if sys.platform == "linux" else ""
    if any(word in said for word in ("flags", "Features")):
        return platform.machine(), said
    host = target.host()
    return host.cpu, host.features, str(host.vector_bytes)


def _described(file: str) -> str:
    try:
        with open(file, "rb", buffering=0) as opened:
            text = opened.read(_ENOUGH).decode("utf-8", "replace")
    except OSError:
        return ""
    lines = text.partition("\n\n")[0].splitlines()
    return "\n".join(line for line in lines if line.partition("\t")[0].rstrip() in _TELLING)


@functools.lru_cache(maxsize=1)
def library() -> str | None:
    """The library's own files that decide which code is written; None where they do not tell."""
    return stamp(_ROOT, _ROOMS)


def is_still(source: str) -> bool:
    """Whether these files are still those."""
    return stamp(_ROOT, _ROOMS) == source


def stamp(root: str | Path, rooms: Sequence[str]) -> str | None:
    """Names, sizes and times of change of the files in these directories that code is made by.

    Python itself tells by size and time whether a file is the one that it has compiled; here the
    time counts to the nanosecond, and the place, so that two installations are never the same.
    None where there are no such files, or where one was changed after this process had begun,
    which may be running what stood there before.
    """
    rows = [row for room in rooms for row in _rows(os.path.join(root, room))]
    now = time.time()
    if not rows or any(BEGAN < changed * 1e-9 <= now for _, _, changed in rows):
        return None
    return repr((str(root), rows))


def _rows(directory: str) -> Iterator[tuple[str, int, int]]:
    try:
        with os.scandir(directory) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if entry.name.endswith(_MAKING):
            known = entry.stat()
            yield entry.name, known.st_size, known.st_mtime_ns
        elif "." not in entry.name and entry.name != "__pycache__":
            yield from _rows(entry.path)
