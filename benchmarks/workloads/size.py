"""Graphs at size: what building, differentiating, running and keeping a long chain of sin costs.

A case ends in the number of its operations; twice as many should take twice as long.
"""

from __future__ import annotations

import copy
import pickle
import tracemalloc
from collections.abc import Callable
from typing import Any

from harness import Bench, Workload

BUILDS = ("built by hand", "traced", "eager")
WORKS = (
    "gradient graph",
    "eager backward",
    "compile value and gradient",
    "run value and gradient",
    "print",
    "structure hash",
    "check",
    "pickle",
    "deepcopy",
)
TWICE = (*BUILDS, "gradient graph", "compile value and gradient")
WORKLOAD = Workload(
    "Graphs at size: a chain of sin (on the reference backend)",
    [
        *(f"{build}, bytes each, 100,000" for build in BUILDS),
        *(f"{work}, 100,000" for work in (*BUILDS, *WORKS)),
        *(f"{work}, 200,000" for work in TWICE),
    ],
    unit=lambda case: "bytes" if "bytes" in case else "ms",
    quick=("built by hand, 100,000",),
)


def count_of(case: str) -> int:
    return int(case.rsplit(" ", 1)[1].replace(",", ""))


def by_hand(nodes: int) -> Any:
    import anabranch as ab

    g = ab.Graph("chain")
    y = g.parameter("x", (), ab.float64)
    for _ in range(nodes):
        y = ab.sin(y)
    g.set_outputs([y])
    return g


def traced(nodes: int) -> Any:
    import anabranch as ab

    def chain(x: Any) -> Any:
        for _ in range(nodes):
            x = ab.sin(x)
        return x

    return ab.trace(chain, 1.0)


def eager(nodes: int) -> Any:
    import anabranch as ab

    y = ab.tensor(1.0, requires_grad=True)
    for _ in range(nodes):
        y = ab.sin(y)
    return y


def slopes(g: Any) -> Any:
    import anabranch as ab

    return ab.gradients(g.outputs[0], g.parameters)


def with_gradient(nodes: int) -> Any:
    g = by_hand(nodes)
    g.set_outputs([*g.outputs, *slopes(g)])
    return g


def compiled(g: Any) -> Any:
    return g.compile(*g.outputs, passes=())


def bytes_each(build: Callable[[int], Any], nodes: int) -> float:
    """What is still allocated after a build, by operation."""
    build(10)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    kept = build(nodes)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    del kept
    return (after - before) / nodes


@WORKLOAD.peer("anabranch")
def anabranch(case: str) -> Bench:
    import anabranch as ab

    nodes, work = count_of(case), case.split(",", maxsplit=1)[0]
    build = dict(zip(BUILDS, (by_hand, traced, eager), strict=True)).get(work)
    if build and "bytes" in case:
        return Bench(None, dict, figure=lambda: bytes_each(build, nodes))
    if build:
        return Bench(lambda: build(nodes), dict)
    if work == "gradient graph":
        return Bench(slopes, dict, make=lambda: by_hand(nodes))
    if work == "eager backward":
        return Bench(lambda y: y.backward(), dict, make=lambda: eager(nodes))
    g = with_gradient(nodes)
    if work == "run value and gradient":
        run = compiled(g)
        return Bench(run, dict, (1.0,))
    steps: dict[str, Callable[[Any], Any]] = {
        "compile value and gradient": compiled,
        "print": str,
        "structure hash": ab.structure_hash,
        "check": ab.check,
        "pickle": pickle.dumps,
        "deepcopy": copy.deepcopy,
    }
    return Bench(steps[work], dict, (g,))
