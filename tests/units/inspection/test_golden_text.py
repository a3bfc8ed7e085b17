"""The text of each report at three widths, in colour and in ASCII, as it is kept in tests/golden.

`python tests/units/inspection/test_golden_text.py` writes the files anew; look at the difference.
"""

import io
import os
import re
from functools import cache
from pathlib import Path

import pytest

from anabranch.commands import program
from anabranch.inspection.checked import Checked, CheckedRow
from anabranch.inspection.to_text import lines_of
from anabranch.inspection.to_text.page import Page, measure
from anabranch.inspection.to_text.terminal import joined, write

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "golden"
WIDTHS = (60, 80, 120)


@cache
def example(name, *arguments):
    """The report on an example, made where a reader would run it."""
    here = Path.cwd()
    os.chdir(ROOT / "examples")
    try:
        report = program.report_of(f"{name}.py", None, arguments, quiet=True)
        assert report.trace  # names files as seen from here
        return report
    finally:
        os.chdir(here)


def checked():
    """What a check could say; the errors of a real one have other digits on other machines."""
    return Checked(
        "loss",
        "Central differences, element by element, 148 evaluations; allowed: 1.4e-9 + 1e-6 × the"
        " larger one",
        [
            CheckedRow("W", "f64[8,8]", -0.812, 0.406, 1.2, 1.4e-5, "wrong", [3, 1], 40, 64),
            CheckedRow("b", "f64[8]", 1.5, 1.5, 2.0e-10, 2.5e-5, "pass", None, 0, 8),
            CheckedRow("x", "f64[8]", 0.0, 0.5, 0.5, 1e-6, "kink", None, 0, 8, ["kink at [2]"]),
            CheckedRow("损失", "f64[2]", float("nan"), *[float("nan")] * 3, "not-finite"),
        ],
        ["W differs by a factor of -2."],
        ["the derivative of my_linear by its input 1 is -0.8 along a direction, a difference says"
         " 0.4   broken.py:14: y = my_linear(x, W)"],
    )  # fmt: skip


REPORTS = {
    "nodes": lambda: example("story").table(),
    "edges": lambda: example("story").table(edges=True),
    "story": lambda: example("story").story(),
    "nodes_of_arrays": lambda: example("softmax").table(),
    "edges_of_arrays": lambda: example("softmax").table(edges=True),
    "story_of_arrays": lambda: example("softmax").story(),
    "gradients": lambda: example("mlp").grads(),
    "gradients_by_scope": lambda: example("mlp").grads(by="scope"),
    "why_a_sum": lambda: example("story").why("x"),
    "why_nothing": lambda: example("story").why(),
    "why_an_array": lambda: example("mlp").why("layer1.W"),
    "why_not_finite": lambda: example("softmax").why(),
    "why_a_bad_gradient": lambda: example("softmax").why("W"),
    "why_zero": lambda: example("mlp", "--bias", "-9").why("layer1.W"),
    "why_none": lambda: example("softmax").why("targets"),
    "why_an_element": lambda: example("mlp", "--bias", "-9").why("z1", index=[0, 3]),
    "why_a_bad_element": lambda: example("softmax").why("p", index=[2, 0]),
    "why_a_value": lambda: example("story").why("s", phase="forward"),
    "why_backward": lambda: example("softmax").why(phase="backward"),
    "check": checked,
}


def pages():
    """What a file holds: a heading and a page each."""
    for width in WIDTHS:
        yield f"{width} columns", Page(width)
    yield "80 columns in ASCII", Page(80, ascii=True)


def coloured(report):
    out = io.StringIO()
    write(lines_of(report, Page(80)), out, "always")
    return out.getvalue().replace("\x1b", "\\e").rstrip("\n")


def told(name):
    """The whole file."""
    report = REPORTS[name]()
    parts = [f"=== {head}\n{joined(lines_of(report, page))}" for head, page in pages()]
    parts.append(f"=== 80 columns in colour\n{coloured(report)}")
    return "\n\n".join(parts) + "\n"


@pytest.mark.parametrize("name", REPORTS)
def test_the_text_is_as_it_was(name):
    assert told(name) == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("width", [20, 33, *WIDTHS, 200])
@pytest.mark.parametrize("is_ascii", [False, True])
def test_no_line_is_wider_than_its_page(name, width, is_ascii):
    lines = lines_of(REPORTS[name](), Page(width, ascii=is_ascii))
    assert not [line for line in lines if measure(line) > width]
    text = joined(lines)
    assert "\x1b" not in text
    assert not is_ascii or text.isascii()
    assert not [line for line in text.splitlines() if line != line.rstrip()]


def test_colour_says_nothing_that_the_text_does_not():
    for name, make in REPORTS.items():
        report = make()
        stripped = re.sub(r"\\e\[[0-9;]*m", "", coloured(report))
        assert stripped.splitlines() == joined(lines_of(report, Page(80))).splitlines(), name


if __name__ == "__main__":
    for one in REPORTS:
        (GOLDEN / f"{one}.txt").write_text(told(one), encoding="utf-8")
