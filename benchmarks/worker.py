"""One process for one peer: builds cases, checks and times them, one line of JSON for each command.

python worker.py WORKLOAD PEER           answers commands until its input ends
python worker.py WORKLOAD PEER CASE      builds, runs once cold and a few times warm, and ends
python worker.py ... CASE --import FILE  the same, with these modules imported before the clock
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from itertools import repeat
from pathlib import Path
from typing import Any

from figures import numbers
from harness import PEERS, Bench, load

BLOCK = 0.05  # seconds that one timed block lasts at least
IMPORT = "--import"
WARM = 0.3  # seconds of warming up, and at least three steps


def loop_for(step: Callable[..., Any], count: int) -> Callable[..., None]:
    """A loop that calls a step of so many arguments as a user would: written out, from locals."""
    names = ", ".join(f"a{i}" for i in range(count))
    head = f"def loop(times, step, {names}):\n"
    scope: dict[str, Any] = {}
    exec(f"{head}    for _ in times:\n        step({names})\n", scope)
    loop: Callable[..., None] = scope["loop"]
    return loop


class Worker:
    """Answers the runner's commands for one peer of one workload."""

    def __init__(self, workload: str, peer: str) -> None:
        for module in PEERS[peer].modules:
            importlib.import_module(module)
        self.build = load(workload).peers[peer]
        self.bench: Bench | None = None
        self.loops = 1

    def check(self, case: str) -> Any:
        """Build the case: its numbers, or the reason why this peer does not do it."""
        self.bench = None  # the last one's arrays go first
        made = self.build(case)
        if isinstance(made, str):
            return made
        self.bench = made
        return numbers(made.numbers())

    def warm(self, case: str) -> float:
        """Run for a while, and choose how many steps make a block; seconds of a block."""
        self.loops = 1
        if self.ready.figure is None:
            start, count, last = time.perf_counter(), 0, 0.0
            while count < 3 or time.perf_counter() - start < WARM:
                last = self.time(case)
                count += 1
                if time.perf_counter() - start > 10 * WARM:
                    break
            if self.ready.make is None:
                self.loops = max(1, min(1_000, int(0.2 * BLOCK / max(last, 1e-9))))
                self.loops = max(1, round(BLOCK / max(self.time(case), 1e-9)))
        start = time.perf_counter()
        self.time(case)
        return time.perf_counter() - start

    def time(self, case: str) -> float:
        """Seconds of a step, over one block; or the figure that the case has instead."""
        bench = self.ready
        if bench.figure is not None:
            return bench.figure()
        assert bench.step is not None
        arguments = (bench.make(),) if bench.make is not None else bench.arguments
        loop = loop_for(bench.step, len(arguments))
        times: Iterable[None] = repeat(None, self.loops)
        start = time.perf_counter()
        loop(times, bench.step, *arguments)
        return (time.perf_counter() - start) / self.loops

    @property
    def ready(self) -> Bench:
        """The bench that `check` has built."""
        if self.bench is None:
            raise RuntimeError("no case was built")
        return self.bench


def memory(which: str) -> float:
    """MiB of this process: VmRSS, or VmHWM for the most that it has been."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(which + ":"):
            return int(line.split()[1]) / 1024
    return float("nan")


def once(workload: str, peer: str, case: str, modules: Iterable[str] = ()) -> dict[str, Any]:
    """What a first result costs in this process, in seconds and in memory, and the next ones.

    Also, which modules were imported on the way: those that the first result took.
    """
    worker = Worker(workload, peer)
    for module in modules:
        with contextlib.suppress(Exception):  # what a library wrote itself cannot be found by name
            importlib.import_module(module)
    if (prepare := load(workload).prepare) is not None:
        prepare(case)
    before, known = memory("VmRSS"), set(sys.modules)
    start = time.perf_counter()
    found = worker.check(case)
    cold, ended = time.perf_counter() - start, time.monotonic()
    if isinstance(found, str):
        return {"reason": found}
    peak = memory("VmHWM") - before
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # the peak starts anew
    following = [worker.time(case)]
    if following[0] < BLOCK:
        worker.warm(case)
        following.clear()
    following += [worker.time(case) for _ in range(3)]
    return {
        "numbers": found,
        "modules": [name for name in list(sys.modules) if name not in known],
        "ended": ended,
        "first result": cold,
        "next call": statistics.median(following),
        "peak memory": peak,
        "memory of later steps": memory("VmHWM") - before,
    }


def main() -> None:
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints must not disturb the replies
    workload, peer, *cases = sys.argv[1:]
    modules: list[str] = []
    if IMPORT in cases:
        *cases, _, file = cases
        modules = Path(file).read_text(encoding="utf-8").split()
    worker: Worker | None = None

    def answer(command: str, case: str) -> Any:
        nonlocal worker
        if command == "once":
            return once(workload, peer, case, modules)
        worker = worker or Worker(workload, peer)
        return getattr(worker, command)(case)

    commands = (json.dumps(["once", case]) for case in cases) if cases else sys.stdin
    for line in commands:
        command, case = json.loads(line)
        try:
            reply = {"result": answer(command, case)}
        except Exception as error:  # a peer's failure is a result here
            text = " ".join(str(error).split())[:160]
            reply = {"error": f"{type(error).__name__}: {text}"}
        print(json.dumps(reply), file=replies)


if __name__ == "__main__":
    main()
