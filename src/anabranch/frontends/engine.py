"""The derivative walks over recorded eager programs.

The walks are those of `diff`; here the recorded tensors become steps: with their arrays, so that
derivatives are computed at once, or with the tensors themselves, so that they are recorded too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from anabranch.core.aval import aval_of
from anabranch.core.bind import state
from anabranch.core.domain import is_watched
from anabranch.core.locks import Lock
from anabranch.core.node import Literal, Node
from anabranch.core.source import capture, resolve
from anabranch.core.values import ARRAYS, as_array
from anabranch.diff.forward import forward
from anabranch.diff.refusing import Observer
from anabranch.diff.region import Key, Step, in_order, key_of
from anabranch.diff.reverse import reverse
from anabranch.errors import ArgumentError, FreedGraphError, NoGradientError, ShapeError
from anabranch.frontends.stale import check_step

_adding = Lock()  # two threads may bring gradients to one weight, and none may be lost


class ForwardOrder(Sequence[Any]):
    """Tensors in the order in which they were computed."""

    def __init__(self, tensors: Sequence[Any]) -> None:
        self._tensors = tensors

    def __getitem__(self, index: Any) -> Any:
        return self._tensors[index]

    def __len__(self) -> int:
        return len(self._tensors)

    def __repr__(self) -> str:
        names = [t.name or t.node.op.name for t in self._tensors[:6]]
        return f"<{len(self)} tensors: {', '.join(names)}{', ...' if len(self) > 6 else ''}>"


def pulled(
    edges: Iterable[Any],
    cts: dict[Key, Any],
    within: set[int],
    record: bool = False,
    observer: Observer | None = None,
) -> dict[Key, Any]:
    """The cotangents of recorded tensors: arrays, or tensors with a history of their own."""
    seen = observer and (lambda node, slot, part: observer(node, slot, _bare(part, record)))
    return _walked(lambda kind: reverse(steps(edges, within, kind), cts, within, seen), record)


def pushed(
    edges: Iterable[Any], ts: dict[Key, Any], within: set[int], record: bool = False
) -> dict[Key, Any]:
    """The tangents of recorded tensors; what stands in `ts` from the start moves by itself."""
    given = set(ts)

    def walk(recorded: bool) -> dict[Key, Any]:
        return forward([s for s in steps(edges, within, recorded) if s.node.id not in given], ts)

    return _walked(walk, record)


def _walked(walk: Callable[[bool], dict[Key, Any]], record: bool) -> dict[Key, Any]:
    """A walk over arrays; over tensors if it is recorded, or if operands of its ops are watched."""
    # Convention values of masked branches, like 0 times inf, are no news to the user; and nobody
    # looks at what the rules form on the way: a slope may be infinite and meet a zero.
    with state.changed(recording=record, door=None), np.errstate(all="ignore"):
        recorded = record or is_watched()
        found = walk(recorded)
    if record or not recorded:
        return found
    return {key: _bare(value, record) for key, value in found.items()}


def _bare(value: Any, record: bool) -> Any:
    return value if record or isinstance(value, ARRAYS) else value.value


class Freed:
    """Stands for the inputs of a node whose program `backward(retain=False)` has freed."""

    def __init__(self, node: Node) -> None:
        self._node = (node.op.name, node.source)

    def __iter__(self) -> Iterator[Any]:
        self._refuse()

    def __getitem__(self, index: int) -> Any:
        self._refuse()

    def _refuse(self) -> NoReturn:
        name, source = self._node
        raise FreedGraphError(
            "freed-graph",
            f"the inputs of this {name} were freed by backward(retain=False)",
            source=source,
            facts=(f"needed at {resolve(capture())}",),
            hint="backward() keeps them for a second call",
        )


def input_values(node: Node) -> tuple[Any, ...]:
    """The arrays and numbers that went into an eager node."""
    return tuple([e.value for e in node.inputs])


def steps(edges: Iterable[Any], within: set[int], recorded: bool) -> list[Step]:
    """Steps of the recorded ops among these tensors, with arrays or with the tensors themselves."""
    result = []
    seen = None
    for edge in edges:
        node = edge.node
        if node is seen or not node.inputs or node.id not in within:
            continue
        seen = node
        handed_out = edge.taken is not None
        xs = []
        for source in node.inputs:
            if type(source) is Literal:
                xs.append(source.value)
                continue
            handed_out = handed_out or source.taken is not None
            xs.append(source if recorded else source.value)
        if handed_out:
            check_step(edge, within)
        single = len(node.avals) == 1
        if recorded:
            y = edge if single else edge.outputs
        else:
            y = edge.value if single else edge.values
        result.append(Step(node, y, tuple(xs)))
    return result


def seed(tensor: Any, ct: Any) -> Any:
    """The cotangent to start from: a copy of `ct`, or 1 for a scalar."""
    value = tensor.value
    if ct is None:
        if value.shape:
            raise ShapeError(
                "implicit-cotangent",
                f"a gradient starts from a scalar, but this is {aval_of(value)}",
                hint="sum it, or give the cotangent: backward(ct)",
            )
        return value.dtype.type(1)
    start = as_array(getattr(ct, "value", ct), value.dtype)
    if start.shape != value.shape:
        raise ShapeError(
            "shape-mismatch",
            f"the cotangent has shape {start.shape}, the value {value.shape}",
        )
    return start


def backward(
    tensor: Any, ct: Any, keep: str, retain: bool, observer: Observer | None
) -> ForwardOrder:
    """See `Tensor.backward`."""
    if keep not in ("all", "leaves"):
        raise ArgumentError("bad-argument", f'keep is "all" or "leaves", not {keep!r}')
    if not tensor.requires_grad:
        raise NoGradientError(
            "no-gradient-path",
            "backward has nothing to reach: this value depends on no tensor that requires a"
            " gradient",
            hint="ab.tensor(data, requires_grad=True)",
        )
    start = seed(tensor, ct)
    order = _region(tensor)
    wanted = {edge.node.id for edge in order.values()}
    cts: dict[Key, Any] = {key_of(tensor): start}
    if state.onlooker is not None:
        state.onlooker.pulled([tensor], dict(cts), ())
    cts = pulled(order.values(), cts, wanted, observer=observer)
    with _adding:
        for key, edge in order.items():
            if key in cts and (keep != "leaves" or edge.is_leaf):
                edge.add_to_grad(cts[key])
    if not retain:
        for edge in order.values():
            if not edge.is_leaf:
                object.__setattr__(edge.node, "inputs", Freed(edge.node))
    return ForwardOrder(tuple(order.values()))


def _region(tensor: Any) -> dict[Key, Any]:
    """The tensors that this one's gradient reaches, by key in forward order."""
    found: dict[Key, Any] = {}
    pending = [tensor]
    while pending:
        edge = pending.pop()
        key = key_of(edge)
        if key not in found:
            found[key] = edge
            pending += [e for e in edge.node.inputs if type(e) is not Literal and e._requires_grad]
    return in_order(found)
