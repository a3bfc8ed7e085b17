"""Small programs, timed from before their process starts until it has ended, in turn."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
from processes import end, line_of, start
from rounds import PAUSE, Row, compared, told

MOST = 15


def one(text: str, peer: str, cache: Path, limit: float) -> tuple[Any, float]:
    """What a program prints as its last line, as JSON, and the seconds that it took.

    A program that measures itself prints `{"seconds": ...}`, which is then believed.
    """
    env = harness.environment(peer, wide=True, cache=cache)
    begun = time.perf_counter()
    process = start(["-c", text], env, str(cache))
    line = line_of(process, limit)
    took = time.perf_counter() - begun
    end(process)
    if not line:
        return None, took
    said = json.loads(line)
    if isinstance(said, dict):
        return [], said["seconds"]
    return said, took


def run(
    name: str,
    workload: harness.Workload,
    cases: list[str],
    names: list[str],
    most: int,
    until: Callable[[], float],
    save: Callable[[str, str, Row], None],
) -> None:
    """All cases; the first run of each program, which fills its caches, is told on its own."""
    assert workload.scripts is not None
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        for case in cases:
            texts = {n: t for n, t in workload.scripts(case).items() if n in names}
            first, later = _times(texts, case, workload.limit, Path(folder), min(most, MOST), until)
            row, blocks = first
            if case in workload.cold:
                copies = {n: dict(cell) for n, cell in row.items()}
                save(f"{case}, empty caches", workload.unit_of(case), told(copies, blocks))
            save(case, workload.unit_of(case), told(row, later))


def _times(
    texts: dict[str, str],
    case: str,
    limit: float,
    folder: Path,
    most: int,
    until: Callable[[], float],
) -> tuple[tuple[Row, dict[str, list[float]]], dict[str, list[float]]]:
    replies: dict[str, dict[str, Any]] = {}
    first: dict[str, list[float]] = {}
    caches: dict[str, Path] = {}
    for peer, text in texts.items():
        if reason := harness.missing(peer):
            replies[peer] = {"reason": reason}
            continue
        caches[peer] = Path(tempfile.mkdtemp(dir=folder))
        said, took = one(text, peer, caches[peer], limit)
        replies[peer] = {"reason": "failed"} if said is None else {"result": {"said": said}}
        first[peer] = [took]
    row = compared(replies, 1e-9)
    first = {n: v for n, v in first.items() if not row[n]}
    later: dict[str, list[float]] = {n: [] for n in first}
    end_of_it = until()
    for turn in range(most):
        if turn >= 5 and time.monotonic() > end_of_it:
            break
        for peer, values in later.items():
            time.sleep(PAUSE)
            values.append(one(texts[peer], peer, caches[peer], limit)[1])
    return (row, first), later
