"""docs/commands.md shows what the commands print; `python tests/surface/test_commands_page.py`
writes it anew."""

import contextlib
import io
import os
import re
import shlex
from pathlib import Path

import pytest

from anabranch import cli

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "commands.md"
FENCE = re.compile(r"^```console\n\$ (?P<command>.*)\n(?P<shown>(?:.*\n)*?)```$", re.M)
BLOCKS = [(found["command"], found["shown"]) for found in FENCE.finditer(PAGE.read_text("utf-8"))]


def printed(command: str) -> str:
    """What a reader in the examples' folder sees: both streams, and a status that is not 0."""
    program, *words = shlex.split(command)
    assert program == "anabranch"
    seen, here = io.StringIO(), Path.cwd()
    hidden = {name: os.environ.pop(name, None) for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR")}
    os.chdir(ROOT / "examples")
    try:
        with contextlib.redirect_stdout(seen), contextlib.redirect_stderr(seen):
            status = cli.main(words)
    finally:
        os.chdir(here)
        os.environ.update({name: value for name, value in hidden.items() if value is not None})
    return seen.getvalue() + (f"(exit status {status})\n" if status else "")


def test_there_is_something_to_compare() -> None:
    assert len(BLOCKS) == len(re.findall(r"^```console$", PAGE.read_text("utf-8"), re.M)) > 15


@pytest.mark.parametrize("command", [command for command, _ in BLOCKS])
def test_the_page_shows_what_a_command_prints(command: str) -> None:
    assert dict(BLOCKS)[command] == printed(command)


def test_every_verb_that_looks_has_its_help_on_the_page() -> None:
    shown = {command for command, _ in BLOCKS}
    verbs = [name for name, module in cli.COMMANDS.items() if hasattr(module, "GROUP")]
    assert {f"anabranch {verb} --help" for verb in verbs} <= shown


if __name__ == "__main__":
    text = FENCE.sub(
        lambda found: f"```console\n$ {found['command']}\n{printed(found['command'])}```",
        PAGE.read_text("utf-8"),
    )
    PAGE.write_text(text, "utf-8")
