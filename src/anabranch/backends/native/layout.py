"""Where CPython and NumPy keep the fields of their objects, and whether they do so here.

Machine code reads arrays, numbers and cells at these places. They are no promise of anybody's, so
each is looked up once on real objects; where one is not found the Python way is taken.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import types
from typing import Any

import numpy as np

TYPE, DATA, NDIM, DIMS, BASE, DESCR, FLAGS, HANDLER = 8, 16, 24, 32, 48, 56, 64, 88
HEAD = 16  # bytes of an object without any fields
LENGTH = 16  # of a tuple or list
CELL = 16  # where a closure's cell keeps what it holds
SCALAR = 16  # where a float, or a NumPy scalar, keeps its value

# Places in NumPy's table of C functions
_NEW_SCALAR, _NEW_FROM_DESCR = 60, 94
_GET_HANDLER, _DEFAULT_HANDLER = 305, 306
_HANDLER_FUNCTIONS = 128  # behind a handler's name and version


def field(start: int, offset: int, kind: Any = ctypes.c_void_p) -> Any:
    """What lies so many bytes into an object."""
    return kind.from_address(start + offset).value


@functools.lru_cache(maxsize=1)
def is_known() -> bool:
    """Whether objects look here as machine code expects them to."""
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    if object.__basicsize__ != HEAD or hasattr(sys, "gettotalrefcount"):
        return False  # a free-threaded build, or one for debugging
    array = np.zeros((2, 3), np.float32)
    start = id(array)
    if np.ndarray.__basicsize__ < FLAGS + 4:
        return False
    # All are held here: what nobody holds is taken apart before it is looked at.
    number, cell, pair, row = np.float64(1.5), types.CellType(array), (array, array), array[0]
    return (
        field(start, TYPE) == id(np.ndarray)
        and field(start, DATA) == array.ctypes.data
        and field(start, NDIM, ctypes.c_int) == array.ndim
        and field(id(row), BASE) == start
        and field(start, DESCR) == id(array.dtype)
        and field(start, FLAGS, ctypes.c_int) & 0x501 == 0x501
        and field(id(number), SCALAR, ctypes.c_double) == number
        and field(id(2.5), SCALAR, ctypes.c_double) == 2.5
        and field(id(cell), CELL) == start
        and field(id(pair), LENGTH, ctypes.c_int64) == 2
        # Lengths and steps lie in one piece, which tells that this is where it begins.
        and field(start, DIMS) + 8 * array.ndim == field(start, DIMS + 8)
        and tuple((ctypes.c_int64 * 2).from_address(field(start, DIMS))) == array.shape
        and _numpy_function(_NEW_FROM_DESCR) is not None
    )


@functools.cache
def scalar_is_known(dtype: Any) -> bool:
    """Whether NumPy's scalars of this dtype keep their value where machine code looks for it."""
    one = np.ones((), dtype)[()]
    return ctypes.string_at(id(one) + SCALAR, dtype.itemsize) == np.asarray(one).tobytes()


@functools.cache
def slot(kind: Any, name: str) -> int | None:
    """Where the objects of a type keep what this one of their `__slots__` holds, if it is found."""
    held = object()
    probe: Any = object.__new__(kind)
    getattr(kind, name).__set__(probe, held)
    places = range(SCALAR, kind.__basicsize__, 8)
    return next((place for place in places if field(id(probe), place) == id(held)), None)


@functools.lru_cache(maxsize=1)
def handler_is_known() -> bool:
    """Whether arrays name here what frees their memory, where machine code can set it."""
    if not is_known() or np.lib.NumpyVersion(np.__version__) < "1.22.0":
        return False
    array = np.zeros(3)
    current = ctypes.PYFUNCTYPE(ctypes.py_object)(_numpy_function(_GET_HANDLER))()
    return bool(
        np.ndarray.__basicsize__ >= HANDLER + 8 and field(id(array), HANDLER) == id(current)
    )


def allocator() -> tuple[int, int, int]:
    """NumPy's own way to get memory: its context, and what allocates and frees."""
    capsule = ctypes.cast(_numpy_function(_DEFAULT_HANDLER), ctypes.POINTER(ctypes.py_object))[0]
    functions = _inside(capsule, b"mem_handler") + _HANDLER_FUNCTIONS
    context, allocate, _, _, free = (ctypes.c_void_p * 5).from_address(functions)
    return context or 0, allocate or 0, free or 0


def address(name: str) -> int:
    """Of a C function of Python or NumPy."""
    if name.startswith("PyArray"):
        place = _NEW_FROM_DESCR if name == "PyArray_NewFromDescr" else _NEW_SCALAR
        return int(_numpy_function(place))
    return int(ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0)


def _inside(capsule: Any, name: bytes | None) -> int:
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    found: int = get(("PyCapsule_GetPointer", ctypes.pythonapi))(capsule, name)
    return found


@functools.lru_cache(maxsize=1)
def _numpy_table() -> Any:
    capsule = np._core._multiarray_umath._ARRAY_API  # type: ignore[attr-defined]
    return ctypes.cast(_inside(capsule, None), ctypes.POINTER(ctypes.c_void_p))


def _numpy_function(place: int) -> Any:
    return _numpy_table()[place]
