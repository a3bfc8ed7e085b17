"""What an argument is to a trace: a value that it knows by its aval, or a part of the program."""

from __future__ import annotations

from typing import Any

from anabranch.core.aval import Aval, aval_of
from anabranch.core.bind import NUMBERS
from anabranch.core.node import Edge
from anabranch.core.values import ARRAYS
from anabranch.errors import ArgumentError
from anabranch.frontends.tensor import Tensor


class Static:
    """An argument leaf that is part of the program: a string, a callable, what `static` names."""

    def __init__(self, value: Any) -> None:
        self.value = value


def leaf_aval(value: Any) -> Aval | Static:
    """What a trace knows of an argument leaf; Static for strings and callables.

    Raises:
        ArgumentError: `[bad-argument]` for other objects.
    """
    if isinstance(value, (*ARRAYS, Tensor, Edge)) or type(value) in NUMBERS:
        return aval_of(value)
    if isinstance(value, Static):
        return value
    if isinstance(value, str | bytes) or callable(value):
        return Static(value)
    raise ArgumentError(
        "bad-argument",
        f"a compiled function cannot take a {type(value).__name__} as an array",
        hint='ab.compile(f, static="self") names arguments that are part of the program',
    )
