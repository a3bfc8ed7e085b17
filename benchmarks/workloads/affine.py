"""Gradient of sum((a @ b + c)**2), which is small: a is 32 by 16, b 16 by 8, c 8."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from harness import Bench, Workload

WORKLOAD = Workload(
    "Gradient of sum((a @ b + c)²), a 32×16, b 16×8, c 8, float64",
    ["all three gradients"],
    unit="us",
    tolerance=1e-11,
    quick=("all three gradients",),
    tiny=("all three gradients",),
)
WORKLOAD.without("scalars only", "micrograd")


def data() -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(s) for s in ((32, 16), (16, 8), (8,))]


def value(a: Any, b: Any, c: Any) -> Any:
    return ((a @ b + c) ** 2).sum()


def bench(
    step: Callable[..., Any],
    wrap: Callable[[Any], Any] = np.asarray,
    plain: Callable[[Any], Any] = np.asarray,
) -> Bench:
    arguments = tuple(map(wrap, data()))
    return Bench(
        step, lambda: dict(zip("abc", map(plain, step(*arguments)), strict=True)), arguments
    )


@WORKLOAD.peer("anabranch")
def anabranch(case: str) -> Bench:
    import anabranch as ab
    import ours

    return bench(ours.compiled(ab.grad(value, (0, 1, 2))))


@WORKLOAD.peer("numpy")
def by_hand(case: str) -> Bench:
    def step(a: Any, b: Any, c: Any) -> Any:
        e = a @ b
        e += c
        e *= 2.0
        return e @ b.T, a.T @ e, e.sum(0)

    return bench(step)


@WORKLOAD.peer("numba")
def numba(case: str) -> Bench:
    import numba

    @numba.njit
    def step(a, b, c):  # type: ignore[no-untyped-def]
        e = 2.0 * (np.dot(a, b) + c)
        return np.dot(e, b.T), np.dot(a.T, e), e.sum(0)

    return bench(step)


@WORKLOAD.peer("torch")
def torch_eager(case: str) -> Bench:
    import torch

    def step(a: Any, b: Any, c: Any) -> Any:
        return torch.autograd.grad(value(a, b, c), (a, b, c))

    return bench(step, lambda v: torch.tensor(v, requires_grad=True))


@WORKLOAD.peer("torch_compile")
def torch_compile(case: str) -> Bench:
    import torch

    slopes = torch.func.grad(value, argnums=(0, 1, 2))
    return bench(torch.compile(slopes, fullgraph=True, dynamic=False), torch.tensor)


@WORKLOAD.peer("jax")
def jax_jit(case: str) -> Bench:
    import jax

    f = jax.jit(jax.grad(value, (0, 1, 2)))
    return bench(lambda a, b, c: jax.block_until_ready(f(a, b, c)), jax.numpy.asarray)


@WORKLOAD.peer("autograd")
def hips_autograd(case: str) -> Bench:
    import autograd
    import autograd.numpy as anp

    return bench(autograd.grad(lambda a, b, c: anp.sum((a @ b + c) ** 2), (0, 1, 2)))


@WORKLOAD.peer("pytensor", "pytensor_c")
def pytensor(case: str) -> Bench:
    import pytensor
    import pytensor.tensor as pt

    symbols = [pt.dmatrix(), pt.dmatrix(), pt.dvector()]
    f = pytensor.function(symbols, pytensor.grad(value(*symbols), symbols))
    f.trust_input = True
    return bench(f)


@WORKLOAD.peer("casadi")
def casadi(case: str) -> Bench:
    import casadi as ca

    a, b, c = ca.MX.sym("a", 32, 16), ca.MX.sym("b", 16, 8), ca.MX.sym("c", 8)
    total = ca.sumsqr(ca.mtimes(a, b) + ca.repmat(c.T, 32, 1))
    f = ca.Function("f", [a, b, c], [ca.gradient(total, s) for s in (a, b, c)])
    buffer, call = f.buffer()
    inputs = [np.asfortranarray(v) for v in data()]
    outputs = [np.zeros(v.shape, order="F") for v in inputs]
    for i, array in enumerate(inputs):
        buffer.set_arg(i, memoryview(array.ravel("K")))
    for i, array in enumerate(outputs):
        buffer.set_res(i, memoryview(array.ravel("K")))

    def numbers() -> dict[str, Any]:
        call()
        return dict(zip("abc", outputs, strict=True))

    made = Bench(call, numbers)
    made.kept = (f, buffer, inputs)
    return made


@WORKLOAD.peer("tinygrad")
def tinygrad(case: str) -> Bench:
    from tinygrad import Tensor, TinyJit

    @TinyJit
    def f(a: Any, b: Any, c: Any) -> Any:
        slopes = value(a, b, c).gradient(a, b, c)
        Tensor.realize(*slopes)
        return slopes

    def step(a: Any, b: Any, c: Any) -> Any:
        slopes = f(a, b, c)
        slopes[2].numpy()  # waits
        return slopes

    return bench(step, lambda v: Tensor(v).realize(), lambda g: g.numpy())
