"""`anabranch why`."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace

from anabranch.commands.failure import FINDING, USAGE, CommandError
from anabranch.commands.options import add_input, asking, names_of, report_of, show
from anabranch.inspection.explanation import PHASES

GROUP = "ask"
HELP = "say how a gradient came about, or why it is zero, missing or NaN"
SYNTAX = "INPUT [NAME] [--index I,J] [--phase forward|backward] [--step N]"
ABOUT = """Say how NAME's gradient came about: the contributions, the paths, and where it
becomes zero. Without NAME, find the first value that is not finite, or else what
is wrong with a gradient. NAME may be a number, like '#3'. Of an array, one element
can be asked about; --phase forward asks how the value was computed instead."""


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this verb."""
    add_input(parser, names=True)
    parser.add_argument(
        "--index", type=index, metavar="I,J", help="one element of NAME, as 2,0 (from 0)"
    )
    parser.add_argument(
        "--phase", choices=PHASES, metavar="WHICH",
        help="forward: the value; backward: the gradient alone",
    )  # fmt: skip


def index(text: str) -> list[int]:
    """An index as an option takes it.

    Raises:
        ArgumentTypeError: for what is none.
    """
    parts = text.strip("[]() ").split(",")
    if not all(part.strip().isdecimal() and part.isascii() for part in parts):
        raise ArgumentTypeError(f"takes whole numbers from 0, as 2,0, not {text!r}")
    return [int(part) for part in parts]


def run(options: Namespace) -> int:
    """Print the explanation; if something is wrong, that is the exit status 1."""
    names = names_of(options)
    if len(names) > 1:
        raise CommandError(f"why asks about one value, not {len(names)}: {', '.join(names)}", USAGE)
    if options.index and not names:
        raise CommandError("--index is of a value: anabranch why INPUT NAME --index I,J", USAGE)
    report = report_of(options)
    with asking():
        found = report.why(names[0] if names else None, index=options.index, phase=options.phase)
    show(found, options)
    return FINDING if found.is_trouble else 0
