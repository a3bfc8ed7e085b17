"""A whole graph as machine code to be: its loops and islands in order, over planned memory."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from anabranch.backends.native import memory
from anabranch.backends.native.emit import NotNativeError
from anabranch.backends.native.kernels import kernel_code
from anabranch.backends.native.kernels.code import KernelCode
from anabranch.backends.native.loops import LoopCode
from anabranch.backends.native.products import ProductCode
from anabranch.backends.native.schedule import (
    Island,
    Key,
    Loop,
    Place,
    Product,
    Schedule,
    Step,
    Structured,
    reads,
)
from anabranch.backends.native.view import View
from anabranch.core.aval import Aval
from anabranch.core.graph import Graph
from anabranch.core.node import Literal, Node
from anabranch.core.op import Op
from anabranch.ops.elementwise import identity

# What one module has at most. LLVM takes a multiple of a module's length in memory, and more than
# a multiple of a function's length in time.
MOST_STEPS = 256
MOST_LINES = 20_000
CLOCK = getattr(time, "CLOCK_MONOTONIC", 0)  # the number of the system's clock for durations


@dataclass(frozen=True)
class Copy:
    """Stands where a node would, for an output that is a copy of something."""

    id: int
    avals: tuple[Aval, ...]
    op: Op = identity
    inputs: tuple[Any, ...] = ()


class Program:
    """The IR of a graph, and what its entry must be given.

    The entry takes three pointers: to the addresses of parameters, constants and outputs, in this
    order; to the workspace; and what islands call. It returns 0, or 1 when an island failed.

    A timed one takes two pointers more: to a clock, called with a number and where to put the time,
    and to the times, which it notes twice at the start and then after each step.

    A long program is cut into modules, each with a part of the steps and a function that runs them;
    the last one calls these.

    Attributes:
        modules: the text of each module.
        rooms: for each value in the workspace, where it lies and for how long.
        islands: the nodes that run in the reference.
        called: those and the nodes that may be left to it, by the number they are called with.
        constants: the nodes whose arrays are handed over.
        outputs: for each graph output the key that fills it; None for a number.
        workspace: bytes of the workspace.
    """

    def __init__(self, graph: Graph, vector_bytes: int, is_timed: bool = False) -> None:
        self.graph = graph
        self._is_timed = is_timed
        self.schedule = schedule = Schedule(graph)
        self.islands: list[Island] = []
        self.called: list[Node] = []
        self.constants = constants_of(graph)
        self._given: dict[Key, int] = {}  # what the caller owns: its place among the addresses
        for node in (*graph.parameters, *self.constants):
            self._given[node.id, 0] = len(self._given)
        self.first_output = len(self._given)
        self.steps = schedule.steps
        self._claim_outputs()
        self.rooms, self.workspace = self._planned()
        self._declared: set[str] = set()
        self.loops: list[LoopCode] = []
        self._vector_bytes = vector_bytes
        self._pointers = itertools.count()
        self._texts: list[str] = []
        self._scratch = 0  # behind the planned values, for one step at a time
        self.modules = self._written()
        self.workspace += self._scratch

    @property
    def ir(self) -> str:
        """All modules, one after the other."""
        return "\n".join(self.modules)

    # Memory

    def _claim_outputs(self) -> None:
        """Values that are computed for an output go straight there; the others are copied."""
        for number, edge in enumerate(self.graph.outputs):
            if isinstance(edge, Literal):
                continue
            place = self.schedule.places[edge.node.id, edge.index]
            is_free = place.base not in self._given and place.view.is_whole
            if is_free and self.schedule.stored[place.base].size == edge.aval.size:
                self._given[place.base] = self.first_output + number
            else:
                self._copy(number, edge.aval, place)

    def _copy(self, number: int, aval: Aval, place: Place) -> None:
        """An output that is not computed in memory of its own: a loop that only moves."""
        copy = Copy(-1 - number, (aval,))
        self.schedule.moved[copy.id] = place
        self.schedule.stored[copy.id, 0] = aval
        self.schedule.places[copy.id, 0] = Place((copy.id, 0), View.whole(aval.shape))
        self._given[copy.id, 0] = self.first_output + number
        loop = Loop(aval.shape, self.steps[-1].stage + 1 if self.steps else 0, [copy])
        self.schedule.home[copy.id] = loop
        self.steps.append(loop)

    def _uses(self, step: Step) -> Iterator[Key]:
        """The keys whose memory a step touches."""
        schedule = self.schedule
        nodes = step.nodes if isinstance(step, Loop) else [step.node]
        edges = reads(step) if isinstance(step, Loop) else iter(step.node.inputs)
        for edge in edges:
            if not isinstance(edge, Literal):
                place = schedule.places.get((edge.node.id, edge.index))
                if place is not None:
                    yield place.base
        for node in nodes:
            if node.id in schedule.moved:
                yield schedule.moved[node.id].base
            for index in range(len(node.avals)):
                if (node.id, index) in schedule.stored:
                    yield schedule.places[node.id, index].base

    def _planned(self) -> tuple[dict[Key, memory.Room], int]:
        """Where in the workspace each value lies that the caller does not own."""
        stored = self.schedule.stored
        return memory.planned(
            [
                [
                    (key, stored[key].size * stored[key].dtype.itemsize)
                    for key in self._uses(step)
                    if key not in self._given
                ]
                for step in self.steps
            ]
        )

    # Code

    def _written(self) -> list[str]:
        """The modules, in the order in which their steps run."""
        modules: list[str] = []
        body: list[str] = []
        steps = lines = 0
        most = 1 if self._is_timed else MOST_STEPS
        for step in self.steps:
            if steps == most or lines > MOST_LINES:
                modules.append(self._module(f"part{len(modules)}", body))
                body, steps, lines = [], 0, 0
            body += self._step(step)
            steps += 1
            lines += self._texts[-1].count("\n") if self._texts else 0
        if not modules and not self._is_timed:
            return [self._module("entry", body)]
        if steps:
            modules.append(self._module(f"part{len(modules)}", body))
        return [*modules, _calls(len(modules), self._is_timed)]

    def _step(self, step: Step) -> list[str]:
        if isinstance(step, Loop):
            return self._loop(step)
        if isinstance(step, Product):
            return self._product(step)
        return self._structured(step) if isinstance(step, Structured) else self._island(step)

    def _module(self, name: str, body: list[str]) -> str:
        """What was written since the last module, with a function of this name for the body."""
        entry = [
            f"define i32 @{name}({_TAKEN}) {{",
            "entry:",
            *body,
            "  ret i32 0",
            "failed:",
            "  ret i32 1",
            "}",
        ]
        text = "\n".join([*sorted(self._declared), *self._texts, *entry, ""])
        self._declared, self._texts = set(), []
        return text

    def _pointer(self, key: Key) -> tuple[str, list[str]]:
        """A name for the address of a value's memory, and the lines that make it."""
        name = f"%a{next(self._pointers)}"
        part = self.schedule.parts.get(key)
        if part is not None:
            base, lines = self._pointer(part.base)
            offset = part.view.offset * self.schedule.stored[key].dtype.itemsize
            return name, [*lines, f"  {name} = getelementptr i8, ptr {base}, i64 {offset}"]
        if key in self._given:
            return name, [
                f"  {name}.s = getelementptr ptr, ptr %given, i64 {self._given[key]}",
                f"  {name} = load ptr, ptr {name}.s",
            ]
        return name, [
            f"  {name} = getelementptr i8, ptr %workspace, i64 {self.rooms[key].offset}",
        ]

    def _loop(self, loop: Loop) -> list[str]:
        name = f"loop{len(self.loops)}"
        code = LoopCode(name, loop, self.schedule, self._vector_bytes, self._declared)
        self.loops.append(code)
        self._texts.append(code.text)
        return self._called(name, [self._pointer(key) for key in code.pointers])

    def _product(self, product: Product) -> list[str]:
        name = f"product{product.node.id}"
        args = (name, product, self.schedule, self._vector_bytes, self._declared)
        code = ProductCode(*args)
        self._texts.append(code.text)
        self._scratch = max(self._scratch, code.scratch)
        return self._called(name, self._given_to(code))

    def _structured(self, step: Structured) -> list[str]:
        """A kernel, and a call back for what it leaves to the reference."""
        node, number = step.node, len(self.called)
        args = (self.schedule, self._vector_bytes, self._declared)
        try:
            code = kernel_code(f"kernel{node.id}", node, *args)
        except NotNativeError as reason:
            return self._island(Island(node, step.stage, str(reason)))
        self._texts.append(code.text)
        self._scratch = max(self._scratch, code.scratch)
        given = self._given_to(code)
        arguments = "".join(f"ptr {pointer}, " for pointer, _ in given)
        return [
            *(line for _, made in given for line in made),
            f"  %s{number} = call i32 @{code.name}({arguments}i64 0, i64 {code.rows})",
            f"  %d{number} = icmp eq i32 %s{number}, 0",
            f"  br i1 %d{number}, label %after{number}, label %left{number}",
            f"left{number}:",
            *self._called_back(node),
        ]

    def _given_to(self, code: ProductCode | KernelCode) -> list[tuple[str, list[str]]]:
        """The addresses of what a step touches, the last one that of its scratch memory."""
        scratch = f"%scratch.{code.name}"
        made = [f"  {scratch} = getelementptr i8, ptr %workspace, i64 {self.workspace}"]
        return [*map(self._pointer, code.pointers), (scratch, made)]

    def _called(self, name: str, pointers: Sequence[tuple[str, list[str]]]) -> list[str]:
        lines = [line for _, made in pointers for line in made]
        arguments = ", ".join(f"ptr {pointer}" for pointer, _ in pointers)
        return [*lines, f"  call void @{name}({arguments})"]

    def _island(self, island: Island) -> list[str]:
        self.islands.append(island)
        return self._called_back(island.node)

    def _called_back(self, node: Node) -> list[str]:
        """The addresses of inputs and outputs, in a row, for the call of the reference."""
        number = len(self.called)
        self.called.append(node)
        keys = [
            self.schedule.places[edge.node.id, edge.index].base
            for edge in node.inputs
            if not isinstance(edge, Literal)
        ]
        keys += [(node.id, index) for index in range(len(node.avals))]
        lines = [f"  %f{number} = alloca ptr, i64 {len(keys)}"]
        for i, key in enumerate(keys):
            pointer, made = self._pointer(key)
            lines += [
                *made,
                f"  {pointer}.t = getelementptr ptr, ptr %f{number}, i64 {i}",
                f"  store ptr {pointer}, ptr {pointer}.t",
            ]
        return [
            *lines,
            f"  %r{number} = call i32 %island(i64 {number}, ptr %f{number})",
            f"  %c{number} = icmp eq i32 %r{number}, 0",
            f"  br i1 %c{number}, label %after{number}, label %failed",
            f"after{number}:",
        ]


def constants_of(graph: Graph) -> list[Node]:
    """The nodes whose arrays a program is handed, in order."""
    return [node for node in graph.order(graph.outputs) if node.kind == "constant"]


_TAKEN = "ptr %given, ptr %workspace, ptr %island"


def _calls(parts: int, is_timed: bool) -> str:
    """The entry of a program in parts: one after the other, until one fails."""
    clock = ", ptr %clock, ptr %times" if is_timed else ""
    lines = [f"declare i32 @part{i}(ptr, ptr, ptr)" for i in range(parts)]
    lines += [f"define i32 @entry({_TAKEN}{clock}) {{", "entry:"]
    if is_timed:
        lines += [*_noted(0), *_noted(1)]
    for i in range(parts):
        lines += [
            f"  %r{i} = call i32 @part{i}({_TAKEN})",
            f"  %c{i} = icmp eq i32 %r{i}, 0",
            f"  br i1 %c{i}, label %after{i}, label %failed",
            f"after{i}:",
        ]
        if is_timed:
            lines += _noted(i + 2)
    return "\n".join([*lines, "  ret i32 0", "failed:", "  ret i32 1", "}", ""])


def _noted(place: int) -> list[str]:
    """Take the time: seconds and nanoseconds."""
    return [
        f"  %t{place} = getelementptr i8, ptr %times, i64 {16 * place}",
        f"  %s{place} = call i32 %clock(i32 {CLOCK}, ptr %t{place})",
    ]
