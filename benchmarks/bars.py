"""What is promised: each bar of `bars.toml`, held against what was measured."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import harness

FILE = harness.HERE / "bars.toml"


def read(file: Path = FILE) -> list[dict[str, Any]]:
    """The bars in their order.

    Each names `workload` and `case` (of several the worst counts), and either `peer` (of several
    the fastest counts) with `least`, the ratio of its figure to ours, or `most`, seconds or MiB of
    ours.
    `ours` names another of our columns.
    """
    bars: list[dict[str, Any]] = tomllib.loads(file.read_text(encoding="utf-8"))["bar"]
    return bars


def check(bars: Sequence[Mapping[str, Any]], results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each bar with its verdict: met, missed, or not measured and why.

    `value` is the ratio or the figure, with its quartiles `low` and `high`; `factor` is above 1
    if the bar is met, and says how far it is from that otherwise. Of several cases `worst` is the
    one that is told, and `met` counts those that meet the bar, of those `measured`.
    """
    return [{**bar, **_of_all(bar, results)} for bar in bars]


def _of_all(bar: Mapping[str, Any], results: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(bar["case"], str):
        return _verdict(bar, results)
    each = {case: _verdict({**bar, "case": case}, results) for case in bar["case"]}
    measured = {case: one for case, one in each.items() if "factor" in one}
    if not measured:
        return next(iter(each.values()))
    worst = min(measured, key=lambda case: measured[case]["factor"])
    met = sum(one["verdict"] == "met" for one in measured.values())
    return {**measured[worst], "worst": worst, "met": met, "measured": len(measured)}


def _verdict(bar: Mapping[str, Any], results: Mapping[str, Any]) -> dict[str, Any]:
    cases = results.get(bar["workload"], {}).get("cases", {})
    row = cases.get(bar["case"], {}).get("peers")
    if row is None:
        return _unmeasured("not run")
    ours = row.get(bar.get("ours", harness.OURS), {"reason": "not run"})
    if "median" not in ours:
        return _unmeasured(ours["reason"])
    if "most" in bar:
        value = {k: ours[k] for k in ("median", "low", "high")}
        return _told(value, bar["most"] / ours["median"] if ours["median"] > 0 else float("inf"))
    peers = [bar["peer"]] if isinstance(bar["peer"], str) else bar["peer"]
    found = {p: row[p] for p in peers if "median" in row.get(p, {})}
    if not found:
        return _unmeasured("; ".join(row.get(p, {}).get("reason", "not run") for p in peers))
    best = min(found, key=lambda p: found[p]["median"])
    value = _ratio(found[best], ours, "ours" in bar)
    return {"best": best} | _told(value, value["median"] / bar["least"])


def _ratio(peer: Mapping[str, Any], ours: Mapping[str, Any], other: bool) -> dict[str, float]:
    """The ratios of the rounds; against another of our columns, that of the medians."""
    if not other and "ratio" in peer:
        return dict(peer["ratio"])
    return {
        "median": peer["median"] / ours["median"],
        "low": peer["low"] / ours["high"],
        "high": peer["high"] / ours["low"],
    }


def _told(value: Mapping[str, float], factor: float) -> dict[str, Any]:
    verdict = "met" if factor >= 1 else "missed"
    names = {"value": "median", "low": "low", "high": "high"}
    return {k: value[v] for k, v in names.items()} | {"factor": factor, "verdict": verdict}


def _unmeasured(why: str) -> dict[str, Any]:
    return {"verdict": "not measured", "why": why}
