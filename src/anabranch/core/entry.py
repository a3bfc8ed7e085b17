"""The edge between the library and its users: how errors leave."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import ParamSpec, TypeVar

from anabranch.core.bind import located
from anabranch.core.config import options
from anabranch.errors import AnabranchError, is_library_file

P = ParamSpec("P")
R = TypeVar("R")


def boundary(function: Callable[P, R]) -> Callable[P, R]:
    """Mark a public entry point.

    Errors of the library leave it with the user's running line, and with this one library frame.
    """

    @functools.wraps(function)
    def entry(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except AnabranchError as error:
            raise leaving(error) from error.__cause__

    return entry


def leaving(error: AnabranchError) -> AnabranchError:
    """The error as users should see it: located, without the library's own frames."""
    located(error)
    if not options().full_traceback:
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
