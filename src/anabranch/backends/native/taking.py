"""What an entry does with arguments: check that they are what was compiled for, find the elements.

Whatever is not expected leaves through the label `slow`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from anabranch.backends.base import Box, Boxed, Pattern, Same
from anabranch.backends.native import layout
from anabranch.backends.native.described import COMPARED, Objects, Way, interned
from anabranch.backends.native.table import TableWriter
from anabranch.core.aval import Aval

_READ = 0x1 | 0x100  # NumPy's flags: in C order, aligned
_WRITEABLE = 0x400
_MANY = 16  # arrays, from which on a function looks at each: less to compile, a little more to run
# Python's looks, by name: each gives a reference, or null with an error.
_EQUAL = 2  # among Python's comparisons
_LOOKS = {"attribute": "PyObject_GetAttr", "item": "PyObject_GetItem"}


class Taking(TableWriter):
    """The first part of an entry: the program is given each parameter's elements, at last."""

    def __init__(self, way: Way, objects: Objects) -> None:
        super().__init__(objects)
        self._call_made = way.call
        self._parameters = way.parameters
        self._donated = way.donated
        self.inner: list[int] = []  # parameters whose objects lie in others, which may drop them
        self.constants: list[str] = []  # of the module
        # Each is stored where it is found, since LLVM takes long for many stores side by side.
        count = len(way.parameters)
        self.held = self._allocated("ptr", max(count, 1))  # the objects themselves
        # What the program is given: the addresses of parameters, and behind them of the rest.
        self.given = self._allocated("ptr", max(count + way.constants + len(way.outputs), 1))

    def _take_all(self) -> None:
        call = self._call_made
        self._require(self._is("i64", "%n", len(call.arguments)))
        self._take_names(list(call.named))
        busy = self._new(f"load i64, ptr {self._slot('attention')}")
        self._require(self._is("i64", busy, 0))
        for binding in call.bindings:
            self._take_binding(*binding)
        for i, pattern in enumerate((*call.arguments, *call.named.values())):
            self._take_pattern(self._new(f"load ptr, ptr {self._entry('%args', i)}"), pattern, 0)
        first = len(self._parameters) - len(call.captured)
        for i, one in enumerate(call.captured, first):
            if isinstance(one, Boxed):
                self._take_pattern(self._object(one.owner), (one.box, [i]), 0)
            else:
                self._give(i, self._array(self._object(one), self._parameters[i]))
        self._keep_apart()

    def _give(self, i: int, data: str) -> None:
        """Hand the program this address."""
        self._line(f"store ptr {data}, ptr {self._entry(self.given, i)}")

    def _take_names(self, names: Sequence[str]) -> None:
        if not names:
            self._require(self._is("ptr", "%kw", "null"))
            return
        self._require(self._new("icmp ne ptr %kw, null"))
        self._require(self._is("i64", self._field("%kw", layout.LENGTH, "i64"), len(names)))
        for i, name in enumerate(names):
            given = self._call("ptr", "PyTuple_GetItem", "ptr %kw", f"i64 {i}")
            self._require(self._is("ptr", given, self._object(interned(name))))

    def _take_binding(self, look: str, holder: Any, key: Any, value: Any) -> None:
        """Go on if a look at what code has reached gives what it gave before.

        It is Python's own look where Python may have more to do than to read a field.
        """
        owner = self._object(holder)
        if look == "keys":
            self._take_keys(owner, value)
        elif look == "length":
            count = self._call("i64", "PyObject_Size", f"ptr {owner}")
            self._require(self._is("i64", count, value))
        elif look in _LOOKS:
            found = self._call("ptr", _LOOKS[look], f"ptr {owner}", f"ptr {self._object(key)}")
            same = self._same(found, value)
            self._do("Py_DecRef", f"ptr {found}")  # which may be null
            self._require(same)
        elif look == "name":
            self._require(self._same(self._looked_up(owner, key), value))
        else:
            found = self._field(owner, layout.CELL if look == "cell" else layout.TYPE)
            self._require(self._same(found, value))

    def _same(self, found: str, value: Any) -> str:
        """Whether this, which may be null, is that object; of numbers and text, an equal one."""
        wanted, kind = self._object(value), type(value)
        if kind not in COMPARED:
            return self._is("ptr", found, wanted)
        is_there = self._new(f"icmp ne ptr {found}, null")
        there = self._new(f"select i1 {is_there}, ptr {found}, ptr {self._object(None)}")
        is_kind = self._type_is(there, kind)
        one = self._new(f"select i1 {is_kind}, ptr {there}, ptr {wanted}")
        if kind is float:  # by its bits: 0.0 is not -0.0
            bits = self._field(one, layout.SCALAR, "i64")
            is_equal = self._is("i64", bits, self._field(wanted, layout.SCALAR, "i64"))
        else:
            arguments = f"ptr {one}", f"ptr {wanted}", f"i32 {_EQUAL}"
            is_equal = self._is("i32", self._call("i32", "PyObject_RichCompareBool", *arguments), 1)
        return self._new(f"and i1 {is_kind}, {is_equal}")

    def _take_keys(self, held: str, keys: Sequence[Any]) -> None:
        """Go on if a dict has these very keys in this order."""
        count = self._call("i64", "PyDict_Size", f"ptr {held}")
        self._require(self._is("i64", count, len(keys)))
        place, key = self._allocated("i64"), self._allocated("ptr")
        self._line(f"store i64 0, ptr {place}")
        for one in keys:
            given = f"ptr {held}", f"ptr {place}", f"ptr {key}", "ptr null"
            there = self._call("i32", "PyDict_Next", *given)
            self._require(self._is("i32", there, 1))
            self._require(self._is("ptr", self._new(f"load ptr, ptr {key}"), self._object(one)))

    def _looked_up(self, owner: str, key: Any) -> str:
        arguments = f"ptr {owner}", f"ptr {self._object(interned(key))}"
        return self._call("ptr", "PyDict_GetItemWithError", *arguments)

    # Containers

    def _take_pattern(self, held: str, pattern: Pattern, depth: int) -> None:
        if isinstance(pattern, Same):
            self._require(self._is("ptr", held, self._object(pattern.value)))
        elif isinstance(pattern, int):
            self._line(f"store ptr {held}, ptr {self._entry(self.held, pattern)}")
            flags = _READ | (_WRITEABLE if pattern in self._donated else 0)
            self._give(pattern, self._leaf(held, self._parameters[pattern], flags))
            if depth:
                self.inner.append(pattern)
        else:
            kind, parts = pattern
            self._require(self._type_is(held, kind.kind if isinstance(kind, Box) else kind))
            for part, inner in self._parts(held, kind, parts):
                self._take_pattern(part, inner, depth + 1)

    def _boxed(self, held: str, box: Box) -> str:
        """The value in a box, once its other slots have what they should."""
        for name, value in box.fixed:
            found = self._field(held, layout.slot(box.kind, name) or 0)
            self._require(self._is("ptr", found, self._object(value)))
        value = self._field(held, layout.slot(box.kind, box.slot) or 0)
        self._require(self._new(f"icmp ne ptr {value}, null"))
        return value

    def _parts(
        self, held: str, kind: type | Box, parts: Sequence[Any]
    ) -> Iterator[tuple[str, Pattern]]:
        """Each part of a container and its pattern, once it has as many as it should."""
        if isinstance(kind, Box):
            yield self._boxed(held, kind), parts[0]
            return
        if kind is dict:
            count = self._call("i64", "PyDict_Size", f"ptr {held}")
        else:
            count = self._field(held, layout.LENGTH, "i64")
        self._require(self._is("i64", count, len(parts)))
        for i, part in enumerate(parts):
            if kind is dict:
                key, pattern = part
                found = self._looked_up(held, key)
                self._require(self._new(f"icmp ne ptr {found}, null"))
                yield found, pattern
            else:
                word = "PyList" if kind is list else "PyTuple"
                yield self._call("ptr", f"{word}_GetItem", f"ptr {held}", f"i64 {i}"), part

    # Leaves

    def _leaf(self, held: str, aval: Aval, flags: int) -> str:
        """The address of an argument's elements."""
        if aval.weak:
            return self._number(held, aval)
        if aval.shape:
            return self._array(held, aval, flags)
        scalar, array, both = self._branches("scalar", "array", "both")
        is_scalar = self._type_is(held, aval.dtype.type)
        if self._call_made.converts and aval.dtype == np.float64:  # which keeps its value there too
            is_scalar = self._new(f"or i1 {is_scalar}, {self._type_is(held, float)}")
        self._line(f"br i1 {is_scalar}, label %{scalar}, label %{array}")
        self._label(scalar)
        inside = self._place(held, layout.SCALAR)
        self._line(f"br label %{both}")
        self._label(array)
        data = self._array(held, aval)
        last = self._block
        self._line(f"br label %{both}")
        self._label(both)
        return self._new(f"phi ptr [{inside}, %{scalar}], [{data}, %{last}]")

    def _number(self, held: str, aval: Aval) -> str:
        """The address of the value of one of Python's numbers."""
        if aval.dtype.kind == "f":
            self._require(self._type_is(held, float))
            return self._place(held, layout.SCALAR)
        if aval.dtype.kind == "b":
            is_true = self._is("ptr", held, self._object(True))
            is_false = self._is("ptr", held, self._object(False))
            self._require(self._new(f"or i1 {is_true}, {is_false}"))
            return self._stored("i8", self._new(f"zext i1 {is_true} to i8"))
        self._require(self._type_is(held, int))
        over = self._allocated("i32")
        name = "PyLong_AsLongLongAndOverflow"
        value = self._call("i64", name, f"ptr {held}", f"ptr {over}")
        self._require(self._is("i32", self._new(f"load i32, ptr {over}"), 0))
        return self._stored("i64", value)

    def _stored(self, kind: str, value: str) -> str:
        place = self._allocated(kind)
        self._line(f"store {kind} {value}, ptr {place}")
        return place

    def _allocated(self, kind: str, count: int = 1) -> str:
        """Room on the stack, made when the function begins."""
        name = self._name()
        self._lines.insert(0, f"  {name} = alloca {kind}, i64 {count}, align 16")
        return name

    def _array(self, held: str, aval: Aval, flags: int = _READ) -> str:
        if len(self._parameters) >= _MANY:
            wanted = self._numbers(f"wanted{len(self.constants)}", [flags, aval.ndim, *aval.shape])
            given = held, self._object(np.ndarray), self._object(aval.dtype), wanted
            data = self._new(f"call ptr @elements({', '.join(f'ptr {one}' for one in given)})")
            self._require(self._new(f"icmp ne ptr {data}, null"))
            return data
        self._require(self._type_is(held, np.ndarray))
        found = self._new(f"and i32 {self._field(held, layout.FLAGS, 'i32')}, {flags}")
        self._require_all(
            ("i32", found, flags),
            ("ptr", self._field(held, layout.DESCR), self._object(aval.dtype)),
            ("i32", self._field(held, layout.NDIM, "i32"), aval.ndim),
        )
        if aval.shape:  # there are as many lengths
            lengths = self._field(held, layout.DIMS)
            found_all = [self._field(lengths, 8 * axis, "i64") for axis in range(aval.ndim)]
            pairs = zip(found_all, aval.shape, strict=True)
            self._require_all(*(("i64", found, length) for found, length in pairs))
        return self._field(held, layout.DATA)

    # Donated arguments

    def _keep_apart(self) -> None:
        """Nothing else may lie where results will be written."""
        others = [i for i, aval in enumerate(self._parameters) if aval.size and not aval.weak]
        others.sort(key=lambda i: i not in self._donated)
        donated = sum(i in self._donated for i in others)
        if not donated:
            return
        starts, ends = (self._allocated("i64", len(others)) for _ in range(2))
        sizes = [aval.size * aval.dtype.itemsize for aval in (self._parameters[i] for i in others)]
        places = [self._numbers("places", others), self._numbers("sizes", sizes)]
        with self._counted(len(others)) as one:
            place, size = (self._at(numbers, one) for numbers in places)
            start = self._at(self.given, place)
            end = self._new(f"add i64 {start}, {size}")
            for ranges, value in ((starts, start), (ends, end)):
                at = self._new(f"getelementptr i64, ptr {ranges}, i64 {one}")
                self._line(f"store i64 {value}, ptr {at}")
        with self._counted(donated) as one, self._counted(len(others)) as two:
            (start_i, end_i), (start_j, end_j) = (
                [self._at(ranges, counter) for ranges in (starts, ends)] for counter in (one, two)
            )
            begins = self._new(f"icmp ult i64 {start_j}, {end_i}")
            ends_in = self._new(f"icmp ult i64 {start_i}, {end_j}")
            other = self._new(f"icmp ne i64 {one}, {two}")
            meets = self._new(f"and i1 {begins}, {ends_in}")
            clash = self._new(f"and i1 {meets}, {other}")
            self._require(self._new(f"xor i1 {clash}, true"))

    def _numbers(self, name: str, numbers: Sequence[int]) -> str:
        """A constant of the module."""
        row = ", ".join(f"i64 {number}" for number in numbers)
        self.constants.append(f"@{name} = internal constant [{len(numbers)} x i64] [{row}]")
        return f"@{name}"

    def _each(self, count: int) -> Iterator[int | str]:
        """The numbers below; if they are many, one name in a loop."""
        if count < _MANY:
            yield from range(count)
        else:
            with self._counted(count) as one:
                yield one

    def _each_of(self, name: str, numbers: Sequence[int]) -> Iterator[tuple[int | str, int | str]]:
        """The place of each number and itself; if they are many, in a loop over a constant."""
        table = self._numbers(name, numbers) if len(numbers) >= _MANY else ""
        for one in self._each(len(numbers)):
            yield one, numbers[one] if isinstance(one, int) else self._at(table, one)

    def _at(self, array: str, counter: int | str) -> str:
        place = self._new(f"getelementptr i64, ptr {array}, i64 {counter}")
        return self._new(f"load i64, ptr {place}")


def elements() -> str:
    """An array's elements, or null if it is not as wanted: `(held, its kind, its dtype, wanted)`.

    What is wanted are its flags, its rank and its lengths.
    """
    writer = TableWriter()
    writer._require(writer._is("ptr", writer._field("%held", layout.TYPE), "%kind"))
    flags, rank = (
        writer._new(f"zext i32 {writer._field('%held', place, 'i32')} to i64")
        for place in (layout.FLAGS, layout.NDIM)
    )
    wanted, count = (writer._field("%wanted", 8 * i, "i64") for i in range(2))
    writer._require_all(
        ("i64", writer._new(f"and i64 {flags}, {wanted}"), wanted),
        ("ptr", writer._field("%held", layout.DESCR), "%descr"),
        ("i64", rank, count),
    )
    lengths = writer._field("%held", layout.DIMS)
    with writer._counted_to(count) as axis:
        found, length = (
            writer._new(f"load i64, ptr {writer._entry(base, axis)}")
            for base in (lengths, writer._place("%wanted", 16))
        )
        writer._require(writer._is("i64", found, length))
    writer._line(f"ret ptr {writer._field('%held', layout.DATA)}")
    writer._label("slow")
    writer._line("ret ptr null")
    head = "define internal ptr @elements(ptr %held, ptr %kind, ptr %descr, ptr %wanted) {"
    return "\n".join([head, "entry:", *writer._lines, "}"])
