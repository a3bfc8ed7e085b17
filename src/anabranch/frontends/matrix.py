"""The matrix of derivatives between two lists of values, one sweep after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anabranch.core.aval import Aval, aval_of
from anabranch.core.bind import state
from anabranch.core.values import settled
from anabranch.frontends.evaluation import Evaluation
from anabranch.frontends.tensor import make_tensor
from anabranch.ops.layout import broadcast_to, pad, permute, reshape
from anabranch.ops.select import equal

Sweep = Callable[[Any], Sequence[Any]]


@dataclass(frozen=True)
class JacobianPlan:
    """How a Jacobian will be computed, and what it will hold at its peak.

    The peak is the result, `chunk` rows (columns in forward mode) that wait to be written into it,
    and one sweep, which carries at most one derivative for each value that f recorded:

        peak_bytes = result_bytes + chunk * row_bytes + sweep_bytes

    The values of f itself come on top: they are there before the first sweep and stay.

    Attributes:
        mode: `"forward"` or `"reverse"`.
        sweeps: one for each element of the inputs (forward) or of the outputs (reverse).
        chunk: how many rows or columns are held at most before they are written.
        result_bytes, row_bytes, sweep_bytes: the parts of the formula.
    """

    mode: str
    sweeps: int
    chunk: int
    result_bytes: int
    row_bytes: int
    sweep_bytes: int

    @property
    def peak_bytes(self) -> int:
        return self.result_bytes + self.chunk * self.row_bytes + self.sweep_bytes

    def __str__(self) -> str:
        what = "row" if self.mode == "reverse" else "column"
        return (
            f"{self.mode} mode, {self.sweeps} sweeps, {self.chunk} {what}s held at once\n"
            f"peak {self.peak_bytes} bytes: result {self.result_bytes}, "
            f"{what}s {self.chunk} x {self.row_bytes}, one sweep {self.sweep_bytes}"
        )


def blocks(run: Evaluation, edges: Sequence[Any], plan: JacobianPlan) -> list[list[Any]]:
    """The derivative of each output (first index) by each alias (second index)."""
    fill = _by_ops if run.is_symbolic or run.is_recorded else _by_arrays
    if plan.mode == "reverse":

        def pull(edge: Any) -> Sweep:
            return lambda seed: run.pull([edge], [seed])

        return [fill(run, edge, pull(edge), run.aliases, plan) for edge in edges]

    def push(place: int) -> Sweep:
        rest = len(run.aliases) - place - 1
        return lambda seed: run.push(edges, [None] * place + [seed] + [None] * rest)

    columns = [fill(run, alias, push(i), edges, plan) for i, alias in enumerate(run.aliases)]
    return [[column[i] for column in columns] for i in range(len(edges))]


def _by_arrays(
    run: Evaluation, source: Any, sweep: Sweep, targets: Sequence[Any], plan: JacobianPlan
) -> list[Any]:
    """One sweep for each element of `source`, written into arrays that are made first."""
    start = aval_of(source)
    results, rows = [], []
    for end in map(aval_of, targets):
        if plan.mode == "reverse":
            result = np.zeros((start.size, *end.shape), end.dtype)
            results.append(result.reshape(start.shape + end.shape))
            rows.append(result)
        else:
            result = np.zeros((*end.shape, start.size), start.dtype)
            results.append(result.reshape(end.shape + start.shape))
            rows.append(np.moveaxis(result, -1, 0))
    units = _array_units(start)
    for first in range(0, start.size, plan.chunk):
        held = [sweep(units(i)) for i in range(first, min(first + plan.chunk, start.size))]
        for i, found in enumerate(held, first):
            for row, one in zip(rows, found, strict=True):
                if one is not None:  # a structural zero stays 0
                    row[i] = one
        del held, found
    made = map(settled, results)
    return list(map(make_tensor, made)) if run.gives_tensors else list(made)


def _by_ops(
    run: Evaluation, source: Any, sweep: Sweep, targets: Sequence[Any], plan: JacobianPlan
) -> list[Any]:
    """The same, by ops that are recorded or appended."""
    start = aval_of(source)
    units = _array_units(start) if state.trace is None else _traced_units(start)
    parts: list[list[Any]] = [[] for _ in targets]
    for first in range(0, start.size, plan.chunk):
        held = [sweep(units(i)) for i in range(first, min(first + plan.chunk, start.size))]
        for k, part in enumerate(parts):
            rows = [found[k] for found in held]
            if any(row is not None for row in rows):
                kind = aval_of(targets[k])
                part.append(_joined([_as_row(row, kind) for row in rows]))
            else:
                part.append(len(rows))
    return [
        run.given_back(_laid_out(part, start, aval_of(target), plan.mode))
        for part, target in zip(parts, targets, strict=True)
    ]


def _laid_out(parts: list[Any], start: Aval, end: Aval, mode: str) -> Any:
    """Rows (an int counts empty ones) as a block of shape out.shape + in.shape."""
    shape, dtype = (
        (start.shape + end.shape, end.dtype)
        if mode == "reverse"
        else (end.shape + start.shape, start.dtype)
    )
    if all(type(part) is int for part in parts):
        return broadcast_to(dtype.type(0), shape)
    zero = dtype.type(0)
    rows = _joined([broadcast_to(zero, (p, *end.shape)) if type(p) is int else p for p in parts])
    if mode == "forward":
        rows = permute(rows, [*range(1, end.ndim + 1), 0])
    rows = reshape(rows, shape)
    return rows if rows.dtype == dtype else rows.astype(dtype)


def _as_row(value: Any, kind: Aval) -> Any:
    if value is None:
        return broadcast_to(kind.dtype.type(0), (1, *kind.shape))
    return reshape(value, (1, *kind.shape))


def _joined(parts: Sequence[Any]) -> Any:
    """Arrays one below another, in pairs. What is padded is -0.0, which changes no bit of a sum."""
    while len(parts) > 1:
        pairs = [_stacked(*parts[i : i + 2]) for i in range(0, len(parts) - 1, 2)]
        parts = pairs + list(parts[2 * len(pairs) :])
    return parts[0]


def _stacked(upper: Any, lower: Any) -> Any:
    rest = [(0, 0)] * (len(upper.shape) - 1)
    above = pad(upper, [(0, lower.shape[0]), *rest], constant_values=-0.0)
    return above + pad(lower, [(upper.shape[0], 0), *rest], constant_values=-0.0)


def _array_units(kind: Aval) -> Callable[[int], Any]:
    """The i-th unit of a value's space as an array."""

    def unit(i: int) -> Any:
        made = np.zeros(kind.size, kind.dtype)
        made[i] = 1
        return settled(made.reshape(kind.shape))

    return unit


def _traced_units(kind: Aval) -> Callable[[int], Any]:
    """The same as nodes, so that a graph holds one array of numbers instead of all units."""
    numbers = np.arange(kind.size)

    def unit(i: int) -> Any:
        if kind.shape == ():
            return kind.dtype.type(1)
        return reshape(equal(numbers, i).astype(kind.dtype), kind.shape)

    return unit
