"""Straight-line code in the order in which a processor is done with it soonest.

A processor works ahead by a few hundred instructions. A long body in which one function stands
after the other keeps it waiting: each is a chain, and the next one lies too far ahead.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Sequence

SHORT = 100  # lines: all of that is in view anyway
_NAME = re.compile(r"%v\d+")
_WAITS = {"fdiv": 13, ".sqrt": 20, "load": 7, "fma": 4, "fmul": 3, "fadd": 3, "fsub": 3, "fcmp": 3}


def ordered(lines: Sequence[str]) -> list[str]:
    """The same instructions; of those that could come next, the one with most waiting behind it.

    What is in blocks stays as it is. Reading and writing memory keep their order.
    """
    if len(lines) < SHORT or any(line.endswith(":") for line in lines):
        return list(lines)
    needs = _needs(lines)
    users: list[list[int]] = [[] for _ in lines]
    for i, needed in enumerate(needs):
        for k in needed:
            users[k].append(i)
    waits = [_wait(line) for line in lines]
    behind = [0] * len(lines)  # how long it takes from here to the end
    for i in reversed(range(len(lines))):
        behind[i] = waits[i] + max((behind[k] for k in users[i]), default=0)
    return [lines[i] for i in _issued([len(needed) for needed in needs], users, waits, behind)]


def _needs(lines: Sequence[str]) -> list[set[int]]:
    """For each line those that must come before it."""
    made: dict[str, int] = {}
    needs: list[set[int]] = []
    written, read = set[int](), set[int]()  # the last store, and loads since
    for i, line in enumerate(lines):
        name, _, text = line.strip().partition(" = ")
        needed = {made[other] for other in _NAME.findall(text or line) if other in made}
        if not text:
            needed |= written | read
            written, read = {i}, set()
        elif "load" in text or "gather" in text:
            needed |= written
            read.add(i)
        made[name] = i
        needs.append(needed)
    return needs


def _wait(line: str) -> int:
    """About how many cycles pass until the result is there."""
    return next((cycles for word, cycles in _WAITS.items() if word in line), 1)


def _issued(
    left: list[int], users: Sequence[Sequence[int]], waits: Sequence[int], behind: Sequence[int]
) -> list[int]:
    """The order in which lines are taken, one a cycle, once what they need is there."""
    coming = [(0, i) for i, count in enumerate(left) if not count]  # by when they can be taken
    ready: list[tuple[int, int]] = []
    found: list[int] = []
    when = [0] * len(left)
    now = 0
    while coming or ready:
        if not ready:
            now = max(now, coming[0][0])
        while coming and coming[0][0] <= now:
            _, i = heapq.heappop(coming)
            heapq.heappush(ready, (-behind[i], i))
        _, i = heapq.heappop(ready)
        found.append(i)
        for k in users[i]:
            when[k] = max(when[k], now + waits[i])
            left[k] -= 1
            if not left[k]:
                heapq.heappush(coming, (when[k], k))
        now += 1
    return found
