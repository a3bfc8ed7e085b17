"""Who gets colours, how wide a page is, and that a pipe gets no escape code."""

import io
import json
import subprocess
import sys

import pytest
from rich.console import Console

import anabranch as ab
from anabranch.inspection.printed import Printed
from anabranch.inspection.to_text.terminal import (
    columns_of,
    has_colour,
    page_for,
    write,
)


class Screen(io.StringIO):
    """A terminal as far as anybody asks."""

    def __init__(self, encoding: str = "utf-8") -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def no_wishes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


@pytest.fixture
def report() -> ab.Report:
    x = ab.tensor(2.0, requires_grad=True, name="x")
    y = ab.tensor(3.0, requires_grad=True, name="y")
    return ab.inspect((x * y + x) ** 2)


@pytest.mark.parametrize(
    ("when", "env", "term", "on_screen", "in_pipe"),
    [
        ("auto", {}, "xterm", True, False),
        ("auto", {"NO_COLOR": "1"}, "xterm", False, False),
        ("auto", {"NO_COLOR": ""}, "xterm", True, False),
        ("auto", {"FORCE_COLOR": "1"}, "xterm", True, True),
        ("auto", {"FORCE_COLOR": "1", "NO_COLOR": "1"}, "xterm", False, False),
        ("auto", {}, "dumb", False, False),
        ("always", {"NO_COLOR": "1"}, "dumb", True, True),
        ("never", {"FORCE_COLOR": "1"}, "xterm", False, False),
    ],
)
def test_who_gets_colours(monkeypatch, when, env, term, on_screen, in_pipe) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TERM", term)
    assert has_colour(Screen(), when) is on_screen
    assert has_colour(io.StringIO(), when) is in_pipe


def test_another_word_for_colour_is_refused() -> None:
    with pytest.raises(ab.ArgumentError, match="bad-argument"):
        has_colour(io.StringIO(), "perhaps")


def test_a_pipe_is_100_wide_and_columns_says_otherwise(monkeypatch) -> None:
    assert columns_of(io.StringIO()) == 100
    monkeypatch.setenv("COLUMNS", "64")
    assert columns_of(io.StringIO()) == columns_of(Screen()) == 64
    monkeypatch.setenv("COLUMNS", "1")
    assert columns_of(io.StringIO()) == 20
    monkeypatch.setenv("COLUMNS", "wide")
    assert columns_of(io.StringIO()) == 100


@pytest.mark.parametrize(
    ("encoding", "is_ascii"),
    [("utf-8", False), ("ascii", True), ("latin-1", True), ("cp437", True), ("nosuch", True)],
)
def test_letters_that_the_output_does_not_know_are_spelled(encoding: str, is_ascii: bool) -> None:
    assert page_for(Screen(encoding)).ascii is is_ascii


def test_a_dumb_terminal_gets_ascii(monkeypatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert page_for(Screen()).ascii
    assert not page_for(io.StringIO()).ascii


def test_a_closed_file_is_no_terminal() -> None:
    file = io.StringIO()
    file.close()
    assert not has_colour(file)


def everything(report: ab.Report) -> list[Printed]:
    return [
        report.table(), report.table(edges=True), report.story(), report.grads(), report.check()
    ]  # fmt: skip


def test_str_and_a_pipe_have_no_escape_code_and_are_equal(report) -> None:
    for one in everything(report):
        out = io.StringIO()
        one.print(out)
        assert out.getvalue() == f"{one}\n"
        assert "\x1b" not in out.getvalue()


def test_a_screen_gets_colours(report) -> None:
    for one in everything(report):
        out = Screen()
        one.print(out)
        assert "\x1b[" in out.getvalue()


def test_data_and_json_say_the_same(report) -> None:
    for one in everything(report):
        assert json.loads(one.to_json()) == one.data
        assert one.data["report"] == one.view


def test_rich_prints_a_report_in_its_own_width(report) -> None:
    console = Console(file=io.StringIO(), width=60, force_terminal=True, color_system="256")
    console.print(report.table())
    lines = console.file.getvalue().splitlines()
    assert "\x1b[38;5;166m" in "".join(lines)
    assert any("contributions" in line for line in lines)


def test_digits(report) -> None:
    out = io.StringIO()
    third = ab.inspect(ab.tensor(1.0, requires_grad=True, name="x") / 3.0)
    third.table(columns=["value"]).print(out, digits=8)
    assert "0.33333333" in out.getvalue()


def test_nothing_is_left_open_between_lines() -> None:
    out = io.StringIO()
    write([[("a", "bad")], [("b", "")]], out, "always")
    assert out.getvalue() == "\x1b[1;38;5;163ma\x1b[0m\nb\n"


def test_rich_is_not_imported_before_it_is_used() -> None:
    program = """
import sys
import anabranch as ab
x = ab.tensor(2.0, requires_grad=True)
report = ab.inspect(x * x)
report.table()
assert "rich" not in sys.modules, "by making a table"
from anabranch import cli
assert "rich" not in sys.modules, "by the command line"
"""
    subprocess.run([sys.executable, "-c", program], check=True)
