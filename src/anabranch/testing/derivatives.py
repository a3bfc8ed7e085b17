"""The checks of an op's derivative rules: against differences, each other, and their own swaps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from anabranch.core.aval import aval_of
from anabranch.core.bind import bind
from anabranch.core.op import NoGradient, Op, Unsupported
from anabranch.core.registry import temporary_ops
from anabranch.errors import NoGradientError
from anabranch.frontends.tensor import Tensor
from anabranch.frontends.transforms import jvp
from anabranch.ops.reduce import sum_
from anabranch.testing.cases import (
    DRAWS,
    Case,
    FaultError,
    cases,
    cotangents,
    floating,
    function,
    moved,
    outputs_of,
    pulled,
    reference,
    tangents,
)
from anabranch.testing.comparison import meets
from anabranch.testing.differences import Array, base_step, unit

_H = base_step(unit(np.float64))
_RTOL = 1e-6


def _atol(*values: Any) -> float:
    """The rounding error that a difference of these values can have."""
    size = sum(float(np.sum(np.abs(v))) for v in values)
    return 16 * unit(np.float64) * max(size, 1.0) / _H


def reverse_agrees(op: Op, draws: int = DRAWS) -> None:
    """Cotangents against central differences, for every element of every input."""
    for case in cases(op, draws=draws, kinks=False):
        cts = cotangents(case, case.rng())
        if not cts:
            continue
        for slot, found in zip(case.smooth, pulled(case, case.smooth, cts), strict=True):
            wanted = _difference_gradient(case, slot, cts)
            if found.shape != wanted.shape or found.dtype != case.xs[slot].dtype:
                raise case.fault(f"the cotangent of input {slot} is {found.dtype}{found.shape}")
            if not meets(found, wanted, _atol(*cts, *reference(case)), _RTOL).all():
                raise case.fault(f"the cotangent of input {slot} is wrong", found, wanted)


def _difference_gradient(case: Case, slot: int, cts: tuple[Array, ...]) -> Array:
    x = case.xs[slot]
    gradient = np.empty(x.shape)
    for index in np.ndindex(x.shape):
        t = np.zeros(x.shape)
        t[index] = 1.0
        ends = [floating(reference(moved(case, (slot,), (t,), h))) for h in (_H, -_H)]
        gradient[index] = sum(
            float(np.sum(ct * (above - below))) for ct, above, below in zip(cts, *ends, strict=True)
        ) / (2 * _H)
    return gradient


def forward_agrees(op: Op, draws: int = DRAWS) -> None:
    """Tangents against central differences, for each input alone and for all together."""
    for case in cases(op, draws=draws, kinks=False):
        if not floating(reference(case)):
            continue
        rng = case.rng()
        for slots in dict.fromkeys([*((slot,) for slot in case.smooth), case.smooth]):
            if slots:
                _forward_agrees(case, slots, tangents(case, slots, rng))


def _forward_agrees(case: Case, slots: tuple[int, ...], ts: tuple[Array, ...]) -> None:
    primals = tuple(case.values[slot] for slot in slots)
    out, found = jvp(function(case, slots), primals, tuple(t[()] for t in ts))
    ends = [floating(reference(moved(case, slots, ts, h))) for h in (_H, -_H)]
    for y, t, above, below in zip(out, found, *ends, strict=True):
        wanted = (above - below) / (2 * _H)
        if t.shape != y.shape or t.dtype != y.dtype:
            raise case.fault(f"the tangent by inputs {slots} is {t.dtype}{t.shape}")
        if not meets(t, wanted, _atol(above), _RTOL).all():
            raise case.fault(f"the tangent by inputs {slots} is wrong", t, wanted)


def modes_agree(op: Op) -> None:
    """<ct, J t> = <Jᵀ ct, t> wherever both are finite, at kinks and ties too."""
    for case in cases(op):
        rng = case.rng()
        cts = cotangents(case, rng)
        if not cts:
            continue
        for slots in dict.fromkeys([*((slot,) for slot in case.smooth), case.smooth]):
            if slots:
                _modes_agree(case, slots, cts, tangents(case, slots, rng))


def _modes_agree(
    case: Case, slots: tuple[int, ...], cts: tuple[Array, ...], ts: tuple[Array, ...]
) -> None:
    primals = tuple(case.values[slot] for slot in slots)
    with np.errstate(all="ignore"):
        _, pushed = jvp(function(case, slots), primals, tuple(t[()] for t in ts))
        forward = [np.asarray(ct * t) for ct, t in zip(cts, pushed, strict=True)]
        reverse = [np.asarray(g * t) for g, t in zip(pulled(case, slots, cts), ts, strict=True)]
    if not all(np.isfinite(v).all() for v in (*forward, *reverse)):
        return
    left, right = (sum(float(np.sum(v)) for v in values) for values in (forward, reverse))
    size = sum(float(np.sum(np.abs(v))) for v in (*forward, *reverse))
    if abs(left - right) > 1e-13 * size:
        raise case.fault(f"forward and reverse mode differ by inputs {slots}", left, right)


def second_order_agrees(op: Op, draws: int = DRAWS) -> None:
    """The derivative of the cotangents, forward over reverse, against their differences."""
    for case in cases(op, draws=draws, kinks=False):
        rng = case.rng()
        cts = cotangents(case, rng)
        slots = case.smooth
        if not cts or not slots or not case.sample.is_drawn:
            continue
        ts = tangents(case, slots, rng)

        def gradient(*xs: Any, slots: Any = slots, case: Case = case, cts: Any = cts) -> Any:
            return tuple(pulled(case, slots, cts, xs))

        primals = tuple(case.values[slot] for slot in slots)
        out, found = jvp(gradient, primals, tuple(t[()] for t in ts))
        ends = [pulled(moved(case, slots, ts, h), slots, cts) for h in (_H, -_H)]
        for slot, g, dg, above, below in zip(slots, out, found, *ends, strict=True):
            wanted = (above - below) / (2 * _H)
            if not meets(dg, wanted, _atol(g, *cts), _RTOL).all():
                raise case.fault(f"the derivative of cotangent {slot} is wrong", dg, wanted)


def delivers_once(op: Op) -> None:
    """Each input gets exactly one contribution, in its own shape and dtype; ended paths get none.

    Narrow inputs beside wide ones are tried too.
    """
    for case in cases(op, draws=1):
        for dtypes in ((np.float64,) * 3, (np.float32,) * 3, (np.float32, np.float64, np.float64)):
            _delivers_once(case, dtypes)


def _delivers_once(case: Case, dtypes: Any) -> None:
    xs = list(case.xs)
    for slot, dtype in zip(case.smooth, dtypes, strict=False):
        xs[slot] = xs[slot].astype(dtype)
    if not case.at(tuple(xs)).is_allowed:
        return
    leaves = [Tensor(x, requires_grad=True) if s in case.smooth else x for s, x in enumerate(xs)]
    with np.errstate(all="ignore"):
        results = outputs_of(bind(case.op, *leaves, **case.attrs))
        ys = [y for y in results if type(y) is Tensor and y.requires_grad]
        total: Any = sum(map(sum_, ys))
    if not ys:
        return
    arrived: Counter[int] = Counter()

    def observe(node: Any, slot: int, part: Any) -> None:
        if node is ys[0].node:
            arrived[slot] += 1
            if part.shape != xs[slot].shape or part.dtype != xs[slot].dtype:
                raise case.fault(
                    f"the contribution to input {slot} is {aval_of(part)}, the input"
                    f" {aval_of(xs[slot])}"
                )

    total.backward(observer=observe)
    if arrived != Counter(case.smooth):
        raise case.fault(f"contributions by input are {dict(arrived)}, need one for {case.smooth}")


def refuses_what_it_says(op: Op) -> None:
    """An input marked `UNSUPPORTED` raises, and one marked `NO_GRADIENT` gives exact zeros."""
    for case in cases(op, draws=1):
        cts = cotangents(case, case.rng())
        for slot, x in enumerate(case.xs):
            rule = op.gradient(slot)
            if not cts or x.dtype != np.float64:
                continue
            if isinstance(rule, NoGradient) and np.any(pulled(case, (slot,), cts)[0] != 0):
                raise case.fault(f"input {slot} has no gradient, yet one arrived")
            if isinstance(rule, Unsupported):
                try:
                    pulled(case, (slot,), cts)
                except NoGradientError:
                    continue
                raise case.fault(f"input {slot} is unsupported, yet its derivative did not raise")


def swaps_are_noticed(op: Op) -> None:
    """A record whose rules for two inputs are swapped fails the check of cotangents.

    Where swapping changes no contribution, as for the sum of two values, there is nothing to see.
    """
    rules = op.partials if op.partials is not None else op.vjp
    if not isinstance(rules, tuple):
        return
    smooth = [i for i, r in enumerate(rules) if not isinstance(r, NoGradient | Unsupported)]
    for i, j in combinations(smooth, 2):
        if not _is_symmetric(op, i, j):
            with swapped(op, i, j) as mutant:
                try:
                    reverse_agrees(mutant)
                except Exception:
                    continue
                raise FaultError(
                    f"{op.name}: with the rules of inputs {i} and {j} swapped, every sample passes;"
                    " a sample needs operands of equal shape and unequal values"
                )


def _is_symmetric(op: Op, i: int, j: int) -> bool:
    same = [
        case
        for case in cases(op, kinks=False)
        if {i, j} <= set(case.smooth) and case.xs[i].shape == case.xs[j].shape and case.xs[i].size
    ]
    for case in same:
        first, second = pulled(case, (i, j), cotangents(case, case.rng()))
        if not np.array_equal(first, second):
            return False
    return bool(same)


@contextmanager
def swapped(op: Op, i: int, j: int) -> Iterator[Op]:
    """In the block, a copy of the op whose derivative rules for two inputs are swapped."""

    def swap(rules: Any) -> Any:
        if callable(rules):
            return lambda slot: rules({i: j, j: i}.get(slot, slot))
        if not isinstance(rules, tuple):
            return rules
        changed = list(rules)
        changed[i], changed[j] = rules[j], rules[i]
        return tuple(changed)

    with temporary_ops():
        yield replace(
            op,
            name=f"{op.name} swapped {i} {j}",
            partials=swap(op.partials),
            vjp=swap(op.vjp),
            jvp=swap(op.jvp),
        )
