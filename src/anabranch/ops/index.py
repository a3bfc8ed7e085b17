"""Indexing: by integers and slices, by integer arrays, and the adjoints of both.

An index is an attr with one entry for each axis: an int, or (start, stop, step) as `range` reads
it, stop being None when a negative step runs past the front.
"""

from __future__ import annotations

import operator
from types import EllipsisType
from typing import Any

import numpy as np

from anabranch.core.aval import Aval, Shape, aval, aval_of
from anabranch.core.bind import NUMBERS, bind
from anabranch.core.op import NO_GRADIENT, Op
from anabranch.core.registry import functions
from anabranch.core.sample import integers, normal, sample
from anabranch.core.values import as_dtype, owned, settled
from anabranch.errors import AnabranchError, ArgumentError, DTypeError, OutOfRangeError, ShapeError
from anabranch.ops.layout import reshape
from anabranch.ops.rules import axis_index, require_integers, shape_of

Entry = int | tuple[int, int | None, int]
Index = tuple[Entry, ...]


def _numpy_index(index: Index) -> tuple[int | slice, ...]:
    return tuple(slice(*entry) if isinstance(entry, tuple) else entry for entry in index)


def _slice_aval(x: Aval, *, index: Index) -> Aval:
    lengths = (
        len(range(*slice(*entry).indices(n)))
        for entry, n in zip(index, x.shape, strict=True)
        if isinstance(entry, tuple)
    )
    return x.with_shape(tuple(lengths))


def _entry(item: Any, length: int, axis: int) -> Entry:
    if isinstance(item, slice):
        start, stop, step = item.indices(length)
        return (start, None if stop < 0 else stop, step)
    try:
        position = operator.index(item)
    except AnabranchError:
        raise
    except TypeError:
        kind = type(item).__name__
        raise DTypeError(
            "index-dtype", f"an index is an integer or a slice, not a {kind}"
        ) from None
    if not -length <= position < length:
        raise OutOfRangeError(
            "index-out-of-range", f"index {position} is outside axis {axis} of length {length}"
        )
    return position % length


def _entry_text(entry: Entry) -> str:
    if not isinstance(entry, tuple):
        return str(entry)
    start, stop, step = entry
    ends = f"{start or ''}:{'' if stop is None else stop}"
    return ends if step == 1 else f"{ends}:{step}"


def _index_array(items: Any) -> Any:
    array = np.asarray(items)
    return array if array.size else array.astype(np.int64)  # an empty list has no dtype to tell


def _is_array(item: Any) -> bool:
    return hasattr(item, "dtype") and (item.dtype.kind == "b" or len(shape_of(item)) > 0)


def _getitem(x: Any, index: Any) -> Any:
    items = index if isinstance(index, tuple) else (index,)
    if any(isinstance(item, list) or _is_array(item) for item in items):
        return _getitem_by_array(x, items)
    shape = shape_of(x)
    given = sum(item is not None and item is not Ellipsis for item in items)
    if given > len(shape) or sum(item is Ellipsis for item in items) > 1:
        raise OutOfRangeError(
            "index-out-of-range", f"{given} indices for an array with {len(shape)} axes"
        )
    if Ellipsis not in items:
        items = (*items, Ellipsis)
    entries: list[Entry] = []
    result_axes: list[bool] = []  # True: an axis of the sliced value, False: a new one
    for item in items:
        if item is None:
            result_axes.append(False)
            continue
        rest = [slice(None)] * (len(shape) - given) if isinstance(item, EllipsisType) else [item]
        for one in rest:
            entries.append(_entry(one, shape[len(entries)], len(entries)))
            if isinstance(one, slice):
                result_axes.append(True)
    sliced = bind(slice_, x, index=tuple(entries))
    if all(result_axes):
        return sliced
    lengths = iter(shape_of(sliced))
    return reshape(sliced, tuple(next(lengths) if old else 1 for old in result_axes))


def _getitem_by_array(x: Any, items: tuple[Any, ...]) -> Any:
    if len(items) != 1:
        raise ArgumentError(
            "array-index",
            "an integer array can index the first axis only, alone in the brackets",
            hint="ab.take(x, indices, axis) indexes any axis",
        )
    (item,) = items
    indices = _index_array(item) if isinstance(item, list) else item
    if indices.dtype.kind == "b":
        raise ArgumentError(
            "bool-index",
            "a bool mask has no shape known before it is computed",
            hint="ab.where(mask, x, 0.0) keeps the shape",
        )
    return take(x, indices, axis=0)


slice_: Op = Op(
    "slice",
    aval=_slice_aval,
    ref=lambda x, *, index: owned(np.asarray(x)[_numpy_index(index)]),
    vjp=(lambda ct, y, x, *, index: bind(unslice, ct, shape=shape_of(x), index=index),),
    linear=(0,),
    call=_getitem,
    notation=lambda x, *, index: f"{x}[{', '.join(map(_entry_text, index))}]",
    samples=(
        sample([1.0, 2.0, 3.0], value=2.0, grads=([0.0, 1.0, 0.0],), index=(1,)),
        sample([1.0, 2.0, 3.0], value=[3.0, 1.0], grads=([1.0, 0.0, 1.0],), index=((2, None, -2),)),
        sample(normal(3, 4), index=((0, 3, 2), 1)),
        sample(normal(3, 4), index=((1, 1, 1), (0, 4, 1))),
        sample(normal(0, 3), index=((0, 0, 1), 2)),
        sample(normal(), index=()),
    ),
    lower=lambda view, *, index: view.slice(index),
    doc="Elements by an integer or slice for each axis, as in `x[1:, 0]`.",
)


def _unslice(x: Any, *, shape: Shape, index: Index) -> Any:
    result = np.zeros(shape, np.asarray(x).dtype)
    result[_numpy_index(index)] = x
    return settled(result)


unslice: Op = Op(
    "unslice",
    aval=lambda x, *, shape, index: x.with_shape(shape),
    ref=_unslice,
    vjp=(lambda ct, y, x, *, shape, index: bind(slice_, ct, index=index),),
    linear=(0,),
    call=lambda x, shape, index: bind(unslice, x, shape=shape, index=index),
    samples=(
        sample(2.0, value=[0.0, 2.0, 0.0], grads=(1.0,), shape=(3,), index=(1,)),
        sample(normal(2), shape=(3, 4), index=((0, 3, 2), 1)),
        sample(normal(0, 4), shape=(3, 4), index=((1, 1, 1), (0, 4, 1))),
        sample(normal(), shape=(2,), index=(1,)),
    ),
    doc="Zeros of a given shape with x at the places that `index` selects: the adjoint of slice.",
)


def _checked(indices: Any, length: int, axis: int) -> Any:
    """Indices that all lie in [-length, length); OutOfRangeError names one that does not."""
    bad = (indices < -length) | (indices >= length)
    if np.any(bad):
        first = int(np.asarray(indices)[bad].flat[0])
        raise OutOfRangeError(
            "index-out-of-range", f"index {first} is outside axis {axis} of length {length}"
        )
    return indices


def _take_aval(x: Aval, indices: Aval, *, axis: int) -> Aval:
    require_integers("indices", indices.dtype)
    if axis >= x.ndim:
        raise OutOfRangeError("axis-out-of-range", f"axis {axis} does not exist in {x}")
    return x.with_shape(x.shape[:axis] + indices.shape + x.shape[axis + 1 :])


def _take(x: Any, indices: Any, axis: int | None = None) -> Any:
    if isinstance(indices, list | tuple) or type(indices) in NUMBERS:
        indices = _index_array(indices)
    if axis is None:
        x, axis = reshape(x, -1), 0
    return bind(take, x, indices, axis=axis_index(axis, len(shape_of(x))))


def _take_ref(x: Any, indices: Any, *, axis: int) -> Any:
    require_integers("indices", indices.dtype)
    return np.take(x, _checked(indices, x.shape[axis], axis), axis=axis)


def _zeros(shape: Shape, like: Any) -> Any:
    return functions()["broadcast_to"](like.dtype.type(0), shape)


take: Op = Op(
    "take",
    aval=_take_aval,
    ref=_take_ref,
    vjp=(
        lambda ct, y, x, indices, *, axis: scatter_add(_zeros(x.shape, x), indices, ct, axis=axis),
        NO_GRADIENT,
    ),
    linear=(0,),
    call=_take,
    samples=(
        sample([1.0, 2.0, 3.0], [2, 0, 2], value=[3.0, 1.0, 3.0], grads=([1, 0, 2], None), axis=0),
        sample(normal(3, 4), integers(2, 2, below=4), axis=1),
        sample(normal(3, 4), integers(below=3), axis=0),
        sample(normal(3, 4), integers(5, below=3, above=-3), axis=0),
        sample(normal(1), integers(0, below=1), axis=0),
    ),
    doc="Elements along an axis by integer indices (the flattened value without `axis`).",
)


def _scatter_aval(x: Aval, indices: Aval, updates: Aval, *, axis: int) -> Aval:
    wanted = _take_aval(x, indices, axis=axis).shape
    if updates.shape != wanted:
        raise ShapeError("shape-mismatch", f"updates have shape {updates.shape}, need {wanted}")
    return x


def _scatter_ref(x: Any, indices: Any, updates: Any, *, axis: int) -> Any:
    _scatter_aval(aval_of(x), aval_of(indices), aval_of(updates), axis=axis)
    result = np.array(x)
    _checked(indices, result.shape[axis], axis)
    source = np.moveaxis(
        np.asarray(updates), range(axis, axis + np.ndim(indices)), range(np.ndim(indices))
    )
    np.add.at(np.moveaxis(result, axis, 0), indices, source)
    return result


def _scatter_jvp_updates(t: Any, y: Any, x: Any, indices: Any, updates: Any, *, axis: int) -> Any:
    return scatter_add(_zeros(shape_of(x), x), indices, t, axis=axis)


scatter_add: Op = Op(
    "scatter_add",
    aval=_scatter_aval,
    ref=_scatter_ref,
    vjp=(
        lambda ct, y, x, indices, updates, *, axis: ct,
        NO_GRADIENT,
        lambda ct, y, x, indices, updates, *, axis: take(ct, indices, axis=axis),
    ),
    jvp=(lambda t, y, x, indices, updates, *, axis: t, None, _scatter_jvp_updates),
    call=lambda x, indices, updates, axis=0: bind(
        scatter_add, x, indices, updates, axis=axis_index(axis, len(shape_of(x)))
    ),
    samples=(
        sample(
            [1.0, 1.0, 1.0],
            [2, 0, 2],
            [10.0, 20.0, 30.0],
            value=[21.0, 1.0, 41.0],
            grads=([1, 1, 1], None, [1, 1, 1]),
            axis=0,
        ),
        sample(normal(3, 4), integers(2, 2, below=4), normal(3, 2, 2), axis=1),
        sample(normal(3, 4), integers(below=3, above=-3), normal(4), axis=0),
        sample(normal(1), integers(0, below=1), normal(0), axis=0),
    ),
    doc="x with updates added at integer indices along an axis; a repeated index adds each time.",
)


def _one_hot_ref(x: Any, *, classes: int, dtype: Any) -> Any:
    require_integers("one_hot labels", x.dtype)
    _checked(np.where(np.less(x, 0), classes, x), classes, -1)
    return np.equal(np.asarray(x)[..., None], np.arange(classes)).astype(dtype)


def _one_hot_aval(x: Aval, *, classes: int, dtype: Any) -> Aval:
    require_integers("one_hot labels", x.dtype)
    return aval((*x.shape, classes), dtype)


one_hot: Op = Op(
    "one_hot",
    aval=_one_hot_aval,
    ref=_one_hot_ref,
    vjp=(NO_GRADIENT,),
    call=lambda x, num_classes, dtype=np.float64: bind(
        one_hot, x, classes=operator.index(num_classes), dtype=as_dtype(dtype)
    ),
    samples=(
        sample(
            [1, 0], value=[[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]], classes=3, dtype=np.dtype(np.float64)
        ),
        sample(integers(2, 2, below=3), classes=3, dtype=np.dtype(np.float32)),
        sample(integers(below=3), classes=3, dtype=np.dtype(np.float64)),
        sample(integers(0, below=1), classes=1, dtype=np.dtype(np.bool_)),
    ),
    doc="A last axis of length `num_classes` that is 1 at each label and 0 elsewhere.",
)
