"""Fit y = w x + b to points on y = 3 x + 1.5: three ways to write it, one result.

python examples/linear_regression.py [eager | compiled | manual]
"""

import sys

import numpy as np

import anabranch as ab

STEPS, RATE = 100, 0.1


def data(seed=0):
    """128 points on the line, and where w and b start."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(128, 1))
    return x, 3.0 * x + 1.5, 0.1 * rng.normal(size=(1, 1)), np.zeros((1, 1))


def report(step, loss):
    if step % 20 == 0:
        print(f"step {step:3}   loss {loss:.6f}")


def eager(x_data, y_data, w_start, b_start, report=report):
    """Compute, go back, update: each line does its work when Python reaches it."""
    w = ab.tensor(w_start, requires_grad=True, name="w")
    b = ab.tensor(b_start, requires_grad=True, name="b")
    for step in range(STEPS):
        pred = x_data @ w + b
        diff = pred - y_data
        loss = (diff * diff).mean()
        report(step, loss.item())
        loss.backward()
        w.data -= RATE * w.grad
        b.data -= RATE * b.grad
        w.grad = np.zeros_like(w.grad)  # gradients add up until they are cleared
        b.grad = np.zeros_like(b.grad)
    return w.data, b.data


def compiled(x_data, y_data, w, b, report=report):
    """The whole step is one graph: loss, gradients and update."""

    def loss_of(params, x, y):
        diff = x @ params["w"] + params["b"] - y
        return (diff * diff).mean()

    @ab.compile
    def train_step(params, x, y):
        loss, grads = ab.value_and_grad(loss_of)(params, x, y)
        return loss, {name: params[name] - RATE * grads[name] for name in params}

    params = {"w": w, "b": b}
    for step in range(STEPS):
        loss, params = train_step(params, x_data, y_data)
        report(step, loss)
    return params["w"], params["b"]


def manual(x_data, y_data, w, b, report=report):
    """The same graph, node by node; no shape of a result is written down."""
    g = ab.Graph("regression")
    x, y, w_in, b_in = (
        g.parameter(name, value.shape, value.dtype)
        for name, value in zip("xywb", (x_data, y_data, w, b), strict=True)
    )
    diff = (x @ w_in + b_in - y).named("diff")
    loss = (diff * diff).mean().named("loss")
    dw, db = ab.gradients(loss, [w_in, b_in])
    run = g.compile(loss, w_in - RATE * dw, b_in - RATE * db)
    for step in range(STEPS):
        loss_value, w, b = run(x_data, y_data, w, b)
        report(step, loss_value)
    return w, b


WAYS = {"eager": eager, "compiled": compiled, "manual": manual}

if __name__ == "__main__":
    way = sys.argv[1] if len(sys.argv) > 1 else "eager"
    if way not in WAYS:
        sys.exit(f"no way is called {way!r}: choose {', '.join(WAYS)}")
    w, b = WAYS[way](*data())
    print(f"w = {w.item():.4f}   b = {b.item():.4f}")
