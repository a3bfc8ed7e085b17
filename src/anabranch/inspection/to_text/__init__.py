"""Reports as text: each kind of report has a module that lays it out on a page.

These modules read reports and know nothing of how they are made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anabranch.inspection.to_text import check, gradients, story, table, why
from anabranch.inspection.to_text.page import Line, Page

_RENDERERS: dict[str, Callable[[Any, Page], list[Line]]] = {
    "table": table.lines,
    "story": story.lines,
    "why": why.lines,
    "check": check.lines,
    "gradients": gradients.lines,
}


def lines_of(report: Any, page: Page) -> list[Line]:
    """The lines of a report on this page."""
    return _RENDERERS[report.view](report, page)
