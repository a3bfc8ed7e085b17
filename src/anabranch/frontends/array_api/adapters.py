"""The functions of the standard that take more than another name for one of ours."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from anabranch.core.bind import bind
from anabranch.core.registry import functions
from anabranch.core.values import as_dtype
from anabranch.errors import ShapeError
from anabranch.frontends import creation
from anabranch.frontends.array_api import dtypes, exchange
from anabranch.frontends.array_api.exchange import require_device

_ours = functions()
ADAPTERS: dict[str, Any] = {
    "asarray": exchange.asarray,
    "can_cast": dtypes.can_cast,
    "finfo": dtypes.finfo,
    "from_dlpack": exchange.from_dlpack,
    "iinfo": dtypes.iinfo,
    "isdtype": dtypes.isdtype,
    "result_type": dtypes.result_type,
}


def adapter(function: Any) -> Any:
    """Enter a function under its name; `linalg_trace` is `trace` of `linalg`."""
    ADAPTERS[function.__name__.removesuffix("_").replace("linalg_", "linalg.")] = function
    return function


def _on_device(make: Any) -> Any:
    def made(*args: Any, device: Any = None, **kwargs: Any) -> Any:
        require_device(device)
        dtype = kwargs.pop("dtype", None)
        given = {} if dtype is None else {"dtype": dtype}
        return make(*args, **given, **kwargs)

    made.__doc__ = make.__doc__
    return made


for _name in ("arange", "empty", "empty_like", "eye", "full", "full_like", "linspace"):
    ADAPTERS[_name] = _on_device(getattr(creation, _name))
for _name in ("ones", "ones_like", "zeros", "zeros_like"):
    ADAPTERS[_name] = _on_device(getattr(creation, _name))


@adapter
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    """The value in another dtype; itself if it has it already and no copy is asked for.

    Example:
        >>> from anabranch import xp
        >>> xp.astype(xp.asarray([1.7, 2.0]), xp.int64)
        tensor([1, 2], dtype=int64)
    """
    require_device(device)
    kind = as_dtype(dtype)
    return x if kind == x.dtype and not copy else bind("astype", x, dtype=kind)


@adapter
def diff(x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Any:
    """The differences of neighbours along an axis, n times over.

    Example:
        >>> from anabranch import xp
        >>> xp.diff(xp.asarray([1.0, 4.0, 9.0]))
        tensor([3., 5.])
    """
    parts = [part for part in (prepend, x, append) if part is not None]
    y = _ours["concatenate"](parts, axis) if len(parts) > 1 else x
    for _ in range(n):
        before: list[Any] = [slice(None)] * y.ndim
        after = list(before)
        before[axis], after[axis] = slice(None, -1), slice(1, None)
        op = "not_equal" if y.dtype == bool else "subtract"
        y = bind(op, y[tuple(after)], y[tuple(before)])
    return y


@adapter
def positive(x: Any, /) -> Any:
    """The value itself."""
    return bind("identity", x)


@adapter
def reshape(x: Any, /, shape: Any, *, copy: bool | None = None) -> Any:
    """The elements in another shape. Values never change, so that `copy` asks for nothing.

    Example:
        >>> from anabranch import xp
        >>> xp.reshape(xp.asarray([1, 2]), (2, 1)).shape
        (2, 1)
    """
    return _ours["reshape"](x, shape)


@adapter
def signbit(x: Any, /) -> Any:
    """Whether the sign is minus, of -0 too.

    Example:
        >>> from anabranch import xp
        >>> xp.signbit(xp.asarray([-0.0, 0.0]))
        tensor([ True, False], dtype=bool)
    """
    return bind("less", bind("copysign", x.dtype.type(1), x), x.dtype.type(0))


@adapter
def linalg_cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The cross product of vectors of three elements along an axis.

    Raises:
        ShapeError: `[shape-mismatch]` for vectors of another length.
    """
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ShapeError("shape-mismatch", "a cross product is one of vectors of three elements")
    return _ours["cross"](x1, x2, axis=axis)


@adapter
def linalg_diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """The diagonals of matrices in the last two axes."""
    return _ours["diagonal"](x, offset, -2, -1)


@adapter
def linalg_trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sums of the diagonals of matrices in the last two axes."""
    return _ours["sum"](linalg_diagonal(x, offset=offset), -1, dtype=dtype)


def _refused(name: str, instead: str) -> Any:
    def function(x: Any, /) -> NoReturn:
        raise ShapeError(
            "dynamic-shape",
            f"the shape of {name} depends on values, so that no graph could hold it",
            hint=instead,
        )

    function.__doc__ = f"Not offered: the shape of the result depends on values. {instead}."
    return function


ADAPTERS["nonzero"] = _refused("nonzero", "np.nonzero(x.numpy()) looks at a value that is known")
for _name in ("unique_all", "unique_counts", "unique_inverse", "unique_values"):
    ADAPTERS[_name] = _refused(_name, f"np.{_name}(x.numpy()) looks at a value that is known")


class ArrayNamespaceInfo:
    """What this namespace can do: `xp.__array_namespace_info__()`."""

    def capabilities(self) -> dict[str, Any]:
        """Boolean masks select where they are known; no shape depends on computed values."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self) -> str:
        """The only device."""
        return exchange.DEVICE

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """What numbers become without a dtype."""
        require_device(device)
        names = {
            "real floating": "float64",
            "complex floating": "complex128",
            "integral": "int64",
            "indexing": "int64",
        }
        return {kind: dtypes.DTYPES[name] for kind, name in names.items()}

    def devices(self) -> list[str]:
        """All devices."""
        return [exchange.DEVICE]

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, np.dtype[Any]]:
        """The dtypes, or those of a kind (or of several), by name."""
        require_device(device)
        found = dtypes.DTYPES.items()
        return {name: d for name, d in found if kind is None or dtypes.isdtype(d, kind)}
