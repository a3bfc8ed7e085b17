"""What users hold: one report of a recorded run, from which every view of it is asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from anabranch.core.entry import boundary
from anabranch.inspection.explanation import Explanation, explained
from anabranch.inspection.pictures import Pictures
from anabranch.inspection.reader import read
from anabranch.inspection.views import Views


class Report(Views, Pictures):
    """A recorded run and what there is to see in it; made by `ab.inspect`.

    Attributes:
        trace: the run as plain data, which all views are made from.
        record: the arrays of the run; None for a report that was read from a file.
    """

    @classmethod
    @boundary
    def load(cls, path: str | Path) -> Report:
        """The report of a trace file, or of a page that carries one.

        Raises:
            TraceFileError: `[bad-trace]` or `[newer-trace]`; nothing in the file is run.
        """
        return cls(None, trace=read(path))

    @boundary
    def why(
        self,
        name: str | None = None,
        *,
        index: Sequence[int] | None = None,
        phase: str | None = None,
    ) -> Explanation:
        """How a value's gradient came about, or why it is zero, missing or not finite.

        Args:
            name: what the value is called, or `"#3"`; without it, the first thing that is wrong.
            index: one element of it, as `[2, 0]`: what came over each edge there.
            phase: `"forward"` asks how the value was computed, or for the first bad value;
                `"backward"` for the gradient alone, or the first bad one.

        Raises:
            ArgumentError: `[unknown-name]`, or `[ambiguous-name]` where several values have it;
                `[bad-argument]`; `[not-recorded]` for an element that a file does not list.
            OutOfRangeError: `[index-out-of-range]`.

        Example:
            >>> import anabranch as ab
            >>> answer = ab.inspect(lambda x, y: (x * y + x) ** 2, 2.0, 3.0).why("x")
            >>> [share.amount.v for share in answer.finding.shares]
            [16.0, 48.0]
            >>> print(str(answer).splitlines()[0])
            x   gradient 64 = 16 + 48
        """
        return explained(self.trace, name, index=index, phase=phase, record=self.record)

    def save(self, path: str | Path) -> Path:
        """Write the trace as a file, by custom `name.trace.json`; `Report.load` reads it back.

        Example:
            >>> import anabranch as ab, tempfile, pathlib
            >>> x = ab.tensor(3.0, requires_grad=True, name="x")
            >>> where = pathlib.Path(tempfile.mkdtemp(), "square.trace.json")
            >>> ab.Report.load(ab.inspect(x * x).save(where)).trace.nodes[0].grad.v
            6
        """
        target = Path(path)
        target.write_text(self.trace.to_json(), encoding="utf-8")
        return target

    def __repr__(self) -> str:
        return f"<report on {self.trace.title}: {len(self.trace.nodes)} nodes>"
