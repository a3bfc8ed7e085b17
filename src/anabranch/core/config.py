"""Options of the running thread, changed only inside a `with` block."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import field, fields, replace
from typing import Any

from anabranch.core.attention import attention
from anabranch.core.record import record
from anabranch.errors import ArgumentError


@record
class Options:
    """The options, with the defaults that hold outside any `config` block."""

    absorb_zero: bool = True
    full_traceback: bool = False
    broadcast: str = "numpy"
    backend: str = "native"
    contract: bool = False
    # These change no graph:
    nonfinite: str = field(default="propagate", compare=False)
    domain: str = field(default="propagate", compare=False)


class _Current(threading.local):
    options = Options()


_current = _Current()


CHOICES = {
    "nonfinite": ("propagate", "raise"),
    "domain": ("propagate", "warn", "raise"),
    "broadcast": ("numpy", "strict"),
}
_entered: dict[str, Callable[[Options], AbstractContextManager[Any]]] = {}


def options() -> Options:
    """The options in force in this thread."""
    return _current.options


@contextmanager
def config(**changes: Any) -> Iterator[Options]:
    """Change options for the block and this thread; they return to what they were after it.

    Options:
        absorb_zero: whether a cotangent that is exactly 0 absorbs a partial derivative that is
            not finite (default True, see `docs/conventions.md`).
        backend: what runs graphs that name no backend of their own: `"native"` (default, see
            `docs/native.md`) or `"reference"`, NumPy node after node.
        broadcast: `"numpy"` (default), or `"strict"`: an elementwise op refuses operands of
            different numbers of axes, scalars apart, so that (128, 1) and (128,) are an error.
        contract: whether machine code may round x*y + z once instead of twice: where nothing but
            one sum or difference of the same loop reads a product of float64 or float32, both are
            one fused multiply-add (default False). Nothing else changes, and on the reference
            backend nothing at all; see `docs/native.md`.
        full_traceback: whether errors show the library's own frames (default False).
        nonfinite: `"propagate"` (default) lets NaN and infinities pass as the values they are;
            `"raise"` stops at the first op that makes one, see `docs/seeing.md`.
        domain: what an operand outside of an op's domain does, such as log(0) or 1/0, also in
            derivatives: `"propagate"` (default) gives IEEE 754's infinity or NaN, `"raise"` raises
            DomainError `[outside-domain]` with op, place and value, and `"warn"` warns with the
            same words, once for each line in the block; see `docs/conventions.md`.

    Raises:
        ArgumentError: `[unknown-option]`, or `[bad-argument]` for a value it cannot have.

    Example:
        >>> import anabranch as ab
        >>> with ab.config(absorb_zero=False):
        ...     slope = ab.grad(lambda x: ab.where(x > 0.0, ab.sqrt(x), 0.0))(0.0)
        >>> bool(slope != slope)  # 0 times inf is NaN again
        True
    """
    known = [one.name for one in fields(Options)]
    for name in changes:
        if name not in known:
            raise ArgumentError(
                "unknown-option", f"config has no option {name!r}; it has {', '.join(known)}"
            )
    for name, choices in CHOICES.items():
        if changes.get(name, choices[0]) not in choices:
            wanted = " or ".join(map(repr, choices))
            raise ArgumentError("bad-argument", f"{name} is {wanted}, not {changes[name]!r}")
    previous = _current.options
    try:
        with attention(), contextlib.ExitStack() as stack:
            _current.options = replace(previous, **changes)
            for name, enter in _entered.items():
                if name in changes:
                    stack.enter_context(enter(_current.options))
            yield _current.options
    finally:
        _current.options = previous


@contextmanager
def held(given: Options) -> Iterator[None]:
    """These options hold in this thread for the block; whoever made them has entered them."""
    previous = _current.options
    _current.options = given
    try:
        yield
    finally:
        _current.options = previous


def when_changed(name: str, enter: Callable[[Options], AbstractContextManager[Any]]) -> None:
    """Enter this context, made for the new options, for each block that changes the option."""
    _entered[name] = enter
