"""The samples of an op made concrete, and the op as functions that derivatives can be taken of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anabranch.core.aval import aval_of
from anabranch.core.bind import bind
from anabranch.core.dtype import is_floating
from anabranch.core.op import NoGradient, Op, Unsupported
from anabranch.core.sample import Sample, normal
from anabranch.errors import AnabranchError
from anabranch.frontends.transforms import vjp

Array = np.ndarray[Any, Any]
DRAWS = 3


class FaultError(AssertionError):
    """What a check found wrong with an op."""


@dataclass(frozen=True)
class Case:
    """One application of an op: a sample with its random inputs drawn."""

    op: Op
    sample: Sample
    number: int
    draw: int
    xs: tuple[Array, ...]

    def __str__(self) -> str:
        shown = [
            str(aval_of(x)) if x.size > 1 else f"{x.dtype.name} {x.item() if x.size else 'empty'}"
            for x in self.xs
        ]
        shown += [f"{key}={value!r}" for key, value in self.sample.attrs.items()]
        return f"{self.op.name}({', '.join(shown)}), sample {self.number}, draw {self.draw}"

    @property
    def attrs(self) -> dict[str, Any]:
        return dict(self.sample.attrs)

    @property
    def values(self) -> tuple[Any, ...]:
        """The inputs as an op's reference gets them: NumPy scalars for shape ()."""
        return tuple(x[()] for x in self.xs)

    @property
    def smooth(self) -> tuple[int, ...]:
        """The inputs that have a derivative: floating, with a rule."""
        return tuple(
            slot
            for slot, x in enumerate(self.xs)
            if is_floating(x.dtype)
            and not isinstance(self.op.gradient(slot), NoGradient | Unsupported)
        )

    @property
    def is_allowed(self) -> bool:
        """Whether the op takes inputs of these dtypes; some attrs fix them."""
        try:
            self.op.aval(*map(aval_of, self.xs), **self.attrs)
        except AnabranchError:
            return False
        return True

    def rng(self) -> np.random.Generator:
        """Random numbers for this case, the same at each call."""
        return np.random.default_rng([self.number, self.draw, 7])

    def at(self, xs: tuple[Array, ...]) -> Case:
        """The same application with other inputs."""
        return replace(self, xs=xs)

    def fault(self, sentence: str, analytic: Any = None, wanted: Any = None) -> FaultError:
        """A fault of this case, with both values if given."""
        lines = [f"{self}: {sentence}"]
        if analytic is not None:
            lines += [f"  got    {np.asarray(analytic)!r}", f"  wanted {np.asarray(wanted)!r}"]
        return FaultError("\n".join(lines))


def cases(
    op: Op, dtype: Any = np.float64, draws: int = DRAWS, kinks: bool = True
) -> Iterator[Case]:
    """Every sample of an op, drawn ones `draws` times; without those at kinks if asked."""
    for number, sample in enumerate(op.samples):
        if sample.kink and not kinks:
            continue
        for draw in range(draws if sample.is_drawn else 1):
            made = sample.make(np.random.default_rng([number, draw]), dtype)
            case = Case(op, sample, number, draw, tuple(made))
            if dtype == np.float64 or case.is_allowed:
                yield case


def outputs_of(result: Any) -> tuple[Any, ...]:
    """The results of an op as a tuple."""
    return result if isinstance(result, tuple) else (result,)


def floating(results: Any) -> tuple[Any, ...]:
    """Those of an op's results that have tangents."""
    return tuple(y for y in outputs_of(results) if is_floating(np.dtype(y.dtype)))


def reference(case: Case, xs: tuple[Any, ...] | None = None) -> tuple[Array, ...]:
    """What the op's reference gives, as arrays."""
    with np.errstate(all="ignore"):
        found = case.op.ref(*(case.values if xs is None else xs), **case.attrs)
    return tuple(map(np.asarray, outputs_of(found)))


def function(case: Case, slots: tuple[int, ...]) -> Callable[..., tuple[Any, ...]]:
    """The op's floating results as a function of some of its inputs, in any front end."""

    def apply(*chosen: Any) -> tuple[Any, ...]:
        xs = list(case.values)
        for slot, x in zip(slots, chosen, strict=True):
            xs[slot] = x
        return floating(bind(case.op, *xs, **case.attrs))

    return apply


def pulled(
    case: Case, slots: tuple[int, ...], cts: tuple[Any, ...], primals: Any = None
) -> list[Any]:
    """The cotangents of some inputs, at the case's own values or at others of any front end."""
    xs = [case.values[slot] for slot in slots] if primals is None else primals
    with np.errstate(all="ignore"):
        _, pullback = vjp(function(case, slots), *xs)
        return list(pullback(cts))


def cotangents(case: Case, rng: np.random.Generator) -> tuple[Array, ...]:
    """Random cotangents of the floating results, in their dtypes."""
    return tuple(normal(*y.shape).make(rng).astype(y.dtype) for y in floating(reference(case)))


def tangents(case: Case, slots: tuple[int, ...], rng: np.random.Generator) -> tuple[Array, ...]:
    """Random tangents of some inputs, in their dtypes."""
    return tuple(normal(*case.xs[s].shape).make(rng).astype(case.xs[s].dtype) for s in slots)


def moved(case: Case, slots: tuple[int, ...], ts: tuple[Array, ...], h: float) -> Case:
    """The case h times the tangents further on."""
    xs = list(case.xs)
    for slot, t in zip(slots, ts, strict=True):
        xs[slot] = xs[slot] + h * t
    return case.at(tuple(xs))
