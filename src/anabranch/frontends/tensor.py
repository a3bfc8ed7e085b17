"""Eager tensors: values that compute at once and remember how, as far as a gradient may need it.

A tensor is an edge of the recorded program that carries its value. It owns the node that made it,
and the node owns its input tensors, so a program lives exactly as long as its results are held.
"""

from __future__ import annotations

import contextlib
from itertools import count
from typing import Any

import numpy as np

from anabranch.core.aval import Aval, aval_of
from anabranch.core.bind import current_source
from anabranch.core.dtype import FLOATS, is_floating
from anabranch.core.entry import boundary
from anabranch.core.leaves import CONSTANT, PARAMETER
from anabranch.core.node import Node, make_node
from anabranch.core.op import NoGradient, Unsupported
from anabranch.core.source import RawSource
from anabranch.core.values import as_array, as_floats
from anabranch.diff.region import ancestors
from anabranch.diff.rules import partial_value
from anabranch.errors import ArgumentError, DTypeError, ShapeError
from anabranch.frontends.conversions import Conversions
from anabranch.frontends.engine import ForwardOrder, backward, input_values
from anabranch.frontends.stale import handing_out

Array = np.ndarray[Any, Any]
next_id = count().__next__
_FRAMES = 5  # of the library between a user's line and `capture`
# What a field holds that nobody has set. Most tensors are results that nobody asks for these, and
# filling them in would be a good part of an op's cost.
_AT_FIRST: dict[str, Any] = {
    "_grad": None,
    "_grad_is_shared": False,
    "_siblings": None,
    "index": 0,
    "input_versions": None,
    "kept": None,
    "made": None,
    "name": None,
    "taken": None,
    "version": 0,
}


class Tensor(Conversions):
    """A value with a memory. Made by `ab.tensor` and by ops on tensors.

    `data` and `grad` are NumPy arrays; `grad` is None until a contribution has arrived.
    """

    __slots__ = (
        "__weakref__",
        "_grad",
        "_grad_is_shared",
        "_requires_grad",
        "_siblings",
        "_tracked",
        "index",
        "input_versions",
        "kept",
        "made",
        "name",
        "node",
        "taken",
        "value",
        "version",
    )
    value: Any  # as it is stored, for reading only: an array or a NumPy scalar
    name: str | None
    node: Node  # the node that made this tensor; a leaf gets one at its first use
    made: RawSource | None  # where a leaf that requires a gradient was made
    # For `stale`: where data was handed out last, the bits that programs rely on, how often those
    # changed, and the versions of the inputs that this tensor was computed from (None: all 0).
    taken: RawSource | None
    kept: Array | None
    version: int
    input_versions: tuple[int, ...] | None

    def _fill(self, data: Any, requires_grad: bool, name: str | None, dtype: Any) -> None:
        """Make a leaf of this new tensor: a copy of `data`, with `ab.tensor`'s dtypes."""
        self.value = as_floats(data.value if isinstance(data, Tensor) else data, dtype)
        self.index = 0
        self._siblings: tuple[Any, ...] | None = None
        self._requires_grad = self._tracked = False
        self._grad: Any = None
        self._grad_is_shared = False
        self.name = name
        self.made = current_source(_FRAMES) if requires_grad else None
        self.taken = self.kept = self.input_versions = None
        self.version = 0
        if requires_grad:
            self._require_floating()
            self._requires_grad = self._tracked = True

    @boundary
    def __init__(
        self,
        data: Any,
        requires_grad: bool = False,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        self._fill(data, requires_grad, name, dtype)

    # The value and its gradient

    @property
    def data(self) -> Array:
        """The value as an array of its own; changing it in place changes the tensor."""
        if type(self.value) is not np.ndarray:
            self.value = np.array(self.value)
        handing_out(self)
        return self.value

    @data.setter
    @boundary
    def data(self, value: Any) -> None:
        if value is self.value:  # the end of `x.data -= step`, which changed it in place
            return
        array = as_array(value, self.value.dtype)
        if array.shape != self.value.shape:
            raise ShapeError(
                "shape-mismatch",
                f"data has shape {self.value.shape}, the new one {array.shape}",
            )
        handing_out(self)
        self.value = array

    @property
    def grad(self) -> Array | None:
        """What `backward` has added up; None if nothing has arrived yet."""
        if self._grad is None:
            return None
        if self._grad_is_shared or type(self._grad) is not np.ndarray:
            self._grad = np.array(self._grad)
            self._grad_is_shared = False
        return self._grad

    @grad.setter
    @boundary
    def grad(self, value: Any) -> None:
        if value is not None:
            self._require_floating()
            value = as_array(value, self.value.dtype)
            if value.shape != self.value.shape:
                raise ShapeError(
                    "shape-mismatch",
                    f"the value has shape {self.value.shape}, the gradient {value.shape}",
                )
        self._grad = value
        self._grad_is_shared = False

    @boundary
    def zero_grad(self) -> None:
        """Set the gradient to zeros."""
        self._require_floating()
        self._grad = np.zeros_like(self.value)
        self._grad_is_shared = False

    def add_to_grad(self, ct: Any) -> None:
        """Add a cotangent, out of place; the array may be shared until someone reads it."""
        self._grad = ct if self._grad is None else self._grad + ct
        self._grad_is_shared = True

    @property
    def requires_grad(self) -> bool:
        """Whether `backward` brings a gradient here."""
        return self._requires_grad

    @requires_grad.setter
    @boundary
    def requires_grad(self, value: bool) -> None:
        if not self.is_leaf:
            raise ArgumentError(
                "not-a-leaf",
                "whether a computed tensor requires a gradient follows from its inputs",
                hint="x.detach() makes a tensor without history",
            )
        if value:
            self._require_floating()
        if value != self._requires_grad:
            self._requires_grad = self._tracked = bool(value)
            # A parameter's node is no constant's; graphs built before keep theirs.
            with contextlib.suppress(AttributeError):
                del self.node

    def _require_floating(self) -> None:
        if not is_floating(self.value.dtype):
            raise DTypeError(
                "integer-gradient",
                f"a tensor of {aval_of(self.value)} has no gradient; only floats have tangents",
                hint="ab.tensor(data, dtype=ab.float64, requires_grad=True)",
            )

    # How it came about

    @property
    def values(self) -> tuple[Any, ...]:
        """The values of all outputs of the node that made this tensor."""
        return self._siblings or (self.value,)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """All outputs of the node that made this tensor, as tensors on that node."""
        if self._siblings is None:
            return (self,)
        return tuple(
            self if i == self.index else make_tensor(value, self.node, i, self._siblings)
            for i, value in enumerate(self._siblings)
        )

    @property
    def has_node(self) -> bool:
        """Whether a recorded program may use this tensor."""
        try:
            object.__getattribute__(self, "node")
        except AttributeError:
            return False
        return True

    @property
    def is_tracked(self) -> bool:
        """Whether ops on this tensor are recorded."""
        return self._tracked

    @property
    def aval(self) -> Aval:
        return aval_of(self.value)

    @property
    def is_leaf(self) -> bool:
        """Whether this tensor was given, not computed by a recorded op."""
        return not self._tracked or self.node.op is PARAMETER

    def __getattr__(self, name: str) -> Any:
        # Reached for a missing name only: a leaf gets its node when it is first asked for.
        if name in _AT_FIRST:
            setattr(self, name, _AT_FIRST[name])
            return _AT_FIRST[name]
        if name != "node":
            raise AttributeError(f"'Tensor' object has no attribute {name!r}")
        op = PARAMETER if self._requires_grad else CONSTANT
        made = self.made or current_source()
        self.node = make_node(op, (), {}, (self.aval,), next_id(), made)
        return self.node

    @property
    def creator(self) -> tuple[str, tuple[Any, ...]] | None:
        """(op name, operands) of the recorded op; None for a leaf."""
        return None if self.is_leaf else (self.node.op.name, self.node.inputs)

    @property
    def partials(self) -> tuple[Any, ...]:
        """The local derivative of this tensor on each edge to its inputs.

        Arrays in the broadcast shape of the op; None for inputs without gradient and for ops that
        are not elementwise.
        """
        return tuple(self._partial(self.node, slot) for slot in range(len(self.node.inputs)))

    def _partial(self, node: Node, slot: int) -> Array | None:
        rule = node.op.gradient(slot)
        if node.op.partials is None or isinstance(rule, NoGradient | Unsupported):
            return None
        value = partial_value(rule, self.value, input_values(node), node)
        return np.asarray(value).astype(self.dtype)

    @property
    def described(self) -> tuple[str | None, str]:
        if self.is_leaf:
            return self.name, "tensor"
        made = "" if self.node.source is None else f", written at {self.node.source}"
        return self.name, f"{self.node.op.name}{made}"

    def detach(self) -> Tensor:
        """A copy without history, for running averages and the like."""
        return make_tensor(np.array(self.value))

    def log(self, label: str) -> Tensor:
        """Print the value under this label now; on a graph node, at every run."""
        print(f"{label} = {self.value}")
        return self

    # Copies and text

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy, deep or pickled, is a leaf: history is shared by no two programs.
        requires_grad = self._requires_grad and self.is_leaf
        return _rebuilt, (np.array(self.value), requires_grad, self.name, self.grad)

    def __repr__(self) -> str:
        parts = [np.array2string(np.asarray(self.value), separator=", ", prefix="tensor(")]
        if not self.size and self.shape != (0,):
            parts.append(f"shape={self.shape}")
        if self.dtype != np.float64:
            parts.append(f"dtype={self.dtype.name}")
        if self._requires_grad:
            parts.append("requires_grad=True")
        if self.name is not None:
            parts.append(f"name={self.name!r}")
        return f"tensor({', '.join(parts)})"

    # Derivatives

    @boundary
    def backward(
        self,
        ct: Any = None,
        *,
        keep: str = "all",
        retain: bool = True,
        observer: Any = None,
    ) -> ForwardOrder:
        """Add the gradient of this tensor into `.grad` of every tensor it came from.

        Mode: accumulates. A second call adds again; `zero_grad` or `backward_fresh` start anew.

        Args:
            ct: the cotangent of this tensor, of its shape; 1 by default, for shape () only.
            keep: `"all"` fills intermediate tensors too, `"leaves"` only the given ones.
            retain: False frees the recorded program during the walk; a second call then raises.
            observer: called with (node, input slot, contribution) as each contribution arrives.

        Returns:
            The tensors that took part, in forward order.

        Raises:
            ShapeError: `[implicit-cotangent]` without `ct` on a tensor that is not a scalar, or
                `[shape-mismatch]`.
            NoGradientError: `[no-gradient-path]` when nothing here requires a gradient.
            FreedGraphError: `[freed-graph]` after `backward(retain=False)`.

        Example:
            >>> import anabranch as ab
            >>> x = ab.tensor(3.0, requires_grad=True)
            >>> order = (x * x).backward()
            >>> x.grad
            array(6.)
        """
        return backward(self, ct, keep, retain, observer)

    @boundary
    def backward_fresh(self, ct: Any = None, *, observer: Any = None) -> ForwardOrder:
        """Clear `.grad` of every tensor this one came from, then do `backward`.

        Mode: clears first, so each call gives the same gradients.

        Example:
            >>> import anabranch as ab
            >>> x = ab.tensor(3.0, requires_grad=True)
            >>> y = x * x
            >>> _ = y.backward_fresh(), y.backward_fresh()
            >>> x.grad
            array(6.)
        """
        for tensor in ancestors([self]).values():
            tensor.grad = None
        return backward(self, ct, "all", True, observer)


def _rebuilt(data: Array, requires_grad: bool, name: str | None, grad: Array | None) -> Tensor:
    tensor = make_tensor(data)
    tensor.requires_grad = requires_grad
    tensor.name = name
    tensor.grad = grad
    return tensor


def make_tensor(
    value: Any,
    node: Node | None = None,
    index: int = 0,
    siblings: tuple[Any, ...] | None = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """A tensor around a value that nobody else will change."""
    tensor: Tensor = object.__new__(Tensor)
    tensor.value = value
    if node is None:
        tensor._tracked = tensor._requires_grad = False
        return tensor
    tensor.node = node
    tensor._tracked = True
    tensor._requires_grad = value.dtype in FLOATS if requires_grad is None else requires_grad
    tensor.index = index
    tensor._siblings = siblings
    tensor._grad = tensor.taken = tensor.made = None  # read in each program
    return tensor
