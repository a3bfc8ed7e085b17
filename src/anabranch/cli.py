"""The command `anabranch`: one verb for each row of `COMMANDS`."""

from __future__ import annotations

import io
import os
import re
import sys
from argparse import ArgumentParser, HelpFormatter, RawDescriptionHelpFormatter
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn

import anabranch as ab
from anabranch import demo
from anabranch.commands import cache, check, draw, expression, grads, record, story, table, why
from anabranch.commands.failure import (
    STOPPED,
    UNREADABLE,
    USAGE,
    CommandError,
    did_you_mean,
    shown,
)
from anabranch.commands.options import add_common

# A verb is a module: see `commands`. Their order here is that of the help.
COMMANDS: dict[str, ModuleType] = {
    "story": story,
    "table": table,
    "grads": grads,
    "why": why,
    "check": check,
    "record": record,
    "draw": draw,
    "demo": demo,
    "cache": cache,
}
_OPTIONS = ("--color", "--digits", "--json", "--quiet", "--verbose", "--version", "--help")
_GROUPS = ("look", "ask", "keep", "try")
_HELP = """usage: anabranch VERB INPUT [OPTIONS]

See a computation graph: its values, its gradients, and how they came about.

INPUT is a Python file (it is run, and its last backward pass is looked at),
FILE.py:FUNCTION (a function that returns the root), a trace (.trace.json), a
page that anabranch wrote (.html), or an expression with a value for each name,
as in: anabranch story "(x*y + x)**2" x=2 y=3

{verbs}
options
  --color WHEN   auto (default), always or never
  --digits N     significant digits of numbers (default 4)
  --json         print the report as JSON
  -q, -v         say less, say more
  --version      print the version
  -h, --help     print this; `anabranch VERB --help` tells about a verb

exit code: 0 nothing wrong, 1 a finding (NaN, zero, disagreement, difference),
2 wrong usage, 3 the input cannot be read or failed while running.
"""


class _Parser(ArgumentParser):
    """A parser whose errors are one line, with a suggestion."""

    def error(self, message: str) -> NoReturn:
        raise CommandError(f"{message} (see {self.prog} --help)", USAGE)


def parser(verb: str) -> ArgumentParser:
    """The parser of one verb."""
    module = COMMANDS[verb]
    usage = getattr(module, "SYNTAX", None)
    made = _Parser(
        prog=f"anabranch {verb}",
        usage=None if usage is None else f"anabranch {verb} {usage}",
        description=getattr(module, "ABOUT", f"{module.HELP.capitalize()}."),
        formatter_class=_formatter,
        allow_abbrev=False,
    )
    module.add_arguments(made)
    if hasattr(module, "GROUP"):
        add_common(made)
    return made


def _formatter(prog: str) -> HelpFormatter:
    return RawDescriptionHelpFormatter(prog, max_help_position=22, width=88)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; the result is the exit status.

    0 if nothing is wrong, 1 for a finding, 2 for wrong usage, 3 for an input that cannot be read or
    failed while running, 130 when interrupted.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal without the letters still shows the rest.
            stream.reconfigure(errors="replace")
    words = list(sys.argv[1:] if argv is None else argv)
    name = "anabranch"
    try:
        verb, words = _verb(words)
        if verb is None:
            return 0
        name = f"anabranch {verb}"
        return _run(verb, words)
    except CommandError as failure:
        return _failed(name, str(failure), failure.status)
    except demo.DemoError as error:
        return _failed(name, str(error), USAGE)
    except KeyboardInterrupt:
        print(file=sys.stderr)  # the terminal has shown ^C on this line
        return _failed(name, "stopped", STOPPED)
    except BrokenPipeError:  # the reader, `head` perhaps, has seen enough
        _forget(sys.stdout)
        return 0
    except ab.AnabranchError as error:
        if getattr(error.source, "file", None) != expression.FILE:
            error.source = None  # a line of ours tells a user nothing
        return _failed(name, str(error), UNREADABLE)
    except MemoryError:
        return _failed(name, "there is not enough memory", UNREADABLE)


def _run(verb: str, words: list[str]) -> int:
    words, arguments = _split(words) if hasattr(COMMANDS[verb], "GROUP") else (words, [])
    # A space before it tells an expression that begins with a minus sign from an option.
    words = [f" {word}" if re.match(r"-[^-qvh]", word) else word for word in words]
    made = parser(verb)
    try:
        options, extra = made.parse_known_intermixed_args(words)
    except SystemExit as stop:  # --help, which argparse has printed
        return int(stop.code or 0)
    if extra:
        known = [text for action in made._actions for text in action.option_strings]
        hint = did_you_mean(extra[0].partition("=")[0], known, 0.75)
        raise CommandError(f"no option {extra[0]!r}.{hint or _see(verb)}", USAGE)
    options.arguments = arguments
    status = int(COMMANDS[verb].run(options))
    sys.stdout.flush()  # here, where a reader that has gone is no error
    return status


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """What is for us, and what follows `--`, which is for the program that we run."""
    if "--" not in words:
        return words, []
    at = words.index("--")
    return words[:at], words[at + 1 :]


def _verb(words: list[str]) -> tuple[str | None, list[str]]:
    """The verb, and the other words; None if what was asked for has been printed."""
    before: list[str] = []
    while words and words[0].startswith("-"):
        if words[0] == "--version":
            print(f"anabranch {ab.__version__}")
            return None, []
        if words[0] in ("-h", "--help"):
            sys.stdout.write(help_text())
            return None, []
        taken = 2 if words[0] in ("--color", "--digits") else 1
        before, words = [*before, *words[:taken]], words[taken:]
    if not words:
        for word in before:
            if word.startswith("--") and word.partition("=")[0] not in _OPTIONS:
                raise CommandError(
                    f"no option {word!r}.{did_you_mean(word, _OPTIONS) or _see()}", USAGE
                )
        raise CommandError(f"which VERB?{_see()}", USAGE)
    verb = words[0]
    if verb not in COMMANDS:
        raise CommandError(f"no verb {verb!r}.{did_you_mean(verb, COMMANDS) or _see()}", USAGE)
    return verb, [*before, *words[1:]]


def _see(verb: str = "") -> str:
    return f" (see anabranch {verb + ' ' * bool(verb)}--help)"


def help_text() -> str:
    """The help of the whole command."""
    width = max(map(len, COMMANDS))
    lines = []
    for group in _GROUPS:
        lines.append(group)
        lines += [
            f"  {name.ljust(width)}   {module.HELP}"
            for name, module in COMMANDS.items()
            if getattr(module, "GROUP", "try") == group
        ]
    return _HELP.format(verbs="\n".join([*lines, ""]))


def _forget(stream: object) -> None:
    """Let what is still to be written to a closed pipe go nowhere."""
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())  # type: ignore[attr-defined]


def _failed(name: str, message: str, status: int) -> int:
    print(shown(f"{name}: {message}"), file=sys.stderr)
    return status
