"""Shape rules and helpers that the op records share."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from anabranch.core.aval import Aval, Shape, aval_of
from anabranch.core.bind import NUMBERS
from anabranch.core.dtype import is_half
from anabranch.core.op import UNSUPPORTED, float_result
from anabranch.core.values import settled
from anabranch.errors import ArgumentError, DTypeError, OutOfRangeError, ShapeError

Rule = Callable[..., Any]
LAPACK: Final = UNSUPPORTED("LAPACK computes it, through NumPy")  # what records say of machine code
Axis = int | tuple[int, ...] | None


def shape_of(value: Any) -> Shape:
    """The shape of any operand; Python numbers have shape ().

    Raises:
        ArgumentError: `[bad-operand]` for what has no shape, such as a list.
    """
    if type(value) in NUMBERS:
        return ()
    if not hasattr(value, "shape"):
        raise ArgumentError(
            "bad-operand",
            f"a {type(value).__name__} is no operand",
            hint="ab.tensor(...) makes a tensor of it",
        )
    return tuple(value.shape)


def of_parts(x: Aval) -> Aval:
    """The type of the parts of a complex value, and of its size; a real one has its own."""
    return x.with_dtype(np.dtype(f"f{x.dtype.itemsize // 2}")) if x.dtype.kind == "c" else x


def axis_index(axis: Any, ndim: int) -> int:
    """An axis counted from 0.

    Raises:
        OutOfRangeError: `[axis-out-of-range]`.
    """
    position = operator.index(axis)
    if not -ndim <= position < ndim:
        raise OutOfRangeError(
            "axis-out-of-range", f"axis {position} does not exist in an array with {ndim} axes"
        )
    return position % ndim


def axes_tuple(axis: Any, ndim: int) -> tuple[int, ...]:
    """NumPy's axis argument (None, one, or several) as ascending axes counted from 0.

    Raises:
        OutOfRangeError: `[axis-out-of-range]`.
        ShapeError: `[repeated-axis]`.
    """
    if axis is None:
        return tuple(range(ndim))
    axes = [axis_index(a, ndim) for a in (axis if isinstance(axis, Sequence) else (axis,))]
    if len(set(axes)) != len(axes):
        raise ShapeError("repeated-axis", f"axis {tuple(axes)} names the same axis twice")
    return tuple(sorted(axes))


def reduced(shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Shape:
    """The shape after a reduction over these axes.

    Raises:
        OutOfRangeError: `[axis-out-of-range]`.
    """
    for axis in axes:
        axis_index(axis, len(shape))
    if keepdims:
        return kept(shape, axes)
    return tuple(n for axis, n in enumerate(shape) if axis not in axes)


def kept(shape: Shape, axes: tuple[int, ...]) -> Shape:
    """The shape with these axes at length 1."""
    return tuple(1 if axis in axes else n for axis, n in enumerate(shape))


def require_integers(name: str, dtype: Any) -> None:
    """Raise DTypeError `[index-dtype]` unless the dtype can index."""
    if dtype.kind not in "iu":
        raise DTypeError("index-dtype", f"{name} must be integers, not {dtype.name}")


def over_axes(name: str) -> Any:
    """How people write a reduction: `sum(x, axis=1)`."""

    def written(x: str, *, axes: tuple[int, ...], keepdims: bool) -> str:
        axis = axes[0] if len(axes) == 1 else axes
        return f"{name}({x}, axis={axis}{', keepdims=True' if keepdims else ''})"

    return written


def refuse_bools(*values: Any) -> None:
    """What NumPy would count in 8 bits is refused, as it refuses the negative of a bool.

    Raises:
        DTypeError: `[bool-arithmetic]` when all operands (or avals) are bools.
    """
    if all(type(v) is bool or getattr(v, "dtype", None) == np.bool_ for v in values):
        raise DTypeError(
            "bool-arithmetic",
            "bool values have no such arithmetic",
            hint="x.astype(int) counts them, ab.where selects by them",
        )


def numeric(ref: Rule) -> Rule:
    """The reference, with bools refused."""

    def checked(*values: Any, **attrs: Any) -> Any:
        refuse_bools(*values)
        return ref(*values, **attrs)

    return checked


def in_float32(ref: Rule) -> Rule:
    """The reference of a function of floats, in several steps.

    Halves take them in float32 and are rounded once; integers are made floats as NumPy does.
    """

    def wide(*xs: Any, **attrs: Any) -> Any:
        dtype = float_result(*map(aval_of, xs)).dtype
        steps = np.dtype(np.float32) if is_half(dtype) else dtype
        made = [np.asarray(x).astype(steps, copy=False) for x in xs]
        return settled(np.asarray(ref(*made, **attrs)).astype(dtype))

    return wide


def dynamic_shape(sentence: str, hint: str) -> ShapeError:
    """The error for a result whose shape depends on values: no graph could be built for it."""
    return ShapeError("dynamic-shape", sentence, hint=hint)
