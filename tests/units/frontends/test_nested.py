"""Derivatives of derivatives: any order, any mix, and whose variable is whose."""

import itertools
import math

import numpy as np
import pytest

import anabranch as ab


def forward(f):
    return lambda x: ab.jvp(f, (x,), (1.0,))[1]


def pulled(f):
    return lambda x: ab.vjp(f, x)[1](1.0)[0]


MODES = {"grad": ab.grad, "jvp": forward, "vjp": pulled}


@pytest.mark.parametrize("modes", list(itertools.product(MODES, repeat=2)), ids="-".join)
def test_second_derivatives_in_every_mix_of_modes(modes) -> None:
    outer, inner = (MODES[m] for m in modes)
    for f, wanted in [
        (lambda x: x * x * x, 12.0),
        (lambda x: ab.sin(x) * x, 2 * math.cos(2.0) - 2.0 * math.sin(2.0)),
        (lambda x: ab.exp(x) / x, math.exp(2.0) * (4.0 - 4.0 + 2.0) / 8.0),
        (lambda x: (x * np.array([1.0, 2.0])).sum() ** 2, 18.0),
    ]:
        assert float(outer(inner(f))(2.0)) == pytest.approx(wanted, rel=1e-13)


@pytest.mark.parametrize("modes", list(itertools.product(MODES, repeat=4)), ids="-".join)
def test_fourth_derivatives_in_every_mix_of_modes(modes) -> None:
    f = lambda x: x**5 + ab.sin(x)  # noqa: E731
    for mode in modes:
        f = MODES[mode](f)
    assert float(f(1.5)) == pytest.approx(120 * 1.5 + math.sin(1.5), rel=1e-13)


def test_six_times_through_exp() -> None:
    f = ab.exp
    for _ in range(6):
        f = ab.grad(f)
    assert float(f(1.0)) == pytest.approx(math.e, rel=1e-14)


# Each case is (function of x, its derivative at 2): an inner derivative must not see the outer
# variable as its own, however equal their values are.
CONFUSIONS = {
    "the classic": (lambda x: x * ab.grad(lambda y: x + y)(1.0), 1.0),
    "same value": (lambda x: ab.grad(lambda y: x * y)(x), 1.0),
    "inner uses both": (lambda x: ab.grad(lambda y: x * y * y)(x), 4.0 * 2.0),
    "shadowed name": (lambda x: x * ab.grad(lambda x: x * x)(x), 8.0),
    "inner ignores its own": (lambda x: x + ab.grad(lambda y: x * x)(x), 1.0),
    "a closure in between": (
        lambda x: ab.grad(lambda y: sum(z * y * x for z in [y]))(x + 1.0),
        10.0,
    ),
    "three levels": (lambda x: ab.grad(lambda y: ab.grad(lambda z: x * y * z)(y))(x), 1.0),
    "inner forward": (lambda x: x * ab.jvp(lambda y: x + y, (1.0,), (1.0,))[1], 1.0),
    "inner forward at the same value": (lambda x: ab.jvp(lambda y: x * y, (x,), (x,))[1], 4.0),
    "tangent is the outer variable": (lambda x: ab.jvp(ab.sin, (1.0,), (x,))[1], math.cos(1.0)),
    "cotangent is the outer variable": (lambda x: ab.vjp(ab.sin, 1.0)[1](x)[0], math.cos(1.0)),
    "pullback called twice": (
        lambda x: sum(ab.vjp(lambda y: y * x, x)[1](1.0)) + ab.vjp(lambda y: y * y, x)[1](1.0)[0],
        3.0,
    ),
    "value and gradient": (lambda x: sum(ab.value_and_grad(lambda y: y * y * x)(x)), 12.0 + 8.0),
    "stopped": (lambda x: x * ab.grad(lambda y: ab.stop_gradient(x) * y)(x), 2.0),
    "unused inner": (lambda x: x * x + ab.grad(lambda y: 3.0)(x), 4.0),
    "returned unchanged": (lambda x: x * ab.grad(lambda y: y)(x), 1.0),
}


@pytest.mark.parametrize("outer", MODES)
@pytest.mark.parametrize("name", CONFUSIONS)
def test_whose_variable_is_whose(name: str, outer: str) -> None:
    f, wanted = CONFUSIONS[name]
    assert float(MODES[outer](f)(2.0)) == pytest.approx(wanted, rel=1e-14)
    assert float(ab.compile(MODES[outer](f))(2.0)) == pytest.approx(wanted, rel=1e-14)
    x = ab.tensor(2.0, requires_grad=True)
    f(x).backward()
    assert float(x.grad) == pytest.approx(wanted, rel=1e-14)


def test_mixed_second_derivatives_are_symmetric() -> None:
    f = lambda x, y: ab.exp(x * y) * ab.sin(x)  # noqa: E731
    xy = ab.grad(lambda x, y: ab.grad(f, 1)(x, y), 0)(0.3, 0.7)
    yx = ab.grad(lambda x, y: ab.grad(f, 0)(x, y), 1)(0.3, 0.7)
    assert float(xy) == pytest.approx(float(yx), rel=1e-14)


def test_closures_over_tensors_are_constants_of_the_transform() -> None:
    c = ab.tensor([1.0, 2.0], requires_grad=True)
    slope = ab.grad(lambda x: (x * c).sum())(np.ones(2))
    assert np.asarray(getattr(slope, "data", slope)).tolist() == [1.0, 2.0]
    recorded = c * 3.0
    slope = ab.grad(lambda x: (x * recorded).sum())(ab.tensor([1.0, 1.0]))
    assert slope.data.tolist() == [3.0, 6.0]
    assert c.grad is None


def test_the_argument_itself_and_a_closure_over_it_are_two_things() -> None:
    x = ab.tensor(3.0, requires_grad=True)
    slope = ab.grad(lambda y: x * y)(x)
    assert float(slope) == 3.0  # by y alone, though x is the same tensor
    slope.backward()
    assert float(x.grad) == 1.0


@pytest.mark.parametrize("order", [1, 2, 3])
def test_masked_branches_stay_out_at_every_order(order: int) -> None:
    f = lambda x: ab.where(x > 0.0, ab.sqrt(x), 0.0)  # noqa: E731
    for _ in range(order):
        f = ab.grad(f)
    with np.errstate(invalid="ignore"):
        assert [float(f(x)) for x in (-1.0, -3.0)] == [0.0, 0.0]


def test_gradient_of_a_sum_of_gradients_over_arrays() -> None:
    f = lambda v: (v * v * v).sum()  # noqa: E731
    v = np.array([1.0, 2.0])
    hvp = ab.grad(lambda x: (ab.grad(f)(x) * np.array([1.0, 10.0])).sum())(v)
    assert hvp.tolist() == [6.0, 120.0]
    _, t = ab.jvp(ab.grad(f), (v,), (np.array([1.0, 10.0]),))
    assert t.tolist() == [6.0, 120.0]
    _, t = ab.jvp(lambda x: ab.grad(f)(x), (v,), (np.array([1.0, 10.0]),))
    assert t.tolist() == [6.0, 120.0]
