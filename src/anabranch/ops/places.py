"""Where index arrays point: what reading by them (`gather`) and writing by them (`scatter`) share.

Index arrays are operands, one for each of `axes`. They broadcast against each other, and the axes
of their common shape stand in the result at `at`, among the axes that are not indexed; by default
where the first of `axes` was. `mode` says what becomes of an index outside its axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core.aval import Aval, Shape, aval_of
from anabranch.core.bind import NUMBERS, state
from anabranch.core.dtype import DType
from anabranch.core.node import Edge
from anabranch.core.op import broadcast_shapes
from anabranch.errors import ArgumentError, DTypeError, OutOfRangeError, ShapeError
from anabranch.ops.rules import axis_index, require_integers, shape_of

Axes = tuple[int, ...]
READING = ("raise", "wrap", "clip", "fill")
WRITING = ("raise", "wrap", "clip", "drop")
_LARGEST = np.iinfo(np.int64).max


def index_operand(items: Any) -> Any:
    """An index as an operand: lists become arrays, everything else stays."""
    if not isinstance(items, list | tuple):
        return items
    array = np.asarray(items)
    return array if array.size else array.astype(np.int64)  # an empty list has no dtype to tell


def index_operands(indices: Any, axis: Any, ndim: int) -> tuple[tuple[Any, ...], Axes]:
    """Index operands and their axes, these in rising order.

    Args:
        indices: one index array; for several axes a tuple with one for each.
        axis: one axis or several.
        ndim: how many there are.

    Raises:
        ArgumentError: `[bad-argument]` when there is not one index array for each axis.
        OutOfRangeError: `[axis-out-of-range]`.
        ShapeError: `[repeated-axis]`.
    """
    if not isinstance(axis, Sequence):
        return (index_operand(indices),), (axis_index(axis, ndim),)
    axes = [axis_index(a, ndim) for a in axis]
    if not isinstance(indices, list | tuple) or len(indices) != len(axes) or not axes:
        raise ArgumentError(
            "bad-argument", f"axis {tuple(axis)} needs a tuple of as many index arrays"
        )
    if len(set(axes)) != len(axes):
        raise ShapeError("repeated-axis", f"axis {tuple(axis)} names the same axis twice")
    order = sorted(range(len(axes)), key=axes.__getitem__)
    return tuple(index_operand(indices[i]) for i in order), tuple(axes[i] for i in order)


def attrs_of(axes: Axes, at: int | None, mode: str, **more: Any) -> dict[str, Any]:
    """The attrs of a gather or scatter, without those that say what holds anyway."""
    found: dict[str, Any] = {"axes": axes, **more}
    if at is not None and at != axes[0]:
        found["at"] = at
    if mode != "raise":
        found["mode"] = mode
    return found


def require_mode(mode: Any, known: tuple[str, ...]) -> None:
    """Raise ArgumentError `[bad-argument]` unless the mode is one of those known."""
    if mode not in known:
        listed = ", ".join(map(repr, known))
        raise ArgumentError("bad-argument", f"mode is one of {listed}, not {mode!r}")


def require_fill(fill: Any, dtype: DType) -> None:
    """Refuse a fill value that an array of this dtype cannot hold.

    Raises:
        ArgumentError: `[bad-argument]` for what is no number.
        DTypeError: `[fill-dtype]`.
    """
    if type(fill) not in NUMBERS and not isinstance(fill, np.generic):
        given = "missing" if fill is None else f"no {type(fill).__name__}"
        raise ArgumentError(
            "bad-argument",
            f"the fill value must be a number, and is {given}",
            hint="ab.where(mask, x, values) fills with any value",
        )
    if not _holds(dtype, fill):
        raise DTypeError("fill-dtype", f"{fill!r} cannot stand among values of {dtype.name}")


def _holds(dtype: DType, fill: Any) -> bool:
    rank = "biufc".index
    kind = aval_of(fill).dtype.kind.replace("V", "f")
    if dtype.kind in "iu" and (kind in "biu" or (kind == "f" and float(fill).is_integer())):
        return bool(np.iinfo(dtype).min <= int(fill) <= np.iinfo(dtype).max)
    if dtype.kind == "b" and kind in "iu":
        return fill in (0, 1)
    return rank(kind) <= rank(dtype.kind.replace("V", "f"))


def places_shape(x: Aval, indices: Sequence[Aval], axes: Axes, at: int | None) -> Shape:
    """The shape of what stands at these places of x.

    Raises:
        ArgumentError: `[bad-argument]` unless the axes are distinct, rising and one for each array.
        DTypeError: `[index-dtype]`.
        OutOfRangeError: `[axis-out-of-range]`.
        ShapeError: `[shape-mismatch]` for index arrays that do not broadcast.
    """
    for one in indices:
        require_integers("indices", one.dtype)
    if not axes or len(indices) != len(axes) or list(axes) != sorted(set(axes)):
        raise ArgumentError(
            "bad-argument", f"{len(indices)} index arrays need as many rising axes, not {axes}"
        )
    if axes[0] < 0 or axes[-1] >= x.ndim:
        raise OutOfRangeError("axis-out-of-range", f"axis {axes[-1]} does not exist in {x}")
    rest = tuple(n for axis, n in enumerate(x.shape) if axis not in axes)
    place = axes[0] if at is None else at
    if not 0 <= place <= len(rest):
        raise ArgumentError("bad-argument", f"at={place} is no place among {len(rest)} axes")
    return (*rest[:place], *broadcast_shapes(*indices), *rest[place:])


def require_inside(x: Any, operands: Sequence[Any], axes: Axes, mode: str) -> None:
    """Refuse, while a graph is built, the known indices that its runs would refuse.

    Raises:
        OutOfRangeError: `[index-out-of-range]`.
    """
    if mode != "raise" or not (isinstance(x, Edge) or state.trace is not None):
        return  # what computes at once checks at once
    for one, axis in zip(operands, axes, strict=True):
        if isinstance(one, np.ndarray) and one.dtype.kind in "iu" and axis < len(shape_of(x)):
            checked(one, shape_of(x)[axis], axis)


def checked(indices: Any, length: int, axis: int) -> Any:
    """Indices that all lie in [-length, length); OutOfRangeError names one that does not."""
    bad = (indices < -length) | (indices >= length)
    if np.any(bad):
        raise outside(np.asarray(indices)[bad].flat[0], length, axis)
    return indices


def outside(index: Any, length: int, axis: int) -> OutOfRangeError:
    """The error for an index that its axis does not have."""
    return OutOfRangeError(
        "index-out-of-range", f"index {int(index)} is outside axis {axis} of length {length}"
    )


def placed(indices: Sequence[Any], shape: Shape, axes: Axes, mode: str) -> tuple[Any, Any]:
    """Index arrays of one shape, counted from 0, and which of them point inside (None: all).

    What points outside, where the mode allows it, stands as 0.

    Raises:
        OutOfRangeError: `[index-out-of-range]` in mode "raise"; in "wrap" and "clip" for an axis
            of length 0, in which no index can be meant.
    """
    counted = [
        _counted(np.asarray(index), shape[axis], axis, mode)
        for index, axis in zip(indices, axes, strict=True)
    ]
    inside = None
    for _, fits in counted:
        if fits is not None:
            inside = fits if inside is None else inside & fits
    places = np.broadcast_arrays(*(place for place, _ in counted))
    return places, None if inside is None else np.broadcast_to(inside, places[0].shape)


def _counted(index: Any, length: int, axis: int, mode: str) -> tuple[Any, Any]:
    """One index array counted from 0, and where it points inside (None: everywhere)."""
    require_integers("indices", index.dtype)
    if index.dtype == np.uint64:  # not all of them are int64; those others lie outside any axis
        index = index % np.uint64(max(length, 1)) if mode == "wrap" else index.clip(max=_LARGEST)
    wide = index.astype(np.int64)
    if mode in ("wrap", "clip"):
        if not length and wide.size:
            raise outside(wide.flat[0], length, axis)
        return (wide % max(length, 1) if mode == "wrap" else wide.clip(0, max(length, 1) - 1)), None
    fits = (wide >= -length) & (wide < length)
    counts = np.where(wide < 0, wide + length, wide)
    if np.all(fits):
        return counts, None
    if mode == "raise":
        raise outside(wide[~fits].flat[0], length, axis)
    return np.where(fits, counts, 0), fits


def places_text(indices: Sequence[str], axes: Axes) -> str:
    """The index arrays as people write them in brackets."""
    written = dict(zip(axes, indices, strict=True))
    return ", ".join(written.get(axis, ":") for axis in range(axes[-1] + 1))
