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


def summary(value: Any, *, detail: str = "full") -> Summary:
    """A value as a `Summary`: its elements up to 64 of them, else numbers about it.

    Args:
        value: an array, a NumPy scalar or a Python number.
        detail: `"full"` gives elements, and of large arrays a histogram and a grid of block means;
            `"summary"` elements of scalars only.
    """
    array = np.asarray(value)
    if array.dtype.kind == "c":
        return _counted(np.abs(array))
    if not array.ndim:
        return Summary(v=_element(array[()]))
    if 0 < array.size <= SMALL and detail == "full":
        return Summary(v=_nested(array))
    wide = array if array.dtype == np.float64 else array.astype(np.float64)
    found = _counted(wide)
    if array.size and detail == "full" and array.dtype.kind != "b":
        finite = wide[np.isfinite(wide)]
        found.hist = _histogram(finite, found)
        found.grid = _grid(wide)
    return found


def counts(value: Any) -> Summary:
    """Only how many elements there are, of which kind, and their norm: for contributions."""
    array = np.asarray(value)
    if array.dtype.kind == "c":
        return _tally(np.abs(array))[0]
    if not array.ndim:
        return Summary(v=_element(array[()]))
    return _tally(array)[0]


def _element(one: Any) -> Any:
    plain = one.item()
    return plain if isinstance(plain, bool | int | float) else float(one)


def _nested(array: np.ndarray[Any, Any]) -> Any:
    return array.astype(np.float64).tolist() if array.dtype.kind == "V" else array.tolist()


def _tally(array: np.ndarray[Any, Any]) -> tuple[Summary, np.ndarray[Any, Any]]:
    """The counts and the norm, and the finite elements."""
    values = array.ravel()
    if values.dtype != np.float64:
        values = values.astype(np.float64)
    found = Summary(n=values.size)
    finite = np.isfinite(values)
    if not finite.all():
        found.nan = int(np.count_nonzero(np.isnan(values))) or None
        found.inf = int(np.count_nonzero(np.isinf(values))) or None
        found.first = [int(i) for i in np.unravel_index(int(finite.argmin()), array.shape)]
        values = values[finite]
    if found.n:
        found.zero = int(values.size - np.count_nonzero(values))
    if values.size:
        found.norm = norm(values)
    return found, values


def _counted(array: np.ndarray[Any, Any]) -> Summary:
    """The counts, and the range and the spread of the finite elements."""
    found, values = _tally(array)
    if found.n:
        found.negative = int(np.count_nonzero(values < 0))
    if values.size:
        with np.errstate(all="ignore"):
            found.min, found.max = float(values.min()), float(values.max())
            found.mean = float(values.sum()) / values.size
            found.std = norm(values - found.mean) / values.size**0.5
    return found


def norm(values: Any) -> float:
    """The root of the sum of squares, also where the squares alone would leave the range."""
    flat = np.asarray(values).ravel()
    if flat.dtype != np.float64:
        flat = flat.astype(np.float64)
    with np.errstate(all="ignore"):
        square = float(np.dot(flat, flat))
        if 1e-280 < square < 1e280:
            return math.sqrt(square)
        top = float(np.abs(flat).max()) if flat.size else 0.0
        if top == 0 or not math.isfinite(top):
            return top
        return top * math.sqrt(float(np.square(flat / top).sum()))


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
