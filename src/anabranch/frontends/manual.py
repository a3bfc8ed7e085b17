"""Graphs by hand: `ab.Graph` adds running to what `core.Graph` knows of building."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core import graph as core
from anabranch.core.aval import aval_of
from anabranch.core.bind import NUMBERS
from anabranch.core.entry import boundary
from anabranch.core.node import Edge, Node
from anabranch.core.values import ARRAYS, as_array, plain, settled
from anabranch.errors import AnabranchError, ArgumentError, DTypeError, ShapeError
from anabranch.frontends.execution import Passes, Program, find_backend
from anabranch.frontends.tensor import Tensor


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

    @boundary
    def __init__(self, name: str = "graph", backend: str = "reference") -> None:
        find_backend(backend)
        super().__init__(name, backend)

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
        self.program = Program(graph, backend, passes)
        self.parameters: list[Node] = list(graph.parameters)
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
            raise ArgumentError(
                "argument-count",
                f'graph "{self.name}" takes {len(names)} arguments'
                f" ({', '.join(names)}), got {given}",
            )
        return [*args, *(kwargs[name] for name in rest)]

    def _checked(self, parameter: Node, value: Any) -> Any:
        wanted = parameter.avals[0]
        if isinstance(value, Tensor):
            value = value.value
        if not isinstance(value, ARRAYS):
            value = self._converted(parameter, value)
        if value.shape != wanted.shape:
            raise self._wrong(parameter, ShapeError, "argument-shape", str(aval_of(value)))
        if value.dtype != wanted.dtype:
            raise self._wrong(parameter, DTypeError, "argument-dtype", str(aval_of(value)))
        return settled(plain(value))

    def _converted(self, parameter: Node, value: Any) -> Any:
        """A number or list in the parameter's dtype, if nothing is lost: no 1.5 becomes 1."""
        if type(value) not in NUMBERS and not isinstance(value, list | tuple):
            raise self._wrong(parameter, ArgumentError, "bad-argument", type(value).__name__)
        wanted = parameter.avals[0].dtype
        try:
            given = as_array(value)
        except AnabranchError as error:
            raise self._wrong(parameter, ArgumentError, "bad-argument", error.sentence) from None
        kinds = "biufc"
        narrows = kinds.index(given.dtype.kind) > kinds.index(wanted.kind.replace("V", "f"))
        if narrows or (wanted.kind in "iu" and not np.array_equal(given.astype(wanted), given)):
            raise self._wrong(parameter, DTypeError, "argument-dtype", f"{value!r}")
        return given.astype(wanted)

    def _wrong(
        self, parameter: Node, cls: type[AnabranchError], code: str, got: str
    ) -> AnabranchError:
        return cls(
            code,
            f'parameter "{parameter.name}" of graph "{self.name}" is'
            f" {parameter.avals[0]}, got {got}",
            facts=(f'"{parameter.name}" was declared at {parameter.source}',),
            hint=f'value.astype("{parameter.avals[0].dtype.name}")'
            if code == "argument-dtype"
            else None,
            parameter=parameter.name,
        )
