"""docs/errors.md has a section for each code in the package, with a program that raises it."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest

import anabranch as ab
from anabranch.core.registry import temporary_ops

PACKAGE = Path(ab.__file__).parent
PAGE = (Path(__file__).parents[2] / "docs" / "errors.md").read_text(encoding="utf-8")
SECTION = re.compile(
    r"^## (?P<code>\S+)\n\n(?P<text>.+?)\n\n```python\n(?P<program>.*?)^```$", re.M | re.S
)
SECTIONS = {m["code"]: m for m in SECTION.finditer(PAGE)}
CODE = re.compile(r"[a-z]+(-[a-z]+)+")


def raised_codes() -> set[str]:
    """The codes in the package: strings of that form that are passed as arguments."""
    return {
        argument.value
        for file in PACKAGE.rglob("*.py")
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call)
        for argument in call.args
        if isinstance(argument, ast.Constant)
        and isinstance(argument.value, str)
        and CODE.fullmatch(argument.value)
    }


def test_the_sections_are_the_codes() -> None:
    assert sorted(SECTIONS) == sorted(raised_codes())


def test_the_sections_are_sorted_and_nothing_else_has_a_heading() -> None:
    headings = re.findall(r"^## (.+)$", PAGE, re.M)
    assert headings == sorted(SECTIONS)


@pytest.mark.parametrize("code", SECTIONS)
def test_the_program_of_a_section_raises_its_code(code: str) -> None:
    program = SECTIONS[code]["program"]
    with temporary_ops(), pytest.raises(ab.AnabranchError) as caught:
        exec(compile(program, f"{code}.py", "exec"), {"np": np, "ab": ab})
    assert caught.value.code == code
    assert str(caught.value).startswith(f"[{code}] ")


@pytest.mark.parametrize("code", SECTIONS)
def test_a_section_says_what_it_means_in_few_words(code: str) -> None:
    assert 20 <= len(SECTIONS[code]["text"]) <= 300
