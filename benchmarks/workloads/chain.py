"""A chain of n scalar operations x -> sin(x): who survives it, and what it costs.

The first result takes building, differentiating and compiling; those who define by running do the
first two at each call. Each figure comes from a new process.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from harness import Bench, Workload

WORKLOAD = Workload(
    "A chain of n operations sin: value and gradient",
    ["10,000", "100,000"],
    tolerance=1e-8,
    kind="fresh",
    quick=("10,000",),
    tiny=("25",),
    limit=60.0,
    figures=(
        "first result, empty caches",
        "first result, second start",
        "next call",
        "peak memory",
    ),
)
WORKLOAD.without("has no sin", "micrograd")
START = 0.7


def chain(sin: Callable[[Any], Any], x: Any, case: str) -> Any:
    for _ in range(int(case.replace(",", ""))):
        x = sin(x)
    return x


def bench(step: Callable[[], Any]) -> Bench:
    return Bench(step, lambda: dict(zip(("value", "slope"), map(float, step()), strict=True)))


@WORKLOAD.peer("anabranch")
def anabranch(case: str) -> Bench:
    import anabranch as ab
    import ours

    f = ours.compiled(ab.value_and_grad(lambda x: chain(ab.sin, x, case)))
    return bench(lambda: f(START))


@WORKLOAD.peer("numpy")
def by_hand(case: str) -> Bench:
    def step() -> Any:
        x, trail = START, []
        for _ in range(int(case.replace(",", ""))):
            trail.append(x)
            x = math.sin(x)
        slope = 1.0
        for v in reversed(trail):
            slope *= math.cos(v)
        return x, slope

    return bench(step)


@WORKLOAD.peer("torch")
def torch_eager(case: str) -> Bench:
    import torch

    def step() -> Any:
        x = torch.tensor(START, dtype=torch.float64, requires_grad=True)
        y = chain(torch.sin, x, case)
        return y.detach(), torch.autograd.grad(y, x)[0]

    return bench(step)


@WORKLOAD.peer("torch_compile")
def torch_compile(case: str) -> Bench:
    import torch

    f = torch.func.grad_and_value(lambda x: chain(torch.sin, x, case))
    f = torch.compile(f, fullgraph=True)
    x = torch.tensor(START, dtype=torch.float64)
    return bench(lambda: f(x)[::-1])


@WORKLOAD.peer("jax")
def jax_jit(case: str) -> Bench:
    import jax
    import jax.numpy as jnp

    f = jax.jit(jax.value_and_grad(lambda x: chain(jnp.sin, x, case)))
    return bench(lambda: f(START))


@WORKLOAD.peer("jax_scan")
def jax_scan(case: str) -> Bench:
    import jax
    import jax.numpy as jnp

    count = int(case.replace(",", ""))

    def loop(x: Any) -> Any:
        return jax.lax.scan(lambda x, _: (jnp.sin(x), None), x, length=count)[0]

    f = jax.jit(jax.value_and_grad(loop))
    return bench(lambda: f(START))


@WORKLOAD.peer("autograd")
def hips_autograd(case: str) -> Bench:
    import autograd
    import autograd.numpy as anp

    f = autograd.value_and_grad(lambda x: chain(anp.sin, x, case))
    return bench(lambda: f(START))


@WORKLOAD.peer("pytensor", "pytensor_c")
def pytensor(case: str) -> Bench:
    import pytensor
    import pytensor.tensor as pt

    x = pt.dscalar()
    y = chain(pt.sin, x, case)
    f = pytensor.function([x], [y, pytensor.grad(y, x)])
    return bench(lambda: f(START))


@WORKLOAD.peer("casadi")
def casadi(case: str) -> Bench:
    import casadi as ca

    x = ca.SX.sym("x")
    y = chain(ca.sin, x, case)
    f = ca.Function("f", [x], [y, ca.gradient(y, x)])
    return bench(lambda: f(START))


@WORKLOAD.peer("tinygrad")
def tinygrad(case: str) -> Bench:
    from tinygrad import Tensor, dtypes

    def step() -> Any:
        x = Tensor([START], dtype=dtypes.float64).realize()
        y = chain(Tensor.sin, x, case).sum()
        (slope,) = y.gradient(x)
        Tensor.realize(y, slope)
        return y.item(), slope.item()

    return bench(step)
