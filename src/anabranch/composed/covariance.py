"""How variables move together."""

from __future__ import annotations

from typing import Any

from anabranch.composed.activation import clip
from anabranch.composed.naming import composed
from anabranch.composed.statistics import narrow, widened
from anabranch.core.dtype import promote
from anabranch.errors import ShapeError
from anabranch.ops.elementwise import sqrt, stop_gradient
from anabranch.ops.layout import pad, permute, reshape
from anabranch.ops.linalg import matmul
from anabranch.ops.reduce import sum_
from anabranch.ops.rules import shape_of


def _rows(m: Any, rowvar: bool) -> tuple[Any, Any]:
    """Variables as rows, in a dtype that their products fit in, and the dtype of the result."""
    shape = shape_of(m)
    x, dtype = widened(m)
    if len(shape) > 2:
        raise ShapeError("shape-mismatch", f"variables stand in one or two axes, not in {shape}")
    if len(shape) < 2:
        return reshape(x, (1, -1)), dtype
    return (x if rowvar else permute(x)), dtype


def _covariance(m: Any, y: Any, rowvar: bool, ddof: float) -> tuple[Any, Any]:
    """The full matrix in a wide dtype, and the dtype of the result."""
    x, dtype = _rows(m, rowvar)
    if y is not None:
        more, other = _rows(y, rowvar)
        if shape_of(more)[1] != shape_of(x)[1]:
            raise ShapeError(
                "shape-mismatch",
                f"both need as many observations, got {shape_of(x)[1]} and {shape_of(more)[1]}",
            )
        above, below = shape_of(x)[0], shape_of(more)[0]
        x = pad(x, ((0, below), (0, 0))) + pad(more, ((above, 0), (0, 0)))
        dtype, _ = promote([(dtype, False), (other, False)])
    n = shape_of(x)[1]
    shifted = x - stop_gradient(x[:, :1])  # equal observations become zeros exactly
    around = shifted - sum_(shifted, axis=1, keepdims=True) / n
    return matmul(around, permute(around)) / max(n - ddof, 0), dtype


@composed
def cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: float | None = None
) -> Any:
    """The covariance matrix of variables, from observations of them.

    Args:
        m: one variable a row, one observation a column; a single axis is one variable.
        y: more variables, with as many observations.
        rowvar: False when variables are columns.
        bias: whether to divide by the number of observations, and not by one less.
        ddof: what is taken off the number of observations instead.

    Returns:
        A square matrix, or a scalar for one variable. Of too few observations it is NaN or inf.

    Raises:
        ShapeError: `[shape-mismatch]` for more than two axes, or unequal numbers of observations.
        DTypeError: `[unsupported-dtype]` for complex values.

    Example:
        >>> import anabranch as ab
        >>> ab.cov(ab.tensor([[1.0, 3.0], [5.0, 1.0]]))
        tensor([[ 2., -4.],
                [-4.,  8.]])
    """
    found, dtype = _covariance(m, y, rowvar, int(not bias) if ddof is None else ddof)
    return narrow(found, dtype, () if shape_of(found) == (1, 1) else shape_of(found))


@composed
def corrcoef(x: Any, y: Any = None, rowvar: bool = True) -> Any:
    """The correlation coefficients of variables: their covariances over both deviations.

    A variable that never changes has none: its row and column are NaN, as in NumPy.

    Args:
        x: one variable a row, one observation a column; a single axis is one variable.
        y: more variables, with as many observations.
        rowvar: False when variables are columns.

    Raises:
        ShapeError: `[shape-mismatch]` for more than two axes, or unequal numbers of observations.
        DTypeError: `[unsupported-dtype]` for complex values.

    Example:
        >>> import anabranch as ab
        >>> ab.corrcoef(ab.tensor([1.0, 2.0]), ab.tensor([4.0, 0.0]))
        tensor([[ 1., -1.],
                [-1.,  1.]])
    """
    matrix, dtype = _covariance(x, y, rowvar, 0)
    k = shape_of(matrix)[0]
    deviation = sqrt(reshape(matrix, (-1,))[:: k + 1])
    found = matrix / reshape(deviation, (k, 1)) / deviation
    found = clip(found, -1.0, 1.0)
    return narrow(found, dtype, () if k == 1 else (k, k))
