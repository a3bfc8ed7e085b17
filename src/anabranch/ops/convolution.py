"""Convolution and its two adjoints.

Each of the three ops is one face of the same sum over products x·w·y, in which y at place p meets
w at offset k and x at p·stride + k·dilation. It is linear in each of the two that it takes, and
its derivative by one of them is the op that gives that one. Padding stands outside, as `pad`.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from anabranch.core.aval import Aval, aval, aval_of
from anabranch.core.bind import bind
from anabranch.core.dtype import is_half, promote
from anabranch.core.op import MadeOf, Op
from anabranch.core.sample import normal, sample
from anabranch.errors import DTypeError, ShapeError
from anabranch.ops.patches import conv_made, kernel_made, transpose_made
from anabranch.ops.rules import shape_of
from anabranch.ops.sliding import (
    Lengths,
    counts,
    cropped,
    in_order,
    padded,
    slide,
    space_first,
    spread,
)
from anabranch.ops.windows import added, view


def _conv(
    x: Any,
    w: Any,
    stride: Any = 1,
    padding: Any = "valid",
    dilation: Any = 1,
    groups: int = 1,
    channels_last: bool = False,
) -> Any:
    """The convolution of x with the kernel w, which is not turned around, in 1, 2, 3, ... axes.

    Args:
        x: (batch, channels, *space); as many axes of space as there are decide its dimension.
        w: (outputs, channels / groups, *window).
        stride: how far apart windows start; a number, or one for each axis of space.
        padding: zeros around x: a number, or for each axis a number or a pair (before, behind);
            `"valid"` for none; `"same"` for a result of length ceil(n / stride), where an odd
            zero goes behind.
        dilation: how far apart the elements of a window are, like stride.
        groups: into how many parts channels and outputs are divided, each part for itself.
        channels_last: x and the result are (batch, *space, channels) instead, and w is
            (*window, channels / groups, outputs).

    Returns:
        (batch, outputs, *places). Half types are summed in float32.

    Raises:
        ShapeError: `[shape-mismatch]`, `[window-too-long]`.
        ArgumentError: `[bad-window]`, `[bad-padding]`.
        DTypeError: `[bool-arithmetic]`.

    Example:
        >>> import numpy as np
        >>> import anabranch as ab
        >>> x, w = np.array([[[1.0, 2.0, 3.0]]]), np.array([[[1.0, 10.0]]])
        >>> ab.conv(x, w)
        array([[[21., 32.]]])
        >>> ab.conv(x, w, padding="same")
        array([[[21., 32.,  3.]]])
    """
    x, w = in_order(x, w, channels_last)
    found = slide("conv", shape_of(x)[2:], shape_of(w)[2:], stride, padding, dilation)
    slides = {"stride": found.stride, "dilation": found.dilation, "groups": groups}
    y = bind(conv, padded(x, found.padding), w, **slides)
    return space_first(y, channels_last)


def _conv_transpose(
    x: Any,
    w: Any,
    stride: Any = 1,
    padding: Any = "valid",
    dilation: Any = 1,
    groups: int = 1,
    output_padding: Any = 0,
    channels_last: bool = False,
) -> Any:
    """The adjoint of a convolution: every element of x spreads a multiple of the kernel.

    With the same w and arguments it leads back from the shape of `conv`'s result to that of its x.

    Args:
        x: (batch, channels, *space).
        w: (channels, outputs / groups, *window): that of the convolution whose adjoint this is.
        stride: how far apart the kernels are spread; a number, or one for each axis of space.
        padding: what is cut off the result, in the forms of `conv`; `"same"` gives the length
            n * stride.
        dilation: how far apart the elements of a window are, like stride.
        groups: as in `conv`.
        output_padding: by how many elements, fewer than stride, the result is longer behind: a
            convolution leaves over as many that no window reaches.
        channels_last: x and the result are (batch, *space, channels) instead, and w is
            (*window, outputs / groups, channels).

    Returns:
        (batch, outputs, *lengths), with (n - 1) stride + dilation (k - 1) + 1 - padding +
        output_padding for each length.

    Raises:
        ShapeError: `[shape-mismatch]`.
        ArgumentError: `[bad-window]`, `[bad-padding]`.
        DTypeError: `[bool-arithmetic]`.

    Example:
        >>> import numpy as np
        >>> import anabranch as ab
        >>> x, w = np.array([[[1.0, 2.0]]]), np.array([[[1.0, 10.0]]])
        >>> ab.conv_transpose(x, w, stride=2)
        array([[[ 1., 10.,  2., 20.]]])
    """
    x, w = in_order(x, w, channels_last)
    space, window = shape_of(x)[2:], shape_of(w)[2:]
    is_same = isinstance(padding, str) and padding == "same"
    found = slide(
        "conv_transpose", space, window, stride, "valid" if is_same else padding, dilation
    )
    shape, cuts = spread(space, found, output_padding, is_same)
    y = bind(
        conv_transpose,
        x,
        w,
        shape=shape,
        stride=found.stride,
        dilation=found.dilation,
        groups=groups,
    )
    return space_first(cropped(y, cuts), channels_last)


# Avals


def _dtype(name: str, one: Aval, other: Aval) -> Any:
    dtype, _ = promote([(one.dtype, False), (other.dtype, False)])
    if dtype.kind == "b":
        raise DTypeError(
            "bool-arithmetic", f"{name} has no meaning for bools", hint="x.astype(int)"
        )
    return dtype


def _grouped(name: str, channels: int, w: Aval, groups: int) -> None:
    outputs, each = w.shape[:2]
    if groups < 1 or outputs % groups or channels != each * groups:
        raise ShapeError(
            "shape-mismatch",
            f"{name}: {channels} channels do not fit {w} in {groups} groups,"
            f" which takes {each * max(groups, 1)}",
        )


def _conv_aval(x: Aval, w: Aval, *, stride: Lengths, dilation: Lengths, groups: int) -> Aval:
    _grouped("conv", x.shape[1], w, groups)
    places = counts("conv", x.shape[2:], w.shape[2:], stride, dilation)
    return aval((x.shape[0], w.shape[0], *places), _dtype("conv", x, w))


def _transpose_aval(
    x: Aval, w: Aval, *, shape: Lengths, stride: Lengths, dilation: Lengths, groups: int
) -> Aval:
    channels = w.shape[1] * groups
    _grouped("conv_transpose", channels, w, groups)
    places = counts("conv_transpose", shape, w.shape[2:], stride, dilation)
    if x.shape[1:] != (w.shape[0], *places):
        raise ShapeError(
            "shape-mismatch",
            f"conv_transpose needs x as (batch, channels, *space) with the {w.shape[0]} channels"
            f" of w as {w}, got {x}",
        )
    return aval((x.shape[0], channels, *shape), _dtype("conv_transpose", x, w))


def _kernel_aval(
    x: Aval, y: Aval, *, window: Lengths, stride: Lengths, dilation: Lengths, groups: int
) -> Aval:
    places = counts("conv_kernel", x.shape[2:], window, stride, dilation)
    if (y.shape[0], *y.shape[2:]) != (x.shape[0], *places):
        raise ShapeError("shape-mismatch", f"conv_kernel: {y} is no result of {x}")
    w = aval((y.shape[1], x.shape[1] // max(groups, 1), *window), _dtype("conv_kernel", x, y))
    _grouped("conv_kernel", x.shape[1], w, groups)
    return w


# References: windows as columns of a matrix, one product for each group


def _prepared(*values: Any) -> tuple[Any, Any, Any]:
    """Both operands in the dtype to compute in, and that of the result."""
    dtype, _ = promote([(value.dtype, False) for value in values])
    inside = np.float32 if is_half(dtype) else dtype
    one, other = (value.astype(inside, copy=False) for value in values)
    return one, other, dtype


def _columns(x: Any, window: Lengths, stride: Lengths, dilation: Lengths, groups: int) -> Any:
    """The windows of x as (groups, batch * places, channels * window)."""
    batch, channels, *space = x.shape
    count, each = len(space), channels // groups
    windows = view(x.reshape(batch, groups, each, *space), window, stride, dilation)
    places = windows.shape[3 : 3 + count]
    order = (1, 0, *range(3, 3 + count), 2, *range(3 + count, 3 + 2 * count))
    return windows.transpose(order).reshape(groups, batch * prod(places), each * prod(window))


def _by_group(y: Any, groups: int) -> Any:
    """(batch, outputs, *places) as (groups, outputs, batch * places)."""
    batch, outputs, *places = y.shape
    split = y.reshape(batch, groups, outputs // groups, prod(places))
    return split.transpose(1, 2, 0, 3).reshape(groups, outputs // groups, batch * prod(places))


def _as_kernel(w: Any, groups: int) -> Any:
    """(outputs, channels, *window) as (groups, outputs, channels * window)."""
    return w.reshape(groups, w.shape[0] // groups, prod(w.shape[1:]))


def _conv_ref(x: Any, w: Any, *, stride: Lengths, dilation: Lengths, groups: int) -> Any:
    y = _conv_aval(aval_of(x), aval_of(w), stride=stride, dilation=dilation, groups=groups)
    x, w, dtype = _prepared(x, w)
    columns = _columns(x, w.shape[2:], stride, dilation, groups)
    product = _as_kernel(w, groups) @ columns.swapaxes(-1, -2)
    batch, outputs, *places = y.shape
    split = product.reshape(groups, outputs // groups, batch, prod(places))
    return np.array(split.transpose(2, 0, 1, 3).reshape(y.shape), dtype, order="C")


def _transpose_ref(
    x: Any, w: Any, *, shape: Lengths, stride: Lengths, dilation: Lengths, groups: int
) -> Any:
    y = _transpose_aval(
        aval_of(x), aval_of(w), shape=shape, stride=stride, dilation=dilation, groups=groups
    )
    x, w, dtype = _prepared(x, w)
    places, (each, *window), batch, count = x.shape[2:], w.shape[1:], x.shape[0], len(shape)
    product = _as_kernel(w, groups).swapaxes(-1, -2) @ _by_group(x, groups)
    split = product.reshape(groups, each, *window, batch, *places)
    order = (2 + count, 0, 1, *range(3 + count, 3 + 2 * count), *range(2, 2 + count))
    windows = split.transpose(order).reshape(batch, groups * each, *places, *window)
    return np.array(added(windows, shape, stride, dilation).reshape(y.shape), dtype, order="C")


def _kernel_ref(
    x: Any, y: Any, *, window: Lengths, stride: Lengths, dilation: Lengths, groups: int
) -> Any:
    w = _kernel_aval(
        aval_of(x), aval_of(y), window=window, stride=stride, dilation=dilation, groups=groups
    )
    x, y, dtype = _prepared(x, y)
    product = _by_group(y, groups) @ _columns(x, window, stride, dilation, groups)
    return np.array(product.reshape(w.shape), dtype, order="C")


# Records


def _to_x(ct: Any, w: Any, x: Any, **attrs: Any) -> Any:
    return bind(conv_transpose, ct, w, shape=shape_of(x)[2:], **attrs)


def _to_w(ct: Any, x: Any, w: Any, **attrs: Any) -> Any:
    return bind(conv_kernel, x, ct, window=shape_of(w)[2:], **attrs)


conv: Op = Op(
    "conv",
    aval=_conv_aval,
    ref=_conv_ref,
    vjp=(
        lambda ct, y, x, w, **attrs: _to_x(ct, w, x, **attrs),
        lambda ct, y, x, w, **attrs: _to_w(ct, x, w, **attrs),
    ),
    linear=(0, 1),
    lower=MadeOf(conv_made),
    call=_conv,
    samples=(
        # 1 + 2·10, 2 + 3·10; by x the kernels add up, by w the windows
        sample(
            [[[1.0, 2.0, 3.0]]],
            [[[1.0, 10.0]]],
            value=[[[21.0, 32.0]]],
            grads=([[[1.0, 11.0, 10.0]]], [[[3.0, 5.0]]]),
            stride=(1,),
            dilation=(1,),
            groups=1,
        ),
        # two groups, each an ordinary product, of every second element
        sample(
            [[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]],
            [[[2.0]], [[3.0]]],
            value=[[[2.0, 6.0], [12.0, 18.0]]],
            grads=([[[2.0, 0.0, 2.0], [3.0, 0.0, 3.0]]], [[[4.0]], [[10.0]]]),
            stride=(2,),
            dilation=(1,),
            groups=2,
        ),
        sample(normal(2, 3, 5), normal(4, 3, 2), stride=(1,), dilation=(2,), groups=1),
        sample(normal(2, 4, 5, 6), normal(6, 2, 2, 3), stride=(2, 1), dilation=(1, 2), groups=2),
        sample(
            normal(1, 2, 3, 4, 3),
            normal(2, 1, 2, 2, 1),
            stride=(1, 2, 1),
            dilation=(1, 1, 1),
            groups=2,
        ),
        sample(normal(2, 2, 3), normal(2, 2, 3), stride=(1,), dilation=(1,), groups=1),
        sample(normal(1, 1, 1), normal(1, 1, 1), stride=(1,), dilation=(1,), groups=1),
        sample(normal(0, 2, 3), normal(2, 2, 3), stride=(1,), dilation=(1,), groups=1),
    ),
)

conv_transpose: Op = Op(
    "conv_transpose",
    aval=_transpose_aval,
    ref=_transpose_ref,
    vjp=(
        lambda ct, y, x, w, *, shape, **attrs: bind(conv, ct, w, **attrs),
        lambda ct, y, x, w, *, shape, **attrs: _to_w(x, ct, w, **attrs),
    ),
    linear=(0, 1),
    lower=MadeOf(transpose_made),
    call=_conv_transpose,
    samples=(
        sample(
            [[[1.0, 2.0]]],
            [[[1.0, 10.0]]],
            value=[[[1.0, 12.0, 20.0]]],
            grads=([[[11.0, 11.0]]], [[[3.0, 3.0]]]),
            shape=(3,),
            stride=(1,),
            dilation=(1,),
            groups=1,
        ),
        sample(normal(2, 4, 3), normal(4, 3, 2), shape=(5,), stride=(1,), dilation=(2,), groups=1),
        sample(
            normal(2, 6, 2, 2),
            normal(6, 2, 2, 3),
            shape=(5, 6),
            stride=(2, 1),
            dilation=(1, 2),
            groups=2,
        ),
        sample(normal(2, 2, 3), normal(2, 2, 3), shape=(5,), stride=(1,), dilation=(1,), groups=1),
        sample(normal(1, 1, 1), normal(1, 1, 1), shape=(1,), stride=(1,), dilation=(1,), groups=1),
        sample(normal(0, 2, 1), normal(2, 2, 3), shape=(3,), stride=(1,), dilation=(1,), groups=1),
    ),
)

conv_kernel: Op = Op(
    "conv_kernel",
    aval=_kernel_aval,
    ref=_kernel_ref,
    vjp=(
        lambda ct, w, x, y, *, window, **attrs: _to_x(y, ct, x, **attrs),
        lambda ct, w, x, y, *, window, **attrs: bind(conv, x, ct, **attrs),
    ),
    linear=(0, 1),
    lower=MadeOf(kernel_made),
    call=lambda x, y, window, stride, dilation, groups=1: bind(
        conv_kernel, x, y, window=window, stride=stride, dilation=dilation, groups=groups
    ),
    samples=(
        sample(
            [[[1.0, 2.0, 3.0]]],
            [[[1.0, 10.0]]],
            value=[[[21.0, 32.0]]],
            grads=([[[1.0, 11.0, 10.0]]], [[[3.0, 5.0]]]),
            window=(2,),
            stride=(1,),
            dilation=(1,),
            groups=1,
        ),
        sample(normal(2, 3, 5), normal(2, 4, 3), window=(2,), stride=(1,), dilation=(2,), groups=1),
        sample(
            normal(2, 4, 5, 6),
            normal(2, 6, 2, 2),
            window=(2, 3),
            stride=(2, 1),
            dilation=(1, 2),
            groups=2,
        ),
        sample(normal(2, 2, 3), normal(2, 2, 3), window=(1,), stride=(1,), dilation=(1,), groups=1),
        sample(normal(1, 1, 1), normal(1, 1, 1), window=(1,), stride=(1,), dilation=(1,), groups=1),
        sample(normal(0, 2, 3), normal(0, 2, 1), window=(3,), stride=(1,), dilation=(1,), groups=1),
    ),
    doc="The derivative of a convolution by its kernel: the windows of x (batch, channels, *space),"
    " each times the element of y (batch, outputs, *places) that it leads to, added up.",
)
