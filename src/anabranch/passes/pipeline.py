"""Passes in order, by name or as functions, with a report of what each did."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from anabranch.core.graph import Graph
from anabranch.core.record import record
from anabranch.errors import ArgumentError
from anabranch.passes.algebraic import algebra
from anabranch.passes.folding import fold
from anabranch.passes.merging import merge
from anabranch.passes.parts import inside
from anabranch.passes.pruning import prune
from anabranch.passes.rewrite import Pass
from anabranch.passes.stability import stabilise

PASSES: dict[str, Pass] = {
    function.__name__: function for function in (prune, merge, fold, algebra, stabilise)
}
# What changes no bit. `stabilise` is for before differentiation.
DEFAULT = ("prune", "fold", "algebra", "merge", "prune")


@record
class PassReport:
    """What one pass did: its name, node counts before and after, and a line for each change."""

    name: str
    before: int
    after: int
    changes: tuple[str, ...]

    def __str__(self) -> str:
        head = f"{self.name}: {self.before} nodes to {self.after}"
        return "\n".join([head, *(f"  {change}" for change in self.changes)])


def chosen(
    passes: str | Sequence[str | Pass] | None = None, without: str | Collection[str] = ()
) -> tuple[str | Pass, ...]:
    """These passes, by default `DEFAULT`, less those named in `without`.

    Raises:
        ArgumentError: `[unknown-pass]`.
    """
    wanted = DEFAULT if passes is None else (passes,) if isinstance(passes, str) else passes
    dropped = {without} if isinstance(without, str) else set(without)
    for one in (*wanted, *dropped):
        if isinstance(one, str) and one not in PASSES:
            raise ArgumentError(
                "unknown-pass", f"no pass is named {one!r}; known passes: {', '.join(PASSES)}"
            )
    return tuple(one for one in wanted if name_of(one) not in dropped)


def name_of(one: str | Pass) -> str:
    """What reports call a pass."""
    return one if isinstance(one, str) else getattr(one, "__name__", type(one).__name__)


def run_passes(
    graph: Graph,
    passes: str | Sequence[str | Pass] | None = None,
    *,
    without: str | Collection[str] = (),
) -> tuple[Graph, tuple[PassReport, ...]]:
    """The graph after these passes (by default `DEFAULT`), and their reports.

    It is the very graph that was given where no pass finds anything to do. Each pass runs on the
    parts that nodes hold first, then on the graph.

    Raises:
        ArgumentError: `[unknown-pass]`.

    Example:
        >>> import anabranch as ab
        >>> from anabranch.passes.pipeline import run_passes
        >>> graph = ab.trace(lambda x: (x * 1.0 + 0.5) * (x + 0.5), 2.0)
        >>> optimised, reports = run_passes(graph)
        >>> print(optimised)
        graph "<lambda>": 3 nodes, 1 parameter
        #0 parameter "x" : f64[] weak
        #1 add(#0, 0.5) : f64[]
        #2 multiply(#1, #1) : f64[]
        outputs #2
        >>> [report.name for report in reports if report.changes]
        ['algebra', 'merge']
    """
    reports = []
    for one in chosen(passes, without):
        function = PASSES[one] if isinstance(one, str) else one
        entered, within = inside(graph, function)
        rewrite = function(entered)
        changes = (*within, *rewrite.report)
        reports.append(PassReport(name_of(one), len(graph), len(rewrite.graph), changes))
        graph = rewrite.graph
    return graph, tuple(reports)
