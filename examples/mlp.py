"""A small network and its gradients: `anabranch grads examples/mlp.py`.

`anabranch why examples/mlp.py layer1.W -- --bias -9` asks why a gradient is zero: with such a bias
no unit of the first layer ever lets anything through.
"""

import argparse

import numpy as np

import anabranch as ab

options = argparse.ArgumentParser()
options.add_argument("--bias", type=float, default=0.0, help="where the biases of layer 1 start")
bias = options.parse_args().bias

rng = np.random.default_rng(0)
x = rng.normal(size=(32, 2))
t = np.sign(x[:, :1] * x[:, 1:])  # 1 where both have one sign, -1 elsewhere


def weights(name, rows, columns):
    spread = np.sqrt(2 / rows)
    return ab.tensor(spread * rng.normal(size=(rows, columns)), requires_grad=True, name=name)


W1 = weights("layer1.W", 2, 16)
b1 = ab.tensor(np.full(16, bias), requires_grad=True, name="layer1.b")
W2 = weights("layer2.W", 16, 16)
b2 = ab.tensor(np.full(16, 0.1), requires_grad=True, name="layer2.b")
W3 = weights("layer3.W", 16, 1)
b3 = ab.tensor(np.zeros(1), requires_grad=True, name="layer3.b")

z1 = x @ W1 + b1
h1 = ab.relu(z1)
z2 = h1 @ W2 + b2
h2 = ab.relu(z2)
y = h2 @ W3 + b3
loss = ab.mean((y - t) ** 2)
loss.backward()
