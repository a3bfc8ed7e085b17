"""Blocks of a value: written at places that are known, read and written at places that are not.

A block whose place is computed while the graph runs has its size fixed beforehand. A block that
does not lie inside the value raises: its start is never moved to make it fit.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core.aval import Aval, Shape, aval, aval_of
from anabranch.core.bind import bind
from anabranch.core.dtype import promote
from anabranch.core.op import NO_GRADIENT, Kernel, Op
from anabranch.core.sample import integers, normal, sample
from anabranch.core.values import as_shape, owned, settled
from anabranch.errors import OutOfRangeError, ShapeError
from anabranch.ops.brackets import Index, index_text
from anabranch.ops.gather import zeros
from anabranch.ops.index import numpy_index, slice_, sliced_shape, unslice
from anabranch.ops.rules import require_integers, shape_of


def _starts_of(starts: Any, ndim: int) -> tuple[Any, ...]:
    """One start for each axis, from a sequence or from a single one."""
    return tuple(starts) if isinstance(starts, list | tuple) or ndim != 1 else (starts,)


def _require_block(x: Aval, starts: Sequence[Aval], sizes: Shape) -> None:
    for start in starts:
        require_integers("starts", start.dtype)
        if start.shape:
            raise ShapeError("shape-mismatch", f"a start is one integer, not {start}")
    if not x.ndim == len(starts) == len(sizes):
        raise ShapeError(
            "shape-mismatch",
            f"{x} needs {x.ndim} starts and sizes, got {len(starts)} and {len(sizes)}",
        )
    if any(not 0 <= size <= n for size, n in zip(sizes, x.shape, strict=True)):
        raise ShapeError("shape-mismatch", f"a block of shape {sizes} does not fit into {x}")


def _block(x: Any, starts: Sequence[Any], sizes: Shape) -> tuple[slice, ...]:
    """Where the block lies; negative starts count from the end.

    Raises:
        OutOfRangeError: `[index-out-of-range]` for a block that is not wholly inside.
    """
    found = []
    for axis, (given, size, length) in enumerate(zip(starts, sizes, np.shape(x), strict=True)):
        start = operator.index(given)
        first = start + length if start < 0 else start
        if not 0 <= first <= length - size:
            raise OutOfRangeError(
                "index-out-of-range",
                f"a block of {size} from {start} on is not inside axis {axis} of length {length}",
            )
        found.append(slice(first, first + size))
    return tuple(found)


def _dynamic_slice_aval(x: Aval, *starts: Aval, sizes: Shape) -> Aval:
    _require_block(x, starts, sizes)
    return x.with_shape(sizes)


def _dynamic_slice_ref(x: Any, *starts: Any, sizes: Shape) -> Any:
    _require_block(aval_of(x), [aval_of(s) for s in starts], sizes)
    return owned(np.asarray(x)[_block(x, starts, sizes)])


def _dynamic_slice_vjp(ct: Any, y: Any, x: Any, *starts: Any, sizes: Shape) -> Any:
    return bind(dynamic_update_slice, zeros(shape_of(x), ct), ct, *starts)


def _dynamic_slice(x: Any, start_indices: Any, slice_sizes: Any) -> Any:
    starts = _starts_of(start_indices, len(shape_of(x)))
    return bind(dynamic_slice, x, *starts, sizes=as_shape(slice_sizes))


dynamic_slice: Op = Op(
    "dynamic_slice",
    aval=_dynamic_slice_aval,
    ref=_dynamic_slice_ref,
    vjp=lambda slot: NO_GRADIENT if slot else _dynamic_slice_vjp,
    linear=(0,),
    call=_dynamic_slice,
    samples=(
        sample([1.0, 2.0, 3.0], 1, value=[2.0, 3.0], grads=([0, 1, 1], None), sizes=(2,)),
        sample([1.0, 2.0, 3.0], -3, value=[1.0], grads=([1, 0, 0], None), sizes=(1,)),
        sample(normal(3, 4), integers(below=2), integers(below=3), sizes=(2, 2)),
        sample(normal(3, 4), integers(below=4), integers(below=1), sizes=(0, 4)),
        sample(normal(0, 3), 0, integers(below=2), sizes=(0, 2)),
        sample(normal(), sizes=()),
    ),
    lower=Kernel("dynamic_slice", selects=True),
    doc="A block of x with `slice_sizes` from `start_indices` on, one integer for each axis, which"
    " may be computed. A block that is not wholly inside x raises.",
)


def _update_aval(x: Aval, update: Aval, *starts: Aval) -> Aval:
    _require_block(x, starts, update.shape)
    return aval(x.shape, promote((a.dtype, a.weak) for a in (x, update))[0])


def _update_ref(x: Any, update: Any, *starts: Any) -> Any:
    wanted = _update_aval(*map(aval_of, (x, update, *starts)))
    result = np.array(x, wanted.dtype, order="C")
    result[_block(x, starts, np.shape(update))] = update
    return settled(result)


def _update_vjp_x(ct: Any, y: Any, x: Any, update: Any, *starts: Any) -> Any:
    return bind(dynamic_update_slice, ct, zeros(shape_of(update), ct), *starts)


def _update_vjp_update(ct: Any, y: Any, x: Any, update: Any, *starts: Any) -> Any:
    return bind(dynamic_slice, ct, *starts, sizes=shape_of(update))


def _update_jvp_update(t: Any, y: Any, x: Any, update: Any, *starts: Any) -> Any:
    return bind(dynamic_update_slice, zeros(shape_of(x), y), t, *starts)


def _dynamic_update_slice(x: Any, update: Any, start_indices: Any) -> Any:
    return bind(dynamic_update_slice, x, update, *_starts_of(start_indices, len(shape_of(x))))


dynamic_update_slice: Op = Op(
    "dynamic_update_slice",
    aval=_update_aval,
    ref=_update_ref,
    vjp=lambda slot: (_update_vjp_x, _update_vjp_update)[slot] if slot < 2 else NO_GRADIENT,
    jvp=(_update_vjp_x, _update_jvp_update),
    call=_dynamic_update_slice,
    arity=2,
    samples=(
        sample(
            [1.0, 2.0, 3.0],
            [8.0, 9.0],
            -2,
            value=[1.0, 8.0, 9.0],
            grads=([1, 0, 0], [1, 1], None),
        ),
        sample(normal(3, 4), normal(2, 2), integers(below=2), integers(below=3)),
        sample(normal(3), normal(3), 0),
        sample(normal(3, 4), normal(0, 4), integers(below=4), integers(below=1)),
        sample(normal(), normal()),
    ),
    lower=Kernel("dynamic_update_slice"),
    doc="x with a block replaced by `update`, from `start_indices` on, one integer for each axis,"
    " which may be computed. A block that is not wholly inside x raises.",
)


def _update_slice_aval(x: Aval, updates: Aval, *, index: Index) -> Aval:
    wanted = sliced_shape(x, index)
    if updates.shape != wanted:
        raise ShapeError("shape-mismatch", f"updates have shape {updates.shape}, need {wanted}")
    return aval(x.shape, promote((a.dtype, a.weak) for a in (x, updates))[0])


def _update_slice_ref(x: Any, updates: Any, *, index: Index) -> Any:
    wanted = _update_slice_aval(aval_of(x), aval_of(updates), index=index)
    result = np.array(x, wanted.dtype, order="C")
    result[numpy_index(index)] = updates
    return settled(result)


def _update_slice_vjp_x(ct: Any, y: Any, x: Any, updates: Any, *, index: Index) -> Any:
    return bind(update_slice, ct, zeros(shape_of(updates), ct), index=index)


def _update_slice_jvp_updates(t: Any, y: Any, x: Any, updates: Any, *, index: Index) -> Any:
    return bind(unslice, t, shape=shape_of(x), index=index)


update_slice: Op = Op(
    "update_slice",
    aval=_update_slice_aval,
    ref=_update_slice_ref,
    vjp=(
        _update_slice_vjp_x,
        lambda ct, y, x, updates, *, index: bind(slice_, ct, index=index),
    ),
    jvp=(_update_slice_vjp_x, _update_slice_jvp_updates),
    call=lambda x, updates, index: bind(update_slice, x, updates, index=index),
    notation=lambda x, updates, *, index: f"{x}.at[{index_text(index)}].set({updates})",
    samples=(
        sample([1.0, 2.0, 3.0], 9.0, value=[1.0, 9.0, 3.0], grads=([1, 0, 1], 1.0), index=(1,)),
        sample(normal(3, 4), normal(2), index=((0, 3, 2), 1)),
        sample(normal(3), normal(3), index=((2, None, -1),)),
        sample(normal(3, 4), normal(0, 4), index=((1, 1, 1), (0, 4, 1))),
        sample(normal(), normal(), index=()),
    ),
    lower=Kernel("update_slice"),
    doc="x with other values at the places that `index` selects, in the form that `slice` has in"
    " listings; `x.at[...].set(values)` takes every index.",
)
