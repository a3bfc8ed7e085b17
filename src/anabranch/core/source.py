"""Where the user wrote it: kept raw while graphs are built, resolved only to be printed."""

from __future__ import annotations

import linecache
import opcode
import sys
import warnings
from itertools import islice
from types import CodeType, FrameType
from typing import NamedTuple

from anabranch.core.once import once
from anabranch.core.record import record
from anabranch.errors import is_library_file


class Place(NamedTuple):
    """A source position in words; columns count characters, and are 0 where they are not known."""

    file: str
    line: int
    function: str = "<module>"
    start: int = 0
    end: int = 0


class RawSource(NamedTuple):
    """A code object and the offset of the instruction that was running in it.

    Where the code cannot be, in a graph that was loaded from a file, its words stand for it.
    """

    code: CodeType | Place
    offset: int


class _LibraryFiles(dict[str, bool]):
    """Remembers for each file name whether it belongs to the library."""

    def __missing__(self, filename: str) -> bool:
        answer = self[filename] = is_library_file(filename)
        return answer


_is_library = _LibraryFiles()
# One object for each position that runs often; it holds the code, so that no id is used twice.
_positions: dict[tuple[int, int], RawSource] = {}


def _remembered(code: CodeType, offset: int) -> RawSource:
    if len(_positions) >= 4096:
        _positions.clear()
    found = _positions[id(code), offset] = RawSource(code, offset)
    return found


def user_frame() -> FrameType | None:
    """The innermost running frame that is not the library's own."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_library[frame.f_code.co_filename]:
        frame = frame.f_back
    return frame


def warn(sentence: str) -> None:
    """A RuntimeWarning at the user's running line."""
    frame = user_frame()
    if frame is None:
        warnings.warn(sentence, RuntimeWarning, stacklevel=2)
        return
    names = frame.f_globals
    seen = names.setdefault("__warningregistry__", {})
    file, name = frame.f_code.co_filename, names.get("__name__")
    warnings.warn_explicit(sentence, RuntimeWarning, file, frame.f_lineno, name, seen)


def capture(skip: int = 1) -> RawSource | None:
    """The innermost running line that is not the library's own; None if there is none.

    The first `skip` frames, this one counted, are the library's for sure.
    """
    frame: FrameType | None = sys._getframe(skip)
    while frame is not None:
        code = frame.f_code
        if not _is_library[code.co_filename]:
            offset = frame.f_lasti
            found = _positions.get((id(code), offset))
            return found or _remembered(code, offset)
        frame = frame.f_back
    return None


_STORE_ITEM = opcode.opmap["STORE_SUBSCR"]


def is_item_assignment() -> bool:
    """Whether the user's running instruction is `target[index] = value`."""
    raw = capture()
    if raw is None or isinstance(raw.code, Place):
        return False
    return raw.code.co_code[raw.offset] == _STORE_ITEM


def place_of(raw: RawSource) -> Place:
    """The position in words."""
    code, offset = raw
    if isinstance(code, Place):
        return code
    file, function = code.co_filename, code.co_qualname
    found = next(islice(code.co_positions(), offset // 2, None), (None,) * 4)
    line, end_line, start, end = found
    if line is None:
        return Place(file, code.co_firstlineno, function)
    if start is None or end is None or end_line != line:
        return Place(file, line, function)
    # Columns count UTF-8 bytes; what is underlined is counted in characters.
    data = linecache.getline(file, line).encode()
    return Place(file, line, function, len(data[:start].decode()), len(data[:end].decode()))


@record
class Source:
    """One resolved source position: file, line, columns and the function it stands in."""

    raw: RawSource

    @once
    def place(self) -> Place:
        return place_of(self.raw)

    @property
    def file(self) -> str:
        return self.place.file

    @property
    def line(self) -> int:
        return self.place.line

    @property
    def function(self) -> str:
        return self.place.function

    @property
    def text(self) -> str:
        """The source line, stripped; empty when the file cannot be read."""
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        return f"{self.file.replace(chr(92), '/').rsplit('/', 1)[-1]}:{self.line}"

    def block(self) -> str:
        """File, line and function, then the line itself with its expression underlined."""
        where = "" if self.function == "<module>" else f", in {self.function}"
        head = f"  {self}{where}"
        raw = linecache.getline(self.file, self.line).rstrip()
        if not raw:
            return head
        start, end = self.place.start, self.place.end
        indent = len(raw) - len(raw.lstrip())
        number = str(self.line).rjust(6)
        body = f"{head}\n{number} | {raw[indent:]}"
        if end > start >= indent:
            body += f"\n{' ' * 6} | {' ' * (start - indent)}{'^' * (end - start)}"
        return body


def resolve(raw: RawSource | None) -> Source | None:
    """The printable form of a raw source; None stays None."""
    return None if raw is None else Source(raw)
