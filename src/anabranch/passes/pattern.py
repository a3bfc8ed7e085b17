"""Patterns: expressions over variables, written with the library's own operators and functions.

A pattern value is an operand of a front end of its own: an op applied to it makes a larger pattern.
Attrs can be variables too, with `bind(reshape, x, shape=shape)`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from anabranch.core.bind import NUMBERS, register_frontend
from anabranch.core.identity import edge_key, value_key
from anabranch.core.leaves import CONSTANT
from anabranch.core.node import Literal, Node
from anabranch.core.op import Op
from anabranch.core.operators import Operators

# Whatever the order, the same bits; maximum(0.0, -0.0) is either, as the loop that runs decides.
COMMUTATIVE = frozenset({"add", "multiply", "equal", "not_equal"})


class Pattern(Operators):
    """A value of a pattern: a `Variable` or an `Application`."""

    __slots__ = ()


class Variable(Pattern):
    """Stands for any edge, number or attr; for the same one wherever its name occurs."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Application(Pattern):
    """An op on patterns and numbers; `commutes` says whether operands are tried in either order."""

    __slots__ = ("args", "attrs", "commutes", "op")

    def __init__(self, op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> None:
        self.op = op
        self.args = args
        self.attrs = attrs
        self.commutes = op.name in COMMUTATIVE

    def ops(self) -> frozenset[Op]:
        """Every op in the pattern."""
        inner = [arg.ops() for arg in self.args if isinstance(arg, Application)]
        return frozenset({self.op}).union(*inner)


for _kind in (Variable, Application):
    register_frontend(_kind, 3, Application)


class Site:
    """An application in a graph, or one about to stand there: what a pattern is held against."""

    __slots__ = ("attrs", "inputs", "op")

    def __init__(self, op: Op, inputs: tuple[Any, ...], attrs: Mapping[str, Any]) -> None:
        self.op = op
        self.inputs = inputs
        self.attrs = attrs


class Match:
    """What the variables stand for, and the nodes that the pattern covers below its root."""

    __slots__ = ("nodes", "values")

    def __init__(self, values: dict[str, Any], nodes: tuple[Node, ...] = ()) -> None:
        self.values = values
        self.nodes = nodes


NOTHING = Match({})


KNOWN = "known"


def heads_of(pattern: Application, fixed: Collection[str] = ()) -> tuple[Any, ...]:
    """What each operand must be, at first sight: an op, a literal, known (`fixed`), or anything."""
    return tuple(
        arg.op
        if isinstance(arg, Application)
        else Literal
        if not isinstance(arg, Variable)
        else KNOWN
        if arg.name in fixed
        else None
        for arg in pattern.args
    )


def may_match(heads: Sequence[Any], commutes: bool, inputs: Sequence[Any]) -> bool:
    """Whether a look at the operands leaves a match possible: nearly always it does not."""
    return _fits(heads, inputs) or (commutes and _fits(heads, inputs[::-1]))


def _fits(heads: Sequence[Any], inputs: Sequence[Any]) -> bool:
    for head, value in zip(heads, inputs, strict=False):
        if head is None:
            continue
        if type(value) is Literal:
            if head is not Literal and head is not KNOWN:
                return False
        elif head is Literal or value.node.op is not (CONSTANT if head is KNOWN else head):
            return False
    return True


def matches(pattern: Application, site: Site, so_far: Match = NOTHING) -> Iterator[Match]:
    """Every way in which the pattern fits; operands of commutative ops in either order."""
    if pattern.op is not site.op or len(pattern.args) != len(site.inputs):
        return
    found: Match | None = so_far
    for key, value in pattern.attrs.items():
        found = found and _attr_match(value, site.attrs.get(key), found)
    if found is not None:
        yield from _all_match(pattern.args, site.inputs, found)
        if pattern.commutes:
            yield from _all_match(pattern.args, site.inputs[::-1], found)


def _all_match(args: Sequence[Any], values: Sequence[Any], so_far: Match) -> Iterator[Match]:
    if not args:
        yield so_far
        return
    for found in _one_matches(args[0], values[0], so_far):
        yield from _all_match(args[1:], values[1:], found)


def _one_matches(pattern: Any, value: Any, so_far: Match) -> Iterator[Match]:
    if isinstance(pattern, Variable):
        found = _bound(pattern.name, value, edge_key, so_far)
        if found is not None:
            yield found
    elif isinstance(pattern, Application):
        if not isinstance(value, Literal) and value.index == 0:
            node = value.node
            inner = Match(so_far.values, (*so_far.nodes, node))
            yield from matches(pattern, Site(node.op, node.inputs, node.attrs), inner)
    elif is_number(value, pattern):
        yield so_far


def _attr_match(pattern: Any, value: Any, so_far: Match) -> Match | None:
    if isinstance(pattern, Variable):
        return _bound(pattern.name, value, value_key, so_far)
    return so_far if value_key(pattern) == value_key(value) else None


def _bound(name: str, value: Any, key: Any, so_far: Match) -> Match | None:
    if name not in so_far.values:
        return Match({**so_far.values, name: value}, so_far.nodes)
    return so_far if key(so_far.values[name]) == key(value) else None


def is_number(value: Any, number: float) -> bool:
    """Whether an input is the literal `number`, of any dtype; 0.0 and -0.0 differ."""
    if not isinstance(value, Literal) or isinstance(value.value, complex):
        return False
    given = float(value.value)
    return given == number and math.copysign(1.0, given) == math.copysign(1.0, number)


def known(value: Any) -> Any:
    """The number or array that a literal or constant node holds; None for what runs decide."""
    if isinstance(value, Literal):
        return value.value
    if type(value) in NUMBERS:
        return value
    node = getattr(value, "node", None)
    if node is None:
        return value
    return node.attrs.get("value") if node.op is CONSTANT else None
