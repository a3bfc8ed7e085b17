"""A chain of elementwise mathematics: y = mean(gelu(x) + tanh(2x) exp(-x²/2)), and dy/dx.

Fused, it reads x once and writes the gradient once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from harness import Bench, Workload

WORKLOAD = Workload(
    "Value and gradient of mean(gelu(x) + tanh(2x) exp(-x²/2))",
    [f"{n} {dtype}" for dtype in ("float32", "float64") for n in ("1e3", "1e5", "1e7")],
    unit=lambda case: "ms" if case.startswith("1e7") else "us",
    tolerance=lambda case: 2e-5 if "float32" in case else 1e-9,
    quick=("1e3 float32", "1e5 float64"),
    tiny=("1e1 float32", "3e1 float64"),
)
WORKLOAD.without("scalars only", "micrograd")
C, CUBE = math.sqrt(2.0 / math.pi), 0.044715


def data(case: str) -> np.ndarray[Any, Any]:
    size, dtype = case.split()
    return np.random.default_rng(0).standard_normal(int(float(size)), dtype=np.dtype(dtype).type)


def mix(x: Any, tanh: Callable[[Any], Any], exp: Callable[[Any], Any]) -> Any:
    gelu = 0.5 * x * (1.0 + tanh(C * (x + CUBE * x * x * x)))
    return (gelu + tanh(2.0 * x) * exp(-0.5 * x * x)).mean()


def bench(
    step: Callable[..., Any],
    *arguments: Any,
    split: Callable[[Any], Any] = lambda out: out,
    plain: Callable[[Any], Any] = np.asarray,
) -> Bench:
    def numbers() -> dict[str, Any]:
        value, slope = split(step(*arguments))
        return {"value": plain(value), "slope": plain(slope)}

    return Bench(step, numbers, arguments)


@WORKLOAD.peer("anabranch")
def anabranch(case: str) -> Bench:
    import anabranch as ab
    import ours

    f = ab.value_and_grad(lambda x: mix(x, ab.tanh, ab.exp))
    return bench(ours.compiled(f), data(case))


@WORKLOAD.peer("numpy")
def by_hand(case: str) -> Bench:
    x = data(case)
    number = x.dtype.type
    half, one, two, c, cube, cube3 = map(number, (0.5, 1.0, 2.0, C, CUBE, 3.0 * CUBE))

    def step(x: Any) -> Any:
        square = x * x
        t1 = np.tanh(c * (x + cube * square * x))
        t2, e = np.tanh(two * x), np.exp(-half * square)
        value = (half * x * (one + t1) + t2 * e).mean()
        slope = half * (one + t1)
        slope += half * x * (one - t1 * t1) * (c * (one + cube3 * square))
        slope += e * (two * (one - t2 * t2) - x * t2)
        slope *= number(1.0 / x.size)
        return value, slope

    return bench(step, x)


@WORKLOAD.peer("numba")
def numba(case: str) -> Bench:
    import numba

    x = data(case)
    number = x.dtype.type
    half, one, two, c, cube, cube3 = map(number, (0.5, 1.0, 2.0, C, CUBE, 3.0 * CUBE))
    share = number(1.0 / x.size)

    @numba.njit(parallel=x.size > 20_000, fastmath=True)
    def kernel(x, slope):  # type: ignore[no-untyped-def]
        total = 0.0
        for i in numba.prange(x.size):
            v = x[i]
            square = v * v
            t1 = math.tanh(c * (v + cube * square * v))
            t2, e = math.tanh(two * v), math.exp(-half * square)
            total += half * v * (one + t1) + t2 * e
            d = half * (one + t1) + half * v * (one - t1 * t1) * c * (one + cube3 * square)
            slope[i] = (d + e * (two * (one - t2 * t2) - v * t2)) * share
        return total / x.size

    def step(x: Any) -> Any:
        slope = np.empty_like(x)
        return kernel(x, slope), slope

    return bench(step, x)


@WORKLOAD.peer("torch")
def torch_eager(case: str) -> Bench:
    import torch

    def step(x: Any) -> Any:
        value = mix(x, torch.tanh, torch.exp)
        return value.detach(), torch.autograd.grad(value, x)[0]

    return bench(step, torch.tensor(data(case), requires_grad=True))


@WORKLOAD.peer("torch_compile")
def torch_compile(case: str) -> Bench:
    import torch

    f = torch.func.grad_and_value(lambda x: mix(x, torch.tanh, torch.exp))
    f = torch.compile(f, fullgraph=True, dynamic=False)
    return bench(f, torch.tensor(data(case)), split=lambda out: out[::-1])


@WORKLOAD.peer("jax")
def jax_jit(case: str) -> Bench:
    import jax
    import jax.numpy as jnp

    f = jax.jit(jax.value_and_grad(lambda x: mix(x, jnp.tanh, jnp.exp)))
    return bench(lambda x: jax.block_until_ready(f(x)), jnp.asarray(data(case)))


@WORKLOAD.peer("autograd")
def hips_autograd(case: str) -> Bench:
    import autograd
    import autograd.numpy as anp

    def total(x: Any) -> Any:
        gelu = 0.5 * x * (1.0 + anp.tanh(C * (x + CUBE * x * x * x)))
        return anp.mean(gelu + anp.tanh(2.0 * x) * anp.exp(-0.5 * x * x))

    return bench(autograd.value_and_grad(total), data(case))


@WORKLOAD.peer("pytensor", "pytensor_c")
def pytensor(case: str) -> Bench:
    import pytensor
    import pytensor.tensor as pt

    x = data(case)
    symbol = pt.fvector() if x.dtype == np.float32 else pt.dvector()
    with pytensor.config.change_flags(floatX=str(x.dtype)):  # Python numbers take this dtype
        value = mix(symbol, pt.tanh, pt.exp)
        f = pytensor.function([symbol], [value, pytensor.grad(value, symbol)])
    f.trust_input = True
    return bench(f, x)


@WORKLOAD.peer("casadi")
def casadi(case: str) -> Bench | str:
    import casadi as ca

    if "float32" in case:
        return "float64 only"
    x = data(case)
    s = ca.MX.sym("x", x.size)
    gelu = 0.5 * s * (1.0 + ca.tanh(C * (s + CUBE * s * s * s)))
    y = ca.sum1(gelu + ca.tanh(2.0 * s) * ca.exp(-0.5 * s * s)) / x.size
    f = ca.Function("f", [s], [y, ca.gradient(y, s)])
    buffer, call = f.buffer()
    outputs = [np.zeros(1), np.zeros(x.size)]
    buffer.set_arg(0, memoryview(x))
    for i, array in enumerate(outputs):
        buffer.set_res(i, memoryview(array))
    made = bench(call, split=lambda _: outputs)
    made.kept = (f, buffer, x)
    return made


@WORKLOAD.peer("tinygrad")
def tinygrad(case: str) -> Bench:
    from tinygrad import Tensor, TinyJit

    @TinyJit
    def f(x: Any) -> Any:
        value = mix(x, Tensor.tanh, Tensor.exp)
        (slope,) = value.gradient(x)
        Tensor.realize(value, slope)
        return value, slope

    def step(x: Any) -> Any:
        value, slope = f(x)
        value.item()  # waits
        return value, slope

    return bench(step, Tensor(data(case)).realize(), plain=lambda t: t.numpy())
