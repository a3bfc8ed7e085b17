"""What the steps of a program read, write and compute: for reports only, no code hangs on it."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable
from typing import Any

from anabranch.backends import plan
from anabranch.backends.native.claims import Copy
from anabranch.backends.native.emit import Val
from anabranch.backends.native.lowering import element, is_reduction, reason_against
from anabranch.backends.native.mathematics import Mathematics
from anabranch.backends.native.memory import ALIGNMENT
from anabranch.backends.native.parts import is_update, joins, selected
from anabranch.backends.native.program import Program
from anabranch.backends.native.schedule import (
    Key,
    Loop,
    Place,
    Product,
    Structured,
    nodes_of,
)
from anabranch.backends.native.view import View
from anabranch.backends.plan import Kernel, Memory, NodeLine, Plan, Stay
from anabranch.core.aval import Aval, Shape
from anabranch.core.node import Literal, Node
from anabranch.core.op import Kernel as LoopNest

_ONE = re.compile(r"= (?:fadd|fsub|fmul|fdiv|frem) |@llvm\.sqrt")
_TWO = re.compile(r"@llvm\.(?:fma|fmuladd)\.")
_CALLED = re.compile(r"call [^@]*@([\w.]+)\(")
_DEFINED = re.compile(r"define [^@]*@([\w.]+)\(")


def plan_of(program: Program) -> Plan:
    """What a program consists of."""
    orders = {id(code.loop): code.order for code in program.loops}
    reasons = {island.node.id: island.reason for island in program.islands}
    count = _Counter()
    steps = tuple(_step(program, step, orders, reasons, count) for step in program.steps)
    return Plan("native", steps, _memory(program))


def bytes_of(aval: Aval) -> int:
    return aval.size * int(aval.dtype.itemsize)


def _line(program: Program, node: Any) -> NodeLine:
    """A node; what stands for a copied output is named after it."""
    if not isinstance(node, Copy):
        return NodeLine.of(node)
    number = -1 - node.id
    edge = program.graph.outputs[number]
    sources = () if isinstance(edge, Literal) else NodeLine.of(edge.node).sources
    return NodeLine(node.id, "copy", f"output {number}", str(node.avals[0]), sources)


# Steps


def _step(
    program: Program,
    step: Any,
    orders: dict[int, str],
    reasons: dict[int, str],
    count: _Counter,
) -> Kernel | plan.Island:
    if not isinstance(step, Loop) and step.node.id in reasons:
        return plan.Island(NodeLine.of(step.node), reasons[step.node.id])
    nodes = nodes_of(step)
    lines = tuple(_line(program, node) for node in nodes)
    read, written = _read(program, step, nodes), _written(program, nodes)
    if isinstance(step, Loop):
        flops = sum(count.flops(node) for node in nodes) * math.prod(step.space)
        return Kernel("loop", lines, step.space, orders.get(id(step), ""), read, written, flops)
    space, flops = _of_its_own(step, count)
    order = ""
    if isinstance(step, Product) and step.finish:
        order = f"{' x '.join(map(str, space))}, and a loop over each block while it is near"
        each = sum(count.flops(node) for node in step.finish.nodes)
        flops += each * math.prod(step.finish.space)
    return Kernel(step.node.op.name, lines, space, order, read, written, flops)


def _of_its_own(step: Any, count: _Counter) -> tuple[Shape, int]:
    """Space and operations of a step that is no loop."""
    node = step.node
    if not isinstance(step, Product):
        return node.avals[0].shape, count.joins(node)
    inner = node.inputs[0].aval.shape[-1]
    space = (*node.avals[0].shape, inner)
    return space, 2 * math.prod(space)


def _read(program: Program, step: Any, nodes: Iterable[Any]) -> int:
    """The bytes that a step reads from memory."""
    schedule = program.schedule
    found: dict[Key, int] = {}
    for node in nodes:
        moved = schedule.moved.get(node.id)
        places: list[tuple[Place, Aval, int]]
        if moved is not None:
            places = [(moved, node.avals[0], 0)]
        else:
            places = [
                (schedule.places[edge.node.id, edge.index], edge.aval, slot)
                for slot, edge in enumerate(node.inputs)
                if not isinstance(edge, Literal) and not _is_in(schedule, edge, step)
            ]
        for place, aval, slot in places:
            elements = _elements(place.view)
            if place.base == (node.id, 0):  # it is made where the result lies
                elements = _looked_at(node)
            elif isinstance(step, Structured):
                elements = min(elements, selected(node, slot))
            size = elements * int(aval.dtype.itemsize)
            found[place.base] = max(found.get(place.base, 0), size)
    return sum(found.values())


def _elements(view: View) -> int:
    """How many elements of its base a view reaches, where windows overlap each once."""
    lengths = zip(view.shape, view.strides, strict=True)
    apart = [(n, abs(step)) for n, step in lengths if step or not n]
    span = 1 + sum((n - 1) * step for n, step in apart)
    return min(math.prod(n for n, _ in apart), max(span, 0))


def _looked_at(node: Node) -> int:
    """The elements that an update in place reads of what it updates."""
    return node.inputs[1].aval.size if is_update(node) and joins(node) else 0


def _is_in(schedule: Any, edge: Any, step: Any) -> bool:
    """Whether a value is in a register of this very step."""
    loop = step.finish if isinstance(step, Product) else step
    home = schedule.home.get(edge.node.id)
    return home is not None and home is loop and not is_reduction(edge.node)


def _written(program: Program, nodes: Iterable[Any]) -> int:
    schedule = program.schedule
    keys = ((node.id, i) for node in nodes for i in range(len(node.avals)))
    whole = sum(bytes_of(schedule.stored[key]) for key in keys if key in schedule.stored)
    return whole - sum(_there_before(schedule, node) for node in nodes)


def _there_before(schedule: Any, node: Any) -> int:
    """The bytes of a result that other steps have put where it lies."""
    parts = [
        edge.aval
        for edge in node.inputs
        if not isinstance(edge, Literal)
        and (edge.node.id, edge.index) in schedule.places
        and schedule.places[edge.node.id, edge.index].base == (node.id, 0)
    ]
    if parts and is_update(node):
        return bytes_of(parts[0]) - min(bytes_of(parts[0]), bytes_of(node.inputs[1].aval))
    return sum(map(bytes_of, parts))


class _Counter:
    """Counts the operations that the code of a node has for one element."""

    def __init__(self) -> None:
        self._known: dict[Any, int] = {}

    def flops(self, node: Node) -> int:
        if isinstance(node, Copy):
            return 0
        kinds = [(edge.aval, isinstance(edge, Literal)) for edge in node.inputs]
        key = (node.op, node.avals, *kinds) if not node.attrs else node
        if key not in self._known:
            self._known[key] = _flops(node)
        return self._known[key]

    def joins(self, node: Node) -> int:
        """The operations by which a kernel joins elements, all of them."""
        kernel, aval = node.op.lower, Aval((), node.avals[0].dtype)
        if not node.inputs or not isinstance(kernel, LoopNest):
            return 0
        if (kernel, aval) not in self._known:
            own = kernel.operations if aval.is_floating else 0
            self._known[kernel, aval] = own + _join_flops(kernel.join, aval)
        joined: int = node.inputs[1 if is_update(node) else 0].aval.size
        return self._known[kernel, aval] * joined


def _join_flops(join: str, aval: Aval) -> int:
    declared: set[str] = set()
    e = Mathematics(1, itertools.count(), declared)
    made = getattr(e, join, None)
    if made is None:
        return 0
    made(Val("%x", aval.dtype), Val("%y", aval.dtype))
    return _operations("\n".join(e.lines), _definitions(declared), {})


def _flops(node: Node) -> int:
    if is_reduction(node):
        return int(node.avals[0].is_floating)
    if callable(node.op.lower) or reason_against(node) is not None:
        return 0
    declared: set[str] = set()
    e = Mathematics(1, itertools.count(), declared)
    avals = [edge.aval for edge in node.inputs]
    element(e, node, [Val(f"%x{i}", aval.dtype, aval.weak) for i, aval in enumerate(avals)])
    return _operations("\n".join(e.lines), _definitions(declared), {})


def _definitions(declared: Iterable[str]) -> dict[str, str]:
    """The functions that code calls, by name."""
    bodies: dict[str, str] = {}
    for text in declared:
        for part in re.split(r"(?m)^(?=define )", text):
            if found := _DEFINED.match(part):
                bodies[found[1]] = part
    return bodies


def _operations(text: str, bodies: dict[str, str], known: dict[str, int]) -> int:
    """The operations in a text and in what it calls, each way through it counted."""
    total = len(_ONE.findall(text)) + 2 * len(_TWO.findall(text))
    for name in _CALLED.findall(text):
        body = bodies.get(name)
        if body is not None and "noinline" not in body.partition("{")[0]:
            if name not in known:
                known[name] = 0  # nothing here calls itself
                known[name] = _operations(body, bodies, known)
            total += known[name]
    return total


# Memory


def _memory(program: Program) -> Memory:
    graph = program.graph
    nodes = {node.id: node for node in graph.nodes}
    stays = tuple(
        Stay(NodeLine.of(nodes[key[0]]), room.offset, room.size, room.born, room.dies)
        for key, room in sorted(program.rooms.items(), key=lambda item: item[1].born)
    )
    unshared = sum(room.size for room in program.rooms.values())
    top = max((room.offset + room.size for room in program.rooms.values()), default=0)
    scratch = program.workspace - top
    if scratch:
        stays = (*stays, Stay(None, top, scratch, 0, len(program.steps) - 1))
    return Memory(
        arguments=sum(bytes_of(node.avals[0]) for node in graph.parameters),
        constants=sum(bytes_of(node.avals[0]) for node in program.constants),
        results=sum(
            bytes_of(edge.aval)
            for i, edge in enumerate(graph.outputs)
            if not isinstance(edge, Literal) and i not in program.donated.values()
        ),
        workspace=allocated(program.workspace),
        unshared=unshared + scratch,
        stays=stays,
    )


def allocated(workspace: int) -> int:
    """The bytes that are asked for to have so many that are aligned."""
    return workspace + ALIGNMENT if workspace else 0
