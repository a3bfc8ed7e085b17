"""Look on while a program runs: the reports of the backward passes that it makes by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

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
        graph = program.optimised
        if any(node.origin is not None for node in graph.nodes) and self._is_wanted():
            with state.changed(onlooker=None, guard=None, door=None):
                record = None
                first = graph.outputs[0].node
                if first.inputs and first.origin is None:  # it was computed going forward
                    record = recorded_run(program, arguments)
                if record is None or not _brings_what_it_returns(record, graph):
                    record = recorded_run(program, arguments, backward=False)
                self._keep(record)

    def _is_wanted(self) -> bool:
        self.count += 1
        return self._step is None or self._step - STEPS < self.count <= self._step

    def _keep(self, record: Record) -> None:
        self.report = None  # what nothing else holds of the pass before ends here
        self._history.note(record)
        if self._step in (None, self.count):
            self.report = Report(record, self._detail)


def _brings_what_it_returns(record: Record, graph: Graph) -> bool:
    """Whether the walk back from the first result gave the gradients that the graph returns."""
    leaves = [entry.grads[0] for entry in record.entries if entry.is_leaf and entry.grads]
    for edge, (number, output) in zip(graph.outputs, record.roots, strict=True):
        values = record.entries[number].values
        if edge.node.origin is not None and values is not None:
            told = values[output]
            if not any(one is not None and _agree(one, told) for one in leaves):
                return False
    return True


def _agree(a: Any, b: Any) -> bool:
    return np.shape(a) == np.shape(b) and np.allclose(a, b, 1e-5, 0.0, equal_nan=True)


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
