"""What users hold: one report of a recorded run, from which every view of it is asked."""

from __future__ import annotations

import sys
from functools import cached_property
from pathlib import Path
from typing import Any

from anabranch.core.entry import boundary
from anabranch.errors import ArgumentError
from anabranch.frontends.tensor import Tensor
from anabranch.inspection.build import Builder
from anabranch.inspection.eager import recorded_tensors
from anabranch.inspection.record import Record
from anabranch.inspection.trace import Trace
from anabranch.inspection.views import Views

DETAILS = ("full", "summary", "shape")


class Report(Views):
    """A recorded run and what there is to see in it; made by `ab.inspect`.

    Attributes:
        trace: the run as plain data, which all views are made from.
        record: the arrays of the run; None for a report that was read from a file.
    """

    def __init__(self, record: Record | None, detail: str = "full", trace: Trace | None = None):
        self.record = record
        self._detail = detail
        self._given = trace

    @cached_property
    def trace(self) -> Trace:
        if self._given is not None:
            return self._given
        assert self.record is not None
        return Builder(self.record, self._detail).made()

    def save(self, path: str | Path) -> Path:
        """Write the trace as a file, `name.trace.json` by custom; `ab.load_report` reads it."""
        target = Path(path)
        target.write_text(self.trace.to_json(), encoding="utf-8")
        return target

    def __repr__(self) -> str:
        return f"<report on {self.trace.title}: {len(self.trace.nodes)} nodes>"


@boundary
def inspect(
    subject: Any,
    *args: Any,
    ct: Any = None,
    backward: bool = True,
    detail: str = "full",
    **kwargs: Any,
) -> Report:
    """Look at a run."""
    if detail not in DETAILS:
        raise ArgumentError("bad-argument", f"detail is {', '.join(DETAILS)}, not {detail!r}")
    frame = sys._getframe(2)
    if isinstance(subject, Tensor):
        return Report(recorded_tensors([subject], ct, backward, frame), detail)
    raise ArgumentError("not-a-tensor", f"a {type(subject).__name__} records nothing")
