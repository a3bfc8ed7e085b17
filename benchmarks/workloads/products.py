"""Matrix products of 8³ to 2048³, on one thread and on all; results go into a given array if the
peer can do that, so that its kernel is measured, not its memory.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from harness import Bench, Workload

SIZES = (8, 16, 32, 64, 128, 256, 512, 1024, 2048)
CORES = len(os.sched_getaffinity(0))
COUNTS = dict.fromkeys((1, CORES))


def told(count: int) -> str:
    """How a case writes its threads."""
    return "1 thread" if count == 1 else f"{count} threads"


def threads(case: str) -> int:
    return int(case.split()[2])


WORKLOAD = Workload(
    "Matrix products of n by n",
    [
        f"{n} {dtype}, {told(count)}"
        for count in COUNTS
        for dtype in ("float32", "float64")
        for n in SIZES
    ],
    unit=lambda case: "us" if int(case.split()[0]) < 512 else "ms",
    tolerance=lambda case: 1e-5 if "float32" in case else 1e-13,
    quick=(f"64 float32, {told(1)}", f"512 float32, {told(CORES)}"),
    tiny=(f"5 float32, {told(CORES)}", f"8 float64, {told(CORES)}"),
    threads=threads,
)


def data(case: str) -> list[np.ndarray[Any, Any]]:
    n, dtype = case.replace(",", "").split()[:2]
    rng = np.random.default_rng(0)
    return [rng.standard_normal((int(n), int(n))).astype(dtype) for _ in range(2)]


def bench(step: Any, arguments: list[Any]) -> Bench:
    return Bench(step, lambda: {"product": np.asarray(step(*arguments))}, tuple(arguments))


@WORKLOAD.peer("anabranch")
def anabranch(case: str) -> Bench:
    import ours

    ours.threads(threads(case))
    return bench(ours.compiled(lambda a, b: a @ b), data(case))


@WORKLOAD.peer("numpy")
def by_hand(case: str) -> Bench:
    a, b = data(case)
    return bench(np.matmul, [a, b, np.empty_like(a)])


@WORKLOAD.peer("torch")
def torch_eager(case: str) -> Bench:
    import torch

    torch.set_num_threads(threads(case))
    a, b = map(torch.from_numpy, data(case))
    out = torch.empty_like(a)
    return bench(lambda a, b: torch.mm(a, b, out=out), [a, b])


@WORKLOAD.peer("jax")
def jax_jit(case: str) -> Bench:
    import jax

    f = jax.jit(lambda a, b: a @ b)
    arrays = [jax.numpy.asarray(v) for v in data(case)]
    return bench(lambda a, b: f(a, b).block_until_ready(), arrays)
