"""Results put together from parts: each operand is copied to where it stands in the result."""

from __future__ import annotations

from anabranch.backends.native.kernels.code import Array, KernelCode


def concatenate(k: KernelCode) -> None:
    (result,), axis = k.outputs, k.node.attrs["axis"]
    start = 0
    for part in k.inputs:
        index = [(0, n, 1) for n in result.shape]
        index[axis] = (start, start + part.shape[axis], 1)
        k.copied(part, k.sliced(result, index))
        start += part.shape[axis]


def pad(k: KernelCode) -> None:
    """The inside, then along each axis what stands before and behind it."""
    (result,), (x,), attrs = k.outputs, k.inputs, k.node.attrs
    inside = [
        (before, before + n, 1) for (before, _), n in zip(attrs["widths"], x.shape, strict=True)
    ]
    k.copied(x, k.sliced(result, inside))
    for axis, (start, stop, _) in enumerate(inside):
        for border in ((0, start, 1), (stop, result.shape[axis], 1)):
            whole = [(0, n, 1) for n in result.shape[axis + 1 :]]
            k.filled(k.sliced(result, [*inside[:axis], border, *whole]), attrs["fill"])


def unslice(k: KernelCode) -> None:
    (result,), (x,) = k.outputs, k.inputs
    k.filled(result, 0)
    _put(k, x, k.sliced(result, k.node.attrs["index"]))


def update_slice(k: KernelCode) -> None:
    (result,), (x, updates) = k.outputs, k.inputs
    k.copied(x, result)
    _put(k, updates, k.sliced(result, k.node.attrs["index"]))


def _put(k: KernelCode, x: Array, target: Array) -> None:
    k.copied(x.broadcast_to(target.shape), target)
