"""Every error the library raises, each with a stable code and the user's own line.

    AnabranchError                  base of all; never raised itself
    ├── ShapeError                  also ValueError
    ├── DTypeError                  also TypeError
    ├── ArgumentError               also TypeError
    ├── DomainError                 also ValueError
    ├── OutOfRangeError             also IndexError
    ├── GraphError                  also ValueError
    ├── TraceError                  also TypeError
    ├── NoGradientError             also NotImplementedError
    ├── FreedGraphError             also RuntimeError
    └── InternalError               also AssertionError: a fault of the library, never of the user

`str(error)` is the whole message: ``[code] sentence``, the source block, at most three facts and
one hint. The parts stay readable as attributes, so no tool has to parse the text.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

LIBRARY_ROOT = os.path.dirname(os.path.abspath(__file__)) + os.sep
# Programs that ship inside the package but write graphs like a user does.
_APPLICATIONS = tuple(LIBRARY_ROOT + name for name in ("demo.py", "cli.py"))


class Block(Protocol):
    """What an error needs of a source location: its printed block of lines."""

    def block(self) -> str: ...


class AnabranchError(Exception):
    """Base of all errors; carries `code`, `sentence`, `facts`, `hint`, `source` and `details`."""

    def __init__(
        self,
        code: str,
        sentence: str,
        *,
        facts: Iterable[str] = (),
        hint: str | None = None,
        source: Block | None = None,
        **details: Any,
    ) -> None:
        super().__init__(code, sentence)
        self.code = code
        self.sentence = sentence
        self.facts = tuple(facts)
        self.hint = hint
        self.source = source
        self.details = details

    def __str__(self) -> str:
        parts = [f"[{self.code}] {self.sentence}"]
        if self.source is not None and (block := self.source.block()):
            parts.append(block)
        tail = [f"  {fact}" for fact in self.facts[:3]]
        if self.hint:
            tail.append(f"  hint: {self.hint}")
        if tail:
            parts.append("\n".join(tail))
        return "\n\n".join(parts)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.code, str(self).removeprefix(f"[{self.code}] "))


def _rebuild(cls: type[AnabranchError], code: str, text: str) -> AnabranchError:
    # Source locations hold code objects, which do not pickle: the printed text travels instead.
    return cls(code, text)


class ShapeError(AnabranchError, ValueError):
    """Shapes that do not fit together, or a shape that does not fit an argument."""


class DTypeError(AnabranchError, TypeError):
    """A dtype for which the operation, or its derivative, has no meaning."""


class ArgumentError(AnabranchError, TypeError):
    """A wrong number, kind or name of arguments."""


class DomainError(AnabranchError, ValueError):
    """An argument's value lies outside what the function accepts."""


class OutOfRangeError(AnabranchError, IndexError):
    """An index or axis that the array does not have."""


class GraphError(AnabranchError, ValueError):
    """A graph was built, mixed, changed or compiled in a way that has no meaning."""


class TraceError(AnabranchError, TypeError):
    """A value that only exists when the graph runs was asked for while it is being built."""


class NoGradientError(AnabranchError, NotImplementedError):
    """A derivative was asked for that does not exist or is not written."""


class FreedGraphError(AnabranchError, RuntimeError):
    """Saved values were needed again after `backward(retain=False)` had freed them."""


class InternalError(AnabranchError, AssertionError):
    """The library broke its own rules; please report the printed graph."""


for _cls in [AnabranchError, *AnabranchError.__subclasses__()]:
    _cls.__module__ = "anabranch"  # how users name them, and what a traceback prints


def is_library_file(filename: str) -> bool:
    """Whether code of this file is the library's own (its demo program counts as a user)."""
    return filename.startswith(LIBRARY_ROOT) and not filename.startswith(_APPLICATIONS)


def trim(error: AnabranchError) -> AnabranchError:
    """Drop the library's frames from a traceback, so that only the user's own lines are shown."""
    if not show_full_traceback():
        error.__traceback__ = _user_frames(error.__traceback__)
    return error


def _user_frames(traceback: TracebackType | None) -> TracebackType | None:
    kept = []
    while traceback is not None:
        if not is_library_file(traceback.tb_frame.f_code.co_filename):
            kept.append(traceback)
        traceback = traceback.tb_next
    result: TracebackType | None = None
    for entry in reversed(kept):
        result = TracebackType(result, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return result


def show_full_traceback() -> bool:
    """Replaced by `core.config`, which knows the thread's options."""
    return False


def boundary(function: Callable[P, R]) -> Callable[P, R]:
    """Mark a public entry point: errors leave it with at most this one library frame."""

    @functools.wraps(function)
    def entry(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except AnabranchError as error:
            raise trim(error) from error.__cause__

    return entry
