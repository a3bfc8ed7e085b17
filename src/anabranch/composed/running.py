"""Running sums and products by the names and arguments of the array API."""

from __future__ import annotations

from typing import Any

from anabranch.composed.naming import composed
from anabranch.errors import ArgumentError
from anabranch.ops.layout import pad
from anabranch.ops.rules import axis_index, shape_of
from anabranch.ops.scans import cumprod, cumsum


def _running(
    scan: Any, x: Any, axis: int | None, dtype: Any, include_initial: bool, start: int
) -> Any:
    ndim = len(shape_of(x))
    if axis is None and ndim != 1:
        raise ArgumentError(
            "bad-argument", f"with {ndim} axes, axis= must say which one to run along"
        )
    place = axis_index(axis or 0, ndim)
    found = scan(x, axis=place, dtype=dtype)
    if not include_initial:
        return found
    return pad(found, [(int(one == place), 0) for one in range(ndim)], constant_values=start)


@composed
def cumulative_sum(
    x: Any, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    """`cumsum` as the array API has it.

    Args:
        x: values.
        axis: along which; may be left out where there is only one.
        dtype: what to convert to first.
        include_initial: whether the result starts with a 0, one longer than the axis.

    Raises:
        ArgumentError: `[bad-argument]` without an axis where there are several, or none.

    Example:
        >>> import anabranch as ab
        >>> ab.cumulative_sum(ab.tensor([1.0, 2.0, 3.0]), include_initial=True)
        tensor([0., 1., 3., 6.])
    """
    return _running(cumsum, x, axis, dtype, include_initial, 0)


@composed
def cumulative_prod(
    x: Any, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    """`cumprod` as the array API has it; with `include_initial` it starts with a 1.

    Arguments and errors are those of `cumulative_sum`.

    Example:
        >>> import anabranch as ab
        >>> ab.cumulative_prod(ab.tensor([2.0, 0.0, 3.0]), include_initial=True)
        tensor([1., 2., 0., 0.])
    """
    return _running(cumprod, x, axis, dtype, include_initial, 1)
