"""The Python function that checks arguments, makes results and runs the program, in machine code.

It is a C function of Python's fastcall convention. It reads arrays where CPython and NumPy keep
their fields, so it is made only where a look at an array shows that they lie there; whatever it
does not expect, it hands on to a function written in Python.
"""

from __future__ import annotations

import ctypes
import functools
import sysconfig
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.backends.base import Call
from anabranch.backends.native.writer import Writer
from anabranch.core import attention
from anabranch.core.aval import Aval

_NEEDED = 0x1 | 0x100  # flags: in C order, aligned
_FASTCALL_WITH_KEYWORDS = 0x80 | 0x2
_TYPE, _DATA, _NDIM, _DIMS, _DESCR, _FLAGS = 8, 16, 24, 32, 56, 64
_CELL = 16  # where a closure's cell keeps what it holds
_SCALAR = 16  # where a float, or a NumPy scalar, keeps its value
_NEW_FROM_DESCR, _NEW_SCALAR = 94, 60  # places in NumPy's table of C functions


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class Text(Writer):
    """The IR of an entry, and what its table must hold.

    Addresses stand in a table that is filled when the code is loaded, one for each name in
    `slots`; `objects` has those that are Python objects. Code without addresses can be kept.
    """

    def __init__(
        self,
        call: Call,
        parameters: Sequence[Aval],
        constants: int,
        outputs: Sequence[Aval],
        workspace: int,
        is_long: bool,
    ) -> None:
        super().__init__(set())
        self._is_long = is_long
        self._call = call
        self._parameters = parameters
        self._constants = constants
        self._outputs = outputs
        self.slots: list[str] = []
        self.objects: dict[str, Any] = {}
        self._write(workspace)
        size = len(self.slots)
        head = [f"@table = global [{size} x ptr] zeroinitializer"]
        for i, aval in enumerate(outputs):
            if aval.shape:
                lengths = ", ".join(f"i64 {n}" for n in aval.shape)
                head.append(f"@shape{i} = internal constant [{aval.ndim} x i64] [{lengths}]")
        body = ["define ptr @call(ptr %self, ptr %args, i64 %n, ptr %kw) {", "entry:"]
        self.ir = "\n".join([*head, *body, *self._lines, "}", ""])

    # Writing

    def _slot(self, name: str) -> str:
        """What the table holds under this name."""
        if name not in self.slots:
            self.slots.append(name)
        place = f"getelementptr (ptr, ptr @table, i64 {self.slots.index(name)})"
        return self._new(f"load ptr, ptr {place}")

    def _object(self, held: Any) -> str:
        """A Python object."""
        name = f"object {id(held)}"
        self.objects[name] = held
        return self._slot(name)

    def _field(self, base: str, offset: int, kind: str) -> str:
        place = self._new(f"getelementptr i8, ptr {base}, i64 {offset}")
        return self._new(f"load {kind}, ptr {place}")

    def _require(self, condition: str) -> None:
        """Go on where it holds, else hand the call on."""
        label = f"ok{next(self._names)}"
        self._line(f"br i1 {condition}, label %{label}, label %slow")
        self._label(label)

    def _is(self, kind: str, x: str, y: str | int) -> str:
        return self._new(f"icmp eq {kind} {x}, {y}")

    def _write(self, workspace: int) -> None:
        parameters, outputs = self._parameters, self._outputs
        count = len(parameters) + self._constants + len(outputs)
        given = self._new(f"alloca ptr, i64 {max(count, 1)}")
        kept = {
            i: self._new("alloca [16 x i8], align 16")
            for i, aval in enumerate(outputs)
            if not aval.shape
        }
        arguments = len(parameters) - len(self._call.captured)
        self._require(self._is("i64", "%n", arguments))
        self._require(self._is("ptr", "%kw", "null"))
        busy = self._new(f"load i64, ptr {self._slot('attention')}")
        self._require(self._is("i64", busy, 0))
        for holder, key, value in self._call.bindings:
            self._require(self._is("ptr", self._bound(holder, key), self._object(value)))
        for i, aval in enumerate(parameters):
            if i < arguments:
                self._give(given, i, self._argument(i, aval))
            else:
                self._give(given, i, self._captured(self._call.captured[i - arguments], aval))
        for i in range(self._constants):
            self._give(given, len(parameters) + i, self._slot(f"constant {i}"))
        made = self._results(kept)
        for i, (_, data) in enumerate(made, len(parameters) + self._constants):
            self._give(given, i, data)
        self._run(given, workspace, made)
        self._return(made)
        self._label("slow")
        call, slow = self._slot("PyObject_Vectorcall"), self._slot("slow")
        result = self._new(f"call ptr {call}(ptr {slow}, ptr %args, i64 %n, ptr %kw)")
        self._line(f"ret ptr {result}")

    def _give(self, given: str, place: int, pointer: str) -> None:
        slot = self._new(f"getelementptr ptr, ptr {given}, i64 {place}")
        self._line(f"store ptr {pointer}, ptr {slot}")

    # Arguments

    def _bound(self, holder: Any, key: str | None) -> str:
        """What a name is bound to now."""
        owner = self._object(holder)
        if key is None:
            return self._field(owner, _CELL, "ptr")
        look_up = self._slot("PyDict_GetItemWithError")
        return self._new(f"call ptr {look_up}(ptr {owner}, ptr {self._object(key)})")

    def _captured(self, array: Any, aval: Aval) -> str:
        held = self._object(array)
        return self._array(held, self._field(held, _TYPE, "ptr"), aval)

    def _argument(self, i: int, aval: Aval) -> str:
        """The address of an argument's elements, once it is what was compiled for."""
        place = self._new(f"getelementptr ptr, ptr %args, i64 {i}")
        argument = self._new(f"load ptr, ptr {place}")
        kind = self._field(argument, _TYPE, "ptr")
        if aval.weak:
            self._require(self._is("ptr", kind, self._object(float)))
            return self._new(f"getelementptr i8, ptr {argument}, i64 {_SCALAR}")
        if aval.shape:
            return self._array(argument, kind, aval)
        number = next(self._names)
        scalar, array, both = (f"{word}{number}" for word in ("scalar", "array", "both"))
        is_scalar = self._is("ptr", kind, self._object(aval.dtype.type))
        self._line(f"br i1 {is_scalar}, label %{scalar}, label %{array}")
        self._label(scalar)
        inside = self._new(f"getelementptr i8, ptr {argument}, i64 {_SCALAR}")
        self._line(f"br label %{both}")
        self._label(array)
        data = self._array(argument, kind, aval)
        last = self._block
        self._line(f"br label %{both}")
        self._label(both)
        return self._new(f"phi ptr [{inside}, %{scalar}], [{data}, %{last}]")

    def _array(self, argument: str, kind: str, aval: Aval) -> str:
        self._require(self._is("ptr", kind, self._object(np.ndarray)))
        flags = self._field(argument, _FLAGS, "i32")
        needed = self._new(f"and i32 {flags}, {_NEEDED}")
        self._require(self._is("i32", needed, _NEEDED))
        descr = self._field(argument, _DESCR, "ptr")
        self._require(self._is("ptr", descr, self._object(aval.dtype)))
        self._require(self._is("i32", self._field(argument, _NDIM, "i32"), aval.ndim))
        if aval.shape:
            lengths = self._field(argument, _DIMS, "ptr")
            for axis, length in enumerate(aval.shape):
                self._require(self._is("i64", self._field(lengths, 8 * axis, "i64"), length))
        return self._field(argument, _DATA, "ptr")

    # Results

    def _results(self, kept: dict[int, str]) -> list[tuple[str | None, str]]:
        """For each output the array that was made for it, and the address of its elements."""
        made: list[tuple[str | None, str]] = []
        for i, aval in enumerate(self._outputs):
            if i in kept:
                made.append((None, kept[i]))
                continue
            descr = self._object(aval.dtype)
            self._line(f"call void {self._slot('Py_IncRef')}(ptr {descr})")
            new, kind = self._slot("PyArray_NewFromDescr"), self._object(np.ndarray)
            shape = f"i32 {aval.ndim}, ptr @shape{i}"
            rest = "ptr null, ptr null, i32 0, ptr null"
            array = self._new(f"call ptr {new}(ptr {kind}, ptr {descr}, {shape}, {rest})")
            self._or_give_up(array, [one for one, _ in made if one])
            made.append((array, self._field(array, _DATA, "ptr")))
        return made

    def _or_give_up(self, made: str, before: Sequence[str]) -> None:
        """Where Python has no memory left, its error leaves and what was made goes."""
        is_there = self._new(f"icmp ne ptr {made}, null")
        number = next(self._names)
        good, bad = f"good{number}", f"bad{number}"
        self._line(f"br i1 {is_there}, label %{good}, label %{bad}")
        self._label(bad)
        for one in before:
            self._line(f"call void {self._slot('Py_DecRef')}(ptr {one})")
        self._line("ret ptr null")
        self._label(good)

    def _run(self, given: str, workspace: int, made: Sequence[tuple[str | None, str]]) -> None:
        space = "null"
        if workspace:
            space = self._taken(workspace)
        program, island = self._slot("program"), self._slot("island")
        if self._is_long:  # other threads of Python may run meanwhile; calls back ask for it
            state = self._new(f"call ptr {self._slot('PyEval_SaveThread')}()")
        status = self._new(f"call i32 {program}(ptr {given}, ptr {space}, ptr {island})")
        if self._is_long:
            self._line(f"call void {self._slot('PyEval_RestoreThread')}(ptr {state})")
        if workspace:
            self._put_back(space)
        worked = self._is("i32", status, 0)
        self._line(f"br i1 {worked}, label %ran, label %failed")
        self._label("failed")
        for array, _ in made:
            if array:
                self._line(f"call void {self._slot('Py_DecRef')}(ptr {array})")
        call, fail = self._slot("PyObject_Vectorcall"), self._slot("fail")
        result = self._new(f"call ptr {call}(ptr {fail}, ptr null, i64 0, ptr null)")
        self._line(f"ret ptr {result}")
        self._label("ran")

    def _taken(self, workspace: int) -> str:
        """The workspace at rest, or a new one while another call is using that."""
        place = self._slot("resting")
        resting = self._new(f"atomicrmw xchg ptr {place}, ptr null seq_cst")
        is_there = self._new(f"icmp ne ptr {resting}, null")
        number = next(self._names)
        before, fresh, both = (f"{word}{number}" for word in ("rested", "fresh", "space"))
        self._line(f"br label %{before}")
        self._label(before)
        self._line(f"br i1 {is_there}, label %{both}, label %{fresh}")
        self._label(fresh)
        block = self._new(f"call ptr {self._slot('PyMem_RawMalloc')}(i64 {workspace + 64})")
        self._or_give_up(block, [])
        here = self._block
        start = self._new(f"ptrtoint ptr {block} to i64")
        raised = self._new(f"add i64 {start}, 64")
        aligned = self._new(f"and i64 {raised}, -64")
        made = self._new(f"inttoptr i64 {aligned} to ptr")
        note = self._new(f"getelementptr i8, ptr {made}, i64 -8")  # where its block begins
        self._line(f"store ptr {block}, ptr {note}")
        self._line(f"br label %{both}")
        self._label(both)
        return self._new(f"phi ptr [{resting}, %{before}], [{made}, %{here}]")

    def _put_back(self, space: str) -> None:
        place = self._slot("resting")
        other = self._new(f"atomicrmw xchg ptr {place}, ptr {space} seq_cst")
        is_there = self._new(f"icmp ne ptr {other}, null")
        number = next(self._names)
        free, done = f"free{number}", f"kept{number}"
        self._line(f"br i1 {is_there}, label %{free}, label %{done}")
        self._label(free)
        note = self._new(f"getelementptr i8, ptr {other}, i64 -8")
        block = self._new(f"load ptr, ptr {note}")
        self._line(f"call void {self._slot('PyMem_RawFree')}(ptr {block})")
        self._line(f"br label %{done}")
        self._label(done)

    def _return(self, made: Sequence[tuple[str | None, str]]) -> None:
        owned: list[str] = []
        results = []
        for (array, data), aval in zip(made, self._outputs, strict=True):
            one = array
            if one is None:
                new, descr = self._slot("PyArray_Scalar"), self._object(aval.dtype)
                one = self._new(f"call ptr {new}(ptr {data}, ptr {descr}, ptr null)")
                self._or_give_up(one, [a for a, _ in made if a] + owned)
                owned.append(one)
            results.append(one)
        self._line(f"ret ptr {self._packed(self._call.container, results, list(results))}")

    def _packed(self, container: Any, results: Sequence[str], owned: list[str]) -> str:
        """The outputs in tuples and lists as the caller wants them."""
        if isinstance(container, int):
            return results[container]
        kind, children = container
        parts = [self._packed(child, results, owned) for child in children]
        word = {tuple: "PyTuple", list: "PyList"}[kind]
        held = self._new(f"call ptr {self._slot(f'{word}_New')}(i64 {len(parts)})")
        self._or_give_up(held, owned)
        for i, part in enumerate(parts):  # it takes over what is put into it
            self._new(f"call i32 {self._slot(f'{word}_SetItem')}(ptr {held}, i64 {i}, ptr {part})")
            owned.remove(part)
        owned.append(held)
        return held


# The table and the function object


@functools.lru_cache(maxsize=1)
def is_offered() -> bool:
    """Whether arrays look here as this code expects them to."""
    if sysconfig.get_config_var("Py_GIL_DISABLED") or sysconfig.get_config_var("Py_DEBUG"):
        return False
    array = np.zeros((2, 3), np.float32)
    start = id(array)

    def field(offset: int, kind: Any = ctypes.c_void_p) -> Any:
        return kind.from_address(start + offset).value

    lengths = (ctypes.c_int64 * 2).from_address(field(_DIMS))
    number, cell = np.float64(1.5), types.CellType(array)
    return (
        field(_TYPE) == id(np.ndarray)
        and field(_DATA) == array.ctypes.data
        and field(_NDIM, ctypes.c_int) == array.ndim
        and tuple(lengths) == array.shape
        and field(_DESCR) == id(array.dtype)
        and field(_FLAGS, ctypes.c_int) & 0x501 == 0x501
        and ctypes.c_double.from_address(id(number) + _SCALAR).value == number
        and ctypes.c_double.from_address(id(2.5) + _SCALAR).value == 2.5
        and ctypes.c_void_p.from_address(id(cell) + _CELL).value == start
        and _numpy_function(_NEW_FROM_DESCR) is not None
    )


@functools.lru_cache(maxsize=1)
def _numpy_table() -> Any:
    capsule = np._core._multiarray_umath._ARRAY_API  # type: ignore[attr-defined]
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.cast(get(capsule, None), ctypes.POINTER(ctypes.c_void_p))


def _numpy_function(place: int) -> Any:
    return _numpy_table()[place]


def address(name: str) -> int:
    """Of a C function of Python or NumPy, or of what `attention` keeps."""
    if name == "attention":
        return attention.ADDRESS
    if name.startswith("PyArray"):
        place = _NEW_FROM_DESCR if name == "PyArray_NewFromDescr" else _NEW_SCALAR
        return int(_numpy_function(place))
    return int(ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0)


def python_function(name: str, keeper: Any) -> Callable[..., Any]:
    """The machine code at `keeper.code` as a Python function, which keeps `keeper` alive."""
    definition = _MethodDef(name.encode(), keeper.code, _FASTCALL_WITH_KEYWORDS, None)
    keeper.definition = definition
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    function: Callable[..., Any] = make(ctypes.addressof(definition), keeper, None)
    return function


def release_workspace(resting: ctypes.c_void_p) -> None:
    """Free the workspace that rests here, if one does."""
    if resting.value:
        block = ctypes.c_void_p.from_address(resting.value - 8).value
        free = ctypes.pythonapi.PyMem_RawFree
        free.restype, free.argtypes = None, [ctypes.c_void_p]
        free(block)
        resting.value = None
