"""A whole graph as one module: its loops and islands in order, over planned memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

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

ALIGNMENT = 64


def size_of(aval: Aval) -> int:
    """The bytes of a value, rounded up so that the next one is aligned."""
    return -(-aval.size * aval.dtype.itemsize // ALIGNMENT) * ALIGNMENT


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

    Attributes:
        ir: the module.
        islands: the nodes that run in the reference.
        called: those and the nodes that may be left to it, by the number they are called with.
        constants: the nodes whose arrays are handed over.
        outputs: for each graph output the key that fills it; None for a number.
        workspace: bytes of the workspace.
    """

    def __init__(
        self, graph: Graph, vector_bytes: int, donated: Mapping[int, int] | None = None
    ) -> None:
        self.graph = graph
        self.schedule = schedule = Schedule(graph)
        self.islands: list[Island] = []
        self.called: list[Node] = []
        self.constants = [n for n in graph.order(graph.outputs) if n.kind == "constant"]
        self._given: dict[Key, int] = {}  # what the caller owns: its place among the addresses
        for node in (*graph.parameters, *self.constants):
            self._given[node.id, 0] = len(self._given)
        self.first_output = len(self._given)
        self.steps = schedule.steps
        self._claim_outputs(donated or {})
        self._offsets, self.workspace = self._planned()
        self._declared: set[str] = set()
        self.loops: list[LoopCode] = []
        self._vector_bytes = vector_bytes
        self._lines: list[str] = []
        self._texts: list[str] = []
        self._bodies: dict[str, str] = {}
        self._scratch = 0  # behind the planned values, for one step at a time
        self.ir = self._module()
        self.workspace += self._scratch

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
        time = self._time_of(key)
        writer, later = self.steps[time], self.steps[time + 1 :]
        memory = (parameter.id, 0)
        if isinstance(writer, Structured):  # it writes before it fails, others write its parts
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

    def _planned(self) -> tuple[dict[Key, int], int]:
        """Offsets in the workspace: first fit, each value from its making to its last reader."""
        born: dict[Key, int] = {}
        dies: dict[Key, int] = {}
        for time, step in enumerate(self.steps):
            for key in self._uses(step):
                if key not in self._given:
                    born.setdefault(key, time)
                    dies[key] = time
        offsets: dict[Key, int] = {}
        free: list[tuple[int, int]] = []  # (offset, bytes), rising
        top = 0
        ends: dict[int, list[Key]] = {}
        for key, time in dies.items():
            ends.setdefault(time, []).append(key)
        begins: dict[int, list[Key]] = {}
        for key, time in born.items():
            begins.setdefault(time, []).append(key)
        for time in range(len(self.steps)):
            for key in begins.get(time, ()):
                size = size_of(self.schedule.stored[key])
                found = next((i for i, (_, room) in enumerate(free) if room >= size), None)
                if found is None:
                    offsets[key] = top
                    top += size
                else:
                    place, room = free.pop(found)
                    offsets[key] = place
                    if room > size:
                        free.insert(found, (place + size, room - size))
            for key in ends.get(time, ()):
                free = _released(free, offsets[key], size_of(self.schedule.stored[key]))
        return offsets, top

    # Code

    def _module(self) -> str:
        body: list[str] = []
        looks = set(pauses(self.steps, self._first_overwritten))
        for i, step in enumerate(self.steps):
            if isinstance(step, Loop):
                body += self._loop(step)
            elif isinstance(step, Product):
                body += self._product(step)
            elif isinstance(step, Structured):
                body += self._structured(step)
            else:
                body += self._island(step)
            if i in looks:
                body += self._called_back(f"p{i}", PAUSE, "null")
        entry = [
            "define i32 @entry(ptr %given, ptr %workspace, ptr %context) {",
            "entry:",
            *body,
            "  ret i32 0",
            "failed:",
            "  ret i32 1",
            "}",
        ]
        return "\n".join([*sorted(self._declared), *self._texts, *entry, ""])

    def _pointer(self, key: Key) -> tuple[str, list[str]]:
        """A name for the address of a value's memory, and the lines that make it."""
        name = f"%a{len(self._lines)}"
        self._lines.append(name)
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
            f"  {name} = getelementptr i8, ptr %workspace, i64 {self._offsets[key]}",
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
        return [*lines, *self._called_back(str(number), number, f"%f{number}")]

    def _called_back(self, name: str, number: int, frame: str) -> list[str]:
        """A call back, behind which the program goes on if nothing was raised."""
        return [
            f"  %b{name} = load ptr, ptr %context",
            f"  %r{name} = call i32 %b{name}(ptr %context, i64 {number}, ptr {frame})",
            f"  %c{name} = icmp eq i32 %r{name}, 0",
            f"  br i1 %c{name}, label %after{name}, label %failed",
            f"after{name}:",
        ]


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


def _released(free: list[tuple[int, int]], offset: int, size: int) -> list[tuple[int, int]]:
    """The free ranges with this one added, neighbours joined."""
    result: list[tuple[int, int]] = []
    for place, room in sorted([*free, (offset, size)]):
        if result and result[-1][0] + result[-1][1] == place:
            result[-1] = (result[-1][0], result[-1][1] + room)
        else:
            result.append((place, room))
    return result
