"""Whether any or all elements are true: not 0, as NumPy reads numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.core.aval import Aval, aval
from anabranch.core.bind import bind
from anabranch.core.op import NO_GRADIENT, Op
from anabranch.core.sample import normal, sample
from anabranch.core.values import settled
from anabranch.ops.reduce import prepared
from anabranch.ops.rules import Axis, axes_tuple, reduced, shape_of


def _aval(x: Aval, *, axes: tuple[int, ...], keepdims: bool) -> Aval:
    return aval(reduced(x.shape, axes, keepdims), np.dtype(np.bool_))


def _truth(name: str, fold: Any, nothing: bool, doc: str, *samples: Any) -> Op:
    """The record of an op over truth values, which is `nothing` where there are no elements."""

    def call(x: Any, axis: Axis = None, keepdims: bool = False, *, where: Any = None) -> Any:
        axes = axes_tuple(axis, len(shape_of(x)))
        return bind(op, prepared(x, None, where, nothing), axes=axes, keepdims=bool(keepdims))

    op = Op(
        name,
        aval=_aval,
        ref=lambda x, *, axes, keepdims: settled(
            np.asarray(fold(np.not_equal(x, 0), axis=axes, keepdims=keepdims))
        ),
        vjp=NO_GRADIENT,
        call=call,
        samples=(
            *samples,
            sample([math.nan, 0.0], value=name == "any", axes=(0,), keepdims=False),
            sample(normal(2, 3, 4), axes=(0, 2), keepdims=False),
            sample(normal(2, 3), axes=(1,), keepdims=True),
            sample(normal(), axes=(), keepdims=False),
            sample(normal(1), axes=(0,), keepdims=False),
            sample(normal(0, 3), axes=(0,), keepdims=False),
        ),
        lower=name,
        doc=doc,
    )
    return op


all_: Op = _truth(
    "all",
    np.all,
    True,
    "Whether all elements over axes are true, that is not 0; NaN is, and of none all are."
    " `where` skips elements.",
    sample([[True, False], [True, True]], value=[False, True], axes=(1,), keepdims=False),
    sample([1.0, -0.0], value=False, axes=(0,), keepdims=False),
)

any_: Op = _truth(
    "any",
    np.any,
    False,
    "Whether any element over axes is true, that is not 0; NaN is, and of none none is."
    " `where` skips elements.",
    sample([[True, False], [False, False]], value=[True, False], axes=(1,), keepdims=False),
    sample([0.0, -0.0], value=False, axes=(0,), keepdims=False),
)
