"""`ab.config(broadcast="strict")`: no axis is added to a value without its being written.

Adding (128, 1) and (128,) gives (128, 128), which is legal and seldom meant. In a strict block each
elementwise op of the user's own refuses operands of different numbers of axes; scalars fit all, and
lengths of 1 broadcast, for they were written. Functions of the library broadcast inside as they do.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from anabranch.core.aval import aval_of
from anabranch.core.bind import bind, located, state
from anabranch.core.config import Options, options, when_changed
from anabranch.core.op import Op
from anabranch.errors import ShapeError, is_library_file

# What stands between a user's line and `bind`; other code of the library broadcasts for itself.
_PLUMBING = {"core", "ops", "frontends"}
_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep


class Strict:
    """Stands at the door of `bind` and lets through what adds no axis."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def apply(self, op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        require_written(op, args)
        with state.changed(door=self._inner):
            return bind(op, *args, **attrs)


def require_written(op: Op, args: tuple[Any, ...]) -> None:
    """Refuse operands that would get axes which nobody wrote.

    Raises:
        ShapeError: `[strict-broadcast]`, with both shapes.
    """
    if not op.elementwise or options().broadcast != "strict":
        return
    avals = [aval_of(arg) for arg in args]
    ranks = {aval.ndim for aval in avals if aval.shape}
    if len(ranks) > 1 and _is_of_the_user():
        shapes = " and ".join(str(aval.shape) for aval in avals)
        error = ShapeError(
            "strict-broadcast",
            f"{op.name} of shapes {shapes} would add axes that nobody wrote",
            hint="x[:, None] or ab.reshape(x, shape) adds them on purpose",
        )
        raise located(error, args)


def _is_of_the_user() -> bool:
    """Whether the running op was written in the user's own line."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and is_library_file(frame.f_code.co_filename):
        path = frame.f_code.co_filename
        room = path.removeprefix(_PACKAGE).split(os.sep)[0]
        if path.startswith(_PACKAGE) and room not in _PLUMBING:
            return False
        frame = frame.f_back
    return True


@contextmanager
def strictly(new: Options | None = None) -> Iterator[None]:
    """Keep the door in this block, if the options ask for it."""
    is_wanted = (new or options()).broadcast == "strict"
    with state.changed(door=Strict(state.door) if is_wanted else state.door):
        yield


when_changed("broadcast", strictly)
