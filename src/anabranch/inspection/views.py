"""What is asked of a report in words: its table, its story, its gradients, their check."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.core.entry import boundary
from anabranch.errors import ArgumentError
from anabranch.inspection.checked import Checked, checked
from anabranch.inspection.gradients import Gradients, gradients
from anabranch.inspection.story import Story, story
from anabranch.inspection.table import Table, table
from anabranch.inspection.traced import Traced


class Views(Traced):
    """The views of a report as text and data; each prints itself and gives `data`, `to_json`."""

    @boundary
    def table(
        self,
        *,
        edges: bool = False,
        where: str = "",
        sort: str | None = None,
        rows: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> Table:
        """The nodes, or the edges, one a row.

        Args:
            edges: whether to list edges.
            where: a query like `"op:matmul shape:64x* grad:0 value:nan line:12 scope:attn #7"`.
            sort: a column; numbers have the largest first.
            rows: at most so many rows.
            columns: some of `#`, name, op, shape, dtype, value, gradient, contributions, scope,
                line, bytes, seconds.

        Raises:
            ArgumentError: `[bad-query]`, `[unknown-column]`.

        Example:
            >>> import anabranch as ab
            >>> x = ab.tensor(3.0, requires_grad=True, name="x")
            >>> [row.op for row in ab.inspect(x * x).table().rows]
            ['input', 'multiply']
        """
        return table(self.trace, edges=edges, where=where, sort=sort, rows=rows, columns=columns)

    @boundary
    def story(
        self, *, scope: str | None = None, each_edge: bool = False, node: str | None = None
    ) -> Story:
        """The forward pass and the backward pass, frame by frame.

        Args:
            scope: tell only what happens inside this scope.
            each_edge: whether each contribution has a frame of its own.
            node: follow this value; the first input by default.

        Raises:
            ArgumentError: `[unknown-name]`, `[ambiguous-name]`.

        Example:
            >>> import anabranch as ab
            >>> x = ab.tensor(3.0, requires_grad=True, name="x")
            >>> [block.phase for block in ab.inspect(x * x).story().blocks]
            ['Forward', 'Forward', 'Backward', 'Backward', 'Result']
        """
        return story(self.trace, scope=scope, each_edge=each_edge, node=node)

    @boundary
    def grads(self, *, by: str = "parameter", depth: int = 1, sort: str | None = None) -> Gradients:
        """The gradients of what was given, with norms, shares of zeros, and what looks wrong.

        Args:
            by: `"parameter"`, or `"scope"` for sums.
            depth: of scopes, how deep.
            sort: `"grad"`, `"value"`, `"ratio"` or `"zero"`, the largest first.

        Example:
            >>> import anabranch as ab
            >>> x = ab.tensor([3.0, 4.0], requires_grad=True, name="x")
            >>> ab.inspect((x * x).sum()).grads().rows[0].grad
            10.0
        """
        return gradients(self.trace, by=by, depth=depth, sort=sort)

    @boundary
    def check(self, **options: Any) -> Checked:
        """The gradients beside central differences of the recorded program.

        Args:
            options: those of `check_gradients` that say how: method, directions, sample, atol,
                rtol, eps, seed, max_elements.

        Raises:
            ArgumentError: `[not-recorded]` for a report that was read from a file.

        Example:
            >>> import anabranch as ab
            >>> x = ab.tensor(3.0, requires_grad=True, name="x")
            >>> ab.inspect(x * x).check().ok
            True
        """
        if self.record is None:
            raise ArgumentError(
                "not-recorded",
                "a report from a file holds numbers only: nothing in it can be computed again",
                hint="check the program that wrote it",
            )
        return checked(
            self.record, [self.trace.label(node.id) for node in self.trace.nodes], **options
        )
