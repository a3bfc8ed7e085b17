"""Ways between machine code and Python: calls back, looks for signals, runs without the lock.

A program is given the address of a context: the function `back` and what it calls. An error that
Python raises there, Ctrl-C too, stays raised in the thread until the program has come back; no
Python code stands around the call in which a signal could strike first.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

from anabranch.backends.native import layout, loading, modules

PAUSE = -1  # the number of no node: only look for signals

_FUNCTIONS = (
    *("PyGILState_Ensure", "PyGILState_Release", "PyErr_CheckSignals", "PyLong_FromLongLong"),
    *("PyLong_FromVoidPtr", "PyObject_Vectorcall", "Py_DecRef"),
    *("PyEval_SaveThread", "PyEval_RestoreThread"),
)
_IR = """
@table = global [COUNT x ptr] zeroinitializer

define i32 @back(ptr %context, i64 %number, ptr %frame) {
  %ensure = load ptr, ptr {PyGILState_Ensure}
  %state = call i32 %ensure()
  %status = call i32 @asked(ptr %context, i64 %number, ptr %frame)
  %release = load ptr, ptr {PyGILState_Release}
  call void %release(i32 %state)
  ret i32 %status
}

define internal i32 @asked(ptr %context, i64 %number, ptr %frame) {
  %check = load ptr, ptr {PyErr_CheckSignals}
  %struck = call i32 %check()
  %calm = icmp eq i32 %struck, 0
  br i1 %calm, label %go, label %raised
go:
  %pause = icmp slt i64 %number, 0
  br i1 %pause, label %done, label %first
first:
  %from_number = load ptr, ptr {PyLong_FromLongLong}
  %one = call ptr %from_number(i64 %number)
  %no_one = icmp eq ptr %one, null
  br i1 %no_one, label %raised, label %second
second:
  %from_address = load ptr, ptr {PyLong_FromVoidPtr}
  %two = call ptr %from_address(ptr %frame)
  %decref = load ptr, ptr {Py_DecRef}
  %no_two = icmp eq ptr %two, null
  br i1 %no_two, label %drop, label %call
call:
  %arguments = alloca [2 x ptr]
  store ptr %one, ptr %arguments
  %rest = getelementptr ptr, ptr %arguments, i64 1
  store ptr %two, ptr %rest
  %place = getelementptr ptr, ptr %context, i64 1
  %called = load ptr, ptr %place
  %vectorcall = load ptr, ptr {PyObject_Vectorcall}
  %result = call ptr %vectorcall(ptr %called, ptr %arguments, i64 2, ptr null)
  call void %decref(ptr %result)
  call void %decref(ptr %two)
  br label %drop
drop:
  %out = phi ptr [null, %second], [%result, %call]
  call void %decref(ptr %one)
  %failed = icmp eq ptr %out, null
  br i1 %failed, label %raised, label %done
done:
  ret i32 0
raised:
  ret i32 1
}

define i32 @unlocked(ptr %program, ptr %given, ptr %workspace, ptr %context) {
  %save = load ptr, ptr {PyEval_SaveThread}
  %thread = call ptr %save()
  %status = call i32 %program(ptr %given, ptr %workspace, ptr %context)
  %restore = load ptr, ptr {PyEval_RestoreThread}
  call void %restore(ptr %thread)
  ret i32 %status
}
"""


def awaited() -> list[modules.Fixed]:
    """The module of these functions, as long as it is not loaded."""
    return [] if addresses.cache_info().currsize else [("calls", _text)]


@functools.lru_cache(maxsize=1)
def addresses() -> dict[str, int]:
    """Of the functions above, for as long as the process lives."""
    code = modules.fixed_code("calls", _text)
    loaded = loading.Loaded([code], ["table", "back", "unlocked"])
    loaded.keep_for_good()
    table = (ctypes.c_void_p * len(_FUNCTIONS)).from_address(loaded.addresses["table"])
    table[:] = [layout.address(name) for name in _FUNCTIONS]
    return dict(loaded.addresses)


def _text() -> str:
    ir = _IR.replace("COUNT", str(len(_FUNCTIONS)))
    for place, name in enumerate(_FUNCTIONS):
        ir = ir.replace(f"{{{name}}}", f"getelementptr (ptr, ptr @table, i64 {place})")
    return ir


class Context:
    """What a program calls back with: `called(number, frame address)`, held by this object."""

    def __init__(self, called: Callable[[int, int], None]) -> None:
        self._called = called
        self._words = (ctypes.c_void_p * 2)(addresses()["back"], id(called))
        self.address = ctypes.addressof(self._words)


@functools.lru_cache(maxsize=1)
def unlocked() -> Callable[[int, Any, int, int], int]:
    """Run (program, addresses, workspace, context) while other threads of Python may run.

    Raises what a call back has raised.
    """
    kind = (ctypes.c_int, *(ctypes.c_void_p,) * 4)
    function: Callable[[int, Any, int, int], int] = ctypes.PYFUNCTYPE(*kind)(
        addresses()["unlocked"]
    )
    return function
