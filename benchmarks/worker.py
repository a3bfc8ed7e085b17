"""One process for one peer: builds cases, checks and times them, one JSON line for each command."""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from typing import Any

import numpy as np

from harness import MODULES, Bench, load

BLOCK = 0.05  # seconds that one timed block lasts at least


class Worker:
    """Answers the runner's commands for one peer of one workload."""

    def __init__(self, workload: str, peer: str) -> None:
        importlib.import_module(MODULES[peer])
        self.build = load(workload).peers[peer]
        self.bench: Bench | None = None
        self.loops = 1

    def check(self, case: str) -> Any:
        """Build the case; its numbers, or None if the peer does not do it."""
        self.bench = self.build(case)
        if self.bench is None:
            return None
        found = self.bench.numbers()
        return {key: np.asarray(value, np.float64).ravel().tolist() for key, value in found.items()}

    def warm(self, case: str) -> int:
        """Run for a while, then choose how many steps make a block."""
        step = self._ready().step
        start, count = time.perf_counter(), 0
        while count < 3 or time.perf_counter() - start < 0.3:
            step()
            count += 1
        self.loops = max(1, int(BLOCK * count / (time.perf_counter() - start)))
        return self.loops

    def time(self, case: str) -> float:
        """Seconds a step, over one block."""
        step = self._ready().step
        start = time.perf_counter()
        for _ in range(self.loops):
            step()
        return (time.perf_counter() - start) / self.loops

    def _ready(self) -> Bench:
        if self.bench is None:
            raise RuntimeError("no case was built")
        return self.bench


def main() -> None:
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints must not disturb the replies
    worker = Worker(*sys.argv[1:3])
    for line in sys.stdin:
        command, case = json.loads(line)
        try:
            reply = {"result": getattr(worker, command)(case)}
        except Exception as error:  # a peer's failure is a result here
            reply = {"error": f"{type(error).__name__}: {error}"[:200]}
        print(json.dumps(reply), file=replies)


if __name__ == "__main__":
    main()
