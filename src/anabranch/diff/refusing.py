"""Where a backward pass leaves the finite numbers, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from anabranch.core.bind import state
from anabranch.core.guard import bare
from anabranch.core.node import Edge, Node
from anabranch.core.nonfinite import is_finite
from anabranch.core.told import index_text, number_text, way_out
from anabranch.diff.region import Key, Step
from anabranch.diff.rules import partial_value
from anabranch.errors import NonFiniteError

Observer = Callable[[Node, int, Any], object]


class BadPart(NamedTuple):
    """A contribution that is not finite though what it was made of is.

    Attributes:
        kind: `"nan"` or `"inf"`.
        cause: `infinite-derivative`, `0*inf` or `overflow`.
        at: the index of the first bad element, of the node's output where `local` is known, else of
            the contribution.
        upstream, local, value: the numbers there; None where there is no such number.
        bad, of: how many elements of the contribution are bad.
    """

    kind: str
    cause: str
    at: tuple[int, ...]
    upstream: Any
    local: Any
    value: Any
    bad: int
    of: int


def bad_part(
    node: Node, slot: int, ct: Any, y: Any, xs: Sequence[Any], part: Any
) -> BadPart | None:
    """What is wrong with a contribution; None if it is finite, or was not finite on arrival."""
    arrived = ct if isinstance(ct, tuple) else (ct,)
    if is_finite(part) or not all(map(is_finite, arrived)):
        return None
    array = np.asarray(part)
    wrong = ~np.isfinite(array)
    bad, of = int(wrong.sum()), array.size
    if node.op.partials is not None:
        with np.errstate(all="ignore"), state.changed(door=None):
            local = np.asarray(partial_value(node.op.gradient(slot), y, tuple(xs), node))
            shape = np.broadcast_shapes(np.shape(ct), local.shape)
            upstream, local = np.broadcast_to(ct, shape), np.broadcast_to(local, shape)
            product = upstream * local
            met = ~np.isfinite(product) & ~((upstream == 0) & ~np.isfinite(local))
        if met.any():
            index = _first(met)
            at = upstream[index], local[index], product[index]
            cause = "overflow" if np.isfinite(at[1]) else "infinite-derivative"
            return BadPart(_kind(at[2]), cause, index, *at, bad, of)
    index = _first(wrong)
    cause = "0*inf" if np.isnan(array[index]) else "overflow"
    return BadPart(_kind(array[index]), cause, index, None, None, array[index], bad, of)


def _first(mask: Any) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(mask)), mask.shape))


def _kind(value: Any) -> str:
    return "nan" if np.isnan(value) else "inf"


def refusing(steps: Sequence[Step], cts: dict[Key, Any], observer: Observer | None) -> Observer:
    """An observer that stops the walk at the first contribution that leaves the finite numbers."""
    by_node = {step.node.id: step for step in steps}

    def look(node: Node, slot: int, part: Any) -> None:
        if not isinstance(part, Edge):
            step = by_node[node.id]
            if len(node.avals) == 1:
                ct, y = bare(cts[node.id]), bare(step.y)
            else:
                keys: list[Key] = [node.id, *((node.id, i) for i in range(1, len(node.avals)))]
                ct = tuple(bare(cts[key]) for key in keys if key in cts)
                y = tuple(map(bare, step.y))
            found = bad_part(node, slot, ct, y, [*map(bare, step.xs)], bare(part))
            if found is not None:
                raise _refused(node, slot, found)
        if observer is not None:
            observer(node, slot, part)

    return look


def _refused(node: Node, slot: int, found: BadPart) -> NonFiniteError:
    where = index_text(found.at)
    facts = [f"{found.bad} of {found.of} elements of what it sends to input {slot}"]
    if found.local is not None:
        product = f"{number_text(found.upstream)} × {number_text(found.local)}"
        first = f"first at {where}: " if where else ""
        facts.append(f"{first}upstream × local derivative = {product}")
    what = "its local derivative is infinite there"
    if found.cause == "overflow":
        what = "the product is larger than its dtype holds"
    elif found.cause == "0*inf":
        what = "infinities meet in its sums"
    return NonFiniteError(
        "non-finite",
        f"the backward pass left the finite numbers in {node.op.name}: {what}",
        facts=facts,
        hint=way_out(found.cause),
        source=node.source,
        op=node.op.name,
        cause=found.cause,
        index=found.at,
        operands=(found.upstream, found.local),
        phase="backward",
        node=node,
        slot=slot,
    )
