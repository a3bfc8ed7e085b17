"""What is not finite in a record: who produced it and why, in forward order, then backward.

A producer made NaN or infinity of what was not; a carrier passed it on. A NaN that an infinity
turned into is a consequence of the infinity, not a finding of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from anabranch.core.node import Literal
from anabranch.core.nonfinite import Diagnosis, diagnose, is_finite, largest_number
from anabranch.core.told import call_text, index_text, number_text, reason, way_out
from anabranch.diff.refusing import BadPart, bad_part
from anabranch.inspection.parts import Evidence, Finding
from anabranch.inspection.record import Entry, Record
from anabranch.inspection.summary import summary

MOST = 100  # producers that are followed to what they reach
BOUND = 1e6  # a magnitude from which on values count as grown


class Producer(NamedTuple):
    """An entry that produced what is not finite; without a diagnosis it came in with the data."""

    number: int
    output: int
    found: Diagnosis | None


class Search:
    """Looks through one record."""

    def __init__(self, record: Record, label: Callable[[int], str]) -> None:
        self.record = record
        self.entries = record.entries
        self.label = label
        self.bad = [_bad_outputs(entry) for entry in self.entries]
        self.readers: list[list[int]] = [[] for _ in self.entries]
        for number, entry in enumerate(self.entries):
            for one in entry.inputs:
                if not isinstance(one, Literal):
                    self.readers[one[0]].append(number)

    def findings(self) -> list[Finding]:
        """All of them: what reaches a result first, in forward order, then backward."""
        if any(entry.values is None for entry in self.entries):
            return []
        origins, consequences = self._origins()
        found = [self._forward(origin, consequences) for origin in origins]
        reaching = [one for one in found if one.reaches_root]
        if reaching:
            reaching[0].kind = f"first-{reaching[0].kind}"
        else:
            reaching = self._backward()
        return [*reaching, *(one for one in found if not one.reaches_root)]

    # Forward

    def _origins(self) -> tuple[list[Producer], set[int]]:
        """The producers, and the entries that made NaN of somebody else's infinity."""
        origins: list[Producer] = []
        consequences: set[int] = set()
        reached: set[int] = set()
        for number, entry in enumerate(self.entries):
            if not self.bad[number]:
                continue
            made = self._made_here(number, entry)
            follows = any(
                one[0] in reached and one[1] in self.bad[one[0]]
                for one in entry.inputs
                if not isinstance(one, Literal)
            )
            if follows:
                reached.add(number)
                if made is not None and made.found is not None and made.found.kind == "nan":
                    consequences.add(number)
                if made is None or made.found is None or not _from_finite(made.found):
                    continue
            if made is not None and len(origins) < MOST:
                origins.append(made)
                reached.add(number)
        return origins, consequences

    def _made_here(self, number: int, entry: Entry) -> Producer | None:
        assert entry.values is not None
        if entry.port:
            return None
        for output in sorted(self.bad[number]):
            y = entry.values[output]
            if entry.is_leaf:
                # An infinity in a constant is a mask more often than a mistake.
                if entry.is_input or np.isnan(np.asarray(y)).any():
                    return Producer(number, output, None)
                continue
            xs = entry.input_values(self.entries)
            found = diagnose(entry.node.op, xs, y, entry.node.attrs)
            if found is not None:
                return Producer(number, output, found)
            if any(_is_nan(one) for one in entry.inputs):
                return Producer(number, output, None)
        return None

    def _reached(self, number: int) -> list[int]:
        """Everything that is not finite because this entry is not, in forward order."""
        seen = {number}
        pending = [number]
        while pending:
            for reader in self.readers[pending.pop()]:
                if reader not in seen and self.bad[reader]:
                    seen.add(reader)
                    pending.append(reader)
        return sorted(seen - {number})

    def _forward(self, origin: Producer, consequences: set[int]) -> Finding:
        number, entry = origin.number, self.entries[origin.number]
        assert entry.values is not None
        y = np.asarray(entry.values[origin.output])
        reached = self._reached(number)
        roots = {place[0] for place in self.record.roots}
        becomes = next((i for i in reached if i in consequences), None)
        found = origin.found
        finding = Finding(
            kind="nan" if found is None and np.isnan(y).any() else "inf",
            about=number,
            node=number,
            phase="backward" if entry.node.origin is not None else "forward",
            cause="data" if found is None else found.cause,
            reaches=reached,
            reaches_root=bool(roots & {number, *reached}),
            becomes=becomes,
        )
        if found is None:
            self._tell_data(finding, y)
        else:
            self._tell(finding, entry, found, y)
        if becomes is not None:
            finding.proof = [*(finding.proof or ()), *self._turned(becomes)]
        return finding

    def _tell_data(self, finding: Finding, y: Any) -> None:
        bad = ~np.isfinite(y)
        finding.index = [int(i) for i in np.unravel_index(int(np.argmax(bad)), bad.shape)]
        finding.bad, finding.of = int(bad.sum()), y.size
        number = finding.node or 0
        what = _words(y[tuple(finding.index)])
        came = "came in with" if self.entries[number].is_leaf else "reads from its own line"
        finding.text = f"{self.label(number)} {came} {what}"
        finding.hint = way_out("data")

    def _tell(self, finding: Finding, entry: Entry, found: Diagnosis, y: Any) -> None:
        op = entry.node.op
        finding.kind = found.kind
        finding.index = list(found.at)
        finding.bad, finding.of = found.bad, found.of
        finding.text = reason(op, found, y.dtype)
        finding.hint = way_out(found.cause)
        finding.proof = self._operands(entry, found)
        call = call_text(op, [number_text(x) for x in found.operands])
        own = self.label(finding.node or 0) + index_text(found.at)
        made = f"{call} = {_words(found.value)}" if op.elementwise else None
        finding.proof.append(
            Evidence(own, v=found.value.item(), node=finding.node, index=list(found.at), note=made)
        )
        if found.cause == "overflow":
            self._tell_growth(finding, entry, y.dtype)

    def _operands(self, entry: Entry, found: Diagnosis) -> list[Evidence]:
        """Each operand at the bad element, with the range of all its elements."""
        proof = []
        for one, at in zip(entry.inputs, found.operands, strict=True):
            if isinstance(one, Literal):
                continue
            value = self.entries[one[0]].values
            assert value is not None
            array = np.asarray(value[one[1]])
            here = entry.node.op.elementwise
            index = _index_in(found.at, array.shape) if here else None
            proof.append(
                Evidence(
                    self.label(one[0]) + index_text(index or ()),
                    v=np.asarray(at).item(),
                    summary=summary(array, detail="summary") if array.ndim else None,
                    node=one[0],
                    index=index,
                    note=None if here else "largest magnitude",
                )
            )
        return proof

    def _turned(self, number: int) -> list[Evidence]:
        """How an infinity became NaN."""
        made = self._made_here(number, self.entries[number])
        if made is None or made.found is None:
            return []
        op, found = self.entries[number].node.op, made.found
        call = call_text(op, [number_text(x) for x in found.operands])
        label = self.label(number) + index_text(found.at)
        note = f"{call} = nan" if op.elementwise else found.cause
        return [Evidence(label, v=found.value.item(), node=number, index=list(found.at), note=note)]

    def _tell_growth(self, finding: Finding, entry: Entry, dtype: Any) -> None:
        """Say so if the values had grown step by step before they left the range."""
        chain = self.chain(finding.node or 0)
        bound = min(BOUND, largest_number(dtype) ** 0.5)
        grown = [i for i, top in chain if top > bound]
        if len(grown) < 3 or chain[0][1] < largest_number(dtype) ** 0.25:
            return
        first = grown[-1]
        factor = (chain[0][1] / dict(chain)[first]) ** (1 / (len(grown) - 1))
        finding.cause = "growth"
        finding.text = (
            f"{finding.text}; the values grew to that over {len(grown)} steps,"
            f" {number_text(factor)} times a step"
        )
        finding.hint = (
            "smaller weights: a standard deviation of 1 / sqrt(width) keeps the size of what"
            " passes through; or a normalisation between the layers"
        )
        proof = finding.proof or []
        label = f"first above {number_text(bound)}: {self.label(first)}"
        proof.append(Evidence(label, v=dict(chain)[first], node=first))
        proof.append(Evidence("growth a step", v=factor))
        finding.proof = proof

    def chain(self, number: int) -> list[tuple[int, float]]:
        """Back from an entry along its largest computed inputs, with their largest magnitudes."""
        found: list[tuple[int, float]] = []
        here = number
        while True:
            tops = [
                (self.top(one[0]), one[0])
                for one in self.entries[here].inputs
                if not isinstance(one, Literal) and not self.entries[one[0]].is_leaf
            ]
            if not tops:
                return found
            top, here = max(tops)
            found.append((here, top))

    def top(self, number: int) -> float:
        """The largest magnitude of an entry's finite elements."""
        values = self.entries[number].values
        array = np.abs(np.asarray(values[0] if values else 0.0).astype(np.float64))
        finite = array[np.isfinite(array)]
        return float(finite.max()) if finite.size else 0.0

    # Backward

    def _backward(self) -> list[Finding]:
        """The first contribution, or sum of them, that left the finite numbers."""
        for number in self.record.backward:
            entry = self.entries[number]
            arrived = [g for g in entry.grads if g is not None]
            if not all(map(is_finite, arrived)):
                return [self._sum_overflowed(number)]
            for slot, part in sorted(entry.sent.items()):
                if is_finite(part) or entry.port:
                    continue
                xs = entry.input_values(self.entries)
                assert entry.values is not None
                single = len(entry.node.avals) == 1
                y = entry.values[0] if single else entry.values
                ct = arrived[0] if single else tuple(arrived)
                found = bad_part(entry.node, slot, ct, y, xs, part)
                if found is not None:
                    return [self._sent_badly(number, slot, found)]
        for number, entry in enumerate(self.entries):
            if any(g is not None and not is_finite(g) for g in entry.grads):
                return [self._sum_overflowed(number)]
        return []

    def _edge(self, number: int, slot: int) -> int:
        """The position of an edge in the trace: edges are sorted by reader and slot."""
        before = sum(
            not isinstance(one, Literal) for e in self.entries[:number] for one in e.inputs
        )
        inputs = self.entries[number].inputs[:slot]
        return before + sum(not isinstance(one, Literal) for one in inputs)

    def _sent_badly(self, number: int, slot: int, found: BadPart) -> Finding:
        entry = self.entries[number]
        name = entry.node.op.name
        source = entry.inputs[slot]
        assert not isinstance(source, Literal)
        finding = Finding(
            kind=f"first-{found.kind}",
            about=source[0],
            node=number,
            phase="backward",
            cause=found.cause,
            edge=self._edge(number, slot),
            index=list(found.at),
            bad=found.bad,
            of=found.of,
            hint=way_out(found.cause),
            reaches=self._bad_gradients(),
            reaches_root=True,
        )
        where = index_text(found.at)
        own, operand = self.label(number), self.label(source[0])
        if found.local is None:
            finding.text = f"what {name} sends back is not finite though what arrived was"
            return finding
        values = self.entries[source[0]].values
        assert values is not None
        array = np.asarray(values[source[1]])
        index = _index_in(found.at, array.shape)
        at = array[tuple(index)]
        finding.proof = [
            Evidence(operand + index_text(index), v=at.item(), node=source[0], index=index),
            Evidence(f"upstream at {own}{where}", v=np.asarray(found.upstream).item()),
            Evidence("local derivative there", v=np.asarray(found.local).item()),
        ]
        if found.cause == "infinite-derivative":
            size = _words(found.local)
            finding.text = f"the derivative of {name} at {number_text(at)} is {size}"
        else:
            finding.text = (
                f"{number_text(found.upstream)} × {number_text(found.local)} is larger than"
                f" {array.dtype.name} holds"
            )
        return finding

    def _sum_overflowed(self, number: int) -> Finding:
        label = self.label(number)
        sent = [
            self.entries[i].sent[slot]
            for i in self.record.backward
            for slot, one in enumerate(self.entries[i].inputs)
            if not isinstance(one, Literal) and one[0] == number and slot in self.entries[i].sent
        ]
        finite = all(map(is_finite, sent)) and sent
        is_seed = number == self.record.roots[0][0] and not sent
        text = (
            f"the contributions to {label} are finite, their sum is not"
            if finite
            else f"the cotangent that the pass starts from at {label} is not finite"
            if is_seed
            else f"the gradient of {label} is not finite"
        )
        grads = [g for g in self.entries[number].grads if g is not None]
        return Finding(
            kind="first-nan" if any(np.isnan(np.asarray(g)).any() for g in grads) else "first-inf",
            about=number,
            node=number,
            phase="backward",
            cause="overflow" if finite else "data" if is_seed else "upstream",
            text=text,
            reaches=self._bad_gradients(),
            reaches_root=True,
        )

    def _bad_gradients(self) -> list[int]:
        return [
            number
            for number, entry in enumerate(self.entries)
            if any(g is not None and not is_finite(g) for g in entry.grads)
        ]


def _is_nan(one: Any) -> bool:
    """Whether an input is a NaN that stands in the program, written or folded there."""
    return isinstance(one, Literal) and not is_finite(one.value) and np.isnan(one.value)


def _bad_outputs(entry: Entry) -> frozenset[int]:
    return frozenset(i for i, y in enumerate(entry.values or ()) if not is_finite(y))


def _from_finite(found: Diagnosis) -> bool:
    return all(is_finite(x) for x in found.operands)


def _index_in(index: Sequence[int], shape: Sequence[int]) -> list[int]:
    """An index of a broadcast result, in an operand of this shape."""
    own = list(index)[len(index) - len(shape) :]
    return [0 if length == 1 else i for i, length in zip(own, shape, strict=True)]


def _words(value: Any) -> str:
    return "NaN" if np.isnan(value) else number_text(value)
