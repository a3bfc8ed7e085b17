"""A wrong gradient that is a right one in the wrong place is read as such."""

import numpy as np
import pytest

import anabranch as ab
from anabranch.testing import temporary_ops
from anabranch.testing.readings import Side, readings


def wrong(name, analytic, numeric) -> Side:
    return Side(name, np.array(analytic, float), np.array(numeric, float), ok=False)


def test_two_gradients_in_each_others_place() -> None:
    sides = [wrong("a", [1.0, 2.0], [5.0, 6.0]), wrong("b", [5.0, 6.0], [1.0, 2.0])]
    (line,) = readings(sides)
    assert line == "a and b have each other's gradient: are two inputs swapped?"


def test_one_right_and_one_stolen_gradient_are_not_swapped() -> None:
    sides = [wrong("a", [5.0, 9.0], [1.0, 3.0]), wrong("b", [3.0, 3.0], [5.0, 9.0])]
    assert readings(sides) == []


def test_a_transpose_of_a_square_matrix() -> None:
    a = np.arange(9.0).reshape(3, 3)
    assert readings([wrong("W", a, a.T)]) == ["W has the transpose of its gradient."]


def test_a_factor_that_every_element_shares() -> None:
    numeric = np.array([1.0, -3.0, 0.0])
    assert readings([wrong("W", -2 * numeric, numeric)]) == ["W differs by a factor of -2."]
    assert readings([wrong("W", [-2.0, 6.0, 0.1], numeric)]) == []


def test_a_lack_of_precision_is_no_factor() -> None:
    numeric = np.array([1.0, -3.0])
    assert readings([wrong("W", numeric * (1 + 3e-5), numeric)]) == []


@pytest.mark.parametrize(("analytic", "said"), [(-4.0, True), (6.0, True), (4.1, False)])
def test_a_single_number_has_a_factor_only_if_it_is_a_simple_one(analytic, said) -> None:
    assert bool(readings([wrong("x", analytic, 4.0)])) is said


def test_a_gradient_that_was_never_written() -> None:
    (line,) = readings([wrong("x", [0.0, 0.0], [1.0, 2.0])])
    assert line.startswith("x has a gradient of 0")


def test_what_is_right_or_not_finite_is_not_read() -> None:
    right = Side("x", np.ones(2), np.ones(2), ok=True)
    assert readings([right, wrong("y", [1.0], [np.nan])]) == []


@pytest.mark.proves("S0-70")
def test_swapped_gradients_of_equal_shape_are_named_by_the_check() -> None:
    def swapped(slot):
        return lambda ct, y, a, b: ct * (2.0, 3.0)[1 - slot]

    with temporary_ops():
        op = ab.Op(
            "weighted", aval=lambda a, b: a, ref=lambda a, b: 2.0 * a + 3.0 * b, doc="x",
            vjp=(swapped(0), swapped(1)),
        )  # fmt: skip
        report = ab.check_gradients(
            lambda left, right: op(left, right).sum(), np.ones(3), np.ones(3),
            raise_on_failure=False,
        )  # fmt: skip
    assert report.readings == (
        "left and right have each other's gradient: are two inputs swapped?",
    )
    assert report.readings[0] in str(report)
    assert [row.differing for row in report.rows] == [3, 3]


def test_the_tolerance_of_a_row_is_made_of_its_parts() -> None:
    report = ab.check_gradients(lambda x: (x * x * x).sum(), np.array([1.0, 100.0]))
    (row,) = report.rows
    assert (row.differing, row.compared) == (0, 2)
    assert row.scale == pytest.approx(30_000)  # where the error is largest
