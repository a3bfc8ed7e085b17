"""Memory for results, used again: NumPy arrays that own blocks of a pool.

NumPy frees an array's memory through the handler that the array names. Results name ours: when one
is dropped its block goes on a list of its size class, and the next result of that class takes it.
To everybody else a result is an array as any other: it owns its data, can be resized, viewed and
pickled, and may outlive the program that made it.

The pool is machine code that stays until the process ends, because arrays may be freed that late.
All of it runs while the interpreter's lock is held, which is what keeps its lists whole, also
where a process forks.
"""

from __future__ import annotations

import ctypes
import functools
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from anabranch.backends.native import layout, loading, modules
from anabranch.core import spare
from anabranch.core.aval import Aval
from anabranch.core.late import LateModule

if TYPE_CHECKING:
    from anabranch.backends.native import results_code
else:
    results_code = LateModule("anabranch.backends.native.results_code")

_CARRAY, _OWNS_DATA = 0x501, 0x4  # NumPy's flags: C order, aligned, writeable; owns its data
_HANDLER_HEAD = 128  # the name and the version, before the functions

_EXPORTED = (
    *("table", "resting", "living", "take", "release", "trim"),
    *("allocate", "zeroed", "resized", "array", "emptied"),
)


class ResultPool:
    """The pool of this process.

    Attributes:
        addresses: of its functions; `array` makes a result of (dtype, axes, lengths, class).
    """

    def __init__(self) -> None:
        loaded = loading.Loaded([modules.fixed_code("results", _text)], _EXPORTED)
        loaded.keep_for_good()  # arrays call it when they are freed, whenever that is
        self.addresses = loaded.addresses
        context, allocate, free = layout.allocator()
        self._capsule = self._handler()
        loading.keep_for_good(self._capsule)
        table = (ctypes.c_void_p * 8).from_address(loaded.addresses["table"])
        new, incref = map(layout.address, ("PyArray_NewFromDescr", "Py_IncRef"))
        table[:] = [
            *(allocate, free, context, spare.LIMIT_ADDRESS),
            *(new, id(np.ndarray), incref, id(self._capsule)),
        ]
        self._trim = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(loaded.addresses["trim"])
        pointer = ctypes.c_void_p
        self._emptied = ctypes.PYFUNCTYPE(pointer, pointer)(loaded.addresses["emptied"])
        kind = (ctypes.py_object, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int64)
        self._array = ctypes.PYFUNCTYPE(*kind)(loaded.addresses["array"])

    def _handler(self) -> Any:
        """What arrays name: a record of functions, in a capsule; both stay for good."""
        functions = ("", "allocate", "zeroed", "resized", "release")
        held = (ctypes.c_char * (_HANDLER_HEAD + 8 * len(functions)))()
        held.raw = b"anabranch".ljust(_HANDLER_HEAD - 1, b"\0") + b"\1" + bytes(8 * len(functions))
        places = (ctypes.c_void_p * len(functions)).from_buffer(held, _HANDLER_HEAD)
        places[:] = [self.addresses.get(name) for name in functions]
        loading.keep_for_good(held)
        make = ctypes.PYFUNCTYPE(
            ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
        )
        name = ctypes.create_string_buffer(b"mem_handler")  # the capsule keeps its address
        loading.keep_for_good(name)
        new = make(("PyCapsule_New", ctypes.pythonapi))
        return new(ctypes.addressof(held), ctypes.cast(name, ctypes.c_char_p), None)

    def array(self, aval: Aval) -> np.ndarray[Any, Any]:
        """An array of the pool, not filled."""
        shape = (ctypes.c_int64 * max(aval.ndim, 1))(*aval.shape)
        class_ = size_class(aval.size * aval.dtype.itemsize)
        made: np.ndarray[Any, Any] = self._array(
            id(aval.dtype), aval.ndim, ctypes.addressof(shape), class_
        )
        return made

    def trim(self, keep: int) -> int:
        """Give back what rests beyond so many bytes."""
        given: int = self._trim(keep)
        return given

    def emptied(self, place: ctypes.c_void_p) -> int | None:
        """What a place held that machine code may be exchanging at the same time; now nothing."""
        found: int | None = self._emptied(ctypes.addressof(place))
        return found

    @property
    def resting(self) -> int:
        """Bytes that no array uses."""
        return ctypes.c_int64.from_address(self.addresses["resting"]).value

    @property
    def living(self) -> int:
        """Bytes of arrays that are in use."""
        return ctypes.c_int64.from_address(self.addresses["living"]).value


def _text() -> str:
    words = {
        "CLASSES": results_code.CLASSES,
        "LAST": results_code.CLASSES - 1,
        "CARRAY": _CARRAY,
        "FLAGS": layout.FLAGS,
        "OWNS": _OWNS_DATA,
        "HANDLER": layout.HANDLER,
    }
    return re.sub(r"\b[A-Z]+\b", lambda found: str(words[found.group()]), results_code.IR)


def size_class(size: int) -> int:
    """The number of the list that has blocks for so many bytes."""
    units = max(-(-size // 64), 1)
    if units < 4:
        return units
    exponent = units.bit_length() - 3
    return 4 * exponent + -((-units) >> exponent)


def awaited() -> list[modules.Fixed]:
    """The module of the pool, as long as it is not loaded."""
    is_made = _one_pool.cache_info().currsize or not layout.handler_is_known()
    return [] if is_made else [("results", _text)]


def result_pool() -> ResultPool | None:
    """The pool; None where arrays do not say who frees their memory."""
    return _one_pool() if layout.handler_is_known() else None


@functools.lru_cache(maxsize=1)
def _one_pool() -> ResultPool:
    made = ResultPool()
    spare.when_trimmed(made.trim)
    return made
