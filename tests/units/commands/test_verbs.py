"""Each verb: its exit status, its data, its help; and what it says to standard error."""

import json
import os
import re
import subprocess
import sys
import webbrowser
from pathlib import Path

import pytest

import anabranch as ab
from anabranch import cli
from anabranch.cli import COMMANDS

ROOT = Path(__file__).parents[3]
LOOKS = [name for name, module in COMMANDS.items() if hasattr(module, "GROUP")]
WORKED = ["(x*y + x)**2", "x=2", "y=3"]


@pytest.fixture(autouse=True)
def in_examples(monkeypatch):
    monkeypatch.chdir(ROOT / "examples")
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


def said(capsys, *words):
    """Exit status and standard output of a command that says nothing else."""
    status = cli.main(list(words))
    out, err = capsys.readouterr()
    assert err == ""
    return status, out


@pytest.mark.parametrize("verb", ["table", "story", "grads", "check"])
def test_text_and_data_of_the_worked_expression(capsys, verb):
    status, text = said(capsys, verb, *WORKED)
    assert status == 0
    assert "64" in text
    assert "\x1b" not in text
    status, data = said(capsys, verb, *WORKED, "--json")
    assert status == 0
    assert json.loads(data)["report"] == {"grads": "gradients"}.get(verb, verb)


def test_data_is_that_of_the_report_in_python(capsys):
    x, y = (ab.tensor(v, requires_grad=True, name=n) for n, v in (("x", 2.0), ("y", 3.0)))
    p = x * y
    p.name = "x*y"
    s = p + x
    s.name = "x*y + x"
    z = s**2
    z.name = "(x*y + x)**2"
    mine = ab.inspect(z).table(columns=["name", "value", "gradient"]).data
    theirs = json.loads(
        said(capsys, "table", *WORKED, "--json", "--columns", "name,value,gradient")[1]
    )
    for rows in (mine["rows"], theirs["rows"]):
        for row in rows:
            row.pop("line", None)
    assert mine == theirs


def test_grads_end_with_1_for_a_finding(capsys):
    assert said(capsys, "grads", "mlp.py")[0] == 0
    status, text = said(capsys, "grads", "mlp.py", "--", "--bias", "-9")
    assert status == 1
    assert "▸ layer1.W" in text


def test_check_ends_with_1_for_a_disagreement(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.py").write_text(
        "import numpy as np, anabranch as ab\n"
        "def my_linear(a, b):\n    return OP(a, b)\n"
        "OP = ab.Op('my_linear', aval=lambda a, b: a, ref=lambda a, b: 2.0 * a + 3.0 * b,\n"
        "    doc='x', vjp=(lambda ct, y, a, b: 3.0 * ct, lambda ct, y, a, b: 2.0 * ct))\n"
        "left = ab.tensor(np.ones(3), requires_grad=True)\n"
        "right = ab.tensor(np.ones(3), requires_grad=True)\n"
        "loss = my_linear(left, right).sum()\nloss.backward()\n"
    )
    with ab.testing.temporary_ops():
        status, text = said(capsys, "check", "broken.py")
    assert status == 1
    assert "0 of 2 agree." in text
    assert "left and right have each other's gradient: are two inputs swapped?" in text
    assert "my_linear gives its inputs 0 and 1 each other's derivative" in text
    assert "broken.py:3" in text


def test_check_of_directions_and_of_every_element(capsys):
    assert "along 3 random directions" in said(capsys, "check", "mlp.py", "--along", "3")[1]
    assert "element by element" in said(capsys, "check", "mlp.py", "--all")[1]
    assert cli.main(["check", "mlp.py", "--all", "--along", "2"]) == 2
    assert "not allowed with" in capsys.readouterr().err


def test_check_at_a_value_that_is_not_finite(capsys):
    status, text = said(capsys, "check", "log(x)", "x=0")
    assert status == 1
    assert "is not finite" in text


def test_a_recorded_trace_gives_the_same_tables_as_its_program(capsys, tmp_path):
    file = str(tmp_path / "story.trace.json")
    status, text = said(capsys, "record", "story.py", "--out", file)
    assert status == 0
    assert re.fullmatch(r"   5 nodes, 2 kB\n", text.removeprefix(file))
    for words in (["table"], ["table", "--edges"], ["story"], ["grads"], ["table", "--json"]):
        live = said(capsys, words[0], "story.py", *words[1:])
        assert said(capsys, words[0], file, *words[1:]) == live


def test_a_trace_cannot_be_computed_again(capsys, tmp_path):
    file = str(tmp_path / "story.trace.json")
    said(capsys, "record", "story.py", "--out", file)
    assert cli.main(["check", file]) == 2
    assert "nothing in it can be computed again" in capsys.readouterr().err


def test_record_names_its_file_after_the_program(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, text = said(capsys, "record", str(ROOT / "examples" / "story.py"), "--detail", "shape")
    assert (status, text[:16]) == (0, "story.trace.json")
    assert '"grad"' not in (tmp_path / "story.trace.json").read_text()
    assert cli.main(["record", *WORKED]) == 2
    assert "give --out" in capsys.readouterr().err
    assert cli.main(["record", *WORKED, "--out", "no/such/folder.json"]) == 3
    assert "cannot write" in capsys.readouterr().err
    data = json.loads(said(capsys, "record", *WORKED, "--out", "x.json", "--json")[1])
    assert (data["file"], data["nodes"], data["scopes"]) == ("x.json", 5, 0)
    text = said(capsys, "record", str(ROOT / "examples" / "mlp.py"))[1]
    assert re.match(r"mlp.trace.json   22 nodes, 3 scopes, \d+ kB\n", text)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("", 3),
        ("{", 3),
        ("[]", 3),
        ('{"format": "anabranch-trace", "version": 99}', 3),
        ('{"format": "anabranch-trace", "version": 1}', 3),
        ("[" * 100_000, 3),
        ('{"format": "anabranch-trace", "version": 1, "root": 1e400}', 3),
    ],
)
def test_a_file_that_is_no_trace(capsys, tmp_path, text, status):
    file = tmp_path / "bad.trace.json"
    file.write_text(text)
    assert cli.main(["table", str(file)]) == status
    err = capsys.readouterr().err
    assert err.startswith("anabranch table: ")
    assert "Traceback" not in err


def test_a_trace_that_is_not_there(capsys):
    assert cli.main(["table", "nosuch.trace.json"]) == 3
    assert capsys.readouterr().err == (
        "anabranch table: cannot read nosuch.trace.json: No such file or directory\n"
    )


def test_one_frame_and_a_scope(capsys):
    text = said(capsys, "story", *WORKED, "--frame", "9")[1]
    assert text.count("▍") == 1
    assert "16 + 48 = 64" in text
    assert cli.main(["story", *WORKED, "--frame", "99"]) == 2
    assert "there are 10 frames" in capsys.readouterr().err
    assert cli.main(["story", *WORKED, "--scope", "x"]) == 2
    assert "no scope is called 'x'" in capsys.readouterr().err


def test_a_story_is_written_as_a_page_that_is_read_back(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = str(ROOT / "examples" / "story.py")
    status, text = said(capsys, "story", program, "--out", "s.html")
    assert status == 0
    assert text.startswith("s.html   10 frames, ")
    assert said(capsys, "table", "s.html") == said(capsys, "table", program)
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda uri: opened.append(uri) or True)
    assert said(capsys, "story", program, "--open")[0] == 0
    assert opened == [(tmp_path / "story.html").as_uri()]
    monkeypatch.setattr(webbrowser, "open", lambda uri: False)
    assert cli.main(["story", program, "--open"]) == 0
    assert "no browser was found" in capsys.readouterr().err
    assert cli.main(["story", program, "--out", "s.txt"]) == 2
    assert cli.main(["story", program, "--out", "no/s.html"]) == 3
    assert "cannot write" in capsys.readouterr().err


def test_pictures_by_their_endings(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, start in (("z.svg", b"<svg"), ("z.png", b"\x89PNG"), ("z.dot", b"digraph")):
        status, text = said(capsys, "draw", *WORKED, "--out", name)
        assert status == 0
        assert text.startswith(f"{name}   ")
        assert (tmp_path / name).read_bytes().startswith(start)
    said(capsys, "draw", *WORKED, "--out", "first.svg", "--frame", "1")
    said(capsys, "draw", *WORKED, "--out", "strip.svg", "--strip")
    sizes = [(tmp_path / name).stat().st_size for name in ("first.svg", "z.svg", "strip.svg")]
    assert sizes == sorted(sizes)


@pytest.mark.parametrize(
    ("words", "words_said"),
    [
        ([], "which FILE?"),
        (["--out", "z.gif"], "a picture ends in .svg, .png or .dot; z.gif does not"),
        (["--out", "z.png", "--strip"], "--strip writes one sheet of SVG"),
        (["--out", "z.svg", "--frame", "11"], "the story has no frame 11"),
        (["--out", "z.svg", "--frame", "0"], "takes a whole number from 1"),
        (["--out", "z.svg", "--frame", "1", "--strip"], "not allowed with"),
        (["--out", "z.png", "--scale", "nan"], "takes a number above 0, not 'nan'"),
    ],
)
def test_pictures_that_cannot_be(capsys, tmp_path, monkeypatch, words, words_said):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["draw", *WORKED, *words]) == 2
    assert words_said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_colour_is_a_wish(capsys):
    assert "\x1b[38;5;166m64" in said(capsys, "table", *WORKED, "--color", "always")[1]
    assert cli.main(["table", *WORKED, "--color", "perhaps"]) == 2


@pytest.mark.parametrize("text", ["-x*2", "-x", "-(x*2)", "- x"])
def test_an_expression_may_begin_with_a_minus_sign(capsys, text):
    status, shown = said(capsys, "table", text, "x=1", "--columns", "name,value")
    assert status == 0
    assert " -" in shown.splitlines()[-1]


def test_digits_are_a_wish(capsys):
    assert "0.33333333" in said(capsys, "table", "x/3", "x=1", "--digits", "8")[1]


def test_a_query_that_has_no_meaning_is_wrong_usage(capsys):
    assert cli.main(["table", *WORKED, "--where", "shap:2"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "  hint: did you mean shape:2?"


def test_why_asks_about_an_element_and_a_phase(capsys):
    status, text = said(capsys, "why", "mlp.py", "z1", "--index", "0,3", "--phase", "forward")
    assert (status, text.splitlines()[0].split()[:2]) == (0, ["z1[0,", "3]"])
    status, text = said(capsys, "why", "softmax.py", "p", "--index", "[2, 0]")
    assert status == 1 and "p[2, 0] = nan" in text
    status, data = said(capsys, "why", "softmax.py", "--phase", "backward", "--json")
    found = json.loads(data)["finding"]
    assert (status, found["phase"], found["index"]) == (1, "backward", [2, 2])
    assert said(capsys, "why", *WORKED, "--phase", "backward")[0] == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["softmax.py", "p", "--index", "4,0"],
            "[0, 0] to [3, 2], and [4, 0] is none",
        ),
        (["softmax.py", "p", "--index", "0"], "p is float64 (4, 3): [0, 0] to [3, 2], and [0]"),
        (["softmax.py", "loss", "--index", "0"], "loss is a single number, which has no index"),
        (["softmax.py", "--index", "0,0"], "anabranch why INPUT NAME --index I,J"),
        (["softmax.py", "p", "--index", "-1,0"], "takes whole numbers from 0"),
        (["softmax.py", "p", "--index", "a,0"], "takes whole numbers from 0, as 2,0, not 'a,0'"),
        (["softmax.py", "--phase", "sideways"], "(choose from 'forward', 'backward')"),
    ],
)
def test_an_index_or_a_phase_that_means_nothing_is_wrong_usage(capsys, words, told):
    assert cli.main(["why", *words]) == 2
    assert told in capsys.readouterr().err


def test_check_compares_a_sample_of_the_elements(capsys):
    status, text = said(capsys, "check", "mlp.py", "--sample", "3")
    assert status == 0
    assert "layer2.W: 3 of 256 elements compared, drawn" in text
    assert "layer3.b:" not in text  # it has one
    assert "at most 3 of an input" in text
    assert said(capsys, "check", "mlp.py", "--sample", "3", "--seed", "1")[1] != text
    for words in (["--sample", "0"], ["--sample", "3", "--along", "2"], ["--sample", "3", "--all"]):
        assert cli.main(["check", "mlp.py", *words]) == 2
    capsys.readouterr()


@pytest.mark.parametrize("verb", LOOKS)
def test_every_verb_has_help_and_refuses_what_it_does_not_know(capsys, verb):
    assert cli.main([verb, "--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: anabranch {verb} ")
    assert max(map(len, text.splitlines())) <= 100
    assert cli.main([verb, *WORKED, "--xyzzy"]) == 2
    assert "no option '--xyzzy'" in capsys.readouterr().err


def test_the_help_of_all_names_every_verb_and_every_status(capsys):
    assert cli.main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"\n  {name} " in text for name in COMMANDS)
    assert all(f"{status} " in text.split("exit code:")[1] for status in range(4))
    assert max(map(len, text.splitlines())) <= 84


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_a_pipe_of_any_encoding(encoding):
    command = "import sys; from anabranch.cli import main; sys.exit(main(sys.argv[1:]))"
    ran = subprocess.run(
        [sys.executable, "-c", command, "story", *WORKED],
        env={
            **os.environ, "PYTHONIOENCODING": encoding, "PYTHONPATH": str(ROOT / "src"),
        },
        capture_output=True,
        check=True,
    )  # fmt: skip
    assert ran.stderr == b""
    assert b"\x1b" not in ran.stdout
    text = ran.stdout.decode(encoding)
    assert ("×" in text) is (encoding == "utf-8")
    assert "16 * 3 = 48" in text or encoding == "utf-8"


@pytest.mark.parametrize("verb", ["why", "story"])
def test_names_in_a_mistake_do_nothing_to_the_terminal(capsys, tmp_path, verb):
    trace = ab.inspect(lambda x: x * x, 3.0).trace.to_dict()
    trace["nodes"][0]["name"] = "\x1b[2J\u202e" + "x" * 50_000
    file = tmp_path / "hostile.trace.json"
    file.write_text(json.dumps(trace))
    words = ["why", str(file), "y"] if verb == "why" else ["story", str(file), "--node", "y"]
    assert cli.main(words) == 2
    err = capsys.readouterr().err
    assert "there are \\x1b[2J" in err and "\x1b" not in err and "\u202e" not in err
    assert len(err) < 200
