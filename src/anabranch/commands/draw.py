"""`anabranch draw`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from anabranch.commands.failure import USAGE, CommandError
from anabranch.commands.options import add_input, no_names, number, report_of, writing
from anabranch.commands.record import size_text
from anabranch.errors import ArgumentError
from anabranch.inspection.sheet import THEMES
from anabranch.inspection.to_svg import DIRECTIONS

GROUP = "keep"
HELP = "write the graph as a picture"
SYNTAX = """INPUT --out FILE.svg [--depth N] [--frame N]
                      [--direction right|down|auto] [--theme light|dark|auto]"""
ABOUT = """Write a picture. The same graph always gives the same bytes."""


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this verb."""
    add_input(parser)
    parser.add_argument("--out", metavar="FILE", help="write this file")
    parser.add_argument(
        "--depth", type=number(1), default=1, metavar="N", help="levels of open scopes (default 1)"
    )
    parser.add_argument(
        "--frame", type=number(1), metavar="N", help="after frame N of the story (default: the end)"
    )
    parser.add_argument(
        "--direction", choices=DIRECTIONS, default="auto", metavar="WAY", help="right, down or auto"
    )
    parser.add_argument(
        "--theme", choices=THEMES, default="auto", metavar="NAME", help="light, dark or auto"
    )


def run(options: Namespace) -> int:
    """Write the picture."""
    no_names(options)
    if options.out is None:
        raise CommandError("which FILE? --out picture.svg", USAGE)
    path = Path(options.out)
    if path.suffix != ".svg":
        raise CommandError(f"a picture ends in .svg, {options.out!r} does not", USAGE)
    report = report_of(options)
    frame = None if options.frame is None else options.frame - 1
    try:
        picture = report.svg(
            frame, direction=options.direction, depth=options.depth, theme=options.theme
        )
    except ArgumentError:  # the only thing that is left to be wrong
        raise CommandError(f"the story has no frame {options.frame}", USAGE) from None
    with writing(path):
        path.write_text(picture, encoding="utf-8")
    print(f"{path}   {size_text(path.stat().st_size)}")
    return 0
