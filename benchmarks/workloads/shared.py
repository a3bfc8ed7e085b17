"""A graph whose parts are shared at every level, x(n) = x(n-1) + x(n-2): n additions, and as many
paths as the Fibonacci numbers tell, which are its gradients: no wrong count of paths can hide.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness import Bench, Workload

WORKLOAD = Workload(
    "A graph shared at each of n levels: value and both gradients",
    ["1,000"],
    tolerance=1e-9,
    kind="fresh",
    tiny=("10",),
    limit=40.0,
    figures=(
        "first result, empty caches",
        "first result, second start",
        "next call",
        "peak memory",
    ),
)
START = (0.25, 0.5)


def fibonacci(a: Any, b: Any, case: str) -> Any:
    for _ in range(int(case.replace(",", ""))):
        a, b = b, a + b
    return b


def bench(step: Callable[[], Any]) -> Bench:
    def numbers() -> dict[str, float]:
        value, (a, b) = step()
        return {"value": float(value), "a": float(a), "b": float(b)}

    return Bench(step, numbers)


@WORKLOAD.peer("anabranch")
def anabranch(case: str) -> Bench:
    import anabranch as ab
    import ours

    f = ours.compiled(ab.value_and_grad(lambda a, b: fibonacci(a, b, case), (0, 1)))
    return bench(lambda: f(*START))


@WORKLOAD.peer("numpy")
def by_hand(case: str) -> Bench:
    def step() -> Any:
        a, b = 1.0, 0.0
        for _ in range(int(case.replace(",", ""))):  # the recurrence, backwards
            a, b = a + b, a
        return fibonacci(*START, case), (b, a)

    return bench(step)


@WORKLOAD.peer("torch")
def torch_eager(case: str) -> Bench:
    import torch

    def step() -> Any:
        inputs = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in START]
        value = fibonacci(*inputs, case)
        return value.detach(), torch.autograd.grad(value, inputs)

    return bench(step)


@WORKLOAD.peer("torch_compile")
def torch_compile(case: str) -> Bench:
    import torch

    f = torch.func.grad_and_value(lambda a, b: fibonacci(a, b, case), (0, 1))
    f = torch.compile(f, fullgraph=True)
    inputs = [torch.tensor(v, dtype=torch.float64) for v in START]
    return bench(lambda: f(*inputs)[::-1])


@WORKLOAD.peer("jax")
def jax_jit(case: str) -> Bench:
    import jax

    f = jax.jit(jax.value_and_grad(lambda a, b: fibonacci(a, b, case), (0, 1)))
    return bench(lambda: f(*START))


@WORKLOAD.peer("autograd")
def hips_autograd(case: str) -> Bench:
    import autograd

    f = autograd.value_and_grad(lambda a, b: fibonacci(a, b, case), (0, 1))
    return bench(lambda: f(*START))


@WORKLOAD.peer("micrograd")
def micrograd(case: str) -> Bench:
    from micrograd.engine import Value

    def step() -> Any:
        a, b = map(Value, START)
        value = fibonacci(a, b, case)
        value.backward()
        return value.data, (a.grad, b.grad)

    return bench(step)


@WORKLOAD.peer("pytensor", "pytensor_c")
def pytensor(case: str) -> Bench:
    import pytensor
    import pytensor.tensor as pt

    symbols = [pt.dscalar(), pt.dscalar()]
    value = fibonacci(*symbols, case)
    f = pytensor.function(symbols, [value, *pytensor.grad(value, symbols)])

    def step() -> Any:
        value, *slopes = f(*START)
        return value, slopes

    return bench(step)


@WORKLOAD.peer("casadi")
def casadi(case: str) -> Bench:
    import casadi as ca

    symbols = [ca.SX.sym("a"), ca.SX.sym("b")]
    value = fibonacci(*symbols, case)
    f = ca.Function("f", symbols, [value, *(ca.gradient(value, s) for s in symbols)])

    def step() -> Any:
        value, *slopes = f(*START)
        return value, slopes

    return bench(step)


@WORKLOAD.peer("tinygrad")
def tinygrad(case: str) -> Bench:
    from tinygrad import Tensor, dtypes

    def step() -> Any:
        inputs = [Tensor([v], dtype=dtypes.float64).realize() for v in START]
        value = fibonacci(*inputs, case).sum()
        slopes = value.gradient(*inputs)
        Tensor.realize(value, *slopes)
        return value.item(), [s.item() for s in slopes]

    return bench(step)
