"""What many numbers have in common."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.composed.naming import composed
from anabranch.core.dtype import is_half
from anabranch.ops.elementwise import astype
from anabranch.ops.reduce import sum_
from anabranch.ops.rules import Axis, axes_tuple, shape_of


@composed
def mean(x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """The arithmetic mean over axes, all of them by default. Of no elements it is NaN.

    Example:
        >>> import anabranch as ab
        >>> float(ab.mean(ab.tensor([1.0, 2.0, 6.0])))
        3.0
    """
    count = 1
    for one in axes_tuple(axis, len(shape_of(x))):
        count *= shape_of(x)[one]
    dtype = getattr(x, "dtype", None)
    if dtype is None or not is_half(dtype):
        return sum_(x, axis=axis, keepdims=keepdims) / count
    # The sum of many halves can be too large for a half when their mean is not.
    return astype(sum_(astype(x, np.float32), axis=axis, keepdims=keepdims) / count, dtype)
