"""`anabranch story`."""

from __future__ import annotations

import sys
import webbrowser
from argparse import ArgumentParser, Namespace
from pathlib import Path

from anabranch.commands.failure import USAGE, CommandError
from anabranch.commands.options import (
    add_input,
    asking,
    input_of,
    no_names,
    note,
    number,
    report_of,
    show,
    writing,
)  # fmt: skip
from anabranch.commands.record import default_file, size_text
from anabranch.commands.stepping import step_through
from anabranch.inspection.report import Report
from anabranch.inspection.to_text.story import block_lines
from anabranch.inspection.to_text.terminal import can_redraw, is_terminal, page_for, write

GROUP = "look"
HELP = "step through forward and backward, frame by frame"
SYNTAX = """INPUT [NAME=VALUE ...] [--out FILE] [--open] [--text] [--frame N]
                       [--node NAME] [--scope NAME] [--each-edge]"""
ABOUT = """Step through the forward pass in topological order and the backward pass in
reverse, and see contributions join. On a terminal the arrow keys step; into a
pipe every frame is printed. --out writes the story as one HTML file."""


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this verb."""
    add_input(parser)
    parser.add_argument("--out", metavar="FILE", help="write an HTML file instead")
    parser.add_argument(
        "--open", action="store_true",
        help="open it in the browser when done (default file: INPUT's name with .html)",
    )  # fmt: skip
    parser.add_argument("--text", action="store_true", help="print every frame, also on a terminal")
    parser.add_argument(
        "--frame", type=number(1), metavar="N", help="start at frame N; in a pipe, print only it"
    )
    parser.add_argument(
        "--node", metavar="NAME", help="follow this node's gradient (default: the first input)"
    )
    parser.add_argument("--scope", metavar="NAME", help="tell only what happens in this scope")
    parser.add_argument("--each-edge", action="store_true", help="one frame for each contribution")


def run(options: Namespace) -> int:
    """Tell the story in the terminal, or write its page."""
    no_names(options)
    report = report_of(options)
    with asking():
        story = report.story(scope=options.scope, each_edge=options.each_edge, node=options.node)
    if options.out is not None or options.open:
        return _written(report, len(story.blocks), options)
    count = len(story.blocks)
    if options.frame is not None and options.frame > count:
        raise CommandError(f"there are {count} frames; {options.frame} is none of them", USAGE)
    if options.json:
        show(story, options)
    elif not options.text and can_redraw(sys.stdout) and is_terminal(sys.stdin):
        step_through(story, (options.frame or 1) - 1, options.color, options.digits)
    elif options.frame is not None:
        page = page_for(sys.stdout, options.digits)
        write(block_lines(story, options.frame - 1, page), sys.stdout, options.color)
    else:
        show(story, options)
    return 0


def _written(report: Report, frames: int, options: Namespace) -> int:
    """Write the page, and open it if that is wanted."""
    text = options.out or default_file(input_of(options), ".html")
    if not text.endswith(".html"):
        raise CommandError(f"a story is written as .html; {text!r} does not end so", USAGE)
    path = Path(text)
    with writing(path):
        report.html(path)
    print(f"{path}   {frames} frames, {size_text(path.stat().st_size)}")
    if options.open and not webbrowser.open(path.resolve().as_uri()):
        note(f"no browser was found; {path} can be opened by hand", options)
    return 0
