"""A neutral report: plain data first, text and JSON made from it."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import IO, Any, ClassVar

from anabranch.inspection.to_text import lines_of
from anabranch.inspection.to_text.terminal import joined, page_for, rich_lines, write
from anabranch.inspection.trace import number


class Printed:
    """What a report has in common with the others: `str`, `data`, `to_json` and `print`.

    `str(report)` and `report.print()` are as wide as the terminal, 100 columns elsewhere. Inside a
    program that prints with `rich` a report is coloured by itself.
    """

    view: ClassVar[str]

    @property
    def data(self) -> dict[str, Any]:
        """The report as dicts, lists, texts and numbers."""
        return {"report": self.view, **plain(self)}

    def to_json(self) -> str:
        """The data as JSON; NaN and infinities are the texts "nan", "inf" and "-inf"."""
        return json.dumps(self.data, ensure_ascii=False, allow_nan=False, indent=1) + "\n"

    def print(self, file: IO[str] | None = None, *, color: str = "auto", digits: int = 4) -> None:
        """Write the report to a file, standard output by default.

        Args:
            file: where to.
            color: `"auto"` colours a terminal, and nothing where NO_COLOR is set; `"always"` and
                `"never"` do as they say.
            digits: significant digits of a number.
        """
        out = sys.stdout if file is None else file
        write(lines_of(self, page_for(out, digits)), out, color)

    def __str__(self) -> str:
        return joined(lines_of(self, page_for(sys.stdout)))

    def __rich_console__(self, console: Any, options: Any) -> Any:
        page = page_for(console.file, width=options.max_width)
        yield from rich_lines(lines_of(self, page))


def plain(value: Any) -> Any:
    """A record as what JSON knows; members that are None or hidden (`_x`) are left out."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    members = [field.name for field in dataclasses.fields(value) if not field.name.startswith("_")]
    pairs = {name.rstrip("_"): getattr(value, name) for name in members}
    return {name: plain(one) for name, one in pairs.items() if one is not None}
