"""What became of a compiled graph, told as text and as data: passes, steps, memory, times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from anabranch.backends.plan import Island, Kernel, Limits, Memory, NodeLine, Plan, Timing
from anabranch.core.graph import Graph
from anabranch.errors import ArgumentError
from anabranch.frontends.execution import Program
from anabranch.passes.pipeline import PassReport

_SHOWN = 12  # lines of one list
_WIDTH = 100
_IN_CACHE = 2**19  # bytes that a core's caches hold for sure


@dataclass(frozen=True, repr=False)
class Explanation:
    """What became of a compiled graph; `str()` tells it.

    Attributes:
        name: of the function or graph.
        arguments: the types of its parameters, captured values included.
        built: the graph as traced or built.
        optimised: the graph that runs.
        passes: what each pass did, with the lines of what it touched.
        plan: the steps and the memory, by the backend.
        timing: seconds for each step, where they were asked for.
    """

    name: str
    arguments: tuple[str, ...]
    built: Graph
    optimised: Graph
    passes: tuple[PassReport, ...]
    plan: Plan
    timing: Timing | None = None

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The steps in machine code."""
        return self.plan.kernels

    @property
    def islands(self) -> tuple[Island, ...]:
        """The steps that are calls back into the reference."""
        return self.plan.islands

    @property
    def memory(self) -> Memory | None:
        """Where values lie; None where nothing is planned."""
        return self.plan.memory

    def __str__(self) -> str:
        return "\n".join(map(_fitted, _lines(self)))

    __repr__ = __str__


def explained(name: str, program: Program, values: Sequence[Any] | None = None) -> Explanation:
    """What became of a program; with values for its parameters, how long its steps take too."""
    executable = program.executable
    return Explanation(
        name,
        tuple(str(node.avals[0]) for node in program.graph.parameters),
        program.graph,
        program.optimised,
        program.reports,
        executable.plan(),
        None if values is None else executable.timing(values),
    )


def code_text(name: str, program: Program, kind: str) -> str:
    """The IR or assembly of a program.

    Raises:
        ArgumentError: `[no-machine-code]` where it has none.
    """
    text = program.executable.text(kind)
    if text is None:
        raise ArgumentError(
            "no-machine-code",
            f"{name} has no machine code: {program.executable.plan().remark}",
            hint='ab.compile(f, backend="native")',
        )
    return text


# Text


def _lines(e: Explanation) -> Iterator[str]:
    given = ", ".join(e.arguments) or "no arguments"
    yield f"{e.name} for {given}"
    counts = f"{_counted(len(e.built), 'node')} as built, {len(e.optimised)} optimised"
    yield f"{counts}, run by {e.plan.backend}"
    yield ""
    yield "passes"
    for report in e.passes:
        yield f"  {report.name}: {report.before} nodes to {report.after}"
        yield from _some(f"    {change}" for change in report.changes)
    yield ""
    if e.plan.remark:
        yield e.plan.remark
    if e.plan.steps:
        yield "steps"
        for i, step in enumerate(e.plan.steps):
            yield from _step(i, step, e.timing)
        if e.timing is not None:
            yield f"  all: {_time(sum(e.timing.seconds))}"
    if e.plan.memory is not None:
        yield ""
        yield from _memory(e.plan.memory)


def _fitted(line: str) -> str:
    return line.rstrip() if len(line) <= _WIDTH else f"{line[: _WIDTH - 3]}..."


def _counted(number: int, word: str) -> str:
    return f"{number:,} {word}{'s' * (number != 1)}"


def _step(i: int, step: Kernel | Island, timing: Timing | None) -> Iterator[str]:
    taken = None if timing is None else f"      {_time(timing.seconds[i])}"
    if isinstance(step, Island):
        yield f"  {i}: call of the reference: {step.reason}"
        if taken is not None:
            yield taken
        yield _node(step.node)
        return
    order = step.order or " x ".join(map(str, step.space)) or "1"
    yield f"  {i}: {step.kind} over {order}"
    moved = f"{_counted(step.read, 'byte')} read, {step.written:,} written"
    yield f"      {moved}, {_counted(step.flops, 'operation')}: bound by {step.bound}"
    if timing is not None:
        yield f"{taken}{_rates(step, timing.seconds[i], timing.limits)}"
    yield from _some(map(_node, step.nodes))


def _node(line: NodeLine) -> str:
    name = f" {line.name!r}" if line.name else ""
    number = f"#{line.number} " if line.number >= 0 else ""
    return f"      {f'{number}{line.op}{name} : {line.type}':<50} {', '.join(line.sources)}"


def _rates(step: Kernel, time: float, limits: Limits) -> str:
    """Bytes and operations a second, and how much of what a core of this machine can do."""
    if not time:
        return ""
    size = step.read + step.written
    bandwidth = limits.near if size <= _IN_CACHE else limits.far
    is_wide = any(node.type.startswith(("f64", "c", "i", "u")) for node in step.nodes)
    peak = limits.wide if is_wide else limits.narrow
    moved = f"{size / time / 1e9:.1f} GB/s ({size / time / bandwidth:.0%})"
    done = f"{step.flops / time / 1e9:.1f} Gop/s ({step.flops / time / peak:.0%})"
    return f": {moved}, {done} of what a core can do"


def _time(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1.0:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def _memory(memory: Memory) -> Iterator[str]:
    yield f"memory: {memory.peak:,} bytes at most"
    read = f"{memory.arguments:,} bytes of arguments and {memory.constants:,} of constants"
    yield f"  {read} are read"
    yield f"  {memory.results:,} bytes of results belong to each call"
    if not memory.stays:
        yield "  no workspace: every other value stays in registers"
        return
    apart = f", {memory.unshared:,} if none shared" if memory.unshared > memory.workspace else ""
    yield f"  {memory.workspace:,} bytes of workspace{apart}"
    yield from _some(
        f"    {stay.offset:>9,} {stay.size:>9,} bytes, steps {stay.first} to {stay.last}: "
        + ("scratch" if stay.node is None else f"#{stay.node.number} {stay.node.op}")
        for stay in memory.stays
    )


def _some(lines: Iterable[str]) -> Iterator[str]:
    """The first lines of a list, and how many there are besides."""
    found = list(lines)
    yield from found[:_SHOWN]
    if len(found) > _SHOWN:
        indent = " " * (len(found[0]) - len(found[0].lstrip()))
        yield f"{indent}... and {len(found) - _SHOWN} more"
