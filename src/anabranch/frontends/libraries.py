"""Whose code a function is, and whose objects hold a value: the user's, or a library's."""

from __future__ import annotations

import functools
import os
import sys
import types
from typing import Any

import numpy as np

from anabranch.errors import is_library_file

_STANDARD = os.path.dirname(os.__file__) + os.sep  # where Python's own modules lie
_NUMPY = os.path.dirname(np.__file__) + os.sep
_BUILTIN = frozenset(sys.builtin_module_names)
_INSTALLED = ("site-packages", "dist-packages")
_NOBODYS = ""  # the package of what no user writes


class Libraries:
    """This library, NumPy, Python's own, and what is installed beside them.

    An installed package counts as the user's once a function of its is what the user compiles.
    """

    def __init__(self) -> None:
        self._users: set[str | None] = {None}

    def leave_out(self, function: types.FunctionType) -> None:
        """The package of this function is the user's."""
        package = _package_of(function.__code__.co_filename)
        if package != _NOBODYS:
            self._users.add(package)

    def wrote(self, value: Any) -> bool:
        """Whether this is a function of a library: its own names are none of the user's."""
        return isinstance(value, types.FunctionType) and self._own(value.__code__.co_filename)

    def hold(self, value: Any) -> bool:
        """Whether this is a function, module or class of a library's, or an object of ours.

        Objects of other libraries' classes hold what the user gave them.
        """
        if isinstance(value, types.FunctionType):
            return self.wrote(value)
        if isinstance(value, types.ModuleType):
            return self._own_module(value)
        name = str((value if isinstance(value, type) else type(value)).__module__)  # or no text
        if name.split(".", maxsplit=1)[0] in ("anabranch", "numpy"):
            return True
        return isinstance(value, type) and self._own_module(sys.modules.get(name))

    def _own_module(self, module: Any) -> bool:
        file = getattr(module, "__file__", None)
        return self._own(file) if file else getattr(module, "__name__", "") in _BUILTIN

    def _own(self, file: str) -> bool:
        return _package_of(file) not in self._users


@functools.lru_cache(maxsize=4096)
def _package_of(file: str) -> str | None:
    """The installed package, or module, that a file belongs to; None for a file of the user's."""
    if is_library_file(file) or file.startswith(("<frozen ", _NUMPY)):
        return _NOBODYS
    parts = file.split(os.sep)
    for place, part in enumerate(parts[:-1]):
        if part in _INSTALLED:
            return parts[place + 1].removesuffix(".py")
    return _NOBODYS if file.startswith(_STANDARD) else None
