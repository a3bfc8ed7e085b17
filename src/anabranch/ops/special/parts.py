"""How a function of float64 arrays is put together of parts, and made a reference of any dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.core.dtype import is_floating
from anabranch.core.op import float_for
from anabranch.core.values import settled
from anabranch.ops.special.tables import Array

Function = Callable[..., Array]


def in_parts(x: Array, *parts: tuple[Any, Function]) -> Array:
    """Each part where its mask holds, NaN where none does; the masks do not overlap."""
    result = np.full(np.shape(x), np.nan)
    for mask, function in parts:
        if np.any(mask):
            result[mask] = function(x[mask])
    return result


def in_float64(function: Function) -> Callable[..., Any]:
    """The reference that computes in float64 whatever the dtype, and rounds once.

    It raises no warning: infinities and NaN say what there is to say.
    """

    def ref(x: Any, **attrs: Any) -> Any:
        x = np.asarray(x)
        if x.dtype.kind == "c":
            raise TypeError("complex numbers have no such function")
        dtype = x.dtype if is_floating(x.dtype) else float_for(x.dtype)
        with np.errstate(all="ignore"):
            return settled(function(x.astype(np.float64), **attrs).astype(dtype))

    return ref
