"""Each usual mistake of an engine is found by a check that is named here, and by its numbers."""

import numpy as np
import pytest

import anabranch as ab
from anabranch.core.sample import sample
from anabranch.testing import check_op, temporary_ops

# Programs: (gradients found, gradients wanted). All numbers are small integers, so all are exact.


def gradients(f, *values):
    leaves = [ab.tensor(value, requires_grad=True) for value in values]
    f(*leaves).backward()
    return [float(leaf.grad) for leaf in leaves]


def worked(x, y):
    return (x * y + x) ** 2


def diamond(a):
    h = a * 3.0
    return h * 2.0 + h * 5.0


def uneven(a):
    """One branch is longer, so the shared value must wait for it."""
    d = a * 2.0
    e = d * 3.0
    return d + e * 1.0


def ladder(a):
    for _ in range(10):
        a = a + a
    return a


def curve(x):
    h = ab.tanh(x * np.array([0.5, -1.0, 2.0]))
    return ab.sum(h * h + h / (2.0 + ab.sin(x)) + ab.exp(0.5 * ab.sin(h)))


CHECKS = {
    "worked expression": lambda: gradients(worked, 2.0, 3.0) == [64.0, 32.0],
    "shared inputs": lambda: (
        gradients(lambda a, b, c: (a + b) * (a + c), 2.0, 3.0, 4.0) == [11.0, 6.0, 5.0]
    ),
    "one value twice": lambda: (
        [gradients(f, 3.0) for f in (lambda a: a * a, lambda a: a + a, lambda a: a * a * a)]
        == [[6.0], [2.0], [27.0]]
    ),
    "diamond": lambda: gradients(diamond, 2.0) == [21.0],
    "uneven diamond": lambda: gradients(uneven, 2.0) == [8.0],
    "ladder": lambda: gradients(ladder, 1.0) == [1024.0],
    "numeric check": lambda: (
        ab.check_gradients(curve, np.array([0.5, 1.25, -0.75]), raise_on_failure=False).ok
    ),
}

# What each check cannot see. The numeric check of a curve with an uneven diamond sees everything.
MISSED_BY = {
    "overwrites": set(),
    "left operand overwrites": {"ladder"},
    "not reverse topological": CHECKS.keys() - {"uneven diamond", "numeric check"},
    "one edge for a square": {"shared inputs", "diamond", "uneven diamond"},
    "recursion that pushes on at once": {"shared inputs", "one value twice"},
    "slightly off": set(),
}
KILLED_BY = {engine: CHECKS.keys() - missed for engine, missed in MISSED_BY.items()}


@pytest.mark.parametrize("check", CHECKS)
def test_the_right_engine_passes(check):
    assert CHECKS[check]()


@pytest.mark.proves("S1-30", "S1-12")
@pytest.mark.parametrize(
    "engine, check", [(e, c) for e, checks in KILLED_BY.items() for c in sorted(checks)]
)
def test_a_named_check_finds_the_mistake(run_on, engines, engine, check):
    run_on(engines[engine])
    assert not CHECKS[check]()


@pytest.mark.proves("S1-30")
def test_no_wrong_engine_is_without_a_check(engines):
    assert KILLED_BY.keys() == engines.keys()


WRONG_NUMBERS = {
    "overwrites": (24.0, 16.0),
    "left operand overwrites": (48.0, 32.0),
    "one edge for a square": (32.0, 16.0),
    "not reverse topological": (64.0, 32.0),
}


@pytest.mark.proves("S1-37", "S1-30")
@pytest.mark.parametrize("engine", WRONG_NUMBERS)
def test_a_mistake_is_known_by_its_numbers(run_on, engines, engine):
    """At (2, 3) in place of 64 and 32; an order that is wrong does not show in so small a graph."""
    run_on(engines[engine])
    assert tuple(gradients(worked, 2.0, 3.0)) == WRONG_NUMBERS[engine]


@pytest.mark.proves("S1-30")
@pytest.mark.parametrize("engine", KILLED_BY)
def test_transforms_compiled_functions_and_graphs_by_hand_go_through_the_same_walk(
    run_on, engines, engine
):
    def program(x):
        return worked(x, 3.0) + diamond(x) + uneven(x)

    def by_hand():
        g = ab.Graph("by hand")
        x = g.parameter("x", (), ab.float64)
        return g.compile(*ab.gradients(program(x), [x]))(2.0)

    wanted = 64.0 + 21.0 + 8.0
    ways = (lambda: ab.grad(program)(2.0), lambda: ab.compile(ab.grad(program))(2.0), by_hand)
    assert [float(way()) for way in ways] == [wanted] * 3
    run_on(engines[engine])
    assert all(float(way()) != wanted for way in ways)


@pytest.mark.proves("S1-30")
@pytest.mark.parametrize("engine", ["overwrites", "one edge for a square", "slightly off"])
def test_the_numeric_check_says_wrong_and_by_how_much(run_on, engines, engine):
    run_on(engines[engine])
    with pytest.raises(ab.GradientCheckError) as caught:
        ab.check_gradients(lambda x, y: worked(x, y), 2.0, 3.0)
    x, y = caught.value.details["report"].rows
    assert (x.verdict, y.verdict) == ("wrong", "wrong")
    assert (x.numeric, y.numeric) == (pytest.approx(64.0), pytest.approx(32.0))


# An order that is shuffled.


def worked_with_a_step_on_the_direct_path():
    return tuple(gradients(lambda x, y: (x * y + x * 1.0) ** 2, 2.0, 3.0))


@pytest.mark.proves("S1-38", "S1-37")
def test_repeating_in_shuffled_orders_shows_an_overwritten_sum(answers_in_any_order, engines):
    """48 if the product comes last, 16 if the direct path does."""
    program = worked_with_a_step_on_the_direct_path
    assert answers_in_any_order(program) == {(64.0, 32.0)}
    found = answers_in_any_order(program, engines["left operand overwrites"])
    assert {x for x, _ in found} == {48.0, 16.0}
    found = answers_in_any_order(program, engines["overwrites"])
    assert {x for x, _ in found} == {24.0, 8.0}


@pytest.mark.proves("S1-38")
def test_one_answer_in_any_order_does_not_prove_an_engine_right(answers_in_any_order, engines):
    """One edge in place of two is as wrong in every order: repeating finds overwriting only."""
    program = worked_with_a_step_on_the_direct_path
    assert answers_in_any_order(program, engines["one edge for a square"]) == {(32.0, 16.0)}


def shared_program():
    return tuple(gradients(lambda a, b: diamond(a) * b + uneven(a) * a + ladder(b), 2.0, 3.0))


@pytest.mark.proves("S1-11")
def test_every_topological_order_gives_the_same_gradients(
    run_on, right_walk, post_order, answers_in_any_order
):
    wanted = shared_program()
    assert answers_in_any_order(shared_program, repeats=50) == {wanted}

    def depth_first(steps, cts, wanted, observer=None):
        return right_walk(post_order(steps), cts, wanted, observer)

    run_on(depth_first)
    assert shared_program() == wanted


@pytest.mark.proves("S1-11")
def test_from_the_end_of_a_post_order_every_reader_comes_before_what_it_reads(
    run_on, right_walk, post_order
):
    rises = []

    def spy(steps, cts, wanted, observer=None):
        places = {step.node.id: place for place, step in enumerate(post_order(steps))}
        assert len(places) == len(steps)
        for step in steps:
            for edge in step.node.inputs:
                source = getattr(edge, "node", None)
                if source is not None and source.id in places:
                    rises.append(places[source.id] < places[step.node.id])
        return right_walk(steps, cts, wanted, observer)

    run_on(spy)
    shared_program()
    assert len(rises) > 10 and all(rises)


# Values that change, checks that see too little, tolerances without a reason.


def change_between():
    """The gradient of x² at 2 and 3 if x becomes 9 after the forward pass."""
    x = ab.tensor([2.0, 3.0], requires_grad=True)
    z = ab.sum(x * x)
    x.data[:] = 9.0
    z.backward()
    return x.grad.tolist()


@pytest.mark.proves("S1-30")
def test_an_engine_that_reads_changed_forward_data_is_found(monkeypatch):
    """The library refuses. Without its guard it would hand out the gradient at another point."""
    with pytest.raises(ab.StaleValueError):
        change_between()
    monkeypatch.setattr("anabranch.frontends.engine.check_step", lambda tensor, within: None)
    assert change_between() == [18.0, 18.0]


LINEAR = {
    "sum": lambda x: ab.sum(x),
    "weighted sum": lambda x: ab.sum(x * np.array([2.0, -1.0, 0.5])),
    "affine": lambda x: 3.0 * x[0] - x[2] + 1.0,
    "mean": ab.mean,
}


@pytest.fixture
def flat_product():
    """An op x*y whose derivatives are read at 1 in place of the operands."""
    with temporary_ops():
        yield ab.elementwise(
            "flat_product",
            lambda x, y: x * y,
            partials=(lambda y, a, b: b * 0.0 + 1.0, lambda y, a, b: a * 0.0 + 1.0),
            doc="A product with the slopes of a sum.",
        )


@pytest.mark.proves("S1-30")
@pytest.mark.parametrize("name", LINEAR)
def test_a_check_of_linear_functions_alone_sees_nothing(run_on, engines, flat_product, name):
    x = np.array([0.5, 1.25, -0.75])
    run_on(engines["one edge for a square"])
    assert ab.check_gradients(LINEAR[name], x).ok
    run_on()
    assert ab.check_gradients(lambda x: LINEAR[name](flat_product(x, 1.0)), x).ok
    with pytest.raises(ab.GradientCheckError):
        ab.check_gradients(lambda x: LINEAR[name](flat_product(x, x)), x)
    with pytest.raises(AssertionError, match="is wrong"):
        check_op(flat_product)


@pytest.mark.proves("S1-30")
@pytest.mark.parametrize("atol, rtol", [(0.5, 0.0), (0.0, 1.0), (1e-2, 1e-2)])
def test_a_tolerance_without_a_reason_passes_what_is_wrong(run_on, engines, atol, rtol):
    """The library's own follows from the step and from rounding, and is printed in the report."""

    def small(x):
        return 1e-3 * ab.sum(x * x)

    x = np.array([0.5, 1.25, -0.75])
    run_on(engines["one edge for a square"])
    assert ab.check_gradients(small, x, atol=atol, rtol=rtol).ok
    with pytest.raises(ab.GradientCheckError):
        ab.check_gradients(small, x)


@pytest.mark.proves("S1-30")
def test_a_tolerance_of_nothing_refuses_what_is_right():
    x = np.array([0.5, 1.25, -0.75])
    assert ab.check_gradients(curve, x).ok
    with pytest.raises(ab.GradientCheckError):
        ab.check_gradients(curve, x, atol=0.0, rtol=0.0)


# Two gradients that change places.


def weighted_sum(weights, swapped):
    """wa*a + wb*b. Both gradients have one shape, so nothing but their values tells them apart."""
    rules = (lambda ct, y, a, b, *, wa, wb: ct * wa, lambda ct, y, a, b, *, wa, wb: ct * wb)
    wa, wb = weights
    with temporary_ops():
        op = ab.Op(
            "weighted_sum",
            aval=lambda a, b, *, wa, wb: a,
            ref=lambda a, b, *, wa, wb: wa * a + wb * b,
            vjp=rules[::-1] if swapped else rules,
            samples=(
                sample(
                    [1.0, 2.0],
                    [3.0, 5.0],
                    value=[wa + 3 * wb, 2 * wa + 5 * wb],
                    grads=([wa, wa], [wb, wb]),
                    wa=wa,
                    wb=wb,
                ),
            ),
            doc="A sum with weights.",
        )
    return op, lambda a, b: op(a, b, wa=wa, wb=wb)


A, B = np.array([1.0, 2.0]), np.array([3.0, 5.0])


@pytest.mark.proves("S0-70")
def test_gradients_that_changed_places_are_found():
    op, f = weighted_sum((0.25, 0.75), swapped=True)
    with pytest.raises(ab.GradientCheckError) as caught:
        ab.check_gradients(f, A, B)
    a, b = caught.value.details["report"].rows
    assert (a.name, a.verdict, b.name, b.verdict) == ("a", "wrong", "b", "wrong")
    with pytest.raises(AssertionError) as failed:
        check_op(op)
    assert {"golden_values_are_met", "reverse_agrees"} <= set(failed.value.details["report"].failed)


@pytest.mark.proves("S0-70")
def test_unequal_weights_are_what_shows_it():
    assert ab.check_gradients(weighted_sum((0.25, 0.75), swapped=False)[1], A, B).ok
    assert ab.check_gradients(weighted_sum((0.5, 0.5), swapped=True)[1], A, B).ok


@pytest.mark.proves("S1-30")
@pytest.mark.parametrize("engine", KILLED_BY)
def test_the_table_of_mistakes_and_checks_is_complete(run_on, engines, engine):
    """What finds a mistake, and what cannot, is known and not a matter of luck."""
    run_on(engines[engine])
    assert {check for check in CHECKS if not CHECKS[check]()} == KILLED_BY[engine]
