"""Nodes, and the edges and literals they take as inputs.

A node stores relations, never values. Ids rise in creation order, so id order is topological and
no walk recurses. The links back (`node.graph`, consumers) hold no ownership.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, NoReturn

from anabranch.core.aval import Aval, aval_of
from anabranch.core.bind import located
from anabranch.core.entry import leaving
from anabranch.core.leaves import CONSTANT, PARAMETER
from anabranch.core.op import Op
from anabranch.core.operators import Operators
from anabranch.core.source import RawSource, Source, resolve
from anabranch.errors import AnabranchError, GraphError, NoValueError, TraceError

if TYPE_CHECKING:
    from anabranch.core.graph import Graph


class Literal:
    """A scalar operand shown inline: value, dtype and weak flag; it has no id and no gradient."""

    __slots__ = ("aval", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.aval = aval_of(value)

    def __repr__(self) -> str:
        return repr(self.value) if self.aval.weak else f"{self.aval.dtype.name}({self.value!s})"


class Edge(Operators):
    """An output of a node, as an operand: a `Node` (its output 0) or an `Output`."""

    __slots__ = ()
    node: Node
    index: int

    @property
    def aval(self) -> Aval:
        return self.node.avals[self.index]

    def log(self, label: str) -> Any:
        """Print this value under `label` at every run of graphs compiled from now on."""
        self.node._log((label, self.index))
        return self

    def __bool__(self) -> NoReturn:
        raise self._has_no_value(
            "traced-bool",
            "a graph value has no truth value while the graph is built: `if`, `while`, `and` and"
            " `not` need one",
            self._made_static or "ab.where(condition, a, b) selects inside the graph",
        )

    def __float__(self) -> NoReturn:
        raise self._has_no_value(
            "traced-value",
            "float() needs a number, but this is a graph value",
            self._made_static,
        )

    def __int__(self) -> NoReturn:
        raise self._has_no_value(
            "traced-value", "int() needs a number, but this is a graph value", self._made_static
        )

    def __index__(self) -> NoReturn:
        raise self._has_no_value(
            "traced-value",
            "an index or a length must be known while the graph is built",
            self._made_static,
        )

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise self._has_no_value(
            "traced-value",
            "NumPy needs an array, but this is a graph value",
            "use the function of the same name in ab",
        )

    def __getattr__(self, name: str) -> NoReturn:
        if name in ("data", "grad", "backward", "item", "numpy"):
            raise self._has_no_value(
                "not-executed",
                f"a node stores relations, no value: .{name} exists only on eager tensors",
                "run the compiled graph, or use ab.grad",
                NoValueError,
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def _made_static(self) -> str | None:
        """A hint for Python's numbers among the arguments of a traced function."""
        name, is_number = str(self.node.name), self.aval.weak and self.node.kind == "parameter"
        root = name.partition(".")[0].partition("[")[0]
        return f'ab.compile(f, static="{root}") makes it part of the program' if is_number else None

    def _has_no_value(
        self, code: str, text: str, hint: str | None = None, cls: type[TraceError] = TraceError
    ) -> AnabranchError:
        return located(cls(code, text, hint=hint), (self,))


class Output(Edge):
    """Output `index` of a node that has several."""

    __slots__ = ("index", "node")

    def __init__(self, node: Node, index: int) -> None:
        self.node = node
        self.index = index

    @property
    def described(self) -> tuple[str | None, str]:
        return None, f"output {self.index} of {self.node!r}"

    def __repr__(self) -> str:
        return f"{self.node.ref}.{self.index}"


class _Fields(Edge):
    """The fields of a node, still writable."""

    __slots__ = (
        "__weakref__",
        "_graph",
        "also",
        "attrs",
        "avals",
        "id",
        "inputs",
        "logs",
        "name",
        "op",
        "origin",
        "raw_source",
        "scope",
    )
    index = 0


class _Draft(_Fields):
    __slots__ = ()


class Node(_Fields):
    """One application of an op: op, ordered inputs, attrs and the aval of each output.

    `inputs` holds edges and literals; the same edge may stand in it more than once. Nodes are made
    by graphs and by eager ops, never directly, and their structure does not change. As an operand
    a node stands for its output 0.
    """

    __slots__ = ()
    op: Op
    inputs: tuple[Any, ...]
    attrs: dict[str, Any]
    avals: tuple[Aval, ...]
    id: int
    name: str | None
    scope: str
    raw_source: RawSource | None
    origin: tuple[Node, int] | None
    logs: tuple[tuple[str, int], ...]
    also: tuple[RawSource, ...]
    _graph: weakref.ref[Graph] | None

    def __init__(self, *_: Any, **__: Any) -> None:
        raise leaving(
            GraphError(
                "direct-node",
                "nodes are made by ops and by Graph methods, so that their graph knows them",
                hint="x + y, g.parameter(...) or g.add_node(op, inputs)",
            )
        )

    def __setattr__(self, field: str, value: Any) -> None:
        if field != "name":
            raise leaving(GraphError("immutable-node", f"the {field} of a node cannot be changed"))
        object.__setattr__(self, field, value)
        if self.op is PARAMETER and (graph := self.graph) is not None:
            graph._names = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        return self

    @property
    def aval(self) -> Aval:
        return self.avals[0]

    @property
    def graph(self) -> Graph | None:
        """The owning graph; None for eager nodes and after the graph is gone."""
        return None if self._graph is None else self._graph()

    @property
    def source(self) -> Source | None:
        """Where the user wrote it; for a gradient node, where the differentiated node was."""
        return resolve(self.raw_source)

    @property
    def sources(self) -> tuple[Source, ...]:
        """`source` and, for a node that stands for several merged ones, the lines of the others."""
        return tuple(Source(raw) for raw in (self.raw_source, *self.also) if raw is not None)

    @property
    def kind(self) -> str:
        """`"parameter"`, `"constant"` or `"op"`."""
        return self.op.name if self.op in (PARAMETER, CONSTANT) else "op"

    @property
    def outputs(self) -> tuple[Edge, ...]:
        """The edges that leave this node, one for each output."""
        return (
            (self,)
            if len(self.avals) == 1
            else tuple(Output(self, i) for i in range(len(self.avals)))
        )

    @property
    def consumers(self) -> tuple[tuple[Node, int], ...]:
        """(node, input slot) of every use in the owning graph, in order."""
        graph = self.graph
        return () if graph is None else graph.consumers(self)

    @property
    def ref(self) -> str:
        """`#3`, how listings name it."""
        return f"#{self.id}"

    @property
    def described(self) -> tuple[str | None, str]:
        made = "" if self.source is None else f", written at {self.source}"
        graph = self.graph
        owner = "" if graph is None else f' of graph "{graph.name}"'
        return self.name or self.ref, f"{self.op.name}{owner}{made}"

    def named(self, name: str) -> Node:
        """This node, under a name that listings and errors show."""
        self.name = name
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # A node goes where its graph goes: the copy is the node of that number in the copied graph.
        graph = self.graph
        if graph is None:
            raise leaving(
                TraceError("ended-trace", f"{self!r} belongs to no graph that could be copied")
            )
        return _node_of, (graph, self.id)

    def _log(self, entry: tuple[str, int]) -> None:
        object.__setattr__(self, "logs", (*self.logs, entry))

    def __repr__(self) -> str:
        label = f" {self.name!r}" if self.name else ""
        return f"<{self.ref} {self.op.name}{label}: {', '.join(map(str, self.avals))}>"


def _node_of(graph: Graph, number: int) -> Node:
    return graph.nodes[number]


def make_node(
    op: Op,
    inputs: tuple[Any, ...],
    attrs: dict[str, Any],
    avals: tuple[Aval, ...],
    number: int,
    raw_source: RawSource | None,
    graph: weakref.ref[Graph] | None = None,
    name: str | None = None,
    scope: str = "",
    origin: tuple[Node, int] | None = None,
    logs: tuple[tuple[str, int], ...] = (),
    also: tuple[RawSource, ...] = (),
) -> Node:
    """A new node; only graphs and the eager front end call this."""
    node: Any = _Draft()
    node.op = op
    node.inputs = inputs
    node.attrs = attrs
    node.avals = avals
    node.id = number
    node.raw_source = raw_source
    node._graph = graph
    node.name = name
    node.scope = scope
    node.origin = origin
    node.logs = logs
    node.also = also
    node.__class__ = Node  # from here on it refuses changes
    return node  # type: ignore[no-any-return]
