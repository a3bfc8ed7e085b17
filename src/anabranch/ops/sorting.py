"""Order along an axis. NaN stands behind everything, and equal elements keep their order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.core.aval import Aval, aval, aval_of
from anabranch.core.bind import bind
from anabranch.core.dtype import is_half, promote
from anabranch.core.op import NO_GRADIENT, Kernel, Op
from anabranch.core.sample import normal, sample
from anabranch.core.values import settled
from anabranch.errors import ArgumentError, ShapeError
from anabranch.ops.gather import gather
from anabranch.ops.layout import broadcast_to, reshape
from anabranch.ops.rules import axis_index, shape_of
from anabranch.ops.scatter import scatter_add

inf, nan = math.inf, math.nan


def ordered(op: Op, x: Any, axis: int | None, descending: bool) -> Any:
    """`sort` or `argsort` along an axis, or of the flattened value.

    Raises:
        OutOfRangeError: `[axis-out-of-range]`.
    """
    if axis is None:
        x, axis = reshape(x, -1), 0
    place = axis_index(axis, len(shape_of(x)))
    return bind(op, x, axis=place, descending=bool(descending))


def _comparable(x: Any) -> Any:
    """What NumPy puts in order: it knows no NaN in bfloat16."""
    return np.asarray(x, np.float32) if is_half(x.dtype) else np.asarray(x)


def _argsort_aval(x: Aval, *, axis: int, descending: bool) -> Aval:
    axis_index(axis, x.ndim)
    return aval(x.shape, np.dtype(np.int64))


def _argsort_ref(x: Any, *, axis: int, descending: bool) -> Any:
    values = _comparable(x)
    if not descending:
        return np.argsort(values, axis=axis, kind="stable").astype(np.int64, order="C")
    # From behind, so that equal elements come out in their own order again.
    order = np.argsort(np.flip(values, axis), axis=axis, kind="stable")
    return np.ascontiguousarray(values.shape[axis] - 1 - np.flip(order, axis), np.int64)


def _sort_aval(x: Aval, *, axis: int, descending: bool) -> Aval:
    axis_index(axis, x.ndim)
    return x


def _sort_ref(x: Any, *, axis: int, descending: bool) -> Any:
    values = _comparable(x)
    if descending:
        ordered = np.flip(np.sort(np.flip(values, axis), axis=axis, kind="stable"), axis)
    else:
        ordered = np.sort(values, axis=axis, kind="stable")
    return np.array(ordered, x.dtype, order="C")


argsort: Op = Op(
    "argsort",
    aval=_argsort_aval,
    ref=_argsort_ref,
    vjp=NO_GRADIENT,
    call=lambda x, axis=-1, *, descending=False, stable=True: ordered(argsort, x, axis, descending),
    samples=(
        sample([3.0, 1.0, 2.0], value=[1, 2, 0], axis=0, descending=False),
        sample([2.0, 1.0, 2.0, 1.0], value=[1, 3, 0, 2], axis=0, descending=False),
        sample([2.0, 1.0, 2.0, 1.0], value=[0, 2, 1, 3], axis=0, descending=True),
        sample([nan, inf, -inf, nan], value=[2, 1, 0, 3], axis=0, descending=False),
        sample([nan, inf, -inf, nan], value=[0, 3, 1, 2], axis=0, descending=True),
        sample([0.0, -0.0], value=[0, 1], axis=0, descending=False),
        sample(normal(3, 4), axis=1, descending=False),
        sample(normal(3, 4), axis=0, descending=True),
        sample(normal(1), axis=0, descending=False),
        sample(normal(2, 0), axis=1, descending=False),
    ),
    lower=Kernel("argsort"),
    doc="The indices that sort along an axis (of the flattened value for None): equal elements in"
    " their own order, NaN behind everything, or before it with `descending`.",
)


def _places(x: Any, axis: int, descending: bool) -> Any:
    """For each element of the sorted value its place in the flattened x."""
    shape = shape_of(x)
    stride = math.prod(shape[axis + 1 :])
    order = bind(argsort, x, axis=axis, descending=descending)
    places = order if stride == 1 else order * stride
    if math.prod(shape) == shape[axis]:
        return places
    starts = np.arange(math.prod(shape), dtype=np.int64).reshape(shape)
    return places + np.ascontiguousarray(np.take(starts, [0], axis))


def _sort_vjp(ct: Any, y: Any, x: Any, *, axis: int, descending: bool) -> Any:
    zeros = broadcast_to(ct.dtype.type(0), (math.prod(shape_of(x)),))
    return reshape(scatter_add(zeros, _places(x, axis, descending), ct), shape_of(x))


def _sort_jvp(t: Any, y: Any, x: Any, *, axis: int, descending: bool) -> Any:
    return t if 0 in shape_of(x) else gather(reshape(t, -1), _places(x, axis, descending))


sort: Op = Op(
    "sort",
    aval=_sort_aval,
    ref=_sort_ref,
    vjp=(_sort_vjp,),
    jvp=(_sort_jvp,),
    call=lambda x, axis=-1, *, descending=False, stable=True: ordered(sort, x, axis, descending),
    samples=(
        sample([3.0, 1.0, 2.0], value=[1.0, 2.0, 3.0], grads=([1] * 3,), axis=0, descending=False),
        sample([3.0, 1.0, 2.0], value=[3.0, 2.0, 1.0], grads=([1] * 3,), axis=0, descending=True),
        sample([2.0, 1.0, 2.0], value=[1.0, 2.0, 2.0], kink=True, axis=0, descending=False),
        sample([nan, inf, -inf], value=[-inf, inf, nan], kink=True, axis=0, descending=False),
        sample([nan, inf, -inf], value=[nan, inf, -inf], kink=True, axis=0, descending=True),
        sample([0.0, -0.0], value=[0.0, -0.0], kink=True, axis=0, descending=False),
        sample(normal(3, 4), axis=1, descending=False),
        sample(normal(3, 4), axis=0, descending=True),
        sample(normal(2, 3, 2), axis=1, descending=False),
        sample(normal(1), axis=0, descending=False),
        sample(normal(2, 0), axis=0, descending=False),
    ),
    lower=Kernel("sort"),
    doc="A sorted copy along an axis (of the flattened value for None): equal elements in their own"
    " order, NaN behind everything, or before it with `descending`.",
)


def _search_aval(a: Aval, v: Aval, *, side: str) -> Aval:
    if a.ndim != 1:
        raise ShapeError("shape-mismatch", f"searchsorted needs one axis of sorted values, got {a}")
    promote([(a.dtype, a.weak), (v.dtype, v.weak)])
    return aval(v.shape, np.dtype(np.int64))


def _search_ref(a: Any, v: Any, *, side: str) -> Any:
    _search_aval(aval_of(a), aval_of(v), side=side)
    common, _ = promote((one.dtype, one.weak) for one in (aval_of(a), aval_of(v)))
    wide = np.dtype(np.float32) if is_half(common) else common
    found = np.searchsorted(np.asarray(a, wide), np.asarray(v, wide), side=side)  # type: ignore[call-overload]
    return settled(np.asarray(found, np.int64))


def _searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    if side not in ("left", "right"):
        raise ArgumentError("bad-argument", f'side is "left" or "right", not {side!r}')
    return bind(searchsorted, a if sorter is None else gather(a, sorter), v, side=side)


searchsorted: Op = Op(
    "searchsorted",
    aval=_search_aval,
    ref=_search_ref,
    vjp=(NO_GRADIENT, NO_GRADIENT),
    call=_searchsorted,
    samples=(
        sample([1.0, 2.0, 2.0, 3.0], [2.0, 0.0, 9.0], value=[1, 0, 4], side="left"),
        sample([1.0, 2.0, 2.0, 3.0], 2.0, value=3, side="right"),
        sample([-inf, 0.0, nan], [-inf, inf, nan], value=[0, 2, 2], side="left"),
        sample(normal(4), normal(2, 3), side="left"),
        sample(normal(1), normal(), side="right"),
        sample(normal(0), normal(2), side="left"),
        sample(normal(3), normal(0, 2), side="left"),
    ),
    lower=Kernel("search"),
    doc="Where each element of v would stand among the sorted values a: before equal ones, or with"
    ' side="right" behind them. `sorter` is the order that sorts a.',
)
