"""Why a gradient is exactly zero: the edge where what arrived became nothing, and what did it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from anabranch.core.operators import SYMBOLS
from anabranch.core.told import number_text
from anabranch.inspection.answers import answers
from anabranch.inspection.parts import Edge, Evidence, Finding, Node, Step, Summary
from anabranch.inspection.reading import grad_norm, is_zero, norm, size_of
from anabranch.inspection.trace import Trace

_PRODUCTS = ("*", "@")
_TINY = 1e-150  # products of two such numbers vanish


class Fault(NamedTuple):
    """Where a gradient became 0: an edge, or a node whose contributions cancel."""

    edge: Edge | None
    node: Node
    way: list[int]  # from the asked node up to the fault


def zero(trace: Trace, node: Node) -> Finding:
    """The finding about a node whose gradient is 0 in every element."""
    count = sum(size_of(one).n or 0 for one in node.grads)
    found = Finding(kind="zero-gradient", about=node.id, phase="backward", bad=count, of=count)
    faults = list(_faults(trace, node))
    if not faults:
        found.cause, found.node = "upstream-zero", trace.root
        found.text = f"the pass starts at {trace.nodes[trace.root].label} from a cotangent of 0"
        found.steps = _steps(trace, [node.id], None)
    else:
        fault = faults[0]
        found.node = fault.node.id
        if fault.edge is None:
            _tell_cancelled(trace, found, fault)
        else:
            _tell_edge(trace, found, fault.edge)
        found.steps = _steps(trace, fault.way, fault.edge)
        if len(faults) > 1:
            found.text = f"{found.text}; {len(faults) - 1} more such places lie on other ways"
    found.answers = answers(trace, node)
    return found


def _faults(trace: Trace, node: Node) -> Iterator[Fault]:
    """The places where it became 0, the nearest first."""
    ways: dict[int, list[int]] = {node.id: [node.id]}
    for number in ways_in_order(ways):
        came = trace.arrivals(number)
        if any(not is_zero(edge.contribution) for edge in came):
            yield Fault(None, trace.nodes[number], ways[number])
            continue
        for edge in came:
            reader = trace.nodes[edge.to]
            if not (reader.grads and all(map(is_zero, reader.grads))):
                yield Fault(edge, reader, ways[number])
            elif edge.to not in ways:
                ways[edge.to] = [*ways[number], edge.to]


def ways_in_order(ways: dict[int, list[int]]) -> Iterator[int]:
    """The keys of a dict that grows while they are read."""
    done = 0
    while done < len(ways):
        keys = list(ways)
        yield from keys[done:]
        done = len(keys)


def _tell_cancelled(trace: Trace, found: Finding, fault: Fault) -> None:
    found.cause = "cancelled"
    came = trace.arrivals(fault.node.id)
    sums = [_amount(edge.contribution) for edge in came]
    label = trace.label(fault.node.id)
    found.text = f"the contributions to {label} cancel: {' + '.join(sums)} = 0"
    found.proof = [
        Evidence(f"through {trace.label(e.to)}", summary=e.contribution, node=e.to) for e in came
    ]
    found.hint = f"nothing is wrong if {label} really has no influence here"


def _amount(part: Summary | None) -> str:
    if part is None:
        return "nothing"
    if part.v is not None and not isinstance(part.v, list):
        text = number_text(part.v)
        return f"({text})" if text.startswith("-") else text
    return f"a part of norm {number_text(norm(part))}"


def _tell_edge(trace: Trace, found: Finding, edge: Edge) -> None:
    reader, source = trace.nodes[edge.to], trace.nodes[edge.from_]
    found.edge = trace.number(edge)
    what = function_of(trace, reader)
    line = trace.line(reader)
    place = f" at {line[0]}:{line[1]}" if line else ""
    factor = _zero_factor(trace, edge)
    if factor is not None:
        found.cause = "multiplied-by-zero"
        found.text = f"multiplied by zero at {trace.label(reader.id)}{place}: {factor} is 0"
        found.hint = f"right if {factor} should be 0; else look at where it comes from"
    elif _underflows(trace, edge):
        found.cause = "underflow"
        found.text = (
            f"what {what}{place} sends back is smaller than {source.dtype} can hold, and became 0"
        )
        found.hint = "larger weights, a loss in logarithms, or a wider dtype"
    else:
        found.cause = "local-zero"
        found.text = f"{what}{place} lets nothing through{_how_flat(edge)}"
    found.proof = [
        Evidence(f"upstream at {trace.label(reader.id)}", summary=reader.grad, node=reader.id)
    ]
    if edge.local is not None and (edge.local.value or edge.local.v is not None):
        found.proof.append(Evidence("local derivative", v=edge.local.v, summary=edge.local.value))
    for operand in deciding(trace, edge):
        if operand.value is not None:
            found.proof.append(Evidence(operand.label, summary=operand.value, node=operand.id))
            if found.cause == "local-zero":
                found.text = f"{found.text}; {_range(operand)}"
                found.hint = f"bring {operand.label} to where {what} is not flat"


def _how_flat(edge: Edge) -> str:
    local = edge.local
    if local is None or (local.v is None and local.value is None):
        return ""
    if local.v == 0:
        return ": its local derivative is 0"
    size = size_of(local.value)
    if size.zero == size.n:
        return f": its local derivative is 0 in all {size.n} elements"
    return f": its local derivative is 0 wherever the upstream is not ({size.zero} of {size.n})"


def _range(operand: Node) -> str:
    size = size_of(operand.value)
    if size.min is None or size.max is None:
        return f"{operand.label} has no finite element"
    low, high = number_text(size.min), number_text(size.max)
    if size.n == 1:
        return f"{operand.label} is {low}"
    if size.max < 0:
        return f"all {size.n} elements of {operand.label} are below 0 (largest {high})"
    if size.min > 0:
        return f"all {size.n} elements of {operand.label} are above 0 (smallest {low})"
    return f"{operand.label} runs from {low} to {high}"


def _zero_factor(trace: Trace, edge: Edge) -> str | None:
    """What a product multiplies by, if that is 0."""
    reader = trace.nodes[edge.to]
    if SYMBOLS.get(reader.op) not in _PRODUCTS:
        return None
    others = [e for e in trace.inputs(edge.to) if e.slot != edge.slot]
    if not others:
        return "the other factor" if edge.local is not None and edge.local.v == 0 else None
    other = trace.nodes[others[0].from_]
    return other.label if is_zero(other.value) else None


def _underflows(trace: Trace, edge: Edge) -> bool:
    """Whether numbers that are not 0 met in a product that is."""
    upstream, local = trace.nodes[edge.to].grad, edge.local
    if upstream is None or local is None:
        return False
    if local.v is not None:
        return local.v != 0
    if local.value is None:
        others = [trace.nodes[e.from_] for e in trace.inputs(edge.to) if e.slot != edge.slot]
        return _top(upstream) * min((_top(one.value) for one in others), default=1.0) < _TINY**2
    ups, slopes = upstream.flat(), local.value.flat()
    if ups is not None and slopes is not None and len(ups) == len(slopes):
        return any(a != 0 and b != 0 for a, b in zip(ups, slopes, strict=True))
    return not size_of(upstream).zero and not local.value.zero


def _top(found: Summary | None) -> float:
    size = size_of(found)
    return max(abs(size.min or 0), abs(size.max or 0))


def deciding(trace: Trace, edge: Edge) -> list[Node]:
    """The values that decide what an op lets through: behind a mask, what was compared."""
    inputs = [trace.nodes[e.from_] for e in trace.inputs(edge.to)]
    masks = [one for one in inputs if one.dtype == "bool"]
    behind = [trace.nodes[e.from_] for mask in masks for e in trace.inputs(mask.id)]
    return list({one.id: one for one in behind or inputs}.values())


def function_of(trace: Trace, node: Node) -> str:
    """The composed function that a node belongs to, or its op."""
    scope = trace.scopes[node.scope or 0]
    return scope.name if scope.kind == "function" else node.op


def _steps(trace: Trace, way: list[int], fault: Edge | None) -> list[Step]:
    """From the root to the asked node, with the norms of their gradients."""
    above: list[int] = []
    here = fault.to if fault is not None else way[-1]
    while True:
        if fault is not None or above:
            above.append(here)
        came = [e for e in trace.arrivals(here) if e.contribution is not None]
        if here == trace.root or not came:
            break
        if not above:
            above.append(here)
        here = max(came, key=lambda e: norm(e.contribution or Summary(n=0))).to
    numbers = list(dict.fromkeys([*reversed(above), *reversed(way)]))
    fault_at = None if fault is None else fault.from_
    found = []
    for number in numbers:
        step = Step(number, grad_norm(trace.nodes[number]))
        step.at_fault = True if number == fault_at else None
        found.append(step)
    return found
