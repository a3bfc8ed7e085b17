"""Compare and measure the peers: `python benchmarks/run.py all --json`, or the names of workloads.

Rounds adapt to the minutes that there are. With --json the figures are written after each case, so
that a run which was interrupted keeps what it has and goes on with --resume; `table.py` then writes
RESULTS.md from them. Ratios are the peer's time by ours: above 1, we are faster.
"""

from __future__ import annotations

import argparse
import compileall
import json
import shlex
import signal
import sys
import time
from pathlib import Path
from typing import Any

import bars
import fresh
import harness
import machine
import rounds
import scripts
import table
from rounds import Row

RUNNERS = {"rounds": rounds.run, "fresh": fresh.run, "scripts": scripts.run}
MINUTES, QUICK = 25.0, 5.0


class Report:
    """What was measured so far, in memory and in a file."""

    def __init__(self, file: Path | None, resume: bool) -> None:
        self.file = file
        self.data: dict[str, Any] = {"workloads": {}}
        if file and file.exists():
            self.data = json.loads(file.read_text(encoding="utf-8"))
        self.resume = resume
        self.data |= {
            "date": machine.today(),
            "command": shlex.join(["python", "benchmarks/run.py", *sys.argv[1:]]),
            "commit": machine.commit(),
            "machine": machine.machine(),
            "versions": machine.versions(),
        }

    def begin(self, name: str, workload: harness.Workload, keep: bool = False) -> None:
        """Start a workload anew, unless its other cases are kept or this run goes on with it."""
        old = self.data["workloads"].get(name, {})
        kept = old.get("cases", {}) if keep or self.resume else {}
        told = {"title": workload.title, "date": self.data["date"], "commit": self.data["commit"]}
        self.data["workloads"][name] = {**told, "cases": kept}

    def has(self, name: str, case: str, figures: tuple[str, ...]) -> bool:
        """Whether a run that goes on has this case already."""
        cases = self.data["workloads"].get(name, {}).get("cases", {})
        told = [f"{case}: {figure}" for figure in figures] or [case]
        return self.resume and all(one in cases for one in told)

    def save(self, name: str, case: str, unit: str, row: Row) -> None:
        """Keep a case, in the file too; that is never half written."""
        self.data["workloads"][name]["cases"][case] = {"unit": unit, "peers": row}
        self.write()

    def write(self) -> None:
        """Check the bars and write the file."""
        self.data["bars"] = bars.check(bars.read(), self.data["workloads"])
        if self.file:
            part = self.file.with_name(self.file.name + ".part")
            part.write_text(json.dumps(self.data, indent=1), encoding="utf-8")
            part.replace(self.file)


def line(case: str, unit: str, row: Row) -> str:
    """A case in the terminal: each peer's figure and ratio, or why there is none."""
    cells = []
    for name, found in row.items():
        if "median" not in found:
            cells.append(f"{name}: {found['reason'][:40]}")
            continue
        ratio = f" ({table.number(found['ratio']['median'])}x)" if "ratio" in found else ""
        cells.append(f"{name} {table.scaled(found['median'], unit)}{ratio}")
    return f"  {case}, {unit}: " + "; ".join(cells)


def run(options: argparse.Namespace, report: Report) -> None:
    """The chosen workloads in their order."""
    deadline = time.monotonic() + 60 * options.minutes
    chosen = {name: harness.load(name) for name in options.workloads}
    todo = {name: cases_of(name, w, options, report) for name, w in chosen.items()}
    left = sum(map(len, todo.values()))

    def until() -> float:
        """When the next case should be done: what is left of the time is shared evenly."""
        nonlocal left
        now = time.monotonic()
        share = max(deadline - now, 0.0) / max(left, 1)
        left -= 1
        return now + share

    for name, workload in chosen.items():
        wanted = options.peers.split(",")
        known = workload.peers.keys() | workload.absent.keys()
        peers = [n for n in harness.PEERS if n in known and n in wanted]
        report.begin(name, workload, keep=bool(options.case))
        print(f"\n{name}: {workload.title}", flush=True)

        def save(case: str, unit: str, row: Row, name: str = name) -> None:
            report.save(name, case, unit, row)
            print(line(case, unit, row), flush=True)

        RUNNERS[workload.kind](name, workload, todo[name], peers, options.rounds, until, save)


def cases_of(
    name: str, workload: harness.Workload, options: argparse.Namespace, report: Report
) -> list[str]:
    """The cases of a workload that are still to be measured."""
    cases = list(workload.quick) if options.quick else workload.cases
    if options.case:
        cases = [c for c in workload.cases if c in options.case]
    return [c for c in cases if not report.has(name, c, workload.figures)]


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "workloads", nargs="+", metavar="workload", help=f"all, or {', '.join(harness.WORKLOADS)}"
    )
    parser.add_argument("--quick", action="store_true", help="few cases, in five minutes")
    parser.add_argument("--minutes", type=float, help=f"about how long ({MINUTES:g})")
    parser.add_argument("--rounds", type=int, help="timed blocks of a peer at most (15)")
    parser.add_argument("--peers", default=",".join(harness.PEERS), help="comma-separated names")
    parser.add_argument("--case", action="append", help="only this case; may be repeated")
    parser.add_argument(
        "--json", nargs="?", type=Path, const=table.MEASURED, help="write figures (results.json)"
    )
    parser.add_argument("--resume", action="store_true", help="keep the cases that the file has")
    options = parser.parse_args()
    if options.workloads == ["all"]:
        options.workloads = list(harness.WORKLOADS)
    for name in options.workloads:
        if name not in harness.WORKLOADS:
            parser.error(f"no workload {name!r}; there are {', '.join(harness.WORKLOADS)}")
    options.minutes = options.minutes or (QUICK if options.quick else MINUTES)
    options.rounds = options.rounds or (5 if options.quick else 15)
    return options


def main() -> int:
    """Measure, and say which bars are met."""
    options = arguments()
    compileall.compile_dir(harness.HERE.parent / "src", quiet=1)  # as in an installed package
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    report = Report(options.json, options.resume)
    code, begun = 0, time.monotonic()
    try:
        run(options, report)
    except KeyboardInterrupt:
        print("\nstopped; --resume goes on" if options.json else "\nstopped")
        code = 130
    report.write()
    print(f"\n{(time.monotonic() - begun) / 60:.1f} minutes\n\nbars")
    for bar in report.data["bars"]:
        if bar["workload"] in options.workloads and bar["verdict"] != "not measured":
            against = bar.get("peer", "at most")
            print(
                f"  {bar['verdict']:7}{bar['factor']:6.2f}  {bar['workload']}: {table.case_of(bar)}"
                f", {against} {bar.get('least', bar.get('most')):g}: {bar['value']:.3g}"
            )
    return code


if __name__ == "__main__":
    sys.exit(main())
