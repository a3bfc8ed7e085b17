"""A whole graph as machine code to be: its loops and islands in order, over planned memory."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anabranch.backends.native import memory
from anabranch.backends.native.calls import PAUSE
from anabranch.backends.native.emit import NotNativeError
from anabranch.backends.native.kernels import kernel_code
from anabranch.backends.native.kernels.code import KernelCode
from anabranch.backends.native.loops import LoopCode
from anabranch.backends.native.pauses import pauses
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
    is_reduction,
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
    order; to the workspace; and to the context of calls back. It returns 0, or 1 when one of them
    has raised.

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

    def __init__(
        self,
        graph: Graph,
        vector_bytes: int,
        donated: Mapping[int, int] | None = None,
        is_timed: bool = False,
    ) -> None:
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
        self._claim_outputs(donated or {})
        self.rooms, self.workspace = self._planned()
        self._declared: set[str] = set()
        self.loops: list[LoopCode] = []
        self._vector_bytes = vector_bytes
        self._pointers = itertools.count()
        self._texts: list[str] = []
        self._bodies: dict[str, str] = {}
        self._scratch = 0  # behind the planned values, for one step at a time
        self.modules = self._written()
        self.workspace += self._scratch

    @property
    def ir(self) -> str:
        """All modules, one after the other."""
        return "\n".join(self.modules)

    # Memory

    def _claim_outputs(self, donated: Mapping[int, int]) -> None:
        """Values that are computed for an output go straight there; the others are copied."""
        reused = {output: self.graph.parameters[one] for one, output in donated.items()}
        claims: dict[int, Key] = {}
        for number, edge in enumerate(self.graph.outputs):
            if isinstance(edge, Literal):
                continue
            place = self.schedule.places[edge.node.id, edge.index]
            is_free = place.base not in self._given and place.view.is_whole
            if is_free and self.schedule.stored[place.base].size == edge.aval.size:
                claims[number] = place.base
                self._given[place.base] = self.first_output + number
            elif edge.node is not reused.get(number):  # what stays as it is, is there already
                claims[number] = self._copy(-1 - number, number, edge.aval, place)
        late = [
            number
            for number, node in reused.items()
            if number in claims and not self._may_overwrite(node, claims[number])
        ]
        times = [self._time_of(claims[one]) for one in reused if one in claims and one not in late]
        self._first_overwritten = min(times, default=len(self.steps))  # no error comes behind it
        for number in late:
            key = claims[number]
            del self._given[key]
            aval = self.schedule.stored[key]
            whole = Place(key, View.whole(aval.shape))
            self._copy(-1 - len(self.graph.outputs) - number, number, aval, whole)

    def _may_overwrite(self, parameter: Node, key: Key) -> bool:
        """Whether a value can be computed straight into the memory of a parameter.

        Nothing may read the parameter later, or at another place while the value is written; and
        nothing may fail later, so that a call that fails leaves the parameter as it was.
        """
        if key in self.schedule.wholes:  # several steps write it
            return False
        time = self._time_of(key)
        writer, later = self.steps[time], self.steps[time + 1 :]
        memory = (parameter.id, 0)
        if isinstance(writer, Structured):  # it may have written some before it fails
            return False
        if any(may_fail(step) or memory in self._uses(step) for step in later):
            return False
        if memory not in self._uses(writer):
            return True
        return isinstance(writer, Loop) and self._reads_what_it_writes(writer, memory, key)

    def _time_of(self, key: Key) -> int:
        """The place of the step that makes a value."""
        return next(i for i, step in enumerate(self.steps) if key in self._makes(step))

    def _reads_what_it_writes(self, loop: Loop, memory: Key, key: Key) -> bool:
        """Whether a loop reads this memory only where it writes the value in the same iteration."""
        writer = next(node for node in loop.nodes if node.id == key[0])
        reads_ = [self.schedule.places.get((e.node.id, e.index)) for e in reads(loop)]
        moved = [self.schedule.moved[n.id] for n in loop.nodes if n.id in self.schedule.moved]
        views = [place.view for place in (*reads_, *moved) if place and place.base == memory]
        whole = View.whole(loop.space)
        return not is_reduction(writer) and all(view == whole for view in views)

    def _copy(self, name: int, number: int, aval: Aval, place: Place) -> Key:
        """An output that is not computed in memory of its own: a loop that only moves."""
        aval, place = _as_pairs(aval, place)
        copy = Copy(name, (aval,))
        self.schedule.moved[copy.id] = place
        self.schedule.stored[copy.id, 0] = aval
        self.schedule.places[copy.id, 0] = Place((copy.id, 0), View.whole(aval.shape))
        self._given[copy.id, 0] = self.first_output + number
        loop = Loop(aval.shape, self.steps[-1].stage + 1 if self.steps else 0, [copy])
        self.schedule.home[copy.id] = loop
        self.steps.append(loop)
        return copy.id, 0

    def _makes(self, step: Step) -> Iterator[Key]:
        """The keys that a step stores."""
        for node in step.nodes if isinstance(step, Loop) else [step.node]:
            for index in range(len(node.avals)):
                if (node.id, index) in self.schedule.stored:
                    yield node.id, index

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
        for key in self._makes(step):
            yield schedule.places[key].base

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
        looks = set(pauses(self.steps, self._first_overwritten))
        for number, step in enumerate(self.steps):
            if steps == most or lines > MOST_LINES:
                modules.append(self._module(f"part{len(modules)}", body))
                body, steps, lines = [], 0, 0
            body += self._step(step)
            if number in looks:
                body += _asked(f"p{number}", PAUSE, "null")
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
        self._declared, self._texts, self._bodies = set(), [], {}
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
        return self._called(self._named(code), [self._pointer(key) for key in code.pointers])

    def _product(self, product: Product) -> list[str]:
        name = f"product{product.node.id}"
        args = (name, product, self.schedule, self._vector_bytes, self._declared)
        code = ProductCode(*args)
        self._scratch = max(self._scratch, code.scratch)
        return self._called(self._named(code), self._given_to(code))

    def _named(self, code: LoopCode | ProductCode | KernelCode) -> str:
        """The name of the function; of an equal one if there is one already."""
        head, _, body = code.text.partition(f"@{code.name}(")
        name = self._bodies.setdefault(f"{head}({body}", code.name)
        if name == code.name:
            self._texts.append(code.text)
        return name

    def _structured(self, step: Structured) -> list[str]:
        """A kernel, and a call back for what it leaves to the reference."""
        node, number = step.node, len(self.called)
        args = (self.schedule, self._vector_bytes, self._declared)
        try:
            code = kernel_code(f"kernel{node.id}", node, *args)
        except NotNativeError as reason:
            return self._island(Island(node, step.stage, str(reason)))
        self._scratch = max(self._scratch, code.scratch)
        name, given = self._named(code), self._given_to(code)
        arguments = "".join(f"ptr {pointer}, " for pointer, _ in given)
        return [
            *(line for _, made in given for line in made),
            f"  %s{number} = call i32 @{name}({arguments}i64 0, i64 {code.rows})",
            f"  %d{number} = icmp eq i32 %s{number}, 0",
            f"  br i1 %d{number}, label %after{number}, label %left{number}",
            f"left{number}:",
            *self._by_reference(node),
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
        return self._by_reference(island.node)

    def _by_reference(self, node: Node) -> list[str]:
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
        return [*lines, *_asked(str(number), number, f"%f{number}")]


def _as_pairs(aval: Aval, place: Place) -> tuple[Aval, Place]:
    """Complex numbers as what they are in memory; anything else as it is."""
    if aval.dtype.kind != "c":
        return aval, place
    view = place.view
    pairs = View((*view.shape, 2), (*(2 * s for s in view.strides), 1), 2 * view.offset)
    half = np.dtype(f"f{aval.dtype.itemsize // 2}")
    return Aval((*aval.shape, 2), half), Place(place.base, pairs)


def may_fail(step: Step) -> bool:
    """Whether a step can end the run with an error."""
    return isinstance(step, Island | Structured)


def constants_of(graph: Graph) -> list[Node]:
    """The nodes whose arrays a program is handed, in order."""
    return [node for node in graph.order(graph.outputs) if node.kind == "constant"]


_TAKEN = "ptr %given, ptr %workspace, ptr %context"


def _asked(name: str, number: int, frame: str) -> list[str]:
    """A call back, behind which the program goes on if nothing was raised."""
    return [
        f"  %b{name} = load ptr, ptr %context",
        f"  %r{name} = call i32 %b{name}(ptr %context, i64 {number}, ptr {frame})",
        f"  %c{name} = icmp eq i32 %r{name}, 0",
        f"  br i1 %c{name}, label %after{name}, label %failed",
        f"after{name}:",
    ]


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
