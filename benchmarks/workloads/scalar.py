"""One value and gradient at a time: z = (x*y + x)**2, and Rosenbrock's function of n numbers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from harness import Bench, Workload

SIZES = (2, 10, 100, 1_000, 10_000)
WORKLOAD = Workload(
    "Value and gradient of z = (x·y + x)² and of Rosenbrock's function, float64",
    ["z", *(f"Rosenbrock {n:,}" for n in SIZES)],
    unit="us",
    tolerance=1e-9,
    quick=("z", "Rosenbrock 100", "Rosenbrock 10,000"),
    tiny=("z", "Rosenbrock 2", "Rosenbrock 7"),
)
X, Y = 2.0, 3.0


def size(case: str) -> int:
    """Of Rosenbrock's argument; 0 for z."""
    return 0 if case == "z" else int(case.split()[1].replace(",", ""))


def point(case: str) -> np.ndarray[Any, Any]:
    return np.linspace(-1.2, 1.5, size(case))


def polynomial(x: Any, y: Any) -> Any:
    return (x * y + x) ** 2


def rosenbrock(x: Any) -> Any:
    return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()


def bench(
    case: str,
    step: Callable[..., Any],
    arguments: tuple[Any, ...] = (),
    split: Callable[[Any], Any] = lambda out: out,
    plain: Callable[[Any], Any] = np.asarray,
) -> Bench:
    """`split` makes (value, gradient or gradients) of a result, `plain` an array of each."""

    def numbers() -> dict[str, Any]:
        value, slopes = split(step(*arguments))
        if case == "z":
            return {"z": plain(value), "x": plain(slopes[0]), "y": plain(slopes[1])}
        slope = slopes[0] if isinstance(slopes, tuple | list) else slopes
        return {"value": plain(value), "slope": plain(slope)}

    return Bench(step, numbers, arguments)


def apart(out: Any) -> Any:
    """Value and gradients of a flat list."""
    return out[0], out[1:]


def given(case: str) -> tuple[Any, ...]:
    return (X, Y) if case == "z" else (point(case),)


@WORKLOAD.peer("anabranch")
def anabranch(case: str) -> Bench:
    import anabranch as ab
    import ours

    f = ab.value_and_grad(polynomial, (0, 1)) if case == "z" else ab.value_and_grad(rosenbrock)
    return bench(case, ours.compiled(f), given(case))


@WORKLOAD.peer("anabranch_raw")
def anabranch_raw(case: str) -> Bench | str:
    import anabranch as ab
    import ours

    f = ab.value_and_grad(polynomial, (0, 1)) if case == "z" else ab.value_and_grad(rosenbrock)
    found = ours.raw(ours.compiled(f), *given(case))
    if found is None:
        return "not there yet"
    call, results = found
    return bench(case, call, (), lambda _: apart(results))


@WORKLOAD.peer("numpy")
def by_hand(case: str) -> Bench:
    def polynomial_and_slopes(x: float, y: float) -> Any:
        u = x * y + x
        return u * u, (2.0 * u * (y + 1.0), 2.0 * u * x)

    def rosenbrock_and_slope(x: Any) -> Any:
        head = x[:-1]
        a, b = x[1:] - head * head, 1.0 - head
        slope = np.zeros_like(x)
        slope[1:] = 200.0 * a
        slope[:-1] -= 400.0 * a * head + 2.0 * b
        return 100.0 * (a @ a) + b @ b, slope

    step = polynomial_and_slopes if case == "z" else rosenbrock_and_slope
    return bench(case, step, given(case))


@WORKLOAD.peer("numba")
def numba(case: str) -> Bench:
    import numba

    @numba.njit
    def polynomial_and_slopes(x, y):  # type: ignore[no-untyped-def]
        u = x * y + x
        return u * u, (2.0 * u * (y + 1.0), 2.0 * u * x)

    @numba.njit
    def rosenbrock_and_slope(x):  # type: ignore[no-untyped-def]
        slope, value = np.zeros_like(x), 0.0
        for i in range(x.size - 1):
            a, b = x[i + 1] - x[i] * x[i], 1.0 - x[i]
            value += 100.0 * a * a + b * b
            slope[i + 1] += 200.0 * a
            slope[i] -= 400.0 * a * x[i] + 2.0 * b
        return value, slope

    return bench(case, polynomial_and_slopes if case == "z" else rosenbrock_and_slope, given(case))


@WORKLOAD.peer("torch")
def torch_eager(case: str) -> Bench:
    import torch

    inputs = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in given(case)]
    f = polynomial if case == "z" else rosenbrock

    def step() -> Any:
        value = f(*inputs)
        return value, torch.autograd.grad(value, inputs)

    return bench(case, step, plain=lambda t: t.detach().numpy())


@WORKLOAD.peer("torch_compile")
def torch_compile(case: str) -> Bench:
    import torch

    f = torch.func.grad_and_value(polynomial, (0, 1)) if case == "z" else None
    f = f or torch.func.grad_and_value(rosenbrock)
    f = torch.compile(f, fullgraph=True, dynamic=False)
    inputs = tuple(torch.tensor(v, dtype=torch.float64) for v in given(case))
    return bench(case, f, inputs, lambda out: (out[1], out[0]), lambda t: t.numpy())


@WORKLOAD.peer("jax")
def jax_jit(case: str) -> Bench:
    import jax
    import jax.numpy as jnp

    f = jax.value_and_grad(polynomial, (0, 1)) if case == "z" else jax.value_and_grad(rosenbrock)
    f = jax.jit(f)
    inputs = tuple(map(jnp.asarray, given(case)))
    return bench(case, lambda *a: jax.block_until_ready(f(*a)), inputs)


@WORKLOAD.peer("autograd")
def hips_autograd(case: str) -> Bench:
    import autograd
    import autograd.numpy as anp

    def total(x: Any) -> Any:
        return anp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    f = autograd.value_and_grad(polynomial, argnum=(0, 1)) if case == "z" else None
    return bench(case, f or autograd.value_and_grad(total), given(case))


@WORKLOAD.peer("micrograd")
def micrograd(case: str) -> Bench | str:
    from micrograd.engine import Value

    if size(case) > 1_000:
        return "recursion limit"
    start = point(case).tolist() if case != "z" else [X, Y]

    def step() -> Any:
        x = [Value(v) for v in start]
        if case == "z":
            value = polynomial(*x)
        else:
            pairs = pairwise(x)
            value = sum(100.0 * (b - a**2) ** 2 + (1.0 - a) ** 2 for a, b in pairs)
        value.backward()
        slopes = [v.grad for v in x]
        return value.data, slopes if case == "z" else np.array(slopes)

    return bench(case, step)


@WORKLOAD.peer("pytensor", "pytensor_c")
def pytensor(case: str) -> Bench:
    import pytensor
    import pytensor.tensor as pt

    symbols = [pt.dscalar(), pt.dscalar()] if case == "z" else [pt.dvector()]
    value = polynomial(*symbols) if case == "z" else rosenbrock(*symbols)
    f = pytensor.function(symbols, [value, *pytensor.grad(value, symbols)])
    f.trust_input = True
    return bench(case, f, tuple(map(np.asarray, given(case))), apart)


@WORKLOAD.peer("casadi")
def casadi(case: str) -> Bench | str:
    return buffer_call(case, {})


@WORKLOAD.peer("casadi_c")
def casadi_c(case: str) -> Bench | str:
    if size(case) > 1_000:
        return "its C compiler needs minutes for the straight-line code"
    flags = {"flags": ["-O3", "-march=native"]}
    return buffer_call(case, {"jit": True, "compiler": "shell", "jit_options": flags})


def buffer_call(case: str, options: dict[str, Any]) -> Bench:
    """The call that CasADi offers where no time may be lost: into and out of fixed buffers."""
    import casadi as ca

    if case == "z":
        symbols, inputs = [ca.SX.sym("x"), ca.SX.sym("y")], [np.array([X]), np.array([Y])]
        value = polynomial(*symbols)
    else:
        x, inputs = ca.SX.sym("x", size(case)), [point(case)]
        symbols = [x]
        value = ca.sum1(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)
    f = ca.Function("f", symbols, [value, *(ca.gradient(value, s) for s in symbols)], options)
    buffer, call = f.buffer()
    outputs = [np.zeros(1), *map(np.zeros_like, inputs)]
    for i, array in enumerate(inputs):
        buffer.set_arg(i, memoryview(array))
    for i, array in enumerate(outputs):
        buffer.set_res(i, memoryview(array))
    made = bench(case, call, split=lambda _: apart(outputs), plain=np.squeeze)
    made.kept = (f, buffer, inputs)
    return made


@WORKLOAD.peer("tinygrad")
def tinygrad(case: str) -> Bench:
    from tinygrad import Tensor, TinyJit, dtypes

    inputs = tuple(Tensor(np.atleast_1d(v), dtype=dtypes.float64).realize() for v in given(case))

    @TinyJit
    def f(*xs: Any) -> Any:
        value = polynomial(*xs).sum() if case == "z" else rosenbrock(*xs)
        slopes = value.gradient(*xs)
        Tensor.realize(value, *slopes)
        return (value, *slopes)

    def step(*xs: Any) -> Any:
        out = f(*xs)
        out[0].numpy()  # waits
        return out

    return bench(case, step, inputs, apart, lambda t: t.numpy().squeeze())
