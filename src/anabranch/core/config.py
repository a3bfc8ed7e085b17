"""Options of the running thread, changed only inside a `with` block."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace

from anabranch.core.attention import attention
from anabranch.errors import ArgumentError


@dataclass(frozen=True)
class Options:
    """The options, with the defaults that hold outside any `config` block."""

    absorb_zero: bool = True
    full_traceback: bool = False


class _Current(threading.local):
    options = Options()


_current = _Current()


def options() -> Options:
    """The options in force in this thread."""
    return _current.options


@contextmanager
def config(**changes: bool) -> Iterator[Options]:
    """Change options for the block and this thread; they return to what they were after it.

    Options:
        absorb_zero: whether a cotangent that is exactly 0 absorbs a partial derivative that is
            not finite (default True, see `docs/conventions.md`).
        full_traceback: whether errors show the library's own frames (default False).

    Raises:
        ArgumentError: for an option that does not exist.

    Example:
        >>> import anabranch as ab
        >>> with ab.config(absorb_zero=False):
        ...     slope = ab.grad(lambda x: ab.where(x > 0.0, ab.sqrt(x), 0.0))(0.0)
        >>> bool(slope != slope)  # 0 times inf is NaN again
        True
    """
    known = [field.name for field in fields(Options)]
    for name in changes:
        if name not in known:
            raise ArgumentError(
                "unknown-option", f"config has no option {name!r}; it has {', '.join(known)}"
            )
    previous = _current.options
    try:
        with attention():
            _current.options = replace(previous, **changes)
            yield _current.options
    finally:
        _current.options = previous
