"""A failed gradient check names the op to blame, and a kink its op and element."""

import numpy as np
import pytest

import anabranch as ab
from anabranch.testing import temporary_ops


def blamed(f, *xs) -> tuple[str, ...]:
    return ab.check_gradients(f, *xs, raise_on_failure=False).suspects


def test_a_wrong_rule_is_named_with_its_line_and_not_what_it_spoils() -> None:
    with temporary_ops():
        bad = ab.elementwise(
            "bad", np.sin, partials=(lambda y, x: ab.sin(x),), doc="x", result="float"
        )

        def f(x):
            inner = bad(x * 2.0)  # the culprit
            return (ab.exp(inner) * x).sum()

        (line,) = blamed(f, np.array([0.5, 1.0]))
    assert line.startswith("the derivative of bad by its input 0")
    assert line.endswith("inner = bad(x * 2.0)  # the culprit")


def test_a_wrong_rule_of_several_inputs_is_named_by_input() -> None:
    def swapped(slot):
        return lambda ct, y, a, b: ct * (2.0, 3.0)[1 - slot]

    with temporary_ops():
        op = ab.Op(
            "weighted", aval=lambda a, b: a, ref=lambda a, b: 2.0 * a + 3.0 * b, doc="x",
            vjp=(swapped(0), swapped(1)),
        )  # fmt: skip
        lines = blamed(lambda a, b: op(a, b).sum(), np.ones(3), np.ones(3))
    assert [line.split(" is ")[0] for line in lines[:-1]] == [
        "the derivative of weighted by its input 0",
        "the derivative of weighted by its input 1",
    ]
    assert lines[-1].startswith("weighted gives its inputs 0 and 1 each other's derivative")


@pytest.mark.parametrize("factors", [(3.0, 3.0), (5.0, 4.0)])
def test_rules_that_are_wrong_otherwise_are_not_called_swapped(factors) -> None:
    def rule(slot):
        return lambda ct, y, a, b: ct * factors[slot]

    with temporary_ops():
        op = ab.Op(
            "weighted", aval=lambda a, b: a, ref=lambda a, b: 2.0 * a + 5.0 * b, doc="x",
            vjp=(rule(0), rule(1)),
        )  # fmt: skip
        lines = blamed(lambda a, b: op(a, b).sum(), np.ones(3), np.ones(3))
    assert len(lines) == 2
    assert not any("swapped" in line for line in lines)


@pytest.mark.parametrize(
    ("f", "x", "wanted"),
    [
        (
            lambda x: (abs(x) + ab.exp(x)).sum(),
            [1.0, 0.0],
            "kink of absolute at element [1]",
        ),
        (lambda x: ab.relu(x).sum(), [2.0, -1.0, 0.0], "kink of less_equal in relu at element [2]"),
        (lambda x: ab.maximum(x, 1.0).sum(), [0.0, 1.0], "kink of maximum at element [1]"),
    ],
)
def test_a_kink_is_told_by_op_and_element(f, x, wanted: str) -> None:
    report = ab.check_gradients(f, np.array(x))
    assert report.verdict == "kink"
    assert any(line.startswith(wanted) for line in report.suspects)


def test_nothing_is_suspected_of_a_right_gradient() -> None:
    assert blamed(lambda x: ab.softmax(ab.tanh(x)).max(), np.array([0.3, -1.0, 2.0])) == ()
