"""How user data become values: plain NumPy arrays in C order, of a dtype that graphs know.

Values have no other layout anywhere, so that equal values give equal bits whatever array they came
from: NumPy's order of addition follows the memory layout.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core.aval import Shape
from anabranch.core.dtype import BFLOAT16, DType, checked
from anabranch.errors import AnabranchError, ArgumentError, DTypeError, ShapeError

ARRAYS = (np.ndarray, np.generic)


def as_dtype(dtype: Any) -> DType:
    """What NumPy understands as a dtype, if graphs know it.

    Raises:
        DTypeError: `[unsupported-dtype]`.
    """
    try:
        found = np.dtype(dtype)
    except TypeError:
        raise DTypeError("unsupported-dtype", f"{dtype!r} names no dtype") from None
    return checked(found)


def as_shape(shape: Any, free: bool = False) -> Shape:
    """A shape given as one length or several; with `free`, one of them may be -1.

    Raises:
        ShapeError: `[bad-shape]` for what is no length, or a negative one.
    """
    try:
        lengths = tuple(map(operator.index, shape if isinstance(shape, Sequence) else (shape,)))
    except AnabranchError:
        raise
    except TypeError:
        raise ShapeError("bad-shape", f"a shape is integers, not {shape!r}") from None
    negative = [n for n in lengths if n < 0]
    if negative and not (free and negative == [-1]):
        raise ShapeError("bad-shape", f"shape {lengths} has a negative length")
    return lengths


def plain(array: Any) -> Any:
    """A NumPy operand as a value: itself, or a copy in C order.

    Raises:
        DTypeError: `[unsupported-dtype]` for strings, objects, dates.
        ArgumentError: `[bad-operand]` for arrays whose arithmetic means something else.
    """
    checked(array.dtype)
    if type(array) is np.ndarray:
        return array if array.flags.c_contiguous else array.copy(order="C")
    if isinstance(array, np.ma.MaskedArray | np.matrix):
        raise ArgumentError(
            "bad-operand",
            f"a {type(array).__name__} has an arithmetic of its own, which would be lost",
            hint="ab.where(mask, x, y) masks; np.asarray(m) is the plain array",
        )
    return array if isinstance(array, np.generic) else np.array(array, order="C", subok=False)


def as_array(data: Any, dtype: Any = None) -> np.ndarray[Any, Any]:
    """A new array with a copy of numbers, nested lists or an array.

    Raises:
        ArgumentError: `[bad-data]` for what is no rectangular array of numbers.
        DTypeError: `[unsupported-dtype]`.
    """
    if isinstance(data, ARRAYS):
        data = plain(data)
    wanted = None if dtype is None else as_dtype(dtype)
    try:
        array = np.array(data, order="C")
    except AnabranchError:
        raise
    except (ValueError, TypeError, OverflowError) as error:
        raise ArgumentError("bad-data", f"this is no array of numbers: {error}") from None
    checked(array.dtype)
    return array if wanted is None else array.astype(wanted)


def as_floats(data: Any, dtype: Any = None) -> Any:
    """A copy as a value; numbers, lists and integer arrays become float64 unless `dtype` is given.

    Raises:
        ArgumentError, DTypeError: as for `as_array`.
    """
    if type(data) is float and dtype is None:
        return np.float64(data)
    array = as_array(data, dtype)
    keeps = isinstance(data, ARRAYS) and array.dtype.kind not in "iu"
    if dtype is None and not keeps and array.dtype.kind != "c":
        array = array.astype(np.float64)
    return settled(array)


def held_narrow(values: Sequence[Any]) -> list[Any]:
    """Operands for NumPy, in which a Python float leaves bfloat16 as narrow as any other float.

    NumPy itself would widen both to float32, for bfloat16 is not one of its own dtypes.
    """
    if not any(getattr(value, "dtype", None) is BFLOAT16 for value in values):
        return list(values)
    return [BFLOAT16.type(value) if type(value) is float else value for value in values]


def settled(array: Any) -> Any:
    """The array itself; a NumPy scalar for shape (), which computes quicker and cannot change."""
    return array if array.ndim else array[()]


def owned(view: Any) -> Any:
    """The result of a reference that NumPy gives as a view: an array of its own, or a scalar."""
    return settled(view.copy(order="C"))
