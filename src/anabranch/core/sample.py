"""Sample inputs of an op: plain data that stands in its record and feeds every test of it."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from anabranch.core.record import record

# Not near zero, where a wrong gradient vanishes by chance; not so large that exp overflows.
SIGNED = (0.3, 2.0, True)
POSITIVE = (0.3, 2.0, False)
Domain = tuple[float, float, bool]


@record
class Draw:
    """How to draw one input: magnitudes in [low, high], with random signs if `signed`."""

    shape: tuple[int, ...]
    domain: Domain = SIGNED
    kind: str = "float"

    def make(self, rng: np.random.Generator, dtype: Any = np.float64) -> np.ndarray[Any, Any]:
        """A fresh array; `dtype` applies to floating draws only."""
        low, high, signed = self.domain
        if self.kind == "bool":
            return np.asarray(rng.random(self.shape) < 0.5)
        if self.kind == "int":
            return np.asarray(rng.integers(int(low), int(high), self.shape), np.int64)
        values = rng.uniform(low, high, self.shape)
        if signed:
            values = np.where(rng.random(self.shape) < 0.5, -values, values)
        if self.kind == "dominant":
            diagonal = np.arange(min(self.shape[-2:]))
            values /= max(self.shape[-1], 1)
            values[..., diagonal, diagonal] += 2.0 * high * (1 + diagonal)
        return np.asarray(values, dtype)


@record
class Sample:
    """One application of an op that its tests try.

    `value` and `grads` are what the op and the gradient of the sum of its output must give: a
    case small enough for mental arithmetic. `kink` marks points where the derivative is a
    convention, so that no finite difference is compared with it.
    """

    inputs: tuple[Any, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    value: Any = None
    grads: Sequence[Any] | None = None
    kink: bool = False

    @property
    def is_drawn(self) -> bool:
        """Whether any input is random (the others are fixed points)."""
        return any(isinstance(value, Draw) for value in self.inputs)

    def make(self, rng: np.random.Generator, dtype: Any = np.float64) -> list[Any]:
        """Inputs of this sample: drawn ones drawn, fixed ones as arrays of their own dtype."""
        return [
            value.make(rng, dtype) if isinstance(value, Draw) else _fixed(value, dtype)
            for value in self.inputs
        ]


def _fixed(value: Any, dtype: Any) -> np.ndarray[Any, Any]:
    array = np.array(value)
    return array.astype(dtype) if array.dtype == np.float64 else array


def normal(*shape: int, domain: Domain = SIGNED) -> Draw:
    """A floating input of this shape, drawn from the domain."""
    return Draw(shape, domain)


def dominant(*shape: int) -> Draw:
    """A floating matrix (or a stack of them) whose diagonal outweighs the rest and rises along it.

    So it is well invertible, its symmetric part is positive definite, and neither two eigenvalues
    of that nor two singular values are near each other.
    """
    return Draw(shape, kind="dominant")


def integers(*shape: int, below: int, above: int = 0) -> Draw:
    """An int64 input of this shape with `above` <= value < `below`."""
    return Draw(shape, (above, below, False), "int")


def booleans(*shape: int) -> Draw:
    """A bool input of this shape."""
    return Draw(shape, kind="bool")


def sample(
    *inputs: Any,
    value: Any = None,
    grads: Sequence[Any] | None = None,
    kink: bool = False,
    **attrs: Any,
) -> Sample:
    """A sample with these inputs (draws or values) and attrs."""
    return Sample(inputs, attrs, value, grads, kink)


def at(*inputs: float, value: Any = None, grads: Any = None, kink: bool = False) -> Sample:
    """A scalar point of an elementwise op, with the value and gradients it must have there."""
    given = None if grads is None else tuple(grads) if isinstance(grads, tuple) else (grads,)
    return Sample(tuple(float(x) for x in inputs), {}, value, given, kink)


_SHAPES: dict[int, list[tuple[tuple[int, ...], ...]]] = {
    1: [((3, 4),), ((),), ((1,),), ((0, 3),)],
    2: [
        ((3, 4), (3, 4)),
        ((3, 1), (4,)),
        ((), (2, 3)),
        ((2, 3), ()),
        ((1,), (1,)),
        ((0, 3), (1, 3)),
    ],
    3: [((3, 4), (3, 4), (3, 4)), ((3, 1), (4,), ()), ((1,), (2, 1), (3,)), ((0,), (0,), (1,))],
}


@functools.lru_cache
def elementwise_samples(
    arity: int, domains: tuple[Domain, ...], kinds: tuple[str, ...]
) -> tuple[Sample, ...]:
    """Draws of every shape relation an elementwise op meets: equal, broadcast, scalar, empty.

    Most ops have the same.
    """
    return tuple(
        Sample(tuple(Draw(*parts) for parts in zip(shapes, domains, kinds, strict=True)))
        for shapes in _SHAPES[arity]
    )


def is_close_to(actual: Any, wanted: Any, tolerance: float = 1e-12) -> bool:
    """Whether a golden value is met: equal NaNs and infinities, else relative closeness."""
    a, w = np.asarray(actual, np.float64), np.asarray(wanted, np.float64)
    return a.shape == w.shape and all(
        (math.isnan(x) and math.isnan(y)) or x == y or math.isclose(x, y, rel_tol=tolerance)
        for x, y in zip(a.ravel(), w.ravel(), strict=True)
    )
