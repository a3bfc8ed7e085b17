"""Perturbation confusion: a derivative inside a derivative knows its own variable.

Each case is a function of x in which another derivative is taken, and its derivative at 2. All run
under every outer mode, eagerly, traced, recorded and mixed. `test_nested` has the classic ones.
"""

import itertools
import math

import numpy as np
import pytest

import anabranch as ab


def forward(f):
    return lambda x: ab.jvp(f, (x,), (1.0,))[1]


def pulled(f):
    return lambda x: ab.vjp(f, x)[1](1.0)[0]


def by_jacobian(f):
    return lambda x: ab.jacobian(f, mode="reverse")(x)


MODES = {"grad": ab.grad, "jvp": forward, "vjp": pulled, "jacobian": by_jacobian}
D, P = ab.grad, forward  # reverse and forward, for the cases below


def curried(x):
    return lambda y: x * y


def shift_derivative(f):
    """The derivative written as a shift: f(y + u) by u at 0."""
    return lambda y: P(lambda u: f(y + u))(0.0)


def three_turns(x):
    def turned(f, mode):
        return lambda y: mode(f)(y) * x

    f = lambda y: y**4  # noqa: E731
    for mode in (D, P, D):
        f = turned(f, mode)
    return f(x)


def of_a_container(x):
    return D(lambda p: p["a"] * p["b"] * x)({"a": x, "b": x})["a"]


def aux_too(x):
    slope, aux = ab.grad(lambda y: (x * y * y, x * y), has_aux=True)(x)
    return slope + aux


def pullback_of_another_level(x):
    pull = ab.vjp(lambda z: z * z, x)[1]
    return D(lambda y: pull(y)[0] * y)(x)


def pullback_with_the_outer_cotangent(x):
    return ab.vjp(lambda y: y * y * x, x)[1](x)[0]


def own_rule(x):
    square = ab.custom_derivative(lambda y: y * y, vjp=lambda ct, out, y: 2.0 * ct * y)
    return D(square)(x) * x


def shadowed(x):
    def g(x):
        def h(x):
            return x**3

        return D(h)(x) * x

    return D(g)(x)


def swapped_names(x):
    def g(y):
        return D(lambda x: x * x * y)(y)  # here x is y, and y is x

    return g(x)


def default_argument(x):
    return D(lambda y, x=x: x * x * y)(3.0)


def cell_that_changes(x):
    held = [x]

    def g(y):
        held[0] = held[0] * y  # the list now holds a value of the inner level
        return held[0] * y

    return D(g)(x) + D(lambda y: y * x)(x)


CASES = {
    "forward inside": (lambda x: x * P(lambda y: x * y)(1.0), 4.0),
    "reverse inside": (lambda x: x * D(lambda y: x * x * y)(x), 12.0),
    "at a function of the outer variable": (lambda x: D(lambda y: y * y * x)(x * x), 24.0),
    "a closure from elsewhere": (lambda x: D(curried(x))(x), 1.0),
    "three variables of one name": (shadowed, 36.0),
    "two names swapped": (swapped_names, 8.0),
    "a default argument": (default_argument, 4.0),
    "a list filled inside": (cell_that_changes, 8.0 + 1.0),
    "primal and tangent from outside": (
        lambda x: ab.jvp(ab.sin, (x,), (x * x,))[1],
        4.0 * math.cos(2.0) - 4.0 * math.sin(2.0),
    ),
    "the shift operator twice": (
        lambda x: shift_derivative(shift_derivative(ab.sin))(x),
        -math.cos(2.0),
    ),
    "a loop of derivatives": (three_turns, 24.0 * 4.0 * 8.0),
    "a container of the outer variable": (of_a_container, 4.0),
    "the same value as two arguments": (lambda x: D(lambda a, b: a * b * b, 1)(x, x), 8.0),
    "auxiliary values": (aux_too, 12.0),
    "a pullback of another level": (pullback_of_another_level, 16.0),
    "the outer variable as cotangent": (pullback_with_the_outer_cotangent, 24.0),
    "stopped inside": (lambda x: D(lambda y: ab.stop_gradient(y) * y * x)(x), 2.0),
    "a hessian inside": (lambda x: ab.hessian(lambda y: x * y**3)(x), 24.0),
    "a jacobian inside": (
        lambda x: ab.jacobian(lambda y: x * y * np.array([1.0, 2.0]))(x).sum(),
        3.0,
    ),
    "a product with a hessian inside": (
        lambda x: ab.hvp(lambda y: x * y**3, (x,), (x,))[1][0],
        72.0,
    ),
    "a compiled function inside": (lambda x: D(ab.compile(lambda y: x * y * y))(x), 8.0),
    "a compiled derivative inside": (lambda x: ab.compile(D(lambda y: x * y * y))(x) * x, 24.0),
    "a rule of its own inside": (own_rule, 8.0),
    "recorded values inside": (lambda x: ab.gradients(x * x * x, [x], record=True)[0] * x, 36.0),
    "recorded tangents inside": (
        lambda x: ab.tangents([x * x * x], [x], [x], record=True)[0],
        36.0,
    ),
    "three levels": (
        lambda x: D(lambda y: P(lambda z: x * y * z * z)(y) * x)(x),
        48.0,
    ),
    "four levels, modes in turn": (
        lambda x: P(lambda y: D(lambda z: P(lambda w: x * y * z * w)(z))(y))(x),
        1.0,
    ),
    "inner sum over an array of outer values": (
        lambda x: D(lambda v: (v * v * x).sum())(x * np.array([1.0, 2.0])).sum(),
        24.0,
    ),
    "selected by the outer variable": (
        lambda x: D(lambda y: ab.where(x > y, x * y, y * y * y))(1.0) * x,
        4.0,
    ),
    "independent of the outer variable": (lambda x: x + D(lambda y: y * y)(3.0), 1.0),
}


@pytest.mark.parametrize("outer", MODES)
@pytest.mark.parametrize("name", CASES)
def test_eager(name: str, outer: str) -> None:
    f, wanted = CASES[name]
    assert float(MODES[outer](f)(2.0)) == pytest.approx(wanted, rel=1e-14)
    of_tensor = MODES[outer](f)(ab.tensor(2.0))
    assert type(of_tensor) is ab.Tensor
    assert float(of_tensor) == pytest.approx(wanted, rel=1e-14)


@pytest.mark.parametrize("outer", MODES)
@pytest.mark.parametrize("name", CASES)
def test_traced(name: str, outer: str) -> None:
    f, wanted = CASES[name]
    assert float(ab.compile(MODES[outer](f))(2.0)) == pytest.approx(wanted, rel=1e-14)
    assert float(MODES[outer](ab.compile(f))(2.0)) == pytest.approx(wanted, rel=1e-14)


@pytest.mark.parametrize("name", CASES)
def test_recorded(name: str) -> None:
    f, wanted = CASES[name]
    x = ab.tensor(2.0, requires_grad=True)
    f(x).backward()
    assert float(x.grad) == pytest.approx(wanted, rel=1e-14)


OF_NUMBERS = {  # the inner derivative is taken at a number, which is not of the outer graph
    "forward inside",
    "a default argument",
    "the shift operator twice",
    "selected by the outer variable",
}


@pytest.mark.parametrize("name", CASES)
def test_by_hand(name: str) -> None:
    f, wanted = CASES[name]
    g = ab.Graph("demo")
    x = g.parameter("x", (), ab.float64)
    if name in OF_NUMBERS:
        with pytest.raises(ab.errors.ArgumentError):  # aloud, never a wrong number
            f(x)
        return
    (slope,) = ab.gradients(f(x), [x])
    assert float(g.compile(slope)(2.0)) == pytest.approx(wanted, rel=1e-14)


@pytest.mark.parametrize("modes", list(itertools.product(MODES, repeat=2)), ids="-".join)
def test_once_more_around_it(modes: tuple[str, str]) -> None:
    """A second derivative of each case, in every pair of modes, against the first in one mode."""
    outer, inner = (MODES[mode] for mode in modes)
    step = 1e-5
    for name, (f, _) in CASES.items():
        if name in ("selected by the outer variable", "stopped inside"):
            continue  # the first has a jump near by, the second is no derivative of a value
        found = float(outer(inner(f))(2.0))
        near = [float(ab.grad(f)(x)) for x in (2.0 + step, 2.0 - step)]
        assert found == pytest.approx((near[0] - near[1]) / (2 * step), rel=1e-7, abs=1e-7), name


@pytest.mark.parametrize("modes", list(itertools.product(MODES, repeat=3)), ids="-".join)
def test_three_variables_in_every_mix_of_modes(modes: tuple[str, str, str]) -> None:
    """∂³/∂x∂y∂z of x y² z³ with each variable at its own level, at equal values."""
    one, two, three = (MODES[mode] for mode in modes)
    f = one(lambda x: two(lambda y: three(lambda z: x * y * y * z * z * z)(x))(x))
    # The innermost gives 3xy²x², the middle one 6x·x·x², so all is 6x⁴.
    assert float(f(2.0)) == pytest.approx(24.0 * 8.0, rel=1e-13)


def test_values_of_one_level_do_not_survive_it() -> None:
    kept = []

    def f(y):
        kept.append(y)
        return y * y

    assert float(ab.grad(f)(3.0)) == 6.0
    # What escaped is a value like any other: later derivatives do not see it as their variable.
    assert float(ab.grad(lambda x: x * ab.stop_gradient(kept[0]))(2.0)) == 3.0
    assert float(ab.grad(lambda x: x * kept[0])(2.0)) == 3.0
