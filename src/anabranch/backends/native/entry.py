"""The Python function that checks arguments, makes results and runs the program, in machine code.

It is a C function of Python's fastcall convention. It reads arrays where CPython and NumPy keep
their fields, so it is made only where a look at objects shows that they lie there; whatever it
does not expect, it hands on to a function written in Python.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.backends.base import Box, Pattern, Same
from anabranch.backends.native import layout
from anabranch.backends.native.described import Objects, Way, interned
from anabranch.backends.native.results import size_class
from anabranch.backends.native.taking import Taking, elements
from anabranch.core.aval import Aval


class Text(Taking):
    """The IR of an entry, and what its table must hold.

    Nothing that can fail comes behind the program's run, so that a call that fails has changed no
    donated argument. What was made before a failure is dropped; `owned` says what that is.
    """

    def __init__(self, way: Way, objects: Objects) -> None:
        super().__init__(way, objects)
        self._constants = way.constants
        self._outputs = way.outputs
        self._reused = {output: parameter for parameter, output in way.donated.items()}
        self._pooled = way.pooled
        self._is_long = way.is_long
        self._count = 0  # of objects that are owned
        self._late: list[Callable[[], None]] = []  # writes what stands behind the run
        self._write(way.workspace)
        head = [f"@table = global [{len(self.slots)} x ptr] zeroinitializer"]
        head.append("@zero = internal constant [16 x i8] zeroinitializer, align 16")
        head += self.constants
        body = [
            "define ptr @call(ptr %self, ptr %args, i64 %n, ptr %kw) {",
            "entry:",
            f"  %owned = alloca ptr, i64 {max(self._count, 1)}",
            "  %owns = alloca i64",
            "  store i64 0, ptr %owns",
        ]
        self.ir = "\n".join([*head, *body, *self._lines, "}", ""])
        if "@elements(" in self.ir:
            self.ir += elements() + "\n"

    def _write(self, workspace: int) -> None:
        self._take_all()
        first = self._hold([*self.inner, *self._reused.values()]) + len(self.inner)
        held = dict(zip(self._reused, itertools.count(first), strict=False))
        outputs = enumerate(self._outputs)
        made = [held[i] if i in held else self._made(i, aval) for i, aval in outputs]
        answer = self._packed(self._call_made.result, made)
        self._run(workspace)
        for put in self._late:
            put()
        if self.inner:
            for one in self._each(len(self.inner)):
                self._do("Py_DecRef", f"ptr {self._owned(one)}")
        self._line(f"ret ptr {self._owned(answer)}")
        self._write_exits()

    def _write_exits(self) -> None:
        self._label("slow")
        arguments = "ptr %args", "i64 %n", "ptr %kw"
        self._do("PyErr_Clear")
        call = f"ptr {self._slot('slow')}", *arguments
        self._line(f"ret ptr {self._call('ptr', 'PyObject_Vectorcall', *call)}")
        self._label("short")
        self._call("ptr", "PyErr_NoMemory")
        self._line("br label %give_up")
        self._label("give_up")
        count = self._new("load i64, ptr %owns")
        with self._counted_to(count) as counter:
            self._do("Py_DecRef", f"ptr {self._owned(counter)}")
        self._line("ret ptr null")

    # What is owned

    def _hold(self, parameters: Sequence[int]) -> int:
        """Own their objects, which others own as well; gives the place of the first."""
        first = self._count
        self._count += len(parameters)
        if parameters:
            for one, parameter in self._each_of("held", parameters):
                held = self._new(f"load ptr, ptr {self._entry(self.held, parameter)}")
                self._do("Py_IncRef", f"ptr {held}")
                place = self._new(f"add i64 {one}, {first}")
                self._line(f"store ptr {held}, ptr {self._entry('%owned', place)}")
            self._line(f"store i64 {self._count}, ptr %owns")
        return first

    def _own(self, held: str) -> int:
        """Drop this if the call fails from here on; gives its place, in which null takes it out."""
        place = self._count
        self._line(f"store ptr {held}, ptr {self._entry('%owned', place)}")
        self._count += 1
        self._line(f"store i64 {self._count}, ptr %owns")
        return place

    def _owned(self, place: int | str) -> str:
        return self._new(f"load ptr, ptr {self._entry('%owned', place)}")

    def _new_object(self, made: str) -> int:
        """Own what Python has just made; where it has no memory left, its error leaves."""
        self._go_on_if(self._new(f"icmp ne ptr {made}, null"), "give_up")
        return self._own(made)

    # Results: all objects are made before the run, which fills them

    def _made(self, i: int, aval: Aval) -> int:
        """The place of a new object for an output, whose elements the program is given."""
        place, data = self._new_output(i, aval)
        self._give(len(self._parameters) + self._constants + i, data)
        return place

    def _new_output(self, i: int, aval: Aval) -> tuple[int, str]:
        """The place of the object, and the address of its elements."""
        descr = f"ptr {self._object(aval.dtype)}"
        if aval.dtype == np.bool_ and not aval.shape:
            return self._truth(self._allocated("i8"))
        if not aval.shape:
            scalar = self._call("ptr", "PyArray_Scalar", "ptr @zero", descr, "ptr null")
            return self._new_object(scalar), self._place(scalar, layout.SCALAR)
        form = f"i32 {aval.ndim}", f"ptr {self._numbers(f'shape{i}', aval.shape)}"
        if self._pooled:
            size = size_class(aval.size * aval.dtype.itemsize)
            array = self._call("ptr", "array", descr, *form, f"i64 {size}")
        else:
            self._do("Py_IncRef", descr)
            rest = "ptr null", "ptr null", "i32 0", "ptr null"
            kind = f"ptr {self._object(np.ndarray)}"
            array = self._call("ptr", "PyArray_NewFromDescr", kind, descr, *form, *rest)
        return self._new_object(array), self._field(array, layout.DATA)

    def _truth(self, data: str) -> tuple[int, str]:
        """A truth value: there are two objects, and which it is shows when the program has run."""
        place = self._own("null")

        def put() -> None:
            value = self._new(f"load i8, ptr {data}")
            is_false = self._is("i8", value, 0)
            objects = ", ".join(f"ptr {self._object(np.bool_(one))}" for one in (False, True))
            held = self._new(f"select i1 {is_false}, {objects}")
            self._do("Py_IncRef", f"ptr {held}")
            self._line(f"store ptr {held}, ptr {self._entry('%owned', place)}")

        self._late.append(put)
        return place, data

    def _packed(self, pattern: Pattern, results: Sequence[int]) -> int:
        """The place of an object with outputs in containers as the caller wants them."""
        if isinstance(pattern, int):
            return results[pattern]
        if isinstance(pattern, Same):
            held = self._object(pattern.value)
            self._do("Py_IncRef", f"ptr {held}")
            return self._own(held)
        kind, parts = pattern
        if isinstance(kind, Box):
            return self._packed_box(kind, self._packed(parts[0], results))
        if kind is dict:
            return self._packed_dict(parts, results)
        word = "PyList" if kind is list else "PyTuple"
        if kind in (list, tuple):
            held = self._call("ptr", f"{word}_New", f"i64 {len(parts)}")
        else:  # a named tuple, which has room for its parts and nothing else
            form = f"ptr {self._object(kind)}", f"i64 {len(parts)}"
            held = self._call("ptr", "PyType_GenericAlloc", *form)
        packed = self._new_object(held)
        places = [self._packed(part, results) for part in parts]

        def put(i: int | str, place: int | str) -> None:  # it takes over what is put into it
            one = f"ptr {self._owned(place)}"
            self._call("i32", f"{word}_SetItem", f"ptr {held}", f"i64 {i}", one)

        def put_all() -> None:
            for i, place in self._each_of(f"places{packed}", places):
                put(i, place)

        self._late.append(put_all)
        return packed

    def _packed_box(self, box: Box, place: int) -> int:
        """The same for a box; its slots are empty before."""
        held = self._call("ptr", "PyType_GenericAlloc", f"ptr {self._object(box.kind)}", "i64 0")
        packed = self._new_object(held)
        for name, value in box.fixed:
            self._do("Py_IncRef", f"ptr {self._object(value)}")
            self._fill(held, layout.slot(box.kind, name), self._object(value))
        self._late.append(  # it takes over what is put into it
            lambda: self._fill(held, layout.slot(box.kind, box.slot), self._owned(place))
        )
        return packed

    def _fill(self, held: str, place: int | None, value: str) -> None:
        self._line(f"store ptr {value}, ptr {self._place(held, place or 0)}")

    def _packed_dict(self, parts: Sequence[Any], results: Sequence[int]) -> int:
        """The same for a dict; its entries are there before the run, and filled after it."""
        held = self._call("ptr", "PyDict_New")
        packed = self._new_object(held)
        for key, part in parts:
            place = self._packed(part, results)
            entry = f"ptr {held}", f"ptr {self._object(interned(key))}"
            none = f"ptr {self._object(None)}"
            status = self._call("i32", "PyDict_SetItem", *entry, none)
            self._go_on_if(self._is("i32", status, 0), "give_up")

            def put(place: int = place, entry: tuple[str, ...] = entry) -> None:
                one = f"ptr {self._owned(place)}"
                self._call("i32", "PyDict_SetItem", *entry, one)
                self._do("Py_DecRef", one)

            self._late.append(put)
        return packed

    # The run

    def _run(self, workspace: int) -> None:
        count = len(self._parameters)
        for i in range(self._constants):
            self._give(count + i, self._slot(f"constant {i}"))
        if self._reused:
            first = count + self._constants
            results = self._numbers("results", [first + i for i in self._reused])
            for one, parameter in self._each_of("reused", list(self._reused.values())):
                data = self._new(f"load ptr, ptr {self._entry(self.given, parameter)}")
                place = self._entry(self.given, self._at(results, one))
                self._line(f"store ptr {data}, ptr {place}")
        space = self._taken(workspace, "short") if workspace else "null"
        arguments = f"ptr {self.given}", f"ptr {space}", f"ptr {self._slot('context')}"
        if self._is_long:  # other threads of Python may run meanwhile; calls back ask for it
            thread = self._call("ptr", "PyEval_SaveThread")
        status = self._call("i32", "program", *arguments)
        if self._is_long:
            self._do("PyEval_RestoreThread", f"ptr {thread}")
        if workspace:
            self._put_back(space)
        self._go_on_if(self._is("i32", status, 0), "give_up")  # what was raised leaves
