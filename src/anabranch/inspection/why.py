"""Why a value has the gradient that it has: shares, paths, zero, none, not finite.

Everything is read from a trace, so a loaded one gives the same answers as a live one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from anabranch.core.told import index_text
from anabranch.inspection.drift import drifts
from anabranch.inspection.parts import Edge, Evidence, Finding, Node, Path, Share
from anabranch.inspection.reading import first_bad, is_finite, is_zero, listed, size_of
from anabranch.inspection.trace import Trace
from anabranch.inspection.zero import zero

MOST_PATHS = 6
MOST_EXPLAINED = 200  # inputs without a gradient that are explained unasked


def why(
    trace: Trace, node: Node, most_paths: int = MOST_PATHS, phase: str | None = None
) -> Finding:
    """How this node's gradient came about, or why it is zero, missing or not finite.

    Looks forward first: a gradient that is not finite because a value was not has the value's
    reason. With `phase="backward"` the node's own value is left aside.
    """
    if phase != "backward" and not _is_finite_value(node):
        found = _carried(trace, node.id)
        if found is not None:
            return found
    if not node.grads:
        return missing(trace, node)
    if not all(map(is_finite, node.grads)):
        return _not_finite(trace, node)
    if all(map(is_zero, node.grads)):
        found = zero(trace, node)
        found.shares = shares(trace, node)
        return found
    found = Finding(kind="gradient", about=node.id)
    _came_about(trace, node, found, most_paths)
    arms = [trace.label(share.through) for share in found.shares or ()]
    through = f" through {_and(list(dict.fromkeys(arms)))}" if arms else ""
    found.text = (
        f"{node.label} is where the backward pass starts"
        if node.id == trace.root and not arms
        else f"the gradient of {node.label} arrived{through}"
    )
    return found


def first_trouble(trace: Trace, phase: str | None = None) -> tuple[Finding, list[Finding]]:
    """The finding to look at first, of one phase if that is asked, and the others."""
    found = [one for one in trace.findings if phase in (None, one.phase)]
    if phase == "backward" and not any(one.kind in ("first-nan", "first-inf") for one in found):
        found = [*first_bad_contribution(trace), *found]
    first = _to_look_at(trace, found, phase)
    return first, [one for one in found if one is not first]


def _to_look_at(trace: Trace, found: list[Finding], phase: str | None) -> Finding:
    """What reaches the result comes first, then what explains the others."""
    for one in found:
        if one.reaches_root:
            return one
    others = [one for one in found if one.reaches_root is None]
    if others:
        shown = {fact.node for fact in others[0].proof or ()}
        behind = (one for one in found if {one.node, *(one.reaches or ())} & shown)
        return next((one for one in behind if one.reaches_root is False), others[0])
    if found:
        return found[0]
    root = trace.nodes[trace.root]
    what = {"forward": "value", "backward": "gradient"}.get(phase or "", "value and gradient")
    kind = "value" if phase == "forward" else "gradient"
    return Finding(kind=kind, about=root.id, phase=phase, text=f"every {what} is finite")


def first_bad_contribution(trace: Trace) -> list[Finding]:
    """Where the backward pass left the finite numbers, if it was values that led it there."""
    cause = next((one for one in trace.findings if one.kind in ("first-nan", "first-inf")), None)
    if cause is None:
        return []
    bad = [node.id for node in trace.nodes if node.grad is not None and not is_finite(node.grad)]
    for number in trace.order.backward:
        for edge in trace.inputs(number):
            sent = edge.contribution
            if sent is None or is_finite(sent):
                continue
            size, index = size_of(sent), first_bad(sent)
            return [
                Finding(
                    kind="first-nan" if size.nan else "first-inf",
                    about=edge.from_, node=number, phase="backward", cause=cause.cause,
                    edge=trace.number(edge), index=index, reaches=bad, reaches_root=True,
                    bad=(size.nan or 0) + (size.inf or 0), of=size.n, hint=cause.hint,
                    text=f"values were not finite before: {cause.text}",
                    proof=_led_there(trace, edge, index),
                )
            ]  # fmt: skip
    return []


def gradient_findings(trace: Trace) -> list[Finding]:
    """What is wrong with the gradients of the inputs, one finding each, and what drifts."""
    if not trace.order.backward:
        return []
    found = drifts(trace) if not any(one.reaches_root for one in trace.findings) else []
    vanishing = next((one for one in found if one.kind == "vanishing"), None)
    zeros = []
    for node in trace.nodes:
        if node.op == "input" and node.requires_grad:
            if node.grad is None:
                found.append(missing(trace, node))
            elif is_zero(node.grad):
                zeros.append(node)
    if vanishing is not None:
        vanishing.reaches = [node.id for node in zeros] or None
        return found
    return [*found, *_grouped(trace, zeros)]


def _grouped(trace: Trace, zeros: Sequence[Node]) -> list[Finding]:
    """A finding for each place where gradients become zero, with the inputs that suffer."""
    groups: dict[tuple[object, ...], Finding] = {}
    for node in zeros[:MOST_EXPLAINED]:
        found = why(trace, node)
        first = groups.setdefault((found.cause, found.node), found)
        if first is not found:
            first.reaches = [*(first.reaches or ()), node.id]
    return list(groups.values())


def _led_there(trace: Trace, edge: Edge, index: list[int] | None) -> list[Evidence]:
    """The operand, what arrived, and the local derivative there, as far as they are listed."""
    source, reader = trace.nodes[edge.from_], trace.nodes[edge.to]
    where = index_text(index or ())
    same = index is not None and source.shape == reader.shape
    local = None if edge.local is None else edge.local.value
    found = [Evidence(trace.label(source.id) + where, v=listed(source.value, index or ()))]
    if same and listed(local, index or ()) is not None:
        arrived = listed(reader.grad, index or ())
        found.append(Evidence(f"upstream at {trace.label(reader.id)}{where}", v=arrived))
        found.append(Evidence("local derivative there", v=listed(local, index or ())))
    return [one for one in found if one.v is not None]


def _and(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else "".join(names)


def _is_finite_value(node: Node) -> bool:
    return node.value is None or is_finite(node.value)


# Not finite


def _carried(trace: Trace, number: int) -> Finding | None:
    """The finding whose producer is this node or reaches it."""
    for found in trace.findings:
        concerned = found.node == number or number in (found.reaches or ())
        if concerned and found.edge is None:
            return replace(found, about=number)
    return None


def _not_finite(trace: Trace, node: Node) -> Finding:
    for found in trace.findings:
        is_bad = found.cause and found.kind in ("first-nan", "first-inf")
        if is_bad and (found.phase == "forward" or node.id in (found.reaches or ())):
            text = f"the gradient of {node.label} is not finite: {found.text}"
            return replace(found, about=node.id, kind="bad-gradient", text=text)
    return Finding(
        kind="bad-gradient",
        about=node.id,
        cause="unknown",
        phase="backward",
        text=f"the gradient of {node.label} is not finite",
    )


# None


def missing(trace: Trace, node: Node) -> Finding:
    """Why no gradient arrived."""
    found = Finding(kind="no-gradient", about=node.id, phase="backward")
    if trace.detail == "shape" or not trace.order.backward:
        found.cause = "not-reached"
        found.text = (
            "the trace was made without gradients"
            if trace.detail == "shape"
            else "backward has not run"
        )
        return found
    if not node.requires_grad and node.is_leaf:
        found.cause, found.node = "stopped", node.id
        found.text = f"{node.label} {_asks_for_none(node)}"
        found.hint = f"ab.tensor(..., requires_grad=True) asks for one at {node.label}"
        return found
    if not trace.readers(node.id):
        found.kind, found.cause = "unused-parameter", "not-reached"
        found.text = f"nothing reads {node.label}"
        return found
    stop = _stop(trace, node)
    if stop is None:
        found.cause = "not-reached"
        found.text = (
            f"{trace.nodes[trace.root].label} does not depend on {node.label}: no path leads there"
        )
        found.reaches = _downstream(trace, node.id)
        return found
    edge, place = stop
    reader = trace.nodes[edge.to]
    found.cause, found.node, found.edge = "stopped", reader.id, place
    found.text = f"the path from {node.label} to the root ends at {_what_stops(reader)}"
    return found


def _asks_for_none(node: Node) -> str:
    if not node.dtype.startswith(("float", "bfloat", "complex")):
        return f"is {node.dtype}: only floats have gradients"
    return "is a constant: no gradient is asked for there"


def _what_stops(node: Node) -> str:
    if node.op == "stop_gradient":
        return f"{node.label}, which is stop_gradient"
    if not node.dtype.startswith(("float", "bfloat")):
        return f"{node.label} ({node.op}), whose result is {node.dtype}: only floats have gradients"
    return f"{node.label} ({node.op}), which has no derivative by this input"


def _stop(trace: Trace, node: Node) -> tuple[Edge, int] | None:
    """The nearest edge on a way to the root over which no derivative passes."""
    above = _upstream_of_root(trace)
    seen, pending = {node.id}, [node.id]
    for number in pending:  # the list grows while it is read
        for edge in trace.readers(number):
            if edge.to not in above:
                continue
            if edge.local is None or not trace.nodes[edge.to].requires_grad:
                return edge, trace.number(edge)
            if edge.to not in seen:
                seen.add(edge.to)
                pending.append(edge.to)
    return None


def _upstream_of_root(trace: Trace) -> set[int]:
    seen, pending = {trace.root}, [trace.root]
    while pending:
        for edge in trace.inputs(pending.pop()):
            if edge.from_ not in seen:
                seen.add(edge.from_)
                pending.append(edge.from_)
    return seen


def _downstream(trace: Trace, number: int) -> list[int]:
    seen, pending = {number}, [number]
    while pending:
        for edge in trace.readers(pending.pop()):
            if edge.to not in seen:
                seen.add(edge.to)
                pending.append(edge.to)
    return sorted(seen - {number})


# How a gradient came about


def _came_about(trace: Trace, node: Node, found: Finding, most: int) -> None:
    found.shares = shares(trace, node)
    found.paths, count = paths(trace, node.id, most)
    found.more_paths = count - len(found.paths) or None
    zeros = size_of(node.grad).zero
    if zeros:
        found.bad, found.of = zeros, size_of(node.grad).n


def shares(trace: Trace, node: Node) -> list[Share]:
    """The contributions to a node in the order of arrival."""
    return [
        Share(
            edge=trace.number(edge),
            through=edge.to,
            out=edge.out,
            upstream=trace.upstream(edge),
            local=edge.local,
            amount=edge.contribution,
        )
        for edge in trace.arrivals(node.id)
    ]


def paths(trace: Trace, start: int, most: int = MOST_PATHS) -> tuple[list[Path], int]:
    """Up to `most` ways from a node to the root that carry a gradient, and how many there are.

    Parallel edges between two nodes are one step with several factors.
    """
    ways = _ways(trace, start)
    count = ways.get(start, 0)
    if start == trace.root or not count:
        return [], 0
    found: list[Path] = []
    pending: list[list[int]] = [[start]]
    while pending and len(found) < most:
        path = pending.pop()
        if path[-1] == trace.root:
            found.append(_path(trace, path))
            continue
        readers = [e.to for e in trace.arrivals(path[-1])]
        steps = dict.fromkeys(reader for reader in readers if ways.get(reader))
        pending += [[*path, step] for step in reversed(steps)]
    return found, count


def _ways(trace: Trace, start: int) -> dict[int, int]:
    """For each node from the start on, how many ways lead from it to the root."""
    ways = {trace.root: 1}
    for number in range(trace.root - 1, start - 1, -1):
        readers = {e.to for e in trace.readers(number) if e.contribution is not None}
        total = sum(ways.get(reader, 0) for reader in readers)
        if total:
            ways[number] = total
    return ways


def _path(trace: Trace, nodes: list[int]) -> Path:
    factors: list[list[float]] | None = []
    product, edges = 1.0, 1
    for here, there in pairwise(nodes):
        parallel = [e for e in trace.readers(here) if e.to == there and e.contribution is not None]
        edges *= len(parallel)
        numbers = [e.local.v for e in parallel if e.local is not None and e.local.v is not None]
        ends = (trace.nodes[here], trace.nodes[there])
        shaped = any(node.shape or node.outputs for node in ends)
        if factors is None or len(numbers) < len(parallel) or shaped:
            factors = None
            continue
        factors.append(numbers)
        product *= sum(numbers)
    return Path(nodes, factors, product if factors is not None else None, edges)
