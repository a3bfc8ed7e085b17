"""The structure hash: equal for graphs that compute the same thing in the same order.

Names, scopes, source lines and the graph's own name stay out of it; ops, edges, literals, attrs,
constants, avals, parameters and outputs go in. It is the same in every process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from anabranch.core.late import LateModule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anabranch.core import digest as digests
    from anabranch.core.graph import Graph
else:
    digests = LateModule("anabranch.core.digest")


def structure_hash(graph: Graph) -> str:
    """A hexadecimal digest of the graph's structure.

    Example:
        >>> import anabranch as ab
        >>> g, h = ab.trace(lambda x: x * 2, 1.0), ab.trace(lambda y: y * 2, 5.0)
        >>> ab.structure_hash(g) == ab.structure_hash(h)
        True
    """
    return _digest(graph, part_digests(graph))


def part_digests(graph: Graph) -> dict[int, str]:
    """The structure hash of every part by id; a part that is shared is hashed once."""
    known: dict[int, str] = {}
    for part in all_parts(graph):
        known[id(part)] = _digest(part, known)
    return known


def structure_lines(graph: Graph) -> list[str]:
    """The text that the structure hash is a digest of."""
    return list(_lines(graph, part_digests(graph)))


def _digest(graph: Graph, known: dict[int, str]) -> str:
    text = "\n".join(_lines(graph, known))
    return str(digests.digest(text.encode()).hexdigest())


def _lines(graph: Graph, known: dict[int, str]) -> Iterator[str]:
    yield " ".join(str(node.id) for node in graph.parameters)
    shown: dict[tuple[Any, ...], str] = {}  # most nodes have the avals of another one
    for node in graph.nodes:
        inputs = " ".join([edge_key(edge) for edge in node.inputs])
        attrs = attrs_key(node, known) if node.attrs else ""
        avals = shown.get(node.avals)
        if avals is None:
            avals = shown[node.avals] = " ".join(f"{a}{'~' * a.weak}" for a in node.avals)
        yield f"{node.id} {node.op.name} ({inputs}) {{{attrs}}} {avals}"
    yield " ".join(map(edge_key, graph.outputs))


def all_parts(graph: Graph) -> list[Graph]:
    """Every graph that nodes hold as an attr, at any depth, each once, the innermost first."""
    found: dict[int, Graph] = {}
    pending = [(part, False) for part in held_parts(graph)]
    while pending:
        part, is_entered = pending.pop()
        if is_entered:
            found.setdefault(id(part), part)
        elif id(part) not in found:
            pending.append((part, True))
            pending += [(inner, False) for inner in held_parts(part)]
    return list(found.values())


def held_parts(graph: Graph) -> list[Graph]:
    """The graphs that a graph's own nodes hold, each once."""
    held = {
        id(value): value
        for node in graph.nodes
        if node.attrs
        for value in node.attrs.values()
        if is_graph(value)
    }
    return list(held.values())


def edge_key(edge: Any) -> str:
    """An input of a node: number and output of the node it comes from, or a literal's bits."""
    if hasattr(edge, "node"):
        return f"{edge.node.id}.{edge.index}"
    return f"{value_key(edge.value)}{'~' * edge.aval.weak}"


def attrs_key(node: Any, known: dict[int, str] | None = None) -> str:
    """The attrs of a node by name, type and bits; `known` as for `value_key`."""
    return " ".join(f"{key}={value_key(v, known)}" for key, v in sorted(node.attrs.items()))


def value_key(value: Any, known: dict[int, str] | None = None) -> str:
    """A constant value by type and bits, so that 1, 1.0, True, 0.0 and -0.0 all differ.

    `known` holds the structure hashes of graphs by id.
    """
    if isinstance(value, np.ndarray | np.generic):
        array = np.ascontiguousarray(value)
        bits = digests.digest(array.tobytes()).hexdigest()
        return f"{value.dtype.name}{value.shape}:{bits}"
    if isinstance(value, float):
        return f"float:{value.hex()}"
    if isinstance(value, complex):
        return f"complex:{value.real.hex()},{value.imag.hex()}"
    if isinstance(value, tuple | list):
        return f"{type(value).__name__}({','.join(map(value_key, value))})"
    if isinstance(value, slice):
        return f"slice({value.start},{value.stop},{value.step})"
    if is_graph(value):
        return f"graph:{(known or {}).get(id(value)) or structure_hash(value)}"
    return f"{type(value).__name__}:{value!r}"


def is_graph(value: Any) -> bool:
    """Whether an attr is a graph of its own."""
    return hasattr(value, "nodes") and hasattr(value, "parameters")
