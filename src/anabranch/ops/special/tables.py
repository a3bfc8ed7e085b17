"""The fitted polynomials of `data/special_functions.json`, and how they are evaluated.

`scripts/fit_special.py` makes the file. The constant term of a polynomial is head + tail, so that
its caller can add what follows to the head last, with one rounding.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from anabranch.core.late import LateModule

if TYPE_CHECKING:
    import json
    from importlib import resources
else:
    json = LateModule("json")
    resources = LateModule("importlib.resources")

Array = Any  # of float64: stubs lose the dtype half-way through a formula
_MANTISSA = 52  # bits of a float64 below its exponent


@functools.cache
def entry(name: str) -> dict[str, Any]:
    """One entry of the file, as it stands there."""
    return _everything()[name]  # type: ignore[no-any-return]


@functools.cache
def _everything() -> dict[str, Any]:
    text = (resources.files("anabranch") / "data" / "special_functions.json").read_text(
        encoding="utf-8"
    )
    return json.loads(text)  # type: ignore[no-any-return]


def horner(coefficients: Any, x: Any) -> Any:
    """c[0] + c[1] x + c[2] x**2 + ..."""
    result = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        result = result * x + coefficient
    return result


def polynomial(name: str, x: Array) -> tuple[float, Array]:
    """A single polynomial at x, as head and rest."""
    fitted = entry(name)
    return fitted["head"], fitted["tail"] + x * horner(fitted["coefficients"], x)


@functools.cache
def _table(name: str) -> tuple[int, int, Array, Array, Array, Array]:
    fitted = entry(name)
    shift = _MANTISSA - (fitted["bins_per_octave"].bit_length() - 1)
    first = int(np.float64(fitted["low"]).view(np.int64)) >> shift
    columns = (fitted[key] for key in ("centers", "heads", "tails"))
    centers, heads, tails = (np.array(column) for column in columns)
    return shift, first, centers, heads, tails, np.array(fitted["coefficients"]).T


def table(name: str, x: Array, ahead: float = 0.0) -> tuple[Array, Array]:
    """The polynomial of the bin of x + ahead there, as head and rest.

    The sum itself is not rounded: only its distance from the bin's centre is formed.
    """
    shift, first, centers, heads, tails, coefficients = _table(name)
    bits = np.ascontiguousarray(x + ahead).view(np.int64)
    bins = np.clip((bits >> shift) - first, 0, len(centers) - 1)
    d = x - (centers[bins] - ahead)
    return heads[bins], tails[bins] + d * horner(coefficients[:, bins], d)


def asymptotic(name: str, z: Array, count: int) -> Array:
    """c[1] + c[2] z + c[3] z**2 + ..., the first `count` terms of a series."""
    return horner(entry(name)["coefficients"][:count], z)
