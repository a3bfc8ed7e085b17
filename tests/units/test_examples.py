"""The examples print what they promise, and the code in the documentation runs as printed."""

import doctest
import importlib.util
import itertools
import re
import subprocess
import sys
from pathlib import Path

import pytest

import anabranch as ab

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
WAYS = ("eager", "compiled", "manual")


def output_of(name, *arguments):
    """What an example prints, run as a reader runs it."""
    ran = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    return ran.stdout


def load(name):
    """An example as a module, for those that keep their work in functions."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def marked(name):
    """What stands in the README between two markers."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return text.split(f"<!-- {name} -->\n")[1].split(f"<!-- /{name} -->")[0]


# z = (x*y + x)**2


@pytest.fixture(scope="module")
def story():
    return output_of("scalar_story")


def after(text, heading):
    """The lines below a heading, up to the next empty one."""
    return text.split(f"{heading}\n")[1].split("\n\n")[0].splitlines()


@pytest.mark.proves("S1-02")
def test_the_scalar_example_is_short(story):
    assert len((EXAMPLES / "scalar_story.py").read_text(encoding="utf-8").splitlines()) <= 80
    assert story


@pytest.mark.proves("S1-16", "S1-18", "S1-35")
def test_the_nodes_of_the_scalar_example(story):
    assert after(story, "Each node, its value, and the derivative of z by it:") == [
        "x       value   2.0   grad  64.0",
        "y       value   3.0   grad  32.0",
        "x*y     value   6.0   grad  16.0",
        "x*y+x   value   8.0   grad  16.0",
        "z       value  64.0   grad   1.0",
    ]
    assert story.endswith("\n\nAll right: dz/dx = 64, and a central difference says 64.0000.\n")


@pytest.mark.proves("S1-19")
def test_the_hand_calculation_of_the_scalar_example(story):
    lines = after(story, "By hand, with u = x*y + x and z = u²:")
    numbers = re.findall(r"= (\d+)|at u = (\d+)", " ".join(lines))
    assert [int(a or b) for a, b in numbers] == [6, 8, 64, 8, 16, 4, 2]


@pytest.mark.proves("S1-20", "S1-36")
def test_the_way_back_of_the_scalar_example(story):
    lines = after(story, "The gradient on its way back:")
    assert [" ".join(line.split()) for line in lines] == [
        "z starts with 1 z: none → 1",
        "z sends 8 to x*y+x x*y+x: none → 8",
        "z sends 8 to x*y+x x*y+x: 8 → 16",
        "x*y+x sends 16 to x*y x*y: none → 16",
        "x*y+x sends 16 to x x: none → 16",
        "x*y sends 48 to x x: 16 → 64",
        "x*y sends 32 to y y: none → 32",
    ]


@pytest.mark.proves("S1-39")
def test_the_picture_has_every_local_derivative_and_is_that_of_the_readme(story):
    picture = re.search(r"\n\n(╭.*╯)\n\n", story, re.DOTALL)[1]
    assert marked("picture").strip() == f"```text\n{picture}\n```"
    assert sorted(re.findall(r"─ (\d) ─", picture)) == ["1", "1", "2", "3", "8", "8"]
    rows = picture.splitlines()
    for above, below in itertools.pairwise(rows):  # no stream and no border ends in the air
        assert all(below[i] in "│├▼▶╰╯" for i, sign in enumerate(above) if sign in "╭╮┬")


@pytest.mark.proves("S1-17", "S1-32")
def test_the_worked_example():
    def f(x, y):
        return (x * y + x) ** 2

    x, y = (ab.tensor(v, requires_grad=True) for v in (2.0, 3.0))
    z = f(x, y)
    z.backward()
    assert (z.item(), x.grad, y.grad) == (64.0, 64.0, 32.0)
    assert abs((f(2 + 1e-6, 3.0) - f(2 - 1e-6, 3.0)) / 2e-6 - x.grad) < 1e-5


# Linear regression


@pytest.mark.slow
@pytest.mark.proves("S0-57", "S0-58")
@pytest.mark.parametrize("way", WAYS)
def test_regression_prints_its_way_to_the_line(way):
    lines = output_of("linear_regression", way).splitlines()
    assert [re.match(r"step +(\d+)   loss \d+\.\d{6}$", line)[1] for line in lines[:-1]] == [
        *("0", "20", "40", "60", "80")
    ]
    assert lines[0] == "step   0   loss 11.309853"  # before the first update
    assert lines[-1] == "w = 3.0000   b = 1.5000"


@pytest.mark.usefixtures("on_reference")
@pytest.mark.proves("S0-57", "S0-59", "S0-60")
def test_the_three_ways_give_equal_bits():
    regression = load("linear_regression")
    losses = {way: [] for way in WAYS}
    found = {
        way: regression.WAYS[way](
            *regression.data(7), report=lambda step, loss, way=way: losses[way].append(float(loss))
        )
        for way in WAYS
    }
    assert len(losses["eager"]) == 100
    assert losses["eager"] == losses["compiled"] == losses["manual"]
    assert len({(w.tobytes(), b.tobytes()) for w, b in found.values()}) == 1


@pytest.mark.slow
@pytest.mark.proves("S0-56")
def test_regression_finds_the_line_for_200_seeds():
    regression = load("linear_regression")
    for seed in range(200):
        w, b = regression.manual(*regression.data(seed), report=lambda step, loss: None)
        assert abs(w.item() - 3) < 1e-4, seed
        assert abs(b.item() - 1.5) < 1e-4, seed


@pytest.mark.proves("S0-56")
@pytest.mark.parametrize("way", WAYS)
def test_regression_finds_the_line_for_a_few_seeds(way):
    regression = load("linear_regression")
    for seed in range(5):
        w, b = regression.WAYS[way](*regression.data(seed), report=lambda step, loss: None)
        assert abs(w.item() - 3) < 1e-4
        assert abs(b.item() - 1.5) < 1e-4


# An op of one's own; a graph by hand


@pytest.mark.proves("S0-05", "S0-28")
def test_an_own_op_is_listed_computed_differentiated_and_checked():
    text = output_of("own_op")
    assert "#1 bell(#0) : f64[17]" in text
    assert "1.772454  1.772454" in text
    assert "at 1:  0.3679  -0.7358  0.7358" in text
    assert re.search(r"op bell: (\d+) of \1 pass$", text, re.MULTILINE)
    assert re.search(r"f64\[17\] .* pass$", text, re.MULTILINE)


@pytest.mark.proves("S4-25", "S4-27", "S4-35")
def test_the_graph_by_hand_has_names_a_branch_a_part_used_twice_and_a_log():
    text = output_of("manual_graph")
    assert '"gap" = subtract(#4, #6)' in text
    assert text.count("= tanh(") == 0
    assert [text.count(f" {op}(") for op in ("matmul", "tanh")] == [2, 2]
    assert "smooth: 1.374155\nsharp:  1.591814\ntwo settings, two structures" in text
    assert "three outputs: 1.374155" in text
    assert "the first one again: 1.374155" in text
    assert re.search(r"\nlogged:\ngap = \[[^\n]*\]\n$", text)
    assert text.count("\ngap = ") == 1

    manual = load("manual_graph")
    hashes = [ab.structure_hash(manual.build(smooth)[0]) for smooth in (True, False, True)]
    assert hashes[0] == hashes[2] != hashes[1]


@pytest.mark.proves("S4-32")
def test_no_example_writes_the_shape_of_a_result():
    for file in EXAMPLES.glob("*.py"):
        source = file.read_text(encoding="utf-8")
        assert not re.search(r"\bshape *=", source), file.name


def test_examples_use_public_names_only():
    for file in EXAMPLES.glob("*.py"):
        source = file.read_text(encoding="utf-8")
        names = re.findall(r"(?:from|import) (anabranch[.\w]*)", source)
        assert set(names) <= {"anabranch", "anabranch.testing"}, file.name


@pytest.mark.parametrize("name", ["story", "softmax", "mlp"])
def test_programs_that_commands_are_shown_on_run_by_themselves(name):
    assert output_of(name) == ""


# Code in the documentation


@pytest.mark.proves("S1-32", "S4-08")
def test_the_code_in_the_readme_runs_as_printed():
    blocks = re.findall(r"^```python\n(.*?)^```$", marked("tour"), re.MULTILINE | re.DOTALL)
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "README.md", None, 0)
    said = []
    result = doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    assert result.attempted > 10
    assert not result.failed, "".join(said)


@pytest.mark.parametrize("name", ["README.md", "docs/tour.md", "docs/graphs.md"])
def test_links_in_the_documentation_lead_somewhere(name):
    file = ROOT / name
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", file.read_text(encoding="utf-8"))
    broken = [t for t in targets if "://" not in t and not (file.parent / t).exists()]
    assert not broken


@pytest.mark.slow
def test_rosenbrocks_valley_is_walked_to_its_end():
    text = output_of("rosenbrock")
    assert "the gradient of rosenbrock agrees with central differences" in text
    distance = re.search(r"largest distance from the minimum: (\S+)", text)
    assert distance is not None
    assert float(distance[1]) < 1e-6
