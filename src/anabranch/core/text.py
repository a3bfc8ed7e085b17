"""The listing of a graph: a header, then one line for each node, then the outputs.

graph "demo": 4 nodes, 1 parameter
#0 parameter "x" : f64[]
#1 square(#0) : f64[]
#2 square(#1) : f64[]
#3 multiply(#2, 3.0) : f64[]
outputs #3

`parse` reads it back. Graphs that stand in attrs follow as blocks of their own, headed @1, @2, ...
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from anabranch.core.identity import is_graph, value_key
from anabranch.core.late import LateModule

if TYPE_CHECKING:
    import hashlib
    import json
    from collections.abc import Iterator

    from anabranch.core.aval import Aval
    from anabranch.core.graph import Graph
    from anabranch.core.node import Node
else:
    hashlib = LateModule("hashlib")
    json = LateModule("json")

_INLINE = 8  # elements of a constant that a line still shows in full


def listing(graph: Graph, *, constants: str = "short") -> str:
    """The whole listing of a graph.

    Args:
        graph: any graph.
        constants: `"short"` writes arrays of more than eight elements as their length and a
            digest; `"full"` writes every element, so that `parse` needs nothing else.

    Example:
        >>> import anabranch as ab
        >>> g = ab.trace(lambda x: ab.square(x) * 3.0, 2.0)
        >>> ab.structure_hash(ab.parse(ab.listing(g))) == ab.structure_hash(g)
        True
    """
    return "\n".join(_Writer(constants == "full").blocks(graph))


def node_line(node: Node) -> str:
    """`#1 "u" = multiply(#0, #0) : f64[]`."""
    return _Writer().line(node)


def edge_text(edge: Any) -> str:
    """`#3`, `#3.1` for a further output, or the literal itself."""
    if not hasattr(edge, "node"):
        return scalar_text(edge.value)
    node = edge.node
    return f"#{node.id}" if len(node.avals) == 1 else f"#{node.id}.{edge.index}"


def attr_text(value: Any) -> str:
    """An attr as it stands in a line; long arrays are shortened."""
    return _Writer().attr(value)


def type_text(aval: Aval) -> str:
    """`f64[2,3]`; `f64[] weak` for a scalar that takes the dtype of what it meets."""
    return f"{aval} weak" if aval.weak else str(aval)


def scalar_text(value: Any) -> str:
    """`2.0` for a Python number, `float32(2.0)` for a scalar with a dtype of its own."""
    if isinstance(value, np.generic):
        return f"{value.dtype.name}({element_text(value)})"
    return repr(value)


def element_text(value: Any) -> str:
    """The shortest digits that give the same bits again, or the bits, as some NaNs need."""
    text = str(value)
    is_plain = value.dtype.kind != "c" and value == value  # noqa: PLR0124  # no NaN
    if is_plain or value.tobytes() == read_element(text, value.dtype).tobytes():
        return text
    return f"0x{value.tobytes().hex()}"


def read_element(text: str, dtype: np.dtype[Any]) -> Any:
    """The scalar of this dtype that `element_text` wrote.

    Raises:
        ValueError: for what is no such scalar.
    """
    if text.startswith("0x"):
        return np.frombuffer(bytes.fromhex(text[2:]), dtype, 1)[0]
    if dtype.kind == "b":
        return dtype.type(("False", "True").index(text))
    kind: Any = int if dtype.kind in "iu" else complex if dtype.kind == "c" else float
    return dtype.type(kind(text))


def array_text(array: np.ndarray[Any, Any]) -> str:
    """Every element, in nested lists."""
    if not array.ndim:
        return element_text(array[()])
    return f"[{', '.join(map(array_text, array)) if array.ndim > 1 else _row(array)}]"


def digest_text(array: np.ndarray[Any, Any]) -> str:
    """`<9 values 1f6c3b2d5a70>`: an array by its length and its content, dtype and shape."""
    digest = hashlib.sha256(value_key(array).encode()).hexdigest()
    return f"<{array.size} values {digest[:12]}>"


def _row(array: np.ndarray[Any, Any]) -> str:
    return ", ".join(map(element_text, array))


class _Writer:
    """Writes nodes and remembers the graphs that it met in attrs."""

    def __init__(self, full: bool = False) -> None:
        self.full = full
        self.graphs: list[Graph] = []

    def blocks(self, graph: Graph) -> Iterator[str]:
        self.graphs.append(graph)
        for number, one in enumerate(self.graphs):  # the list grows while it is written
            lines = [
                f"graph {_quoted(one.name)}: {_count(len(one.nodes), 'node')}, "
                f"{_count(len(one.parameters), 'parameter')}"
            ]
            if number:
                lines[0] = f"\n@{number} {lines[0]}"
            lines += map(self.line, one.nodes)
            if one.outputs:
                lines.append("outputs " + ", ".join(map(edge_text, one.outputs)))
            yield "\n".join(lines)

    def line(self, node: Node) -> str:
        if node.kind == "parameter":
            return f"#{node.id} parameter {_quoted(node.name)} : {type_text(node.avals[0])}"
        arguments = [edge_text(edge) for edge in node.inputs]
        arguments += [
            f"{key}={self.array(value) if node.kind == 'constant' else self.attr(value)}"
            for key, value in sorted(node.attrs.items())
        ]
        name = f"{_quoted(node.name)} = " if node.name else ""
        types = ", ".join(map(_plain_type, node.avals))
        return f"#{node.id} {name}{node.op.name}({', '.join(arguments)}) : {types}"

    def attr(self, value: Any) -> str:
        if isinstance(value, str):
            return _quoted(value)
        if isinstance(value, np.ndarray):
            lengths = ",".join(map(str, value.shape))
            return f"{value.dtype.name}[{lengths}] {self.array(value)}"
        if isinstance(value, np.generic):
            return scalar_text(value)
        if isinstance(value, np.dtype):
            return value.name
        if isinstance(value, list):
            return f"[{', '.join(map(self.attr, value))}]"
        if isinstance(value, tuple):
            return f"({', '.join(map(self.attr, value))}{',' * (len(value) == 1)})"
        if is_graph(value):
            return f"@{self.number(value)}"
        return repr(value)

    def array(self, value: np.ndarray[Any, Any]) -> str:
        return array_text(value) if self.full or value.size <= _INLINE else digest_text(value)

    def number(self, graph: Graph) -> int:
        for number, one in enumerate(self.graphs):
            if one is graph:
                return number
        self.graphs.append(graph)
        return len(self.graphs) - 1


_plain_type = functools.lru_cache(maxsize=1024)(str)  # of an aval: few types, many nodes


def _quoted(text: str | None) -> str:
    return json.dumps(text, ensure_ascii=False)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
