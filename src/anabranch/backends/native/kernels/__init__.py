"""Loop nests of their own, by the names that ops' records use."""

from __future__ import annotations

from collections.abc import Callable

from anabranch.backends.native.emit import NotNativeError
from anabranch.backends.native.kernels import (
    assembling,
    extrema,
    indexing,
    ordering,
    random,
    scanning,
    windows,
)
from anabranch.backends.native.kernels.code import KernelCode
from anabranch.backends.native.schedule import Schedule
from anabranch.core.node import Node
from anabranch.core.op import Kernel

KERNELS: dict[str, Callable[[KernelCode], None]] = {
    rule.__name__: rule
    for rule in (
        assembling.concatenate,
        assembling.pad,
        assembling.unslice,
        assembling.update_slice,
        extrema.argument,
        indexing.dynamic_slice,
        indexing.dynamic_update_slice,
        indexing.gather,
        indexing.index_repeats,
        indexing.one_hot,
        indexing.scatter,
        ordering.argsort,
        ordering.search,
        ordering.sort,
        random.bits,
        random.randint,
        random.threefry,
        random.words,
        scanning.recurrence,
        scanning.scan,
        windows.add_windows,
    )
}


def kernel_code(
    name: str, node: Node, schedule: Schedule, vector_bytes: int, declared: set[str]
) -> KernelCode:
    """The IR function of a node whose record names a kernel.

    Raises:
        NotNativeError: where the kernel cannot take the node.
    """
    lower = node.op.lower
    assert isinstance(lower, Kernel)
    if lower.name not in KERNELS:
        raise NotNativeError(f"{node.op.name} has no machine code yet")
    code = KernelCode(name, node, lower.join, schedule, vector_bytes, declared)
    KERNELS[lower.name](code)
    code.finish()
    return code
