"""The options and the input that verbs share, and how a report leaves."""

from __future__ import annotations

import math
import os
import re
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anabranch.commands import expression, program
from anabranch.commands.failure import USAGE, CommandError
from anabranch.errors import ArgumentError, OutOfRangeError
from anabranch.inspection.eager import recorded_tensors
from anabranch.inspection.printed import Printed
from anabranch.inspection.report import Report
from anabranch.inspection.to_text.terminal import WHEN

_FUNCTION = re.compile(r"(.+\.py):([^\W\d]\w*)")


def add_common(parser: ArgumentParser) -> None:
    """The options that every look has."""
    group = parser.add_argument_group("output")
    group.add_argument(
        "--color", choices=WHEN, default="auto", metavar="WHEN",
        help="auto (default), always or never",
    )  # fmt: skip
    group.add_argument(
        "--digits",
        type=number(1, 17),
        default=4,
        metavar="N",
        help="significant digits (default 4)",
    )
    group.add_argument("--json", action="store_true", help="print the report as JSON")
    group.add_argument("-q", "--quiet", action="store_true", help="print the report and no notes")
    group.add_argument("-v", "--verbose", action="store_true", help="say more")


def add_input(parser: ArgumentParser, names: bool = False) -> None:
    """INPUT, the values of an expression, and which pass of a program is looked at."""
    asked = "INPUT, the NAME that is asked about," if names else "INPUT"
    parser.add_argument_group("input").add_argument(
        "words", nargs="*", metavar="WORD",
        help=f"{asked} and NAME=VALUE for each name of an expression",
    )  # fmt: skip
    parser.add_argument(
        "--step", type=number(1), metavar="N", help="look at the Nth backward pass, not the last"
    )


def number(least: int, most: int | None = None) -> Any:
    """A whole number within limits, as an option takes it."""
    limits = f"from {least}" + (f" to {most}" if most is not None else "")

    def read(text: str) -> int:
        value = int(text) if text.isdecimal() else -1
        if value < least or (most is not None and value > most):
            raise ArgumentTypeError(f"takes a whole number {limits}, not {text!r}")
        return value

    return read


def size(text: str) -> float:
    """A number above 0, as an option takes it.

    Raises:
        ArgumentTypeError: for what is none.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ArgumentTypeError(f"takes a number above 0, not {text!r}")
    return value


def report_of(options: Namespace, detail: str = "full") -> Report:
    """The report on the input that was named.

    Raises:
        CommandError: for an input that cannot be read or fails.
    """
    text = input_of(options)
    bindings = [word for word in options.words[1:] if expression.is_binding(word)]
    found = _FUNCTION.fullmatch(text)
    path, function = (found[1], found[2]) if found else (text, None)
    if path.endswith(".py") and (found or not _is_expression(path)):
        _no_values(bindings, path)
        return program.report_of(
            path, function, options.arguments, step=options.step, detail=detail,
            quiet=options.quiet, verbose=options.verbose and not options.quiet,
        )  # fmt: skip
    if text.endswith((".json", ".html")):
        _no_values(bindings, text)
        return _loaded(text)
    if os.path.exists(text):
        raise CommandError(
            f"{text} is no input: a Python file ends in .py, a trace in .json, a page in .html",
            USAGE,
        )
    root = expression.evaluate(text, bindings)
    return Report(recorded_tensors([root], backward=True), detail)


def _loaded(path: str) -> Report:
    try:
        return Report.load(path)
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror or error}") from None


def input_of(options: Namespace) -> str:
    """The INPUT.

    Raises:
        CommandError: where there is none.
    """
    if not options.words:
        raise CommandError("which INPUT? A program, a trace, a page or an expression", USAGE)
    return str(options.words[0]).strip()


@contextmanager
def asking() -> Iterator[None]:
    """In the block, what a report cannot be asked is wrong usage."""
    try:
        yield
    except (ArgumentError, OutOfRangeError) as error:
        hint = f"\n  hint: {error.hint}" if error.hint else ""
        raise CommandError(f"{error.sentence}{hint}", USAGE) from None


def _is_expression(path: str) -> bool:
    """`x.py` is a file also where there is none, but `2*x.py` with an `x` given is not."""
    return not re.fullmatch(r"[\w./\\~:+ -]+", path)


def _no_values(bindings: list[str], path: str) -> None:
    if bindings:
        raise CommandError(
            f"{bindings[0]} is for expressions; {path} takes its arguments after --", USAGE
        )


def names_of(options: Namespace) -> list[str]:
    """The words that give no value: what is asked about."""
    return [word for word in options.words[1:] if not expression.is_binding(word)]


def no_names(options: Namespace) -> None:
    """Refuse words that mean nothing to this verb."""
    names = names_of(options)
    if names:
        raise CommandError(f"what is {names[0]!r}? Values are given as name=value", USAGE)


def show(report: Printed, options: Namespace) -> None:
    """A report to standard output, as text or as data."""
    if options.json:
        sys.stdout.write(report.to_json())
    else:
        report.print(sys.stdout, color=options.color, digits=options.digits)


def note(text: str, options: Namespace) -> None:
    """Something to know that is no part of the report."""
    if not options.quiet:
        print(text, file=sys.stderr)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """In the block, a file that cannot be written ends the verb."""
    try:
        yield
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror or error}") from None
