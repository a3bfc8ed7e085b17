"""What a loop does besides going round: its chunks, their own sums, what sums begin with."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from anabranch.backends.native.access import Access
from anabranch.backends.native.emit import Emitter, Val, memory_type, register_type
from anabranch.backends.native.lowering import is_heavy, is_reduction
from anabranch.backends.native.partition import Cut, cut, time_of
from anabranch.backends.native.reductions import REDUCTIONS, Reduction
from anabranch.backends.native.schedule import Loop, Schedule, size_of
from anabranch.backends.native.writer import Writer
from anabranch.core.dtype import DType
from anabranch.core.node import Node

Bases = dict[int, str]


class ChunkWriter(Writer):
    """Writes what belongs to one chunk of a loop, or to a loop that is not cut.

    Attributes:
        cut: how the loop is cut into chunks; None where it is not.
        scratch: bytes that the chunks' own sums take.
        time: about how long it takes, in ns.
    """

    name: str
    loop: Loop
    pointers: Sequence[tuple[int, int]]
    _slots: Mapping[tuple[int, int], int]  # by key, its place among the pointers
    _schedule: Schedule
    _accesses: list[Access]
    _stores: list[tuple[Node, int]]
    _dims: Sequence[int]
    _steps: Sequence[Sequence[int]]
    _lanes: int

    def _divide(self) -> None:
        """Decide on the chunks."""
        self.time = self._time()
        self.cut = self._cut()
        self._parts = self._placed_parts()  # of an access that each chunk has for itself: where
        self._first, self._count = "0", ""  # of the units of this chunk: the first, how many
        self._is_last = ""  # whether it is the last chunk

    def _time(self) -> float:
        # The others only say where elements lie.
        nodes = [
            node
            for node in self.loop.nodes
            if node.id not in self._schedule.moved and (node.op.elementwise or is_reduction(node))
        ]
        sizes = [(node.avals[0].dtype.itemsize, is_heavy(node.op)) for node in nodes]
        return time_of(math.prod(self.loop.space), self._bytes_of_one(), sizes)

    def _bytes_of_one(self) -> int:
        """Read and written for each element."""
        return sum(access.dtype.itemsize for access in self._accesses)

    def _cut(self) -> Cut | None:
        """Sums that chunks have for themselves must be small beside what is read."""
        if not self._dims or 0 in self.loop.space:
            return None
        innermost = len(self._dims) - 1
        sums = [(node, i) for node, i in self._stores if is_reduction(node)]
        parts = [
            sum(size_of(n.avals[0]) for n, i in sums if self._steps[i][axis] == 0)
            for axis in range(len(self._dims))
        ]
        is_summed = any(self._steps[i][innermost] == 0 for _, i in sums)
        read = max((access.dtype.itemsize for access in self._accesses), default=0)
        elements = math.prod(self.loop.space)
        bytes_, most = elements * self._bytes_of_one(), elements * read // 4
        return cut(self.time, bytes_, self._dims, self._lanes, is_summed, parts, most)

    def _placed_parts(self) -> dict[int, int]:
        """By access, the place of the chunks' sums in the scratch memory."""
        self.scratch = 0
        places: dict[int, int] = {}
        for node, i in self._stores:
            if self.cut is not None and is_reduction(node) and not self._steps[i][self.cut.axis]:
                places[i] = self.scratch
                self.scratch += self.cut.chunks * size_of(node.avals[0])
        return places

    def _load_pointers(self) -> None:
        for i in range(len(self.pointers) + bool(self._parts)):
            name = f"%p{i}" if i < len(self.pointers) else "%parts"
            place = self._new(f"getelementptr ptr, ptr %frame, i64 {i}")
            self._line(f"{name} = load ptr, ptr {place}")

    def _begin_chunk(self, made: Cut) -> None:
        self._load_pointers()
        self._first, each = self._times("%chunk", made.each), str(made.each)
        if made.lead:
            is_first = self._new("icmp eq i64 %chunk, 0")
            lead = self._new(f"select i1 {is_first}, i64 0, i64 {made.lead}")
            self._first = self._new(f"add i64 {self._first}, {lead}")
            each = self._new(f"sub i64 {made.each + made.lead}, {lead}")
        left = self._new(f"sub i64 {made.units}, {self._first}")
        self._is_last = self._new(f"icmp sle i64 {left}, {each}")
        self._count = self._new(f"select i1 {self._is_last}, i64 {left}, i64 {each}")

    def _start(self, i: int) -> str:
        """Where a chunk begins to walk through an array."""
        access = self._accesses[i]
        if i in self._parts:
            size = size_of(self._node_of(i).avals[0])
            own = self._new(f"add i64 {self._times('%chunk', size)}, {self._parts[i]}")
            return self._new(f"getelementptr i8, ptr %parts, i64 {own}")
        pointer = f"%p{self._slots[access.key]}"
        base = self._moved_on(pointer, access.dtype, str(access.offset))
        if self.cut is None:
            return base
        step = self._steps[i][self.cut.axis] * self.cut.unit
        return self._moved_on(base, access.dtype, self._times(self._first, step))

    def _node_of(self, i: int) -> Node:
        return next(node for node, place in self._stores if place == i)

    def _joining(self) -> str:
        """The function that joins the sums of the chunks, always in the same order."""
        assert self.cut is not None
        self._lines, self._block = [], "entry"
        self._load_pointers()
        for i, place in self._parts.items():
            node = self._node_of(i)
            dtype, step = node.avals[0].dtype, size_of(node.avals[0])
            parts = self._new(f"getelementptr i8, ptr %parts, i64 {place}")
            result = f"%p{self._slots[self._accesses[i].key]}"
            with self._counted(node.avals[0].size) as element:
                first = self._moved_on(parts, dtype, element)
                self._join_one(node, first, step, self._moved_on(result, dtype, element))
        return self._text(f"define void @join_{self.name}(ptr %frame)")

    def _join_one(self, node: Node, first: str, step: int, result: str) -> None:
        """One sum of each chunk, from `first` on every `step` bytes."""
        assert self.cut is not None
        e, dtype = self._emitter(1), node.avals[0].dtype
        start = self._loaded(e, first, dtype)
        self._take(e)
        before, kind = self._block, register_type(dtype)
        with self._counted(self.cut.chunks - 1) as turn:
            place = len(self._lines)
            total = Val(self._name(), dtype)
            number = self._new(f"add i64 {turn}, 1")
            part = self._new(f"getelementptr i8, ptr {first}, i64 {self._times(number, step)}")
            grown = self._reduction(node).joined(e, total, self._loaded(e, part, dtype))
            self._take(e)
            phi = f"  {total.text} = phi {kind} [{start.text}, %{before}], "
            self._lines.insert(place, phi + f"[{grown.text}, %{self._block}]")
        kept = e.to_memory(grown)
        self._take(e)
        self._line(f"store {memory_type(dtype)} {kept}, ptr {result}, align {dtype.itemsize}")

    def _loaded(self, e: Emitter, place: str, dtype: DType) -> Val:
        load = f"load {memory_type(dtype)}, ptr {place}, align {dtype.itemsize}"
        return e.from_memory(e.once(load), dtype)

    def _is_cut(self, axis: int) -> bool:
        return self.cut is not None and self.cut.axis == axis

    @contextmanager
    def _in_last_chunk(self, is_cut: bool) -> Iterator[None]:
        """What is left where units end; it has no place of its own in a loop that is not cut."""
        if not is_cut:
            yield
            return
        with self._if(self._is_last):
            yield

    def _reduction(self, node: Node) -> Reduction:
        return REDUCTIONS[node.op.lower]  # type: ignore[index]

    def _fill_neutral(self, bases: Bases) -> None:
        """Put what joins without effect where this chunk will add to memory."""
        for node, i in self._stores:
            if not is_reduction(node) or node.avals[0].size == 0:
                continue
            dtype = node.avals[0].dtype
            e = self._emitter(1)
            text = e.to_memory(self._reduction(node).start(e, dtype))
            self._take(e)
            kind = f"{memory_type(dtype)} {text}"
            if self.cut is None or i in self._parts:
                size = node.avals[0].size
                self._fill(i, [(size, 1)] if size > 1 else [], bases[i], kind)
                continue
            lengths: list[tuple[int | str, int]] = []
            for axis, step in enumerate(self._steps[i]):
                if step:
                    cut_ = axis == self.cut.axis
                    lengths.append((self._own_length() if cut_ else self._dims[axis], step))
            self._fill(i, lengths, bases[i], kind)

    def _own_length(self) -> str:
        """How many elements of the axis that is cut belong to this chunk."""
        assert self.cut is not None
        made = self.cut
        left = self._new(f"sub i64 {self._dims[made.axis]}, {self._times(self._first, made.unit)}")
        full = self._times(self._count, made.unit)
        return self._new(f"select i1 {self._is_last}, i64 {left}, i64 {full}")

    def _fill(self, i: int, lengths: Sequence[tuple[int | str, int]], base: str, kind: str) -> None:
        dtype = self._accesses[i].dtype
        if not lengths:
            self._line(f"store {kind}, ptr {base}, align {dtype.itemsize}")
            return
        (length, step), *others = lengths
        with self._counted(length) as counter:
            place = self._moved_on(base, dtype, self._times(counter, step))
            self._fill(i, others, place, kind)
