"""An array in short, as a trace carries it."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from anabranch.inspection.parts import Summary

SMALL = 64  # up to so many elements are given one by one
BINS = 16
GRID = 24


def summary(value: Any, *, detail: str = "full", pictures: bool = True) -> Summary:
    """A value as a `Summary`: its elements up to 64 of them, else numbers about it.

    Args:
        value: an array, a NumPy scalar or a Python number.
        detail: `"summary"` gives elements of scalars only.
        pictures: whether large arrays get a histogram and a grid of block means.
    """
    array = np.asarray(value)
    if array.dtype.kind == "c":
        return _counted(np.abs(array), array)
    if not array.ndim:
        return Summary(v=_element(array[()]))
    if 0 < array.size <= SMALL and detail == "full":
        return Summary(v=_nested(array))
    wide = array if array.dtype == np.float64 else array.astype(np.float64)
    found = _counted(wide, array)
    if pictures and array.size and detail == "full" and array.dtype.kind != "b":
        finite = wide[np.isfinite(wide)]
        found.hist = _histogram(finite, found)
        found.grid = _grid(wide)
    return found


def counts(value: Any) -> Summary:
    """Only how many elements there are, of which kind, and their norm: for contributions."""
    array = np.asarray(value)
    if not array.ndim and array.dtype.kind != "c":
        return Summary(v=_element(array[()]))
    kept = ("n", "nan", "inf", "zero", "norm", "first")
    found = _counted(np.abs(array) if array.dtype.kind == "c" else array, array)
    return Summary(**{name: getattr(found, name) for name in kept})


def _element(one: Any) -> Any:
    plain = one.item()
    return plain if isinstance(plain, bool | int | float) else float(one)


def _nested(array: np.ndarray[Any, Any]) -> Any:
    return array.astype(np.float64).tolist() if array.dtype.kind == "V" else array.tolist()


def _counted(values: np.ndarray[Any, Any], array: np.ndarray[Any, Any]) -> Summary:
    found = Summary(n=array.size)
    if not array.size:
        return found
    values = np.asarray(values)
    if values.dtype != np.float64:
        values = values.astype(np.float64)
    finite = np.isfinite(values)
    if not finite.all():
        found.nan = int(np.isnan(values).sum()) or None
        found.inf = int(np.isinf(values).sum()) or None
        found.first = [int(i) for i in np.unravel_index(int(np.argmin(finite)), finite.shape)]
        values = values[finite]
    found.zero = int((values == 0).sum())
    found.negative = int((values < 0).sum())
    if values.size:
        with np.errstate(all="ignore"):
            found.min, found.max = float(values.min()), float(values.max())
            found.mean, found.std = float(values.mean()), float(values.std())
            found.norm = norm(values)
    return found


def norm(values: Any) -> float:
    """The root of the sum of squares, also where the squares alone would leave the range."""
    array = np.abs(np.asarray(values).astype(np.float64)).ravel()
    top = float(array.max()) if array.size else 0.0
    if top == 0 or not math.isfinite(top):
        return top
    if 1e-140 < top < 1e140:
        return float(np.sqrt(np.dot(array, array)))
    return top * float(np.sqrt(np.square(array / top).sum()))


def _histogram(finite: np.ndarray[Any, Any], found: Summary) -> dict[str, Any] | None:
    low, high = found.min, found.max
    if low is None or high is None or not math.isfinite(high - low):
        return None
    if high - low == 0:
        bins = [int(finite.size)]
    else:
        # Not NumPy's own, whose last bits differ between its versions.
        places = np.minimum((finite - low) / (high - low) * BINS, BINS - 1).astype(np.int64)
        bins = np.bincount(places.ravel(), minlength=BINS).tolist()
    return {"lo": low, "hi": high, "bins": bins}


def _grid(values: np.ndarray[Any, Any]) -> dict[str, Any] | None:
    """Means of at most 24 by 24 blocks of the last two axes, over the other axes."""
    if values.ndim < 2 or not values.size:
        return None
    image = values.reshape(-1, *values.shape[-2:])
    rows, columns = (min(GRID, n) for n in image.shape[1:])
    with np.errstate(all="ignore"):
        flat = image.mean(axis=0)
        flat = np.add.reduceat(flat, _starts(flat.shape[0], rows), axis=0)
        flat = np.add.reduceat(flat, _starts(values.shape[-1], columns), axis=1)
        sizes = np.outer(_lengths(values.shape[-2], rows), _lengths(values.shape[-1], columns))
        means = flat / sizes
    return {"rows": rows, "cols": columns, "mean": means.ravel().tolist()}


def _starts(length: int, parts: int) -> list[int]:
    return [i * length // parts for i in range(parts)]


def _lengths(length: int, parts: int) -> list[int]:
    starts = [*_starts(length, parts), length]
    return [b - a for a, b in pairwise(starts)]
