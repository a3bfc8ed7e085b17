"""Means over sliding windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.composed.naming import composed
from anabranch.composed.statistics import mean
from anabranch.core.bind import bind
from anabranch.core.dtype import is_floating, is_half
from anabranch.ops.elementwise import astype
from anabranch.ops.reduce import sum_
from anabranch.ops.rules import shape_of
from anabranch.ops.sliding import Slide, padded, pooling, space_first, space_last
from anabranch.ops.windows import sliding_windows, view


@composed
def avg_pool(
    x: Any,
    window: Any,
    stride: Any = None,
    padding: Any = "valid",
    count_include_pad: bool = True,
    channels_last: bool = False,
) -> Any:
    """The mean of each window, over the axes of space.

    Args:
        x: (batch, channels, *space).
        window: its length, or one for each axis of space.
        stride: how far apart windows start; by default the window's length.
        padding: zeros around x: a number, or for each axis a number or a pair (before, behind);
            `"valid"` for none; `"same"` for ceil(n / stride) places.
        count_include_pad: whether these zeros count, so that every sum is divided by the size of
            the window; False divides by the number of elements of x in it.
        channels_last: x and the result are (batch, *space, channels) instead.

    Raises:
        ArgumentError: `[bad-window]`; `[bad-padding]`, also where a window would hold nothing else.
        ShapeError: `[window-too-long]`, `[shape-mismatch]`.

    Example:
        >>> import numpy as np
        >>> import anabranch as ab
        >>> x = np.array([[[1.0, 3.0, 5.0]]])
        >>> ab.avg_pool(x, 2, padding=((0, 1),))
        array([[[2. , 2.5]]])
        >>> ab.avg_pool(x, 2, padding=((0, 1),), count_include_pad=False)
        array([[[2., 5.]]])
    """
    x = space_last(x, channels_last)
    found = pooling("avg_pool", x, window, stride, padding, 1)
    k, s, d = found.window, found.stride, found.dilation
    windows = bind(sliding_windows, padded(x, found.padding), window=k, stride=s, dilation=d)
    axes = tuple(range(-len(k), 0))
    if count_include_pad or not any(map(any, found.padding)):
        return space_first(mean(windows, axes), channels_last)
    dtype = np.dtype(np.float32) if is_half(x.dtype) else x.dtype
    dtype = dtype if is_floating(dtype) else np.dtype(np.float64)
    total = sum_(windows if windows.dtype == dtype else astype(windows, dtype), axes)
    means = total / _counts(shape_of(x)[2:], found).astype(dtype)
    return space_first(astype(means, x.dtype) if is_half(x.dtype) else means, channels_last)


def _counts(space: tuple[int, ...], found: Slide) -> Any:
    """How many elements of x each window holds."""
    inside = np.pad(np.ones(space), found.padding)
    axes = tuple(range(-len(space), 0))
    return view(inside, found.window, found.stride, found.dilation).sum(axis=axes)
