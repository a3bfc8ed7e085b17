"""Which op is to blame: each node of a recorded run against differences of its own reference.

Where a whole gradient is denied or kinked, the ops it is made of are tried one by one at the values
that they met, in the order in which they ran. So the first wrong rule is named, not the last sum
that it spoils, and a kink gets its op, element and line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from anabranch.core.aval import aval_of
from anabranch.core.dtype import is_floating
from anabranch.core.node import Literal, Node
from anabranch.core.op import NoGradient, Unsupported
from anabranch.core.sample import normal
from anabranch.diff.region import ancestors
from anabranch.diff.rules import meeting, pulled_back
from anabranch.frontends.engine import input_values
from anabranch.testing.differences import Array, base_step, sizes, unit

_LIMIT = 5_000  # nodes that are tried
_STEP = base_step(unit(np.float64))


def suspects(results: Sequence[Any]) -> list[str]:
    """A line for each op behind these tensors that has a wrong rule or stands at a kink."""
    rng = np.random.default_rng(0)
    found: dict[str, None] = {}
    tried = [t for t in ancestors(results).values() if not t.is_leaf][:_LIMIT]
    with np.errstate(all="ignore"):
        for tensor in tried:
            found |= dict.fromkeys(_faults(tensor, rng))
    return list(found)


def _faults(tensor: Any, rng: np.random.Generator) -> Iterator[str]:
    node, xs = tensor.node, input_values(tensor.node)
    wrong = []
    for slot, edge in enumerate(node.inputs):
        if isinstance(edge, Literal) or not is_floating(edge.dtype) or not edge.is_tracked:
            continue
        at_kink = _kink(node, slot, xs)
        if at_kink is not None:
            yield f"kink of {_name(node)}{at_kink}{_place(node)}"
            continue
        if isinstance(node.op.gradient(slot), NoGradient | Unsupported):
            continue
        analytic, numeric, slack = _slopes(tensor, slot, xs, rng)
        if abs(analytic - numeric) > slack or not np.isfinite(analytic - numeric):
            wrong.append(slot)
            yield (
                f"the derivative of {_name(node)} by its input {slot} is {analytic:.6g} along a"
                f" direction, a difference says {numeric:.6g}{_place(node)}"
            )
    for i, j in combinations(wrong, 2):
        if node.inputs[i].aval == node.inputs[j].aval and _are_swapped(tensor, i, j, xs, rng):
            yield (
                f"{_name(node)} gives its inputs {i} and {j} each other's derivative:"
                f" are they swapped?{_place(node)}"
            )


def _are_swapped(
    tensor: Any, i: int, j: int, xs: tuple[Any, ...], rng: np.random.Generator
) -> bool:
    """Whether the rule for each of two inputs fits the differences of the other one."""
    cts = _cotangents(tensor, rng)
    return all(
        abs(analytic - numeric) <= slack
        for mine, other in ((i, j), (j, i))
        for analytic, numeric, slack in [_slopes(tensor, mine, xs, rng, cts, other)]
    )


def _kink(node: Node, slot: int, xs: tuple[Any, ...]) -> str | None:
    """Where an op bends or jumps in this input: ` at element [1]`; None if it is smooth."""
    if not node.op.elementwise or len(node.avals) > 1:
        return None
    x = np.asarray(xs[slot])
    h = _STEP * sizes(x)
    below, here, above = (np.asarray(_value(node, slot, xs, x + s * h)) for s in (-1, 0, 1))
    if not is_floating(here.dtype):  # a comparison: it changes, or stands at the very border
        bends = (below != here) | (here != above)
    else:
        left, right = (here - below) / h, (above - here) / h
        size = np.maximum(np.abs(left), np.abs(right))
        rounding = 64 * unit(np.float64) * np.abs(here) / h
        bends = np.abs(right - left) > 1e-3 * size + rounding
    if not np.any(bends):
        return None
    index = tuple(map(int, np.argwhere(bends)[0])) if bends.ndim else ()
    return f" at element {list(index)}" if index else ""


def _cotangents(tensor: Any, rng: np.random.Generator) -> list[Any]:
    return [normal(*np.shape(y)).make(rng).astype(y.dtype)[()] for y in tensor.values]


def _slopes(
    tensor: Any,
    slot: int,
    xs: tuple[Any, ...],
    rng: np.random.Generator,
    cts: list[Any] | None = None,
    moved: int | None = None,
) -> tuple[float, float, float]:
    """The rule's slope along a random direction, the difference's, and how far they may differ.

    The difference is taken in input `moved`, the same as the rule's by default.
    """
    node = tensor.node
    place = slot if moved is None else moved
    x = np.asarray(xs[place])
    ys = tensor.values
    cts = _cotangents(tensor, rng) if cts is None else cts
    several = len(ys) > 1
    ct, y = (tuple(cts), tuple(ys)) if several else (cts[0], ys[0])
    common = node.op.common
    shared = None if common is None else common(ct, y, *xs, **node.attrs)
    part = pulled_back(node, slot, ct, y, xs, shared, meeting(ys[0]))
    v = normal(*x.shape).make(rng) * sizes(x)
    above = _scalar(node, place, xs, x + _STEP * v, cts)
    below = _scalar(node, place, xs, x - _STEP * v, cts)
    analytic = float(np.sum(np.asarray(part) * v))
    terms = sum(float(np.sum(np.abs(c * np.asarray(one)))) for c, one in zip(cts, ys, strict=True))
    slack = 1e-4 * max(abs(analytic), float(np.sum(np.abs(np.asarray(part) * v))))
    return analytic, (above - below) / (2 * _STEP), slack + 64 * unit(np.float64) * terms / _STEP


def _scalar(node: Node, slot: int, xs: tuple[Any, ...], x: Array, cts: list[Any]) -> float:
    out = _value(node, slot, xs, x)
    outs = out if isinstance(out, tuple) else (out,)
    return float(sum(np.sum(c * one) for c, one in zip(cts, outs, strict=True)))


def _value(node: Node, slot: int, xs: tuple[Any, ...], x: Array) -> Any:
    moved = x.astype(aval_of(xs[slot]).dtype)[()]
    return node.op.ref(*xs[:slot], moved, *xs[slot + 1 :], **node.attrs)


def _name(node: Node) -> str:
    return f"{node.op.name} in {node.scope}" if node.scope else node.op.name


def _place(node: Node) -> str:
    source = node.source
    return "" if source is None else f"   {source}: {source.text}"
