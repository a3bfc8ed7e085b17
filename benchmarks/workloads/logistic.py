"""Logistic regression on 1,797 digits, fitted by SciPy's L-BFGS-B, which calls the peer.

One timed unit is the whole fit from zero, NumPy arrays in and out. NumPy, SciPy and torch each
bring threads whose idle ones spin; SciPy's optimiser wakes its own for tiny work, and on few cores
that disturbs the peer. One case is what a user gets who does nothing, the other gives SciPy's BLAS
one thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import harness
from harness import Bench, Workload

WORKLOAD = Workload(
    "Logistic regression on digits through scipy.optimize, float64",
    ["digits", "digits, SciPy on one thread"],
    unit="ms",
    tolerance=1e-5,
    quick=("digits, SciPy on one thread",),
    tiny=("digits",),
)
WORKLOAD.without("scalars only", "micrograd")
PENALTY = 1e-3
OPTIONS = {"maxiter": 500, "gtol": 1e-6, "ftol": 1e-12}
FILE = harness.HERE.parent / "src" / "anabranch" / "data" / "uci_digits.npz"


@cache
def data() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Pixels, each with mean 0 and deviation 1, and a column of ones; the digits shown."""
    with np.load(FILE) as found:
        x, y = found["images"].astype(np.float64), found["labels"].astype(np.int64)
    spread = x.std(0)
    x = (x - x.mean(0)) / np.where(spread > 0, spread, 1.0)
    return np.ascontiguousarray(np.hstack([x, np.ones((len(x), 1))])), y


def bench(case: str, value_and_slope: Callable[[Any], Any]) -> Bench:
    from scipy.optimize import minimize

    if case.endswith("one thread"):
        from threadpoolctl import ThreadpoolController

        for library in ThreadpoolController().lib_controllers:
            if "scipy" in library.filepath:
                library.set_num_threads(1)
    start = np.zeros(data()[0].shape[1] * 10)

    def step() -> Any:
        return minimize(value_and_slope, start, jac=True, method="L-BFGS-B", options=OPTIONS)

    def numbers() -> dict[str, Any]:
        first, slope = value_and_slope(start)
        return {"loss": step().fun, "loss at 0": first, "slope at 0": slope}

    return Bench(step, numbers)


@WORKLOAD.peer("anabranch")
def anabranch(case: str) -> Bench:
    import anabranch as ab
    import ours

    x, y = data()

    def loss(w: Any) -> Any:
        return ab.cross_entropy(x @ w.reshape(-1, 10), y) + PENALTY * (w @ w)

    return bench(case, ours.compiled(ab.value_and_grad(loss)))


@WORKLOAD.peer("numpy")
def by_hand(case: str) -> Bench:
    x, y = data()
    count, rows = len(x), np.arange(len(x))

    def value_and_slope(w: Any) -> Any:
        z = x @ w.reshape(-1, 10)
        z -= z.max(1, keepdims=True)
        e = np.exp(z)
        total = e.sum(1, keepdims=True)
        loss = (np.log(total[:, 0]) - z[rows, y]).mean() + PENALTY * (w @ w)
        e /= total
        e[rows, y] -= 1.0
        return loss, (x.T @ e).ravel() / count + (2.0 * PENALTY) * w

    return bench(case, value_and_slope)


def torch_fit(case: str, compiled: bool) -> Bench:
    import torch
    from torch.nn.functional import cross_entropy

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    x, y = map(torch.tensor, data())

    def loss(w: Any) -> Any:
        return cross_entropy(x @ w.view(-1, 10), y) + PENALTY * (w @ w)

    f = torch.compile(torch.func.grad_and_value(loss), fullgraph=True, dynamic=False)

    def by_compiled(w: Any) -> Any:
        slope, value = f(torch.from_numpy(w))
        return value.item(), slope.numpy()

    def by_tape(w: Any) -> Any:
        w = torch.from_numpy(w).requires_grad_()
        value = loss(w)
        return value.item(), torch.autograd.grad(value, w)[0].numpy()

    return bench(case, by_compiled if compiled else by_tape)


@WORKLOAD.peer("torch")
def torch_eager(case: str) -> Bench:
    return torch_fit(case, False)


@WORKLOAD.peer("torch_compile")
def torch_compile(case: str) -> Bench:
    return torch_fit(case, True)


@WORKLOAD.peer("jax")
def jax_jit(case: str) -> Bench:
    import jax
    import jax.numpy as jnp

    x, y = map(jnp.asarray, data())

    def loss(w: Any) -> Any:
        scores = jax.nn.log_softmax(x @ w.reshape(-1, 10))
        chosen = jnp.take_along_axis(scores, y[:, None], axis=1)
        return -chosen.mean() + PENALTY * (w @ w)

    f = jax.jit(jax.value_and_grad(loss))

    def value_and_slope(w: Any) -> Any:
        value, slope = f(w)
        return float(value), np.asarray(slope)

    return bench(case, value_and_slope)


@WORKLOAD.peer("autograd")
def hips_autograd(case: str) -> Bench:
    import autograd
    import autograd.numpy as anp

    x, y = data()
    rows = np.arange(len(y))

    def loss(w: Any) -> Any:
        z = x @ w.reshape((-1, 10))
        z = z - anp.max(z, axis=1, keepdims=True)
        each = anp.log(anp.sum(anp.exp(z), axis=1)) - z[rows, y]
        return anp.mean(each) + PENALTY * (w @ w)

    return bench(case, autograd.value_and_grad(loss))


@WORKLOAD.peer("pytensor", "pytensor_c")
def pytensor(case: str) -> Bench:
    import pytensor
    import pytensor.tensor as pt

    x, y = data()
    w = pt.dvector()
    scores = pt.special.log_softmax(pt.constant(x) @ w.reshape((-1, 10)), axis=1)
    loss = -pt.mean(scores[np.arange(len(y)), y]) + PENALTY * (w @ w)
    f = pytensor.function([w], [loss, pytensor.grad(loss, w)])
    f.trust_input = True

    def value_and_slope(w: Any) -> Any:
        value, slope = f(w)
        return float(value), slope

    return bench(case, value_and_slope)


@WORKLOAD.peer("casadi")
def casadi(case: str) -> Bench:
    import casadi as ca

    x, y = data()
    w = ca.MX.sym("w", x.shape[1] * 10)
    z = ca.mtimes(ca.DM(x), ca.reshape(w, 10, -1).T)
    top = ca.mmax(z)  # one shift for all: the scores are small
    each = ca.log(ca.sum2(ca.exp(z - top))) + top - ca.sum2(z * ca.DM(np.eye(10)[y]))
    loss = ca.sum1(each) / len(x) + PENALTY * ca.sumsqr(w)
    f = ca.Function("f", [w], [loss, ca.gradient(loss, w)])

    def value_and_slope(w: Any) -> Any:
        value, slope = f(w)
        return float(value), slope.full().ravel()

    return bench(case, value_and_slope)


@WORKLOAD.peer("tinygrad")
def tinygrad(case: str) -> Bench:
    from tinygrad import Tensor, TinyJit

    x, y = data()
    images, labels = Tensor(x).realize(), Tensor(y.astype(np.int32)).realize()

    @TinyJit
    def f(w: Any) -> Any:
        value = (images @ w.reshape(-1, 10)).sparse_categorical_crossentropy(labels)
        value = value + PENALTY * (w * w).sum()
        (slope,) = value.gradient(w)
        Tensor.realize(value, slope)
        return value, slope

    def value_and_slope(w: Any) -> Any:
        value, slope = f(Tensor(w).realize())
        return float(value.item()), slope.numpy().astype(np.float64)

    return bench(case, value_and_slope)
