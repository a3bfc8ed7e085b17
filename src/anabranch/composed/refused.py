"""NumPy's functions whose result has a shape that depends on values: why not, and what instead.

A graph is built for shapes that are known, and the same program must do in every front end.
"""

from __future__ import annotations

from typing import Any, NoReturn

from anabranch.composed.naming import composed
from anabranch.ops.rules import dynamic_shape


def _refuse(name: str, instead: str) -> NoReturn:
    raise dynamic_shape(
        f"how many elements {name} gives depends on the values, and a graph needs to know",
        f"{instead}; np.{name} takes known values, x.data of a tensor",
    )


@composed
def nonzero(x: Any) -> Any:
    """Refused: the number of places depends on the values. `ab.where` selects and keeps the shape.

    Raises:
        ShapeError: `[dynamic-shape]`, always.

    Example:
        >>> import anabranch as ab
        >>> ab.nonzero(ab.tensor([1.0, 0.0]))
        Traceback (most recent call last):
        anabranch.ShapeError: [dynamic-shape] how many elements nonzero gives depends on ...
    """
    _refuse("nonzero", "ab.where(x != 0, a, b) selects and keeps the shape")


@composed
def argwhere(x: Any) -> Any:
    """Refused, as `nonzero` is.

    Raises:
        ShapeError: `[dynamic-shape]`, always.
    """
    _refuse("argwhere", "ab.where(x != 0, a, b) selects and keeps the shape")


@composed
def flatnonzero(x: Any) -> Any:
    """Refused, as `nonzero` is.

    Raises:
        ShapeError: `[dynamic-shape]`, always.
    """
    _refuse("flatnonzero", "ab.where(x != 0, a, b) selects and keeps the shape")


@composed
def unique(x: Any) -> Any:
    """Refused: the number of different elements depends on the values.

    Raises:
        ShapeError: `[dynamic-shape]`, always.

    Example:
        >>> import anabranch as ab
        >>> ab.unique(ab.tensor([1.0, 1.0]))
        Traceback (most recent call last):
        anabranch.ShapeError: [dynamic-shape] how many elements unique gives depends on ...
    """
    _refuse("unique", "a count by label is ab.sum(ab.one_hot(labels, classes), axis=0)")
