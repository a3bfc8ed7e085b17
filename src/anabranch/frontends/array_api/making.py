"""The namespaces of the standard, made from its table."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

from anabranch.core.entry import boundary
from anabranch.core.op import PublicFunctions
from anabranch.errors import ArgumentError
from anabranch.frontends.array_api import table
from anabranch.frontends.array_api.adapters import ADAPTERS, ArrayNamespaceInfo
from anabranch.frontends.array_api.dtypes import DTYPES

_PUBLIC, _LINALG = PublicFunctions(), PublicFunctions("linalg")
_VERSIONS = ("2021.12", "2022.12", "2023.12", table.VERSION)


def namespace(room: str = "") -> dict[str, Any]:
    """Every name of the standard's namespace, or of its extension `linalg`."""
    made = {name: _function(name, how, ours, room) for name, how, ours in table.rows(room)}
    if not room:
        made |= DTYPES | {"e": math.e, "inf": math.inf, "nan": math.nan, "pi": math.pi}
        made |= {"newaxis": None, "__array_api_version__": table.VERSION}
        made["__array_namespace_info__"] = ArrayNamespaceInfo
    return made


def _function(name: str, written: str, ours: str, room: str) -> Any:
    """A function of the standard's signature that calls ours."""
    signature = inspect.signature(eval(f"lambda {written[1:-1]}: None"))
    full = f"{room}.{name}" if room else name
    target = ADAPTERS.get(full) or _ours(room, ours)

    @functools.wraps(target, assigned=("__doc__",), updated=())
    def function(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        return target(*bound.args, **bound.kwargs)

    del function.__wrapped__
    function.__name__ = function.__qualname__ = name
    function.__module__ = f"anabranch.xp.{room}".rstrip(".")
    function.__signature__ = signature  # type: ignore[attr-defined]
    return boundary(function)


def _ours(room: str, name: str) -> Any:
    return _LINALG.get(name) or _PUBLIC[name] if room else _PUBLIC[name]


def versions_of(module: ModuleType) -> Callable[[str | None], ModuleType]:
    """What `x.__array_namespace__()` gives for a version of the standard: this module."""

    def of_version(api_version: str | None) -> ModuleType:
        if api_version is not None and api_version not in _VERSIONS:
            raise ArgumentError(
                "no-such-version",
                f"the array API standard is offered in version {table.VERSION},"
                f" not {api_version!r}",
            )
        return module

    return of_version
