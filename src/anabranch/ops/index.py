"""Indexing by integers and slices, its adjoint, and one-hot rows.

An index is an attr with one entry for each axis: an int, or (start, stop, step) as `range` reads
it, stop being None when a negative step runs past the front.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from anabranch.core.aval import Aval, Shape, aval
from anabranch.core.bind import bind
from anabranch.core.op import NO_GRADIENT, Kernel, Op
from anabranch.core.sample import integers, normal, sample
from anabranch.core.values import as_dtype, owned, settled
from anabranch.errors import ShapeError
from anabranch.ops.brackets import Index, Selection, basic, index_text, selection
from anabranch.ops.gather import gathered
from anabranch.ops.layout import reshaped
from anabranch.ops.places import checked
from anabranch.ops.rules import require_integers, shape_of


def numpy_index(index: Index) -> tuple[int | slice, ...]:
    """The index in NumPy's form."""
    return tuple(slice(*entry) if isinstance(entry, tuple) else entry for entry in index)


def sliced_shape(x: Aval, index: Index) -> Shape:
    """The shape of what an index selects of x.

    Raises:
        ShapeError: `[shape-mismatch]` unless there is an entry for each axis.
    """
    if len(index) != x.ndim:
        raise ShapeError("shape-mismatch", f"{x} needs an index for each axis, got {len(index)}")
    return tuple(
        len(range(*slice(*entry).indices(n)))
        for entry, n in zip(index, x.shape, strict=True)
        if isinstance(entry, tuple)
    )


def getitem(x: Any, index: Any) -> Any:
    """`x[index]` by NumPy's rules, as far as shapes are known; see `selection` for the errors."""
    shape = shape_of(x)
    entries = basic(index if type(index) is tuple else (index,), shape)
    if entries is not None:
        return bind(slice_, x, index=entries)
    chosen = selection(index, shape)
    return reshaped(selected(x, chosen), chosen.shape)


def selected(x: Any, chosen: Selection, mode: str = "raise", fill_value: Any = None) -> Any:
    """What the index selects, without its new axes."""
    x = reshaped(x, chosen.whole)
    if not chosen.arrays:
        return bind(slice_, x, index=chosen.slices)
    if not chosen.takes_all:
        x = bind(slice_, x, index=chosen.slices)
    return gathered(x, chosen.arrays, chosen.axes, chosen.at, mode, fill_value)


slice_: Op = Op(
    "slice",
    aval=lambda x, *, index: x.with_shape(sliced_shape(x, index)),
    ref=lambda x, *, index: owned(np.asarray(x)[numpy_index(index)]),
    vjp=(lambda ct, y, x, *, index: bind(unslice, ct, shape=shape_of(x), index=index),),
    linear=(0,),
    call=getitem,
    notation=lambda x, *, index: f"{x}[{index_text(index)}]",
    samples=(
        sample([1.0, 2.0, 3.0], value=2.0, grads=([0.0, 1.0, 0.0],), index=(1,)),
        sample([1.0, 2.0, 3.0], value=[3.0, 1.0], grads=([1.0, 0.0, 1.0],), index=((2, None, -2),)),
        sample(normal(3, 4), index=((0, 3, 2), 1)),
        sample(normal(3, 4), index=((1, 1, 1), (0, 4, 1))),
        sample(normal(0, 3), index=((0, 0, 1), 2)),
        sample(normal(), index=()),
    ),
    lower=lambda view, *, index: view.slice(index),
    doc="Elements by NumPy's indices, as in `x[1:, 0]` and `x[:, [2, 0]]`: integers, slices, `...`,"
    " None, integer arrays, known bool masks.",
)


def _unslice(x: Any, *, shape: Shape, index: Index) -> Any:
    result = np.zeros(shape, np.asarray(x).dtype)
    result[numpy_index(index)] = x
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
    lower=Kernel("unslice"),
    doc="Zeros of a given shape with x at the places that `index` selects: the adjoint of slice.",
)


def _one_hot_ref(x: Any, *, classes: int, dtype: Any) -> Any:
    require_integers("one_hot labels", x.dtype)
    checked(np.where(np.less(x, 0), classes, x), classes, -1)
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
    lower=Kernel("one_hot"),
    doc="A last axis of length `num_classes` that is 1 at each label and 0 elsewhere.",
)
