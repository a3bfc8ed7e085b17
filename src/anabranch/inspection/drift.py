"""Values and gradients that grow or shrink step by step, until they leave what numbers can hold."""

from __future__ import annotations

import math
from itertools import pairwise

from anabranch.core.told import number_text
from anabranch.inspection.parts import Evidence, Finding, Node, Summary
from anabranch.inspection.reading import grad_norm, is_zero, norm, size_of
from anabranch.inspection.trace import Trace

STEPS = 8  # so many steps make a drift
HUGE = 1e12
SMALL = 1e-12  # against the largest on the way
FADING = 1e-6  # from here on a value counts as fading
_HINT = (
    "weights with a standard deviation of 1 / sqrt(width) keep the size of what passes through;"
    " shorter ways, or a normalisation between the layers"
)
Sizes = list[tuple[int, float]]  # a node and its largest magnitude, from the first to the last


def drifts(trace: Trace) -> list[Finding]:
    """What fades or swells along the program: values first, then gradients."""
    if trace.detail == "shape":
        return []
    found = _values(trace)
    return found or _gradients(trace)


def _values(trace: Trace) -> list[Finding]:
    vanished = next((n for n in trace.nodes if _vanished(trace, n)), None)
    if vanished is not None:
        return [_faded(trace, vanished)]
    sizes = _chain(trace, trace.nodes[trace.root])
    if len(sizes) > STEPS and sizes[-1][1] > HUGE and _is_steady(sizes, rising=True):
        return [_swollen(trace, sizes)]
    return []


def _vanished(trace: Trace, node: Node) -> bool:
    """Whether a computed value is exactly 0 only because it was too small."""
    if node.is_leaf or not node.requires_grad or not node.shape or not is_zero(node.value):
        return False
    ways = [trace.nodes[e.from_] for e in trace.inputs(node.id)]
    tops = [_top(one.value) for one in ways if not one.is_leaf]
    return any(0 < top < math.sqrt(_smallest(node.dtype)) for top in tops)


def _smallest(dtype: str) -> float:
    return {"float16": 6e-8, "float32": 1e-45, "bfloat16": 1e-40}.get(dtype, 5e-324)


def _top(found: Summary | None) -> float:
    """The largest magnitude of the finite elements."""
    size = size_of(found)
    return max(abs(size.min or 0.0), abs(size.max or 0.0))


def _chain(trace: Trace, node: Node) -> Sizes:
    """The way to a node along its largest computed inputs, with largest magnitudes."""
    found: Sizes = []
    here = node
    while not here.is_leaf:
        found.append((here.id, _top(here.value)))
        ways = [trace.nodes[e.from_] for e in trace.inputs(here.id)]
        inner = [one for one in ways if not one.is_leaf]
        if not inner:
            break
        here = max(inner, key=lambda one: (_top(one.value), one.id))
    return found[::-1]


def _is_steady(sizes: Sizes, rising: bool) -> bool:
    """Whether nearly every step goes the same way."""
    tops = [top for _, top in sizes if top > 0]
    same = sum((b >= a) == rising for a, b in pairwise(tops))
    return same >= 0.8 * (len(tops) - 1)


def _factor(sizes: Sizes) -> float:
    tops = [top for _, top in sizes if top > 0]
    return float((tops[-1] / tops[0]) ** (1 / max(len(tops) - 1, 1))) if tops else 0.0


def _faded(trace: Trace, node: Node) -> Finding:
    sizes = _chain(trace, node)
    first = next((one for one in sizes if one[1] < FADING), sizes[0])
    factor = _factor(sizes)
    return Finding(
        kind="vanishing",
        about=node.id,
        node=node.id,
        phase="forward",
        cause="shrinking",
        text=(
            f"the values vanish: {trace.label(node.id)} is exactly 0, and each of the"
            f" {len(sizes) - 1} steps before it left {number_text(factor)} of what came in"
        ),
        hint=_HINT,
        proof=[
            _evidence(trace, f"first below {number_text(FADING)}", first),
            _evidence(trace, "exactly 0 from here", (node.id, 0.0)),
            Evidence("left by each step", v=factor),
        ],
    )


def _swollen(trace: Trace, sizes: Sizes) -> Finding:
    first = next(one for one in sizes if one[1] > 1 / FADING)
    factor = _factor(sizes)
    return Finding(
        kind="exploding",
        about=sizes[-1][0],
        node=first[0],
        phase="forward",
        cause="growth",
        text=(
            f"the values grow {number_text(factor)} times a step over {len(sizes)} steps,"
            f" to {number_text(sizes[-1][1])}"
        ),
        hint=_HINT,
        proof=[_evidence(trace, f"first above {number_text(1 / FADING)}", first)],
    )


def _evidence(trace: Trace, label: str, one: tuple[int, float]) -> Evidence:
    return Evidence(f"{label}: {trace.label(one[0])}", v=one[1], node=one[0])


def _gradients(trace: Trace) -> list[Finding]:
    """A gradient that fades or swells on its way from the root to an input."""
    for node in trace.nodes:
        if not node.is_leaf or node.grad is None or is_zero(node.grad):
            continue
        sizes = _way_back(trace, node)
        tops = [top for _, top in sizes]
        if len(sizes) <= STEPS or not all(tops):
            continue
        ratio = tops[-1] / max(tops)
        if ratio < SMALL and _is_steady(sizes, rising=False):
            return [_drifting(trace, node, sizes, "vanishing")]
        if tops[-1] > HUGE * min(tops) and _is_steady(sizes, rising=True):
            return [_drifting(trace, node, sizes, "exploding")]
    return []


def _way_back(trace: Trace, node: Node) -> Sizes:
    """From the root to an input along the largest contributions, with norms of gradients."""
    found: Sizes = []
    here = node
    while (size := grad_norm(here)) is not None:
        found.append((here.id, size))
        came = trace.arrivals(here.id)
        if not came:
            break
        largest = max(came, key=lambda e: norm(e.contribution or Summary(n=0)))
        here = trace.nodes[largest.to]
    return found[::-1]


def _drifting(trace: Trace, node: Node, sizes: Sizes, kind: str) -> Finding:
    factor = _factor(sizes)
    does = "fades to" if kind == "vanishing" else "grows to"
    return Finding(
        kind=kind,
        about=node.id,
        node=node.id,
        phase="backward",
        cause="shrinking" if kind == "vanishing" else "growth",
        text=(
            f"the gradient {does} {number_text(sizes[-1][1])} at {trace.label(node.id)}:"
            f" {number_text(factor)} times a step over {len(sizes) - 1} steps"
        ),
        hint=_HINT,
        proof=[
            _evidence(trace, "gradient at the start", sizes[0]),
            _evidence(trace, "gradient at the end", sizes[-1]),
        ],
    )
