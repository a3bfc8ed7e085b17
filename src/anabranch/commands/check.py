"""`anabranch check`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from anabranch.commands.failure import FINDING
from anabranch.commands.options import add_input, asking, no_names, number, report_of, show, size

GROUP = "ask"
HELP = "compare gradients with central differences"
SYNTAX = """INPUT [--eps E] [--atol A] [--rtol R]
                       [--all | --sample N | --along N] [--seed S]"""
ABOUT = """Compare gradients with central differences, element by element, or along random
directions where there are many elements. An element passes if
|backward - numeric| <= A + R * the larger of the two. At a kink (relu, abs, max)
any value between the two slopes passes."""


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this verb."""
    add_input(parser)
    parser.add_argument("--eps", type=size, metavar="E", help="step (default: 2**-17 of the size)")
    parser.add_argument("--atol", type=size, metavar="A", help="default: what rounding can cause")
    parser.add_argument("--rtol", type=size, metavar="R", help="default: 1e-6, more where narrow")
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--all", action="store_true", help="every element, however many")
    ways.add_argument(
        "--sample", type=number(1), metavar="N", help="N elements an input, drawn where it has more"
    )
    ways.add_argument("--along", type=number(1), metavar="N", help="N random directions an input")
    parser.add_argument("--seed", type=number(0), default=0, metavar="S", help="of what is drawn")


def run(options: Namespace) -> int:
    """Print the check; a disagreement is the exit status 1."""
    no_names(options)
    ways: dict[str, Any] = {"eps": options.eps, "atol": options.atol, "rtol": options.rtol}
    if options.all:
        ways |= {"method": "elements", "max_elements": 10**9}
    if options.sample is not None:
        ways |= {"sample": options.sample, "max_elements": 10**9}
    if options.along is not None:
        ways |= {"method": "directions", "directions": options.along}
    found = report_of(options)
    with asking():
        report = found.check(seed=options.seed, **ways)
    show(report, options)
    return 0 if report.ok else FINDING
