"""What a pass returns, and the loop that every node-by-node pass shares."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

from anabranch.core.bind import state
from anabranch.core.graph import Graph
from anabranch.core.leaves import PARAMETER
from anabranch.core.node import Literal, Node
from anabranch.core.source import RawSource, Source


class Rewrite:
    """A pass's result: the new graph, what stands for each old node, and what was done.

    Attributes:
        graph: the new graph, the old one staying as it was; or this, if there was nothing to do.
        mapping: old node id to what took its place: a node, one output of a node, or a literal.
        report: a line for each change.
    """

    def __init__(
        self,
        graph: Graph,
        mapping: dict[int, Any],
        report: Iterable[str] = (),
        fixed: frozenset[int] = frozenset(),
    ) -> None:
        self.graph = graph
        self.mapping = mapping
        self.report = list(report)
        self._fixed = fixed
        self._owed: dict[int, list[RawSource]] = {}
        self._given: dict[int, dict[RawSource, None]] = {}

    def moved(self, edge: Any) -> Any:
        """The new edge or literal for an old one; literals stay."""
        kind = type(edge)
        if kind is Node and len(edge.avals) == 1:
            return self.mapping[edge.id]
        if kind is Literal:
            return edge
        found = self.mapping[edge.node.id]
        is_whole = isinstance(found, Node) and len(edge.node.avals) > 1
        return found.outputs[edge.index] if is_whole else found

    def may_be_literal(self, node: Node) -> bool:
        """Whether a literal can stand for this old node: not for outputs and logged ones."""
        return node.id not in self._fixed and not node.logs

    def give(self, value: Any, lines: Iterable[RawSource]) -> None:
        """Let a node of the new graph, the one of an edge too, keep these lines as well."""
        if not isinstance(value, Literal):
            self._given.setdefault(value.node.id, {}).update(dict.fromkeys(lines))

    def hand_on(self, node: Node, found: Any, lines: Iterable[RawSource]) -> None:
        """Let what takes an old node's place keep these lines, or its readers if a literal does."""
        if isinstance(found, Literal):
            self._owed.setdefault(node.id, []).extend(lines)
        else:
            self.give(found, lines)

    def kept(self, node: Node) -> tuple[RawSource, ...]:
        """The lines of a node of the new graph, with those that it was given so far."""
        return (*lines(node), *self._given.get(node.id, ()))

    def owed(self, node: Node) -> list[RawSource]:
        """The lines of what an old node reads as literals now: they can keep none themselves."""
        numbers = [e.node.id for e in node.inputs if not isinstance(e, Literal)]
        return [line for number in numbers for line in self._owed.get(number, ())]

    def _settle(self) -> None:
        for number, lines in self._given.items():
            keep_lines(self.graph.nodes[number], lines)
        self._given.clear()


Pass = Callable[[Graph], Rewrite]
Replace = Callable[[Rewrite, Node, tuple[Any, ...]], Any]
Concerns = Callable[[Node, tuple[Any, ...]], bool]


def copied(
    graph: Graph,
    nodes: Iterable[Node],
    replace: Replace | None = None,
    concerns: Concerns | None = None,
) -> Rewrite:
    """Copy these nodes into a new graph with all parameters, in order.

    `replace(rewrite, node, new inputs)` may name what takes this node's place: a node of the new
    graph, one output of a node, or a literal. A node takes over its lines, name and logs; of a
    literal, the readers take the lines; where none may stand the node is copied. Nodes made on the
    way belong to the same line, scope and derivative.

    `concerns(node, inputs)` says for each node in order whether `replace` may find something, else
    that is not asked. Most passes find nothing to do in most graphs: where all nodes stay, the
    result is the very same graph.
    """
    kept = graph.nodes
    if nodes is not graph.nodes:
        chosen = {node.id: node for node in (*graph.parameters, *nodes)}
        kept = [node for _, node in sorted(chosen.items())]
    first = 0
    if replace is None:
        first = len(kept)
    elif concerns is not None:
        found = (i for i, node in enumerate(kept) if concerns(node, node.inputs))
        first = next(found, len(kept))
    if first == len(graph.nodes):
        return Rewrite(graph, dict(enumerate(kept)))
    new = Graph(graph.name, graph.backend)
    rewrite = Rewrite(new, {}, fixed=frozenset(edge.node.id for edge in graph.outputs))
    for node in kept[:first]:
        rewrite.mapping[node.id] = _copy(rewrite, node, _moved_inputs(rewrite, node))
    if replace is not None:
        _replaced(rewrite, kept[first:], replace, concerns)
    if graph.outputs:
        new.set_outputs(map(rewrite.moved, graph.outputs))
    rewrite._settle()
    return rewrite


def _replaced(
    rewrite: Rewrite, nodes: Iterable[Node], replace: Replace, concerns: Concerns | None
) -> None:
    """Let these nodes be copied or replaced."""
    before = state.origin, state.scope, state.line
    try:
        for node in nodes:
            inputs = _moved_inputs(rewrite, node)
            found = None
            if concerns is None or concerns(node, inputs):
                # As `in_place_of` does it, but once for all nodes: this loop is run a lot.
                state.origin, state.scope, state.line = node.origin, node.scope, node.raw_source
                found = replace(rewrite, node, inputs)
            _put(rewrite, node, inputs, found)
    finally:
        state.origin, state.scope, state.line = before


def _moved_inputs(rewrite: Rewrite, node: Node) -> tuple[Any, ...]:
    return tuple([rewrite.moved(edge) for edge in node.inputs])


def _copy(rewrite: Rewrite, node: Node, inputs: tuple[Any, ...]) -> Node:
    new = rewrite.graph
    found = new.append(node.op, inputs, node.attrs, node.avals, like=node)
    if node.op is PARAMETER:
        new.parameters.append(found)
    return found


def _put(rewrite: Rewrite, node: Node, inputs: tuple[Any, ...], found: Any) -> None:
    """Let what was found take an old node's place, or a copy of it."""
    if isinstance(found, Literal):
        if rewrite.may_be_literal(node):
            rewrite.hand_on(node, found, [*lines(node), *rewrite.owed(node)])
            rewrite.mapping[node.id] = found
            return
        found = None
    if found is None:
        found = _copy(rewrite, node, inputs)
    else:
        _take_over(rewrite, found, node)
    if rewrite._owed and (owed := rewrite.owed(node)):
        rewrite.give(found, owed)
    rewrite.mapping[node.id] = found


def in_place_of(node: Node) -> AbstractContextManager[None]:
    """Nodes made in the block belong to the line, scope and derivative of this one."""
    return state.changed(origin=node.origin, scope=node.scope, line=node.raw_source)


def lines(node: Node) -> tuple[RawSource, ...]:
    """Every line that a node stands for, its own first."""
    return node.also if node.raw_source is None else (node.raw_source, *node.also)


def keep_lines(node: Node, more: Iterable[RawSource]) -> None:
    """Let a node stand for these lines as well, each once."""
    others = [line for line in more if line != node.raw_source]
    object.__setattr__(node, "also", tuple(dict.fromkeys((*node.also, *others))))


def _take_over(rewrite: Rewrite, stays: Any, goes: Node) -> None:
    rewrite.give(stays, lines(goes))
    logs = tuple((label, stays.index + index) for label, index in goes.logs)
    object.__setattr__(stays.node, "logs", stays.node.logs + logs)
    if stays.node.name is None:
        stays.node.name = goes.name


def place(node: Node) -> str:
    """`multiply (model.py:12)`: how reports name a node."""
    source: Source | None = node.source
    name = node.name or node.op.name
    return name if source is None else f"{name} ({source})"
