"""Rewrite rules as rows, and the pass that a table of them makes.

A row is tried where its pattern's root op stands, inputs first, so that what it meets is rewritten
already. One walk over the nodes, a bounded number of steps at each: linear in the graph.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import Any

from anabranch.core.aval import Aval
from anabranch.core.bind import state
from anabranch.core.entry import boundary
from anabranch.core.graph import Graph
from anabranch.core.node import Literal, Node
from anabranch.core.op import Op
from anabranch.core.record import record
from anabranch.core.text import edge_text
from anabranch.errors import ArgumentError
from anabranch.passes.pattern import (
    Application,
    Match,
    Site,
    Variable,
    heads_of,
    matches,
    may_match,
)
from anabranch.passes.rewrite import Rewrite, copied, place

_VARIADIC = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_ROUNDS = 16  # how often rows may follow one another at one node


@record
class Rule:
    """One row: a pattern, what it becomes, and what that may change.

    The names of the functions' parameters are the pattern's variables. `becomes` and `when` take
    those that they need: edges for values (numbers where literals stand), attrs as they are, and
    `out`, the aval of what is replaced. The result must have that very aval, or the row is passed
    over.

    Fields:
        name: how reports and tables call it.
        pattern: written with ops and operators on its parameters.
        becomes: what takes its place, written in the same way.
        when: a further condition.
        changes: what may differ from the pattern's value; empty when every bit stays.
        may_change_nan: whether a NaN may become a number or the other way round; reports say so.
        in_order: whether operands of the root op fit only in the order that is written.

    Example:
        >>> import anabranch as ab
        >>> from anabranch.passes.rules import Rule, rewritten
        >>> rule = Rule("square", lambda x: x * x, lambda x: ab.square(x))
        >>> print(rewritten(ab.trace(lambda x: x * x + 1.0, 3.0), [rule]).graph)
        graph "<lambda>": 3 nodes, 1 parameter
        #0 parameter "x" : f64[] weak
        #1 square(#0) : f64[]
        #2 add(#1, 1.0) : f64[]
        outputs #2
    """

    name: str
    pattern: Callable[..., Any]
    becomes: Callable[..., Any]
    when: Callable[..., bool] | None = None
    changes: str = ""
    may_change_nan: bool = False
    in_order: bool = False
    root: Application = field(init=False, repr=False)
    ops: frozenset[Op] = field(init=False, repr=False)
    heads: tuple[Any, ...] = field(init=False, repr=False)
    _takes: tuple[str, ...] = field(init=False, repr=False)
    _needs: tuple[str, ...] = field(init=False, repr=False, default=())

    def __post_init__(self) -> None:
        variables = _parameters(self.pattern)
        with state.changed(trace=None):
            root = self.pattern(*map(Variable, variables))
        if not isinstance(root, Application):
            raise ArgumentError("bad-argument", f"the pattern of rule {self.name!r} applies no op")
        root.commutes &= not self.in_order
        object.__setattr__(self, "root", root)
        object.__setattr__(self, "ops", root.ops())
        object.__setattr__(self, "heads", heads_of(root, getattr(self.when, "known", ())))
        for target, function in (("_takes", self.becomes), ("_needs", self.when)):
            names = () if function is None else _parameters(function)
            unknown = set(names) - {*variables, "out"}
            if unknown:
                raise ArgumentError(
                    "bad-argument",
                    f"rule {self.name!r} asks for {', '.join(sorted(unknown))}, which its pattern"
                    " does not have",
                )
            object.__setattr__(self, target, names)

    def find(self, site: Site, out: Aval) -> Match | None:
        """The first match at this site that meets the condition."""
        if not may_match(self.heads, self.root.commutes, site.inputs):
            return None
        for match in matches(self.root, site):
            if self.when is None or self.when(*_chosen(self._needs, match, out)):
                return match
        return None

    def apply(self, match: Match, out: Aval) -> Any:
        """What takes the place of a match: an edge or a literal; None if its aval differs."""
        value = self.becomes(*_chosen(self._takes, match, out))
        if not hasattr(value, "node"):
            value = Literal(value)
        return value if value.aval == out else None

    def __str__(self) -> str:
        notes = [self.changes] if self.changes else []
        notes += ["may change NaN"] if self.may_change_nan else []
        return f"{self.name} [{', '.join(notes)}]" if notes else self.name


Rule.__post_init__ = boundary(Rule.__post_init__)  # type: ignore[method-assign]  # users write rules


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    code = getattr(function, "__code__", None)
    if code is None or hasattr(function, "__wrapped__") or code.co_flags & _VARIADIC:
        return tuple(inspect.signature(function).parameters)
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return names


def _chosen(names: Iterable[str], match: Match, out: Aval) -> list[Any]:
    """The values of these variables, as the library's functions take them."""
    found = [out if name == "out" else match.values[name] for name in names]
    return [value.value if isinstance(value, Literal) else value for value in found]


Table = dict[Op, list[Rule]]


def table_of(rules: Iterable[Rule]) -> Table:
    """The rules by the op at their root, in order."""
    table: Table = {}
    for rule in rules:
        table.setdefault(rule.root.op, []).append(rule)
    return table


def rewritten(graph: Graph, rules: Iterable[Rule]) -> Rewrite:
    """The graph with these rules applied wherever they fit.

    What is logged stays as written. Nodes that lose their last reader stay for `prune`.
    """
    table = table_of(rules)

    def concerns(node: Node, inputs: tuple[Any, ...]) -> bool:
        rules = table.get(node.op)
        if rules is None or node.logs or len(node.avals) > 1:
            return False
        site = Site(node.op, inputs, node.attrs)
        return any(rule.find(site, node.avals[0]) is not None for rule in rules)

    def replace(rewrite: Rewrite, node: Node, inputs: tuple[Any, ...]) -> Any:
        with state.changed(trace=rewrite.graph):
            return _simplified(rewrite, table, node, inputs)

    return copied(graph, graph.nodes, replace, concerns)


def _simplified(rewrite: Rewrite, table: Table, node: Node, inputs: tuple[Any, ...]) -> Any:
    """What rules make of a node, one after another as long as the result is a new node."""
    found = None
    covered: list[Node] = []
    size = len(rewrite.graph)
    site = Site(node.op, inputs, node.attrs)
    for rule, match, found in firings(table, site, node.avals[0], rewrite.may_be_literal(node)):
        covered += match.nodes
        rewrite.report.append(described(rule, node, found))
        if not isinstance(found, Literal) and found.node.id < size:
            break
        size = len(rewrite.graph)
    for inner in covered:
        rewrite.hand_on(node, found, rewrite.kept(inner))
    return found


def firings(
    table: Table, site: Site, out: Aval, may_be_literal: bool = True
) -> Iterator[tuple[Rule, Match, Any]]:
    """The rules that fire at a site one after another, each on what the one before has made."""
    for _ in range(_ROUNDS):
        step = _fired(table.get(site.op, ()), site, out, may_be_literal)
        if step is None:
            return
        yield step
        found = step[2]
        if isinstance(found, Literal):
            return
        site = Site(found.node.op, found.node.inputs, found.node.attrs)


def _fired(
    rules: Iterable[Rule], site: Site, out: Aval, may_be_literal: bool
) -> tuple[Rule, Match, Any] | None:
    """The first rule that fits at this site, with its result."""
    for rule in rules:
        match = rule.find(site, out)
        found = None if match is None else rule.apply(match, out)
        if found is None or match is None or (isinstance(found, Literal) and not may_be_literal):
            continue
        return rule, match, found
    return None


def described(rule: Rule, node: Node, found: Any) -> str:
    """A line of a report."""
    new = edge_text(found) if isinstance(found, Literal) else place(found.node)
    return f"{rule}: {place(node)} becomes {new}"
