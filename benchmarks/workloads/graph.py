"""Large graphs, eagerly: a chain, and one whose parts are shared at every level."""

from __future__ import annotations

from typing import Any

from harness import Bench, Workload

WORKLOAD = Workload(
    "Large graphs eagerly: value and gradient, built anew each time",
    ["chain of 100,000", "shared, depth 1,000"],
    unit="ms",
    tolerance=1e-9,
    quick=("shared, depth 1,000",),
    tiny=("chain of 10", "shared, depth 8"),
)


def function(case: str) -> Any:
    count = int(case.rsplit(" ", 1)[1].replace(",", ""))

    def chain(x: Any) -> Any:
        for _ in range(count // 2):
            x = x * 0.99999 + 0.0001
        return x

    def shared(x: Any) -> Any:
        before, last = x, x * 0.5
        for _ in range(count):
            before, last = last, (before + last) * 0.618  # each level uses the two before it
        return last

    return chain if case.startswith("chain") else shared


def bench(step: Any) -> Bench:
    return Bench(step, lambda: dict(zip(("value", "slope"), map(float, step()), strict=True)))


@WORKLOAD.peer("numpy")
def by_hand(case: str) -> Bench:
    f, x, count = function(case), 0.7, int(case.rsplit(" ", 1)[1].replace(",", ""))

    def step() -> Any:
        if case.startswith("chain"):
            slope = 1.0
            for _ in range(count // 2):
                slope *= 0.99999
            return f(x), slope
        return f(x), f(1.0)  # it is linear, without an offset

    return bench(step)


@WORKLOAD.peer("anabranch")
def anabranch(case: str) -> Bench:
    import anabranch as ab

    f = function(case)

    def step() -> Any:
        x = ab.tensor(0.7, requires_grad=True)
        y = f(x)
        y.backward(keep="leaves")
        return y, x.grad

    return bench(step)


@WORKLOAD.peer("torch")
def torch_eager(case: str) -> Bench:
    import torch

    f = function(case)

    def step() -> Any:
        x = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
        y = f(x)
        y.backward()
        return y.detach(), x.grad

    return bench(step)


@WORKLOAD.peer("autograd")
def hips_autograd(case: str) -> Bench:
    import autograd

    f = autograd.value_and_grad(function(case))
    return bench(lambda: f(0.7))


@WORKLOAD.peer("micrograd")
def micrograd(case: str) -> Bench:
    from micrograd.engine import Value

    f = function(case)

    def step() -> Any:
        x = Value(0.7)
        y = f(x)
        y.backward()
        return y.data, x.grad

    return bench(step)


@WORKLOAD.peer("jax_eager")
def jax_op_by_op(case: str) -> Bench:
    import jax

    f = jax.value_and_grad(function(case))  # op by op, as the others run
    return bench(lambda: jax.block_until_ready(f(0.7)))
