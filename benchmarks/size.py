"""Graphs at size: what building, differentiating, running and keeping a long chain costs.

    python benchmarks/size.py [nodes]

Prints seconds (the best of several runs), bytes a node by tracemalloc, and two ratios: gradient
graph to build, and twice the nodes to once. A ratio of two is linear.
"""

from __future__ import annotations

import copy
import pickle
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import anabranch as ab


def by_hand(nodes: int) -> ab.Graph:
    g = ab.Graph("chain")
    y = g.parameter("x", (), ab.float64)
    for _ in range(nodes):
        y = ab.sin(y)
    g.set_outputs([y])
    return g


def traced(nodes: int) -> ab.Graph:
    def chain(x: Any) -> Any:
        for _ in range(nodes):
            x = ab.sin(x)
        return x

    return ab.trace(chain, 1.0)


def eager(nodes: int) -> ab.Tensor:
    y = ab.tensor(1.0, requires_grad=True)
    for _ in range(nodes):
        y = ab.sin(y)
    return y


def best(make: Callable[[], Any], work: Callable[[Any], Any], repeats: int = 4) -> float:
    """The shortest time of `work(make())`; making is not counted."""
    times = []
    for _ in range(repeats):
        thing = make()
        start = time.perf_counter()
        result = work(thing)
        times.append(time.perf_counter() - start)
        del result, thing
    return min(times)


def bytes_per_node(build: Callable[[int], Any], nodes: int) -> float:
    """What is still allocated after a build, by node."""
    build(10)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    kept = build(nodes)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    del kept
    return (after - before) / nodes


def derive(g: ab.Graph) -> Any:
    return ab.gradients(g.outputs[0], g.parameters)


def with_gradient(nodes: int) -> ab.Graph:
    g = by_hand(nodes)
    g.set_outputs([*g.outputs, *derive(g)])
    return g


def nothing() -> None:
    return None


def main(nodes: int) -> None:
    """Print the figures for a chain of this length."""
    print(
        f"{'build of ' + format(nodes, ','):28}{'seconds':>9}{'twice/once':>12}{'bytes/node':>12}"
    )
    built = {}
    for build in (by_hand, traced, eager):
        once = built[build] = best(nothing, lambda _, b=build: b(nodes))
        twice = best(nothing, lambda _, b=build: b(2 * nodes), 3)
        size = bytes_per_node(build, nodes)
        name = build.__name__.replace("_", " ")
        print(f"{name:28}{once:9.3f}{twice / once:12.2f}{size:12.0f}")
    once = best(lambda: by_hand(nodes), derive)
    twice = best(lambda: by_hand(2 * nodes), derive, 3)
    print(f"{'gradient graph':28}{once:9.3f}{twice / once:12.2f}")
    print(f"{'  to build':28}{once / built[by_hand]:9.2f}")
    print(f"{'eager backward':28}{best(lambda: eager(nodes), lambda y: y.backward()):9.3f}")
    g = with_gradient(nodes)
    works: dict[str, Callable[[Any], Any]] = {
        "compile value and gradient": lambda _: g.compile(*g.outputs, passes=()),
        "print": lambda _: str(g),
        "structure hash": lambda _: ab.structure_hash(g),
        "check": lambda _: ab.check(g),
        "pickle": lambda _: pickle.dumps(g),
        "deepcopy": lambda _: copy.deepcopy(g),
    }
    for name, work in works.items():
        print(f"{name:28}{best(nothing, work, 2):9.3f}")
    run = g.compile(*g.outputs, passes=())
    print(f"{'run value and gradient':28}{best(nothing, lambda _: run(1.0)):9.3f}")


if __name__ == "__main__":
    sys.setrecursionlimit(1_000)
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
