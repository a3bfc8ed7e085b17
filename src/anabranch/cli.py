"""The command `anabranch`: one sub-command for each row of `COMMANDS`."""

from __future__ import annotations

import io
import os
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn

import anabranch as ab
from anabranch import demo

# A command is a module with HELP, add_arguments(parser) and run(options) -> exit status.
COMMANDS: dict[str, ModuleType] = {"demo": demo}


class _Parser(ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def parser() -> ArgumentParser:
    """The parser of the whole command line."""
    made = _Parser(
        prog="anabranch",
        description="Computation graphs and automatic differentiation.",
    )
    made.add_argument("--version", action="version", version=f"anabranch {ab.__version__}")
    commands = made.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, module in COMMANDS.items():
        one = commands.add_parser(
            name, help=module.HELP, description=f"{module.HELP.capitalize()}."
        )
        module.add_arguments(one)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the result is the exit status.

    0 if all went well, 1 for an error of the library, 2 for a request that cannot be met, 130 when
    interrupted.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(
            errors="replace"
        )  # a terminal without the letters still shows the rest
    try:
        options = parser().parse_args(argv)
    except SystemExit as stop:  # --help, --version, or an error that argparse has printed
        return int(stop.code or 0)
    try:
        return int(COMMANDS[options.command].run(options))
    except KeyboardInterrupt:
        print(file=sys.stderr)  # the terminal has shown ^C on this line
        return _failed(options.command, "stopped", 130)
    except BrokenPipeError:  # the reader, `head` perhaps, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except demo.DemoError as error:
        return _failed(options.command, str(error), 2)
    except (ab.AnabranchError, MemoryError) as error:
        return _failed(options.command, str(error) or "there is not enough memory", 1)


def _failed(command: str, message: str, status: int) -> int:
    print(f"anabranch {command}: {message}", file=sys.stderr)
    return status
