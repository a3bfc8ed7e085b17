"""One element of a value, or a value on its way forward: what went into its number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core.registry import registered_ops
from anabranch.core.told import index_text, number_text
from anabranch.errors import ArgumentError, OutOfRangeError
from anabranch.inspection.build import Builder
from anabranch.inspection.parts import Edge, Evidence, Finding, Local, Node, Share, Summary, held
from anabranch.inspection.reading import listed
from anabranch.inspection.record import Record
from anabranch.inspection.trace import Trace, filled
from anabranch.inspection.zero import function_of

Index = Sequence[int]


class Elements:
    """The single numbers of a run: from its arrays, or from a trace that lists them."""

    def __init__(self, trace: Trace, record: Record | None = None) -> None:
        self.trace = trace
        self.record = record
        self._elementwise = {op.name for op in registered_ops() if op.elementwise}

    def is_elementwise(self, node: Node) -> bool:
        """Whether each element of a node comes of one element of every input."""
        if self.record is not None:
            entry = self.record.entries[node.id]
            return bool(entry.node.op.elementwise) and not entry.port
        return node.op in self._elementwise

    def value(self, node: int, index: Index, out: int = 0) -> Any:
        """An element of an output, None where there is no array that has it."""
        if self.record is not None:
            values = self.record.entries[node].values
            return None if values is None else _number(values[out], index)
        outputs = self.trace.nodes[node].outputs
        summary = outputs[out].value if outputs else self.trace.nodes[node].value
        return listed(summary, index)

    def grad(self, node: int, index: Index) -> Any:
        """An element of a gradient."""
        if self.record is not None:
            grads = self.record.entries[node].grads
            return _number(grads[0], index) if grads and grads[0] is not None else None
        return listed(self.trace.nodes[node].grad, index)

    def sent(self, edge: Edge, index: Index) -> Any:
        """An element of a contribution."""
        if self.record is not None:
            sent = self.record.entries[edge.to].sent.get(edge.slot)
            return None if sent is None else _number(sent, index)
        return listed(edge.contribution, index)

    def local(self, edge: Edge, index: Index) -> Any:
        """The local derivative of an elementwise op there."""
        if edge.local is None:
            return None
        if edge.local.v is not None:
            return edge.local.v
        if self.record is None:
            return listed(edge.local.value, index)
        partial = Builder(self.record, "full").partial(self.record.entries[edge.to], edge.slot)
        if partial is None:
            return None
        return _number(np.broadcast_to(partial, self.trace.nodes[edge.to].shape), index)


def _number(array: Any, index: Index) -> Any:
    found = np.asarray(array)[tuple(index)]
    return abs(found) if found.dtype.kind == "c" else found.item()


def index_of(trace: Trace, node: Node, index: Sequence[int]) -> list[int]:
    """The index as a list, if the node has such an element.

    Raises:
        OutOfRangeError: `[index-out-of-range]`.
    """
    shape, label = node.shape, trace.label(node.id)
    if len(index) == len(shape) and all(0 <= i < n for i, n in zip(index, shape, strict=True)):
        return list(index)
    if not shape:
        told = f"{label} is a single number, which has no index"
    elif 0 in shape:
        told = f"{label}, {node.type}, has no elements"
    else:
        first, last = index_text([0] * len(shape)), index_text([n - 1 for n in shape])
        told = f"{label} is {node.type}: {first} to {last}, and {list(index)} is none of them"
    raise OutOfRangeError("index-out-of-range", told)


def gradient_at(elements: Elements, node: Node, index: list[int]) -> Finding:
    """How the gradient of one element came about.

    Raises:
        ArgumentError: `[not-recorded]` where no array has it.
    """
    trace = elements.trace
    amount = elements.grad(node.id, index)
    if amount is None:
        raise _not_kept(trace, node, "the gradient")
    arrived = [edge for edge in trace.arrivals(node.id) if not edge.out]
    shares = [_share(elements, edge, node, index) for edge in arrived]
    place = trace.label(node.id) + index_text(index)
    found = Finding(
        kind="gradient", about=node.id, phase="backward", element=index, shares=shares,
        proof=[Evidence("gradient", v=amount)],
    )  # fmt: skip
    value = elements.value(node.id, index)
    if value is not None:
        found.proof = [Evidence("value", v=value), *(found.proof or ())]
    if not math.isfinite(amount):
        found.kind, found.text = "bad-gradient", _bad_share(trace, shares, place)
    elif amount == 0:
        found.kind, found.text = "zero-gradient", _zero_shares(trace, shares, place, index)
    else:
        found.text = f"the gradient of {place} arrived"
    return found


def _share(elements: Elements, edge: Edge, node: Node, index: list[int]) -> Share:
    """What one edge brought; as a product where each element has a factor of its own."""
    trace, reader = elements.trace, elements.trace.nodes[edge.to]
    sent = elements.sent(edge, index)
    if sent is None:
        raise _not_kept(trace, node, "what arrived")
    text = None if edge.local is None else edge.local.text
    share = Share(trace.number(edge), edge.to, local=Local(text=text), amount=Summary(v=sent))
    if elements.is_elementwise(reader) and reader.shape == node.shape:
        upstream, local = elements.grad(reader.id, index), elements.local(edge, index)
        if upstream is not None and local is not None:
            share.upstream, share.local = Summary(v=upstream), Local(v=local, text=text)
    return share


def _zero_shares(trace: Trace, shares: list[Share], place: str, index: list[int]) -> str:
    if not shares:
        return f"nothing was sent to {place}"
    if any(share.amount is not None and share.amount.v for share in shares):
        return f"the contributions to {place} cancel"
    said = []
    for share in shares:
        name = trace.label(share.through)
        if share.upstream is None or share.local is None:
            said.append(f"what comes through {name} is 0 there")
        elif share.upstream.v == 0:
            said.append(f"the gradient of {name}{index_text(index)} is 0 already")
        elif share.local.v == 0:
            what = function_of(trace, trace.nodes[share.through])
            said.append(f"{what} lets nothing through: the local"
                        " derivative there is 0")  # fmt: skip
        else:
            said.append(f"the product on the way through {name} is smaller than the dtype holds")
    return "; ".join(dict.fromkeys(said))


def _bad_share(trace: Trace, shares: list[Share], place: str) -> str:
    for share in shares:
        assert share.amount is not None
        if not math.isfinite(share.amount.v):
            name = trace.label(share.through)
            if share.upstream is None or share.local is None or share.local.v is None:
                return f"what comes through {name} is not finite"
            up, local = share.upstream.v, share.local.v
            what = f"{number_text(up)} × {number_text(local)}"
            if not math.isfinite(up):
                return f"the gradient of {name} is {number_text(up)} there already"
            return f"{what} on the way through {name} is {number_text(share.amount.v)}"
    return f"the contributions to {place} are finite, their sum is not"


def value_of(elements: Elements, node: Node, index: list[int] | None) -> Finding:
    """How a value, or one element of it, was computed.

    Raises:
        ArgumentError: `[not-recorded]` where the element, or any value, is not there.
    """
    trace = elements.trace
    if node.value is None:
        raise _not_kept(trace, node, "the value")
    found = Finding(kind="value", about=node.id, node=node.id, phase="forward", element=index)
    single = index is not None or not node.shape
    amount = elements.value(node.id, index or ()) if single else None
    if single and amount is None:
        raise _not_kept(trace, node, "the value")
    found.proof = _operands(elements, node, index)
    own = Evidence(trace.label(node.id) + index_text(index or ()), v=amount, node=node.id,
                   index=index, summary=None if single else node.value)  # fmt: skip
    found.proof.append(own)
    numbers = [one.v for one in found.proof[:-1]]
    if node.is_leaf:
        found.text = f"{own.label} was given, not computed"
    elif single and None not in numbers and node.formula:
        slots = {str(e.slot): one for e, one in zip(trace.inputs(node.id), numbers, strict=True)}
        done = filled(node.formula, {k: held(number_text(v)) for k, v in slots.items()})
        found.text = f"{own.label} = {trace.written(node)} = {done} = {number_text(amount)}"
    else:
        found.text = f"{own.label} = {trace.written(node) or node.op}"
    if amount is not None and not math.isfinite(amount):
        _tell_bad(found, amount, numbers)
    return found


def _operands(elements: Elements, node: Node, index: list[int] | None) -> list[Evidence]:
    """What went in: at the same place where elements go one by one, else as a whole."""
    trace, found = elements.trace, []
    for edge in trace.inputs(node.id):
        source = trace.nodes[edge.from_]
        output = source.outputs[edge.out or 0] if source.outputs else source
        one = Evidence(trace.label(source.id), node=source.id)
        at = None
        if index is not None and elements.is_elementwise(node):
            own = index[len(index) - len(output.shape) :]
            at = [0 if n == 1 else i for i, n in zip(own, output.shape, strict=True)]
        elif not output.shape:
            at = []
        if at is not None:
            one.v, one.index = elements.value(source.id, at, edge.out or 0), at or None
            one.label += index_text(at)
        if one.v is None:
            one.summary = output.value
        found.append(one)
    return found


def _tell_bad(found: Finding, amount: float, numbers: list[Any]) -> None:
    found.kind, found.index = "nan" if math.isnan(amount) else "inf", found.element
    found.cause = None if numbers else "data"
    if not numbers:
        found.text = f"it came in with {number_text(amount)}"
    elif None not in numbers and not all(map(math.isfinite, numbers)):
        found.text = (
            "it becomes NaN here"
            if found.kind == "nan" and not any(map(math.isnan, numbers))
            else "what went in was not finite, and it is passed on"
        )
    elif None not in numbers:
        found.text = "what went in is finite, so it is made here"


def _not_kept(trace: Trace, node: Node, what: str) -> ArgumentError:
    return ArgumentError(
        "not-recorded",
        f"there are no single elements of {what} of {trace.label(node.id)}, {node.type}",
        hint="a file lists those of up to 64 elements; a report on the program itself has all",
    )
