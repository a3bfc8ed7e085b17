"""`ab.config(nonfinite="raise")`: stop at the first op that makes a value that is not finite.

The guard stands at the door of `bind` and looks at each result; outside such a block nobody looks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from anabranch.core.aval import aval_of
from anabranch.core.bind import bind, current_source, state
from anabranch.core.config import Options, when_changed
from anabranch.core.node import Edge, Node
from anabranch.core.nonfinite import Diagnosis, diagnose, is_finite
from anabranch.core.op import Op
from anabranch.core.source import Source, resolve
from anabranch.core.told import call_text, index_text, number_text, reason, way_out
from anabranch.errors import NonFiniteError


class Guard:
    """Refuses what is not finite, in this thread, while it stands at the door."""

    def apply(self, op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        """The op as `bind` does it, and a look at the result."""
        if any(isinstance(one, Edge) for one in args):
            with state.changed(door=None):
                return bind(op, *args, **attrs)
        with state.changed(door=None), np.errstate(all="ignore"):
            out = bind(op, *args, **attrs)
        names = [getattr(one, "name", None) for one in args]
        fresh = [not getattr(one, "is_tracked", False) or one.is_leaf for one in args]
        _look(Applied(op, [*map(bare, args)], attrs, names, fresh), out)
        return out

    def after(self, node: Node, xs: list[Any], out: Any) -> None:
        """A look at one node of a running graph.

        In the graph of a gradient a local derivative may be infinite where no cotangent meets it,
        so only what is sent on is judged.
        """
        if node.origin is None or not any(_same_edge(r, node) for r, _ in node.consumers):
            sources = [getattr(edge, "node", None) for edge in node.inputs]
            names = [None if one is None else one.name for one in sources]
            fresh = [one is None or not one.inputs for one in sources]
            _look(Applied(node.op, xs, node.attrs, names, fresh, node), out)


class Applied(NamedTuple):
    """One application of an op on values; `fresh` tells operands that were given, not computed."""

    op: Op
    xs: list[Any]
    attrs: dict[str, Any]
    names: Sequence[str | None]
    fresh: Sequence[bool]
    node: Node | None = None


def _same_edge(a: Node, b: Node) -> bool:
    """Whether two nodes belong to the derivative on the same edge."""
    return (
        a.origin is not None
        and b.origin is not None
        and a.origin[0] is b.origin[0]
        and a.origin[1] == b.origin[1]
    )


def _look(applied: Applied, out: Any) -> None:
    for y in out if isinstance(out, tuple) else (out,):
        value = bare(y)
        if is_finite(value):
            continue
        found = diagnose(applied.op, applied.xs, value, applied.attrs)
        if found is not None:
            raise _refused(applied, found, value)
        for x, name, fresh in zip(applied.xs, applied.names, applied.fresh, strict=True):
            if fresh and np.isnan(np.asarray(x)).any():
                raise _given(applied, name, x)


def bare(value: Any) -> Any:
    """The array or number of a tensor."""
    return getattr(value, "value", value)


def _refused(applied: Applied, found: Diagnosis, y: Any) -> NonFiniteError:
    """The error for a value that an op produced; its facts are also in `details`."""
    op, node = applied.op, applied.node
    words = "NaN" if found.kind == "nan" else number_text(found.value)
    before = "finite" if all(map(is_finite, found.operands)) else "not NaN"
    lead = ""
    if node is not None and node.origin is not None:
        lead = f"in the derivative of {node.origin[0].op.name}, "
    where = f"first at {index_text(found.at)}: " if found.at else ""
    call = call_text(op, [number_text(x) for x in found.operands])
    fact = f"{where}{call} = {words}" if op.elementwise else f"{where}{words}"
    return NonFiniteError(
        "non-finite",
        f"{lead}{op.name} gave {words} in {found.bad} of {found.of} elements of {aval_of(y)}, and"
        f" what went in was {before}: {reason(op, found, y.dtype)}",
        facts=(fact, *_operands(applied, found)),
        hint=way_out(found.cause),
        source=_line(node),
        op=op.name,
        cause=found.cause,
        index=found.at,
        operands=found.operands,
        phase="backward" if lead else "forward",
    )


def _line(node: Node | None) -> Source | None:
    return resolve(current_source()) if node is None else node.source


def _operands(applied: Applied, found: Diagnosis) -> dict[str, None]:
    """The operands by name, each with its range; each line once."""
    lines = []
    where = index_text(found.at) if applied.op.elementwise else ""
    for name, x, at in zip(applied.names, applied.xs, found.operands, strict=True):
        if name:
            low, high = np.min(x), np.max(x)
            spread = f"   from {number_text(low)} to {number_text(high)}" if np.size(x) > 1 else ""
            value = f"{name}{where} = {number_text(at)}" if applied.op.elementwise else name
            lines.append(value + spread)
    return dict.fromkeys(lines)


def _given(applied: Applied, name: str | None, x: Any) -> NonFiniteError:
    """The error for NaN that came in with the data."""
    bad = np.isnan(np.asarray(x))
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), bad.shape))
    return NonFiniteError(
        "non-finite",
        f"{name or 'an operand'} of {applied.op.name} holds NaN in {int(bad.sum())} of {bad.size}"
        f" elements of {aval_of(x)}: it came in with the data",
        facts=(f"first at {index_text(index)}",) if index else (),
        hint=way_out("data"),
        source=_line(applied.node),
        op=applied.op.name,
        cause="data",
        index=index,
        operands=(),
        phase="forward",
    )


@contextmanager
def _standing(options: Options) -> Iterator[None]:
    guard = Guard() if options.nonfinite == "raise" else None
    # A trace has no values to look at; it keeps the door, and its runs are looked at later.
    changes = {"door": guard} if state.trace is None else {}
    with state.changed(guard=guard, **changes):
        yield


when_changed("nonfinite", _standing)
