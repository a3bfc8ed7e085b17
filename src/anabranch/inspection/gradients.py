"""The gradients of a trace's parameters: one row each, or one for each scope."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from anabranch.errors import ArgumentError
from anabranch.inspection.parts import Finding, Node, Summary
from anabranch.inspection.printed import Printed
from anabranch.inspection.query import scope_path, shape_text, size
from anabranch.inspection.table import gradient_state
from anabranch.inspection.trace import Trace


@dataclass
class GradientRow:
    """A parameter, or a scope with all of its parameters.

    Attributes:
        name, shape: of a parameter; a scope has no shape.
        parameters, elements: how many it holds.
        value, grad: norms of the finite elements; `grad` is None where nothing arrived.
        zero: elements whose gradient is exactly 0; None where it is not known.
        bad: elements whose gradient is NaN or infinite.
        ratio: norm of the gradient over that of the value; None where the value is 0.
        gradient: `"arrived"`, `"none"` or `"waiting"`.
        line: where it was written.
        steps: norms of the gradient in the last recorded passes, oldest first; None without any.
    """

    name: str
    shape: str | None
    parameters: int
    elements: int
    gradient: str
    value: float | None = None
    grad: float | None = None
    zero: int | None = None
    bad: int = 0
    ratio: float | None = None
    line: str | None = None
    steps: list[float] | None = None


@dataclass
class Trouble:
    """What is wrong with a gradient: of which value, in a sentence, and a way out."""

    name: str
    kind: str
    text: str
    hint: str | None = None


@dataclass
class Gradients(Printed):
    """The gradients of all parameters.

    Attributes:
        title: of the trace.
        by: `"parameter"` or `"scope"`.
        rows: in forward order, or as asked.
        root, loss: the label of the differentiated value, and the value.
        findings: what is wrong with gradients, as the trace says it.
    """

    view: ClassVar[str] = "gradients"
    title: str
    by: str
    rows: list[GradientRow]
    root: str
    loss: Summary | None
    findings: list[Trouble]

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


_ORDERS: dict[str, Callable[[GradientRow], float]] = {
    "grad": lambda row: _or(row.grad, -1.0),
    "value": lambda row: _or(row.value, -1.0),
    "ratio": lambda row: _or(row.ratio, -1.0),
    "zero": lambda row: (row.zero or 0) / max(row.elements, 1),
}
SORTS = tuple(_ORDERS)
GRADIENT_FINDINGS = (
    *("zero-gradient", "no-gradient", "unused-parameter", "vanishing", "exploding"),
    *("first-nan", "first-inf"),
)


def gradients(
    trace: Trace, *, by: str = "parameter", depth: int = 1, sort: str | None = None
) -> Gradients:
    """The gradients of the values that require one and were given.

    Args:
        trace: what to list.
        by: `"parameter"`, or `"scope"` for the sums over scopes (or over the parts of names like
            `layer1.W`).
        depth: how many scopes deep.
        sort: `"grad"`, `"value"`, `"ratio"` or `"zero"`, the largest first.

    Raises:
        ArgumentError: `[bad-argument]`.
    """
    if by not in ("parameter", "scope"):
        raise ArgumentError("bad-argument", f'by is "parameter" or "scope", not {by!r}')
    if sort is not None and sort not in _ORDERS:
        raise ArgumentError("bad-argument", f"sort is one of {', '.join(SORTS)}, not {sort!r}")
    leaves = [node for node in trace.nodes if is_parameter(node)]
    rows = [_row(trace, node) for node in leaves]
    if by == "scope":
        rows = _grouped([_path(trace, node)[:depth] for node in leaves], rows)
    if sort is not None:
        rows.sort(key=_ORDERS[sort], reverse=True)
    root = trace.nodes[trace.root]
    found = [_trouble(trace, one) for one in trace.findings if one.kind in GRADIENT_FINDINGS]
    return Gradients(trace.title, by, rows, trace.label(root.id), root.value, found)


def _trouble(trace: Trace, found: Finding) -> Trouble:
    name = "" if found.about is None else trace.label(found.about)
    return Trouble(name, found.kind, found.text or found.kind, found.hint)


def is_parameter(node: Node) -> bool:
    """Whether a gradient by this value was wanted: it was given, and asks for one."""
    return node.op in ("input", "parameter") and node.requires_grad is not False


def _row(trace: Trace, node: Node) -> GradientRow:
    where = trace.line(node)
    row = GradientRow(
        trace.label(node.id),
        shape_text(node),
        1,
        math.prod(node.shape),
        gradient_state(trace, node),
    )
    row.line = None if where is None else f"{where[0]}:{where[1]}"
    row.value = None if node.value is None else size(node.value)
    if node.grad is not None:
        row.grad = size(node.grad)
        row.zero, row.bad = _counts(node.grad)
    row.ratio = _ratio(row)
    row.steps = node.steps
    return row


def _counts(found: Summary) -> tuple[int, int]:
    """Elements that are exactly 0, and elements that are not finite."""
    flat = found.flat()
    if flat is None:
        return found.zero or 0, (found.nan or 0) + (found.inf or 0)
    numbers = [float(one) for one in flat]
    return sum(one == 0 for one in numbers), sum(not math.isfinite(one) for one in numbers)


def _ratio(row: GradientRow) -> float | None:
    if row.grad is None or not row.value or not math.isfinite(row.grad / row.value):
        return None
    return row.grad / row.value


def _path(trace: Trace, node: Node) -> tuple[str, ...]:
    """The scopes around a parameter, or what its name says of them."""
    scopes = scope_path(trace, node)
    if scopes:
        return tuple(scopes.split("/"))
    return tuple(re.split(r"[./]", node.label)[:-1]) or (node.label,)


def _grouped(keys: Iterable[tuple[str, ...]], rows: Iterable[GradientRow]) -> list[GradientRow]:
    groups: dict[tuple[str, ...], list[GradientRow]] = {}
    for key, row in zip(keys, rows, strict=True):
        groups.setdefault(key, []).append(row)
    return [_joined("/".join(key), group) for key, group in groups.items()]


def _joined(name: str, group: list[GradientRow]) -> GradientRow:
    arrived = [row for row in group if row.grad is not None]
    states = {row.gradient for row in group}
    row = GradientRow(
        name, None, len(group), sum(one.elements for one in group),
        "arrived" if arrived else states.pop() if len(states) == 1 else "none",
    )  # fmt: skip
    row.value = math.hypot(*(_or(one.value, 0.0) for one in group))
    if arrived:
        row.grad = math.hypot(*(_or(one.grad, 0.0) for one in arrived))
        row.zero = sum(one.zero or 0 for one in arrived)
        row.bad = sum(one.bad for one in arrived)
    row.ratio = _ratio(row)
    known = [one.steps for one in group if one.steps is not None]
    if len(known) == len(group) and len({len(steps) for steps in known}) == 1:
        row.steps = [math.hypot(*sizes) for sizes in zip(*known, strict=True)]
    return row


def _or(value: Any, other: float) -> float:
    return other if value is None or math.isnan(value) else float(value)
