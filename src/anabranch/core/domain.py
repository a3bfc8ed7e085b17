"""Operands that lie outside of an op's domain, and what `ab.config(domain=...)` makes of them.

An op says in its record what its operands must be. Nobody looks unless a block asks for it: then
the front ends and executables come here before they compute.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from anabranch.core.config import Options, options, when_changed
from anabranch.core.locks import Lock
from anabranch.errors import DomainError

if TYPE_CHECKING:
    from anabranch.core.node import Node
    from anabranch.core.op import Op


class _Watch:
    """How many blocks, in all threads, ask for a look at operands: mostly none, quick to see."""

    blocks = 0
    lock = Lock()

    def count(self, change: int) -> None:
        with self.lock:
            self.blocks += change


class _Told(threading.local):
    """Which lines and ops the running block has warned of."""

    places: set[Any] = set()  # noqa: RUF012  # replaced by each block


watch = _Watch()
_told = _Told()


def is_watched() -> bool:
    """Whether operands outside of an op's domain are told in this thread."""
    return watch.blocks > 0 and options().domain != "propagate"


@contextmanager
def _watching(_: Options) -> Iterator[None]:
    before, _told.places = _told.places, set()
    watch.count(1)
    try:
        yield
    finally:
        watch.count(-1)
        _told.places = before


when_changed("domain", _watching)


def outside(
    op: Op, values: Sequence[Any], attrs: Mapping[str, Any], origin: tuple[Node, int] | None = None
) -> DomainError | None:
    """What there is to say of these operands; None where the op's domain holds them all.

    NaN is no operand that lies outside: it was told where it arose. `origin` is the node, and its
    input, whose derivative this op is a part of.
    """
    if op.outside is None or any(np.asarray(value).dtype.kind == "c" for value in values):
        return None
    needs, is_outside = op.outside
    with np.errstate(all="ignore"):
        found = np.asarray(is_outside(*values, **attrs))
    if not found.any():
        return None
    if op.elementwise:
        found = np.broadcast_to(found, np.broadcast_shapes(*map(np.shape, values)))
    index = tuple(int(i) for i in np.argwhere(found)[0])
    operands = [np.broadcast_to(value, found.shape)[index] for value in values]
    count = int(np.count_nonzero(found))
    where = f" at {list(index)}" if index else ""
    where += f", the first of {count} such elements" if count > 1 else ""
    where += "" if origin is None else f", in the derivative of {origin[0].op.name}"
    shown = ", ".join([*map(str, operands), *(f"{key}={value}" for key, value in attrs.items())])
    return DomainError(
        "outside-domain",
        f"{op.name} needs {needs}, got {op.name}({shown}){where}",
        hint=_hint(needs) if origin is None else None,
        op=op,
        index=index,
        operands=tuple(operands),
        count=count,
    )


def _hint(needs: str) -> str | None:
    words = needs.split()
    if len(words) != 3:
        return None
    return f"ab.where({needs}, {words[0]}, 1.0) in place of {words[0]} leaves elements out"


def tell(error: DomainError) -> None:
    """Raise, or warn once for a line and op, as the options say; the error knows its line."""
    if options().domain == "raise":
        raise error
    source: Any = error.source
    file, line = ("<unknown>", 0) if source is None else (source.file, source.line)
    place = file, line, error.details["op"].name
    if place not in _told.places:
        _told.places.add(place)
        warnings.warn_explicit(str(error), RuntimeWarning, file, line)
