"""Code that reaches Python's objects and functions through a table, and looks into objects."""

from __future__ import annotations

from typing import Any

from anabranch.backends.native import layout
from anabranch.backends.native.writer import Writer


class TableWriter(Writer):
    """A function with a table of addresses.

    The table is filled when the code is loaded, one address for each name in `slots`; `objects`
    has those that are Python objects. Code without addresses can be kept.
    """

    def __init__(self) -> None:
        super().__init__(set())
        self.slots: dict[str, int] = {}
        self.objects: dict[str, Any] = {}

    def _slot(self, name: str) -> str:
        """What the table holds under this name."""
        place = self.slots.setdefault(name, len(self.slots))
        return self._new(f"load ptr, ptr getelementptr (ptr, ptr @table, i64 {place})")

    def _object(self, held: Any) -> str:
        """A Python object."""
        name = f"object {id(held)}"
        self.objects[name] = held
        return self._slot(name)

    def _call(self, kind: str, name: str, *arguments: str) -> str:
        """What a function of the table returns."""
        return self._new(f"call {kind} {self._slot(name)}({', '.join(arguments)})")

    def _do(self, name: str, *arguments: str) -> None:
        self._line(f"call void {self._slot(name)}({', '.join(arguments)})")

    def _place(self, base: str, offset: int) -> str:
        return self._new(f"getelementptr i8, ptr {base}, i64 {offset}")

    def _field(self, base: str, offset: int, kind: str = "ptr") -> str:
        return self._new(f"load {kind}, ptr {self._place(base, offset)}")

    def _entry(self, base: str, index: int | str) -> str:
        """The address of an entry of an array of pointers."""
        return self._new(f"getelementptr ptr, ptr {base}, i64 {index}")

    def _is(self, kind: str, x: str, y: str | int) -> str:
        return self._new(f"icmp eq {kind} {x}, {y}")

    def _type_is(self, held: str, kind: type) -> str:
        return self._is("ptr", self._field(held, layout.TYPE), self._object(kind))

    def _go_on_if(self, condition: str, otherwise: str) -> None:
        """Go on where it holds, else at that label."""
        label = f"ok{next(self._names)}"
        self._line(f"br i1 {condition}, label %{label}, label %{otherwise}")
        self._label(label)

    def _require(self, condition: str) -> None:
        """Go on where it holds, else hand the call on."""
        self._go_on_if(condition, "slow")

    def _branches(self, *words: str) -> tuple[str, ...]:
        number = next(self._names)
        return tuple(f"{word}{number}" for word in words)
