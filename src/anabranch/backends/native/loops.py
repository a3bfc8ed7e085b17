"""A loop nest over the elements of some arrays, as one IR function.

Axes through which every array can be walked with one step are joined first. The innermost axis
runs over vectors; its rest is one narrower, masked vector of the same instructions.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from anabranch.backends.native.access import Access
from anabranch.backends.native.chunked import STRIP, Bases, ChunkWriter
from anabranch.backends.native.emit import (
    Emitter,
    Val,
    memory_type,
    register_bytes,
    register_type,
)
from anabranch.backends.native.lowering import element, is_reduction
from anabranch.backends.native.ordering import ordered
from anabranch.backends.native.schedule import Loop, Place, Schedule
from anabranch.backends.native.view import Strides, row_major
from anabranch.core.aval import Shape
from anabranch.core.dtype import DType
from anabranch.core.identity import attrs_key, edge_key
from anabranch.core.node import Literal, Node


class LoopCode(ChunkWriter):
    """The IR function of one loop.

    Attributes:
        pointers: the values whose memory it takes, one pointer each, in order.
        text: the function of the pointers. Where the loop is cut, the function of one chunk: it
            takes where the pointers lie, after them that of the sums, and the chunk's number; and
            `join_...`, which joins these sums.
    """

    def __init__(
        self, name: str, loop: Loop, schedule: Schedule, vector_bytes: int, declared: set[str]
    ) -> None:
        super().__init__(declared)
        self.name = name
        self.loop = loop
        self._schedule = schedule
        self._reads: dict[Any, int] = {}  # what a body asks for: its place among the accesses
        self._accesses: list[Access] = []
        self._stores: list[tuple[Node, int]] = []
        self._turns = {node.id: turn for turn, node in enumerate(loop.nodes)}
        self._rows: list[tuple[Any, ...]] = []
        self._gather_accesses()
        self._slots = {key: i for i, key in enumerate(dict.fromkeys(a.key for a in self._accesses))}
        self.pointers = list(self._slots)
        self._dims, self._steps = self._walk()
        self._lanes = self._width(vector_bytes)
        self._divide()

    @functools.cached_property
    def text(self) -> str:
        """The function, written when it is asked for: of most loops there is an equal one."""
        if self.cut is not None:
            self._begin_chunk(self.cut)
        self._write()
        text = self._text(f"define void @{self.name}({self._arguments()})")
        return f"{text}\n{self._joining()}" if self._parts else text

    def _arguments(self) -> str:
        if self.cut is not None:
            return "ptr %frame, i64 %chunk"
        return ", ".join(f"ptr %p{i}" for i in range(len(self.pointers)))

    def signature(self) -> tuple[Any, ...]:
        """What the text follows from, but for its name: equal for loops that can share it.

        Ops and avals are told apart as objects, which the graph keeps for so long.
        """
        stores = [(self._turns[node.id], i) for node, i in self._stores]
        accesses = [(self._slots[a.key], a.dtype, a.offset, a.strides) for a in self._accesses]
        return self.loop.space, tuple(accesses), tuple(self._rows), tuple(stores)

    def _walk(self) -> tuple[Sequence[int], Sequence[Sequence[int]]]:
        """The lengths of the axes, and for each access its steps."""
        return joined(self.loop.space, [access.strides for access in self._accesses])

    @property
    def order(self) -> str:
        """The loops, outermost first, and how many elements the innermost takes at once."""
        lengths = " x ".join(map(str, self._dims)) or "1"
        return lengths if self._lanes == 1 else f"{lengths}, {self._lanes} at once"

    # What is read and written

    def _gather_accesses(self) -> None:
        """The accesses, and a row for each node of what its code follows from."""
        moved, stored = self._schedule.moved, self._schedule.stored
        for node in self.loop.nodes:
            aval = node.avals[0]
            if node.id in moved:
                self._reads[node.id] = i = self._access(moved[node.id], aval.dtype)
                self._rows.append(("moved", i, id(aval)))
            else:
                operands = [self._read(edge) for edge in node.inputs]
                attrs = attrs_key(node) if node.attrs else ""
                self._rows.append((id(node.op), id(aval), attrs, *operands))
        for node in self.loop.nodes:
            if (node.id, 0) in stored:
                place = self._schedule.places[node.id, 0]
                strides = self._result_strides(node, place)
                dtype, offset = node.avals[0].dtype, place.view.offset
                self._accesses.append(Access(place.base, dtype, offset, strides))
                self._stores.append((node, len(self._accesses) - 1))

    def _read(self, edge: Any) -> Any:
        """A number's bits, the place in the loop, or an access, made if need be, and the aval."""
        if type(edge) is Literal:
            return edge_key(edge)
        if self._is_here(edge):
            return self._turns[edge.node.id]
        key = (edge.node.id, edge.index)
        i = self._reads.get(key)
        if i is None:
            i = self._reads[key] = self._access(self._schedule.places[key], edge.aval.dtype)
        return i, id(edge.aval)

    def _is_here(self, edge: Any) -> bool:
        return edge.node.id in self._turns and not is_reduction(edge.node)

    def _access(self, place: Place, dtype: DType) -> int:
        view = place.view.broadcast_to(self.loop.space)
        self._accesses.append(Access(place.base, dtype, view.offset, view.strides))
        return len(self._accesses) - 1

    def _result_strides(self, node: Node, place: Place) -> Strides:
        if not is_reduction(node):
            view = place.view.reshape(self.loop.space)  # what is moved runs over another shape
            assert view is not None
            return view.strides
        axes = node.attrs["axes"]
        kept = tuple(1 if a in axes else n for a, n in enumerate(self.loop.space))
        return tuple(0 if a in axes else s for a, s in enumerate(row_major(kept)))

    def _width(self, vector_bytes: int) -> int:
        """How many elements the body takes at once."""
        sizes = [register_bytes(access.dtype) for access in self._accesses]
        sizes += [register_bytes(node.avals[0].dtype) for node in self.loop.nodes]
        lanes = 2 * vector_bytes // max(sizes)
        length = max(self._dims[-1], 1) if self._dims else 1
        while lanes >= 2 * length:
            lanes //= 2
        return lanes

    # Writing

    def _write(self) -> None:
        bases = {i: self._start(i) for i in range(len(self._accesses))}
        self._fill_neutral(bases)
        if 0 not in self.loop.space:
            self._nest(0, bases)

    def _nest(self, depth: int, bases: Bases) -> None:
        """The loops from this axis inward."""
        if depth >= len(self._dims) - 1:
            self._innermost(bases)
            return
        count = self._count if self._is_cut(depth) else self._dims[depth]
        with self._counted(count) as counter:
            inner = {
                i: self._stepped(base, i, self._steps[i][depth], counter)
                for i, base in bases.items()
            }
            self._nest(depth + 1, inner)

    def _stepped(self, base: str, access: int, step: int, counter: str) -> str:
        return self._moved_on(base, self._accesses[access].dtype, self._times(counter, step))

    # The innermost axis

    def _innermost(self, bases: Bases) -> None:
        length = self._dims[-1] if self._dims else 1
        sums = [
            (node, i)
            for node, i in self._stores
            if is_reduction(node) and self._step(i) == 0 and self._dims
        ]
        is_cut = self._is_cut(len(self._dims) - 1)
        if not sums or (length <= 2 * STRIP and not is_cut):
            self._strip(bases, length, sums)
            return
        with self._counted(self._count if is_cut else length // STRIP) as counter:
            inner = {
                i: self._stepped(base, i, STRIP * self._step(i), counter)
                for i, base in bases.items()
            }
            self._strip(inner, STRIP, sums)
        if length % STRIP:
            with self._in_last_chunk(is_cut):
                done = self._count if is_cut else str(length // STRIP)
                rest = {
                    i: self._stepped(base, i, STRIP * self._step(i), done)
                    for i, base in bases.items()
                }
                self._strip(rest, length % STRIP, sums)

    def _step(self, access: int) -> int:
        return self._steps[access][-1] if self._dims else 0

    def _strip(self, bases: Bases, length: int, sums: Sequence[tuple[Node, int]]) -> None:
        """So many elements along the innermost axis; what a chunk has of them, if that is cut."""
        whole, rest = divmod(length, self._lanes)
        totals: dict[int, Val] = {}
        if not sums and self._is_cut(len(self._dims) - 1):
            self._vectors(bases, self._count, sums)
            with self._in_last_chunk(rest > 0):
                if rest:
                    self._tail(bases, self._times(self._count, self._lanes), rest, sums, totals)
            return
        if whole:
            totals = self._vectors(bases, whole, sums)
        if rest:
            self._tail(bases, str(whole * self._lanes), rest, sums, totals)
        for node, i in sums:
            self._add_to_memory(node, bases[i], totals[i])

    def _tail(
        self,
        bases: Bases,
        start: str,
        rest: int,
        sums: Sequence[tuple[Node, int]],
        totals: dict[int, Val],
    ) -> None:
        """The elements after the last full vector; they join the totals."""
        lanes = 1
        while lanes < rest:
            lanes *= 2
        e = self._emitter(lanes)
        values = self._body(e, bases, start, rest, self._spread(e, bases))
        for node, i in sums:
            part = self._reduction(node).masked(e, values[node.id], rest)
            found = self._total(e, node, part)
            self._take(e)
            totals[i] = self._joined(node, totals[i], found) if i in totals else found
        self._take(e)

    def _vectors(
        self, bases: Bases, whole: int | str, sums: Sequence[tuple[Node, int]]
    ) -> dict[int, Val]:
        """So many full vectors; gives the total of each reduction over them."""
        e = self._emitter(self._lanes)
        spread = self._spread(e, bases)
        self._take(e)
        if whole == 1:
            values = self._body(e, bases, "0", e.lanes, spread)
            totals = {i: self._total(e, node, values[node.id]) for node, i in sums}
            self._take(e)
            return totals
        before = self._block
        end = whole * e.lanes if isinstance(whole, int) else self._times(whole, e.lanes)
        with self._counted(end, by=e.lanes) as counter:
            place = len(self._lines)
            held = {i: Val(self._name(), node.avals[0].dtype) for node, i in sums}
            values = self._body(e, bases, counter, e.lanes, spread)
            grown = {
                i: self._reduction(node).joined(e, held[i], values[node.id]) for node, i in sums
            }
            e.lines[:] = ordered(e.lines)
            self._take(e)
            for node, i in sums:
                kind = e.type(register_type(node.avals[0].dtype))
                start = self._reduction(node).start(e, node.avals[0].dtype).text
                phi = f"  {held[i].text} = phi {kind} [{start}, %{before}], "
                self._lines.insert(place, phi + f"[{grown[i].text}, %{self._block}]")
        totals = {i: self._total(e, node, grown[i]) for node, i in sums}
        self._take(e)
        return totals

    # Bodies

    def _spread(self, e: Emitter, bases: Bases) -> dict[int, Val]:
        """What does not change along the innermost axis, in every lane."""
        spread = {}
        for i in self._reads.values():
            if self._step(i) == 0:
                access = self._accesses[i]
                kind = memory_type(access.dtype)
                one = e.once(f"load {kind}, ptr {bases[i]}, align {access.dtype.itemsize}")
                spread[i] = e.from_memory(e.in_every_lane(kind, one), access.dtype)
        return spread

    def _body(
        self, e: Emitter, bases: Bases, index: str, count: int, spread: dict[int, Val]
    ) -> dict[int, Val]:
        """Every node for the elements from `index` on; `count` of the lanes are real."""
        loaded = dict(spread)
        for i in self._reads.values():
            if i not in loaded:
                loaded[i] = self._accesses[i].load(e, bases[i], index, self._step(i), count)
        values: dict[int, Val] = {}
        for node in self.loop.nodes:
            if node.id in self._schedule.moved:
                values[node.id] = loaded[self._reads[node.id]]
                continue
            xs = [self._operand(e, edge, loaded, values) for edge in node.inputs]
            if is_reduction(node):
                values[node.id] = e.convert(xs[0], node.avals[0].dtype)
            else:
                values[node.id] = element(e, node, xs)
        for node, i in self._stores:
            if not is_reduction(node):
                self._accesses[i].store(e, bases[i], index, self._step(i), count, values[node.id])
            elif self._step(i) != 0 or not self._dims:
                self._accumulate(e, node, i, bases[i], index, count, values[node.id])
        return values

    def _operand(
        self, e: Emitter, edge: Any, loaded: dict[int, Val], values: dict[int, Val]
    ) -> Val:
        if isinstance(edge, Literal):
            found = e.number(edge.value, edge.aval.dtype)
        elif self._is_here(edge):
            found = values[edge.node.id]
        else:
            found = loaded[self._reads[edge.node.id, edge.index]]
        return Val(found.text, found.dtype, edge.aval.weak)

    # Reductions

    def _total(self, e: Emitter, node: Node, value: Val) -> Val:
        return self._reduction(node).across(e, value, self._emitter)

    def _joined(self, node: Node, x: Val, y: Val) -> Val:
        e = self._emitter(1)
        joined = self._reduction(node).joined(e, x, y)
        self._take(e)
        return joined

    def _add_to_memory(self, node: Node, base: str, total: Val) -> None:
        e = self._emitter(1)
        kind, size = memory_type(total.dtype), total.dtype.itemsize
        old = e.from_memory(e.once(f"load {kind}, ptr {base}, align {size}"), total.dtype)
        new = self._reduction(node).joined(e, old, total)
        e.lines.append(f"  store {kind} {e.to_memory(new)}, ptr {base}, align {size}")
        self._take(e)

    def _accumulate(
        self, e: Emitter, node: Node, i: int, base: str, index: str, count: int, value: Val
    ) -> None:
        """Join to what memory holds, lane by lane."""
        access, step = self._accesses[i], self._step(i)
        old = access.load(e, base, index, step, count)
        new = self._reduction(node).joined(e, old, value)
        access.store(e, base, index, step, count, new)


def joined(space: Shape, strides: Sequence[Strides]) -> tuple[list[int], list[list[int]]]:
    """Axes joined where every array goes through both in one step: lengths, steps by array."""
    lengths: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for axis, length in enumerate(space):
        if length == 1:
            continue
        if lengths and all(
            mine[-1] == its[axis] * length for mine, its in zip(steps, strides, strict=True)
        ):
            lengths[-1] *= length
            for mine, its in zip(steps, strides, strict=True):
                mine[-1] = its[axis]
        else:
            lengths.append(length)
            for mine, its in zip(steps, strides, strict=True):
                mine.append(its[axis])
    return lengths, steps
