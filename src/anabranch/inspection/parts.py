"""The parts of a trace, as plain data: see `schema.json` for what each member means."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any


def held(label: str) -> str:
    """A label as a part of an expression: one that is an expression itself goes into brackets."""
    own = re.sub(r" #\d+$", "", label)  # without the number that tells it from its namesakes
    return f"({label})" if re.search(r"[-+*/@%<>=&|^, ]", own) else label


@dataclass(slots=True)
class Summary:
    """A value in short: `v` of a scalar or of up to 64 elements, else numbers about it.

    Attributes:
        v: the number, or nested lists of them.
        n, nan, inf, zero, negative: how many elements there are, and how many of each kind.
        min, max, mean, std, norm: of the finite elements.
        first: the index of the first element that is not finite.
        hist: `{"lo", "hi", "bins"}` of the finite elements, at most 32 bins.
        grid: `{"rows", "cols", "mean"}`, at most 24 by 24 block means of the last two axes.
    """

    v: Any = None
    n: int | None = None
    nan: int | None = None
    inf: int | None = None
    zero: int | None = None
    negative: int | None = None
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    std: float | None = None
    norm: float | None = None
    first: list[int] | None = None
    hist: dict[str, Any] | None = None
    grid: dict[str, Any] | None = None

    def flat(self) -> list[Any] | None:
        """The elements of `v` in order; None where it was left out."""
        if self.v is None:
            return None
        found, pending = [], [self.v]
        while pending:
            one = pending.pop()
            if isinstance(one, list):
                pending += reversed(one)
            else:
                found.append(one)
        return found


@dataclass(slots=True)
class Source:
    """Lines of a source file: the used ones and three around them."""

    file: str
    first: int
    text: list[str]


@dataclass(slots=True)
class Scope:
    """A named part of the program; scope 0 is all of it."""

    id: int
    name: str
    parent: int | None = field(metadata={"nullable": True})
    kind: str | None = None
    call: int | None = None


@dataclass(slots=True)
class Output:
    """One output of a node that has several."""

    shape: list[int]
    dtype: str
    value: Summary | None = None
    grad: Summary | None = None


@dataclass(slots=True)
class Origin:
    """For a node of a gradient's graph: the edge of the forward graph whose rule made it."""

    op: str
    slot: int
    node: int | None = None
    name: str | None = None


@dataclass(slots=True)
class Node:
    """One value of the program and how it came about; see `schema.json` for each member."""

    id: int
    op: str
    shape: list[int]
    dtype: str
    name: str | None = None
    scope: int | None = None
    formula: str | None = None
    args: dict[str, Any] | None = None
    requires_grad: bool | None = None
    value: Summary | None = None
    grad: Summary | None = None
    held: Summary | None = None
    steps: list[float] | None = None
    kept_for: list[int] | None = None
    outputs: list[Output] | None = None
    origin: Origin | None = None
    was: list[int] | None = None
    rule: str | None = None
    bytes: int | None = None
    seconds: float | None = None
    at: list[int] | None = None

    @property
    def ports(self) -> list[Node | Output]:
        """Its outputs; of most nodes that is the node itself."""
        return [*self.outputs] if self.outputs else [self]

    @property
    def grads(self) -> list[Summary]:
        """The gradients that arrived, of any output."""
        return [one.grad for one in self.ports if one.grad is not None]

    @property
    def label(self) -> str:
        """The name, or `#3`."""
        return self.name or f"#{self.id}"

    @property
    def type(self) -> str:
        """`float64 (2, 3)`, or `float64` for a scalar."""
        return f"{self.dtype} {tuple(self.shape)}" if self.shape else self.dtype

    @property
    def is_leaf(self) -> bool:
        """Whether it was given and not computed."""
        return self.op in ("input", "parameter", "constant")


@dataclass(slots=True)
class Local:
    """The local derivative on an edge: its number or what is known of it, and its rule as text."""

    v: float | None = None
    text: str | None = None
    value: Summary | None = None
    gain: float | None = None
    summed: list[int] | None = None


@dataclass(slots=True)
class Edge:
    """Output `out` of node `from_`, read by input `slot` of node `to`."""

    from_: int
    to: int
    slot: int
    out: int | None = None
    local: Local | None = None
    contribution: Summary | None = None
    absorbed: int | None = None


@dataclass(slots=True)
class Order:
    """The order of computing; backward: the nodes whose rule ran, as they ran."""

    forward: list[int]
    backward: list[int]


@dataclass(slots=True)
class Check:
    """One derivative against central differences."""

    node: int
    analytic: float
    numeric: float
    ok: bool
    index: list[int] | None = None
    abs: float | None = None
    tolerance: float | None = None
    eps: float | None = None
    skipped: str | None = None


@dataclass(slots=True)
class Evidence:
    """One fact of a proof: a label as the user would write it, and a number or a summary."""

    label: str
    v: Any = None
    summary: Summary | None = None
    node: int | None = None
    index: list[int] | None = None
    note: str | None = None


@dataclass(slots=True)
class Share:
    """One edge's share of a gradient: upstream times local derivative; out: of which output."""

    edge: int
    through: int
    out: int | None = None
    upstream: Summary | None = None
    local: Local | None = None
    amount: Summary | None = None


@dataclass(slots=True)
class Path:
    """Nodes from the asked value to the root.

    Attributes:
        nodes: their ids, the asked one first.
        factors: for scalars, the local derivatives of each step (several for parallel edges).
        product: the product of the sums of the factors.
        edges: how many ways by single edges there are along these nodes.
    """

    nodes: list[int]
    factors: list[list[float]] | None = None
    product: float | None = None
    edges: int | None = None


@dataclass(slots=True)
class Step:
    """A station between the root and the asked value, with the norm of its gradient."""

    node: int
    grad: float | None = None
    edge: int | None = None
    at_fault: bool | None = None


@dataclass(slots=True)
class Answer:
    """One of the fixed questions about a gradient, answered with evidence."""

    question: str
    yes: bool
    evidence: str


@dataclass(slots=True)
class Finding:
    """What was found about a value and why, with its proof; also the answer of `why`.

    Attributes:
        kind, cause: from the closed lists of `schema.json`.
        about: the node that was asked about or that suffers.
        node, edge, index: where the cause sits: the producer, the edge, the first bad element.
        phase: `"forward"` or `"backward"`.
        element: the element of `about` that was asked about.
        text: the reason in one sentence; hint: a way out.
        bad, of: how many elements are concerned.
        proof: facts that show it.
        shares, paths, more_paths: how the gradient came about.
        steps: the way from the root to `about`, the step at fault marked.
        becomes: the node where an infinity first turned into NaN.
        reaches: the nodes that carry it on; reaches_root: whether the root is among them.
        answers: the fixed questions of a zero gradient.
    """

    kind: str
    about: int | None = None
    node: int | None = None
    phase: str | None = None
    cause: str | None = None
    edge: int | None = None
    index: list[int] | None = None
    text: str | None = None
    hint: str | None = None
    bad: int | None = None
    of: int | None = None
    proof: list[Evidence] | None = None
    shares: list[Share] | None = None
    paths: list[Path] | None = None
    more_paths: int | None = None
    steps: list[Step] | None = None
    becomes: int | None = None
    reaches: list[int] | None = None
    reaches_root: bool | None = None
    answers: list[Answer] | None = None
    element: list[int] | None = None


@dataclass(slots=True)
class Frame:
    """A frame of a hand-made story."""

    kind: str
    node: int
    title: str | None = None
    text: str | None = None


@dataclass(slots=True)
class Note:
    """Something to know about the recording, as a sentence."""

    kind: str
    text: str
    node: int | None = None
