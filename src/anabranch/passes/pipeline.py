"""Passes in order, by name or as functions, with a report of what each did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.core.graph import Graph
from anabranch.errors import ArgumentError
from anabranch.passes.merge import merge
from anabranch.passes.prune import prune
from anabranch.passes.rewrite import Pass

PASSES: dict[str, Pass] = {function.__name__: function for function in (prune, merge)}
DEFAULT = ("prune", "merge", "prune")


@dataclass(frozen=True)
class PassReport:
    """What one pass did: its name, node counts before and after, and a line for each change."""

    name: str
    before: int
    after: int
    changes: tuple[str, ...]

    def __str__(self) -> str:
        head = f"{self.name}: {self.before} nodes to {self.after}"
        return "\n".join([head, *(f"  {change}" for change in self.changes)])


def run_passes(graph: Graph, passes: Sequence[str | Pass]) -> tuple[Graph, tuple[PassReport, ...]]:
    """The graph after these passes, and their reports.

    Raises:
        ArgumentError: `[unknown-pass]`.
    """
    reports = []
    for one in passes:
        if isinstance(one, str) and one not in PASSES:
            raise ArgumentError(
                "unknown-pass", f"no pass is named {one!r}; known passes: {', '.join(PASSES)}"
            )
        function = PASSES[one] if isinstance(one, str) else one
        rewrite = function(graph)
        name = getattr(function, "__name__", type(function).__name__)
        reports.append(PassReport(name, len(graph), len(rewrite.graph), tuple(rewrite.report)))
        graph = rewrite.graph
    return graph, tuple(reports)
