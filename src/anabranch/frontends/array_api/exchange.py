"""Values that come in: from numbers and lists, arrays, and the memory of other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core.bind import bind
from anabranch.core.entry import boundary
from anabranch.core.node import Edge
from anabranch.core.values import as_array, as_dtype, plain, settled
from anabranch.errors import ExchangeError
from anabranch.frontends.stale import handing_out
from anabranch.frontends.tensor import Tensor, make_tensor

DEVICE = "cpu"


def require_device(device: Any) -> None:
    """Raise ExchangeError `[no-such-device]` unless this is the CPU, or None."""
    if device not in (None, DEVICE):
        raise ExchangeError("no-such-device", f"values lie on {DEVICE!r}, not on {device!r}")


@boundary
def asarray(data: Any, dtype: Any = None, *, device: Any = None, copy: bool | None = None) -> Any:
    """A tensor as the array API standard makes it: integers stay integers.

    Args:
        data: a number, a nested list, an array, a tensor or a graph value; the last two keep their
            history.
        dtype: that of the data by default.
        device: "cpu" or None.
        copy: False shares the memory of an array, whose changes are then noticed as those of
            `.data` are; None copies an array, which others may change, and no tensor.

    Raises:
        ExchangeError: `[needs-a-copy]` with `copy=False`, `[no-such-device]`.
        ArgumentError: `[bad-data]`; DTypeError: `[unsupported-dtype]`.

    Example:
        >>> import anabranch as ab
        >>> ab.asarray([1, 2]).dtype
        dtype('int64')
    """
    require_device(device)
    kind = None if dtype is None else as_dtype(dtype)
    if isinstance(data, Tensor | Edge):
        if kind is not None and kind != data.dtype:
            _refuse_copy(copy, f"{data.dtype} becomes {kind}")
            return bind("astype", data, dtype=kind)
        return bind("identity", data) if copy else data
    if copy is False:
        return _shared(data, kind)
    return make_tensor(settled(as_array(data, kind)))


def _refuse_copy(copy: bool | None, why: str) -> None:
    if copy is False:
        raise ExchangeError("needs-a-copy", f"without a copy this cannot be: {why}")


def _shared(data: Any, kind: Any) -> Tensor:
    if not isinstance(data, np.ndarray):
        _refuse_copy(False, f"a {type(data).__name__} is no array")
    array = plain(data)
    if array is not data or kind not in (None, array.dtype):
        _refuse_copy(False, f"{data.dtype} with strides {data.strides} becomes {kind or 'C order'}")
    tensor = make_tensor(array)
    handing_out(tensor)  # somebody else holds the memory too
    return tensor


@boundary
def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor with a value of another library that speaks DLPack.

    It is copied, for its owner may change it; `copy=False` shares the memory, and a change is then
    noticed as one of `.data` is.

    Raises:
        ExchangeError: `[needs-a-copy]`, `[no-such-device]`.

    Example:
        >>> import numpy as np
        >>> from anabranch import xp
        >>> xp.from_dlpack(np.array([1.0, 2.0]))
        tensor([1., 2.])
    """
    require_device(device)
    array = np.from_dlpack(x)
    return _shared(array, None) if copy is False else make_tensor(settled(as_array(array)))
