"""`anabranch grads`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from anabranch.commands.failure import FINDING
from anabranch.commands.options import add_input, no_names, number, report_of, show
from anabranch.inspection.gradients import SORTS

GROUP = "look"
HELP = "list the parameters with their gradients"
SYNTAX = "INPUT [--by scope|parameter] [--depth N] [--sort grad|value|ratio|zero]"
ABOUT = """List parameters with the norms of value and gradient, and what looks wrong."""


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this verb."""
    add_input(parser)
    parser.add_argument(
        "--by", choices=("scope", "parameter"), default="parameter", metavar="WHAT",
        help="one row a parameter (default), or a scope",
    )  # fmt: skip
    parser.add_argument(
        "--depth", type=number(1), default=1, metavar="N", help="scopes: how deep (default 1)"
    )
    parser.add_argument("--sort", choices=SORTS, metavar="COLUMN", help="the largest first")


def run(options: Namespace) -> int:
    """Print the gradients; a finding is the exit status 1."""
    no_names(options)
    report = report_of(options).grads(by=options.by, depth=options.depth, sort=options.sort)
    show(report, options)
    return 0 if report.ok else FINDING
