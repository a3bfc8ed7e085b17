"""The record: what one run computed, as arrays, in the order in which it did.

A record refers to the arrays of the run and copies only what users can change, its leaves;
everything that is said about them is worked out when the record is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anabranch.core.bind import NUMBERS
from anabranch.core.graph import Graph
from anabranch.core.leaves import PARAMETER
from anabranch.core.node import Literal, Node
from anabranch.core.replay import replayed
from anabranch.diff.call import CALL
from anabranch.diff.region import Key, Step, dependents, key_of
from anabranch.diff.reverse import reverse

Place = tuple[int, int]  # an entry's number and one of its outputs
CALLED = "()"  # marks in a path of scopes the name of a graph that is called


@dataclass(slots=True)
class Entry:
    """One node of the run with its values, and what backward brought it.

    Attributes:
        node: the node of the graph that ran.
        inputs: for each slot the place that was read, or a literal.
        values: the outputs; None where nothing ran.
        scope: the path of scopes, innermost last.
        port: whether this is the input or the output of a part that is drawn opened.
        grads: for each output the whole cotangent; None where none arrived.
        sent: the contribution to each input slot that got one.
        name, variable: what the user called it, and a variable that holds it.
        held: what `.grad` holds, if that is not what the pass brought.
        earlier: of a leaf, the norms of its gradients in the passes that were seen before this one.
    """

    node: Node
    inputs: tuple[Place | Literal, ...]
    values: tuple[Any, ...] | None
    scope: tuple[str, ...] = ()
    name: str | None = None
    variable: str | None = None
    is_input: bool = False
    port: bool = False
    requires_grad: bool = False
    grads: list[Any] = field(default_factory=list)
    sent: dict[int, Any] = field(default_factory=dict)
    held: Any = None
    earlier: Sequence[float] = ()
    seconds: float | None = None

    @property
    def is_leaf(self) -> bool:
        return not self.inputs

    def input_values(self, entries: Sequence[Entry]) -> tuple[Any, ...]:
        """What went into the op."""
        return tuple(
            one.value if isinstance(one, Literal) else _value(entries[one[0]], one[1])
            for one in self.inputs
        )


def _value(entry: Entry, index: int) -> Any:
    return None if entry.values is None else entry.values[index]


@dataclass
class Record:
    """All entries of a run in forward order.

    Attributes:
        title: what the program is called, where it has a name.
        roots: the places of the results, the differentiated one first.
        backward: the entries whose rule ran, in order.
        seed: the cotangent that the backward pass started from; None without one.
        notes: kind, sentence and entry of what else there is to know.
        recorder: what filled it.
    """

    entries: list[Entry] = field(default_factory=list)
    title: str | None = None
    roots: list[Place] = field(default_factory=list)
    backward: list[int] = field(default_factory=list)
    seed: Any = None
    notes: list[tuple[str, str, int | None]] = field(default_factory=list)
    recorder: Recorder | None = None

    def add(self, entry: Entry) -> int:
        self.entries.append(entry)
        return len(self.entries) - 1


class Recorder:
    """Fills a record from nodes in forward order, opening `call` nodes on the way."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.places: dict[int, int] = {}  # of the nodes of the outermost graph
        self._parts: list[_Part] = []

    def place(self, edge: Any) -> Place | Literal:
        """Where the value of an edge of the outermost graph lies."""
        return edge if isinstance(edge, Literal) else (self.places[edge.node.id], edge.index)

    def add(self, node: Node, values: tuple[Any, ...] | None, **more: Any) -> Entry:
        """The entry of a node whose inputs have been added."""
        inputs = tuple(map(self.place, node.inputs))
        if values is not None:
            values = tuple(map(strong, values))
        scope = tuple(node.scope.split("/")) if node.scope else ()
        if node.op is CALL:
            inputs = self._opened(node, inputs, values, scope)
        entry = Entry(node, inputs, values, scope, port=node.op is CALL, **more)
        self.places[node.id] = self.record.add(entry)
        return entry

    def _opened(
        self,
        node: Node,
        inputs: Sequence[Any],
        values: tuple[Any, ...] | None,
        scope: tuple[str, ...],
    ) -> tuple[Any, ...]:
        """The inside of a call: its inputs as ports, its nodes, and where its outputs lie."""
        part: Graph = node.attrs["graph"]
        inner = Recorder(self.record)
        inside = (*scope, part.name + CALLED)
        env: dict[int, tuple[Any, ...]] = {}
        if values is not None:
            given = Entry(node, tuple(inputs), None).input_values(self.record.entries)
            with np.errstate(all="ignore"):
                env = replayed(part, given)
        for parameter, place in zip(part.parameters, inputs, strict=True):
            entry = Entry(
                parameter, (place,), env.get(parameter.id), inside, parameter.name, port=True
            )
            inner.places[parameter.id] = self.record.add(entry)
        for one in part.order(part.outputs):
            if one.op is not PARAMETER:
                entry = inner.add(one, env.get(one.id), name=one.name)
                entry.scope = (*inside, *entry.scope)
        self._parts.append(_Part(node, part, env, inner))
        return tuple(map(inner.place, part.outputs))

    def walk_back(self, steps: Sequence[Step], cts: dict[Key, Any], wanted: set[int]) -> None:
        """One backward pass over the steps, noting each contribution as it arrives.

        `cts` holds the cotangents to start from and is filled; the pass is `diff.reverse`, so its
        numbers are those of any other.
        """
        entries, turns = self.record.entries, self.record.backward
        parts = {part.node.id: part for part in self._parts}

        def note(node: Node, slot: int, part: Any) -> None:
            number = self.places[node.id]
            if not turns or turns[-1] != number:
                self._turn(number, parts.get(node.id), cts)
            opened = parts.get(node.id)
            entry = entries[number if opened is None else opened.port(slot)]
            entry.sent[0 if opened is not None else slot] = part

        with np.errstate(all="ignore"):
            reverse(steps, cts, wanted, note)
        for node_id, number in self.places.items():
            entry = entries[number]
            keys: list[Key] = [node_id, *((node_id, i) for i in range(1, len(entry.node.avals)))]
            entry.grads = [cts.get(key) for key in keys]
            entry.requires_grad = node_id in wanted

    def _turn(self, number: int, part: _Part | None, cts: dict[Key, Any]) -> None:
        turns = self.record.backward
        if part is None:
            turns.append(number)
        elif number not in turns[-len(part.inner.places) - 1 :]:
            part.walk_back(number, self.record, cts)


def strong(value: Any) -> Any:
    """A value that has a dtype: numbers of a run come as Python's own."""
    return np.asarray(value)[()] if type(value) in NUMBERS else value


@dataclass
class _Part:
    """The inside of one call: its graph, the values in it, and where they lie in the record."""

    node: Node
    graph: Graph
    env: dict[int, tuple[Any, ...]]
    inner: Recorder

    def port(self, slot: int) -> int:
        return self.inner.places[self.graph.parameters[slot].id]

    def walk_back(self, number: int, record: Record, outer: dict[Key, Any]) -> None:
        """The pass through the part, as the derivative rule of `call` does it."""
        call = record.entries[number]
        record.backward.append(number)
        needed = self.graph.order(self.graph.outputs)
        edges = [edge for node in needed for edge in node.outputs]
        within = dependents(edges, self.graph.parameters)
        cts: dict[Key, Any] = {}
        for slot, edge in enumerate(self.graph.outputs):
            ct = outer.get((self.node.id, slot) if slot else self.node.id)
            if ct is None:
                continue
            key = key_of(edge)
            cts[key] = ct if key not in cts else cts[key] + ct
            call.sent[slot] = ct
        steps = [
            Step(node, self._values(node.outputs), self._inputs(node))
            for node in needed
            if node.id in within and node.inputs
        ]
        self.inner.walk_back(steps, cts, within)
        ports = [self.port(slot) for slot in range(len(self.graph.parameters))]
        record.backward += [p for p in ports if any(g is not None for g in record.entries[p].grads)]

    def _values(self, outputs: Iterable[Any]) -> Any:
        found = tuple(self.env[edge.node.id][edge.index] for edge in outputs)
        return found if len(found) > 1 else found[0]

    def _inputs(self, node: Node) -> tuple[Any, ...]:
        return tuple(
            e.value if isinstance(e, Literal) else self.env[e.node.id][e.index] for e in node.inputs
        )
