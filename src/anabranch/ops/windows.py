"""Windows that slide over axes, their adjoint, and the largest element in each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core.aval import Aval, aval_of
from anabranch.core.bind import bind
from anabranch.core.dtype import extremes, is_half
from anabranch.core.op import Kernel, MadeOf, Op
from anabranch.core.sample import normal, sample
from anabranch.core.values import owned
from anabranch.errors import ShapeError
from anabranch.ops.layout import broadcast_to, permute, reshaped
from anabranch.ops.reduce import max_, sum_
from anabranch.ops.rules import shape_of
from anabranch.ops.select import equal, isnan, where
from anabranch.ops.sliding import (
    Lengths,
    Pairs,
    counts,
    cropped,
    padded,
    pooling,
    reach,
    slide,
    space_first,
    space_last,
)


def view(x: Any, window: Lengths, stride: Lengths, dilation: Lengths) -> Any:
    """The windows over the last axes of an array, as a view: (..., places, window)."""
    count = len(window)
    spans = tuple(map(reach, window, dilation))
    axes = tuple(range(x.ndim - count, x.ndim))
    found = np.lib.stride_tricks.sliding_window_view(x, spans, axes)
    index: Any = (..., *(slice(None, None, step) for step in (*stride, *dilation)))
    return found[index]


def added(y: Any, shape: Lengths, stride: Lengths, dilation: Lengths) -> Any:
    """The adjoint of `view`: each window's elements added where they came from."""
    count = len(shape)
    places, window = y.shape[-2 * count : -count], y.shape[-count:]
    wide = np.float32 if is_half(y.dtype) else y.dtype
    result = np.zeros((*y.shape[: -2 * count], *shape), wide)
    for offsets in np.ndindex(window):
        starts = zip(offsets, dilation, places, stride, strict=True)
        spots: Any = (slice(o * d, o * d + (p - 1) * s + 1, s) for o, d, p, s in starts)
        result[(..., *spots)] += y[(..., *offsets)]
    return result.astype(y.dtype, copy=False)


def _windows_aval(x: Aval, *, window: Lengths, stride: Lengths, dilation: Lengths) -> Aval:
    count = len(window)
    if x.ndim < count:
        raise ShapeError("window-too-long", f"windows over {count} axes do not fit into {x}")
    outer, lengths = x.shape[: x.ndim - count], x.shape[x.ndim - count :]
    places = counts("sliding_windows", lengths, window, stride, dilation)
    return x.with_shape((*outer, *places, *window))


def _windows_ref(x: Any, *, window: Lengths, stride: Lengths, dilation: Lengths) -> Any:
    x = np.asarray(x)
    _windows_aval(aval_of(x), window=window, stride=stride, dilation=dilation)
    return owned(view(x, window, stride, dilation))


def _windows_vjp(
    ct: Any, y: Any, x: Any, *, window: Lengths, stride: Lengths, dilation: Lengths
) -> Any:
    shape = shape_of(x)[len(shape_of(x)) - len(window) :]
    return bind(add_windows, ct, shape=shape, stride=stride, dilation=dilation)


def _sliding_windows(x: Any, window: Any, stride: Any = 1, dilation: Any = 1) -> Any:
    """The windows over the last axes, as (..., places, window): one copy for each place.

    Args:
        x: an array whose last axes, as many as `window` has lengths, are slid over.
        window: the lengths, one for each of these axes.
        stride: how far apart windows start, one number or one for each axis.
        dilation: how far apart the elements of a window are, likewise.

    Raises:
        ArgumentError: `[bad-window]`.
        ShapeError: `[window-too-long]`.

    Example:
        >>> import numpy as np
        >>> import anabranch as ab
        >>> ab.sliding_windows(np.array([1.0, 2.0, 3.0]), (2,))
        array([[1., 2.],
               [2., 3.]])
    """
    lengths = window if isinstance(window, Sequence) else (window,)
    found = slide("sliding_windows", (0,) * len(lengths), lengths, stride, "valid", dilation)
    return bind(
        sliding_windows, x, window=found.window, stride=found.stride, dilation=found.dilation
    )


sliding_windows: Op = Op(
    "sliding_windows",
    aval=_windows_aval,
    ref=_windows_ref,
    vjp=(_windows_vjp,),
    linear=(0,),
    call=_sliding_windows,
    lower=lambda view, **attrs: view.windows(**attrs),
    samples=(
        sample(
            [1.0, 2.0, 3.0],
            value=[[1.0, 2.0], [2.0, 3.0]],
            grads=([1.0, 2.0, 1.0],),
            window=(2,),
            stride=(1,),
            dilation=(1,),
        ),
        sample(
            [1.0, 2.0, 3.0, 4.0],
            value=[[1.0, 3.0]],
            grads=([1.0, 0.0, 1.0, 0.0],),
            window=(2,),
            stride=(2,),
            dilation=(2,),
        ),
        sample(normal(2, 5, 6), window=(2, 3), stride=(2, 1), dilation=(1, 2)),
        sample(normal(4), window=(1,), stride=(3,), dilation=(1,)),
        sample(normal(0, 3), window=(3,), stride=(1,), dilation=(1,)),
        sample(normal(), window=(), stride=(), dilation=()),
    ),
)


def _add_windows_aval(x: Aval, *, shape: Lengths, stride: Lengths, dilation: Lengths) -> Aval:
    count = len(shape)
    outer, rest = x.shape[: x.ndim - 2 * count], x.shape[x.ndim - 2 * count :]
    places, window = rest[:count], rest[count:]
    if len(window) != count or counts("add_windows", shape, window, stride, dilation) != places:
        raise ShapeError("shape-mismatch", f"{x} holds no windows over axes of lengths {shape}")
    return x.with_shape((*outer, *shape))


def _add_windows_ref(x: Any, *, shape: Lengths, stride: Lengths, dilation: Lengths) -> Any:
    x = np.asarray(x)
    _add_windows_aval(aval_of(x), shape=shape, stride=stride, dilation=dilation)
    return owned(added(x, shape, stride, dilation)) if shape else owned(x)


def _add_windows_vjp(
    ct: Any, y: Any, x: Any, *, shape: Lengths, stride: Lengths, dilation: Lengths
) -> Any:
    window = shape_of(x)[len(shape_of(x)) - len(shape) :]
    return bind(sliding_windows, ct, window=window, stride=stride, dilation=dilation)


add_windows: Op = Op(
    "add_windows",
    aval=_add_windows_aval,
    ref=_add_windows_ref,
    vjp=(_add_windows_vjp,),
    linear=(0,),
    call=lambda x, shape, stride, dilation: bind(
        add_windows, x, shape=shape, stride=stride, dilation=dilation
    ),
    samples=(
        sample(
            [[1.0, 2.0], [3.0, 4.0]],
            value=[1.0, 5.0, 4.0],
            grads=([[1.0, 1.0], [1.0, 1.0]],),
            shape=(3,),
            stride=(1,),
            dilation=(1,),
        ),
        sample(normal(2, 2, 2, 2, 3), shape=(5, 6), stride=(2, 1), dilation=(1, 2)),
        sample(normal(2, 1), shape=(4,), stride=(3,), dilation=(1,)),
        sample(normal(0, 1, 3), shape=(3,), stride=(1,), dilation=(1,)),
        sample(normal(), shape=(), stride=(), dilation=()),
    ),
    lower=Kernel("add_windows", operations=1),
    doc="Windows (..., places, window) added up where they came from: the adjoint of"
    " `sliding_windows`, for axes of lengths `shape`.",
)


# The largest of each window


def _max_pool(
    x: Any,
    window: Any,
    stride: Any = None,
    padding: Any = "valid",
    dilation: Any = 1,
    channels_last: bool = False,
) -> Any:
    """The largest element of each window, over the axes of space.

    Equal largest elements of a window share its cotangent, as those of `max` do; NaN wins.

    Args:
        x: (batch, channels, *space).
        window: its length, or one for each axis of space.
        stride: how far apart windows start; by default the window's length.
        padding: elements around x that are never the largest: a number, or for each axis a number
            or a pair (before, behind); `"valid"` for none; `"same"` for ceil(n / stride) places.
        dilation: how far apart the elements of a window are.
        channels_last: x and the result are (batch, *space, channels) instead.

    Raises:
        ArgumentError: `[bad-window]`; `[bad-padding]`, also where a window would hold nothing else.
        ShapeError: `[window-too-long]`, `[shape-mismatch]`.

    Example:
        >>> import numpy as np
        >>> import anabranch as ab
        >>> ab.max_pool(np.array([[[1.0, 3.0, 2.0, 2.0]]]), 2)
        array([[[3., 2.]]])
    """
    x = space_last(x, channels_last)
    found = pooling("max_pool", x, window, stride, padding, dilation)
    y = bind(
        max_pool,
        x,
        window=found.window,
        stride=found.stride,
        dilation=found.dilation,
        padding=found.padding,
    )
    return space_first(y, channels_last)


def _pool_aval(
    x: Aval, *, window: Lengths, stride: Lengths, dilation: Lengths, padding: Pairs
) -> Aval:
    count = len(window)
    if x.ndim < count:
        raise ShapeError("window-too-long", f"windows over {count} axes do not fit into {x}")
    outer, lengths = x.shape[: x.ndim - count], x.shape[x.ndim - count :]
    full = tuple(n + a + b for n, (a, b) in zip(lengths, padding, strict=True))
    return x.with_shape((*outer, *counts("max_pool", full, window, stride, dilation)))


def _pool_ref(x: Any, **attrs: Any) -> Any:
    x = np.asarray(x)
    _pool_aval(aval_of(x), **attrs)
    window, padding = attrs["window"], attrs["padding"]
    if not window:
        return owned(x)
    widths = ((0, 0),) * (x.ndim - len(window)) + padding
    full = np.pad(x, widths, constant_values=extremes(x.dtype)[0]) if any(map(any, padding)) else x
    windows = view(full, window, attrs["stride"], attrs["dilation"])
    return owned(np.max(windows, axis=tuple(range(-len(window), 0))))


def _windows_of(x: Any, attrs: Any, fill: Any = 0) -> Any:
    return bind(
        sliding_windows,
        padded(x, attrs["padding"], fill),
        window=attrs["window"],
        stride=attrs["stride"],
        dilation=attrs["dilation"],
    )


def _taken(y: Any, x: Any, attrs: Any) -> tuple[Any, Any]:
    """Which elements of the windows are the largest, and how many of each window."""
    windows = _windows_of(x, attrs)
    count = len(attrs["window"])
    shape = (*shape_of(y), *(1,) * count)
    top = broadcast_to(reshaped(y, shape), shape_of(windows))
    taken = where(isnan(top), isnan(windows), equal(windows, top))
    if any(map(any, attrs["padding"])):
        inside = np.ones(shape_of(x)[len(shape_of(x)) - count :], np.bool_)
        within = view(
            np.pad(inside, attrs["padding"]), attrs["window"], attrs["stride"], attrs["dilation"]
        )
        taken = where(within.copy(), taken, False)
    return taken, sum_(taken, tuple(range(-count, 0)), keepdims=True)


def _pool_vjp(ct: Any, y: Any, x: Any, **attrs: Any) -> Any:
    taken, count = _taken(y, x, attrs)
    share = where(taken, reshaped(ct, shape_of(count)) / count, 0.0)  # in float64, as in max
    lengths = shape_of(x)[len(shape_of(x)) - len(attrs["window"]) :]
    full = tuple(n + a + b for n, (a, b) in zip(lengths, attrs["padding"], strict=True))
    spread = bind(
        add_windows, share, shape=full, stride=attrs["stride"], dilation=attrs["dilation"]
    )
    return cropped(spread, attrs["padding"])


def _pool_jvp(t: Any, y: Any, x: Any, **attrs: Any) -> Any:
    taken, count = _taken(y, x, attrs)
    moved = where(taken, _windows_of(t, attrs), 0.0)
    axes = tuple(range(-len(attrs["window"]), 0))
    return reshaped(sum_(moved, axes, keepdims=True) / count, shape_of(y))


def _pool_made(x: Any, **attrs: Any) -> Any:
    """The maximum over windows, whose last axis of places stands last: it is the longest."""
    count = len(attrs["window"])
    if not count:
        return None
    windows = _windows_of(x, attrs, extremes(x.dtype)[0])
    outer = len(shape_of(x)) - count
    last = outer + count - 1
    order = (*range(last), *range(last + 1, last + 1 + count), last)
    axes = tuple(range(last, last + count))
    return bind(max_, permute(windows, order), axes=axes, keepdims=False)


_PLAIN: Any = {"stride": (2,), "dilation": (1,), "padding": ((0, 0),)}
max_pool: Op = Op(
    "max_pool",
    aval=_pool_aval,
    ref=_pool_ref,
    vjp=(_pool_vjp,),
    jvp=(_pool_jvp,),
    call=_max_pool,
    lower=MadeOf(_pool_made),
    samples=(
        sample(
            [1.0, 3.0, 2.0, 0.0], value=[3.0, 2.0], grads=([0, 1, 1, 0],), window=(2,), **_PLAIN
        ),
        sample([2.0, 2.0], value=[2.0], grads=([0.5, 0.5],), kink=True, window=(2,), **_PLAIN),
        sample(
            [1.0, 2.0, 2.0, 2.0],
            value=[2.0],
            grads=([0, 1 / 3, 1 / 3, 1 / 3],),
            kink=True,
            window=(4,),
            **_PLAIN,
        ),
        sample(
            [1.0, float("nan")],
            value=[float("nan")],
            grads=([0, 1],),
            kink=True,
            window=(2,),
            **_PLAIN,
        ),
        # what is around is never the largest, not even among infinities
        sample(
            [-float("inf"), -3.0],
            value=[-float("inf"), -3.0],
            grads=([1, 1],),
            kink=True,
            window=(2,),
            stride=(2,),
            dilation=(1,),
            padding=((1, 1),),
        ),
        sample(
            normal(2, 2, 5, 6),
            window=(2, 3),
            stride=(1, 2),
            dilation=(2, 1),
            padding=((1, 0), (0, 1)),
        ),
        sample(normal(2, 3, 4), window=(2,), **_PLAIN),
        sample(normal(1), window=(1,), **_PLAIN),
        sample(normal(0, 3), window=(3,), **_PLAIN),
    ),
)
