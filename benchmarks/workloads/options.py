"""Black-Scholes: prices of call options, with delta, theta, rho and vega.

The greeks are the gradients of the summed prices by spot, time, rate and volatility.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from harness import Bench, Workload

WORKLOAD = Workload(
    "Black-Scholes: prices of call options with four greeks",
    [f"{n} float32" for n in ("1e3", "1e5", "1e7")]
    + [f"{n} float64" for n in ("1e3", "1e5", "1e6", "1e7")],
    unit=lambda case: "us" if case.startswith(("1e3", "1e5")) else "ms",
    tolerance=lambda case: 2e-4 if "float32" in case else 1e-9,
    quick=("1e5 float64",),
    tiny=("1e1 float32", "2e1 float64"),
)
WORKLOAD.without("scalars only", "micrograd")
WORKLOAD.without("its erf is good to 1e-7 only", "tinygrad")
WORKLOAD.without("one whole-array loop for each operation, as in the chain above", "casadi")
WANTED = (0, 2, 3, 4)  # spot, time, rate, volatility
NAMES = ("price", "delta", "theta", "rho", "vega")
ROOT2, DENSITY = math.sqrt(2.0), 1.0 / math.sqrt(2.0 * math.pi)


def data(case: str) -> list[np.ndarray[Any, Any]]:
    """Spot, strike, years, rate and volatility."""
    size, dtype = case.split()
    rng, n = np.random.default_rng(0), int(float(size))
    ranges = ((80, 120), (80, 120), (0.1, 2.0), (0.01, 0.05), (0.1, 0.5))
    return [rng.uniform(low, high, n).astype(dtype) for low, high in ranges]


def price(
    s: Any, k: Any, t: Any, r: Any, v: Any, *, log: Any, exp: Any, sqrt: Any, erf: Any
) -> Any:
    root = v * sqrt(t)
    d1 = (log(s / k) + (r + 0.5 * v * v) * t) / root
    d2 = d1 - root

    def below(d: Any) -> Any:
        return 0.5 * (1.0 + erf(d / ROOT2))

    return s * below(d1) - k * exp(-r * t) * below(d2)


def bench(
    step: Callable[..., Any],
    arguments: list[Any],
    split: Callable[[Any], Any] = lambda out: out,
) -> Bench:
    def numbers() -> dict[str, Any]:
        return dict(zip(NAMES, map(np.asarray, split(step(*arguments))), strict=True))

    return Bench(step, numbers, tuple(arguments))


@WORKLOAD.peer("anabranch")
def anabranch(case: str) -> Bench:
    import anabranch as ab
    import ours

    functions = {"log": ab.log, "exp": ab.exp, "sqrt": ab.sqrt, "erf": ab.erf}

    def prices(s: Any, k: Any, t: Any, r: Any, v: Any) -> Any:
        value, pullback = ab.vjp(lambda *a: price(*a, **functions), s, k, t, r, v)
        greeks = pullback(ab.ones_like(value))
        return value, *(greeks[i] for i in WANTED)

    return bench(ours.compiled(prices), data(case))


@WORKLOAD.peer("numpy")
def by_hand(case: str) -> Bench:
    from scipy.special import ndtr

    def step(s: Any, k: Any, t: Any, r: Any, v: Any) -> Any:
        years = np.sqrt(t)
        root = v * years
        d1 = (np.log(s / k) + (r + 0.5 * v * v) * t) / root
        n1, n2 = ndtr(d1), ndtr(d1 - root)
        owed = k * np.exp(-r * t) * n2
        density = s * np.exp(-0.5 * d1 * d1) * DENSITY
        theta = density * v / (2.0 * years) + r * owed
        return s * n1 - owed, n1, theta, t * owed, density * years

    return bench(step, data(case))


@WORKLOAD.peer("numba")
def numba(case: str) -> Bench:
    import numba

    number = np.dtype(case.split()[1]).type
    half, one, two, inverse, scale = map(number, (0.5, 1.0, 2.0, 1.0 / ROOT2, DENSITY))

    @numba.njit(parallel="1e3" not in case, fastmath=True)
    def kernel(s, k, t, r, v, price, delta, theta, rho, vega):  # type: ignore[no-untyped-def]
        for i in numba.prange(s.size):
            years = math.sqrt(t[i])
            root = v[i] * years
            d1 = (math.log(s[i] / k[i]) + (r[i] + half * v[i] * v[i]) * t[i]) / root
            n1 = half * (one + math.erf(d1 * inverse))
            n2 = half * (one + math.erf((d1 - root) * inverse))
            owed = k[i] * math.exp(-r[i] * t[i]) * n2
            density = s[i] * math.exp(-half * d1 * d1) * scale
            price[i], delta[i] = s[i] * n1 - owed, n1
            theta[i] = density * v[i] / (two * years) + r[i] * owed
            rho[i], vega[i] = t[i] * owed, density * years

    def step(*inputs: Any) -> Any:
        out = [np.empty_like(inputs[0]) for _ in range(5)]
        kernel(*inputs, *out)
        return out

    return bench(step, data(case))


@WORKLOAD.peer("torch")
def torch_eager(case: str) -> Bench:
    import torch

    functions = {"log": torch.log, "exp": torch.exp, "sqrt": torch.sqrt, "erf": torch.erf}
    inputs = [torch.tensor(a) for a in data(case)]
    wanted = [inputs[i].requires_grad_() for i in WANTED]
    ones = torch.ones_like(inputs[0])

    def step(*inputs: Any) -> Any:
        prices = price(*inputs, **functions)
        return prices.detach(), *torch.autograd.grad(prices, wanted, ones)

    return bench(step, inputs)


def total_and_prices(functions: dict[str, Any]) -> Callable[..., Any]:
    def total(*inputs: Any) -> Any:
        prices = price(*inputs, **functions)
        return prices.sum(), prices

    return total


def with_prices(out: Any) -> Any:
    greeks, prices = out
    return prices, *greeks


@WORKLOAD.peer("torch_compile")
def torch_compile(case: str) -> Bench:
    import torch

    functions = {"log": torch.log, "exp": torch.exp, "sqrt": torch.sqrt, "erf": torch.erf}
    f = torch.func.grad(total_and_prices(functions), WANTED, has_aux=True)
    f = torch.compile(f, fullgraph=True, dynamic=False)
    return bench(f, [torch.tensor(a) for a in data(case)], with_prices)


@WORKLOAD.peer("jax")
def jax_jit(case: str) -> Bench:
    import jax
    import jax.numpy as jnp
    from jax.scipy.special import erf

    functions = {"log": jnp.log, "exp": jnp.exp, "sqrt": jnp.sqrt, "erf": erf}
    f = jax.jit(jax.grad(total_and_prices(functions), WANTED, has_aux=True))
    inputs = [jnp.asarray(a) for a in data(case)]
    return bench(lambda *a: jax.block_until_ready(f(*a)), inputs, with_prices)


@WORKLOAD.peer("autograd")
def hips_autograd(case: str) -> Bench:
    import autograd
    import autograd.numpy as anp
    from autograd.scipy.special import erf

    functions = {"log": anp.log, "exp": anp.exp, "sqrt": anp.sqrt, "erf": erf}
    f = autograd.make_vjp(lambda *a: price(*a, **functions), WANTED)

    def step(*inputs: Any) -> Any:
        pullback, prices = f(*inputs)
        return prices, *pullback(np.ones_like(prices))

    return bench(step, data(case))


@WORKLOAD.peer("pytensor", "pytensor_c")
def pytensor(case: str) -> Bench:
    import pytensor
    import pytensor.tensor as pt

    functions = {"log": pt.log, "exp": pt.exp, "sqrt": pt.sqrt, "erf": pt.erf}
    dtype = case.split()[1]
    symbols = [pt.vector(dtype=dtype) for _ in range(5)]
    with pytensor.config.change_flags(floatX=dtype):  # Python numbers take this dtype
        prices = price(*symbols, **functions)
        greeks = pytensor.grad(prices.sum(), [symbols[i] for i in WANTED])
        f = pytensor.function(symbols, [prices, *greeks])
    f.trust_input = True
    return bench(f, data(case))
