"""Compare and time the peers: `python benchmarks/run.py [workload ...] [--json FILE]`.

Every peer has its own process. Their numbers are compared with the first one's before anything is
timed; then they take turns (A B C A B C ...), and the median of the blocks is the result. Ratios
are the peer's time by ours: above 1, we are faster.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import harness

HERE = Path(__file__).parent
WORKLOADS = ("eager", "graph")
PAUSE = 0.03  # between blocks: lets the last peer's threads come to rest


class Peer:
    """A worker process that answers one command at a time."""

    def __init__(self, workload: str, name: str) -> None:
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "worker.py"), workload, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=harness.environment(name),
        )

    def ask(self, command: str, case: str) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps([command, case]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"error": "the process died"}

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def disagreement(wanted: dict[str, list[float]], found: dict[str, list[float]]) -> float:
    """The largest difference, relative to the largest entry of each array."""
    worst = 0.0
    for key, values in wanted.items():
        scale = max(map(abs, values), default=1.0) or 1.0
        others = found.get(key, [])
        if len(others) != len(values):
            return float("inf")
        worst = max([worst, *(abs(a - b) / scale for a, b in zip(values, others, strict=True))])
    return worst


def run_case(
    workload: harness.Workload, peers: list[Peer], case: str, rounds: int
) -> dict[str, Any]:
    """Each peer's median and quartiles in seconds, or why there is none."""
    results: dict[str, Any] = {}
    reference = None
    timed = []
    for peer in peers:
        reply = peer.ask("check", case)
        numbers = reply.get("result")
        if numbers is None:
            results[peer.name] = {"reason": reply.get("error", "not offered")}
            continue
        reference = numbers if reference is None else reference
        gap = disagreement(reference, numbers)
        if gap > workload.tolerance:
            results[peer.name] = {"reason": f"differs by {gap:.1e}"}
            continue
        peer.ask("warm", case)
        timed.append((peer, []))
    for _ in range(rounds):
        for peer, blocks in timed:
            blocks.append(peer.ask("time", case)["result"])
            time.sleep(PAUSE)
    for peer, blocks in timed:
        low, median, high = statistics.quantiles(blocks, n=4)
        results[peer.name] = {"median": median, "low": low, "high": high}
    return results


def run_workload(name: str, names: list[str], rounds: int) -> dict[str, Any]:
    workload = harness.load(name)
    chosen = [n for n in workload.peers if n in names]
    peers = [Peer(name, n) for n in chosen]
    results = {}
    print(f"\n{name}: {workload.title} ({workload.unit_name})")
    print("  " + "case".ljust(22) + "".join(n.rjust(22) for n in chosen))
    try:
        for case in workload.cases:
            results[case] = run_case(workload, peers, case, rounds)
            print("  " + case.ljust(22) + row(results[case], chosen, workload.unit), flush=True)
    finally:
        for peer in peers:
            peer.close()
    return results


def row(results: dict[str, Any], names: list[str], unit: float) -> str:
    ours = results.get("anabranch", {}).get("median")
    cells = []
    for name in names:
        found = results[name]
        if "median" not in found:
            cells.append(found["reason"][:20].rjust(22))
            continue
        ratio = f" ({found['median'] / ours:5.2f}x)" if ours and name != "anabranch" else ""
        cells.append(f"{found['median'] / unit:.2f}{ratio}".rjust(22))
    return "".join(cells)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="*", default=list(WORKLOADS), metavar="workload")
    parser.add_argument("--peers", default=",".join(harness.MODULES), help="comma-separated names")
    parser.add_argument("--rounds", type=int, default=15, help="timed blocks for each peer")
    parser.add_argument("--json", type=Path, help="write all medians and quartiles there")
    options = parser.parse_args()
    names = harness.installed(options.peers.split(","))
    print(
        f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, "
        f"{datetime.date.today()}; {options.rounds} rounds, medians; (ratio to anabranch)"
    )
    results = {w: run_workload(w, names, options.rounds) for w in options.workloads}
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
