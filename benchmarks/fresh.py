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

AGAIN = 4  # starts with filled caches at most
ONCE = 25.0  # seconds: a first result that took longer has no second start,
TWICE = 8.0  # and one that took longer than this no third one

LONGEST = (ONCE, TWICE)

UNITS = {
    "first result, empty caches": "ms",
    "first result, second start": "ms",
    "from process start, empty caches": "ms",
    "from process start, second start": "ms",
    "next call": "us",
    "peak memory": "MiB",
    "memory of later steps": "MiB",
}


def one(name: str, workload: harness.Workload, peer: str, case: str, cache: Path) -> dict[str, Any]:
    """What one process tells, and how long after its start."""
    words = [name, peer, case, *([] if any(cache.iterdir()) else ["--empty"])]
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


def figures_of(replies: list[dict[str, Any]]) -> dict[str, list[float]]:
    """The figures of a peer's processes, of which the first had empty caches."""
    first, later = replies[:1], replies[1:]
    told_of: dict[str, list[float]] = {}
    for key in ("first result", "from process start"):
        told_of[f"{key}, empty caches"] = [r[key] for r in first]
        told_of[f"{key}, second start"] = [r[key] for r in later]
    for key in ("next call", "peak memory", "memory of later steps"):
        told_of[key] = [r[key] for r in replies]
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
        replies = _replies(name, workload, case, names, min(most, AGAIN), until(), given_up)
        numbers = {
            n: {"result": r[0]["numbers"]} if "numbers" in r[0] else {"reason": r[0]["reason"]}
            for n, r in replies.items()
        }
        row = compared(numbers, workload.tolerance_of(case))
        parts = {n: figures_of(r) for n, r in replies.items() if not row[n]}
        for figure in workload.figures:
            values = {n: found for n, part in parts.items() if (found := part[figure])}
            copies = {n: dict(cell) for n, cell in row.items()}
            for n in parts.keys() - values.keys():
                copies[n]["reason"] = "one start took long enough"
            save(f"{case}: {figure}", UNITS[figure], told(copies, values))


def _replies(
    name: str,
    workload: harness.Workload,
    case: str,
    names: list[str],
    again: int,
    until: float,
    given_up: dict[str, str],
) -> dict[str, list[dict[str, Any]]]:
    replies: dict[str, list[dict[str, Any]]] = {n: [] for n in names}
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        for turn in range(1 + again):
            for peer in names:
                known = replies[peer]
                if turn and ("reason" in known[0] or known[0]["first result"] > LONGEST[turn > 1]):
                    continue
                if turn > 1 and time.monotonic() > until:
                    continue
                if reason := given_up.get(peer) or workload.missing(peer):
                    known.append({"reason": reason})
                    continue
                cache = Path(folder) / peer
                cache.mkdir(exist_ok=True)
                reply = one(name, workload, peer, case, cache)
                if reply.pop("late", False):
                    given_up[peer] = f"{reply['reason']} at {case}"
                if not turn or "reason" not in reply:
                    known.append(reply)
        shutil.rmtree(folder, ignore_errors=True)
    return replies
