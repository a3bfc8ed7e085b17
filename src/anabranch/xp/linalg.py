"""The extension `linalg` of the array API standard, version 2024.12."""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from anabranch.frontends.array_api.making import namespace as _namespace

globals().update(_namespace("linalg"))

if _TYPE_CHECKING:

    def __getattr__(name: str) -> _Any: ...
