"""What stands in square brackets: NumPy's rules for `x[index]`, worked out for the shape of x.

Integers, slices, `...` and None become a slice of x. Integer arrays, known bool masks and integers
that are computed become index arrays of a gather; beside them plain integers count as such too.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from types import EllipsisType
from typing import Any, NamedTuple

import numpy as np

from anabranch.core.aval import Shape, aval_of
from anabranch.core.op import broadcast_shapes
from anabranch.core.values import ARRAYS
from anabranch.errors import AnabranchError, DTypeError, OutOfRangeError, ShapeError, TraceError
from anabranch.ops.places import Axes, index_operand, outside
from anabranch.ops.rules import dynamic_shape, require_integers

Entry = int | tuple[int, int | None, int]
Index = tuple[Entry, ...]


class Selection(NamedTuple):
    """What `x[index]` means.

    Attributes:
        whole: x's shape, with an axis of length 1 for each bool that is a scalar.
        slices: an entry for each axis of `whole`: an integer, or (start, stop, step).
        arrays, axes, at: index arrays for axes of what the slice leaves; none for no gather.
        read: the shape of what slice and gather give.
        shape: the result's, which has the new axes too.
    """

    whole: Shape
    slices: Index
    arrays: tuple[Any, ...]
    axes: Axes
    at: int
    read: Shape
    shape: Shape

    @property
    def takes_all(self) -> bool:
        """Whether the slice leaves everything as it is."""
        return all(entry == (0, n, 1) for entry, n in zip(self.slices, self.whole, strict=True))


def basic(items: tuple[Any, ...], shape: Shape) -> Index | None:
    """The entries of an index of integers and slices alone, as most are; None for any other."""
    if len(items) > len(shape) or any(type(item) not in _BASIC for item in items):
        return None
    found = [_one(item, shape[axis], axis, True).value for axis, item in enumerate(items)]
    return (*found, *((0, n, 1) for n in shape[len(items) :]))


_BASIC = (int, slice)


class _Part(NamedTuple):
    """One item of the index, or one axis that it covers."""

    kind: str  # "new", "gap" for the place of an ellipsis, "slice", "int", "array"
    value: Any = None


def selection(index: Any, shape: Shape, checks: bool = True) -> Selection:
    """What an index selects of a value of this shape.

    Args:
        index: what stands in the brackets.
        shape: of the value that is indexed.
        checks: whether integers that are known must lie inside; else the gather decides.

    Raises:
        OutOfRangeError: `[index-out-of-range]`, also for more indices than axes.
        DTypeError: `[index-dtype]`.
        ShapeError: `[dynamic-shape]` for a mask that is not known yet; `[shape-mismatch]` for index
            arrays that do not broadcast, or a mask that does not fit.
    """
    items = [_item(one) for one in (index if isinstance(index, tuple) else (index,))]
    if all(item is not Ellipsis for item in items):
        items.append(Ellipsis)
    whole: list[int] = []
    parts = list(_parts(items, shape, whole, checks))
    kinds = [part.kind for part in parts]
    if "array" in kinds or (not checks and "int" in kinds):
        parts = [_Part("array", p.value) if p.kind == "int" else p for p in parts]
        return _with_arrays(parts, tuple(whole))
    slices = tuple(p.value for p in parts if p.kind in ("slice", "int"))
    read = tuple(_length(p.value) for p in parts if p.kind == "slice")
    axes = [_length(p.value) if p.kind == "slice" else 1 for p in parts if p.kind in _KEPT]
    return Selection(tuple(whole), slices, (), (), 0, read, tuple(axes))


_KEPT = ("slice", "new")


def _with_arrays(parts: list[_Part], whole: Shape) -> Selection:
    slices: list[Entry] = []
    arrays, axes = [], []
    for part in parts:
        if part.kind == "array":
            arrays.append(part.value)
            axes.append(len(slices))
            slices.append((0, whole[len(slices)], 1))
        elif part.kind == "slice":
            slices.append(part.value)
    common = broadcast_shapes(*map(aval_of, arrays))
    places = [i for i, part in enumerate(parts) if part.kind == "array"]
    # Index arrays that stand together are replaced by their common axes; apart, those come first.
    first = places[0] if not common or places[-1] - places[0] == len(places) - 1 else 0

    def lengths(some: list[_Part], kinds: tuple[str, ...]) -> list[int]:
        return [_length(p.value) if p.kind == "slice" else 1 for p in some if p.kind in kinds]

    read, shape = (
        (*lengths(parts[:first], kinds), *common, *lengths(parts[first:], kinds))
        for kinds in (("slice",), _KEPT)
    )
    at = len(lengths(parts[:first], ("slice",)))
    return Selection(whole, tuple(slices), tuple(arrays), tuple(axes), at, read, shape)


def _item(item: Any) -> Any:
    """One item with lists as arrays and masks as arrays of NumPy's."""
    if isinstance(item, list | tuple):
        item = index_operand(item)
    if type(item) is bool:
        return np.asarray(item)
    if hasattr(item, "dtype") and item.dtype.kind == "b":
        return known_mask(item)
    return item


def known_mask(mask: Any) -> Any:
    """A bool mask as an array of NumPy's, if its elements are known now.

    Raises:
        ShapeError: `[dynamic-shape]` for a mask that only a run of the graph computes.
    """
    known = getattr(mask, "value", None) if not isinstance(mask, ARRAYS) else mask
    if known is None:
        raise dynamic_shape(
            "how many elements a computed mask selects is not known while the graph is built",
            hint="ab.where(mask, x, 0.0) keeps the shape; x.at[mask].set(v) replaces what it marks",
        )
    return np.asarray(known)


def _is_mask(item: Any) -> bool:
    return isinstance(item, np.ndarray) and item.dtype.kind == "b"


def _covered(item: Any) -> int:
    """How many axes of x an item of the index stands for."""
    if item is None or item is Ellipsis:
        return 0
    return item.ndim if _is_mask(item) else 1


def _parts(items: list[Any], shape: Shape, whole: list[int], checks: bool) -> Iterator[_Part]:
    """The index, one part for each axis and new axis; fills in `whole`."""
    given = sum(map(_covered, items))
    if given > len(shape) or sum(item is Ellipsis for item in items) > 1:
        raise OutOfRangeError(
            "index-out-of-range", f"{given} indices for an array with {len(shape)} axes"
        )
    axis = 0
    for item in items:
        if item is None:
            yield _Part("new")
            continue
        if _is_mask(item) and not item.ndim:
            whole.append(1)
            yield _Part("array", np.zeros(int(item), np.int64))
            continue
        count = len(shape) - given if isinstance(item, EllipsisType) else _covered(item)
        lengths = shape[axis : axis + count]
        whole += lengths
        if isinstance(item, EllipsisType):
            yield _Part("gap")
            yield from (_Part("slice", (0, n, 1)) for n in lengths)
        elif _is_mask(item):
            yield from (_Part("array", places) for places in _marked(item, lengths))
        else:
            yield _one(item, lengths[0], axis, checks)
        axis += count


def _marked(mask: Any, lengths: Shape) -> tuple[Any, ...]:
    if mask.shape != lengths:
        raise ShapeError(
            "shape-mismatch", f"a mask of shape {mask.shape} cannot select from axes of {lengths}"
        )
    return np.nonzero(mask)


def _one(item: Any, length: int, axis: int, checks: bool) -> _Part:
    """An item that stands for one axis."""
    if isinstance(item, slice):
        return _Part("slice", slice_entry(item, length))
    if hasattr(item, "dtype") and not isinstance(item, np.generic):
        require_integers("indices", item.dtype)
        return _Part("array", item)
    try:
        position = operator.index(item)
    except AnabranchError:
        raise
    except TypeError:
        kind = type(item).__name__
        raise DTypeError(
            "index-dtype", f"an index is an integer or a slice, not a {kind}"
        ) from None
    if not checks:
        return _Part("int", position)
    if not -length <= position < length:
        raise outside(position, length, axis)
    return _Part("int", position % length)


def slice_entry(item: slice, length: int) -> tuple[int, int | None, int]:
    """A slice as (start, stop, step), stop being None when a negative step runs past the front."""
    try:
        start, stop, step = item.indices(length)
    except TraceError as error:
        error.hint = "ab.dynamic_slice(x, start, size) slices from a computed start on"
        raise
    if not range(start, stop, step):
        return (0, 0, 1)
    return (start, None if stop < 0 else stop, step)


def _length(entry: tuple[int, int | None, int]) -> int:
    start, stop, step = entry
    return len(range(start, -1 if stop is None else stop, step))


def index_text(index: Index) -> str:
    """The index as people write it in brackets."""
    return ", ".join(map(_entry_text, index))


def _entry_text(entry: Entry) -> str:
    if not isinstance(entry, tuple):
        return str(entry)
    start, stop, step = entry
    ends = f"{start or ''}:{'' if stop is None else stop}"
    return ends if step == 1 else f"{ends}:{step}"
