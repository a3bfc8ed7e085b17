"""Every error the library raises, each with a stable code and the user's own line.

    AnabranchError                  base of all; never raised itself
    ├── ShapeError                  also ValueError
    ├── DTypeError                  also TypeError
    ├── ArgumentError               also TypeError
    ├── DomainError                 also ValueError
    ├── ExchangeError               also BufferError, ValueError: memory that cannot be shared
    ├── OutOfRangeError             also IndexError
    ├── GraphError                  also ValueError
    ├── TraceError                  also TypeError
    │   └── NoValueError            also AttributeError
    ├── NoGradientError             also NotImplementedError
    ├── FreedGraphError             also RuntimeError
    ├── StaleValueError             also RuntimeError
    ├── NonFiniteError              also FloatingPointError: NaN or infinity where none may be
    ├── TraceFileError              also ValueError
    ├── GradientCheckError          also AssertionError: a derivative that differences deny
    ├── MissingExtraError           also ImportError: an optional library is not installed
    └── InternalError               also AssertionError: a fault of the library, never of the user

`str(error)` is the whole message: ``[code] sentence``, the source block, at most three facts and
one hint. The parts stay readable as attributes, so no tool has to parse the text.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Protocol

LIBRARY_ROOT = os.path.dirname(os.path.abspath(__file__)) + os.sep
# Programs that ship inside the package but write graphs like a user does.
_APPLICATIONS = tuple(LIBRARY_ROOT + name for name in ("demo.py",))


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


class ExchangeError(AnabranchError, BufferError, ValueError):
    """Memory that cannot be shared, or lies elsewhere."""


class OutOfRangeError(AnabranchError, IndexError):
    """An index or axis that the array does not have."""


class GraphError(AnabranchError, ValueError):
    """A graph was built, mixed, changed or compiled in a way that has no meaning."""


class TraceError(AnabranchError, TypeError):
    """A value that only exists when the graph runs was asked for while it is being built."""


class NoValueError(TraceError, AttributeError):
    """A graph value was asked for an attribute of eager tensors; `hasattr` answers no."""


class NoGradientError(AnabranchError, NotImplementedError):
    """A derivative was asked for that does not exist or is not written."""


class FreedGraphError(AnabranchError, RuntimeError):
    """Saved values were needed again after `backward(retain=False)` had freed them."""


class StaleValueError(AnabranchError, RuntimeError):
    """A value that a derivative needs was changed after the forward pass."""


class NonFiniteError(AnabranchError, FloatingPointError):
    """A value that is not finite appeared under `ab.config(nonfinite="raise")`."""


class TraceFileError(AnabranchError, ValueError):
    """A file that should hold a recorded run holds something else."""


class GradientCheckError(AnabranchError, AssertionError):
    """A derivative disagrees with finite differences; the report is `details["report"]`."""


class MissingExtraError(AnabranchError, ImportError):
    """A library is not installed that only an extra of this package brings."""


class InternalError(AnabranchError, AssertionError):
    """The library broke its own rules; please report the printed graph."""


for _cls in [AnabranchError, *AnabranchError.__subclasses__(), NoValueError]:
    _cls.__module__ = "anabranch"  # how users name them, and what a traceback prints


def is_library_file(filename: str) -> bool:
    """Whether code of this file is the library's own (its demo program counts as a user)."""
    return filename.startswith(LIBRARY_ROOT) and not filename.startswith(_APPLICATIONS)
