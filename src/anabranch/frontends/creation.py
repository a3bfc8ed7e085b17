"""New tensors of a given content; in a trace, those of a single value are nodes of its graph."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from anabranch.core.aval import aval_of
from anabranch.core.bind import NUMBERS, bind, state
from anabranch.core.entry import boundary
from anabranch.core.values import as_dtype, as_shape, settled
from anabranch.errors import ArgumentError
from anabranch.frontends.tensor import make_tensor
from anabranch.ops.layout import broadcast_to, reshape
from anabranch.ops.places import require_fill


@boundary
def full(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    """A tensor with one value everywhere, through which a derivative passes.

    Args:
        shape: a length or several.
        fill_value: a number, or a value of shape () (or one that broadcasts to `shape`).
        dtype: that of the value by default; float64, int64 or bool for Python numbers.

    Raises:
        DTypeError: `[fill-dtype]` for a number that the dtype cannot hold.
        ShapeError: `[bad-shape]`, `[shape-mismatch]`.

    Example:
        >>> import anabranch as ab
        >>> ab.full(2, 7.0)
        tensor([7., 7.])
    """
    lengths = as_shape(shape)
    if type(fill_value) not in NUMBERS and not isinstance(fill_value, np.generic):
        spread = broadcast_to(fill_value, lengths)
        spread = spread if dtype is None else bind("astype", spread, dtype=as_dtype(dtype))
        return make_tensor(settled(spread)) if isinstance(spread, np.ndarray) else spread
    kind = aval_of(fill_value).dtype if dtype is None else as_dtype(dtype)
    require_fill(fill_value, kind)
    value = kind.type(fill_value)
    if state.trace is not None:  # no array in the graph where a number will do
        return bind(broadcast_to, value, shape=lengths)
    return make_tensor(settled(np.full(lengths, value, kind)))


@boundary
def zeros(shape: Any, dtype: Any = np.float64) -> Any:
    """A tensor of zeros.

    Raises:
        ShapeError: `[bad-shape]`; DTypeError: `[unsupported-dtype]`.

    Example:
        >>> import anabranch as ab
        >>> ab.zeros((1, 2))
        tensor([[0., 0.]])
    """
    return full(shape, 0, dtype)


@boundary
def ones(shape: Any, dtype: Any = np.float64) -> Any:
    """A tensor of ones.

    Raises:
        ShapeError: `[bad-shape]`; DTypeError: `[unsupported-dtype]`.

    Example:
        >>> import anabranch as ab
        >>> ab.ones(2, ab.int64)
        tensor([1, 1], dtype=int64)
    """
    return full(shape, 1, dtype)


@boundary
def empty(shape: Any, dtype: Any = np.float64) -> Any:
    """A tensor whose content does not matter. It holds zeros: equal programs give equal bits.

    Raises:
        ShapeError: `[bad-shape]`; DTypeError: `[unsupported-dtype]`.

    Example:
        >>> import anabranch as ab
        >>> ab.empty(2).shape
        (2,)
    """
    return full(shape, 0, dtype)


@boundary
def full_like(x: Any, fill_value: Any, dtype: Any = None) -> Any:
    """`full` in the shape of another value, and in its dtype by default.

    Raises:
        DTypeError: `[fill-dtype]`.

    Example:
        >>> import anabranch as ab
        >>> ab.full_like(ab.tensor([1.0, 2.0]), 7)
        tensor([7., 7.])
    """
    kind = _aval(x)
    return full(kind.shape, fill_value, kind.dtype if dtype is None else dtype)


@boundary
def zeros_like(x: Any, dtype: Any = None) -> Any:
    """Zeros in the shape of another value, and in its dtype by default.

    Example:
        >>> import anabranch as ab
        >>> ab.zeros_like(ab.tensor([1.0, 2.0]))
        tensor([0., 0.])
    """
    return full_like(x, 0, dtype)


@boundary
def ones_like(x: Any, dtype: Any = None) -> Any:
    """Ones in the shape of another value, and in its dtype by default.

    Example:
        >>> import anabranch as ab
        >>> ab.ones_like(ab.tensor([5.0, 2.0]))
        tensor([1., 1.])
    """
    return full_like(x, 1, dtype)


@boundary
def empty_like(x: Any, dtype: Any = None) -> Any:
    """`empty` in the shape of another value, and in its dtype by default.

    Example:
        >>> import anabranch as ab
        >>> ab.empty_like(ab.tensor([5.0, 2.0])).shape
        (2,)
    """
    return full_like(x, 0, dtype)


@boundary
def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Any:
    """Numbers from `start` (0 if only one is given) to before `stop`, a step apart.

    Integers make integers. How many there are must be known, so none of the three is computed.

    Raises:
        ArgumentError: `[bad-argument]` for a step of 0.

    Example:
        >>> import anabranch as ab
        >>> ab.arange(3), ab.arange(1.0, 2.0, 0.5)
        (tensor([0, 1, 2], dtype=int64), tensor([1. , 1.5]))
    """
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ArgumentError("bad-argument", "a range cannot take steps of 0")
    first, end, by = map(_number, (start, stop, step))
    wanted = None if dtype is None else as_dtype(dtype)
    return make_tensor(np.arange(first, end, by, dtype=wanted))


@boundary
def linspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None) -> Any:
    """`num` numbers at equal distances from `start` to `stop`, which is the last unless left out.

    A derivative passes through `start` and `stop`, which may have any shape; the new axis is the
    first.

    Raises:
        ShapeError: `[bad-shape]` for a negative number of them.

    Example:
        >>> import anabranch as ab
        >>> ab.linspace(0.0, 1.0, 3)
        tensor([0. , 0.5, 1. ])
    """
    (count,) = as_shape(operator.index(num))
    made: Any
    if not any(hasattr(end, "aval") for end in (start, stop)):
        made = np.linspace(start, stop, count, endpoint)
    else:
        share = np.linspace(0.0, 1.0, count, endpoint)
        ndim = max(len(_aval(end).shape) for end in (start, stop))
        share = reshape(share, (count, *(1,) * ndim))
        made = start * (1.0 - share) + stop * share
    if dtype is not None:
        made = bind("astype", made, dtype=as_dtype(dtype))
    return make_tensor(made) if isinstance(made, np.ndarray) else made


@boundary
def eye(n: int, m: int | None = None, k: int = 0, dtype: Any = np.float64) -> Any:
    """A matrix with ones on its kth diagonal and zeros elsewhere; square without `m` columns.

    Raises:
        ShapeError: `[bad-shape]`; DTypeError: `[unsupported-dtype]`.

    Example:
        >>> import anabranch as ab
        >>> ab.eye(2)
        tensor([[1., 0.],
                [0., 1.]])
    """
    rows, columns = as_shape((n, n if m is None else m))
    return make_tensor(np.eye(rows, columns, operator.index(k), as_dtype(dtype)))


def _number(value: Any) -> Any:
    """A number as NumPy takes it; what is computed in a graph says so itself."""
    if isinstance(value, int | float | np.generic):
        return value
    return float(value) if _aval(value).dtype.kind not in "iu" else operator.index(value)


def _aval(value: Any) -> Any:
    is_value = hasattr(value, "dtype") or type(value) in NUMBERS
    return aval_of(value if is_value else np.asarray(value))
