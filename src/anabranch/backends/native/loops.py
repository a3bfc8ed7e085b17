"""A loop nest over the elements of some arrays, as one IR function.

Axes through which every array can be walked with one step are joined first. The innermost axis
runs over vectors; its rest is one narrower, masked vector of the same instructions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.backends.native.access import Access
from anabranch.backends.native.checked import CheckedWriter
from anabranch.backends.native.chunked import Bases
from anabranch.backends.native.contraction import TakenUp, taken_up
from anabranch.backends.native.emit import (
    Val,
    register_bytes,
    register_type,
)
from anabranch.backends.native.lowering import is_reduction
from anabranch.backends.native.ordering import ordered
from anabranch.backends.native.partition import STRIP
from anabranch.backends.native.schedule import Loop, Place, Schedule
from anabranch.backends.native.view import Strides, row_major
from anabranch.core.aval import Shape
from anabranch.core.dtype import DType
from anabranch.core.identity import attrs_key, edge_key
from anabranch.core.node import Literal, Node
from anabranch.core.once import once


class LoopCode(CheckedWriter):
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
        self._careful: list[str] = []
        self._turns = {node.id: turn for turn, node in enumerate(loop.nodes)}
        self._rows: list[tuple[Any, ...]] = []
        self._taken_up = self._contractions()
        self._products = {taken.product.id for taken in self._taken_up.values()}
        self._gather_accesses()
        self._slots = {key: i for i, key in enumerate(dict.fromkeys(a.key for a in self._accesses))}
        self.pointers = list(self._slots)
        self._dims, self._steps = self._walk()
        self._lanes = self._width(vector_bytes)
        self._divide()

    @once
    def text(self) -> str:
        """The function, written when it is asked for: of most loops there is an equal one."""
        if self.cut is not None:
            self._begin_chunk(self.cut)
        self._write()
        self._lines[:0] = self._room_of_sums()
        texts = [self._text(f"define void @{self.name}({self._arguments()})")]
        if self._parts:
            texts.append(self._joining())
        return "\n".join([*texts, *self._careful])

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
        """The loops, outermost first, how many elements the innermost takes at once, the chunks."""
        told = " x ".join(map(str, self._dims)) or "1"
        if self._lanes > 1:
            told += f", {self._lanes} at once"
        if self._taken_up:
            told += f", {len(self._taken_up)} of the products rounded with their sums"
        if self.cut is not None:
            told += f", in {self.cut.chunks} chunks"
            told += "" if self.cut.wakes else " for threads that are awake"
        return told

    def _contractions(self) -> dict[int, TakenUp]:
        if not self._schedule.contracts:
            return {}
        return taken_up(self.loop.nodes, self._schedule.moved, self._schedule.stored)

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
        with self._counted(self._turns_of(depth)) as counter:
            inner = {
                i: self._stepped(base, i, self._steps[i][depth], counter)
                for i, base in bases.items()
            }
            self._nest(depth + 1, inner)

    def _turns_of(self, depth: int) -> str | int:
        """How often the loop over this axis turns, at least once."""
        return self._count if self._is_cut(depth) else self._dims[depth]

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
        if is_cut and self.cut is not None and self.cut.unit == self._lanes:
            self._vectors_of_chunk(bases, length % self._lanes, sums)
            return
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

    def _vectors_of_chunk(self, bases: Bases, rest: int, sums: Sequence[tuple[Node, int]]) -> None:
        """The full vectors of this chunk; and in the last one the elements behind them."""
        self._add_all(bases, sums, self._vectors(bases, self._count, sums))
        if rest:
            with self._if(self._is_last):
                totals: dict[int, Val] = {}
                self._tail(bases, self._times(self._count, self._lanes), rest, sums, totals)
                self._add_all(bases, sums, totals)

    def _strip(self, bases: Bases, length: int, sums: Sequence[tuple[Node, int]]) -> None:
        """So many elements along the innermost axis."""
        whole, rest = divmod(length, self._lanes)
        totals: dict[int, Val] = {}
        if whole:
            totals = self._vectors(bases, whole, sums)
        if rest:
            self._tail(bases, str(whole * self._lanes), rest, sums, totals)
        self._add_all(bases, sums, totals)

    def _add_all(
        self, bases: Bases, sums: Sequence[tuple[Node, int]], totals: dict[int, Val]
    ) -> None:
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
            if self._is_checked(whole):
                grown = self._checked_turn(e, bases, counter, spread, held, sums)
            else:
                values = self._body(e, bases, counter, e.lanes, spread)
                grown = self._grown(e, held, values, sums)
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
