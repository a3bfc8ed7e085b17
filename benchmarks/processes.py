"""Processes of peers, none of which outlives what started it or the time that it is given."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import harness

LIVE: set[subprocess.Popen[str]] = set()


def start(command: Sequence[str], env: Mapping[str, str], folder: str | None = None) -> Any:
    """A Python process in a group of its own, in a folder where it may leave files."""
    process = subprocess.Popen(
        [sys.executable, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None if "BENCH_TRACE" in os.environ else subprocess.DEVNULL,
        text=True,
        env=dict(env),
        cwd=folder or tempfile.gettempdir(),
        process_group=0,
    )
    LIVE.add(process)
    return process


def end(process: subprocess.Popen[str]) -> None:
    """Kill a process with all that it started, a compiler for instance."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
    LIVE.discard(process)


@atexit.register
def end_all() -> None:
    """None of them may disturb what is measured next."""
    for process in list(LIVE):
        end(process)


def line_of(process: subprocess.Popen[str], limit: float) -> str:
    """What the process says next; '' if it ended, or was ended since that took too long."""
    assert process.stdout is not None
    late = threading.Timer(limit, end, [process])
    late.daemon = True
    late.start()
    try:
        return process.stdout.readline()
    finally:
        late.cancel()
        late.join()


@contextlib.contextmanager
def busy(wanted: bool) -> Iterator[None]:
    """A process that never rests runs meanwhile, if it is wanted."""
    process = start(["-c", "while True: pass"], os.environ) if wanted else None
    try:
        yield
    finally:
        if process is not None:
            end(process)


class Peer:
    """A worker that answers one command at a time, and stays for all cases of a workload."""

    def __init__(self, workload: str, name: str, env: Mapping[str, str], limit: float) -> None:
        self.name, self.limit = name, limit
        self.process = start([str(harness.HERE / "worker.py"), workload, name], env)

    @property
    def dead(self) -> bool:
        """Whether it has ended, or was ended."""
        return self.process not in LIVE or self.process.poll() is not None

    def ask(self, command: str, case: str) -> dict[str, Any]:
        """The reply: `result`, or `error`; `late` if it was ended for taking too long."""
        if self.dead:
            return {"error": "the process died"}
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps([command, case]) + "\n")
            self.process.stdin.flush()
        return reply_of(self.process, self.limit)

    def close(self) -> None:
        """End it."""
        end(self.process)


def reply_of(process: subprocess.Popen[str], limit: float) -> dict[str, Any]:
    """The next line of a worker as a reply; one that is late or dead gets a sentence."""
    line = line_of(process, limit)
    if line:
        reply: dict[str, Any] = json.loads(line)
        return reply
    if process not in LIVE:
        return {"error": f"more than {limit:.0f} s", "late": True}
    code = process.wait()
    end(process)
    return {"error": f"the process died ({signal.Signals(-code).name if code < 0 else code})"}
