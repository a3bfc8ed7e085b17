"""Graphs by hand: `ab.Graph` adds running to what `core.Graph` knows of building."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core import graph as core
from anabranch.core.aval import Aval, aval_of
from anabranch.core.bind import ARRAYS, NUMBERS, located
from anabranch.core.dtype import WEAK_DTYPES, short_name
from anabranch.core.node import Edge, Node
from anabranch.errors import AnabranchError, ArgumentError, DTypeError, ShapeError, boundary
from anabranch.frontends.execution import Passes, Program
from anabranch.frontends.tensor import Tensor
from anabranch.passes.prune import prune


class Graph(core.Graph):
    """A graph built node by node.

    Example:
        >>> import anabranch as ab
        >>> g = ab.Graph("demo")
        >>> x = g.parameter("x", (), ab.float64)
        >>> y = g.parameter("y", (), ab.float64)
        >>> run = g.compile(x + y)
        >>> float(run(3.0, 4.0))
        7.0
    """

    parameter = boundary(core.Graph.parameter)
    add_node = boundary(core.Graph.add_node)
    set_outputs = boundary(core.Graph.set_outputs)

    @boundary
    def compile(
        self, *outputs: Any, backend: str | None = None, passes: Passes = None
    ) -> CompiledGraph:
        """Make the graph as it stands now executable for these outputs.

        The graph may grow and be compiled again, for other outputs too; what was compiled before
        stays as it is. One output gives its array, several (or a list of them) give a list.

        Raises:
            GraphError: `[no-outputs]`, `[not-a-node]` or `[foreign-graph]`.
        """
        single = len(outputs) == 1 and isinstance(outputs[0], Edge)
        listed = len(outputs) == 1 and isinstance(outputs[0], Sequence)
        self.set_outputs(outputs[0] if listed else outputs)
        return CompiledGraph(self, single, backend or self.backend, passes)


class CompiledGraph:
    """A compiled graph: call it with one value for each parameter, in order or by name."""

    def __init__(self, graph: core.Graph, single: bool, backend: str, passes: Passes) -> None:
        self.name = graph.name
        self.program = Program(graph if passes == () else prune(graph).graph, backend, passes)
        self.parameters: list[Node] = self.program.graph.parameters
        self._single = single

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph.

        Raises:
            ArgumentError: `[argument-count]`, or `[bad-argument]` for what is no array.
            ShapeError: `[argument-shape]`, naming the parameter.
            DTypeError: `[argument-dtype]`, naming the parameter.
        """
        values = self._values(args, kwargs)
        results = self.program.run(
            [self._checked(p, v) for p, v in zip(self.parameters, values, strict=True)]
        )
        if any(isinstance(v, Tensor) for v in values):
            results = [Tensor(out) for out in results]
        return results[0] if self._single else results

    def _values(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        names = [str(p.name) for p in self.parameters]
        rest = names[len(args) :]
        if len(args) > len(names) or set(kwargs) != set(rest):
            given = f"{len(args)} by position" + (f" and {', '.join(kwargs)}" if kwargs else "")
            raise located(
                ArgumentError(
                    "argument-count",
                    f'graph "{self.name}" takes {len(names)} arguments'
                    f" ({', '.join(names)}), got {given}",
                )
            )
        return [*args, *(kwargs[name] for name in rest)]

    def _checked(self, parameter: Node, value: Any) -> Any:
        wanted = parameter.avals[0]
        if isinstance(value, Tensor):
            value = value.value
        if isinstance(value, list | tuple):
            value = np.asarray(value)
            if value.dtype != wanted.dtype and value.dtype.kind in "biuf":
                value = value.astype(wanted.dtype)
        if type(value) in NUMBERS and _fits(type(value), wanted):
            value = wanted.dtype.type(value)
        if not isinstance(value, ARRAYS):
            raise self._wrong(parameter, ArgumentError, "bad-argument", type(value).__name__)
        if value.shape != wanted.shape:
            raise self._wrong(parameter, ShapeError, "argument-shape", str(aval_of(value)))
        if value.dtype != wanted.dtype:
            raise self._wrong(parameter, DTypeError, "argument-dtype", str(aval_of(value)))
        return np.asarray(value, order="C")[()]

    def _wrong(
        self, parameter: Node, cls: type[AnabranchError], code: str, got: str
    ) -> AnabranchError:
        return located(
            cls(
                code,
                f'parameter "{parameter.name}" of graph "{self.name}" is'
                f" {parameter.avals[0]}, got {got}",
                facts=(f'"{parameter.name}" was declared at {parameter.source}',),
                hint=f"value.astype({short_name(parameter.avals[0].dtype)!r})"
                if code == "argument-dtype"
                else None,
                parameter=parameter.name,
            )
        )


def _fits(kind: type, wanted: Aval) -> bool:
    """Whether a Python number of this kind can become the parameter without loss of meaning."""
    order = "biufc"
    return order.index(WEAK_DTYPES[kind].kind) <= max(
        order.index(wanted.dtype.kind.replace("V", "f")), 1
    )
