"""Text for terminals: what may not act does not act, and widths are what terminals make of them."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.inspection.to_text.columns import Column, columns
from anabranch.inspection.to_text.letters import ascii_only, cut, visible, width
from anabranch.inspection.to_text.page import Page, measure
from anabranch.inspection.to_text.terminal import joined

HOSTILE = [
    "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x9b2J", "a\rb", "a\nb", "a\tb", "\x00", "\x7f",
    "\u202eevil", "\u2066x\u2069", "\u200b", "\u2028", "\ud800", "\ufeff", "\x08" * 5,
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_what_acts_or_hides_is_written_out(text: str) -> None:
    shown = visible(text)
    assert shown.isprintable()
    assert shown.isascii()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", "\\x1b[2J"),
        ("a\nb", "a\\nb"),
        ("\u202e", "\\u202e"),
        ("\ud800", "\\ud800"),
        ("layer1.W", "layer1.W"),
        ("损失 é ×", "损失 é ×"),
    ],
)
def test_how_it_is_written(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text())
def test_nothing_that_is_shown_controls_anything(text: str) -> None:
    page = Page()
    shown = page.clean(text)
    assert not {unicodedata.category(c) for c in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert page.clean(shown) == shown
    assert Page(ascii=True).clean(text).isascii()


def test_marks_have_a_spelling_in_ascii() -> None:
    assert ascii_only("p = x × y → z ● ○ ‖2‖ …") == "p = x * y -> z * o |2| .."
    assert ascii_only("损α") == "\\u635f\\u03b1"


def test_wide_letters_count_two_and_accents_nothing() -> None:
    assert [width(text) for text in ("loss", "损失", "é", "e\u0301", "")] == [4, 4, 1, 1, 0]


@pytest.mark.parametrize("text", ["abcdefghij", "损失损失损失", "a损b失c", "e\u0301" * 9])
@pytest.mark.parametrize("left", [False, True])
def test_what_is_cut_fits_and_says_so(text: str, left: bool) -> None:
    for room in range(width(text) + 2):
        found = cut(text, room, left=left)
        assert width(found) <= room
        if room >= width(text):
            assert found == text
        elif room:
            assert (found[0] if left else found[-1]) == "…"


def test_a_label_of_megabytes_costs_nothing() -> None:
    assert len(Page().clean("x" * 10_000_000)) < 10_000


def table(page: Page, rows: list[list[str]]) -> tuple[list[str], list[str]]:
    heads = [
        Column("name", cut="right", keep=3),
        Column("value", right=True, keep=2),
        Column("place", cut="left", keep=1),
    ]
    lines, hidden = columns(page, heads, rows)
    return joined(lines).splitlines(), hidden


def test_columns_line_up_and_keep_their_numbers() -> None:
    lines, hidden = table(Page(width=40), [["x", "2", "a.py:1"], ["损失", "-1.5", "b.py:12"]])
    assert lines == [
        "  name  value  place",
        "──────────────────────",
        "  x         2  a.py:1",
        "  损失   -1.5  b.py:12",
    ]
    assert hidden == []


def test_long_cells_are_cut_where_it_hurts_least() -> None:
    row = ["a_very_long_name_indeed", "1.234e-05", "some/deep/folder/file.py:12"]
    lines, hidden = table(Page(width=44), [row])
    assert lines[2] == "  a_very_long_na…  1.234e-05  …er/file.py:12"
    assert not hidden
    lines, hidden = table(Page(width=30), [row])
    assert (lines[2], hidden) == ("a_very_l…  1.234e-05  …e.py:12", [])
    lines, hidden = table(Page(width=24), [row])
    assert lines[2].startswith("a_very_long")
    assert hidden == ["place"]


def test_numbers_are_never_cut() -> None:
    row = ["a_name_of_17_cols", "-1.2345678901234e-100", "a.py:1"]
    lines, _ = table(Page(width=44), [row])
    assert "-1.2345678901234e-100" in lines[2]


@given(
    st.lists(st.tuples(st.text(max_size=30), st.floats(), st.text(max_size=30)), max_size=5),
    st.integers(20, 120),
    st.booleans(),
)
def test_no_line_is_wider_than_the_page(rows, columns_of_page, is_ascii) -> None:
    page = Page(width=columns_of_page, ascii=is_ascii)
    heads = [Column("name", cut="right"), Column("value", right=True), Column("x", cut="left")]
    lines, _ = columns(page, heads, [[a, page.number(v), b] for a, v, b in rows])
    assert all(measure(line) <= page.width for line in lines)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (64.0, "64"), (0.0, "0"), (-0.0, "0"), (0.2334, "0.2334"), (-5.1391, "-5.139"),
        (1.8e-9, "1.8e-9"), (123456.0, "123456"), (1234567.0, "1.235e6"), (12345.678, "12346"),
        (float("nan"), "nan"), (float("-inf"), "-inf"), ("inf", "inf"), (True, "true"), (3, "3"),
        (2**70, "1.181e21"), (1 / 3, "0.3333"),
    ],
)  # fmt: skip
def test_numbers_have_four_digits(value, shown: str) -> None:
    assert Page().number(value) == shown
    assert Page(digits=8).number(1 / 3) == "0.33333333"


@given(st.text(alphabet="ab 损\u0301", max_size=200), st.integers(20, 60), st.integers(0, 4))
def test_prose_fits_and_loses_no_word(text: str, columns_of_page: int, indent: int) -> None:
    page = Page(width=columns_of_page)
    lines = page.prose(text, indent)
    assert all(measure(line) <= page.width for line in lines)
    found = "".join("".join(part for part, _ in line) for line in lines).replace(" ", "")
    assert found == text.replace(" ", "")
