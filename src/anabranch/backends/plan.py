"""What a backend made of a graph, to be looked at: steps in order, and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.core.aval import Shape
from anabranch.core.node import Node

BALANCE = 4.0  # operations for each byte from which on computing takes longer than moving


@dataclass(frozen=True)
class NodeLine:
    """A node as reports name it.

    Attributes:
        number: its id in the optimised graph.
        op: the name of its op.
        name: the user's, if it has one.
        type: its shape and dtype, as in `f64[3]`.
        sources: the lines it stands for, as in `model.py:12`, its own first.
    """

    number: int
    op: str
    name: str | None
    type: str
    sources: tuple[str, ...]

    @classmethod
    def of(cls, node: Node) -> NodeLine:
        types = ", ".join(map(str, node.avals))
        sources = tuple(dict.fromkeys(map(str, node.sources)))
        return cls(node.id, node.op.name, node.name, types, sources)


@dataclass(frozen=True)
class Kernel:
    """A step in machine code.

    Attributes:
        kind: `"loop"`, or what else does it, such as `"matmul"`.
        nodes: what it computes.
        space: what it runs over.
        order: its loops from the outermost to the innermost, and how many elements go at once.
        read, written: bytes; what is read several times counts once.
        flops: additions, multiplications, divisions, square roots; of a product-and-sum two.
    """

    kind: str
    nodes: tuple[NodeLine, ...]
    space: Shape
    order: str
    read: int
    written: int
    flops: int

    @property
    def bound(self) -> str:
        """What limits it, by the operations for each byte: `"memory"` or `"compute"`."""
        return "compute" if self.flops > BALANCE * (self.read + self.written) else "memory"


@dataclass(frozen=True)
class Island:
    """A step that is a call back into the reference, and why."""

    node: NodeLine
    reason: str


@dataclass(frozen=True)
class Stay:
    """The stay of a value in the workspace.

    Attributes:
        node: the value; None for the scratch memory of single steps.
        offset, size: where, in bytes.
        first, last: the steps between which it is in use.
    """

    node: NodeLine | None
    offset: int
    size: int
    first: int
    last: int


@dataclass(frozen=True)
class Memory:
    """The memory of one run, in bytes.

    Attributes:
        arguments, constants: what is read where it lies.
        results: of each call, but for those that take the memory of donated arguments.
        workspace: what the values between take together, allocated once for all calls that do not
            overlap in time.
        unshared: what they would take if none shared memory with another.
        stays: which value lies where in it.
    """

    arguments: int
    constants: int
    results: int
    workspace: int
    unshared: int
    stays: tuple[Stay, ...]

    @property
    def peak(self) -> int:
        """What a call needs besides its arguments: results and workspace."""
        return self.results + self.workspace


@dataclass(frozen=True)
class Plan:
    """What a backend made of a graph.

    Attributes:
        backend: its name.
        steps: in the order in which they run.
        memory: None where nothing is planned.
        remark: what else must be known.
    """

    backend: str
    steps: tuple[Kernel | Island, ...] = ()
    memory: Memory | None = None
    remark: str = ""

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return tuple(step for step in self.steps if isinstance(step, Kernel))

    @property
    def islands(self) -> tuple[Island, ...]:
        return tuple(step for step in self.steps if isinstance(step, Island))


@dataclass(frozen=True)
class Limits:
    """What this machine can do, as measured on one of its cores.

    Attributes:
        near, far: bytes a second, of values that stay in the core's caches and of others.
        wide, narrow: operations a second in float64 and in float32.
    """

    near: float
    far: float
    wide: float
    narrow: float


@dataclass(frozen=True)
class Timing:
    """Seconds for each step of a plan, the best of several rounds, and what the machine can do."""

    seconds: Sequence[float]
    limits: Limits
