"""`anabranch why`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from anabranch.commands.failure import FINDING, USAGE, CommandError
from anabranch.commands.options import add_input, asking, names_of, report_of, show

GROUP = "ask"
HELP = "say how a gradient came about, or why it is zero, missing or NaN"
SYNTAX = "INPUT [NAME] [--step N]"
ABOUT = """Say how NAME's gradient came about: the contributions, the paths, and where it
becomes zero. Without NAME, find the first value that is not finite, or else what
is wrong with a gradient. NAME may be a number, like '#3'."""


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this verb."""
    add_input(parser, names=True)


def run(options: Namespace) -> int:
    """Print the explanation; if something is wrong, that is the exit status 1."""
    names = names_of(options)
    if len(names) > 1:
        raise CommandError(f"why asks about one value, not {len(names)}: {', '.join(names)}", USAGE)
    report = report_of(options)
    with asking():
        found = report.why(names[0] if names else None)
    show(found, options)
    return FINDING if found.is_trouble else 0
