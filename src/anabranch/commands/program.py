"""Running a user's program as Python would, and looking at its backward passes."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import sys
import threading
import traceback
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

from anabranch.commands.failure import USAGE, CommandError, did_you_mean
from anabranch.frontends.tensor import Tensor
from anabranch.inspection.eager import recorded_tensors
from anabranch.inspection.report import Report
from anabranch.inspection.watching import Watch, watching


def report_of(
    path: str,
    function: str | None,
    arguments: Sequence[str],
    *,
    step: int | None = None,
    detail: str = "full",
    quiet: bool = False,
    verbose: bool = False,
) -> Report:
    """The report of a program's last backward pass, or of what its function returns.

    What the program prints goes to standard error, since standard output is the report's.
    `verbose` says there how many passes there were.

    Raises:
        CommandError: when the program cannot be read, fails, or has no backward pass.
    """
    code = _compiled(path)
    name = os.path.basename(path)
    with watching(step, detail) as seen, _isolated(path, arguments, quiet):
        module = _module("__main__" if function is None else Path(path).stem, path)
        with _named_failures(name, path), _in_place(module):
            exec(code, module.__dict__)
            if function is not None:
                return _returned(module, function, name, detail)
    if verbose:
        which = "the last one" if step is None else f"number {step}"
        count = f"{seen.count} backward pass{'es' * (seen.count != 1)}"
        print(f"{name} made {count}; this is {which}", file=sys.stderr)
    return _seen(seen, name, step)


def _compiled(path: str) -> types.CodeType:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror or error}") from None
    try:
        return compile(data, os.path.abspath(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        said = "".join(traceback.format_exception_only(error)).rstrip()
        raise CommandError(f"{os.path.basename(path)} is no Python program\n{said}") from None


def _module(name: str, path: str) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__file__ = os.path.abspath(path)
    module.__builtins__ = __builtins__  # type: ignore[attr-defined]
    if name != "__main__":
        module.__spec__ = importlib.util.spec_from_file_location(name, path)
    return module


@contextlib.contextmanager
def _in_place(module: types.ModuleType) -> Iterator[None]:
    """The module under its name, as pickle and dataclasses look for it."""
    before = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = module
    try:
        yield
    finally:
        if before is None:
            del sys.modules[module.__name__]
        else:
            sys.modules[module.__name__] = before


@contextlib.contextmanager
def _isolated(path: str, arguments: Sequence[str], quiet: bool) -> Iterator[None]:
    """Arguments and import path as the program expects them, its output out of our way."""
    argv, search, out = sys.argv, sys.path[:], sys.stdout
    threads = set(threading.enumerate())
    sys.argv = [path, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    aside: TextIO = io.StringIO() if quiet else sys.stderr
    try:
        with contextlib.redirect_stdout(aside):
            yield
            for thread in threading.enumerate():  # Python waits for these before it ends
                if thread not in threads and not thread.daemon:
                    thread.join()
    finally:
        sys.argv, sys.path[:], sys.stdout = argv, search, out


@contextlib.contextmanager
def _named_failures(name: str, path: str) -> Iterator[None]:
    """What a program raises ends the verb, with the traceback that Python would have shown."""
    try:
        yield
    except SystemExit as stop:
        if stop.code not in (None, 0):
            said = f"ended with status {stop.code}"
            if isinstance(stop.code, str):  # what `sys.exit("message")` prints
                said = f"ended: {stop.code}"
            raise CommandError(f"{name} {said}") from None
    except KeyboardInterrupt:
        raise
    except CommandError:
        raise
    except BaseException as error:
        shown = traceback.TracebackException.from_exception(error)
        start = next((i for i, f in enumerate(shown.stack) if _same(f.filename, path)), 0)
        del shown.stack[:start]
        said = "".join(shown.format()).rstrip()
        raise CommandError(f"{name} failed while running\n{said}") from None


def _same(filename: str, path: str) -> bool:
    return filename == os.path.abspath(path)


def _returned(module: types.ModuleType, function: str, name: str, detail: str) -> Report:
    """The report of what a function returns."""
    known = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
    found = getattr(module, function, None)
    if not callable(found):
        raise CommandError(
            f"{name} has no function {function!r}.{did_you_mean(function, known)}", USAGE
        )
    result = found()
    if isinstance(result, Report):
        return result
    if not isinstance(result, Tensor):
        kind = type(result).__name__
        raise CommandError(f"{name}:{function} returned a {kind}; the root of a graph is a tensor")
    return Report(recorded_tensors([result], backward=True), detail)


def _seen(seen: Watch, name: str, step: int | None) -> Report:
    if seen.report is not None:
        return seen.report
    if seen.count == 0:
        raise CommandError(
            f"{name} ended without a backward pass, so there is nothing to look at.\n"
            f"{name}:FUNCTION looks at the value that a function of it returns."
        )
    raise CommandError(f"{name} made {seen.count} backward passes; there is no number {step}")
