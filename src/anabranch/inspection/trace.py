"""The trace: plain data about one run of one graph, which every renderer works from.

It mirrors `schema.json` member by member, with its parts in `parts`; absent members are None here.
Nodes stand in forward order and a node's id is its place in the list, so edges always rise. Equal
graphs with equal values give equal text.

What is absent is not zero: a node without `grad` received nothing, an edge without `contribution`
sent nothing.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import Any

from anabranch.core.once import once
from anabranch.inspection.parts import (
    Check,
    Edge,
    Finding,
    Frame,
    Node,
    Note,
    Order,
    Scope,
    Source,
    Summary,
    held,
)

FORMAT = "anabranch-trace"
VERSION = 1
_EXACT = 2**53  # up to here every reader of JSON has the same integers


@dataclass(kw_only=True)
class Trace:
    """One recorded run; `to_json` writes it, `reader.read` reads it back.

    `nodes[i].id == i`, ids rise along edges, and `edges` are sorted by (to, slot).
    """

    title: str = ""
    by: str | None = None
    root: int
    outputs: list[int] | None = None
    seed: Summary | None = None
    detail: str | None = None
    notes: list[Note] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    scopes: list[Scope] = field(default_factory=lambda: [Scope(0, "", None)])
    nodes: list[Node]
    edges: list[Edge]
    order: Order
    layout: dict[str, Any] | None = None
    checks: list[Check] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)

    def inputs(self, node: int) -> list[Edge]:
        """The edges into a node, by slot."""
        return self._ends[0][node]

    def readers(self, node: int) -> list[Edge]:
        """The edges out of a node, by reader."""
        return self._ends[1][node]

    @once
    def _ends(self) -> tuple[list[list[Edge]], list[list[Edge]]]:
        into: list[list[Edge]] = [[] for _ in self.nodes]
        out: list[list[Edge]] = [[] for _ in self.nodes]
        for edge in self.edges:
            into[edge.to].append(edge)
            out[edge.from_].append(edge)
        return into, out

    def kept(self) -> list[Node]:
        """The values that stay until backward has passed; `kept_for` says for which rules."""
        return [node for node in self.nodes if node.kept_for]

    def number(self, edge: Edge) -> int:
        """The place of an edge in `edges`."""
        return self._numbers[edge.to, edge.slot]

    @once
    def _numbers(self) -> dict[tuple[int, int], int]:
        return {(edge.to, edge.slot): i for i, edge in enumerate(self.edges)}

    @once
    def _turns(self) -> dict[int, int]:
        return {number: turn for turn, number in enumerate(self.order.backward)}

    def arrivals(self, node: int, out: int | None = None) -> list[Edge]:
        """The edges that sent this node a contribution, in the order in which they arrived.

        Of a node with several outputs, `out` asks for one of them.
        """
        turn = self._turns
        sent = [e for e in self.readers(node) if e.contribution is not None and e.to in turn]
        if out is not None:
            sent = [e for e in sent if (e.out or 0) == out]
        return sorted(sent, key=lambda edge: (turn[edge.to], edge.slot))

    def label(self, number: int, out: int | None = None) -> str:
        """A node's name, with its number where several nodes have it; `#3` without a name.

        Of a node with several outputs, `out` names one of them: `#3.1`.
        """
        node = self.nodes[number]
        shared = node.name is not None and self._names[node.name] > 1
        label = f"{node.name} #{number}" if shared else node.label
        return f"{label}.{out}" if out is not None and node.outputs else label

    def upstream(self, edge: Edge) -> Summary | None:
        """What the rule of an edge was handed; None where that is one gradient for each output."""
        reader = self.nodes[edge.to]
        return None if reader.outputs else reader.grad

    @once
    def _names(self) -> Counter[str | None]:
        return Counter(node.name for node in self.nodes)

    def find(self, name: str) -> list[Node]:
        """The nodes of this name, or the one that `#3` or `3` numbers.

        An input is meant before values that took over its name.
        """
        named = [node for node in self.nodes if node.name == name]
        given = [node for node in named if node.op in ("input", "parameter")]
        if len(given) == 1:
            return given
        number = name.removeprefix("#")
        if not named and number.isdecimal() and len(number) < 12 and int(number) < len(self.nodes):
            return [self.nodes[int(number)]]
        return named

    def line(self, node: Node) -> tuple[str, int, str] | None:
        """File, line number and text where a node was written."""
        if node.at is None:
            return None
        source, number = self.sources[node.at[0]], node.at[1]
        return source.file, number, source.text[number - source.first].strip()

    def written(self, node: Node) -> str:
        """The formula with the labels of the inputs; empty for a leaf."""
        labels = {str(e.slot): held(self.nodes[e.from_].label) for e in self.inputs(node.id)}
        return filled(node.formula or "", labels)

    def to_dict(self, *, seconds: bool = False) -> dict[str, Any]:
        """The trace as plain data after the schema, with numbers as JSON can carry them."""
        members = {key: _plain(value, seconds) for key, value in _members(self)}
        return {"format": FORMAT, "version": VERSION, **members}

    def to_json(self, *, seconds: bool = False) -> str:
        """The trace as text, one node or edge a line.

        Args:
            seconds: whether to write how long nodes took, which differs from run to run.
        """
        parts = []
        for key, value in _members(self):
            if isinstance(value, list) and value:
                rows = ",\n".join(_text(_plain(one, seconds)) for one in value)
                parts.append(f"{_text(key)}:[\n{rows}\n]")
            else:
                parts.append(f"{_text(key)}:{_text(_plain(value, seconds))}")
        head = f'"format":{_text(FORMAT)},"version":{VERSION}'
        return "{" + ",\n".join([head, *parts]) + "}\n"


def filled(formula: str, texts: Mapping[str, str]) -> str:
    """A formula with these texts in the places of its slots; braces in them stay as they are.

    Example:
        >>> filled("{0} × {1}", {"0": "x", "1": "{0}"})
        'x × {0}'
    """
    return re.sub(r"\{(\d+)\}", lambda place: texts.get(place[1], place[0]), formula)


def _text(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Half of a pair of surrogates is a letter that no file can hold.
    return text.encode("utf-8", "backslashreplace").decode() if not text.isascii() else text


@cache
def _written(kind: type) -> list[tuple[str, str, bool]]:
    """For each field of a record: its name, its member, and whether it is always written."""
    return [
        (
            one.name,
            one.name.rstrip("_"),
            "nullable" in one.metadata
            or (one.default is MISSING and one.default_factory is MISSING),
        )
        for one in fields(kind)
    ]


def _members(record: Any) -> Iterator[tuple[str, Any]]:
    for name, member, always in _written(record.__class__):
        value = getattr(record, name)
        if always or not (value is None or value in ([], "")):
            yield member, value


def _plain(value: Any, seconds: bool) -> Any:
    """A record as what JSON knows."""
    kind = type(value)
    if kind in (str, bool) or value is None:
        return value
    if kind in (int, float):
        return number(value)
    if kind in (list, tuple):
        return [_plain(one, seconds) for one in value]
    if kind is dict:
        return {str(key): _plain(one, seconds) for key, one in value.items()}
    return {
        key: _plain(one, seconds)
        for key, one in _members(value)
        if seconds or key != "seconds" or kind is not Node
    }


def number(value: float) -> Any:
    """A number as JSON can carry it: whole ones without a point, others as text where it cannot."""
    if isinstance(value, int):
        return value if abs(value) <= _EXACT else str(value)
    if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124  # NaN
        return str(value)
    if value == 0:
        return value if str(value).startswith("-") else 0
    return int(value) if value.is_integer() and abs(value) <= _EXACT else value
