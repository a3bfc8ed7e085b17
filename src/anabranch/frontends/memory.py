"""What recorded programs hold in memory, and why: values, what backward needs, gradients, the rest.

Each object is counted once, under the first heading that fits, so the parts add up to the total.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from anabranch.core.entry import boundary
from anabranch.core.node import Literal, Node
from anabranch.errors import ArgumentError
from anabranch.frontends.tensor import Tensor

_SHARED_INTS = range(-5, 257)  # Python has these once and for all


@dataclass(frozen=True)
class MemoryReport:
    """Bytes by what they are held for; printed, a small table.

    Attributes:
        values: arrays of leaves, and of results that no recorded op reads.
        saved: arrays of computed tensors that recorded ops read, and the copies that `.data` left
            behind: they stay because a walk back may need them.
        gradients: what `backward` added up in `.grad`.
        overhead: the tensors, nodes, edges and attrs themselves.
        tensors, nodes: how many of each.
    """

    values: int
    saved: int
    gradients: int
    overhead: int
    tensors: int
    nodes: int

    @property
    def total(self) -> int:
        return self.values + self.saved + self.gradients + self.overhead

    def __str__(self) -> str:
        rows = (
            ("values", self.values),
            ("saved for backward", self.saved),
            ("gradients", self.gradients),
            ("graph overhead", self.overhead),
            ("total", self.total),
        )
        lines = [f"{name:<20}{amount:>14,} bytes" for name, amount in rows]
        return "\n".join([*lines, f"{self.tensors:,} tensors, {self.nodes:,} nodes"])


@boundary
def memory_report(*tensors: Tensor) -> MemoryReport:
    """What the programs recorded for these tensors hold; without arguments, for all that live.

    Raises:
        ArgumentError: `[not-a-tensor]`.

    Example:
        >>> import anabranch as ab
        >>> x = ab.tensor([0.0] * 1000, requires_grad=True)
        >>> y = ab.tanh(ab.sin(x)).sum()
        >>> held = ab.memory_report(y)
        >>> held.values // 8000, held.saved // 8000, held.gradients
        (1, 2, 0)
        >>> order = y.backward(keep="leaves")
        >>> ab.memory_report(y).gradients // 8000
        1
    """
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise ArgumentError("not-a-tensor", f"a {type(tensor).__name__} records nothing")
    held = _reachable(tensors or (one for one in gc.get_objects() if type(one) is Tensor))
    nodes = {id(t.node): t.node for t in held if t.has_node}
    read = {id(edge) for node in nodes.values() for edge in _tensors_read(node)}
    scale = _Scale()
    parts = {"gradients": 0, "saved": 0, "values": 0}
    for tensor in held:
        parts["gradients"] += scale.array(tensor._grad)
    for tensor in held:
        computed = tensor.has_node and not tensor.is_leaf
        kind = "saved" if computed and id(tensor) in read else "values"
        parts[kind] += sum(map(scale.array, tensor.values))
        parts["saved"] += scale.array(tensor.kept)
    owners: list[Any] = [*held, *nodes.values()]
    overhead = sum(map(scale.skeleton, owners))
    return MemoryReport(**parts, overhead=overhead, tensors=len(held), nodes=len(nodes))


def _reachable(tensors: Iterable[Tensor]) -> list[Tensor]:
    found: dict[int, Tensor] = {}
    pending = list(tensors)
    while pending:
        tensor = pending.pop()
        if id(tensor) not in found:
            found[id(tensor)] = tensor
            if tensor.has_node:
                pending += _tensors_read(tensor.node)
    return list(found.values())


def _tensors_read(node: Node) -> list[Tensor]:
    """The tensors among a node's inputs; none where `backward(retain=False)` has freed them."""
    inputs = node.inputs
    return [e for e in inputs if type(e) is Tensor] if type(inputs) is tuple else []


class _Scale:
    """Weighs objects, each of them once."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def array(self, value: Any) -> int:
        """An array with the memory it lies in, or a NumPy scalar."""
        if not isinstance(value, np.ndarray | np.generic):
            return 0
        size = self.once(value)
        base = value.base if isinstance(value, np.ndarray) else None
        return size if base is None or not size else size + self.array(base)

    def skeleton(self, owner: Tensor | Node) -> int:
        """An object of the program with the containers and numbers that hang on it."""
        size = self.once(owner)
        pending = list(_fields(owner)) if size else []
        while pending:
            one = pending.pop()
            kind = type(one)
            if kind is Literal:
                pending.append(one.value)
            elif kind is tuple or kind is list:
                pending += one
            elif kind is dict:
                pending += one.values()
            elif kind is int or kind is float:
                if one in _SHARED_INTS:
                    continue
            elif not isinstance(one, np.ndarray | np.generic):
                continue  # shared with the whole library, or weighed under its own name
            size += self.once(one)
        return size

    def once(self, value: Any) -> int:
        if id(value) in self.seen or (type(value) is tuple and not value):
            return 0
        self.seen.add(id(value))
        return sys.getsizeof(value)


def _fields(owner: Tensor | Node) -> Iterator[Any]:
    for kind in type(owner).__mro__:
        for name in kind.__dict__.get("__slots__", ()):
            if name != "__weakref__":
                # A leaf that was never used has no node yet, and must not get one by being asked.
                try:
                    yield object.__getattribute__(owner, name)
                except AttributeError:
                    continue
