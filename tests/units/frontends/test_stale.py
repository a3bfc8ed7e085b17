"""Values that change between the forward pass and the backward pass that needs them."""

from collections.abc import Callable

import numpy as np
import pytest

import anabranch as ab


def leaf(*values: float) -> ab.Tensor:
    return ab.tensor(list(values), requires_grad=True, name="x")


def overwrite(x: ab.Tensor) -> None:
    x.data[:] = 9.0


def rebind(x: ab.Tensor) -> None:
    x.data = np.array([9.0, 9.0])


@pytest.mark.proves("S0-60")
@pytest.mark.parametrize("change", [overwrite, rebind])
@pytest.mark.parametrize(
    "walk",
    [
        lambda z, x: z.backward(),
        lambda z, x: z.backward_fresh(),
        lambda z, x: ab.gradients(z, [x]),
        lambda z, x: ab.gradients(z, [x], record=True),
        lambda z, x: (z * 2.0).backward(),
        lambda z, x: z.backward(retain=False),
    ],
)
def test_every_walk_refuses_and_leaves_no_gradient(change, walk) -> None:
    x = leaf(1.0, 2.0)
    z = (x * x).sum()
    change(x)
    with pytest.raises(ab.errors.StaleValueError, match="stale-residual"):
        walk(z, x)
    assert x.grad is None
    assert float(z) == 5.0


@pytest.mark.proves("S0-60")
def test_the_error_names_the_value_and_three_lines() -> None:
    x = leaf(1.0, 2.0)
    h = x + 1.0
    h.name = "h"
    y = (h * h).sum()
    h.data[0] = 5.0  # the change
    with pytest.raises(ab.errors.StaleValueError) as caught:
        y.backward()
    error = caught.value
    assert error.sentence.startswith("the gradient of multiply needs h as it was")
    kept, changed, needed = error.facts
    assert "y = (h * h).sum()" in kept
    assert error.source.text == "y = (h * h).sum()"
    assert "# the change" in changed
    assert needed.startswith(f"needed   test_stale.py:{error.source.line + 3}")


def test_a_change_that_was_taken_back_is_no_change() -> None:
    x = leaf(1.0, 2.0)
    z = (x * x).sum()
    x.data += 1.0
    x.data -= 1.0
    z.backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_looking_at_values_is_no_change_not_even_of_nan() -> None:
    x = leaf(float("nan"), -0.0)
    y = x * x
    assert np.isnan(x.data[0]) and np.isnan(y.data[0])
    y.sum().backward()
    assert x.grad[1] == 0.0


def test_a_negative_zero_is_another_value_than_zero() -> None:
    x = leaf(0.0, 1.0)
    z = (x * x).sum()
    x.data[0] = -0.0
    with pytest.raises(ab.errors.StaleValueError):
        z.backward()


@pytest.mark.parametrize(
    ("f", "is_needed"),
    [
        (lambda x, c: x + c, False),
        (lambda x, c: x * c, False),  # the slope by x is c
        (lambda x, c: c / x, True),
        (lambda x, c: x * x, True),
        (lambda x, c: ab.exp(x), False),  # needs its result, which did not change
        (lambda x, c: ab.sin(x), True),
        (lambda x, c: x[1:] * 3.0, False),
        (lambda x, c: x.reshape(2, 1), False),
        (lambda x, c: ab.stop_gradient(x) * c + x, False),
        (lambda x, c: ab.stop_gradient(x) * x, False),  # needs the stopped value, a copy
        (lambda x, c: ab.where(x > 0.0, x, c), False),
        (lambda x, c: ab.matmul(x, c), False),
        (lambda x, c: x.max(), True),
    ],
)
def test_only_what_the_rules_read_counts(f: Callable[..., ab.Tensor], is_needed: bool) -> None:
    x, c = leaf(1.0, 2.0), ab.tensor([3.0, 4.0])
    wanted = ab.grad(lambda v: f(v, c).sum())(np.array([1.0, 2.0]))
    z = f(x, c).sum()
    x.data[:] = 9.0
    if is_needed:
        with pytest.raises(ab.errors.StaleValueError):
            z.backward()
    else:
        z.backward()
        assert x.grad.tolist() == np.asarray(getattr(wanted, "data", wanted)).tolist()


def test_a_changed_constant_operand_counts_too() -> None:
    x, c = leaf(1.0, 2.0), ab.tensor([3.0, 4.0])
    z = (x * c).sum()
    c.data[:] = 0.0
    with pytest.raises(ab.errors.StaleValueError):
        z.backward()


def test_two_programs_over_one_weight_each_know_their_own_version() -> None:
    w = leaf(1.0, 2.0)
    first = (w * w).sum()
    w.data[:] = 3.0
    second = (w * w).sum()
    with pytest.raises(ab.errors.StaleValueError):
        first.backward()
    second.backward()
    assert w.grad.tolist() == [6.0, 6.0]
    w.data[:] = [1.0, 2.0]  # the bits of the first program again
    with pytest.raises(ab.errors.StaleValueError):
        second.backward()


def test_a_second_backward_after_an_update_is_refused() -> None:
    w = leaf(1.0, 2.0)
    loss = (w * w).sum()
    loss.backward()
    w.data -= 0.1 * w.grad
    with pytest.raises(ab.errors.StaleValueError):
        loss.backward()
    assert w.grad.tolist() == [2.0, 4.0]


def test_scalars_too() -> None:
    x = ab.tensor(2.0, requires_grad=True)
    z = x * x
    x.data += 1.0
    with pytest.raises(ab.errors.StaleValueError):
        z.backward()
    x.data -= 1.0
    z.backward()
    assert float(x.grad) == 4.0


def test_transforms_are_functions_of_the_values_they_were_given() -> None:
    x = leaf(1.0, 2.0)
    out, pullback = ab.vjp(lambda v: v * v, x)
    x.data[:] = 9.0
    assert [g.data.tolist() for g in pullback(np.ones(2))] == [[2.0, 4.0]]
    assert out.data.tolist() == [1.0, 4.0]
    slope = ab.grad(lambda v: (v * v).sum())(x)
    assert slope.data.tolist() == [18.0, 18.0]


def test_a_compiled_call_between_is_watched_as_well() -> None:
    w = leaf(1.0, 2.0)
    f = ab.compile(lambda x: (x * x).sum())
    loss = f(w)
    w.data[:] = 9.0
    with pytest.raises(ab.errors.StaleValueError):
        loss.backward()
    f(w).backward()
    assert w.grad.tolist() == [18.0, 18.0]
