"""Watching a program that somebody else wrote: its backward passes are recorded as they happen."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from anabranch.errors import AnabranchError, is_library_file
from anabranch.frontends.engine import watched
from anabranch.frontends.tensor import Tensor
from anabranch.inspection.eager import recorded_tensors
from anabranch.inspection.record import Record


class Passes:
    """The backward passes that were seen.

    Attributes:
        count: how many.
        record: of the wanted one, or of the newest if none is wanted in particular.
    """

    def __init__(self, step: int | None) -> None:
        self.count = 0
        self.record: Record | None = None
        self._step = step

    def __call__(self, root: Any, ct: Any) -> None:
        self.count += 1
        if not isinstance(root, Tensor) or self._step not in (None, self.count):
            return
        try:
            # Recorded before the program's own walk, which may free what it passes.
            self.record = recorded_tensors([root], ct, True, _user_frame())
        except AnabranchError:
            self.record = None  # the program's own pass will say the same, and to its user


@contextmanager
def watching(step: int | None = None) -> Iterator[Passes]:
    """Record the eager backward passes of the block: the last one, or the one of this number.

    A program runs as it would without being watched, only slower; each pass is walked twice.

    Example:
        >>> import anabranch as ab
        >>> from anabranch.inspection.watch import watching
        >>> x = ab.tensor(2.0, requires_grad=True)
        >>> with watching() as seen:
        ...     _ = (x * x).backward()
        >>> seen.count, len(seen.record.entries)
        (1, 2)
    """
    seen = Passes(step)
    with watched(seen):
        yield seen


def _user_frame() -> FrameType | None:
    """The innermost frame that is not the library's: its variables name values."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_library_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame
