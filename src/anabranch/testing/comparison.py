"""Analytic and numeric values of one input side by side, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anabranch.testing.report import WRONG_FROM

Array = np.ndarray[Any, Any]


def meets(analytic: Any, numeric: Any, atol: float, rtol: float) -> Any:
    """|a - n| <= atol + rtol * max(|a|, |n|), element by element; equal infinities meet too."""
    with np.errstate(invalid="ignore", over="ignore"):
        scale = np.maximum(np.abs(analytic), np.abs(numeric))
        return (analytic == numeric) | (
            np.isfinite(scale) & (np.abs(analytic - numeric) <= atol + rtol * scale)
        )


def norm_relative(a: Any, b: Any) -> float:
    """The norm of the difference over the larger norm; 0 where both are 0.

    Example:
        >>> import numpy as np
        >>> norm_relative(np.array([3.0, 4.0]), np.array([3.0, 4.5])) < 0.1
        True
    """
    size = max(_norm(a), _norm(b))
    return _norm(np.asarray(a) - b) / size if size else 0.0


def _norm(x: Any) -> float:
    return float(np.linalg.norm(np.ravel(x)))


@dataclass
class Comparison:
    """Values of the gradient (at elements, or along directions) and their differences.

    `kinks` holds the one-sided slopes of the entries that have two; `excused` says which entries
    pass for that reason. `worst` and `notes` are for the report.
    """

    analytic: Array
    numeric: Array
    atol: float
    rtol: float
    kinks: dict[int, tuple[float, float]] = field(default_factory=dict)
    denied: set[int] = field(default_factory=set)
    worst: tuple[int, ...] | None = None
    notes: list[str] = field(default_factory=list)
    is_kinked: bool = False

    @property
    def passes(self) -> Array:
        """Which entries nothing speaks against."""
        result = np.array(meets(self.analytic, self.numeric, self.atol, self.rtol), bool)
        for i in self.kinks:
            result[i] = i not in self.denied
        return result | self.is_kinked

    @property
    def errors(self) -> Array:
        with np.errstate(invalid="ignore"):
            difference = np.abs(self.analytic - self.numeric)
        return np.where(self.analytic == self.numeric, 0.0, difference)

    @property
    def scale(self) -> float:
        """The larger of the two values where they differ most: what `rtol` is a share of."""
        if not len(self.analytic):
            return 0.0
        at = int(np.argmax(np.nan_to_num(self.errors, nan=np.inf)))
        return float(max(abs(self.analytic[at]), abs(self.numeric[at])))

    @property
    def relative(self) -> float:
        """The relative error in the norm, kinks left out."""
        smooth = [i for i in range(len(self.analytic)) if i not in self.kinks]
        same = self.analytic[smooth] == self.numeric[smooth]
        a, n = (np.where(same & ~np.isfinite(v), 0.0, v)
                for v in (self.analytic[smooth], self.numeric[smooth]))  # fmt: skip
        return norm_relative(a, n)

    @property
    def verdict(self) -> str:
        """`"pass"`, `"kink"`, `"precision"` or `"wrong"`."""
        failing = ~self.passes
        if not failing.any():
            return "kink" if self.kinks or self.is_kinked else "pass"
        if self.denied:
            return "wrong"
        # An entry that is nearly 0 beside its neighbours is read by their size.
        usual = _norm(self.numeric) / len(self.numeric) ** 0.5
        scale = np.maximum(np.maximum(np.abs(self.analytic), np.abs(self.numeric)), usual)
        with np.errstate(all="ignore"):
            shares = (self.errors / np.maximum(scale, 1e-300))[failing]
        return "precision" if np.all(shares < WRONG_FROM) else "wrong"

    @property
    def summary(self) -> tuple[float, float]:
        """Analytic and numeric: the value of a single entry, the norm of several."""
        if len(self.analytic) == 1:
            return float(self.analytic[0]), float(self.numeric[0])
        return _norm(self.analytic), _norm(self.numeric)
