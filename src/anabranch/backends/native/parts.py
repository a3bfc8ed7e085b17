"""Values that are put together: where each part stands in the whole."""

from __future__ import annotations

from collections.abc import Callable

from anabranch.backends.native.view import View
from anabranch.core.node import Node
from anabranch.core.op import Kernel

ROW = 8  # elements: shorter rows of a part are better computed together and then copied


def parts_of(node: Node) -> list[tuple[int, View]]:
    """The operands of a node that are copied into its result, each with its part of it."""
    lower = node.op.lower
    if not isinstance(lower, Kernel) or lower.name not in _PARTS:
        return []
    return _PARTS[lower.name](node, View.whole(node.avals[0].shape))


def fillings(node: Node) -> list[tuple[int, View]]:
    """Those of them that may stand there before the rest of the result is written."""
    name = node.op.lower.name if isinstance(node.op.lower, Kernel) else ""
    has_gaps = name == "unslice" and any(one.step != 1 for one in ranges(node))
    return [] if name == "update_slice" or has_gaps else parts_of(node)


def is_update(node: Node) -> bool:
    """Whether a node's result is its first operand with some elements written anew."""
    return isinstance(node.op.lower, Kernel) and node.op.lower.name in _UPDATES


def joins(node: Node) -> bool:
    """Whether a node's kernel joins what it writes with what was there."""
    return isinstance(node.op.lower, Kernel) and bool(node.op.lower.join)


def selected(node: Node, slot: int) -> int:
    """At most so many elements of an operand are looked at: some ops select from their first."""
    size: int = node.inputs[slot].aval.size
    selects = isinstance(node.op.lower, Kernel) and node.op.lower.selects
    return min(size, node.avals[0].size) if selects and slot == 0 else size


_UPDATES = {"scatter", "update_slice", "dynamic_update_slice"}


def ranges(node: Node) -> list[range]:
    """What the index of an unslice or of an update selects along each axis."""
    return [
        range(*slice(*entry).indices(n)) if isinstance(entry, tuple) else range(entry, entry + 1)
        for entry, n in zip(node.attrs["index"], node.avals[0].shape, strict=True)
    ]


def _concatenated(node: Node, whole: View) -> list[tuple[int, View]]:
    axis, start, found = node.attrs["axis"], 0, []
    for slot, edge in enumerate(node.inputs):
        index = [(0, n, 1) for n in whole.shape]
        index[axis] = (start, start + edge.aval.shape[axis], 1)
        start += edge.aval.shape[axis]
        found.append((slot, whole.slice(tuple(index))))
    return found


def _padded(node: Node, whole: View) -> list[tuple[int, View]]:
    return [(0, whole.slice(inside(node)))]


def inside(node: Node) -> tuple[tuple[int, int, int], ...]:
    """Where the operand of a pad lies, axis by axis."""
    pairs = zip(node.attrs["widths"], node.inputs[0].aval.shape, strict=True)
    return tuple((before, before + n, 1) for (before, _), n in pairs)


def _unsliced(node: Node, whole: View) -> list[tuple[int, View]]:
    return [(0, whole.slice(node.attrs["index"]))]


def _updated(node: Node, whole: View) -> list[tuple[int, View]]:
    return [(1, whole.slice(node.attrs["index"]))]


_PARTS: dict[str, Callable[[Node, View], list[tuple[int, View]]]] = {
    "concatenate": _concatenated,
    "pad": _padded,
    "unslice": _unsliced,
    "update_slice": _updated,
}


def is_run(view: View) -> bool:
    """Whether its elements lie one after the other, wherever they start."""
    return View(view.shape, view.strides).is_whole


def has_rows(view: View) -> bool:
    """Whether elements lie side by side in rows that are worth writing one by one."""
    lengths = [(n, step) for n, step in zip(view.shape, view.strides, strict=True) if n != 1]
    return bool(lengths) and lengths[-1][1] == 1 and lengths[-1][0] >= ROW


def moved(view: View, part: View) -> View:
    """A view of a value that turned out to be part of another: of the part, if that is a run."""
    return View(view.shape, view.strides, view.offset + part.offset)
