"""Values in the middle of what was recorded: find them, and derive by them or through them.

The function that made them stays as it is; `gradients` goes back to them, `tangents` forward from
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from anabranch.core.entry import boundary
from anabranch.core.graph import Graph, ended
from anabranch.core.node import Edge
from anabranch.core.op import Op
from anabranch.core.values import ARRAYS
from anabranch.diff.forward import forward
from anabranch.diff.region import ancestors, dependents, key_of, node_steps
from anabranch.errors import ArgumentError
from anabranch.frontends import engine
from anabranch.frontends.arguments import filled_in, lifted, matching, require_built, require_policy
from anabranch.frontends.containers import flatten
from anabranch.frontends.tensor import Tensor


@boundary
def find(
    within: Any,
    *,
    op: str | Op | None = None,
    name: str | None = None,
    scope: str | None = None,
    line: int | str | None = None,
) -> list[Any]:
    """The values in a graph, or in what was recorded for a tensor, that fit all that is given.

    Args:
        within: a graph, or a tensor or node: then everything that it was computed from and itself.
        op: the op that made the value, by name or record.
        name: the value's own name.
        scope: a scope that it was made in, or one inside that scope: `"model"` finds
            `"model/layer"` too.
        line: the source line it was computed on, as a number or as `"file.py:12"`.

    Returns:
        Tensors or nodes in the order in which they were computed; of a node with several outputs,
        each output.

    Raises:
        ArgumentError: `[not-a-tensor]` for an array or anything else that records nothing.

    Example:
        >>> import anabranch as ab
        >>> f = lambda x: ab.exp(ab.sin(x * x))
        >>> x = ab.tensor(0.0, requires_grad=True)
        >>> y = f(x)
        >>> [h] = ab.find(y, op="sin")
        >>> float(ab.gradients(y, [h])[0])
        1.0
    """
    wanted = op.name if isinstance(op, Op) else op
    return [
        edge
        for edge in _values(within)
        if (wanted is None or edge.node.op.name == wanted)
        and (name is None or edge.node.name == name or getattr(edge, "name", None) == name)
        and (scope is None or f"{edge.node.scope}/".startswith(f"{scope}/"))
        and (line is None or _is_written_on(edge, line))
    ]


def _values(within: Any) -> Iterable[Any]:
    if isinstance(within, Tensor):
        return ancestors([within]).values()
    if isinstance(within, Edge):
        graph = within.node.graph
        if graph is None:
            raise ended(within.node)
        return (edge for node in graph.order([within]) for edge in node.outputs)
    if isinstance(within, Graph):
        return (edge for node in within.nodes for edge in node.outputs)
    kind = type(within).__name__
    raise ArgumentError("not-a-tensor", f"a {kind} is neither a tensor, a node nor a graph")


def _is_written_on(edge: Any, line: int | str) -> bool:
    if isinstance(edge, Tensor) and edge.is_leaf:
        return False  # a leaf knows where it was made, or first used: neither computed it
    return any(line in (source.line, str(source)) for source in edge.node.sources)


@boundary
def tangents(
    zs: Sequence[Any],
    xs: Sequence[Any],
    ts: Sequence[Any],
    *,
    unused: str = "zero",
    record: bool = False,
) -> list[Any]:
    """How values that were built already move when others move: the forward twin of `gradients`.

    Args:
        zs: the tensors or nodes that are asked about.
        xs: the tensors or nodes that move, intermediate ones too; each as a variable of its own.
        ts: a direction for each of `xs`, of its shape.
        unused: as for `grad`: what a z that depends on none of `xs` gets.
        record: for tensors, whether the tangents are recorded, so that they have derivatives.

    Returns:
        One tensor or node for each of `zs`.

    Raises:
        ShapeError: `[shape-mismatch]` for a direction that does not match.
        ArgumentError: `[not-a-tensor]` for what is neither a tensor nor a node.

    Example:
        >>> import anabranch as ab
        >>> x = ab.tensor(3.0, requires_grad=True)
        >>> h = x * x
        >>> z = h * 5.0
        >>> [float(t) for t in ab.tangents([h, z], [x], [1.0])]
        [6.0, 30.0]
    """
    require_policy(unused)
    require_built((*zs, *xs))
    given = matching("tangents", list(ts), xs, flatten(list(xs))[1])
    found = _pushed(zs, xs, given, record)
    results = []
    for position, z in enumerate(zs):
        name = getattr(z, "name", None) or f"zs[{position}]"
        value = filled_in(found.get(key_of(z)), z, name, unused)
        results.append(lifted(value, z) if isinstance(value, ARRAYS) else value)
    return results


def _pushed(zs: Sequence[Any], xs: Sequence[Any], ts: list[Any], record: bool) -> dict[Any, Any]:
    region = ancestors([*zs, *xs])
    within = dependents(region.values(), xs)
    if zs and isinstance(zs[0], Edge):
        moved = {x.node.id for x in xs}
        steps = node_steps(region.values(), within)
        start = {key_of(x): t for x, t in zip(xs, ts, strict=True)}
        return forward([step for step in steps if step.node.id not in moved], start)
    if not record:
        ts = [t.value if isinstance(t, Tensor) else t for t in ts]
    start = {key_of(x): t for x, t in zip(xs, ts, strict=True)}
    return engine.pushed(region.values(), start, within, record)
