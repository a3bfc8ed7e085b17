"""A recorded run with its trace, which every view and picture of it is made from."""

from __future__ import annotations

from anabranch.core.once import once
from anabranch.inspection.build import Builder
from anabranch.inspection.record import Record
from anabranch.inspection.trace import Trace


class Traced:
    """What a report is made from: a record, or a trace that was read from a file."""

    def __init__(self, record: Record | None, detail: str = "full", trace: Trace | None = None):
        self.record = record
        self._detail = detail
        self._given = trace

    @once
    def trace(self) -> Trace:
        if self._given is not None:
            return self._given
        assert self.record is not None
        return Builder(self.record, self._detail).made()
