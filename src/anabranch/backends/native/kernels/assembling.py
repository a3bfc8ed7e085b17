"""Results put together from parts: each operand is copied to where it stands in the result.

Those that were computed there already are left out.
"""

from __future__ import annotations

from typing import Any

from anabranch.backends.native.kernels.code import Array, KernelCode
from anabranch.backends.native.parts import inside, parts_of, ranges


def concatenate(k: KernelCode) -> None:
    _put(k)


def pad(k: KernelCode) -> None:
    _put(k)
    _surround(k, k.outputs[0], inside(k.node), k.node.attrs["fill"])


def unslice(k: KernelCode) -> None:
    (result,), selected = k.outputs, ranges(k.node)
    if all(one.step == 1 for one in selected):
        _surround(k, result, [(one.start, max(one.stop, one.start), 1) for one in selected], 0)
    else:
        k.filled(result, 0)
    _put(k)


def update_slice(k: KernelCode) -> None:
    k.take_over(k.outputs[0])
    _put(k)


def _put(k: KernelCode) -> None:
    for slot, view in parts_of(k.node):
        if not k.is_in_place(slot, view):
            target = k.shown(k.outputs[0], view)
            k.copied(k.inputs[slot], target)


def _surround(k: KernelCode, result: Array, inside: Any, fill: Any) -> None:
    """Along each axis what stands before and behind the inside."""
    for axis, (start, stop, _) in enumerate(inside):
        for border in ((0, start, 1), (stop, result.shape[axis], 1)):
            whole = [(0, n, 1) for n in result.shape[axis + 1 :]]
            k.filled(k.sliced(result, [*inside[:axis], border, *whole]), fill)
