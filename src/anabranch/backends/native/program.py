"""A whole graph as one module: its loops and islands in order, over planned memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

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
    size_of,
)
from anabranch.backends.native.view import View
from anabranch.core.aval import Aval
from anabranch.core.graph import Graph
from anabranch.core.node import Literal, Node
from anabranch.core.op import Op
from anabranch.ops.elementwise import identity


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

    Attributes:
        ir: the module.
        islands: the nodes that run in the reference.
        called: those and the nodes that may be left to it, by the number they are called with.
        constants: the nodes whose arrays are handed over.
        outputs: for each graph output the key that fills it; None for a number.
        workspace: bytes of the workspace.
        time: about how long its loops and products take on one thread, in ns.
        shares: whether some of its steps are cut into chunks, which `run` in `pool` hands out.
    """

    def __init__(self, graph: Graph, vector_bytes: int) -> None:
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
        self._claim_outputs()
        self._offsets, self.workspace = self._planned()
        self._declared: set[str] = set()
        self.loops: list[LoopCode] = []
        self._vector_bytes = vector_bytes
        self._lines: list[str] = []
        self._texts: list[str] = []
        self._scratch = 0  # behind the planned values, for one step at a time
        self._frame = 0  # pointers that the frame of a step has at most
        self.time = 0.0
        self.shares = False
        self.ir = self._module()
        self.workspace += self._scratch

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
        for step in self.steps:
            if isinstance(step, Loop):
                body += self._loop(step)
            elif isinstance(step, Product):
                body += self._product(step)
            elif isinstance(step, Structured):
                body += self._structured(step)
            else:
                body += self._island(step)
        entry = [
            "define i32 @entry(ptr %given, ptr %workspace, ptr %island) {",
            "entry:",
            *([f"  %frame = alloca ptr, i64 {self._frame}"] if self._frame else []),
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
        self._texts.append(code.text)
        self.time += code.time
        pointers = [self._pointer(key) for key in code.pointers]
        if code.cut is None:
            return self._called(name, pointers)
        lines = []
        if code.scratch:
            pointers.append(self._scratch_of(name, code.scratch))
            lines.append(f"  call void @join_{name}(ptr %frame)")
        return [*self._shared(name, pointers, code.cut.chunks), *lines]

    def _shared(
        self, name: str, pointers: Sequence[tuple[str, list[str]]], chunks: int
    ) -> list[str]:
        """A step whose chunks threads share."""
        self._frame = max(self._frame, len(pointers))
        self.shares = True
        self._declared.add("declare void @pool(ptr, ptr, i64)")
        return [
            *self._framed(pointers),
            f"  call void @pool(ptr @{name}, ptr %frame, i64 {chunks})",
        ]

    def _framed(self, pointers: Sequence[tuple[str, list[str]]]) -> list[str]:
        """The pointers in a row."""
        lines = []
        for i, (pointer, made) in enumerate(pointers):
            lines += [
                *made,
                f"  {pointer}.t = getelementptr ptr, ptr %frame, i64 {i}",
                f"  store ptr {pointer}, ptr {pointer}.t",
            ]
        return lines

    def _scratch_of(self, name: str, size: int) -> tuple[str, list[str]]:
        """A name for the address of scratch memory, and the line that makes it."""
        self._scratch = max(self._scratch, size)
        place = f"%scratch_{name}"
        return place, [f"  {place} = getelementptr i8, ptr %workspace, i64 {self.workspace}"]

    def _product(self, product: Product) -> list[str]:
        name = f"product{product.node.id}"
        args = (name, product, self.schedule, self._vector_bytes, self._declared)
        code = ProductCode(*args)
        self._texts.append(code.text)
        self.time += code.time
        self.shares |= code.shares
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
        scratch = self._scratch_of(code.name, code.scratch)
        return [*map(self._pointer, code.pointers), scratch]

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
        self._frame = max(self._frame, len(keys))
        return [
            *self._framed([self._pointer(key) for key in keys]),
            f"  %r{number} = call i32 %island(i64 {number}, ptr %frame)",
            f"  %c{number} = icmp eq i32 %r{number}, 0",
            f"  br i1 %c{number}, label %after{number}, label %failed",
            f"after{number}:",
        ]


def _released(free: list[tuple[int, int]], offset: int, size: int) -> list[tuple[int, int]]:
    """The free ranges with this one added, neighbours joined."""
    result: list[tuple[int, int]] = []
    for place, room in sorted([*free, (offset, size)]):
        if result and result[-1][0] + result[-1][1] == place:
            result[-1] = (result[-1][0], result[-1][1] + room)
        else:
            result.append((place, room))
    return result
