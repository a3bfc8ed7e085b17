"""`anabranch draw`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from anabranch.commands.failure import USAGE, CommandError
from anabranch.commands.options import add_input, no_names, number, report_of, size, writing
from anabranch.commands.record import size_text
from anabranch.errors import ArgumentError
from anabranch.inspection.report import Report
from anabranch.inspection.sheet import THEMES
from anabranch.inspection.to_svg import DIRECTIONS

GROUP = "keep"
HELP = "write the graph as SVG, PNG or DOT"
SYNTAX = """INPUT --out FILE.{svg,png,dot} [--depth N] [--frame N | --strip]
                      [--direction right|down|auto] [--theme light|dark|auto] [--scale S]"""
ABOUT = """Write a picture. The same graph always gives the same bytes (svg, dot).
PNG needs the extra: pip install "anabranch[png]"."""
_ENDINGS = (".svg", ".png", ".dot")


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this verb."""
    add_input(parser)
    parser.add_argument("--out", metavar="FILE", help="write this file; its ending says what")
    parser.add_argument(
        "--depth", type=number(1), default=1, metavar="N", help="levels of open scopes (default 1)"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--frame", type=number(1), metavar="N", help="after frame N of the story (default: the end)"
    )
    which.add_argument("--strip", action="store_true", help="every frame, on one sheet (svg)")
    parser.add_argument(
        "--direction", choices=DIRECTIONS, default="auto", metavar="WAY", help="right, down or auto"
    )
    parser.add_argument(
        "--theme", choices=THEMES, default="auto", metavar="NAME", help="light, dark or auto"
    )
    parser.add_argument(
        "--scale", type=size, default=2.0, metavar="S", help="pixels a unit (png; default 2)"
    )


def run(options: Namespace) -> int:
    """Write the picture."""
    no_names(options)
    if options.out is None:
        raise CommandError("which FILE? --out picture.svg", USAGE)
    path = Path(options.out)
    if path.suffix not in _ENDINGS:
        raise CommandError(f"a picture ends in .svg, .png or .dot; {path} does not", USAGE)
    if options.strip and path.suffix != ".svg":
        raise CommandError("--strip writes one sheet of SVG: --out FILE.svg", USAGE)
    report = report_of(options)
    try:
        data = _drawn(report, path.suffix, options)
    except ArgumentError as error:
        missing = options.frame is not None and "frame" in error.sentence
        said = f"the story has no frame {options.frame}" if missing else error.sentence
        raise CommandError(said, USAGE) from None
    with writing(path):
        path.write_bytes(data)
    print(f"{path}   {size_text(len(data))}")
    return 0


def _drawn(report: Report, ending: str, options: Namespace) -> bytes:
    """The bytes of the picture that was asked for."""
    if ending == ".dot":
        return report.dot().encode()
    frame = None if options.frame is None else options.frame - 1
    way = {"direction": options.direction, "depth": options.depth, "theme": options.theme}
    if ending == ".png":
        return report.png(frame, scale=options.scale, **way)
    return (report.strip(**way) if options.strip else report.svg(frame, **way)).encode()
