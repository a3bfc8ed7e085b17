"""Modules that are loaded when somebody first uses them, and names of packages that they hold."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any


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
        found = getattr(importlib.import_module(self._late_name), name)
        if not name.startswith("__"):
            setattr(self, name, found)
        return found

    def __repr__(self) -> str:
        return f"<{self._late_name}, loaded at its first use>"


def late_names(namespace: dict[str, Any], modules: Mapping[str, str]) -> None:
    """Give a package names that other modules hold, each loaded at the first use of one.

    Until then the names stand in `dir()` and in `__all__`, which is all that is seen of them.

    Args:
        namespace: the package's `globals()`, complete but for these.
        modules: each name with the module that holds it, or that it is.

    Example:
        >>> from anabranch.core.late import late_names
        >>> names = {"__name__": "rooms"}
        >>> late_names(names, {"sqrt": "math"})
        >>> "sqrt" in names, "sqrt" in names["__dir__"](), names["__getattr__"]("sqrt")(9.0)
        (False, True, 3.0)
        >>> "sqrt" in names
        True
    """

    def load(name: str) -> Any:
        if name not in modules:
            package = namespace["__name__"]
            text = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(text, name=name, obj=sys.modules.get(package))
        module = importlib.import_module(modules[name])
        is_module = modules[name] == f"{namespace['__name__']}.{name}"
        namespace[name] = found = module if is_module else getattr(module, name)
        return found

    public = [name for name in namespace if not name.startswith("_")]
    namespace["__all__"] = sorted({*public, *modules})
    namespace["__getattr__"] = load
    namespace["__dir__"] = lambda: sorted({*namespace, *modules})
