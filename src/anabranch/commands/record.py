"""`anabranch record`."""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from anabranch.commands.failure import USAGE, CommandError
from anabranch.commands.options import add_input, input_of, no_names, report_of, writing
from anabranch.inspection.looking import DETAILS

GROUP = "keep"
HELP = "run a program and write its trace"
SYNTAX = """FILE.py[:FUNCTION] [--out FILE] [--detail full|summary|shape] [--step N]
                        [-- ARGS...]"""
ABOUT = """Run a program and write the trace of its last backward pass, or of the Nth.
Everything after -- goes to the program."""


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this verb."""
    add_input(parser)
    parser.add_argument("--out", metavar="FILE", help="write this file (default: INPUT.trace.json)")
    parser.add_argument(
        "--detail", choices=DETAILS, default="full", metavar="LEVEL",
        help="what goes into the file; shape leaves all data out",
    )  # fmt: skip


def run(options: Namespace) -> int:
    """Write the trace, and say what is in it."""
    no_names(options)
    report = report_of(options, options.detail)
    path = Path(
        default_file(input_of(options), ".trace.json") if options.out is None else options.out
    )
    with writing(path):
        report.save(path)
    trace = report.trace
    counts = {
        "nodes": len(trace.nodes),
        "scopes": len(trace.scopes) - 1,
        "bytes": path.stat().st_size,
    }
    if options.json:
        sys.stdout.write(json.dumps({"report": "record", "file": str(path), **counts}) + "\n")
        return 0
    step = f", step {options.step}" if options.step else ""
    said = ", ".join(
        f"{count:,} {what}{'s' * (count != 1)}"
        for what, count in (("node", counts["nodes"]), ("scope", counts["scopes"]))
        if count or what == "node"
    )
    print(f"{path}   {said}{step}, {size_text(counts['bytes'])}")
    return 0


def default_file(text: str, ending: str) -> str:
    """`train.trace.json` for `train.py`, in the working directory.

    Raises:
        CommandError: for an expression, which names no file.
    """
    name = os.path.basename(text).partition(".py")[0].removesuffix(".json").removesuffix(".html")
    name = name.removesuffix(".trace")
    if not name.isidentifier() and not name.replace("-", "_").replace(".", "_").isidentifier():
        raise CommandError("an expression has no name to make a file name of: give --out", USAGE)
    return name + ending


def size_text(count: int) -> str:
    """`46 kB`."""
    if count < 1_000:
        return f"{count} bytes"
    return f"{count / 1_000:,.0f} kB" if count < 999_500 else f"{count / 1_000_000:,.1f} MB"
