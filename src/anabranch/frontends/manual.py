"""Graphs by hand: `ab.Graph` adds running to what `core.Graph` knows of building."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from anabranch.core import graph as core
from anabranch.core.aval import aval_of
from anabranch.core.bind import NUMBERS, bind
from anabranch.core.check import check
from anabranch.core.entry import boundary
from anabranch.core.late import LateModule
from anabranch.core.node import Edge, Node
from anabranch.core.op import Op
from anabranch.core.values import ARRAYS, as_array, plain, settled
from anabranch.diff.call import CALL
from anabranch.errors import AnabranchError, ArgumentError, DTypeError, GraphError, ShapeError
from anabranch.frontends.donation import given_away
from anabranch.frontends.entries import graph_entry, weakly
from anabranch.frontends.execution import Passes, Program, find_backend
from anabranch.frontends.tensor import Tensor

if TYPE_CHECKING:
    from anabranch import passes
    from anabranch.frontends import explaining
else:
    explaining = LateModule("anabranch.frontends.explaining")
    passes = LateModule("anabranch.passes")


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
    def __init__(self, name: str = "graph", backend: str | None = None) -> None:
        find_backend(backend)
        super().__init__(name, backend)
        self._part: tuple[Any, core.Graph] | None = None  # what `__call__` made for these outputs

    @boundary
    def check(self) -> None:
        """Raise InternalError `[illegal-graph]` if this graph breaks a rule of `core/check.py`."""
        check(self)

    def lift(self, op: Op, arg: Any) -> Any:
        """An operand as an edge or literal; a tensor without history is a constant, as an array."""
        known = type(arg) is Tensor and not arg.is_tracked
        return super().lift(op, arg.value if known else arg)

    @boundary
    def __call__(self, *values: Any) -> Any:
        """This graph's outputs for these values, as one node of the graph that the values are in.

        The same for tensors and arrays, which compute it at once. Growing or re-targeting this
        graph later changes nothing of what was built.

        Raises:
            GraphError: `[no-outputs]` before `set_outputs`.
            ArgumentError, ShapeError: for a wrong number, shape or dtype of values.

        Example:
            >>> import anabranch as ab
            >>> part = ab.Graph("part")
            >>> x = part.parameter("x", (), ab.float64)
            >>> part.set_outputs([x * x])
            >>> g = ab.Graph("whole")
            >>> y = g.parameter("y", (), ab.float64)
            >>> float(g.compile(part(y) + part(y + 1.0))(2.0))
            13.0
        """
        if not self.outputs:
            raise GraphError("no-outputs", f'graph "{self.name}" was given no outputs to compute')
        key = (self.version, self.outputs)
        if self._part is None or self._part[0] != key:
            part = passes.prune(self).graph
            self._part = key, self.duplicate() if part is self else part
        return bind(CALL, *values, graph=self._part[1])

    @boundary
    def compile(
        self,
        *outputs: Any,
        backend: str | None = None,
        passes: Passes = None,
        without: str | Sequence[str] = (),
        donate: str | Node | Iterable[str | Node] = (),
    ) -> CompiledGraph:
        """Make the graph as it stands now executable for these outputs.

        The graph may grow and be compiled again, for other outputs too; what was compiled before
        stays as it is. One output gives its array, several (or a list of them) give a list.

        Args:
            outputs: nodes, or edges of nodes with several outputs.
            backend, passes, without: as of `ab.compile`.
            donate: parameters, or their names, whose arrays the caller gives away: as of
                `ab.compile`, results are written into them.

        Raises:
            GraphError: `[no-outputs]`, `[not-a-node]` or `[foreign-graph]`.
            ArgumentError: `[no-such-argument]` for what `donate` names and the graph does not have;
                in a call, `[bad-donation]` for an array that results cannot be written into.

        Example:
            >>> import anabranch as ab, numpy as np
            >>> g = ab.Graph("step")
            >>> w, d = (g.parameter(name, (2,), ab.float64) for name in "wd")
            >>> step = g.compile(w - 0.5 * d, donate="w")
            >>> weights = np.array([1.0, 2.0])
            >>> step(weights, np.array([2.0, 2.0])) is weights, weights.tolist()
            (True, [0.0, 1.0])
        """
        single = len(outputs) == 1 and isinstance(outputs[0], Edge)
        listed = len(outputs) == 1 and isinstance(outputs[0], Sequence)
        self.set_outputs(outputs[0] if listed else outputs)
        donated = _places(self, (donate,) if isinstance(donate, str | Node) else donate)
        rest = passes, without, donated
        return CompiledGraph(self, single, Program(self, backend or self.backend, *rest))


def _places(graph: core.Graph, wanted: Iterable[str | Node]) -> list[int]:
    """Which of a graph's parameters these are, in their order."""
    chosen = set()
    for one in wanted:
        is_meant = [one is p or (isinstance(one, str) and one == p.name) for p in graph.parameters]
        if not any(is_meant):
            known = ", ".join(str(p.name) for p in graph.parameters)
            raise ArgumentError(
                "no-such-argument",
                f'donate names {one!r}, the parameters of graph "{graph.name}" are: {known}',
            )
        chosen.add(is_meant.index(True))
    return sorted(chosen)


class CompiledGraph:
    """A compiled graph: call it with one value for each parameter, in order or by name."""

    def __init__(self, graph: core.Graph, single: bool, program: Program) -> None:
        self.name = graph.name
        self.program = program
        self.parameters: list[Node] = list(graph.parameters)
        self._single = single
        self._calls = 0

    def __copy__(self) -> CompiledGraph:
        return self  # it never changes, and what it has compiled is not to be copied

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledGraph:
        return self

    def __del__(self) -> None:
        # A type of its own is freed by the collector only; its entry goes now.
        if "__call__" in vars(kind := type(self)) and kind is not CompiledGraph:
            del kind.__call__

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph.

        Raises:
            ArgumentError: `[argument-count]`, or `[bad-argument]` for what is no array.
            ShapeError: `[argument-shape]`, naming the parameter.
            DTypeError: `[argument-dtype]`, naming the parameter.
        """
        values = self._values(args, kwargs)
        self._calls += 1
        if self._calls == 2:  # many graphs are run once
            self._offer_quick_entry()
        arguments = self._checked_all(values)
        if self.program.donated:
            names = [str(p.name) for p in self.parameters]
            arguments = given_away(self.program.donated, values, arguments, names)
        results = self.program.run(arguments)
        if any(isinstance(v, Tensor) for v in values):
            results = [Tensor(out) for out in results]
        return results[0] if self._single else results

    def _offer_quick_entry(self) -> None:
        """Let machine code take the calls it can; Python looks up __call__ in the type."""
        slow = weakly(CompiledGraph.__call__, self)
        entry = graph_entry(self.name, self.program, self._single, slow)
        if entry is not None:
            self.__class__ = type("CompiledGraph", (CompiledGraph,), {"__call__": entry})

    @boundary
    def prepared(self, *args: Any, **kwargs: Any) -> tuple[Program, list[Any]]:
        """The program, and the checked value of each parameter for these arguments."""
        return self.program, self._checked_all(self._values(args, kwargs))

    @boundary
    def raw(self) -> Any:
        """The program as a C function without any checks, as `raw` of a compiled function.

        Raises:
            ArgumentError: `[no-machine-code]`.

        Example:
            >>> import anabranch as ab
            >>> g = ab.Graph("demo")
            >>> x = g.parameter("x", (), ab.float64)
            >>> raw = g.compile(x * x, backend="native").raw()
            >>> (x,), (y,) = raw.arrays()
            >>> run = raw.bind([x], [y])
            >>> x[...] = 3.0
            >>> run()
            >>> float(y)
            9.0
        """
        return self.program.raw()

    @boundary
    def explain(self, *args: Any, time: bool = False, **kwargs: Any) -> explaining.Explanation:
        """What became of the graph: passes, steps, memory; `print` it.

        Args:
            args, kwargs: values to run it with, needed for `time=True` only.
            time: also run it, and measure each step against what a core of this machine can do.
        """
        values = self._checked_all(self._values(args, kwargs)) if time else None
        return explaining.explained(self.name, self.program, values)

    @boundary
    def ir(self) -> str:
        """Its LLVM IR.

        Raises:
            ArgumentError: `[no-machine-code]` on the reference backend.
        """
        return explaining.code_text(self.name, self.program, "ir")

    @boundary
    def asm(self) -> str:
        """Its assembly.

        Raises:
            ArgumentError: `[no-machine-code]` on the reference backend.
        """
        return explaining.code_text(self.name, self.program, "asm")

    def _checked_all(self, values: Sequence[Any]) -> list[Any]:
        return [self._checked(p, v) for p, v in zip(self.parameters, values, strict=True)]

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
