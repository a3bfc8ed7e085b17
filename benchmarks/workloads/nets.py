"""What the workloads of training share: the network's numbers, and Adam written with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from harness import Bench

Array = np.ndarray[Any, Any]
SIZES = (784, 256, 128, 10)
RATE, DECAY1, DECAY2, EPS = 1e-3, 0.9, 0.999, 1e-8
CHECKED = 4  # steps whose losses are compared: they have gone through gradients and Adam


def batch_of(case: str) -> int:
    """The number behind the first word of a case."""
    return int(case.replace(",", "").split()[1])


def threads(case: str) -> int | None:
    """How many a case may use; None for all."""
    return 1 if case.endswith("1 thread") else None


def is_crowded(case: str) -> bool:
    """Whether a process beside it keeps a core busy."""
    return case.endswith("a busy process beside")


Data = tuple[list[Array], Array, Array]
_made: dict[str, Data] = {}


def make(case: str) -> None:
    """Have the data of a case ready for the next who asks, before a clock starts."""
    _made[case] = data(case)


def data(case: str) -> Data:
    """Weights and offsets of each layer, images, labels; float32. They are the caller's own."""
    if case in _made:
        return _made.pop(case)
    rng, count = np.random.default_rng(0), batch_of(case)
    weights: list[Array] = []
    for i, o in pairwise(SIZES):
        scaled = rng.standard_normal((i, o)) / np.sqrt(i)
        weights += [scaled.astype(np.float32), np.zeros(o, np.float32)]
    images = rng.standard_normal((count, SIZES[0]), dtype=np.float32)
    return weights, images, rng.integers(0, 10, count)


def losses(step: Callable[[], Any], count: int = CHECKED) -> Bench:
    """A training step, compared by its first losses."""
    return Bench(step, lambda: {"loss": np.array([float(step()) for _ in range(count)])})


class NumpyAdam:
    """Adam, in place on a list of arrays."""

    def __init__(self, weights: list[Array]) -> None:
        self.mean = [np.zeros_like(w) for w in weights]
        self.square = [np.zeros_like(w) for w in weights]
        self.count = 0

    def update(self, weights: list[Array], slopes: list[Array]) -> None:
        """One step."""
        self.count += 1
        rate = np.float32(RATE / (1.0 - DECAY1**self.count))
        root = np.float32(1.0 / np.sqrt(1.0 - DECAY2**self.count))
        for w, d, m, v in zip(weights, slopes, self.mean, self.square, strict=True):
            np.multiply(m, DECAY1, out=m)
            np.add(m, (1.0 - DECAY1) * d, out=m)
            np.multiply(v, DECAY2, out=v)
            np.add(v, (1.0 - DECAY2) * (d * d), out=v)
            np.subtract(w, rate * m / (np.sqrt(v) * root + EPS), out=w)
