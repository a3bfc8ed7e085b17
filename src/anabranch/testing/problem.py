"""A user's function as a gradient check sees it: a scalar function of its floating leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from anabranch.core.aval import aval_of
from anabranch.core.bind import located
from anabranch.core.dtype import is_floating
from anabranch.core.sample import normal
from anabranch.core.values import ARRAYS
from anabranch.errors import ArgumentError, DTypeError
from anabranch.frontends.containers import argument_names, flatten, leaf_names, unflatten
from anabranch.frontends.eager import no_grad
from anabranch.frontends.evaluation import refusal
from anabranch.frontends.tensor import Tensor, make_tensor
from anabranch.frontends.transforms import vjp
from anabranch.testing.differences import Array, sizes, unit
from anabranch.testing.suspects import suspects

Argnums = int | str | Sequence[int | str] | None


class Problem:
    """f's differentiable leaves as float64 arrays, and f made scalar by fixed cotangents.

    Attributes:
        names: how a user would write each leaf.
        points: the leaves in float64, where differences are taken.
        dtypes: the leaves' own dtypes, in which the gradient is computed.
        outputs: the shapes and dtypes of f's floating results.
        magnitude: the size of what the scalar sums up.
        noise: how much the scalar was seen to jitter.
        work_unit: the rounding unit of f's results in these evaluations.
        evaluations: how often f was called for differences.
    """

    def __init__(
        self, f: Callable[..., Any], args: Sequence[Any], argnums: Argnums, rng: np.random.Generator
    ) -> None:
        self.function = f
        self.name = getattr(f, "__name__", type(f).__name__)
        self.evaluations = 0
        self.magnitude = self.noise = 0.0
        self.work_unit = unit(np.float64)
        self._rng = rng
        self._leaves, self._structure = flatten(tuple(args))
        self._places, self.names = self._wanted(args, argnums)
        self.points = [np.array(_array(self._leaves[i]), np.float64) for i in self._places]
        self.dtypes = [_array(self._leaves[i]).dtype for i in self._places]
        self.outputs: tuple[str, ...] = ()
        self._cts: list[Array] = []

    def _wanted(self, args: Sequence[Any], argnums: Argnums) -> tuple[list[int], list[str]]:
        """Positions among all leaves, and names, of the leaves to differentiate."""
        known = argument_names(self.function, len(args))
        chosen = _positions(argnums, known)
        places, names, position = [], [], 0
        for number, (arg, name) in enumerate(zip(args, known, strict=True)):
            leaves, structure = flatten(arg)
            for leaf, label in zip(leaves, leaf_names(structure, name), strict=True):
                if number in chosen and _is_differentiable(leaf, is_named=argnums is not None):
                    places.append(position)
                    names.append(label)
                elif number in chosen and argnums is not None:
                    raise refusal("check_gradients", self.function, known)(label, leaf)
                position += 1
        if not places:
            raise located(
                ArgumentError(
                    "nothing-to-check", f"{self.name} was given no floating argument to check"
                )
            )
        return places, names

    def _call(self, *values: Any) -> tuple[Any, ...]:
        """f's floating results with these values in place of the leaves."""
        leaves = list(self._leaves)
        for place, value in zip(self._places, values, strict=True):
            leaves[place] = value
        out = flatten(self.function(*unflatten(self._structure, leaves)))[0]
        return tuple(y for y in out if hasattr(y, "dtype") and is_floating(y.dtype))

    def gradient(self) -> list[Array]:
        """The analytic gradient at the points, each leaf in its own dtype."""
        values = [p.astype(d)[()] for p, d in zip(self.points, self.dtypes, strict=True)]
        with np.errstate(all="ignore"):
            out, pullback = vjp(self._call, *values)
            if not out:
                raise located(
                    DTypeError("no-floating-result", f"{self.name} returned no floating value")
                )
            if not self._cts:
                self._choose_cotangents(out)
            return [
                np.asarray(g) for g in pullback(tuple(c.astype(y.dtype) for c, y in self._met(out)))
            ]

    def suspects(self) -> Sequence[str]:
        """What speaks against single ops of one recorded run, in float64."""
        leaves = [make_tensor(np.array(point)[()]) for point in self.points]
        for leaf in leaves:
            leaf.requires_grad = True
        with np.errstate(all="ignore"):
            out = self._call(*leaves)
        return suspects([y for y in out if type(y) is Tensor and y.is_tracked])

    @contextmanager
    def moved(self, position: int, point: Array) -> Iterator[Array]:
        """In the block, leaf `position` lies at another point; gives its gradient there."""
        before = self.points[position]
        self.points[position] = point
        try:
            yield self.gradient()[position]
        finally:
            self.points[position] = before

    @property
    def is_narrow(self) -> bool:
        """Whether some leaf is narrower than float64, so that f is seen in a wider dtype."""
        return any(dtype != np.float64 for dtype in self.dtypes)

    @property
    def rounding(self) -> float:
        """How far the scalar's values are off, roughly."""
        return max(self.work_unit * self.magnitude, self.noise)

    def measure_noise(self, position: int, step: float) -> None:
        """See how much the scalar jitters a step away, where it hardly bends.

        Its own size does not tell: it may be 0, or what is left where large terms have cancelled.
        """
        point = self.points[position]
        v = normal(*point.shape).make(self._rng) * sizes(point)
        values = [self.value(position, point + (step + k * 2.0**-36) * v) for k in range(6)]
        jitter = float(np.max(np.abs(np.diff(values, 3)))) / 4
        if np.isfinite(jitter):
            self.noise = max(self.noise, jitter)

    def _choose_cotangents(self, out: Sequence[Any]) -> None:
        self.outputs = tuple(str(aval_of(y)) for y in out)
        is_scalar = len(out) == 1 and out[0].shape == ()
        self._cts = [np.ones(()) if is_scalar else normal(*y.shape).make(self._rng) for y in out]
        if not self.is_narrow:
            self.work_unit = max(unit(y.dtype) for y in out)
        self.magnitude = sum(float(np.sum(np.abs(c * np.asarray(y)))) for c, y in self._met(out))

    def _met(self, out: Sequence[Any]) -> list[tuple[Array, Any]]:
        return list(zip(self._cts, out, strict=True))

    def value(self, position: int, x: Array) -> float:
        """The scalar with leaf `position` at x and the others at their points, in float64."""
        self.evaluations += 1
        points = [x if i == position else p for i, p in enumerate(self.points)]
        with no_grad(), np.errstate(all="ignore"):
            out = self._call(*(make_tensor(np.array(p)[()]) for p in points))
        values = [np.asarray(y.value if type(y) is Tensor else y) for y in out]
        # A function that works in a narrower dtype by itself allows less, whatever comes in.
        self.work_unit = max(unit(v.dtype) for v in values)
        return sum(float(np.sum(c * v.astype(np.float64))) for c, v in self._met(values))


class Line:
    """The problem's scalar as a function of one element of one leaf."""

    def __init__(self, problem: Problem, position: int, index: tuple[int, ...]) -> None:
        self.problem = problem
        self.position = position
        self.index = index
        self.point = problem.points[position]
        self.x = float(self.point[index])

    def __call__(self, value: float) -> float:
        moved = self.point.copy()
        moved[self.index] = value
        return self.problem.value(self.position, moved)


def _positions(argnums: Argnums, known: Sequence[str]) -> set[int]:
    if argnums is None:
        return set(range(len(known)))
    found = set()
    for one in (argnums,) if isinstance(argnums, int | str) else argnums:
        position = known.index(one) if isinstance(one, str) and one in known else one
        if isinstance(position, int) and position < 0:
            position += len(known)
        if not isinstance(position, int) or not 0 <= position < len(known):
            raise located(
                ArgumentError(
                    "no-such-argument",
                    f"argnums names {one!r}, the call has: {', '.join(known)}",
                )
            )
        found.add(position)
    return found


def _array(leaf: Any) -> Array:
    value = leaf.value if type(leaf) is Tensor else leaf
    return np.asarray(value) if isinstance(value, ARRAYS) else np.asarray(value, np.float64)


def _is_differentiable(leaf: Any, is_named: bool) -> bool:
    if isinstance(leaf, (*ARRAYS, Tensor)):
        return is_floating(leaf.dtype)
    return type(leaf) is float or (is_named and type(leaf) is int)
