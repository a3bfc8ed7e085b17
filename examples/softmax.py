"""A softmax that overflows: `anabranch why examples/softmax.py` says where, and what to do."""

import numpy as np

import anabranch as ab

data = np.array([[1.0, 2.0], [0.5, -1.0], [300.0, 250.0], [2.0, 0.0]])
targets = np.eye(4, 3)
W = ab.tensor([[2.0, -0.5, 1.0], [0.85, 1.0, -0.3]], requires_grad=True)
b = ab.tensor([-0.2, 0.0, 0.1], requires_grad=True)

with np.errstate(all="ignore"):  # NumPy would warn here, and not say of what
    h = data @ W + b
    e = ab.exp(h)
    p = e / ab.sum(e, axis=1, keepdims=True)
    loss = -ab.sum(targets * ab.log(p)) / 4
    loss.backward()
