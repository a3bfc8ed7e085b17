"""Look on while a program runs: the reports of the backward passes that it makes by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from anabranch.core.attention import attention
from anabranch.core.bind import state
from anabranch.core.graph import Graph
from anabranch.core.guard import bare
from anabranch.core.source import user_frame
from anabranch.frontends.execution import Program
from anabranch.frontends.tensor import Tensor
from anabranch.inspection.eager import recorded_walk
from anabranch.inspection.graphs import recorded_run
from anabranch.inspection.history import STEPS, History
from anabranch.inspection.record import Record
from anabranch.inspection.report import Report


class Watch:
    """What has been seen so far.

    Attributes:
        count: how many derivatives were taken.
        report: on the newest of them, or on the one that was asked for; None if there is none.
    """

    def __init__(self, step: int | None, detail: str) -> None:
        self.count = 0
        self.report: Report | None = None
        self._step = step
        self._detail = detail
        self._history = History()

    def pulled(self, outputs: Sequence[Any], start: dict[Any, Any], sources: Sequence[Any]) -> None:
        """A backward pass is about to start from these cotangents."""
        roots = [one for one in outputs if isinstance(one, Tensor)]
        if roots and self._is_wanted():
            cts = {key: bare(ct) for key, ct in start.items()}
            with state.changed(onlooker=None, guard=None, door=None):
                self._keep(recorded_walk(roots, cts, sources=sources, frame=user_frame()))

    def runs(self, program: Program, arguments: Sequence[Any]) -> None:
        """A compiled graph is about to run; it counts if it computes derivatives."""
        graph = program.graph  # as built: passes make forward nodes of some of a gradient's
        if any(node.origin is not None for node in graph.nodes) and self._is_wanted():
            backward = None if _starts_with_a_value(graph) else False
            with state.changed(onlooker=None, guard=None, door=None):
                self._keep(recorded_run(program, arguments, backward=backward))

    def _is_wanted(self) -> bool:
        self.count += 1
        return self._step is None or self._step - STEPS < self.count <= self._step

    def _keep(self, record: Record) -> None:
        self.report = None  # what nothing else holds of the pass before ends here
        self._history.note(record)
        if self._step in (None, self.count):
            self.report = Report(record, self._detail)


def _starts_with_a_value(graph: Graph) -> bool:
    """Whether the first result was computed going forward, and gradients come with it."""
    first, *others = graph.outputs
    is_forward = bool(first.node.inputs) and first.node.origin is None
    return is_forward and any(edge.node.origin is not None for edge in others)


@contextmanager
def watching(step: int | None = None, detail: str = "full") -> Iterator[Watch]:
    """Record the derivatives that the block takes in this thread, by whatever function.

    The program's own results have the same bits as without; each recorded pass is made twice.

    Args:
        step: report on this one, counted from 1; without it each is recorded and the newest kept.
        detail: as for `ab.inspect`.

    Example:
        >>> import anabranch as ab
        >>> from anabranch.inspection.watching import watching
        >>> x = ab.tensor(2.0, requires_grad=True)
        >>> with watching() as seen:
        ...     _ = (x * x).backward()
        >>> seen.count, seen.report
        (1, <report on x²: 2 nodes>)
    """
    watch = Watch(step, detail)
    with attention(), state.changed(onlooker=watch):
        yield watch
