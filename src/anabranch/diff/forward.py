"""Forward mode: tangents pushed from earlier nodes to later ones, by the same records.

An op says how in one of four ways: its partials, `linear` (then the op itself carries the tangent),
a `jvp` rule, or nothing, and then its vjp rule is transposed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.core.aval import aval_of
from anabranch.core.bind import bind, state
from anabranch.core.graph import Graph
from anabranch.core.node import Edge, Literal, Node
from anabranch.core.op import NoGradient, Unsupported
from anabranch.core.replay import replay
from anabranch.diff.refusing import Observer
from anabranch.diff.region import Key, Step, ancestors, dependents, key_of, node_steps
from anabranch.diff.reverse import reverse, zeros_like
from anabranch.diff.rules import fitted, meeting, missing_rule, partial_value, scaled


def forward(
    steps: Sequence[Step], ts: dict[Key, Any], observer: Observer | None = None
) -> dict[Key, Any]:
    """Walk the steps forward from the tangents in `ts`, which is filled and returned.

    A key that is missing at the end is a structural zero.
    """
    before = state.origin
    try:
        for node, y, xs in steps:
            several = len(node.avals) > 1
            ys = y if several else (y,)
            total: list[Any] = [None] * len(ys)
            for slot, edge in enumerate(node.inputs):
                t = None if isinstance(edge, Literal) else ts.get(key_of(edge))
                if t is None:
                    continue
                state.origin = (node, slot)
                part = pushed_forward(node, slot, t, y, xs)
                if part is None:
                    continue
                if observer is not None:
                    observer(node, slot, part)
                for index, one in enumerate(part if several else (part,)):
                    arrived = total[index]
                    total[index] = one if arrived is None else arrived + one
            for output, t, value in zip(node.outputs, total, ys, strict=True):
                if t is not None and output.aval.is_floating:
                    ts[key_of(output)] = fitted(t, value)
    finally:
        state.origin = before
    return ts


def pushed_forward(node: Node, slot: int, t: Any, y: Any, xs: tuple[Any, ...]) -> Any:
    """The part of the output's tangent that comes through input `slot`; None for no path."""
    op, attrs = node.op, node.attrs
    rule = op.gradient(slot)
    if isinstance(rule, NoGradient):
        return None
    if slot in op.linear:
        return bind(op, *xs[:slot], t, *xs[slot + 1 :], **attrs)
    given = op.tangent(slot)
    if given is not None and not isinstance(given, NoGradient | Unsupported):
        return given(t, y, *xs, **attrs)
    if isinstance(rule, Unsupported):
        raise missing_rule(node, slot, rule)
    if op.partials is not None:
        return scaled(t, partial_value(rule, y, xs, node), op.selects, meeting(y))
    return _transposed(node, slot, t, y, xs)


def _transposed(node: Node, slot: int, t: Any, y: Any, xs: tuple[Any, ...]) -> Any:
    """The tangent rule that follows from the vjp rule, which is linear in its cotangent.

    With v(ct) the rule, the output's tangent is the cotangent of ct when t is the cotangent of v.
    The rule is laid out as a small graph, differentiated there, and run on the values at hand.
    """
    several = len(node.avals) > 1
    ys = y if several else (y,)
    with state.changed(trace=None, origin=None):
        graph = Graph(f"{node.op.name} transposed")

        def parameters(values: Sequence[Any], name: str) -> list[Any]:
            avals = map(aval_of, values)
            return [graph.parameter(f"{name}{i}", a.shape, a.dtype) for i, a in enumerate(avals)]

        cts = parameters(ys, "ct")
        outputs, inputs = parameters(ys, "y"), parameters(xs, "x")
        (seed,) = parameters((t,), "t")
        ct, out = (tuple(cts), tuple(outputs)) if several else (cts[0], outputs[0])
        extra = (
            {}
            if node.op.common is None
            else {"common": node.op.common(ct, out, *inputs, **node.attrs)}
        )
        rule = node.op.gradient(slot)
        v = rule(ct, out, *inputs, **extra, **node.attrs)
        v = v if isinstance(v, Edge) else graph.constant(v)  # a cotangent that is constant
        region = ancestors([v])
        within = dependents(region.values(), cts)
        arrived = reverse(node_steps(region.values(), within), {key_of(v): seed}, within)
        found = [arrived.get(key_of(ct)) for ct in cts]
        graph.set_outputs(
            [
                graph.constant(zeros_like(c)) if one is None else one
                for one, c in zip(found, cts, strict=True)
            ]
        )
    found = replay(graph, [*map(zeros_like, ys), *ys, *xs, t])
    return tuple(found) if several else found[0]
