"""Arithmetic, indexing and methods of values, each an op named by its string.

Eager tensors and graph nodes share this class; a test compares the names with the registry.
Reflected forms exist so that numbers and arrays may stand on the left: what NumPy would compute for
an operator comes to them through `__array_ufunc__`, which refuses everything else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.core.bind import is_operand
from anabranch.core.entry import boundary, leaving
from anabranch.core.places import At
from anabranch.core.registry import functions
from anabranch.errors import AnabranchError, ArgumentError, ExchangeError

Method = Callable[..., Any]
_functions = functions()  # filled when the ops are imported; looked up at each call
_namespaces: list[Callable[[str | None], Any]] = []
SYMBOLS: dict[str, str] = {}  # how Python writes the ops that have an operator, by op name


def offer_namespace(of_version: Callable[[str | None], Any]) -> None:
    """Say what module `__array_namespace__` gives for a version of the array API standard."""
    _namespaces[:] = [of_version]


# What Python would ask the operand on the right, by the NumPy function behind the operator.
_REFLECTED = {
    "add": "__radd__",
    "subtract": "__rsub__",
    "multiply": "__rmul__",
    "divide": "__rtruediv__",
    "floor_divide": "__rfloordiv__",
    "remainder": "__rmod__",
    "divmod": "__rdivmod__",
    "power": "__rpow__",
    "matmul": "__rmatmul__",
    "bitwise_and": "__rand__",
    "bitwise_or": "__ror__",
    "bitwise_xor": "__rxor__",
    "left_shift": "__rlshift__",
    "right_shift": "__rrshift__",
    "less": "__gt__",
    "less_equal": "__ge__",
    "greater": "__lt__",
    "greater_equal": "__le__",
    "equal": "__eq__",
    "not_equal": "__ne__",
}


def _is_ours(other: Any) -> bool:
    # A foreign class may know how to combine with us: only what we claim to know raises.
    return is_operand(other) or isinstance(other, list | tuple)


def _binary(name: str, symbol: str) -> Method:
    SYMBOLS[name] = symbol

    def method(self: Any, other: Any) -> Any:
        try:
            return _functions[name](self, other)
        except AnabranchError as error:
            if _is_ours(other):
                raise leaving(error) from error.__cause__
            return NotImplemented

    return method


def _reflected(name: str) -> Method:
    def method(self: Any, other: Any) -> Any:
        try:
            return _functions[name](other, self)
        except AnabranchError as error:
            if _is_ours(other):
                raise leaving(error) from error.__cause__
            return NotImplemented

    return method


def _call(name: str, symbol: str | None = None) -> Method:
    """A method that is the public function of this name with the value as first argument."""
    if symbol is not None:
        SYMBOLS[name] = symbol

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return _functions[name](self, *args, **kwargs)
        except AnabranchError as error:
            raise leaving(error) from error.__cause__

    return method


def _numpy_function(value: Any, name: str, is_numpys: bool = True) -> ArgumentError:
    # NumPy would convert to an array and so drop the history without a word.
    shown = f"np.{name}" if is_numpys else name
    known = f"ab.{name}(...)" if name in _functions else None
    return ArgumentError(
        "numpy-function",
        f"{shown} computes on arrays and would lose the derivative",
        hint=known or ("np functions take x.data" if hasattr(value, "data") else None),
    )


def _array_holds_numbers(symbol: str) -> ArgumentError:
    return ArgumentError(
        "numpy-function",
        f"`a {symbol}= x` writes into the array a, which cannot hold a value with a history",
        hint=f"a = a {symbol} x",
    )


class Operators:
    """Operators and methods over `bind`; the value itself is whatever the subclass is."""

    __slots__ = ()
    __hash__ = object.__hash__

    __add__ = _binary("add", "+")
    __radd__ = _reflected("add")
    __sub__ = _binary("subtract", "-")
    __rsub__ = _reflected("subtract")
    __mul__ = _binary("multiply", "*")
    __rmul__ = _reflected("multiply")
    __truediv__ = _binary("divide", "/")
    __rtruediv__ = _reflected("divide")
    __floordiv__ = _binary("floor_divide", "//")
    __rfloordiv__ = _reflected("floor_divide")
    __mod__ = _binary("remainder", "%")
    __rmod__ = _reflected("remainder")
    __matmul__ = _binary("matmul", "@")
    __rmatmul__ = _reflected("matmul")
    __lt__ = _binary("less", "<")
    __le__ = _binary("less_equal", "<=")
    __gt__ = _binary("greater", ">")
    __ge__ = _binary("greater_equal", ">=")
    __eq__ = _binary("equal", "==")
    __ne__ = _binary("not_equal", "!=")
    __and__ = _binary("bitwise_and", "&")
    __rand__ = _reflected("bitwise_and")
    __or__ = _binary("bitwise_or", "|")
    __ror__ = _reflected("bitwise_or")
    __xor__ = _binary("bitwise_xor", "^")
    __rxor__ = _reflected("bitwise_xor")
    __lshift__ = _binary("left_shift", "<<")
    __rlshift__ = _reflected("left_shift")
    __rshift__ = _binary("right_shift", ">>")
    __rrshift__ = _reflected("right_shift")
    __invert__ = _call("invert", "~")
    __neg__ = _call("negative", "-")
    __abs__ = _call("absolute")
    __pow__ = _call("power", "**")
    __getitem__ = _call("slice")

    sum = _call("sum")
    mean = _call("mean")
    max = _call("max")
    min = _call("min")
    prod = _call("prod")
    any = _call("any")
    all = _call("all")
    argmax = _call("argmax")
    argmin = _call("argmin")
    argsort = _call("argsort")
    sort = _call("sort")
    searchsorted = _call("searchsorted")
    cumsum = _call("cumsum")
    cumprod = _call("cumprod")
    var = _call("var")
    std = _call("std")
    astype = _call("astype")

    diagonal = _call("diagonal")
    flatten = _call("ravel")
    nonzero = _call("nonzero")
    ravel = _call("ravel")
    repeat = _call("repeat")
    reshape = _call("reshape")
    squeeze = _call("squeeze")
    swapaxes = _call("swapaxes")
    take = _call("take")
    trace = _call("matrix_trace")

    @boundary
    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """The functions of the array API standard: `anabranch.xp`.

        Raises:
            ArgumentError: `[no-such-version]`.
        """
        return _namespaces[0](api_version)

    @property
    def device(self) -> str:
        """Where values lie: always "cpu"."""
        return "cpu"

    @boundary
    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        """The value itself, for there is one device.

        Raises:
            ExchangeError: `[no-such-device]`.
        """
        if device != "cpu" or stream is not None:
            raise ExchangeError("no-such-device", f"values lie on 'cpu', not on {device!r}")
        return self

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        left, reflected = inputs[0], _REFLECTED.get(ufunc.__name__, "")
        is_operator = reflected and method == "__call__" and not kwargs
        if is_operator and not isinstance(left, Operators):
            try:
                return getattr(self, reflected)(left)
            except AnabranchError as error:
                raise leaving(error) from error.__cause__
        written = kwargs.get("out")
        if written and written[0] is left and ufunc.__name__ in SYMBOLS:  # left += self
            raise leaving(_array_holds_numbers(SYMBOLS[ufunc.__name__]))
        way = "" if method == "__call__" else f".{method}"
        raise leaving(_numpy_function(self, f"{ufunc.__name__}{way}", hasattr(np, ufunc.__name__)))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        name = f"{func.__module__}.{func.__name__}".removeprefix("numpy.")
        raise leaving(_numpy_function(self, name))

    def __setitem__(self, index: Any, value: Any) -> None:
        raise leaving(
            ArgumentError(
                "item-assignment",
                "values do not change: item assignment would pull them from under the graph",
                hint="x.at[i].set(v) and ab.where build a new value; x.data[...] changes a leaf",
            )
        )

    def __divmod__(self, other: Any) -> Any:
        quotient = self.__floordiv__(other)
        return quotient if quotient is NotImplemented else (quotient, self.__mod__(other))

    def __rdivmod__(self, other: Any) -> Any:
        quotient = self.__rfloordiv__(other)
        return quotient if quotient is NotImplemented else (quotient, self.__rmod__(other))

    @property
    def at(self) -> At:
        """`x.at[i].set(v)`, `.add(v)`, ...: a new value, changed at an index; x stays as it is.

        Example:
            >>> import anabranch as ab
            >>> ab.tensor([1.0, 2.0]).at[0].add(5.0)
            tensor([6., 2.])
        """
        return At(self)

    def __rpow__(self, other: Any) -> Any:
        return _call("power")(other, self) if is_operand(other) else NotImplemented

    def transpose(self, *axes: Any) -> Any:
        """The axes reordered; reversed without `axes`, which may also come as one tuple."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
        return _call("permute")(self, order)

    def __pos__(self) -> Any:
        return self

    @property
    def T(self) -> Any:  # noqa: N802  # NumPy's name
        """The value with its axes reversed."""
        return self.transpose()

    @property
    def mT(self) -> Any:  # noqa: N802  # the standard's name
        """The value with its last two axes swapped."""
        return _call("matrix_transpose")(self)

    @property
    def aval(self) -> Any:
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape  # type: ignore[no-any-return]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.aval.dtype  # type: ignore[no-any-return]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return self.aval.size  # type: ignore[no-any-return]

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a value with shape ()")
        return self.shape[0]

    def __iter__(self) -> Any:
        if not self.shape:
            raise TypeError("iteration over a value with shape ()")
        return (self[i] for i in range(self.shape[0]))
