"""IR of one function, written line by line."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from anabranch.backends.native.emit import Emitter, memory_type
from anabranch.core.dtype import DType
from anabranch.core.late import LateModule

if TYPE_CHECKING:
    from anabranch.backends.native import mathematics
else:  # which entries do without
    mathematics = LateModule("anabranch.backends.native.mathematics")


class Writer:
    """Lines, names and blocks of a function; loops are `with` blocks.

    Attributes:
        declared: what the module must hold besides.
    """

    def __init__(self, declared: set[str]) -> None:
        self.declared = declared
        self._names = itertools.count()
        self._lines: list[str] = []
        self._block = "entry"

    def _text(self, head: str) -> str:
        return "\n".join([f"{head} {{", "entry:", *self._lines, "  ret void", "}"])

    def _line(self, text: str) -> None:
        self._lines.append(f"  {text}")

    def _name(self) -> str:
        return f"%v{next(self._names)}"

    def _new(self, text: str) -> str:
        name = self._name()
        self._line(f"{name} = {text}")
        return name

    def _label(self, label: str) -> None:
        self._lines.append(f"{label}:")
        self._block = label

    def _emitter(self, lanes: int) -> mathematics.Mathematics:
        return mathematics.Mathematics(lanes, self._names, self.declared)

    def _take(self, e: Emitter) -> None:
        """Put what the emitter has written here."""
        labels = [line[:-1] for line in e.lines if line.endswith(":")]
        self._block = labels[-1] if labels else self._block
        self._lines += e.lines
        e.lines.clear()
        if e.known:
            e.known.clear()  # what follows may stand in another block

    @contextmanager
    def _if(self, condition: str) -> Iterator[None]:
        """What stands in the block is done where the condition holds; no names go out of it."""
        number = next(self._names)
        self._line(f"br i1 {condition}, label %then{number}, label %end{number}")
        self._label(f"then{number}")
        yield
        self._line(f"br label %end{number}")
        self._label(f"end{number}")

    @contextmanager
    def _counted_to(self, count: str, by: int = 1, first: str = "0") -> Iterator[str]:
        """The same for a count that is known when it runs, and may be 0."""
        with self._growing(count, by, first, "", ()) as (counter, _, _):
            yield counter

    @contextmanager
    def _growing(
        self, count: str, by: int, first: str, kind: str, starts: Sequence[str]
    ) -> Iterator[tuple[str, list[str], list[str]]]:
        """Such a loop that carries values of this kind from turn to turn.

        The block gets the counter, what the values are when a turn begins, and behind the loop,
        and a list of the same, in which it puts what they are when the turn ends.
        """
        head, body, done = (f"{word}{next(self._names)}" for word in ("head", "body", "done"))
        before, counter, following = self._block, self._name(), self._name()
        held = [self._name() for _ in starts]
        grown = list(held)
        self._line(f"br label %{head}")
        self._label(head)
        place = len(self._lines)
        goes_on = self._new(f"icmp slt i64 {counter}, {count}")
        self._line(f"br i1 {goes_on}, label %{body}, label %{done}")
        self._label(body)
        yield counter, held, grown
        self._line(f"{following} = add i64 {counter}, {by}")
        self._line(f"br label %{head}")
        phis = [f"  {counter} = phi i64 [{first}, %{before}], [{following}, %{self._block}]"]
        phis += [
            f"  {name} = phi {kind} [{start}, %{before}], [{new}, %{self._block}]"
            for name, start, new in zip(held, starts, grown, strict=True)
        ]
        self._lines[place:place] = phis
        self._label(done)

    def _moved_on(self, base: str, dtype: DType, elements: str) -> str:
        """The address so many elements further."""
        if elements == "0":
            return base
        return self._new(f"getelementptr {memory_type(dtype)}, ptr {base}, i64 {elements}")

    def _times(self, counter: str, factor: int) -> str:
        if counter == "0" or factor == 0:
            return "0"
        return counter if factor == 1 else self._new(f"mul i64 {counter}, {factor}")

    @contextmanager
    def _counted(self, count: int | str, by: int = 1) -> Iterator[str]:
        """A loop of at least one turn around the block, which gets the name of its counter."""
        head, done = f"loop{next(self._names)}", f"done{next(self._names)}"
        before, counter, following = self._block, self._name(), self._name()
        self._line(f"br label %{head}")
        self._label(head)
        place = len(self._lines)
        yield counter
        self._line(f"{following} = add i64 {counter}, {by}")
        goes_on = self._name()
        self._line(f"{goes_on} = icmp slt i64 {following}, {count}")
        self._line(f"br i1 {goes_on}, label %{head}, label %{done}")
        phi = f"  {counter} = phi i64 [0, %{before}], [{following}, %{self._block}]"
        self._lines.insert(place, phi)
        self._label(done)
