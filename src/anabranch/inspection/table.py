"""The nodes or edges of a trace as rows: filtered, sorted, and with chosen columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from anabranch.errors import ArgumentError
from anabranch.inspection.parts import Edge, Node, Summary
from anabranch.inspection.printed import Printed
from anabranch.inspection.query import query, scope_path, shape_text, size
from anabranch.inspection.trace import Trace


@dataclass
class Share:
    """A contribution: how much arrived, and the node that sent it."""

    through: str
    amount: Summary


@dataclass
class NodeRow:
    """What a table says about one node; `cells` gives it by column."""

    id: int
    name: str
    op: str
    type: str
    formula: str | None
    shape: str
    dtype: str
    scope: str
    gradient: str  # see `gradient_state`
    value: Summary | None = None
    grad: Summary | None = None
    contributions: list[Share] = field(default_factory=list)
    line: str | None = None
    bytes: int | None = None
    seconds: float | None = None
    is_root: bool | None = None
    out: int | None = None


@dataclass
class EdgeRow:
    """What a table says about one edge."""

    from_: str
    to: str
    slot: int
    local: Any = None
    rule: str | None = None
    gain: float | None = None
    summed: list[int] | None = None
    upstream: Summary | None = None
    contribution: Summary | None = None


@dataclass
class Table(Printed):
    """Rows about the nodes or edges of a trace.

    Attributes:
        title: of the trace.
        of: `"nodes"` or `"edges"`.
        nodes, edges: how many there are in all.
        matching: how many of them the query left.
        columns: the shown columns.
        rows: the shown rows, `NodeRow`s or `EdgeRow`s.
    """

    view: ClassVar[str] = "table"
    title: str
    of: str
    nodes: int
    edges: int
    matching: int
    columns: list[str]
    rows: list[Any]


# Column: what it is sorted by; a number sorts with the largest first, a word by the alphabet.
_SORTS: dict[str, Callable[[NodeRow], Any]] = {
    "#": lambda row: -row.id,
    "name": lambda row: row.name,
    "op": lambda row: row.op,
    "shape": lambda row: math.prod(int(n) for n in row.shape.split("x") if n.isdecimal()),
    "dtype": lambda row: row.dtype,
    "value": lambda row: _weight(row.value),
    "gradient": lambda row: _weight(row.grad),
    "contributions": lambda row: len(row.contributions),
    "scope": lambda row: row.scope,
    "line": lambda row: row.line or "",
    "bytes": lambda row: row.bytes or 0,
    "seconds": lambda row: row.seconds or 0.0,
}
COLUMNS = tuple(_SORTS)
EDGE_COLUMNS = ("edge", "local", "upstream", "contribution")


def table(
    trace: Trace,
    *,
    edges: bool = False,
    where: str = "",
    sort: str | None = None,
    rows: int | None = None,
    columns: Sequence[str] | None = None,
) -> Table:
    """The table of a trace.

    Args:
        trace: what to list.
        edges: whether to list edges; one is listed when its reader matches `where`.
        where: a query, see `query`.
        sort: a column; numbers have the largest first.
        rows: at most so many rows.
        columns: which columns, of nodes only.

    Raises:
        ArgumentError: `[bad-query]`, or `[unknown-column]`.
    """
    test = query(where)
    found = [node for node in trace.nodes if test(trace, node)]
    counts = (len(trace.nodes), len(trace.edges))
    if edges:
        if sort is not None or columns is not None:
            raise ArgumentError("bad-argument", "edges come in their own order and columns")
        listed = [edge for node in found for edge in trace.inputs(node.id)]
        shown = [edge_row(trace, edge) for edge in listed[:rows]]
        return Table(trace.title, "edges", *counts, len(listed), list(EDGE_COLUMNS), shown)
    made = [row for node in found for row in node_rows(trace, node)]
    if sort is not None:
        key = _SORTS[known_column(sort)]
        is_number = bool(made) and not isinstance(key(made[0]), str)
        made.sort(key=lambda row: -key(row) if is_number else key(row))
    chosen = [known_column(one) for one in columns] if columns else _usual(trace)
    return Table(trace.title, "nodes", *counts, len(made), chosen, made[:rows])


def known_column(name: str) -> str:
    """A column by its name, or by what the search language calls it.

    Raises:
        ArgumentError: `[unknown-column]`.
    """
    column = {"grad": "gradient", "id": "#", "order": "#"}.get(name, name)
    if column not in _SORTS:
        raise ArgumentError(
            "unknown-column", f"no column is called {name!r}; there are {', '.join(COLUMNS)}"
        )
    return column


def _usual(trace: Trace) -> list[str]:
    """The columns that say something about this trace."""
    has = {
        "shape": any(node.shape for node in trace.nodes),
        "value": trace.detail != "shape",
        "gradient": trace.detail != "shape",
        "contributions": any(edge.contribution is not None for edge in trace.edges),
        "scope": len(trace.scopes) > 1,
        "line": len({tuple(node.at) for node in trace.nodes if node.at is not None}) > 1,
    }
    hidden = {"dtype", "bytes", "seconds"}
    return [one for one in COLUMNS if has.get(one, one not in hidden)]


def node_rows(trace: Trace, node: Node) -> list[NodeRow]:
    """A node as a row; one with several outputs as a row for each."""
    return [_node_row(trace, node, out) for out in range(len(node.ports))]


def _node_row(trace: Trace, node: Node, out: int) -> NodeRow:
    where, port = trace.line(node), node.ports[out]
    arrived = [
        Share(trace.label(edge.to), edge.contribution)
        for edge in trace.arrivals(node.id, out)
        if edge.contribution is not None
    ]
    name = f"{node.label}.{out}" if node.outputs else node.label
    return NodeRow(
        node.id, name, node.op, f"{port.dtype} {tuple(port.shape)}" if port.shape else port.dtype,
        trace.written(node) or None, shape_text(port), port.dtype, scope_path(trace, node),
        gradient_state(trace, node, out), port.value, port.grad, arrived,
        None if where is None else f"{where[0]}:{where[1]}",
        None if out else node.bytes, None if out else node.seconds,
        True if node.id == trace.root and out == 0 else None, out if node.outputs else None,
    )  # fmt: skip


def gradient_state(trace: Trace, node: Node, out: int = 0) -> str:
    """`"arrived"`; `"waiting"` before a backward pass; after one `"none"` where nothing arrived,
    `"unwanted"` where nobody asked for a gradient."""
    if node.ports[out].grad is not None:
        return "arrived"
    if not trace.order.backward:
        return "waiting"
    return "none" if node.requires_grad or node.op in ("input", "parameter") else "unwanted"


def edge_row(trace: Trace, edge: Edge) -> EdgeRow:
    """One edge as a row."""
    local = edge.local
    number = None
    if local is not None:
        number = local.v if local.value is None else local.value
    return EdgeRow(
        trace.label(edge.from_, edge.out or 0), trace.label(edge.to), edge.slot, number,
        *((local.text, local.gain, local.summed) if local is not None else (None, None, None)),
        trace.upstream(edge) if edge.contribution is not None else None, edge.contribution,
    )  # fmt: skip


def _weight(found: Summary | None) -> float:
    """Bad values first, then by size, what is not there last."""
    if found is None:
        return -1.0
    weight = size(found)
    flat = found.flat()
    bad = found.nan or found.inf or (flat and any(not math.isfinite(float(v)) for v in flat))
    return math.inf if bad or math.isnan(weight) else weight
