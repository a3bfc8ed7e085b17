"""Nodes and derivative rules written as a person would: `x × y`, `exp(h)`, `ct @ w.T`.

Symbols are those of Python's operators, the rest comes from the records of the ops; how a rule is
written is found by laying it out on the nodes of a small graph and writing that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from anabranch.core.aval import Aval
from anabranch.core.bind import state
from anabranch.core.graph import Graph
from anabranch.core.node import Edge, Literal, Node
from anabranch.core.op import NoGradient, Op, Unsupported
from anabranch.core.operators import SYMBOLS
from anabranch.core.text import attr_text
from anabranch.diff.region import ancestors
from anabranch.errors import AnabranchError

LONGEST = 60  # letters of an expression that is written out
_SHOWN = {"*": "×"}
# How tightly Python's operators bind; what stands alone binds tightest.
_TIGHT = {"**": 5, "@": 3, "*": 3, "/": 3, "+": 2, "-": 2}
_ALONE = 9
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
Written = tuple[str, int]  # an expression, and how tightly it holds together


def formula(node: Node) -> str:
    """How the node is computed, with `{0}`, `{1}`, ... for its inputs by slot."""
    if not node.inputs:
        return ""
    slots = [
        (literal_text(edge.value), _ALONE) if isinstance(edge, Literal) else (f"{{{i}}}", _ALONE)
        for i, edge in enumerate(node.inputs)
    ]
    return written(node, slots)[0]


def literal_text(value: Any) -> str:
    """A number as one writes it: without its dtype, and whole ones without a point."""
    one = value.item() if isinstance(value, np.generic) else value
    if isinstance(one, float) and one.is_integer() and abs(one) < 1e15:
        return str(int(one)) if one or not str(one).startswith("-") else "-0"
    return f"{one:.6g}" if isinstance(one, float) else str(one)


def written(node: Node, inputs: Sequence[Written]) -> Written:
    """One application of an op to written operands."""
    op = node.op
    if op.notation is not None:
        text = op.notation(*[_held(one, _ALONE - 1) for one in inputs], **node.attrs)
        if text is not None:
            return text, _ALONE
    symbol = SYMBOLS.get(op.name)
    if symbol is not None and not node.attrs:
        tight = _TIGHT.get(symbol, 1)
        if len(inputs) == 1:
            return f"{symbol}{_held(inputs[0], 3)}", 4
        left, right = _held(inputs[0], tight), _held(inputs[1], tight + 1)
        return f"{left} {_SHOWN.get(symbol, symbol)} {right}", tight
    attrs = [one for item in sorted(node.attrs.items()) if (one := _attr(*item))]
    return f"{op.name}({', '.join([*(text for text, _ in inputs), *attrs])})", _ALONE


def _held(one: Written, tight: int) -> str:
    text, own = one
    return text if own >= tight else f"({text})"


def _attr(key: str, value: Any) -> str:
    """`axis=1` as a user writes it; nothing for a switch that is off."""
    if value is False:
        return ""
    if key == "axes" and isinstance(value, tuple) and len(value) == 1:
        key, value = "axis", value[0]
    text = value.name if isinstance(value, Graph) else attr_text(value)
    # Braces mark the places of inputs and nothing else.
    return f"{key}={text}".replace("{", "(").replace("}", ")")


def expression(edge: Any, named: dict[int, str], longest: int = LONGEST) -> str | None:
    """What an edge computes from the named nodes, as one expression; None where it is too long."""
    found = _expression(edge, lambda node: named.get(node.id), longest)
    return None if found is None else found[0]


def _expression(
    edge: Any,
    name: Callable[[Node], str | None],
    longest: int,
    writer: Callable[[Node, Sequence[Written]], Written] = written,
) -> Written | None:
    done: dict[int, Written | None] = {}
    pending = [edge]
    while pending:
        one = pending[-1]
        if isinstance(one, Literal) or one.node.id in done:
            pending.pop()
            continue
        node = one.node
        label = name(node)
        if label is not None or not node.inputs:
            constant = node.attrs.get("value")
            text = label or ("const" if np.ndim(constant) else literal_text(constant[()]))
            done[node.id] = text, _ALONE
            continue
        waiting = [e for e in node.inputs if not isinstance(e, Literal) and e.node.id not in done]
        if waiting:
            pending += waiting
            continue
        parts = [
            (literal_text(e.value), _ALONE) if isinstance(e, Literal) else done[e.node.id]
            for e in node.inputs
        ]
        known = [part for part in parts if part is not None]
        made = writer(node, known) if len(known) == len(parts) else None
        done[node.id] = None if made is None or len(made[0]) > longest else made
    return (literal_text(edge.value), _ALONE) if isinstance(edge, Literal) else done[edge.node.id]


def title(edge: Any, name: Callable[[Node], str | None]) -> str | None:
    """The whole expression of an edge over the named nodes, as mathematics writes: `(x·y + x)²`.

    None where it is too long.
    """
    found = _expression(edge, name, LONGEST, _squared)
    if found is None:
        return None
    raised = re.sub(r"\*\*(\d+)", lambda match: match[1].translate(_RAISED), found[0])
    return raised.replace(" × ", "·")


def _squared(node: Node, inputs: Sequence[Written]) -> Written:
    """As `written`, with a product of a value with itself as a square."""
    if node.op.name == "multiply" and node.inputs[0] is node.inputs[1]:
        return f"{_held(inputs[0], _ALONE)}**2", 5
    return written(node, inputs)


class Law(NamedTuple):
    """The derivative on an edge, laid out.

    Attributes:
        text: over the names of the inputs and of the node itself; for elementwise ops the partial
            derivative (`y`, `cos(x)`), for others what becomes of the cotangent (`ct @ w.T`). None
            where it is a plain number or too long.
        reads: the input slots whose values it needs.
        reads_output: whether it needs the node's own value.
    """

    text: str | None = None
    reads: frozenset[int] = frozenset()
    reads_output: bool = False


def local_rule(node: Node, slot: int, names: Sequence[str], own: str) -> Law:
    """The derivative of a node by one input, over these names."""
    attrs = tuple(sorted(node.attrs.items()))
    given = tuple(
        (type(e.value), e.value) if isinstance(e, Literal) else e.aval for e in node.inputs
    )
    try:
        law = _remembered(node.op, slot, given, node.avals, attrs)
    except TypeError:  # an attr or a literal that has no hash
        law = _law(node.op, slot, given, node.avals, attrs)
    if law.text is None:
        return law
    filled = re.sub(r"\0(\d*)\0", lambda at: names[int(at[1])] if at[1] else own, law.text)
    return law._replace(text=filled if len(filled) <= LONGEST else None)


def _law(
    op: Op, slot: int, given: tuple[Any, ...], avals: tuple[Aval, ...], attrs: tuple[Any, ...]
) -> Law:
    """The same for any names: those of inputs stand as their slot between zeros, the own as 00."""
    rule = op.gradient(slot)
    if isinstance(rule, NoGradient | Unsupported):
        return Law()
    graph = Graph("rule")
    named: dict[int, str] = {}

    def place(name: str, aval: Aval) -> Node:
        made = graph.parameter(f"{len(named)}", aval.shape, aval.dtype)
        named[made.id] = name
        return made

    try:
        with state.changed(trace=None, origin=None, line=None, scope=""), np.errstate(all="ignore"):
            xs = tuple(
                place(f"\0{i}\0", one) if isinstance(one, Aval) else one[1]
                for i, one in enumerate(given)
            )
            several = len(avals) > 1
            ys = [place(f"\0\0.{i}" if several else "\0\0", aval) for i, aval in enumerate(avals)]
            out = _laid_out(op, slot, tuple(ys) if several else ys[0], xs, dict(attrs), place)
    except AnabranchError:
        return Law()  # a rule that computes with numbers only cannot be laid out
    if not isinstance(out, Edge):
        return Law()
    read = {edge.node.id for edge in ancestors([out]).values()}
    slots = (i for i, x in enumerate(xs) if isinstance(x, Edge) and x.node.id in read)
    outputs = any(y.id in read for y in ys)
    return Law(expression(out, named, 2 * LONGEST), frozenset(slots), outputs)


_remembered = lru_cache(maxsize=1024)(_law)


def _laid_out(
    op: Op, slot: int, y: Any, xs: Any, attrs: dict[str, Any], place: Callable[[str, Aval], Node]
) -> Any:
    """What the rule makes of nodes."""
    rule = op.gradient(slot)
    ys = y if isinstance(y, tuple) else (y,)
    if op.partials is not None:
        return rule(y, *xs, **attrs) if callable(rule) else rule
    cts = [place("ct", one.aval) for one in ys]
    ct: Any = tuple(cts) if len(cts) > 1 else cts[0]
    extra = {} if op.common is None else {"common": op.common(ct, y, *xs, **attrs)}
    return rule(ct, y, *xs, **extra, **attrs)
