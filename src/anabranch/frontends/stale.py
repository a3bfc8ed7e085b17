"""Values that changed between the forward pass and the backward pass that needs them.

Handing out `.data` makes a value changeable. From then on its tensor keeps a copy of the bits that
recorded programs rely on, and counts versions: a program remembers the versions of its inputs, and
before a walk back the bits are compared. A change after the walk and before the next forward pass
is fine: the next program finds other bits, keeps a new copy and counts one up.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core.node import Literal
from anabranch.core.op import NoGradient, Unsupported
from anabranch.core.source import capture, resolve
from anabranch.diff.needs import read_values
from anabranch.errors import StaleValueError


def handing_out(tensor: Any) -> None:
    """Note that `tensor.data` leaves: whoever gets it may change it."""
    if tensor.has_node and tensor.kept is None:
        tensor.kept = np.array(tensor.value)
    tensor.taken = capture()


def used_again(tensor: Any) -> None:
    """A new program uses a tensor whose data was handed out: it relies on today's bits."""
    if tensor.kept is None:
        tensor.kept = np.array(tensor.value)
    elif has_other_bits(tensor):
        tensor.version += 1
        tensor.kept = np.array(tensor.value)


def has_other_bits(tensor: Any) -> bool:
    """Whether the value differs from the kept copy (NaN equals the same NaN)."""
    return bool(np.asarray(tensor.value).tobytes() != tensor.kept.tobytes())


def check_step(tensor: Any, within: set[int]) -> None:
    """Refuse to walk back through the op that made `tensor` if a value it reads has changed.

    Raises:
        StaleValueError: `[stale-residual]`.
    """
    node = tensor.node
    versions = tensor.input_versions
    changed = {
        slot: edge
        for slot, edge in enumerate(node.inputs)
        if not isinstance(edge, Literal) and _is_stale(edge, versions[slot] if versions else 0)
    }
    own = _is_stale(tensor, 0)
    if not changed and not own:
        return
    xs = tuple(edge.value for edge in node.inputs)
    for slot, edge in enumerate(node.inputs):
        rule = node.op.gradient(slot)
        if isinstance(edge, Literal) or edge.node.id not in within:
            continue
        if isinstance(rule, NoGradient | Unsupported):
            continue
        inputs, output = read_values(node, slot, tensor.value, xs)
        for read in inputs & set(changed):
            raise _stale(node, changed[read])
        if own and output:
            raise _stale(node, tensor)


def _is_stale(tensor: Any, version: int) -> bool:
    if tensor.taken is None:
        return False
    return tensor.version != version or (tensor.kept is not None and has_other_bits(tensor))


def _stale(node: Any, tensor: Any) -> StaleValueError:
    name = tensor.name or (tensor.node.op.name if not tensor.is_leaf else "an input")
    return StaleValueError(
        "stale-residual",
        f"the gradient of {node.op.name} needs {name} as it was, but its value has changed since",
        facts=(
            f"kept     {resolve(node.raw_source)}   {_text(node.raw_source)}",
            f"changed  after {resolve(tensor.taken)}   {_text(tensor.taken)}",
            f"needed   {resolve(capture())}",
        ),
        hint="change .data after backward() and before the next forward pass, or make a new value",
        source=resolve(node.raw_source),
        node=node,
    )


def _text(raw: Any) -> str:
    source = resolve(raw)
    return "" if source is None else source.text
