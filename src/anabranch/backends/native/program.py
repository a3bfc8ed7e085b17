"""A whole graph as machine code to be: its loops and islands in order, over planned memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anabranch.backends.native.calls import PAUSE
from anabranch.backends.native.claims import Claims
from anabranch.backends.native.division import Division
from anabranch.backends.native.emit import NotNativeError
from anabranch.backends.native.joints import TAKEN, asked, entry_of
from anabranch.backends.native.kernels import kernel_code
from anabranch.backends.native.kernels.code import KernelCode
from anabranch.backends.native.loops import LoopCode
from anabranch.backends.native.partition import Cut
from anabranch.backends.native.pauses import nanoseconds, pauses
from anabranch.backends.native.products import ProductCode
from anabranch.backends.native.schedule import (
    Island,
    Key,
    Loop,
    Product,
    Step,
    Structured,
)
from anabranch.backends.native.straight import StraightCode, is_straight
from anabranch.core.digest import key_of
from anabranch.core.graph import Graph
from anabranch.core.node import Literal, Node

# Lines of the function that runs the steps: LLVM takes more than a multiple of a function's length
# in time.
MOST_CALLING = 1_500


class Program(Claims):
    """The IR of a graph, and what its entry must be given.

    The entry takes three pointers: to the addresses of parameters, constants and outputs, in this
    order; to the workspace; and to the context of calls back. It returns 0, or 1 when one of them
    has raised.

    A timed one takes two pointers more: to a clock, called with a number and where to put the time,
    and to the times, which it notes twice at the start and then after each step.

    A long program is cut into modules. The function that runs the steps calls what stands in any of
    them; that of very many steps is cut into parts, which the last module calls. Modules of this
    program alone are told to `closed` one by one, while the next ones are still to be written.

    Attributes:
        modules: the text of each module.
        shared: those of them that are not of this program alone.
        rooms: for each value in the workspace, where it lies and for how long.
        islands: the nodes that run in the reference.
        called: those and the nodes that may be left to it, by the number they are called with.
        constants: the nodes whose arrays are handed over.
        outputs: for each graph output the key that fills it; None for a number.
        workspace: bytes of the workspace.
        time: about how long its loops and products take on one thread, in ns.
        shares: whether some of its steps are cut into chunks, which `run` in `pool` hands out.
    """

    def __init__(
        self,
        graph: Graph,
        vector_bytes: int,
        donated: Mapping[int, int] | None = None,
        is_timed: bool = False,
        closed: Callable[[str], None] = lambda _: None,
    ) -> None:
        super().__init__(graph, donated or {})
        self._is_timed = is_timed
        self.islands: list[Island] = []
        self.called: list[Node] = []
        self.loops: list[LoopCode] = []
        self._vector_bytes = vector_bytes
        self._pointers = itertools.count()
        self._division = Division(closed)
        self._calls: set[str] = set()  # declarations of what the steps call
        self._rows: list[str] = []  # and tables that they hand over
        self._bodies: dict[Any, str] = {}  # by text or signature, the function that has it
        self._tables = itertools.count()
        self._scratch = 0  # behind the planned values, for one step at a time
        self._frame = 0  # pointers that the frame of a step has at most
        self.time = 0.0
        self.shares = False
        own = self._written()
        self.shared = self._division.shared()
        self.modules = [*own, *self.shared]
        self.workspace += self._scratch

    @property
    def ir(self) -> str:
        """All modules, one after the other."""
        return "\n".join(self.modules)

    # Code

    def _written(self) -> list[str]:
        """The modules, in the order in which their steps run."""
        parts = steps = 0
        body: list[str] = []
        looks = set(pauses(self.steps, self._first_overwritten))
        for number, step in enumerate(self.steps):
            if (steps and self._is_timed) or len(body) > MOST_CALLING:
                self._run_by(f"part{parts}", body)
                parts, body, steps = parts + 1, [], 0
            body += self._step(step)
            if number in looks:
                body += asked(f"p{number}", PAUSE, "null")
            steps += 1
        if not parts and not self._is_timed:
            self._run_by("entry", body)
        else:
            if steps:
                self._run_by(f"part{parts}", body)
            parts += bool(steps)
            calls = [f"declare i32 @part{i}(ptr, ptr, ptr)" for i in range(parts)]
            self._division.add(entry_of(parts, self._is_timed), calls)
        self._division.close()
        return self._division.modules

    def _step(self, step: Step) -> list[str]:
        if isinstance(step, Loop):
            return self._loop(step)
        if isinstance(step, Product):
            return self._product(step)
        return self._structured(step) if isinstance(step, Structured) else self._island(step)

    def _run_by(self, name: str, body: list[str]) -> None:
        """A function of this name that runs these steps."""
        text = [
            *self._rows,
            f"define i32 @{name}({TAKEN}) {{",
            "entry:",
            *([f"  %frame = alloca ptr, i64 {self._frame}"] if self._frame else []),
            *body,
            "  ret i32 0",
            "failed:",
            "  ret i32 1",
            "}",
        ]
        self._division.add("\n".join(text), self._calls)
        self._rows, self._calls = [], set()

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
        kind = StraightCode if is_straight(loop) else LoopCode
        code = kind(name, loop, self.schedule, self._vector_bytes, set())
        self.loops.append(code)
        self.time += code.time
        if isinstance(code, StraightCode):
            return self._straight(code)
        name = self._named(code)
        pointers = [self._pointer(key) for key in code.pointers]
        if code.cut is None:
            return self._called(name, pointers)
        lines = []
        if code.scratch:
            pointers.append(self._scratch_of(code.name, code.scratch))
            lines.append(f"  call void @join_{name}(ptr %frame)")
            self._calls.add(f"declare void @join_{name}(ptr)")
        return [*self._shared(name, pointers, code.cut), *lines]

    def _straight(self, code: StraightCode) -> list[str]:
        """A call with what the caller owns, and with a table of where the rest lies."""
        offsets = {key: self._offset(key) for key in code.pointers}
        code.place([key for key in code.pointers if offsets[key] is None])
        name = self._named(code)
        pointers = [self._pointer(key) for key in code.given]
        if code.placed:
            table = f"@offsets{next(self._tables)}"
            row = ", ".join(f"i64 {offsets[key]}" for key in code.placed)
            self._rows.append(f"{table} = internal constant [{len(code.placed)} x i64] [{row}]")
            pointers += [("%workspace", []), (table, [])]
        return self._called(name, pointers)

    def _offset(self, key: Key) -> int | None:
        """Where in the workspace a value lies; None for one that the caller owns."""
        part = self.schedule.parts.get(key)
        if part is None:
            return None if key in self._given else self.rooms[key].offset
        base = self._offset(part.base)
        size = int(self.schedule.stored[key].dtype.itemsize)
        return None if base is None else base + part.view.offset * size

    def _shared(self, name: str, pointers: Sequence[tuple[str, list[str]]], made: Cut) -> list[str]:
        """A step whose chunks threads share."""
        self._frame = max(self._frame, len(pointers))
        self.shares = True
        how = "pool" if made.wakes else "offer"
        self._calls |= {f"declare void @{how}(ptr, ptr, i64)", f"declare void @{name}(ptr, i64)"}
        return [
            *self._framed(pointers),
            f"  call void @{how}(ptr @{name}, ptr %frame, i64 {made.chunks})",
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
        code = ProductCode(name, product, self.schedule, self._vector_bytes, set())
        self._scratch = max(self._scratch, code.scratch)
        self.time += code.time
        self.shares |= code.shares
        return self._called(self._named(code), self._given_to(code))

    def _named(self, code: LoopCode | ProductCode | KernelCode) -> str:
        """The name of the function; of an equal one if there is one already.

        A loop like an earlier one is known as such before it is written.
        """
        signature = code.signature() if isinstance(code, LoopCode) else None
        if signature in self._bodies:
            return self._bodies[signature]
        digest = key_of(*code.text.partition(f"@{code.name}(")[::2])
        name = self._bodies.setdefault(digest, code.name)
        if signature is not None:
            self._bodies[signature] = name
        if name == code.name:
            self._division.add(code.text, code.declared)
        return name

    def _structured(self, step: Structured) -> list[str]:
        """A kernel, and a call back for what it leaves to the reference."""
        node, number = step.node, len(self.called)
        args = (self.schedule, self._vector_bytes)
        try:
            code = kernel_code(f"kernel{node.id}", node, *args, set())
        except NotNativeError as reason:
            return self._island(Island(node, step.stage, str(reason)))
        self._scratch = max(self._scratch, code.scratch)
        self.time += nanoseconds(step)
        name, given = self._named(code), self._given_to(code)
        arguments = "".join(f"ptr {pointer}, " for pointer, _ in given)
        self._calls.add(f"declare i32 @{name}({'ptr, ' * len(given)}i64, i64)")
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
        scratch = self._scratch_of(code.name, code.scratch)
        return [*map(self._pointer, code.pointers), scratch]

    def _called(self, name: str, pointers: Sequence[tuple[str, list[str]]]) -> list[str]:
        lines = [line for _, made in pointers for line in made]
        arguments = ", ".join(f"ptr {pointer}" for pointer, _ in pointers)
        self._calls.add(f"declare void @{name}({', '.join(['ptr'] * len(pointers))})")
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
        self._frame = max(self._frame, len(keys))
        made = self._framed([self._pointer(key) for key in keys])
        return [*made, *asked(str(number), number, "%frame")]
