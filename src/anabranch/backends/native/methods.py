"""Machine code as a Python function, and the workspace that it leaves behind."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

_FASTCALL_WITH_KEYWORDS = 0x80 | 0x2


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def python_function(
    name: str, code: int, keeper: Any, flags: int = _FASTCALL_WITH_KEYWORDS
) -> Callable[..., Any]:
    """Machine code as a Python function, which keeps `keeper` alive and is given it."""
    definition = _MethodDef(name.encode(), code, flags, None)
    keeper.definition = definition
    kind = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    make = kind(("PyCFunction_NewEx", ctypes.pythonapi))
    function: Callable[..., Any] = make(ctypes.addressof(definition), keeper, None)
    return function


def free_workspace(space: int | None, ctypes: Any = ctypes) -> None:
    """Free a workspace that no call is using.

    What this needs is at hand when a process ends, too, and the names of modules are gone.
    """
    if space:
        block = ctypes.c_void_p.from_address(space - 8).value
        free = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(("PyMem_RawFree", ctypes.pythonapi))
        free(block)
