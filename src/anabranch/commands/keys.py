"""Keys of a terminal, one at a time; the terminal is given back as it was, whatever happens."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

if sys.platform == "win32":
    import msvcrt
else:
    import select
    import termios
    import tty

_PAUSE = 0.05  # seconds in which the rest of an escape sequence arrives, if there is one
_POSIX = {
    b"\x1b[C": "next", b"\x1bOC": "next", b"\x1b[B": "next", b"\x1bOB": "next", b" ": "next",
    b"\r": "next", b"\n": "next", b"l": "next", b"j": "next", b"\x1b[6~": "next",
    b"\x1b[D": "back", b"\x1bOD": "back", b"\x1b[A": "back", b"\x1bOA": "back", b"h": "back",
    b"k": "back", b"\x7f": "back", b"\x1b[5~": "back",
    b"\x1b[H": "first", b"\x1bOH": "first", b"\x1b[1~": "first", b"\x1b[7~": "first", b"g": "first",
    b"\x1b[F": "last", b"\x1bOF": "last", b"\x1b[4~": "last", b"\x1b[8~": "last", b"G": "last",
    b"q": "quit", b"Q": "quit", b"\x1b": "quit", b"\x04": "quit", b"": "quit",
}  # fmt: skip
_WINDOWS = {
    "\xe0M": "next", "\xe0P": "next", " ": "next", "\r": "next", "\xe0K": "back", "\xe0H": "back",
    "\x08": "back", "\xe0G": "first", "\xe0O": "last", "q": "quit", "Q": "quit", "\x1b": "quit",
}  # fmt: skip


@contextmanager
def keys(file: Any) -> Iterator[Callable[[], str]]:
    """In the block, a function that waits for a key: next, back, first, last, quit, or ''.

    A terminal that has gone away answers `quit`. Ctrl-C raises KeyboardInterrupt as ever.
    """
    if sys.platform == "win32":
        yield _windows_key
        return
    fd = file.fileno()
    before = termios.tcgetattr(fd)
    try:
        tty.setcbreak(fd, termios.TCSADRAIN)
        yield lambda: _POSIX.get(_sequence(fd), "")
    finally:
        with suppress(termios.error):  # it is gone
            termios.tcsetattr(fd, termios.TCSADRAIN, before)


if sys.platform == "win32":

    def _windows_key() -> str:
        letter = msvcrt.getwch()
        if letter == "\x03":
            raise KeyboardInterrupt
        if letter in "\x00\xe0":  # the first half of a key without a letter
            letter = "\xe0" + msvcrt.getwch()
        return _WINDOWS.get(letter, "")

else:

    def _sequence(fd: int) -> bytes:
        """One key: a byte, or an escape sequence whole."""
        try:
            found = os.read(fd, 1)
            while found[:1] == b"\x1b" and len(found) < 8 and not _is_whole(found):
                if not select.select([fd], [], [], _PAUSE)[0]:
                    break
                more = os.read(fd, 1)
                if not more:
                    break
                found += more
        except OSError:  # the terminal is gone
            return b""
        return found


def _is_whole(found: bytes) -> bool:
    """Whether an escape sequence has its last byte."""
    if len(found) < 3 or found[1:2] not in b"[O":
        return len(found) >= 2 and found[1:2] not in b"[O"
    return 0x40 <= found[-1] <= 0x7E
