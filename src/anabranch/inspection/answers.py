"""Three questions to ask of a gradient that should not be what it is, answered with evidence."""

from __future__ import annotations

import math

from anabranch.core.told import number_text
from anabranch.inspection.parts import Answer, Edge, Node, Summary
from anabranch.inspection.trace import Trace

ADDED = "was every contribution added, and none overwritten"
IN_ORDER = "did every reader of it take its turn in the backward pass"
OWN_INPUT = "did each rule write to its own input"


def answers(trace: Trace, node: Node) -> list[Answer]:
    """Yes or no to the three questions, for a node that got a gradient."""
    return [_added(trace, node), _in_order(trace, node), _own_input(trace, node)]


def _added(trace: Trace, node: Node) -> Answer:
    out = next((k for k, port in enumerate(node.ports) if port.grad is not None), 0)
    came = trace.arrivals(node.id, out)  # of several outputs the first that got something
    parts = [_numbers(edge.contribution) for edge in came]
    total = _numbers(node.ports[out].grad)
    if node.id == trace.root:
        parts = [_numbers(trace.seed), *parts]
    if total is None or not parts or any(one is None for one in parts):
        return Answer(ADDED, bool(came), f"{len(came)} contributions arrived and were added")
    sums = [math.nan] * len(total)
    for turn, part in enumerate(parts):
        for i, one in enumerate(part or ()):
            sums[i] = one if turn == 0 else sums[i] + one
    same = all(a == b or (a != a and b != b) for a, b in zip(sums, total, strict=True))  # noqa: PLR0124
    if len(total) > 1:
        return Answer(ADDED, same, f"the sum of {len(parts)} contributions, element by element")
    written = " + ".join(number_text(part[0]) for part in parts if part)
    return Answer(ADDED, same, f"{written} = {number_text(total[0])}")


def _in_order(trace: Trace, node: Node) -> Answer:
    turns = {number: i + 1 for i, number in enumerate(trace.order.backward)}
    wanted = [edge.to for edge in trace.readers(node.id) if trace.nodes[edge.to].grads]
    readers = list(dict.fromkeys(wanted))
    missing = [trace.nodes[i].label for i in readers if i not in turns]
    if missing:
        return Answer(IN_ORDER, False, f"{', '.join(missing)} took no turn")
    told = [f"{trace.nodes[i].label} as number {turns[i]}" for i in readers[:3]]
    more = f" and {len(readers) - 3} more" if len(readers) > 3 else ""
    return Answer(
        IN_ORDER, True, f"{', '.join(told)}{more} of {len(turns)}" if told else "no reader"
    )


def _own_input(trace: Trace, node: Node) -> Answer:
    judged = [(edge, _fits(trace, edge)) for edge in trace.arrivals(node.id)]
    wrong = [edge for edge, fits in judged if fits is False]
    if wrong:
        edge = wrong[0]
        place = f"{node.label} → {trace.nodes[edge.to].label} #{edge.slot}"
        return Answer(
            OWN_INPUT, False, f"upstream times local derivative is not what came at {place}"
        )
    sure = sum(fits is True for _, fits in judged)
    return Answer(
        OWN_INPUT,
        True,
        f"on {sure} of {len(judged)} edges upstream times local derivative is what came"
        + ("" if sure == len(judged) else "; on the others there is no such number"),
    )


def _fits(trace: Trace, edge: Edge) -> bool | None:
    """Whether a contribution is upstream times local derivative; None where nobody can tell."""
    upstream, came = _numbers(trace.upstream(edge)), _numbers(edge.contribution)
    local = edge.local
    if upstream is None or came is None or local is None or local.summed or edge.absorbed:
        return None
    slopes = [float(local.v)] * len(upstream) if local.v is not None else _numbers(local.value)
    if slopes is None or not len(slopes) == len(upstream) == len(came):
        return None
    return all(
        math.isclose(a * b, c, rel_tol=1e-5, abs_tol=1e-300) or not math.isfinite(a * b)
        for a, b, c in zip(upstream, slopes, came, strict=True)
    )


def _numbers(found: Summary | None) -> list[float] | None:
    flat = None if found is None else found.flat()
    return None if flat is None else [float(one) for one in flat]
