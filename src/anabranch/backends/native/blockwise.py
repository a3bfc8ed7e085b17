"""A loop over one block of a product's result, as soon as it is made and while it is near."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.backends.native.loops import LoopCode
from anabranch.backends.native.schedule import Loop, Schedule


@dataclass(frozen=True)
class Finish:
    """What is done with a product's result, block by block: a loop without sums over its shape."""

    loop: Loop
    schedule: Schedule
    vector_bytes: int


class BlockwiseCode(LoopCode):
    """The IR function of such a loop for blocks of so many columns: `(frame, row, column, rows)`.

    `first` is the place in the frame from which on the pointers lie; most blocks have `rows`. Each
    element is computed by the same instructions as in a loop over the whole, so its bits are the
    same.
    """

    def __init__(
        self, name: str, finish: Finish, declared: set[str], first: int, rows: int, columns: int
    ) -> None:
        self._first_pointer, self._block_size = first, (rows, columns)
        super().__init__(name, finish.loop, finish.schedule, finish.vector_bytes, declared)

    def _arguments(self) -> str:
        return "ptr %frame, i64 %row, i64 %column, i64 %rows"

    def _walk(self) -> tuple[Sequence[int], Sequence[Sequence[int]]]:
        return list(self._block_size), [list(access.strides) for access in self._accesses]

    def _turns_of(self, depth: int) -> str | int:
        return super()._turns_of(depth) if depth else "%rows"

    def _divide(self) -> None:
        self.time = self._time()
        self.cut, self._parts, self.scratch = None, {}, 0

    def _write(self) -> None:
        for i in range(len(self.pointers)):
            place = self._new(f"getelementptr ptr, ptr %frame, i64 {self._first_pointer + i}")
            self._line(f"%p{i} = load ptr, ptr {place}")
        super()._write()

    def _start(self, i: int) -> str:
        base, access = super()._start(i), self._accesses[i]
        for index, step in zip(("%row", "%column"), access.strides, strict=True):
            base = self._moved_on(base, access.dtype, self._times(index, step))
        return base
