"""Linear regression of 128 points: a hundred steps of gradient descent from w = b = 0.

One timed unit is the whole loop. Peers call one step a hundred times from Python; `jax_scan` and
CasADi compile the loop itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from harness import Bench, Workload

STEPS, RATE = 100, 0.1
WORKLOAD = Workload(
    "Linear regression of 128 points, 100 steps of gradient descent, float64",
    ["100 steps"],
    unit="ms",
    tolerance=1e-9,
    quick=("100 steps",),
    tiny=("100 steps",),
)


def data() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    x = np.random.default_rng(0).standard_normal((128, 1))
    return x, 3.0 * x + 1.5


def start() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return np.zeros((1, 1)), np.zeros(1)


def bench(step: Any) -> Bench:
    return Bench(step, lambda: dict(zip("wb", map(np.asarray, step()), strict=True)))


def repeated(update: Any, begin: Any = start) -> Bench:
    """A hundred calls of `update(w, b)`, which returns both anew."""

    def step() -> Any:
        w, b = begin()
        for _ in range(STEPS):
            w, b = update(w, b)
        return w, b

    return bench(step)


@WORKLOAD.peer("anabranch")
def anabranch(case: str) -> Bench:
    import anabranch as ab
    import ours

    x, y = data()

    def update(w: Any, b: Any) -> Any:
        slopes = ab.grad(lambda w, b: ((x @ w + b - y) ** 2).mean(), (0, 1))(w, b)
        return w - RATE * slopes[0], b - RATE * slopes[1]

    return repeated(ours.compiled(update))


@WORKLOAD.peer("numpy")
def by_hand(case: str) -> Bench:
    x, y = data()
    rate = RATE * 2.0 / len(x)

    def update(w: Any, b: Any) -> Any:
        error = x @ w + b - y
        return w - rate * (x.T @ error), b - rate * error.sum(0)

    return repeated(update)


@WORKLOAD.peer("numba")
def numba(case: str) -> Bench:
    import numba

    x, y = data()
    rate, flat, wanted = RATE * 2.0 / len(x), x.ravel(), y.ravel()

    @numba.njit
    def update(w, b):  # type: ignore[no-untyped-def]
        dw = db = 0.0
        for i in range(flat.size):
            error = flat[i] * w + b - wanted[i]
            dw += flat[i] * error
            db += error
        return w - rate * dw, b - rate * db

    return repeated(update, lambda: (0.0, 0.0))


def torch_steps(compiled: bool) -> Bench:
    import torch

    x, y = map(torch.tensor, data())
    model = torch.nn.Linear(1, 1, dtype=torch.float64)
    optimiser = torch.optim.SGD(model.parameters(), lr=RATE, fused=True)

    def loss_of(x: Any, y: Any) -> Any:
        return torch.nn.functional.mse_loss(model(x), y)

    loss = torch.compile(loss_of, fullgraph=True, dynamic=False) if compiled else loss_of

    def step() -> Any:
        with torch.no_grad():
            model.weight.zero_()
            model.bias.zero_()
        for _ in range(STEPS):
            optimiser.zero_grad(set_to_none=True)
            loss(x, y).backward()
            optimiser.step()
        return model.weight.detach(), model.bias.detach()

    return bench(step)


@WORKLOAD.peer("torch")
def torch_eager(case: str) -> Bench:
    return torch_steps(False)


@WORKLOAD.peer("torch_compile")
def torch_compile(case: str) -> Bench:
    return torch_steps(True)


def jax_steps(inside: bool) -> Bench:
    import jax
    import jax.numpy as jnp

    x, y = map(jnp.asarray, data())

    def loss(p: Any, x: Any, y: Any) -> Any:
        return jnp.mean((x @ p[0] + p[1] - y) ** 2)

    def update(p: Any, x: Any, y: Any) -> Any:
        return jax.tree.map(lambda v, g: v - RATE * g, p, jax.grad(loss)(p, x, y))

    def whole(p: Any, x: Any, y: Any) -> Any:
        return jax.lax.fori_loop(0, STEPS, lambda _, p: update(p, x, y), p)

    one, train = jax.jit(update, donate_argnums=0), jax.jit(whole)

    def step() -> Any:
        p = (jnp.zeros((1, 1)), jnp.zeros(1))
        if inside:
            return jax.block_until_ready(train(p, x, y))
        for _ in range(STEPS):
            p = one(p, x, y)
        return jax.block_until_ready(p)

    return bench(step)


@WORKLOAD.peer("jax")
def jax_jit(case: str) -> Bench:
    return jax_steps(False)


@WORKLOAD.peer("jax_scan")
def jax_scan(case: str) -> Bench:
    return jax_steps(True)


@WORKLOAD.peer("autograd")
def hips_autograd(case: str) -> Bench:
    import autograd
    import autograd.numpy as anp

    x, y = data()
    slopes = autograd.grad(lambda w, b: anp.mean((x @ w + b - y) ** 2), (0, 1))

    def update(w: Any, b: Any) -> Any:
        dw, db = slopes(w, b)
        return w - RATE * dw, b - RATE * db

    return repeated(update)


@WORKLOAD.peer("micrograd")
def micrograd(case: str) -> Bench:
    from micrograd.engine import Value

    x, y = (v.ravel().tolist() for v in data())

    def update(w: Any, b: Any) -> Any:
        w, b = Value(w), Value(b)
        errors = (w * xi + b - yi for xi, yi in zip(x, y, strict=True))
        loss = sum(error**2 for error in errors) * (1.0 / len(x))
        loss.backward()
        return w.data - RATE * w.grad, b.data - RATE * b.grad

    return repeated(update, lambda: (0.0, 0.0))


@WORKLOAD.peer("pytensor", "pytensor_c")
def pytensor(case: str) -> Bench:
    import pytensor
    import pytensor.tensor as pt

    x, y = (pt.constant(v) for v in data())
    w, b = map(pytensor.shared, start())
    dw, db = pytensor.grad(pt.mean((x @ w + b - y) ** 2), [w, b])
    one = pytensor.function([], [], updates=[(w, w - RATE * dw), (b, b - RATE * db)])

    def step() -> Any:
        for shared, value in zip((w, b), start(), strict=True):
            shared.set_value(value)
        for _ in range(STEPS):
            one()
        return w.get_value(), b.get_value()

    return bench(step)


@WORKLOAD.peer("casadi")
def casadi(case: str) -> Bench:
    import casadi as ca

    x, y = data()
    p = ca.SX.sym("p", 2)
    loss = ca.sumsqr(p[0] * ca.DM(x) + p[1] - ca.DM(y)) / len(x)
    one = ca.Function("one", [p], [p - RATE * ca.gradient(loss, p)])
    train, begin = one.fold(STEPS), ca.DM([0.0, 0.0])
    return Bench(
        lambda: train(begin), lambda: dict(zip("wb", train(begin).full().ravel(), strict=True))
    )


@WORKLOAD.peer("tinygrad")
def tinygrad(case: str) -> Bench:
    from tinygrad import Tensor, TinyJit, dtypes

    x, y = (Tensor(v).realize() for v in data())
    w = Tensor.zeros(1, 1, dtype=dtypes.float64).contiguous().realize()
    b = Tensor.zeros(1, dtype=dtypes.float64).contiguous().realize()

    @TinyJit
    def one() -> None:
        dw, db = ((x @ w + b - y) ** 2).mean().gradient(w, b)
        Tensor.realize(w.assign(w - RATE * dw), b.assign(b - RATE * db))

    def step() -> Any:
        w.assign(Tensor.zeros(1, 1, dtype=dtypes.float64)).realize()
        b.assign(Tensor.zeros(1, dtype=dtypes.float64)).realize()
        for _ in range(STEPS):
            one()
        return w.numpy(), b.numpy()

    return bench(step)
