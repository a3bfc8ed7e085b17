"""Values of tensors for others: NumPy arrays, Python numbers, memory that is shared (DLPack)."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from anabranch.core.bind import state
from anabranch.core.entry import boundary
from anabranch.core.operators import Operators
from anabranch.core.source import is_item_assignment
from anabranch.errors import ExchangeError, TraceError

Array = np.ndarray[Any, Any]
CPU = (1, 0)  # DLPack's name of the memory that everything here lies in


class Conversions(Operators):
    """What a tensor gives away, and never its history."""

    __slots__ = ()
    value: Any
    data: Any
    _tracked: bool

    def numpy(self) -> Array:
        """A copy of the value."""
        return np.array(self.value)

    def item(self) -> Any:
        """The value of a one-element tensor as a Python number."""
        return self.value.item()

    @boundary
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        self._require_no_history()
        return np.array(self.value, dtype)

    def _require_no_history(self, need: str = "NumPy needs an array", way: str = "data") -> None:
        if self._tracked and state.recording:
            raise TraceError(
                "recorded-value",
                f"{need}, but this tensor is recorded and would lose its history",
                hint=f"x.{way} is that; ab has functions of NumPy's names",
            )

    def __bool__(self) -> bool:
        return bool(self.value)

    @boundary
    def __float__(self) -> float:
        # array[i] = tensor: NumPy asks for the number to store. And math.exp(tensor), which in a
        # derivative would be a constant without a word.
        if is_item_assignment():
            self._require_no_history()
        elif state.transforms:
            self._require_no_history("float() needs a number", "item()")
        return float(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __index__(self) -> int:
        return operator.index(self.value)

    def __format__(self, spec: str) -> str:
        # So that f"{loss:.4f}" prints a number.
        return format(self.item(), spec) if spec and self.size == 1 else format(repr(self), spec)

    @boundary
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The value as a DLPack capsule, without a copy unless one is asked for.

        Whoever takes it without a copy can read the memory, and write only if it breaks the rules:
        a change is noticed as one of `.data` is, before a gradient would be wrong. A consumer that
        does not know of read-only memory (`max_version` below 1.0) gets a copy.

        Raises:
            ExchangeError: `[no-such-device]` for another device than the CPU.
            TraceError: `[recorded-value]` where the history would be lost.
        """
        self._require_no_history()
        if stream is not None or dl_device not in (None, CPU):
            raise ExchangeError("no-such-device", "values lie in the memory of the CPU")
        knows = max_version is not None and max_version >= (1, 0)
        if copy or (copy is None and not knows):
            shared = np.array(self.value)
        else:
            shared = self.data.view()
            shared.flags.writeable = False
        return shared.__dlpack__(max_version=max_version, dl_device=dl_device)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Where the memory lies: always that of the CPU."""
        return CPU
