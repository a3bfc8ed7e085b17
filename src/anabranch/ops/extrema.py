"""The smallest element, and where the smallest and the largest stand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.core.aval import Aval, aval
from anabranch.core.bind import bind
from anabranch.core.dtype import is_half
from anabranch.core.op import NO_GRADIENT, Kernel, Op
from anabranch.core.sample import normal, sample
from anabranch.core.values import settled
from anabranch.ops.layout import reshape
from anabranch.ops.reduce import (
    extremum,
    extremum_aval,
    require_elements,
    shared_jvp,
    shared_vjp,
)
from anabranch.ops.rules import axis_index, over_axes, reduced, shape_of

inf, nan = math.inf, math.nan

min_: Op = Op(
    "min",
    aval=extremum_aval("min"),
    ref=lambda x, *, axes, keepdims: np.min(x, axis=axes, keepdims=keepdims),
    vjp=(shared_vjp,),
    jvp=(shared_jvp,),
    call=lambda x, axis=None, keepdims=False, *, initial=None, where=None: extremum(
        min_, "minimum", x, axis, keepdims, initial, where
    ),
    samples=(
        sample([2.0, 1.0, 3.0], value=1.0, grads=([0, 1, 0],), axes=(0,), keepdims=False),
        sample(
            [2.0, 1.0, 1.0],
            value=1.0,
            grads=([0, 0.5, 0.5],),
            kink=True,
            axes=(0,),
            keepdims=False,
        ),
        sample(
            [1.0, nan, -inf],
            value=nan,
            grads=([0, 1, 0],),
            kink=True,
            axes=(0,),
            keepdims=False,
        ),
        sample(
            [[inf, inf], [-inf, 2.0]],
            value=[[inf], [-inf]],
            grads=([[0.5, 0.5], [1.0, 0.0]],),
            kink=True,
            axes=(1,),
            keepdims=True,
        ),
        sample(normal(2, 3, 4), axes=(0, 2), keepdims=False),
        sample(normal(2, 3, 4), axes=(1,), keepdims=True),
        sample(normal(), axes=(), keepdims=False),
        sample(normal(1, 3), axes=(0,), keepdims=False),
        sample(normal(2, 0), axes=(0,), keepdims=False),
    ),
    notation=over_axes("min"),
    lower="min",
    doc="Smallest element over axes; NaN wins, and equal smallest elements share the cotangent."
    " `initial` takes part like `minimum(min(x), initial)`, and `where` needs it.",
)


def _place(name: str, find: Any, better: str, doc: str, *samples: Any) -> Op:
    """The record of an op that says where along an axis an element stands."""

    def rule(x: Aval, *, axis: int, keepdims: bool) -> Aval:
        shape = reduced(x.shape, (axis_index(axis, x.ndim),), keepdims)
        require_elements(name, x, (axis,))
        return aval(shape, np.dtype(np.int64))

    def ref(x: Any, *, axis: int, keepdims: bool) -> Any:
        # Halves in float32, for NumPy's own search knows no bfloat16 NaN in every version.
        wide = np.asarray(x, np.float32) if is_half(x.dtype) else x
        return settled(np.asarray(find(wide, axis=axis, keepdims=keepdims)).astype(np.int64))

    def call(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
        shape = shape_of(x)
        if axis is not None:
            return bind(op, x, axis=axis_index(axis, len(shape)), keepdims=bool(keepdims))
        place = bind(op, reshape(x, -1), axis=0, keepdims=False)
        return reshape(place, (1,) * len(shape)) if keepdims else place

    op = Op(
        name,
        aval=rule,
        ref=ref,
        vjp=NO_GRADIENT,
        call=call,
        samples=(
            *samples,
            sample(normal(2, 3, 4), axis=1, keepdims=False),
            sample(normal(2, 3), axis=0, keepdims=True),
            sample(normal(1), axis=0, keepdims=False),
            sample(normal(0, 3), axis=1, keepdims=False),
        ),
        lower=Kernel("argument", better),
        doc=doc,
    )
    return op


argmax: Op = _place(
    "argmax",
    np.argmax,
    "greater",
    "The index of the largest element along an axis, of the flattened value without one. The first"
    " of equal ones, and the first NaN if there is one.",
    sample([1.0, 3.0, 3.0], value=1, axis=0, keepdims=False),
    sample([1.0, nan, inf], value=1, axis=0, keepdims=False),
    sample([-inf, -inf], value=[0], axis=0, keepdims=True),
)

argmin: Op = _place(
    "argmin",
    np.argmin,
    "less",
    "The index of the smallest element along an axis, of the flattened value without one. The"
    " first of equal ones, and the first NaN if there is one.",
    sample([3.0, 1.0, 1.0], value=1, axis=0, keepdims=False),
    sample([1.0, -inf, nan], value=2, axis=0, keepdims=False),
    sample([inf, inf], value=[0], axis=0, keepdims=True),
)
