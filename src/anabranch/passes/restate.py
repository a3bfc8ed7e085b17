"""Rules on a program that is already there: nodes of a growing graph, or recorded tensors.

A graph only grows and tensors do not change, so nothing is replaced: where a rule fits, the new
spelling and what depends on it are built again beside the old, and the new results are returned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from anabranch.core.bind import bind
from anabranch.core.late import LateModule
from anabranch.core.node import Literal, Node

if TYPE_CHECKING:
    from anabranch.passes import exponentials, lengths, pattern, rewrite
    from anabranch.passes import rules as rows
    from anabranch.passes.rules import Rule, Table
else:  # which most programs do without
    exponentials = LateModule("anabranch.passes.exponentials")
    lengths = LateModule("anabranch.passes.lengths")
    pattern = LateModule("anabranch.passes.pattern")
    rewrite = LateModule("anabranch.passes.rewrite")
    rows = LateModule("anabranch.passes.rules")

# The tables of `stabilise`, and names of ops of which each of their rows has one.
TABLES = (
    (frozenset({"exp", "sigmoid"}), exponentials),
    (frozenset({"sqrt", "linalg.vector_norm"}), lengths),
)


def restated(
    outputs: Sequence[Any], rules: Sequence[Rule] | None = None, after: Iterable[Any] = ()
) -> tuple[list[Any], list[str]]:
    """These values as the rules spell them, and a report.

    Args:
        outputs: edges of one graph, or recorded tensors.
        rules: those of `stabilise` by default.
        after: values behind which nothing is read or changed.

    Returns:
        For each output the value to take in its place, itself where no rule touches it.
    """
    nodes = _region(outputs, {edge.node.id for edge in after})
    present = {node.op for node in nodes}
    if rules is None:
        names = {op.name for op in present}
        rules = [rule for marks, table in TABLES if marks & names for rule in table.RULES]
    if not any(rule.ops <= present for rule in rules):
        return list(outputs), []
    table, moved, report = rows.table_of(rules), _Moved(), list[str]()
    for node in nodes:
        with rewrite.in_place_of(node):
            moved.enter(node, _restated(node, table, moved, report))
    return [moved(edge) for edge in outputs], report


class _Moved(dict[tuple[int, int], Any]):
    """The new edge or literal for each output of a node that was built again."""

    def __call__(self, edge: Any) -> Any:
        return edge if isinstance(edge, Literal) else self.get((edge.node.id, edge.index), edge)

    def enter(self, node: Node, found: Any) -> None:
        if found is not None:
            outputs = found if isinstance(found, tuple) else (found,)
            self.update({(node.id, index): one for index, one in enumerate(outputs)})


def _restated(node: Node, table: Table, moved: _Moved, report: list[str]) -> Any:
    """What takes the place of a node: by a rule, or the same op on new inputs; else None."""
    inputs = tuple(map(moved, node.inputs))
    found = None
    if node.op in table and not node.logs and len(node.avals) == 1:
        site = pattern.Site(node.op, inputs, node.attrs)
        for rule, match, found in rows.firings(table, site, node.avals[0], may_be_literal=False):
            report.append(rows.described(rule, node, found))
            lines = chain.from_iterable(map(rewrite.lines, (node, *match.nodes)))
            rewrite.keep_lines(found.node, lines)
    if found is None and any(a is not b for a, b in zip(inputs, node.inputs, strict=True)):
        values = [edge.value if isinstance(edge, Literal) else edge for edge in inputs]
        found = bind(node.op, *values, **node.attrs)
    return found


def _region(outputs: Sequence[Any], stops: set[int]) -> list[Node]:
    """The nodes that these depend on, up to the stops, inputs first."""
    found: dict[int, Node] = {}
    pending = [edge.node for edge in outputs]
    while pending:
        node = pending.pop()
        if node.id not in found and node.id not in stops:
            found[node.id] = node
            pending += [edge.node for edge in node.inputs if not isinstance(edge, Literal)]
    return [found[number] for number in sorted(found)]
