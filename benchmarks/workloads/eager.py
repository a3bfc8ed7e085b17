"""Eager work: a scalar expression with both gradients, and plain arithmetic on arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from harness import Bench, Workload

WORKLOAD = Workload(
    "Eager work: z = (x·y + x)² with both gradients, and arithmetic without gradients",
    ["z and gradients", "5 · and 5 + of 1e3", "5 exp and tanh of 1e3", "5 exp and tanh of 1e5"],
    unit="us",
    quick=("z and gradients",),
    tiny=("z and gradients", "5 · and 5 + of 1e1", "5 exp and tanh of 1e1"),
)
ONLY_Z = "its arithmetic is NumPy's, or scalar"


def size(case: str) -> int:
    return int(float(case.rsplit(" ", 1)[1]))


def operands(case: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    return rng.uniform(0.5, 1.5, size(case)), rng.uniform(0.5, 1.5, size(case))


def arithmetic(a: Any, b: Any) -> Any:
    for _ in range(5):
        a = a * b
        a = a + b
    return a


def mix(a: Any, exp: Callable[[Any], Any], tanh: Callable[[Any], Any]) -> Any:
    for _ in range(5):
        a = tanh(exp(a))
    return a


def array_bench(case: str, wrap: Callable[[Any], Any], exp: Any, tanh: Any) -> Bench:
    a, b = map(wrap, operands(case))
    step = (lambda: arithmetic(a, b)) if "+" in case else (lambda: mix(a, exp, tanh))
    return Bench(step, lambda: {"result": np.asarray(step())})


@WORKLOAD.peer("anabranch")
def anabranch(case: str) -> Bench:
    import anabranch as ab

    if not case.startswith("z"):
        return array_bench(case, ab.tensor, ab.exp, ab.tanh)

    def step() -> Any:
        x = ab.tensor(2.0, requires_grad=True)
        y = ab.tensor(3.0, requires_grad=True)
        z = (x * y + x) ** 2
        z.backward()
        return z, x.grad, y.grad

    return Bench(step, lambda: dict(zip("zxy", map(float, step()), strict=True)))


@WORKLOAD.peer("numpy")
def plain_numpy(case: str) -> Bench:
    if not case.startswith("z"):
        return array_bench(case, np.array, np.exp, np.tanh)

    def step() -> Any:
        x, y = 2.0, 3.0
        u = x * y + x
        return u * u, 2.0 * u * (y + 1.0), 2.0 * u * x

    return Bench(step, lambda: dict(zip("zxy", step(), strict=True)))


@WORKLOAD.peer("torch")
def torch_eager(case: str) -> Bench:
    import torch

    if not case.startswith("z"):
        return array_bench(case, torch.tensor, torch.exp, torch.tanh)

    def step() -> Any:
        x = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
        y = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
        z = (x * y + x) ** 2
        z.backward()
        return z, x.grad, y.grad

    return Bench(step, lambda: dict(zip("zxy", map(float, step()), strict=True)))


@WORKLOAD.peer("autograd")
def hips_autograd(case: str) -> Bench | str:
    import autograd

    if not case.startswith("z"):
        return ONLY_Z
    f = autograd.value_and_grad(lambda x, y: (x * y + x) ** 2, argnum=(0, 1))

    def step() -> Any:
        return f(2.0, 3.0)

    def numbers() -> dict[str, float]:
        z, (x, y) = step()
        return {"z": z, "x": x, "y": y}

    return Bench(step, numbers)


@WORKLOAD.peer("micrograd")
def micrograd(case: str) -> Bench | str:
    from micrograd.engine import Value

    if not case.startswith("z"):
        return ONLY_Z

    def step() -> Any:
        x, y = Value(2.0), Value(3.0)
        z = (x * y + x) ** 2
        z.backward()
        return z.data, x.grad, y.grad

    return Bench(step, lambda: dict(zip("zxy", step(), strict=True)))


@WORKLOAD.peer("jax_eager")
def jax_eager(case: str) -> Bench:
    import jax
    import jax.numpy as jnp

    if not case.startswith("z"):
        a, b = map(jnp.asarray, operands(case))
        if "+" in case:
            return Bench(
                lambda: arithmetic(a, b).block_until_ready(),
                lambda: {"result": np.asarray(arithmetic(a, b))},
            )
        return Bench(
            lambda: mix(a, jnp.exp, jnp.tanh).block_until_ready(),
            lambda: {"result": np.asarray(mix(a, jnp.exp, jnp.tanh))},
        )
    f = jax.value_and_grad(lambda x, y: (x * y + x) ** 2, argnums=(0, 1))

    def step() -> Any:
        z, (x, y) = f(2.0, 3.0)
        return z, x, y.block_until_ready()

    return Bench(step, lambda: dict(zip("zxy", map(float, step()), strict=True)))
