"""Convolutions as products of matrices, for machine code: windows become columns.

Each function gives what the op of its name gives, in terms of other ops; None for operands that
are left to the reference. Images go through in parts, so that few columns are in memory at once.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from anabranch.core.bind import bind
from anabranch.core.dtype import is_half, promote
from anabranch.ops.elementwise import astype
from anabranch.ops.index import slice_
from anabranch.ops.layout import permute, reshape
from anabranch.ops.rules import shape_of
from anabranch.ops.sliding import Lengths, counts

_COLUMNS = 1 << 22  # bytes of columns at once
_PARTS = 16  # at most so many times


def conv_made(x: Any, w: Any, *, stride: Lengths, dilation: Lengths, groups: int) -> Any:
    xs, dtype = _prepared(x, w)
    if not xs:
        return None
    x, w = xs
    (outputs, each), window = shape_of(w)[:2], shape_of(w)[2:]
    places = counts("conv", shape_of(x)[2:], window, stride, dilation)
    depth = each * prod(window)
    kernel = reshape(w, (groups, outputs // groups, depth))
    made = []
    for part in _parts(x, groups * depth * prod(places)):
        columns = _columns(part, window, stride, dilation, groups)
        batch = shape_of(part)[0]
        product = bind("matmul", kernel, reshape(columns, (batch, groups, depth, prod(places))))
        made.append(reshape(product, (batch, outputs, *places)))
    return _joined(made, dtype)


def transpose_made(
    x: Any, w: Any, *, shape: Lengths, stride: Lengths, dilation: Lengths, groups: int
) -> Any:
    xs, dtype = _prepared(x, w)
    if not xs:
        return None
    x, w = xs
    (channels, each), window, places = shape_of(w)[:2], shape_of(w)[2:], shape_of(x)[2:]
    depth, count = each * prod(window), len(window)
    kernel = permute(reshape(w, (groups, channels // groups, depth)), (0, 2, 1))
    made = []
    for part in _parts(x, groups * depth * prod(places)):
        batch = shape_of(part)[0]
        rows = reshape(part, (batch, groups, channels // groups, prod(places)))
        spread = reshape(bind("matmul", kernel, rows), (batch, groups * each, *window, *places))
        order = (0, 1, *range(2 + count, 2 + 2 * count), *range(2, 2 + count))
        attrs = {"shape": shape, "stride": stride, "dilation": dilation}
        made.append(bind("add_windows", permute(spread, order), **attrs))
    return _joined(made, dtype)


def kernel_made(
    x: Any, y: Any, *, window: Lengths, stride: Lengths, dilation: Lengths, groups: int
) -> Any:
    xs, dtype = _prepared(x, y)
    if not xs:
        return None
    x, y = xs
    outputs, places, each = shape_of(y)[1], shape_of(y)[2:], shape_of(x)[1] // groups
    depth, total, start = each * prod(window), None, 0
    for part in _parts(x, groups * depth * prod(places)):
        batch = shape_of(part)[0]
        columns = _columns(part, window, stride, dilation, groups)
        rows = reshape(columns, (batch, groups, depth, prod(places)))
        right = reshape(permute(rows, (1, 2, 0, 3)), (groups, depth, batch * prod(places)))
        mine = _images(y, start, start + batch)
        split = reshape(mine, (batch, groups, outputs // groups, prod(places)))
        left = reshape(
            permute(split, (1, 2, 0, 3)), (groups, outputs // groups, batch * prod(places))
        )
        product = bind("matmul", left, permute(right, (0, 2, 1)))
        total = product if total is None else total + product
        start += batch
    return _typed(reshape(total, (outputs, each, *window)), dtype)


def _prepared(*xs: Any) -> tuple[list[Any], Any]:
    """The operands in the dtype to compute in, or none, and the dtype of the result."""
    dtype, _ = promote([(x.dtype, False) for x in xs])
    if dtype.kind == "c" or 0 in (n for x in xs for n in shape_of(x)):
        return [], dtype
    wide = np.dtype(np.float32) if is_half(dtype) else dtype
    return [_typed(x, wide) for x in xs], dtype


def _typed(x: Any, dtype: Any) -> Any:
    return x if x.dtype == dtype else astype(x, dtype)


def _images(x: Any, start: int, stop: int) -> Any:
    return x if (start, stop) == (0, shape_of(x)[0]) else slice_(x, slice(start, stop))


def _parts(x: Any, columns: int) -> list[Any]:
    """The images in parts, with so many elements of columns for each of them."""
    batch = shape_of(x)[0]
    count = min(batch, _PARTS, -(-batch * columns * x.dtype.itemsize // _COLUMNS))
    size = -(-batch // max(count, 1))
    return [_images(x, start, min(start + size, batch)) for start in range(0, batch, size)]


def _columns(x: Any, window: Lengths, stride: Lengths, dilation: Lengths, groups: int) -> Any:
    """The windows of x as (batch, groups, channels, *window, *places)."""
    (batch, channels), space, count = shape_of(x)[:2], shape_of(x)[2:], len(window)
    split = reshape(x, (batch, groups, channels // groups, *space))
    windows = bind("sliding_windows", split, window=window, stride=stride, dilation=dilation)
    return permute(windows, (0, 1, 2, *range(3 + count, 3 + 2 * count), *range(3, 3 + count)))


def _joined(parts: list[Any], dtype: Any) -> Any:
    return _typed(parts[0] if len(parts) == 1 else bind("concatenate", *parts, axis=0), dtype)
