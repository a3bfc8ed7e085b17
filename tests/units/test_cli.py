"""The command line: what it offers, and how it fails."""

import json
import os
import subprocess
import sys
import types

import pytest

import anabranch as ab
from anabranch import cli


def command(run):
    """A command module that does nothing but this."""
    return types.SimpleNamespace(HELP="a test", add_arguments=lambda parser: None, run=run)


def outcome(monkeypatch, capsys, run):
    """Exit status and what was written to stderr when a command does this."""
    monkeypatch.setitem(cli.COMMANDS, "trial", command(run))
    return cli.main(["trial"]), capsys.readouterr().err


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"anabranch {ab.__version__}\n"


def test_the_package_runs_as_a_module():
    ran = subprocess.run(
        [sys.executable, "-m", "anabranch", "--version"], capture_output=True, text=True, check=True
    )
    assert ran.stdout == f"anabranch {ab.__version__}\n"


def test_help_lists_every_command(capsys):
    assert cli.main(["--help"]) == 0
    text = capsys.readouterr().out
    for name, module in cli.COMMANDS.items():
        assert name in text
        assert module.HELP.split()[0] in text


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "anabranch: which VERB? (see anabranch --help)"),
        (["xyzzy"], "anabranch: no verb 'xyzzy'. (see anabranch --help)"),
        (["tabel", "x.py"], "anabranch: no verb 'tabel'. Did you mean 'table'?"),
        (["--json"], "anabranch: which VERB? (see anabranch --help)"),
        (["--nosuch"], "anabranch: no option '--nosuch'. (see anabranch --help)"),
        (["--help2"], "anabranch: no option '--help2'. Did you mean '--help'?"),
        (
            ["--xyzzy", "table", "x"],
            "anabranch table: no option '--xyzzy'. (see anabranch table --help)",
        ),
        (
            ["grads", "x", "--rows"],
            "anabranch grads: no option '--rows'. (see anabranch grads --help)",
        ),
        (
            ["table", "x", "--edgs"],
            "anabranch table: no option '--edgs'. Did you mean '--edges'?",
        ),
        (
            ["table", "x", "--rows", "few"],
            "anabranch table: argument --rows: takes a whole number from 0, not 'few'"
            " (see anabranch table --help)",
        ),
        (
            ["table"],
            "anabranch table: which INPUT? A program, a trace, a page or an expression",
        ),
    ],
)
def test_a_wrong_command_is_told_in_one_line(capsys, argv, said):
    assert cli.main(argv) == 2
    assert capsys.readouterr().err == f"{said}\n"


def test_options_may_stand_before_the_verb(capsys):
    assert cli.main(["--json", "--digits", "2", "table", "x*x", "x=3"]) == 0
    assert json.loads(capsys.readouterr().out)["nodes"] == 2


def test_a_command_gives_its_own_status(monkeypatch, capsys):
    assert outcome(monkeypatch, capsys, lambda options: 7) == (7, "")


def test_errors_of_the_library_come_without_a_traceback(monkeypatch, capsys):
    def run(options):
        ab.tensor([1.0, 2.0]) + ab.tensor([1.0, 2.0, 3.0])

    status, error = outcome(monkeypatch, capsys, run)
    assert status == 3
    assert error.startswith("anabranch trial: [shape-mismatch]")
    assert "Traceback" not in error


def test_other_errors_keep_their_traceback(monkeypatch, capsys):
    def run(options):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        outcome(monkeypatch, capsys, run)


def test_an_interrupt_ends_with_130(monkeypatch, capsys):
    def run(options):
        raise KeyboardInterrupt

    assert outcome(monkeypatch, capsys, run) == (130, "\nanabranch trial: stopped\n")


def test_a_reader_that_leaves_early_is_no_error():
    program = (
        "import sys; from anabranch.cli import main; sys.exit(main(['demo', '--epochs', '2']))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        child.stdout.readline()
        child.stdout.close()
        error = child.stderr.read()
        assert (child.wait(), error) == (0, b"")


def test_a_terminal_with_few_letters_is_no_error():
    program = "from anabranch.cli import main; main(['--version']); print(chr(0x2192))"
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.endswith("?\n")
