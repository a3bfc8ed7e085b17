"""What a call costs: five arrays of eight numbers in, their sum out, fresh at each call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from harness import Bench, Workload

WORKLOAD = Workload(
    "A call: a + b + c + d + e of eight float64 each, fresh output",
    ["five arrays"],
    unit="ns",
    quick=("five arrays",),
    tiny=("five arrays",),
)
WORKLOAD.without("scalars only", "micrograd")


def data() -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(8) for _ in range(5)]


def total(a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
    return a + b + c + d + e


def bench(step: Callable[..., Any], wrap: Callable[[Any], Any] = np.asarray) -> Bench:
    arguments = tuple(map(wrap, data()))
    return Bench(step, lambda: {"sum": np.asarray(step(*arguments))}, arguments)


@WORKLOAD.peer("anabranch")
def anabranch(case: str) -> Bench:
    import ours

    return bench(ours.compiled(total))


@WORKLOAD.peer("numpy")
def by_hand(case: str) -> Bench:
    return bench(total)


@WORKLOAD.peer("numba")
def numba(case: str) -> Bench:
    import numba

    @numba.njit
    def kernel(a, b, c, d, e):  # type: ignore[no-untyped-def]
        out = np.empty_like(a)
        for i in range(a.size):
            out[i] = a[i] + b[i] + c[i] + d[i] + e[i]
        return out

    return bench(kernel)


@WORKLOAD.peer("torch")
def torch_eager(case: str) -> Bench:
    import torch

    return bench(total, torch.tensor)


@WORKLOAD.peer("torch_compile")
def torch_compile(case: str) -> Bench:
    import torch

    return bench(torch.compile(total, fullgraph=True, dynamic=False), torch.tensor)


@WORKLOAD.peer("jax")
def jax_jit(case: str) -> Bench:
    import jax

    f = jax.jit(total)
    return bench(lambda a, b, c, d, e: f(a, b, c, d, e).block_until_ready(), jax.numpy.asarray)


@WORKLOAD.peer("pytensor", "pytensor_c")
def pytensor(case: str) -> Bench:
    import pytensor
    import pytensor.tensor as pt

    symbols = [pt.dvector() for _ in range(5)]
    f = pytensor.function(symbols, total(*symbols))
    f.trust_input = True
    return bench(f)


@WORKLOAD.peer("casadi")
def casadi(case: str) -> Bench:
    import casadi as ca

    symbols = [ca.SX.sym(name, 8) for name in "abcde"]
    f = ca.Function("f", symbols, [total(*symbols)])
    made = bench(f)
    made.numbers = lambda: {"sum": f(*made.arguments).full()}
    return made


@WORKLOAD.peer("tinygrad")
def tinygrad(case: str) -> Bench:
    from tinygrad import Tensor, TinyJit

    f = TinyJit(lambda a, b, c, d, e: total(a, b, c, d, e).realize())
    return bench(lambda *a: f(*a).numpy(), lambda v: Tensor(v).realize())
