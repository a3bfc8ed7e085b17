"""The structure hash: equal for graphs that compute the same thing in the same order.

Names, scopes, source lines and the graph's own name stay out of it; ops, edges, literals, attrs,
constants, avals, parameters and outputs go in. It is the same in every process.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anabranch.core.graph import Graph


def structure_hash(graph: Graph) -> str:
    """A hexadecimal digest of the graph's structure.

    Example:
        >>> import anabranch as ab
        >>> g, h = ab.trace(lambda x: x * 2, 1.0), ab.trace(lambda y: y * 2, 5.0)
        >>> ab.structure_hash(g) == ab.structure_hash(h)
        True
    """
    digest = hashlib.sha256()
    for part in _parts(graph):
        digest.update(part.encode())
        digest.update(b"\n")
    return digest.hexdigest()


def _parts(graph: Graph) -> Iterator[str]:
    yield " ".join(str(node.id) for node in graph.parameters)
    for node in graph.nodes:
        inputs = " ".join(map(edge_key, node.inputs))
        attrs = " ".join(f"{k}={value_key(v)}" for k, v in sorted(node.attrs.items()))
        avals = " ".join(f"{a}{'~' * a.weak}" for a in node.avals)
        yield f"{node.id} {node.op.name} ({inputs}) {{{attrs}}} {avals}"
    yield " ".join(map(edge_key, graph.outputs))


def edge_key(edge: Any) -> str:
    """An input of a node: number and output of the node it comes from, or a literal's bits."""
    if hasattr(edge, "node"):
        return f"{edge.node.id}.{edge.index}"
    return f"{value_key(edge.value)}{'~' * edge.aval.weak}"


def value_key(value: Any) -> str:
    """A constant value by type and bits, so that 1, 1.0, True, 0.0 and -0.0 all differ."""
    if isinstance(value, np.ndarray | np.generic):
        array = np.ascontiguousarray(value)
        digest = hashlib.sha256(array.tobytes()).hexdigest()
        return f"{value.dtype.name}{value.shape}:{digest}"
    if isinstance(value, float):
        return f"float:{value.hex()}"
    if isinstance(value, complex):
        return f"complex:{value.real.hex()},{value.imag.hex()}"
    if isinstance(value, tuple | list):
        return f"{type(value).__name__}({','.join(map(value_key, value))})"
    if isinstance(value, slice):
        return f"slice({value.start},{value.stop},{value.step})"
    if is_graph(value):
        return f"graph:{structure_hash(value)}"
    return f"{type(value).__name__}:{value!r}"


def is_graph(value: Any) -> bool:
    """Whether an attr is a graph of its own."""
    return hasattr(value, "nodes") and hasattr(value, "parameters")
