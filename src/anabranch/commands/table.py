"""`anabranch table`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from anabranch.commands.options import add_input, asking, no_names, number, report_of, show
from anabranch.inspection.table import COLUMNS

GROUP = "look"
HELP = "list the nodes with value, shape and gradient"
SYNTAX = "INPUT [--edges] [--where QUERY] [--sort COLUMN] [--rows N] [--columns LIST]"
ABOUT = """List nodes (or edges) in forward order. QUERY is the page's search language:
  op:matmul  shape:64x*  grad:0  grad:none  value:nan  line:12  scope:attn  #7"""


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this verb."""
    add_input(parser)
    parser.add_argument("--edges", action="store_true", help="list edges with local derivatives")
    parser.add_argument("--where", default="", metavar="QUERY", help="only what matches")
    parser.add_argument("--sort", metavar="COLUMN", help="by this column, the largest first")
    parser.add_argument("--rows", type=number(0), metavar="N", help="at most N rows")
    parser.add_argument("--columns", metavar="LIST", help=f"some of {','.join(COLUMNS)}")


def run(options: Namespace) -> int:
    """Print the table."""
    no_names(options)
    columns = None if options.columns is None else options.columns.split(",")
    if options.verbose and not options.edges:
        columns = columns or list(COLUMNS)
    report = report_of(options)
    with asking():
        table = report.table(
            edges=options.edges, where=options.where, sort=options.sort, rows=options.rows,
            columns=columns,
        )  # fmt: skip
    show(table, options)
    return 0
