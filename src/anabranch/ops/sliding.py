"""The arguments of what slides over axes: windows, strides, padding, and where channels stand.

A window of length k, dilated by d, reaches over d (k - 1) + 1 elements; windows start `stride`
elements apart, and none hangs over an edge.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

from anabranch.core.aval import Shape, aval_of
from anabranch.core.bind import bind
from anabranch.errors import ArgumentError, ShapeError
from anabranch.ops.index import slice_
from anabranch.ops.layout import pad, permute
from anabranch.ops.rules import shape_of

Lengths = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]


class Slide(NamedTuple):
    """How windows lie over some axes: a number for each axis, and padding as pairs."""

    window: Lengths
    stride: Lengths
    dilation: Lengths
    padding: Pairs


def slide(
    name: str, lengths: Shape, window: Any, stride: Any, padding: Any, dilation: Any
) -> Slide:
    """The arguments of a convolution or a pooling over axes of these lengths, one for each axis.

    Raises:
        ArgumentError: `[bad-window]`, `[bad-padding]`.
    """
    count = len(lengths)
    k, s, d = (
        _each(name, what, value, count)
        for what, value in (("window", window), ("stride", stride), ("dilation", dilation))
    )
    return Slide(k, s, d, _pairs(name, padding, lengths, k, s, d))


def pooling(name: str, x: Any, window: Any, stride: Any, padding: Any, dilation: Any) -> Slide:
    """The arguments of a pooling over the axes of x behind batch and channels.

    Raises:
        ArgumentError: `[bad-window]`; `[bad-padding]`, also where a window could lie outside.
        ShapeError: `[shape-mismatch]`, `[window-too-long]`.
    """
    if len(shape_of(x)) < 3:
        raise ShapeError(
            "shape-mismatch", f"{name} needs (batch, channels, *space), got {aval_of(x)}"
        )
    lengths = shape_of(x)[2:]
    found = slide(name, lengths, window, window if stride is None else stride, padding, dilation)
    for pair, k, d in zip(found.padding, found.window, found.dilation, strict=True):
        if max(pair) >= reach(k, d):
            raise ArgumentError(
                "bad-padding", f"{name}: with padding {pair} a window of {k} holds nothing of x"
            )
    return found


def _each(name: str, what: str, value: Any, count: int) -> Lengths:
    given = value if isinstance(value, Sequence) else (value,) * count
    try:
        found = tuple(map(operator.index, given))
    except TypeError:
        found = ()
    if len(found) != count or any(n < 1 for n in found):
        raise ArgumentError(
            "bad-window",
            f"{name} needs a {what} of at least 1 for each of {count} axes, got {value!r}",
        )
    return found


def _pairs(name: str, padding: Any, lengths: Shape, k: Lengths, s: Lengths, d: Lengths) -> Pairs:
    if padding == "valid":
        return ((0, 0),) * len(lengths)
    if padding == "same":
        return tuple(map(_same, lengths, map(reach, k, d), s))
    given = padding if isinstance(padding, Sequence) else (padding,) * len(lengths)
    try:
        found = tuple(
            tuple(map(operator.index, one if isinstance(one, Sequence) else (one, one)))
            for one in given
        )
    except TypeError:
        found = ()
    if len(found) != len(lengths) or any(len(p) != 2 or min(p) < 0 for p in found):
        raise ArgumentError(
            "bad-padding",
            f'{name} needs padding as "valid", "same", a number, or a number or pair for each of'
            f" {len(lengths)} axes, got {padding!r}",
            hint="padding=1",
        )
    return found  # type: ignore[return-value]


def reach(k: int, d: int) -> int:
    """How many elements a window of length k spans, dilated by d."""
    return d * (k - 1) + 1


def _same(n: int, span: int, s: int) -> tuple[int, int]:
    """What makes one window for every s elements; the odd one goes behind."""
    total = max((math.ceil(n / s) - 1) * s + span - n, 0)
    return total // 2, total - total // 2


def padded(x: Any, padding: Pairs, fill: Any = 0) -> Any:
    """x with padding around its last axes."""
    if not any(map(any, padding)):
        return x
    widths = ((0, 0),) * (len(shape_of(x)) - len(padding)) + padding
    return bind(pad, x, widths=widths, fill=fill)


def cropped(x: Any, padding: Pairs) -> Any:
    """What `padded` was given, out of what it gave."""
    if not any(map(any, padding)):
        return x
    lengths = shape_of(x)[-len(padding) :]
    inside = [slice(a, n - b) for (a, b), n in zip(padding, lengths, strict=True)]
    return slice_(x, (..., *inside))


def space_last(x: Any, moves: bool) -> Any:
    """(batch, channels, *space), out of (batch, *space, channels) if it `moves`."""
    ndim = len(shape_of(x))
    return permute(x, (0, ndim - 1, *range(1, ndim - 1))) if moves else x


def space_first(x: Any, moves: bool) -> Any:
    """(batch, *space, channels), out of (batch, channels, *space) if it `moves`."""
    ndim = len(shape_of(x))
    return permute(x, (0, *range(2, ndim), 1)) if moves else x


def counts(name: str, lengths: Shape, window: Lengths, stride: Lengths, dilation: Lengths) -> Shape:
    """How many windows there are along each axis.

    Raises:
        ShapeError: `[window-too-long]`.
    """
    found = []
    for n, k, s, d in zip(lengths, window, stride, dilation, strict=True):
        if reach(k, d) > n:
            raise ShapeError(
                "window-too-long",
                f"{name}: a window over {reach(k, d)} elements does not fit into {n}",
                hint='padding="same"',
            )
        found.append((n - reach(k, d)) // s + 1)
    return tuple(found)


def spread(space: Lengths, found: Slide, longer: Any, is_same: bool) -> tuple[Lengths, Pairs]:
    """The lengths that kernels spread over, and what is cut off them."""
    full = [
        (n - 1) * s + reach(k, d)
        for n, s, k, d in zip(space, found.stride, found.window, found.dilation, strict=True)
    ]
    if is_same:
        over = [f - n * s for f, n, s in zip(full, space, found.stride, strict=True)]
        cuts: Pairs = tuple((max(o, 0) // 2, (max(o, 0) + 1) // 2) for o in over)
        return tuple(f + max(-o, 0) for f, o in zip(full, over, strict=True)), cuts
    more = longer if isinstance(longer, Sequence) else (longer,) * len(space)
    if len(more) != len(space) or any(
        not 0 <= m < s for m, s in zip(more, found.stride, strict=False)
    ):
        raise ArgumentError(
            "bad-padding",
            f"output_padding is from 0 to less than the stride {found.stride}, not {longer!r}",
        )
    shape = tuple(f + operator.index(m) for f, m in zip(full, more, strict=True))
    if any(sum(cut) >= n for cut, n in zip(found.padding, shape, strict=True)):
        raise ArgumentError("bad-padding", f"conv_transpose: padding leaves nothing of {shape}")
    return shape, found.padding


def in_order(x: Any, w: Any, channels_last: bool) -> tuple[Any, Any]:
    """Both as (batch or outputs, channels, *space)."""
    if len(shape_of(x)) < 3 or len(shape_of(x)) != len(shape_of(w)):
        raise ShapeError(
            "shape-mismatch",
            f"a convolution needs x as (batch, channels, *space) and w with as many axes,"
            f" got {aval_of(x)} and {aval_of(w)}",
        )
    if not channels_last:
        return x, w
    ndim = len(shape_of(w))
    return space_last(x, True), permute(w, (ndim - 1, ndim - 2, *range(ndim - 2)))
