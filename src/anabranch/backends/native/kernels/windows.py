"""Windows added up where they came from."""

from __future__ import annotations

import itertools

from anabranch.backends.native.emit import F32
from anabranch.backends.native.kernels.code import KernelCode
from anabranch.backends.native.view import View
from anabranch.core.dtype import is_half


def add_windows(k: KernelCode) -> None:
    """For each offset in the window, in C order, what all windows hold there."""
    (x,), (result,), attrs = k.inputs, k.outputs, k.node.attrs
    count = len(attrs["shape"])
    if not count:
        k.copied(x, result)
        return
    is_wide = is_half(result.dtype)
    sums = k.in_scratch(F32, result.shape) if is_wide else result
    k.filled(sums, 0)
    outer = len(result.shape) - count
    window = x.shape[len(x.shape) - count :]
    targets = View(sums.shape, sums.strides).windows(window, attrs["stride"], attrs["dilation"])
    target, places = k.shown(sums, targets), list(range(outer + count, outer + 2 * count))
    for offsets in itertools.product(*map(range, window)):
        here, there = x, target
        for axis, offset in zip(places, offsets, strict=True):
            here, there = (k.along(one, axis, str(offset)) for one in (here, there))
        here, there = here.without(places), there.without(places)
        k.mapped(
            there.shape,
            [there, here],
            there,
            lambda e, old, new: e.add(old, e.convert(new, old.dtype)),
        )
    if is_wide:
        k.copied(sums, result)
