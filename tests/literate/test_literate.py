"""The pages here are programs with what they print, errors included, to the letter.

A ```python block is run with its own lines; the ```text block after it is what it prints and, if
it fails, the error as a traceback ends. UPDATE_LITERATE=1 writes what came out into the pages.
"""

import contextlib
import io
import linecache
import os
import re
import traceback
from pathlib import Path
from typing import Any

import pytest

import anabranch as ab
from anabranch.core.registry import temporary_ops
from anabranch.errors import is_library_file

HERE = Path(__file__).parent
PAGES = sorted(HERE.glob("*.md"))
BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<text>.*?)^```\n)?", re.M | re.S
)


def run(code: str, line: int, page: Path, names: dict[str, Any]) -> str:
    """What this block prints; an error of the library is checked for its frames and printed."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            # Blank lines in front give the code the line numbers that it has in the page.
            exec(compile("\n" * line + code, str(page), "exec"), names)
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            shown = [f for f in frames if is_library_file(f.filename)]
            assert len(shown) <= 1, f"{page.name}:{line}: {shown}"
            if not isinstance(error, ab.AnabranchError):
                assert shown == [], f"{page.name}:{line}: a raw {type(error).__name__}"
            out.write("".join(traceback.format_exception_only(error)))
    return out.getvalue()


def as_it_runs(page: Path, source: str) -> str:
    """The page with what its blocks print today."""
    linecache.checkcache(str(page))
    names: dict[str, Any] = {"__name__": page.stem}
    parts, end = [], 0
    for match in BLOCK.finditer(source):
        line = source.count("\n", 0, match.start("code"))
        printed = run(match["code"], line, page, names)
        stop = match.end("code")
        parts.append(source[end:stop] + "```\n")
        if printed:
            parts.append(f"\n```text\n{printed}```\n")
        end = match.end()
    return "".join([*parts, source[end:]])


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_a_page_prints_what_it_says(page: Path) -> None:
    with temporary_ops():
        found = as_it_runs(page, page.read_text(encoding="utf-8"))
    if os.environ.get("UPDATE_LITERATE"):
        for _ in range(3):  # a text of another length moves the lines below it
            page.write_text(found, encoding="utf-8")
            with temporary_ops():
                found = as_it_runs(page, found)
    assert found == page.read_text(encoding="utf-8")


def test_there_are_pages_with_output() -> None:
    texts = [m["text"] for page in PAGES for m in BLOCK.finditer(page.read_text(encoding="utf-8"))]
    assert sum(text is not None for text in texts) >= 20
