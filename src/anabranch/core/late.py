"""Modules that are loaded when somebody first uses them, and names of packages that they hold."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

BEGAN = time.time()  # about when this process read the first files of the library


class LateModule:
    """Stands for a module until somebody looks into it, which loads it.

    Beside each stands the same import under `TYPE_CHECKING`, for people and type checkers.

    Example:
        >>> from anabranch.core.late import LateModule
        >>> mathematics = LateModule("math")
        >>> mathematics
        <math, loaded at its first use>
        >>> mathematics.sqrt(9.0)
        3.0
    """

    def __init__(self, name: str) -> None:
        self._late_name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python asks for these on its own account
            raise AttributeError(name)
        found = getattr(importlib.import_module(self._late_name), name)
        setattr(self, name, found)
        return found

    def __repr__(self) -> str:
        return f"<{self._late_name}, loaded at its first use>"


if TYPE_CHECKING:
    import pkgutil
else:
    pkgutil = LateModule("pkgutil")


class Modules(Mapping[str, ModuleType]):
    """The modules of a package by name, each loaded when it is looked up."""

    def __init__(self, package: str, path: Iterable[str]) -> None:
        self._package = package
        self._path = path
        self._is_loaded = False

    def __getitem__(self, name: str) -> ModuleType:
        full = f"{self._package}.{name}"
        try:
            return importlib.import_module(full)
        except ModuleNotFoundError as error:
            if error.name != full:
                raise
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        return (found.name for found in pkgutil.iter_modules(self._path))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def load(self) -> None:
        """Load all of them."""
        if not self._is_loaded:
            for name in self:
                self[name]
            self._is_loaded = True


def late_names(
    namespace: dict[str, Any], modules: Mapping[str, str], more: Mapping[str, Any] | None = None
) -> None:
    """Give a package names that other modules hold, each loaded at the first use of one.

    Until then the names stand in `dir()` and in `__all__`, which is all that is seen of them.

    Args:
        namespace: the package's `globals()`, complete but for these.
        modules: each name with the module that holds it, or that it is.
        more: names with what they are, looked up in the same way; all are listed only for those
            who ask for a list.

    Example:
        >>> from anabranch.core.late import late_names
        >>> names = {"__name__": "rooms"}
        >>> late_names(names, {"sqrt": "math"})
        >>> "sqrt" in names, "sqrt" in names["__dir__"](), names["__getattr__"]("sqrt")(9.0)
        (False, True, 3.0)
        >>> "sqrt" in names
        True
    """

    package, others = namespace["__name__"], {} if more is None else more

    def load(name: str) -> Any:
        if name == "__all__":
            return [name for name in listed() if not name.startswith("_")]
        if name in modules:
            module = importlib.import_module(modules[name])
            found = module if modules[name] == f"{package}.{name}" else getattr(module, name)
        elif name.startswith("_") or (found := others.get(name)) is None:
            text = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(text, name=name, obj=sys.modules.get(package))
        namespace[name] = found
        return found

    def listed() -> list[str]:
        return sorted({*namespace, *modules, *others})

    namespace["__getattr__"] = load
    namespace["__dir__"] = listed
