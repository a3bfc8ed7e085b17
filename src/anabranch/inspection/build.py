"""From a record to its trace: names, formulas, scopes, source lines and summaries."""

from __future__ import annotations

import linecache
import os
import sys
from functools import lru_cache
from typing import Any

import numpy as np

from anabranch.core.leaves import LEAVES
from anabranch.core.node import Literal
from anabranch.core.node import Node as GraphNode
from anabranch.core.op import NoGradient, Unsupported
from anabranch.core.source import Place as SourcePlace
from anabranch.core.source import place_of
from anabranch.core.text import attr_text
from anabranch.diff.rules import partial_value, pulled_back
from anabranch.inspection import formula, parts
from anabranch.inspection.finding import Search
from anabranch.inspection.naming import assigned_name, operand_name
from anabranch.inspection.notes import notes
from anabranch.inspection.record import Entry, Record
from anabranch.inspection.scopes import Scopes
from anabranch.inspection.summary import SMALL, counts, norm, summary
from anabranch.inspection.trace import Trace
from anabranch.inspection.why import gradient_findings
from anabranch.ops.select import absorb

_AROUND = 3  # lines of source kept around a used one
_MANY = 2_000  # nodes up to which every value gets its elements and pictures


class Builder:
    """Makes the trace of one record."""

    def __init__(self, record: Record, detail: str) -> None:
        self.record = record
        self.entries = record.entries
        self.detail = detail
        self.readers: list[list[tuple[int, int]]] = [[] for _ in self.entries]
        for number, entry in enumerate(self.entries):
            for slot, one in enumerate(entry.inputs):
                if not isinstance(one, Literal):
                    self.readers[one[0]].append((number, slot))
        self.files = _Files()
        self.kept: list[dict[int, None]] = [{} for _ in self.entries]  # by which entries' rules
        self.names = [self._name(number) for number in range(len(self.entries))]
        self.labels = [name or f"#{i}" for i, name in enumerate(self.names)]
        self.numbers = {id(entry.node): i for i, entry in enumerate(self.entries)}

    def made(self) -> Trace:
        record = self.record
        scopes = Scopes(self.entries, self._label)
        root = record.roots[0][0]
        made = Trace(
            root=root,
            nodes=[self._node(i, scopes.of[i]) for i in range(len(self.entries))],
            edges=[e for i in range(len(self.entries)) for e in self._edges(i)],
            order=parts.Order(list(range(len(self.entries))), list(record.backward)),
            title=self._title(root),
            by=f"anabranch {sys.modules['anabranch'].__version__}",
            outputs=[place[0] for place in record.roots] if len(record.roots) > 1 else None,
            seed=self._summary(record.seed),
            detail=self.detail,
            scopes=scopes.found,
            notes=[parts.Note(*note) for note in record.notes],
        )
        for entry in self.entries:
            self.files.use(entry.node)
        made.sources = self.files.sources()
        for entry, node, kept in zip(self.entries, made.nodes, self.kept, strict=True):
            node.at = self.files.at(entry.node)
            node.kept_for = list(kept) or None
        made.notes += notes(made)
        made.findings = Search(record, made.label).findings()
        made.findings += gradient_findings(made)
        return made

    # Names

    def _name(self, number: int) -> str | None:
        entry = self.entries[number]
        if entry.name:
            return entry.name
        node = entry.node
        readers = [self.entries[i].node for i, _ in self.readers[number]]
        name = assigned_name(node, readers) or entry.variable
        if name is None and entry.is_leaf:
            for reader, slot in self.readers[number]:
                name = operand_name(self.entries[reader].node, slot)
                if name is not None:
                    break
        return name

    def _label(self, node: GraphNode) -> str:
        """What to call a node that may stand outside the record."""
        number = self.numbers.get(id(node))
        known = node.name if number is None else self.names[number]
        return known or assigned_name(node, ()) or node.op.name

    def _title(self, root: int) -> str:
        leaves = {i for i, entry in enumerate(self.entries) if entry.is_leaf or entry.port}

        def name(node: GraphNode) -> str | None:
            number = self.numbers[id(node)]
            return self.labels[number] if number in leaves else None

        label = self.record.title or self.names[root]
        text = formula.title(self.entries[root].node, name)
        if text is None or text == label:
            return label or self.labels[root]
        return text if label is None else f"{label} = {text}"

    # Nodes

    def _node(self, number: int, scope: int) -> parts.Node:
        entry = self.entries[number]
        node = entry.node
        aval = node.avals[0]
        values, grads = entry.values, entry.grads
        several = len(node.avals) > 1
        pictured = entry.is_leaf or number == self.record.roots[0][0]
        return parts.Node(
            id=number,
            op=self._op(entry),
            shape=list(aval.shape),
            dtype=aval.dtype.name,
            name=self.names[number],
            scope=scope,
            formula="{0}" if entry.port and not several else formula.formula(node),
            args=self._args(entry),
            requires_grad=entry.requires_grad or None,
            value=None if values is None else self._summary(values[0], pictured),
            grad=self._summary(grads[0] if grads else None, pictured),
            held=self._summary(entry.held),
            steps=self._steps(entry),
            outputs=self._outputs(entry) if several else None,
            origin=self._origin(node),
            bytes=None if values is None else sum(_bytes(v) for v in values),
            seconds=entry.seconds,
        )

    def _args(self, entry: Entry) -> dict[str, str] | None:
        attrs = {} if entry.is_leaf else entry.node.attrs
        return {key: attr_text(value) for key, value in sorted(attrs.items())} or None

    def _op(self, entry: Entry) -> str:
        if entry.port:
            return "call" if entry.node.op not in LEAVES else "identity"
        if entry.is_input:
            return "input"
        return entry.node.op.name

    def _outputs(self, entry: Entry) -> list[parts.Output]:
        return [
            parts.Output(
                list(aval.shape),
                aval.dtype.name,
                None if entry.values is None else self._summary(entry.values[i]),
                self._summary(entry.grads[i] if entry.grads else None),
            )
            for i, aval in enumerate(entry.node.avals)
        ]

    def _origin(self, node: GraphNode) -> parts.Origin | None:
        if node.origin is None:
            return None
        forward, slot = node.origin
        number = self.numbers.get(id(forward))
        return parts.Origin(forward.op.name, slot, number, self._label(forward))

    def _steps(self, entry: Entry) -> list[float] | None:
        if not entry.earlier or self.detail == "shape":
            return None
        return [*entry.earlier, norm(entry.grads[0])]

    def _summary(self, value: Any, pictured: bool = False) -> parts.Summary | None:
        if value is None or self.detail == "shape":
            return None
        whole = pictured or len(self.entries) <= _MANY
        return summary(value, detail=self.detail if whole else "summary")

    # Edges

    def _edges(self, number: int) -> list[parts.Edge]:
        entry = self.entries[number]
        found = []
        for slot, one in enumerate(entry.inputs):
            if isinstance(one, Literal):
                continue
            made = parts.Edge(one[0], number, slot, one[1] or None)
            sent = entry.sent.get(slot)
            if sent is not None and self.detail != "shape":
                made.contribution = self._sent(sent)
            if self.entries[one[0]].requires_grad:
                self._derive(made, entry, slot, sent)
            found.append(made)
        return found

    def _sent(self, sent: Any) -> parts.Summary:
        if np.size(sent) <= SMALL:
            short = self._summary(sent)
            if short is not None and short.v is not None:
                return short
        return counts(sent)

    def _derive(self, made: parts.Edge, entry: Entry, slot: int, sent: Any) -> None:
        """Add the local derivative of an edge, its rule, and what became of it."""
        node = entry.node
        if entry.port:
            made.local = parts.Local(v=1.0) if sent is not None and np.ndim(sent) == 0 else None
            return
        rule = node.op.gradient(slot)
        if isinstance(rule, NoGradient | Unsupported) or not node.avals[0].is_floating:
            return
        local = made.local = parts.Local(text=self._rule(entry, slot))
        if entry.values is None or self.detail == "shape":
            return
        partial = self.partial(entry, slot)
        if partial is not None:
            short = self._summary(partial)
            if np.ndim(partial) == 0:
                local.v = None if short is None else short.v
            else:
                local.value = short
            made.absorbed = _absorbed(entry, partial)
        self._stretch(local, entry, sent)

    def _rule(self, entry: Entry, slot: int) -> str | None:
        """The rule of an edge as text; what it reads is noted as kept for it."""
        names = ["" if isinstance(one, Literal) else self.labels[one[0]] for one in entry.inputs]
        number = self.numbers[id(entry.node)]
        law = formula.local_rule(entry.node, slot, names, self.labels[number])
        read = [entry.inputs[i] for i in sorted(law.reads)]
        places = [one[0] for one in read if not isinstance(one, Literal)]
        for place in [*places, *([number] if law.reads_output else ())]:
            self.kept[place].setdefault(number)
        return law.text

    def _stretch(self, local: parts.Local, entry: Entry, sent: Any) -> None:
        """Note how much longer the contribution is than what arrived, and the axes summed."""
        single = len(entry.node.avals) == 1
        if sent is None or not single or np.ndim(entry.grads[0]) + np.ndim(sent) == 0:
            return
        upstream = norm(entry.grads[0])
        local.gain = norm(sent) / upstream if upstream else None
        elementwise = entry.node.op.elementwise
        local.summed = _summed(np.shape(entry.grads[0]), np.shape(sent), elementwise)

    def partial(self, entry: Entry, slot: int) -> Any:
        """The local derivative on an edge where it is a number for each element; else None."""
        node, op = entry.node, entry.node.op
        xs = entry.input_values(self.entries)
        y = entry.values[0] if entry.values is not None and len(node.avals) == 1 else None
        if y is None:
            return None
        with np.errstate(all="ignore"):
            if op.partials is not None:
                rule = op.gradient(slot)
                value = partial_value(rule, y, xs, node)
                return np.asarray(value, np.result_type(node.avals[0].dtype))[()]
            if np.ndim(y) == np.ndim(xs[slot]) == 0:
                one = node.avals[0].dtype.type(1)
                common = None if op.common is None else op.common(one, y, *xs, **node.attrs)
                return pulled_back(node, slot, one, y, xs, common, absorb.ref)
        return None


def _absorbed(entry: Entry, partial: Any) -> int | None:
    """In how many elements an upstream of exactly 0 met a slope that is not finite."""
    if not entry.grads or entry.grads[0] is None or entry.node.op.selects:
        return None
    bad = ~np.isfinite(np.asarray(partial, np.float64))
    return int((bad & (np.asarray(entry.grads[0]) == 0)).sum()) or None


def _bytes(value: Any) -> int:
    return int(getattr(value, "nbytes", 8))


def _summed(given: tuple[int, ...], wanted: tuple[int, ...], elementwise: bool) -> list[int] | None:
    """The axes over which broadcasting was undone."""
    if not elementwise or given == wanted:
        return None
    missing = len(given) - len(wanted)
    return [
        axis
        for axis, n in enumerate(given)
        if axis < missing or (wanted[axis - missing] == 1 and n != 1)
    ] or None


class _Files:
    """The used lines of source files, gathered as nodes are written."""

    def __init__(self) -> None:
        self.used: dict[str, set[int]] = {}
        self.blocks: list[tuple[str, int, int]] = []

    def use(self, node: GraphNode) -> None:
        place = _readable(node)
        if place is not None:
            self.used.setdefault(place.file, set()).add(place.line)

    def sources(self) -> list[parts.Source]:
        found = []
        for file, lines in self.used.items():
            text = [line.rstrip("\r\n") for line in linecache.getlines(file)]
            for first, last in _runs(sorted(lines), len(text)):
                self.blocks.append((file, first, last))
                found.append(parts.Source(_shown(file), first, text[first - 1 : last]))
        return found

    def at(self, node: GraphNode) -> list[int] | None:
        """[source, line], once the sources stand."""
        place = _readable(node)
        for number, (file, first, last) in enumerate(self.blocks):
            if place is not None and file == place.file and first <= place.line <= last:
                return [number, place.line]
        return None


def _readable(node: GraphNode) -> SourcePlace | None:
    """Where a node was written, if that line can be read."""
    place = None if node.raw_source is None else _place(node.raw_source)
    return place if place is not None and linecache.getline(place.file, place.line) else None


_place = lru_cache(maxsize=4096)(place_of)


def _runs(lines: list[int], end: int) -> list[tuple[int, int]]:
    """The used lines with their neighbours, as blocks that do not meet."""
    blocks: list[tuple[int, int]] = []
    for line in lines:
        first, last = max(1, line - _AROUND), min(end, line + _AROUND)
        if blocks and first <= blocks[-1][1] + 1:
            blocks[-1] = blocks[-1][0], last
        else:
            blocks.append((first, last))
    return blocks


def _shown(file: str) -> str:
    """A file relative to the working directory, or its bare name: never an absolute path."""
    path = os.path.relpath(file) if os.path.isabs(file) else file
    path = path.replace(os.sep, "/")
    return path.rsplit("/", 1)[-1] if path.startswith("..") or os.path.isabs(path) else path
