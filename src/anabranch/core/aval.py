"""Abstract values: what is known of a value before it is computed, its shape and dtype."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from anabranch.core.dtype import WEAK_DTYPES, DType, is_floating, short_name

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Aval:
    """Shape and dtype of one value; `weak` marks scalars that came from Python numbers.

    A weak value takes the dtype of what it meets, as Python numbers do in NumPy 2.
    """

    shape: Shape
    dtype: DType
    weak: bool = False

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def is_floating(self) -> bool:
        return is_floating(self.dtype)

    def with_shape(self, shape: Shape) -> Aval:
        return aval(shape, self.dtype, self.weak and shape == ())

    def with_dtype(self, dtype: Any) -> Aval:
        return aval(self.shape, np.dtype(dtype))

    def __str__(self) -> str:
        return f"{short_name(self.dtype)}[{','.join(map(str, self.shape))}]"


# Avals are compared and shared all over: one object for each, as long as it is in use often.
aval = functools.lru_cache(maxsize=4096)(Aval)


def aval_of(value: Any) -> Aval:
    """The aval of an array, a Python number (weak) or one of the library's own values."""
    dtype = WEAK_DTYPES.get(type(value))
    if dtype is not None:
        return aval((), dtype, True)
    if isinstance(value, np.ndarray | np.generic):
        return aval(value.shape, value.dtype)
    found: Aval = value.aval
    return found
