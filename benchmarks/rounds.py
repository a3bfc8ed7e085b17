"""Peers in processes that live on, compared first, then timed in turn: A B C, B C A, C A B ..."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import figures
import harness
from processes import Peer, busy

PAUSE = 0.03  # seconds between blocks: lets the last peer's threads come to rest
LEAST = 5  # rounds; 3 of those that take long
LONG = 4.0  # seconds of a round
Row = dict[str, dict[str, Any]]


class Team:
    """The workers of one workload; those that ended start again, unless they were too slow."""

    def __init__(self, name: str, workload: harness.Workload) -> None:
        self.name, self.workload = name, workload
        self.peers: dict[str, Peer] = {}
        self.slow: dict[str, str] = {}
        self.threads: int | None = None

    def use(self, threads: int | None) -> None:
        """Have at most so many threads: other processes, if it was another number."""
        if threads != self.threads:
            self.close()
            self.threads = threads

    def check(self, peer: str, case: str) -> dict[str, Any]:
        """Let a peer build a case: its numbers as `result`, or `reason`."""
        if reason := self.slow.get(peer) or self.workload.missing(peer):
            return {"reason": reason}
        if peer not in self.peers or self.peers[peer].dead:
            env = harness.environment(peer, wide=self.workload.wide, threads=self.threads)
            self.peers[peer] = Peer(self.name, peer, env, self.workload.limit)
        reply = self.ask(peer, "check", case)
        if isinstance(reply.get("result"), str):
            return {"reason": reply["result"]}
        return reply

    def ask(self, peer: str, command: str, case: str) -> dict[str, Any]:
        """A reply with `result`, or with a `reason` in its place."""
        reply = self.peers[peer].ask(command, case)
        if reply.get("late"):
            self.slow[peer] = f"{reply['error']} at {case}"
        return reply if "result" in reply else {"reason": reply["error"]}

    def close(self) -> None:
        """End all workers."""
        for peer in self.peers.values():
            peer.close()
        self.peers.clear()


def compared(replies: dict[str, dict[str, Any]], tolerance: float) -> Row:
    """For each peer its reason not to be measured, empty for those that agree.

    What is compared with comes from a peer if there is one, so that we are judged by another's
    numbers.
    """
    row: Row = {}
    ranked = sorted(replies, key=lambda n: (n.startswith(harness.OURS), n != "numpy"))
    first = next((n for n in ranked if "result" in replies[n]), None)
    for name, reply in replies.items():
        row[name] = {}
        if "result" not in reply:
            row[name]["reason"] = reply["reason"]
        elif first is not None:
            gap = figures.disagreement(replies[first]["result"], reply["result"])
            if not gap <= tolerance:
                row[name]["reason"] = f"differs from {harness.PEERS[first].label} by {gap:.1e}"
    return row


def told(row: Row, blocks: dict[str, list[float]]) -> Row:
    """The row with medians, quartiles, and the ratios to ours, of the blocks of each peer."""
    ours = blocks.get(harness.OURS, [])
    for name, values in blocks.items():
        if not values:
            continue
        row[name] |= figures.spread(values) | {"rounds": len(values)}
        if name != harness.OURS and (by_ours := figures.ratio(values, ours)):
            row[name]["ratio"] = by_ours
    return row


def run_case(team: Team, case: str, names: list[str], most: int, until: float) -> Row:
    """Each peer's figures for one case, or why there are none."""
    workload = team.workload
    team.use(workload.threads(case) if workload.threads else None)
    replies = {name: team.check(name, case) for name in names}
    row = compared(replies, workload.tolerance_of(case))
    with busy(workload.crowded is not None and workload.crowded(case)):
        return told(row, timed(team, case, row, most, until))


def timed(team: Team, case: str, row: Row, most: int, until: float) -> dict[str, list[float]]:
    """The blocks of each peer that agrees; one that fails meanwhile gets its reason."""
    blocks: dict[str, list[float]] = {}
    one = 0.0
    for name in row:
        if not row[name]:
            reply = team.ask(name, "warm", case)
            if "result" in reply:
                blocks[name], one = [], one + reply["result"] + PAUSE
            else:
                row[name] = reply
    least = 3 if one > LONG else LEAST
    count = figures.rounds_that_fit(until - time.monotonic(), one, min(least, most), most)
    for turn in range(count):
        order = list(blocks)
        for name in order[turn % len(order) :] + order[: turn % len(order)]:
            time.sleep(PAUSE)
            reply = team.ask(name, "time", case)
            if "result" in reply:
                blocks[name].append(reply["result"])
            else:
                row[name] = reply
                del blocks[name]
        if not blocks:
            break
    return blocks


def run(
    name: str,
    workload: harness.Workload,
    cases: list[str],
    names: list[str],
    most: int,
    until: Callable[[], float],
    save: Callable[[str, str, Row], None],
) -> None:
    """All cases of a workload; each is saved as soon as it is done."""
    team = Team(name, workload)
    try:
        for case in cases:
            row = run_case(team, case, names, most, until())
            save(case, workload.unit_of(case), row)
    finally:
        team.close()
