"""The reference backend: NumPy, node after node, and the judge of every other backend.

A value is freed after its last reader, so the peak is what is alive at once, not the whole graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from anabranch.backends.base import Call, Capabilities, Wanted
from anabranch.core.bind import state
from anabranch.core.domain import is_watched, outside, tell
from anabranch.core.dtype import BFLOAT16
from anabranch.core.graph import Graph
from anabranch.core.late import LateModule
from anabranch.core.node import Literal, Node
from anabranch.core.values import held_narrow
from anabranch.errors import AnabranchError

if TYPE_CHECKING:
    from anabranch.backends import plan as plans
else:
    plans = LateModule("anabranch.backends.plan")

Observe = Callable[[Node, list[Any], Any], object]


class Instruction(NamedTuple):
    """One node: where its inputs lie, where its outputs go, and what dies after it."""

    ref: Callable[..., Any]
    attrs: dict[str, Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    is_weak: bool
    dies: tuple[int, ...]
    node: Node


def reference(node: Node) -> Callable[..., Any]:
    """What computes this node in NumPy, made ready for the dtypes that meet in it."""
    ref = node.op.ref
    if not any(edge.aval.dtype == BFLOAT16 for edge in node.inputs):
        return ref
    return lambda *xs, **attrs: ref(*held_narrow(xs), **attrs)


def watched(node: Node, ref: Callable[..., Any]) -> Callable[..., Any]:
    """The same, with a word of operands that lie outside of the op's domain."""
    if node.op.outside is None:
        return ref

    def computed(*xs: Any, **attrs: Any) -> Any:
        error = outside(node.op, xs, attrs, node.origin)
        if error is not None:
            error.source = node.source
            tell(error)
        return ref(*xs, **attrs)

    return computed


def blame(error: Exception, node: Node, graph: str) -> None:
    """Let an error of a reference say which node of which graph was running."""
    if isinstance(error, AnabranchError):
        error.source = error.source or node.source
        error.facts = (*error.facts, f'running {node!r} of graph "{graph}"')
    else:
        error.add_note(f'in {node!r} of graph "{graph}", written at {node.source}')


class ReferenceExecutable:
    """The instructions of a graph over numbered places that hold its values.

    Attributes:
        donated: for each parameter whose memory a result takes, that result.
        remark: why it is this one that runs, and how.
    """

    remark = "NumPy computes node after node, each value in an array of its own; no code is made"

    def __init__(self, graph: Graph, donated: Mapping[int, int] | None = None) -> None:
        self.donated = donated or {}
        self._name = graph.name
        self._initial: list[Any] = []  # what each place holds before a run
        self._place_of: dict[tuple[int, int], int] = {}
        logged = [node for node in graph.nodes if node.logs]
        self._parameters = [self._new_place(node) for node in graph.parameters]
        ops = []
        for node in graph.order([*graph.outputs, *logged]):
            if node.kind == "constant":
                self._new_place(node, value=node.attrs["value"])
            elif node.kind == "op":
                ops.append((node, tuple(map(self._input, node.inputs)), self._new_places(node)))
        self._leaf_logs = [
            (label, self._place_of[node.id, 0])
            for node in logged
            if node.kind != "op"
            for label, _ in node.logs
        ]
        self._outputs = [self._input(edge) for edge in graph.outputs]
        self._program = self._instructions(ops)

    def _instructions(self, ops: list[Any]) -> list[Instruction]:
        """The ops in order, each with the places whose value nobody reads after it."""
        stays = {i for i, value in enumerate(self._initial) if value is not None}
        stays.update(self._outputs)
        program = []
        for node, inputs, outputs in reversed(ops):
            dies = tuple(dict.fromkeys(p for p in (*inputs, *outputs) if p not in stays))
            stays.update(dies)
            program.append(
                Instruction(
                    reference(node), node.attrs, inputs, outputs, node.avals[0].weak, dies, node
                )
            )
        return program[::-1]

    def _new_place(self, node: Node, index: int = 0, value: Any = None) -> int:
        place = self._place_of[node.id, index] = len(self._initial)
        self._initial.append(value)
        return place

    def _new_places(self, node: Node) -> tuple[int, ...]:
        if len(node.avals) == 1:
            return (self._new_place(node),)
        return tuple(self._new_place(node, index) for index in range(len(node.avals)))

    def _input(self, edge: Any) -> int:
        if not isinstance(edge, Literal):
            return self._place_of[edge.node.id, edge.index]
        self._initial.append(edge.value)
        return len(self._initial) - 1

    def function(self, call: Call) -> None:
        """None: NumPy is called from Python."""

    def raw(self, captured: Sequence[Any]) -> None:
        """None: there is no machine code."""

    # Looking at it

    def plan(self) -> plans.Plan:
        """No steps of its own: each node is one."""
        return plans.Plan("reference", remark=self.remark)

    def text(self, kind: str) -> None:
        """None: no code is made."""

    def timing(self, arguments: Sequence[Any]) -> None:
        """None: `ab.inspect` looks at node after node."""

    def _chosen_program(self) -> list[Instruction]:
        if not is_watched():
            return self._program
        return [one._replace(ref=watched(one.node, one.ref)) for one in self._program]

    def run(self, arguments: Sequence[Any], observe: Observe | None = None) -> list[Any]:
        """See `Executable.run`; `observe` is called with (node, input values, its result)."""
        if observe is None and state.guard is not None:
            observe = state.guard.after
        env = self._initial.copy()
        for place, value in zip(self._parameters, arguments, strict=True):
            env[place] = value
        for label, place in self._leaf_logs:
            print(f"{label} = {env[place]}")
        # Infinities and NaN are values here; reports look for them, warnings do not help.
        with np.errstate(all="ignore"):
            for ref, attrs, inputs, outputs, is_weak, dies, node in self._chosen_program():
                try:
                    out = ref(*[env[i] for i in inputs], **attrs)
                except Exception as error:
                    blame(error, node, self._name)
                    raise
                if is_weak:
                    out = out.item() if hasattr(out, "item") else out
                if observe is not None:
                    observe(node, [env[i] for i in inputs], out)
                if len(outputs) == 1:
                    env[outputs[0]] = out
                else:
                    for place, one in zip(outputs, out, strict=True):
                        env[place] = one
                for label, index in node.logs:
                    print(f"{label} = {env[outputs[index]]}")
                for place in dies:
                    env[place] = None
        return [env[place] for place in self._outputs]


class ReferenceBackend:
    """Runs every graph; its results are what other backends are compared with."""

    name = "reference"
    capabilities = Capabilities()

    def compile(self, wanted: Wanted) -> ReferenceExecutable:
        return ReferenceExecutable(wanted.optimised, wanted.donated)
