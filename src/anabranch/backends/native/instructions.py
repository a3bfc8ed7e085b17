"""IR instructions on vectors of some lanes: what all code of the backend is written with."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Self

_SHORT = {"double": "f64", "float": "f32", "half": "f16"}


class Instructions:
    """Writes instructions for `lanes` elements at once.

    Attributes:
        lines: the instructions so far.
        declared: what the module must hold besides.
        known: the results that instructions have, for those who ask for the same; None where
            blocks begin that the emitter does not see.
    """

    def __init__(self, lanes: int, names: Iterable[int], declared: set[str]) -> None:
        self.lanes = lanes
        self.lines: list[str] = []
        self.declared = declared
        self.known: dict[str, str] | None = {}
        self._names = iter(names)

    def type(self, element: str) -> str:
        return element if self.lanes == 1 else f"<{self.lanes} x {element}>"

    def suffix(self, element: str) -> str:
        """How the names of intrinsics end."""
        short = _SHORT.get(element, element)
        return short if self.lanes == 1 else f"v{self.lanes}{short}"

    def new(self, text: str) -> str:
        """The name of this instruction's result, which depends on its operands alone.

        The same instruction is written once, so functions share what their formulas share.
        """
        if self.known is None:
            return self.once(text)
        found = self.known.get(text)
        if found is None:
            found = self.known[text] = self.once(text)
        return found

    def once(self, text: str) -> str:
        """The same for what must run where it stands, such as reading memory."""
        name = f"%v{next(self._names)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def narrowed(self, lanes: int) -> Self:
        """An emitter of the same kind for a function of its own, with names of its own."""
        return type(self)(lanes, itertools.count(), self.declared)

    def new_number(self) -> int:
        """A number that no name has, for labels."""
        return next(self._names)

    def splat(self, element: str, constant: str) -> str:
        if self.lanes == 1:
            return constant
        if constant in ("0", "false"):
            return "zeroinitializer"
        return f"splat ({element} {constant})"

    def in_every_lane(self, element: str, one: str) -> str:
        """A vector of one value that is known when it runs."""
        if self.lanes == 1:
            return one
        vector = self.type(element)
        first = self.new(f"insertelement {vector} poison, {element} {one}, i32 0")
        order = f"<{self.lanes} x i32> zeroinitializer"
        return self.new(f"shufflevector {vector} {first}, {vector} poison, {order}")

    def first_lanes(self, count: int) -> str:
        """The mask of so many lanes, with its type."""
        lanes = ["i1 true"] * count + ["i1 false"] * (self.lanes - count)
        return f"<{self.lanes} x i1> <{', '.join(lanes)}>"

    # Memory: neighbouring elements of `size` bytes, the first `count` lanes of them

    def load(self, element: str, size: int, pointer: str, count: int) -> str:
        if count == self.lanes:
            return self.once(f"load {self.type(element)}, ptr {pointer}, align {size}")
        return self.load_where(self.first_lanes(count), element, size, pointer)

    def load_where(self, mask: str, element: str, size: int, pointer: str) -> str:
        """Zeros where the mask, given with its type, does not hold."""
        kind, function = self.type(element), f"@llvm.masked.load.{self.suffix(element)}.p0"
        self.declared.add(f"declare {kind} {function}(ptr, i32, <{self.lanes} x i1>, {kind})")
        given = f"ptr {pointer}, i32 {size}, {mask}, {kind} zeroinitializer"
        return self.once(f"call {kind} {function}({given})")

    def load_each(self, element: str, size: int, pointers: str) -> str:
        """One element for each lane, from the lane's own address."""
        kind = self.type(element)
        if self.lanes == 1:
            return self.once(f"load {kind}, ptr {pointers}, align {size}")
        function = f"@llvm.masked.gather.{self.suffix(element)}.v{self.lanes}p0"
        self.declared.add(
            f"declare {kind} {function}(<{self.lanes} x ptr>, i32, <{self.lanes} x i1>, {kind})"
        )
        mask = self.first_lanes(self.lanes)
        given = f"<{self.lanes} x ptr> {pointers}, i32 {size}, {mask}, {kind} zeroinitializer"
        return self.once(f"call {kind} {function}({given})")

    def store(self, text: str, element: str, size: int, pointer: str, count: int) -> None:
        kind = self.type(element)
        if count == self.lanes:
            self.lines.append(f"  store {kind} {text}, ptr {pointer}, align {size}")
            return
        if count == 1:  # LLVM 20 writes too much where it finds one lane of a narrowed vector
            first = self.once(f"extractelement {kind} {text}, i32 0")
            self.lines.append(f"  store {element} {first}, ptr {pointer}, align {size}")
            return
        function = f"@llvm.masked.store.{self.suffix(element)}.p0"
        self.declared.add(f"declare void {function}({kind}, ptr, i32, <{self.lanes} x i1>)")
        given = f"{kind} {text}, ptr {pointer}, i32 {size}, {self.first_lanes(count)}"
        self.lines.append(f"  call void {function}({given})")
