"""One training step of a network 784-256-128-10: cross-entropy, gradient, Adam; float32.

A step takes and returns weights and state; who can, writes into what it was given.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from harness import Bench, Workload
from workloads import nets
from workloads.nets import DECAY1, DECAY2, EPS, RATE, NumpyAdam

WORKLOAD = Workload(
    "One training step of a network 784-256-128-10 with Adam, float32",
    [
        "batch 64",
        "batch 1024",
        "batch 64, a busy process beside",
        "batch 1024, a busy process beside",
        "batch 64, 1 thread",
        "batch 1024, 1 thread",
    ],
    unit="us",
    tolerance=2e-4,
    quick=("batch 64",),
    tiny=("batch 3",),
    wide=False,
    threads=nets.threads,
    crowded=nets.is_crowded,
)
WORKLOAD.without("scalars only", "micrograd")
WORKLOAD.without("float64 only, and no BLAS", "casadi")


@WORKLOAD.peer("anabranch")
def anabranch(case: str) -> Bench:
    import anabranch as ab
    import ours

    ours.threads(nets.threads(case))
    weights, images, labels = nets.data(case)

    def loss_of(weights: Any, images: Any, labels: Any) -> Any:
        w1, b1, w2, b2, w3, b3 = weights
        h = ab.relu(images @ w1 + b1)
        h = ab.relu(h @ w2 + b2)
        return ab.cross_entropy(h @ w3 + b3, labels)

    def update(state: Any, images: Any, labels: Any) -> Any:
        steps, weights, mean, square = state
        loss, slopes = ab.value_and_grad(loss_of)(weights, images, labels)
        steps = steps + 1
        mean = [DECAY1 * m + (1 - DECAY1) * d for m, d in zip(mean, slopes, strict=True)]
        square = [DECAY2 * v + (1 - DECAY2) * d * d for v, d in zip(square, slopes, strict=True)]
        rate, spread = RATE / (1 - DECAY1**steps), 1 - DECAY2**steps
        weights = [
            w - rate * m / (ab.sqrt(v / spread) + EPS)
            for w, m, v in zip(weights, mean, square, strict=True)
        ]
        return loss, (steps, weights, mean, square)

    f = ours.compiled(update, donate="state")
    mean, square = ([np.zeros_like(w) for w in weights] for _ in range(2))
    state: Any = (np.zeros((), np.float32), weights, mean, square)

    def step() -> Any:
        nonlocal state
        loss, state = f(state, images, labels)
        return loss

    return nets.losses(step)


@WORKLOAD.peer("numpy")
def by_hand(case: str) -> Bench:
    weights, x, y = nets.data(case)
    adam, rows, count = NumpyAdam(weights), np.arange(len(y)), np.float32(len(y))

    def step() -> Any:
        w1, b1, w2, b2, w3, b3 = weights
        h1 = np.maximum(x @ w1 + b1, 0)
        h2 = np.maximum(h1 @ w2 + b2, 0)
        z = h2 @ w3 + b3
        z -= z.max(1, keepdims=True)
        e = np.exp(z)
        total = e.sum(1, keepdims=True)
        loss = (np.log(total[:, 0]) - z[rows, y]).mean()
        d = e / total
        d[rows, y] -= 1
        d /= count
        d2 = (d @ w3.T) * (h2 > 0)
        d1 = (d2 @ w2.T) * (h1 > 0)
        slopes = [x.T @ d1, d1.sum(0), h1.T @ d2, d2.sum(0), h2.T @ d, d.sum(0)]
        adam.update(weights, slopes)
        return loss

    return nets.losses(step)


def torch_steps(case: str, compiled: bool) -> Bench:
    import torch

    torch.set_num_threads(nets.threads(case) or torch.get_num_threads())
    weights, x, y = nets.data(case)
    layers: list[Any] = []
    for w, b in zip(weights[::2], weights[1::2], strict=True):
        linear = torch.nn.Linear(*w.shape)
        with torch.no_grad():
            linear.weight.copy_(torch.tensor(w).T)
            linear.bias.copy_(torch.tensor(b))
        layers += [linear, torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1])
    adam = torch.optim.Adam(model.parameters(), lr=RATE, fused=True)
    images, labels = torch.tensor(x), torch.tensor(y)

    def loss_of(images: Any, labels: Any) -> Any:
        return torch.nn.functional.cross_entropy(model(images), labels)

    f = torch.compile(loss_of, fullgraph=True, dynamic=False) if compiled else loss_of

    def step() -> Any:
        adam.zero_grad(set_to_none=True)
        loss = f(images, labels)
        loss.backward()
        adam.step()
        return loss.detach()

    return nets.losses(step)


@WORKLOAD.peer("torch")
def torch_eager(case: str) -> Bench:
    return torch_steps(case, False)


@WORKLOAD.peer("torch_compile")
def torch_compile(case: str) -> Bench:
    return torch_steps(case, True)


@WORKLOAD.peer("jax")
def jax_jit(case: str) -> Bench:
    import jax
    import jax.numpy as jnp

    weights, x, y = nets.data(case)
    images, labels = jnp.asarray(x), jnp.asarray(y)

    def loss_of(weights: Any, images: Any, labels: Any) -> Any:
        w1, b1, w2, b2, w3, b3 = weights
        h = jax.nn.relu(images @ w1 + b1)
        h = jax.nn.relu(h @ w2 + b2)
        scores = jax.nn.log_softmax(h @ w3 + b3)
        return -jnp.take_along_axis(scores, labels[:, None], axis=1).mean()

    def update(state: Any, images: Any, labels: Any) -> Any:
        steps, weights, mean, square = state
        loss, slopes = jax.value_and_grad(loss_of)(weights, images, labels)
        steps = steps + 1
        mean = [DECAY1 * m + (1 - DECAY1) * d for m, d in zip(mean, slopes, strict=True)]
        square = [DECAY2 * v + (1 - DECAY2) * d * d for v, d in zip(square, slopes, strict=True)]
        rate, spread = RATE / (1 - DECAY1**steps), 1 - DECAY2**steps
        weights = [
            w - rate * m / (jnp.sqrt(v / spread) + EPS)
            for w, m, v in zip(weights, mean, square, strict=True)
        ]
        return loss, (steps, weights, mean, square)

    f = jax.jit(update, donate_argnums=0)
    start = [jnp.array(w) for w in weights]
    zeros = [[jnp.asarray(np.zeros_like(w)) for w in weights] for _ in range(2)]
    state = (jnp.asarray(np.float32(0)), start, *zeros)

    def step() -> Any:
        nonlocal state
        loss, state = jax.block_until_ready(f(state, images, labels))
        return loss

    return nets.losses(step)


@WORKLOAD.peer("autograd")
def hips_autograd(case: str) -> Bench:
    import autograd
    import autograd.numpy as anp

    weights, x, y = nets.data(case)
    adam, rows = NumpyAdam(weights), np.arange(len(y))

    def loss_of(weights: Any) -> Any:
        w1, b1, w2, b2, w3, b3 = weights
        h = anp.maximum(x @ w1 + b1, 0)
        h = anp.maximum(h @ w2 + b2, 0)
        z = h @ w3 + b3
        z = z - anp.max(z, axis=1, keepdims=True)
        return anp.mean(anp.log(anp.sum(anp.exp(z), axis=1)) - z[rows, y])

    f = autograd.value_and_grad(loss_of)

    def step() -> Any:
        loss, slopes = f(weights)
        adam.update(weights, slopes)
        return loss

    return nets.losses(step)


@WORKLOAD.peer("pytensor", "pytensor_c")
def pytensor(case: str) -> Bench:
    import pytensor
    import pytensor.tensor as pt

    pytensor.config.floatX = "float32"
    weights, x, y = nets.data(case)
    held = [pytensor.shared(w) for w in weights]
    images, labels = pytensor.shared(x), pytensor.shared(y)
    w1, b1, w2, b2, w3, b3 = held
    h = pt.maximum(images @ w1 + b1, 0)
    h = pt.maximum(h @ w2 + b2, 0)
    scores = pt.special.log_softmax(h @ w3 + b3, axis=1)
    loss = -pt.mean(scores[pt.arange(len(y)), labels])
    one, rate, eps = (np.float32(v) for v in (1.0, RATE, EPS))
    decay1, decay2 = np.float32(DECAY1), np.float32(DECAY2)
    count = pytensor.shared(np.float32(0))
    steps = count + one
    updates = [(count, steps)]
    for w, d in zip(held, pytensor.grad(loss, held), strict=True):
        m, v = (pytensor.shared(np.zeros_like(w.get_value())) for _ in range(2))
        mean, square = decay1 * m + (one - decay1) * d, decay2 * v + (one - decay2) * d * d
        spread = pt.sqrt(square / (one - decay2**steps)) + eps
        moved = w - rate * (mean / (one - decay1**steps)) / spread
        updates += [(m, mean), (v, square), (w, moved)]
    return nets.losses(pytensor.function([], loss, updates=updates))


@WORKLOAD.peer("tinygrad")
def tinygrad(case: str) -> Bench:
    from tinygrad import Context, Tensor, TinyJit
    from tinygrad.nn.optim import Adam

    weights, x, y = nets.data(case)
    held = [Tensor(w).realize() for w in weights]
    images, labels = Tensor(x).realize(), Tensor(y.astype(np.int32)).realize()
    for w in held:
        w.is_param_()
    adam = Adam(held, lr=RATE)

    @TinyJit
    def update() -> Any:
        w1, b1, w2, b2, w3, b3 = held
        h = (images @ w1 + b1).relu()
        h = (h @ w2 + b2).relu()
        adam.zero_grad()
        loss = (h @ w3 + b3).sparse_categorical_crossentropy(labels)
        loss.backward()
        return loss.realize(*adam.schedule_step())

    def step() -> Any:
        with Context(TRAINING=1):
            return update().item()

    return nets.losses(step)
