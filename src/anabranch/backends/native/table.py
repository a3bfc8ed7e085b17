"""Code that reaches Python's objects and functions through a table, and looks into objects."""

from __future__ import annotations

from typing import Any

from anabranch.backends.native import layout
from anabranch.backends.native.described import Objects
from anabranch.backends.native.writer import Writer


class TableWriter(Writer):
    """A function with a table of addresses.

    The table is filled when the code is loaded, one address for each name in `slots`; those of
    Python objects are called by their number in `objects`. Code without addresses can be kept.
    """

    def __init__(self, objects: Objects | None = None) -> None:
        super().__init__(set())
        self.slots: dict[str, int] = {}
        self._objects = objects or Objects()

    def _slot(self, name: str) -> str:
        """What the table holds under this name."""
        place = self.slots.setdefault(name, len(self.slots))
        return self._new(f"load ptr, ptr getelementptr (ptr, ptr @table, i64 {place})")

    def _object(self, held: Any) -> str:
        """A Python object."""
        return self._slot(f"object {self._objects.known(held)}")

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

    def _require_all(self, *pairs: tuple[str, str, str | int]) -> None:
        """Go on if (kind, found, wanted) are equal in each; they take one branch together."""
        differences = []
        for kind, found, wanted in pairs:
            if kind == "ptr":
                one, two = (self._new(f"ptrtoint ptr {x} to i64") for x in (found, wanted))
                differences.append(self._new(f"xor i64 {one}, {two}"))
            else:
                other = self._new(f"xor {kind} {found}, {wanted}")
                is_wide = kind == "i64"
                differences.append(other if is_wide else self._new(f"zext {kind} {other} to i64"))
        both = differences[0]
        for other in differences[1:]:
            both = self._new(f"or i64 {both}, {other}")
        self._require(self._is("i64", both, 0))

    def _branches(self, *words: str) -> tuple[str, ...]:
        number = next(self._names)
        return tuple(f"{word}{number}" for word in words)

    # The workspace

    def _taken(self, workspace: int, short: str) -> str:
        """The workspace at rest, or a new one while another call is using that.

        Leaves through the label `short` where there is no memory for it.
        """
        place = self._slot("resting")
        resting = self._new(f"atomicrmw xchg ptr {place}, ptr null seq_cst")
        is_there = self._new(f"icmp ne ptr {resting}, null")
        before, fresh, good, both = self._branches("rested", "fresh", "good", "space")
        self._line(f"br label %{before}")
        self._label(before)
        self._line(f"br i1 {is_there}, label %{both}, label %{fresh}")
        self._label(fresh)
        block = self._call("ptr", "PyMem_RawMalloc", f"i64 {workspace + 64}")
        self._line(f"br i1 {self._is('ptr', block, 'null')}, label %{short}, label %{good}")
        self._label(good)
        start = self._new(f"ptrtoint ptr {block} to i64")
        raised = self._new(f"add i64 {start}, 64")
        aligned = self._new(f"and i64 {raised}, -64")
        made = self._new(f"inttoptr i64 {aligned} to ptr")
        note = self._place(made, -8)  # where its block begins
        self._line(f"store ptr {block}, ptr {note}")
        self._line(f"br label %{both}")
        self._label(both)
        return self._new(f"phi ptr [{resting}, %{before}], [{made}, %{good}]")

    def _put_back(self, space: str) -> None:
        place = self._slot("resting")
        other = self._new(f"atomicrmw xchg ptr {place}, ptr {space} seq_cst")
        is_there = self._new(f"icmp ne ptr {other}, null")
        free, done = self._branches("free", "kept")
        self._line(f"br i1 {is_there}, label %{free}, label %{done}")
        self._label(free)
        self._do("PyMem_RawFree", f"ptr {self._field(other, -8)}")
        self._line(f"br label %{done}")
        self._label(done)
