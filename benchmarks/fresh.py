"""A new process for each figure: first results with empty and with filled caches, and memory."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
from processes import end, reply_of, start
from rounds import Row, compared, told

COLD = 2  # starts with empty caches, after one that tells what is imported on the way
AGAIN = 3  # starts with filled caches at most, after another such one
ONCE = 25.0  # seconds: a first result that took longer has no second start,
TWICE = 8.0  # and one that took longer than this is measured as it is, imports on the way included

UNITS = {
    "first result, empty caches": "ms",
    "first result, second start": "ms",
    "from process start, empty caches": "ms",
    "from process start, second start": "ms",
    "next call": "us",
    "peak memory": "MiB",
    "memory of later steps": "MiB",
}


class Starts:
    """A peer's processes for one case, the first of each kind to learn what they import.

    A library may import parts of itself as they are needed. What it imports is no part of a first
    result, whenever it does so: the processes that are measured import it before the clock starts.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cold: list[dict[str, Any]] = []  # replies with empty caches
        self.later: list[dict[str, Any]] = []  # and with filled ones

    @property
    def reason(self) -> str | None:
        """Why there are no figures, or None."""
        return self.cold[0].get("reason") if self.cold else None

    def next(self, cold: int, again: int) -> tuple[list[dict[str, Any]], Path, Path] | None:
        """Where the next reply goes, its caches, and the modules to import; None if it was all."""
        took = self.cold[0]["first result"] if self.cold else 0.0
        if took > TWICE:
            cold = again = 0
        if len(self.cold) < 1 + cold:
            return self.cold, self.folder / str(len(self.cold)), self.folder / "cold"
        if took > ONCE or len(self.later) >= 1 + again:
            return None
        return self.later, self.folder / str(len(self.cold) - 1), self.folder / "later"

    def add(self, replies: list[dict[str, Any]], modules: Path, reply: dict[str, Any]) -> None:
        """Keep a reply; one that fails later than the first is left out."""
        names = reply.pop("modules", [])
        if not replies:
            modules.write_text("\n".join(names), encoding="utf-8")
        if not self.cold or "reason" not in reply:
            replies.append(reply)

    @property
    def measured(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The replies with empty and with filled caches that have figures to tell."""
        return self.cold[1:] or self.cold, self.later[1:] or self.later


def one(
    name: str, workload: harness.Workload, peer: str, case: str, cache: Path, modules: Path
) -> dict[str, Any]:
    """What one process tells, and how long after its start."""
    words = [name, peer, case, *(["--import", str(modules)] if modules.exists() else [])]
    cache.mkdir(parents=True, exist_ok=True)
    env = harness.environment(peer, wide=workload.wide, cache=cache)
    begun = time.monotonic()
    process = start([str(harness.HERE / "worker.py"), *words], env, str(cache))
    try:
        reply = reply_of(process, workload.limit)
    finally:
        end(process)
    if "error" in reply:
        return {"reason": reply["error"], "late": reply.get("late", False)}
    result: dict[str, Any] = reply["result"]
    if "ended" in result:
        result["from process start"] = result["ended"] - begun
    return result


def figures_of(first: list[dict[str, Any]], later: list[dict[str, Any]]) -> dict[str, list[float]]:
    """The figures of a peer's processes, with empty and with filled caches."""
    told_of: dict[str, list[float]] = {}
    for key in ("first result", "from process start"):
        told_of[f"{key}, empty caches"] = [r[key] for r in first]
        told_of[f"{key}, second start"] = [r[key] for r in later]
    for key in ("next call", "peak memory", "memory of later steps"):
        told_of[key] = [r[key] for r in later or first]  # what compiles takes memory of its own
    return told_of


def run(
    name: str,
    workload: harness.Workload,
    cases: list[str],
    names: list[str],
    most: int,
    until: Callable[[], float],
    save: Callable[[str, str, Row], None],
) -> None:
    """All cases; the peers take turns, and each keeps its caches from turn to turn."""
    given_up: dict[str, str] = {}
    for case in cases:
        starts = _starts(name, workload, case, names, min(most, AGAIN), until(), given_up)
        numbers = {
            n: {"reason": s.reason} if s.reason else {"result": s.cold[0]["numbers"]}
            for n, s in starts.items()
        }
        row = compared(numbers, workload.tolerance_of(case))
        parts = {n: figures_of(*s.measured) for n, s in starts.items() if not row[n]}
        for figure in workload.figures:
            values = {n: found for n, part in parts.items() if (found := part[figure])}
            copies = {n: dict(cell) for n, cell in row.items()}
            for n in parts.keys() - values.keys():
                copies[n]["reason"] = "one start took long enough"
            save(f"{case}: {figure}", UNITS[figure], told(copies, values))


def _starts(
    name: str,
    workload: harness.Workload,
    case: str,
    names: list[str],
    again: int,
    until: float,
    given_up: dict[str, str],
) -> dict[str, Starts]:
    """The peers take turns, each with caches of its own."""
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        starts = {peer: Starts(Path(folder) / peer) for peer in names}
        for _ in range(2 + COLD + again):
            for peer, of_peer in starts.items():
                if reason := given_up.get(peer) or workload.missing(peer):
                    of_peer.cold = of_peer.cold or [{"reason": reason}]
                    continue
                counts = (COLD, again) if time.monotonic() < until else (1, 1)
                if of_peer.reason or (to := of_peer.next(*counts)) is None:
                    continue
                replies, cache, modules = to
                reply = one(name, workload, peer, case, cache, modules)
                if reply.pop("late", False):
                    given_up[peer] = f"{reply['reason']} at {case}"
                of_peer.add(replies, modules, reply)
        shutil.rmtree(folder, ignore_errors=True)
    return starts
