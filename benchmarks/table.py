"""Writes RESULTS.md from what `run.py --json` has measured: `python benchmarks/table.py [FILE]`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import bars
import harness

MEASURED = harness.HERE / "results.json"
RESULTS = harness.HERE / "RESULTS.md"
SCALES = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3}  # what counts by itself has no scale
SIGNS = {"us": "µs"}
METHOD = """\
Each peer computes the same in a process of its own, and the numbers are compared before anything is measured.
Then the peers take turns, a block of 50 ms each (one call, if it takes longer), with a pause in between; a figure is the median of the rounds.
The number in brackets is the peer's time by ours, the median of the ratios round by round: above 1 we are faster; **bold**: the peer is faster than we are.
What is told of memory or of a process start comes from new processes, with empty or with filled caches on disk.
A first result is told without what any library imports on the way to it (a process before those that are measured tells which modules these are), unless it takes over 8 s; from process start they count.
NumPy and numba by hand are derivatives that a person wrote: marks, not rivals.
Quartiles of all figures and ratios are in `results.json`."""  # noqa: E501


def number(value: float) -> str:
    """Three digits that count."""
    if value >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def scaled(value: float, unit: str) -> str:
    """A figure in its unit."""
    return number(value / SCALES.get(unit, 1.0))


def sign(unit: str) -> str:
    """How a unit is written."""
    return SIGNS.get(unit, unit)


def cell(found: Mapping[str, Any], unit: str) -> str:
    """A figure and its ratio; bold if the peer did better than we."""
    if "median" not in found:
        return "–"
    text = scaled(found["median"], unit)
    if "ratio" not in found:
        return text
    ratio = found["ratio"]["median"]
    whole = f"{text} ({number(ratio)})"
    return f"**{whole}**" if ratio < 1 else whole


def columns(cases: Mapping[str, Any]) -> list[str]:
    """The peers that have a figure in some case, in their order."""
    return [
        name
        for name in harness.PEERS
        if any("median" in case["peers"].get(name, {}) for case in cases.values())
    ]


def table(cases: Mapping[str, Any]) -> list[str]:
    """A row for each case, a column for each peer."""
    peers = columns(cases)
    heads = ["case", *(harness.PEERS[p].label for p in peers)]
    lines = [_row(heads), _row(["---"] * len(heads))]
    for name, case in cases.items():
        cells = [cell(case["peers"].get(p, {}), case["unit"]) for p in peers]
        lines.append(_row([f"{name}, {sign(case['unit'])}", *cells]))
    return lines


def reasons(cases: Mapping[str, Any]) -> list[str]:
    """Why a peer has no figure: a line for each reason, with the cases if they are not all."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, case in cases.items():
        for peer, row in case["peers"].items():
            if "reason" in row:
                found.setdefault((peer, row["reason"]), []).append(name)
    lines = []
    for (peer, reason), where in found.items():
        which = "" if len(where) == len(cases) else f" ({', '.join(where)})"
        lines.append(f"- {harness.PEERS[peer].label}: {reason}{which}")
    return lines


def bar_lines(checked: Sequence[Mapping[str, Any]]) -> list[str]:
    """The table of what was promised."""
    heads = ["work", "against", "bar", "measured", "quartiles", "verdict"]
    lines = [_row(heads), _row(["---"] * len(heads))]
    for bar in checked:
        lines.append(_row([f"{bar['workload']}: {case_of(bar)}", *_bar_cells(bar)]))
    return lines


def case_of(bar: Mapping[str, Any]) -> str:
    """The case of a bar; of several the first and the last."""
    case = bar["case"]
    return case if isinstance(case, str) else f"{case[0]} to {case[-1]}"


def _bar_cells(bar: Mapping[str, Any]) -> list[str]:
    unit = bar.get("unit", "ms")
    write = (lambda v: f"{v:.3g}") if "least" in bar else (lambda v: scaled(v, unit))
    if "least" in bar:
        peers = [bar["peer"]] if isinstance(bar["peer"], str) else bar["peer"]
        labels = [harness.PEERS[p].label for p in peers]
        against = labels[0] if len(labels) == 1 else f"the fastest of {', '.join(labels)}"
        promised = f"{bar['least']:g} times"
    else:
        against, promised = "–", f"at most {write(bar['most'])} {sign(unit)}"
    if "ours" in bar:
        against += f" (ours: {harness.PEERS[bar['ours']].label})"
    if bar["verdict"] == "not measured":
        return [against, promised, "–", "–", f"not measured: {bar['why']}"]
    verdict = "met" if bar["verdict"] == "met" else "**missed**"
    spread = f"{write(bar['low'])} to {write(bar['high'])}"
    verdict += f", {bar['factor']:.2f}"
    if "worst" in bar:
        verdict += f" at {bar['worst']}; {bar['met']} of {bar['measured']} meet it"
    return [against, promised, write(bar["value"]), spread, verdict]


def page(measured: Mapping[str, Any], promised: Sequence[Mapping[str, Any]]) -> str:
    """All of RESULTS.md."""
    checked = bars.check(promised, measured["workloads"])
    counts = {v: sum(b["verdict"] == v for b in checked) for v in ("met", "missed", "not measured")}
    machine = ", ".join(f"{k} {v}" for k, v in measured["machine"].items())
    packages = ", ".join(f"{k} {v}" for k, v in measured["versions"].items())
    lines = [
        "# Results",
        "",
        f"Measured on {measured['date']} by `{measured['command']}`; this file is written from"
        " `results.json` by `python benchmarks/table.py`.",
        f"Machine: {machine}.",
        f"Versions: anabranch {measured['commit']}, {packages}.",
        "",
        *METHOD.splitlines(),
        "",
        "## Bars",
        "",
        f"{counts['met']} met, {counts['missed']} missed, {counts['not measured']} not measured;"
        " the last number is what was measured by what was promised: above 1 the bar is met.",
        "",
        *bar_lines(checked),
    ]
    for name in harness.WORKLOADS:
        if name in measured["workloads"]:
            lines += _section(name, measured["workloads"][name], measured)
    return "\n".join(lines) + "\n"


def _section(name: str, found: Mapping[str, Any], measured: Mapping[str, Any]) -> list[str]:
    same = all(found[key] == measured[key] for key in ("date", "commit"))
    when = "" if same else f" (on {found['date']}, anabranch {found['commit']})"
    why = reasons(found["cases"])
    head = f"`python benchmarks/run.py {name}`{when}"
    lines = ["", f"## {found['title']}", "", head, "", *table(found["cases"])]
    return [*lines, "", "No figure:", "", *why] if why else lines


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Write the page."""
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else MEASURED
    measured = json.loads(source.read_text(encoding="utf-8"))
    RESULTS.write_text(page(measured, bars.read()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
