"""Products in which a zero wins against an infinite logarithm."""

from __future__ import annotations

from typing import Any

from anabranch.composed.naming import composed
from anabranch.ops.elementary import log1p
from anabranch.ops.elementwise import log
from anabranch.ops.select import absorb, isnan, where


@composed
def xlogy(x: Any, y: Any) -> Any:
    """x * log(y), but 0 where x is 0, even where y is 0 or negative; NaN stays NaN.

    The derivative by x is log(y) there too, so -inf at y = 0; that by y is x / y, and 0 where x is.

    Example:
        >>> import anabranch as ab
        >>> ab.xlogy(ab.tensor([0.0, 2.0]), ab.tensor([0.0, 1.0]))
        tensor([0., 0.])
    """
    # Not a choice by x = 0, which would hide that the product changes with x there.
    return where(isnan(y), y, absorb(x, log(y)))


@composed
def xlog1py(x: Any, y: Any) -> Any:
    """x * log(1 + y), but 0 where x is 0, even where y is -1 or less; NaN stays NaN.

    The derivatives are those of `xlogy`.

    Example:
        >>> import anabranch as ab
        >>> ab.xlog1py(ab.tensor([0.0, 2.0]), ab.tensor([-1.0, 0.0]))
        tensor([0., 0.])
    """
    return where(isnan(y), y, absorb(x, log1p(y)))
