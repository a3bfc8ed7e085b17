"""Programs run as Python runs them; what they do wrong is told, what they leave is undone."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import anabranch as ab
from anabranch import cli

STEPS = """
import sys
import anabranch as ab

x = ab.tensor(2.0, requires_grad=True)
for _ in range(3):
    y = x * x
    y.backward()
    x.data -= 0.25 * x.grad
    x.zero_grad()
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Writes a program, and gives what a verb says about it."""
    monkeypatch.chdir(tmp_path)

    def write(text: str, name: str = "prog.py") -> str:
        (tmp_path / name).write_text(textwrap.dedent(text), encoding="utf-8")
        return name

    return write


def test_the_last_backward_pass_is_looked_at(program, capsys):
    assert cli.main(["table", program(STEPS), "--columns", "name,value,gradient"]) == 0
    rows = capsys.readouterr().out.splitlines()[4:]
    assert [row.split() for row in rows] == [["x", "0.5", "1"], ["y", "0.25", "1"]]


def test_step_chooses_another_pass(program, capsys):
    words = ["table", program(STEPS), "--step", "1", "--columns", "name,value"]
    assert cli.main(words) == 0
    assert [row.split() for row in capsys.readouterr().out.splitlines()[4:]] == [
        *(["x", "2"], ["y", "4"])
    ]
    assert cli.main([*words[:3], "4"]) == 3
    assert "prog.py made 3 backward passes; there is no number 4" in capsys.readouterr().err


def test_transforms_are_backward_passes_too(program, capsys):
    text = """
    import numpy as np, anabranch as ab
    print(ab.grad(lambda x: (x * x * x).sum())(np.array([1.0, 2.0])))
    """
    assert cli.main(["table", program(text), "--where", "op:input"]) == 0
    assert "[3 12]" in capsys.readouterr().out


def test_a_watched_program_computes_the_same_bits(program, capsys):
    text = """
    import numpy as np, anabranch as ab
    rng = np.random.default_rng(0)
    w = ab.tensor(rng.normal(size=(4, 3)), requires_grad=True)
    for _ in range(5):
        loss = ab.tanh(rng.normal(size=(8, 4)) @ w).mean()
        loss.backward()
        w.data -= 0.1 * w.grad
        w.zero_grad()
    print(w.data.tobytes().hex())
    """
    name = program(text)
    env = {**os.environ, "PYTHONPATH": str(Path(ab.__file__).parents[1])}
    plain = subprocess.run(
        [sys.executable, name], capture_output=True, text=True, check=True, env=env
    )
    assert cli.main(["grads", name]) == 0
    assert capsys.readouterr().err == plain.stdout


def test_a_function_is_called_for_its_root(program, capsys):
    text = """
    import dataclasses, anabranch as ab

    @dataclasses.dataclass
    class Point:
        x: float

    def build():
        x = ab.tensor(Point(3.0).x, requires_grad=True, name="x")
        return x * x

    def number():
        return 3.0

    def report():
        return ab.inspect(build())

    assert __name__ == "prog"
    """
    name = program(text)
    for function in ("build", "report"):
        assert cli.main(["table", f"{name}:{function}", "--columns", "name,gradient"]) == 0
        assert "\n  x            6\n" in capsys.readouterr().out
    assert cli.main(["table", f"{name}:number"]) == 3
    assert "returned a float; the root of a graph is a tensor" in capsys.readouterr().err
    assert cli.main(["table", f"{name}:biuld"]) == 2
    assert "prog.py has no function 'biuld'. Did you mean 'build'?" in capsys.readouterr().err


def test_arguments_after_two_dashes_are_the_programs(program, capsys):
    text = """
    import sys, anabranch as ab
    assert sys.argv[0].endswith("prog.py")
    x = ab.tensor(float(sys.argv[2]), requires_grad=True, name=sys.argv[1])
    (x * x).backward()
    """
    assert cli.main(["table", program(text), "--", "--lr", "0.5", "--json"]) == 0
    assert "--lr" in capsys.readouterr().out


def test_what_a_program_prints_goes_to_standard_error(program, capsys):
    name = program(STEPS + "print('hello')\nsys.stdout.write('again\\n')")
    assert cli.main(["table", name, "--json"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("{")
    assert err == "hello\nagain\n"
    assert cli.main(["table", name, "-q"]) == 0
    assert capsys.readouterr().err == ""


def test_neighbours_can_be_imported_and_nothing_stays_behind(program, capsys):
    program("import anabranch as ab\nx = ab.tensor(3.0, requires_grad=True)", "neighbour.py")
    text = """
    import sys
    from neighbour import x
    (x * x).backward()
    sys.argv = sys.stdout = None
    sys.path.append("nowhere")
    """
    before = (sys.argv, list(sys.path), sys.stdout, sys.modules["__main__"])
    assert cli.main(["table", program(text)]) == 0
    assert (sys.argv, list(sys.path), sys.stdout, sys.modules["__main__"]) == before
    assert "neighbour.py:2" in capsys.readouterr().out
    sys.modules.pop("neighbour")


def test_threads_are_waited_for(program, capsys):
    text = """
    import threading, time
    def work():
        time.sleep(0.05)
        print("done")
    threading.Thread(target=work).start()
    """
    assert cli.main(["table", program(STEPS + textwrap.dedent(text))]) == 0
    assert capsys.readouterr().err == "done\n"


def test_a_program_without_a_backward_pass(program, capsys):
    assert cli.main(["story", program("import anabranch as ab\nab.tensor(2.0) * 3.0")]) == 3
    assert capsys.readouterr().err == (
        "anabranch story: prog.py ended without a backward pass, so there is nothing to look at.\n"
        "prog.py:FUNCTION looks at the value that a function of it returns.\n"
    )


@pytest.mark.parametrize(
    ("ending", "status", "said"),
    [
        ("sys.exit()", 0, ""),
        ("sys.exit(0)", 0, ""),
        ("raise SystemExit", 0, ""),
        ("sys.exit(7)", 3, "anabranch grads: prog.py ended with status 7\n"),
        ("sys.exit('no data')", 3, "anabranch grads: prog.py ended: no data\n"),
    ],
)
def test_programs_that_end_themselves(program, capsys, ending, status, said):
    assert cli.main(["grads", program(STEPS + ending)]) == status
    assert capsys.readouterr().err == said


def test_a_program_that_raises_shows_its_own_traceback(program, capsys):
    text = STEPS + "def f():\n    raise KeyError('lost')\nf()"
    assert cli.main(["table", program(text)]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert lines[0] == "anabranch table: prog.py failed while running"
    assert lines[1] == "Traceback (most recent call last):"
    assert lines[2].endswith('prog.py", line 13, in <module>')
    assert lines[-1] == "KeyError: 'lost'"
    assert "commands" not in err


def test_an_error_of_the_library_in_a_program_keeps_its_words(program, capsys):
    text = "import anabranch as ab\nab.tensor([1.0, 2.0]) + ab.tensor([1.0, 2.0, 3.0])"
    assert cli.main(["table", program(text)]) == 3
    err = capsys.readouterr().err
    assert "[shape-mismatch]" in err
    assert "prog.py" in err


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"def f(:\n", "SyntaxError"),
        (b"x = '\xff'\n", "SyntaxError"),
        (b"\x00\x01", "null bytes"),
    ],
)
def test_what_is_no_program(tmp_path, capsys, data, said):
    (tmp_path / "bad.py").write_bytes(data)
    assert cli.main(["table", str(tmp_path / "bad.py")]) == 3
    err = capsys.readouterr().err
    assert err.startswith("anabranch table: bad.py is no Python program\n")
    assert said in err


def test_a_file_that_is_not_there(capsys):
    assert cli.main(["table", "nosuch.py"]) == 3
    assert capsys.readouterr().err.startswith("anabranch table: cannot read nosuch.py: ")
    assert cli.main(["table", "nosuch.py:f"]) == 3


def test_a_file_of_another_kind(program, capsys):
    assert cli.main(["table", program("x", "data.txt")]) == 2
    assert "a Python file ends in .py" in capsys.readouterr().err


def test_values_are_for_expressions(program, capsys):
    assert cli.main(["table", program(STEPS), "x=3"]) == 2
    assert "x=3 is for expressions" in capsys.readouterr().err


def test_an_interrupt_in_a_program_ends_with_130(program, capsys):
    assert cli.main(["table", program("raise KeyboardInterrupt")]) == 130
    assert capsys.readouterr().err.endswith("anabranch table: stopped\n")


def test_watching_ends_with_the_program(program, capsys):
    program(STEPS)
    assert cli.main(["table", "prog.py"]) == 0
    before = capsys.readouterr().out
    x = ab.tensor(np.arange(3.0), requires_grad=True)
    (x * x).sum().backward()
    assert cli.main(["table", "prog.py"]) == 0
    assert capsys.readouterr().out == before


def test_a_reader_that_leaves_early_is_no_error(program):
    name = program(
        "import anabranch as ab\nx = ab.tensor(1.0, requires_grad=True)\ny = x\n"
        "for _ in range(300):\n    y = y + x\ny.backward()\n"
    )
    command = "import sys; from anabranch.cli import main; sys.exit(main(['story', sys.argv[1]]))"
    with subprocess.Popen(
        [sys.executable, "-c", command, name],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(ab.__file__).parents[1])},
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.readline()
        child.stdout.close()
        error = child.stderr.read()
        assert (child.wait(), error) == (0, b"")
