"""Derivatives to order 6 against closed forms, in every habit of modes."""

import math
from collections.abc import Callable

import numpy as np
import pytest

import anabranch as ab

ORDERS = range(1, 7)


def forward(f):
    return lambda x: ab.jvp(f, (x,), (1.0,))[1]


def pulled(f):
    return lambda x: ab.vjp(f, x)[1](1.0)[0]


HABITS: dict[str, list[Callable]] = {
    "reverse": [ab.grad],
    "forward": [forward],
    "forward over reverse": [ab.grad, forward],
    "reverse over forward": [forward, ab.grad],
    "pullbacks": [pulled],
    "in turn": [ab.grad, forward, pulled],
}


def tower(f, order, habit):
    modes = HABITS[habit]
    for turn in range(order):
        f = modes[turn % len(modes)](f)
    return f


def falling(n: float, k: int) -> float:
    return math.prod(n - i for i in range(k))


def polynomial_in_y(y: float, step: Callable, order: int, first: Callable) -> float:
    """The n-th derivative where y' is a polynomial in y: P' (y) y', again and again."""
    p = np.polynomial.Polynomial(first)
    for _ in range(order):
        p = p.deriv() * np.polynomial.Polynomial(step)
    return float(p(y))


def logistic(x):
    return 1.0 / (1.0 + math.exp(-x))


# name: (function, x, its n-th derivative at x)
TOWERS = {
    "sin": (ab.sin, 0.7, lambda x, n: math.sin(x + n * math.pi / 2)),
    "cos of 2x": (
        lambda x: ab.cos(2.0 * x),
        0.7,
        lambda x, n: 2**n * math.cos(2 * x + n * math.pi / 2),
    ),
    "exp": (ab.exp, 0.3, lambda x, n: math.exp(x)),
    "exp of -x": (lambda x: ab.exp(-x), 0.3, lambda x, n: (-1) ** n * math.exp(-x)),
    "x exp x": (lambda x: x * ab.exp(x), 0.3, lambda x, n: (x + n) * math.exp(x)),
    "log": (ab.log, 1.7, lambda x, n: (-1) ** (n - 1) * math.factorial(n - 1) / x**n),
    "sqrt": (ab.sqrt, 1.7, lambda x, n: falling(0.5, n) * x ** (0.5 - n)),
    "x to the 2": (lambda x: x**2, 1.3, lambda x, n: falling(2, n) * x ** max(2 - n, 0)),
    "x to the 5": (lambda x: x**5, 1.3, lambda x, n: falling(5, n) * x ** max(5 - n, 0)),
    "x to the 9": (lambda x: x**9, -1.3, lambda x, n: falling(9, n) * x ** (9 - n)),
    "x to the -3": (lambda x: x**-3, 1.3, lambda x, n: falling(-3, n) * x ** (-3.0 - n)),
    "x to the 2.5": (lambda x: x**2.5, 1.3, lambda x, n: falling(2.5, n) * x ** (2.5 - n)),
    "2 to the x": (lambda x: 2.0**x, 1.3, lambda x, n: math.log(2.0) ** n * 2.0**x),
    "1/x": (lambda x: 1.0 / x, 1.3, lambda x, n: (-1) ** n * math.factorial(n) / x ** (n + 1)),
    "1/(1 + x²)": (
        lambda x: 1.0 / (1.0 + x * x),
        0.6,
        lambda x, n: (-1) ** n * math.factorial(n) * ((x - 1j) ** -(n + 1)).imag,
    ),
    "x/(1 - x)": (
        lambda x: x / (1.0 - x),
        0.25,
        lambda x, n: math.factorial(n) / (1.0 - x) ** (n + 1),
    ),
    "(x² + 1)/(x - 2)": (
        # x + 2 + 5/(x - 2)
        lambda x: (x * x + 1.0) / (x - 2.0),
        0.5,
        lambda x, n: (n == 1) + 5.0 * (-1) ** n * math.factorial(n) / (x - 2.0) ** (n + 1),
    ),
    "tanh": (
        ab.tanh,
        0.4,
        lambda x, n: polynomial_in_y(math.tanh(x), [1, 0, -1], n, [0, 1]),
    ),
    "sigmoid": (
        ab.sigmoid,
        0.4,
        lambda x, n: polynomial_in_y(logistic(x), [0, 1, -1], n, [0, 1]),
    ),
    "softmax of two": (
        lambda x: ab.softmax(ab.where(np.array([True, False]), x, 0.0))[0],
        0.4,
        lambda x, n: polynomial_in_y(logistic(x), [0, 1, -1], n, [0, 1]),
    ),
    "a sum over an array": (
        lambda x: ab.exp(x * np.array([1.0, 2.0, -1.0])).sum(),
        0.3,
        lambda x, n: sum(a**n * math.exp(a * x) for a in (1.0, 2.0, -1.0)),
    ),
    "a product with a matrix": (
        # v(x)ᵀ A v(x) with v = (1, x, x²): a polynomial
        lambda x: ab.matmul(
            ab.matmul(x ** np.arange(3.0), np.arange(9.0).reshape(3, 3)), x ** np.arange(3.0)
        ),
        1.1,
        lambda x, n: float(np.polynomial.Polynomial([0, 4, 12, 12, 8]).deriv(n)(x)),
    ),
    "where": (
        lambda x: ab.where(x > 0.0, ab.sin(x), ab.sqrt(x)),
        0.7,
        lambda x, n: math.sin(x + n * math.pi / 2),
    ),
    "a rule of its own": (
        ab.custom_derivative(ab.exp, vjp=lambda ct, out, x: ct * out),
        0.3,
        lambda x, n: math.exp(x),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("habit", HABITS)
@pytest.mark.parametrize("name", TOWERS)
def test_to_order_six(name: str, habit: str) -> None:
    f, x, wanted = TOWERS[name]
    for order in ORDERS:
        found = float(tower(f, order, habit)(x))
        assert found == pytest.approx(wanted(x, order), rel=1e-11, abs=1e-11), order


@pytest.mark.slow
@pytest.mark.parametrize("name", TOWERS)
def test_compiled_to_order_four(name: str) -> None:
    f, x, wanted = TOWERS[name]
    for habit in ("reverse", "forward over reverse", "reverse over forward"):
        found = float(ab.compile(tower(f, 4, habit))(x))
        assert found == pytest.approx(wanted(x, 4), rel=1e-11, abs=1e-11), habit


@pytest.mark.parametrize("name", ["sin", "tanh", "1/x", "1/(1 + x²)", "x to the 9"])
def test_recorded_tensors_to_order_six(name: str) -> None:
    f, at, wanted = TOWERS[name]
    x = ab.tensor(at, requires_grad=True)
    y = f(x)
    for order in ORDERS:
        (y,) = ab.gradients(y, [x], record=True)
        assert float(y) == pytest.approx(wanted(at, order), rel=1e-11), order


@pytest.mark.parametrize("name", ["sin", "tanh", "1/x", "x to the 5"])
def test_tangents_of_tangents_to_order_six(name: str) -> None:
    f, at, wanted = TOWERS[name]
    x = ab.tensor(at, requires_grad=True)
    y = f(x)
    for order in ORDERS:
        (y,) = ab.tangents([y], [x], [1.0], record=True)
        assert float(y) == pytest.approx(wanted(at, order), rel=1e-11, abs=1e-11), order


def mixed(x: float, y: float, a: int, b: int) -> float:
    """∂ᵃ⁺ᵇ/∂xᵃ∂yᵇ of exp(xy), by Leibniz' rule."""
    terms = [
        math.comb(b, k) * falling(a, k) * y ** (a - k) * x ** (b - k) for k in range(min(a, b) + 1)
    ]
    return sum(terms) * math.exp(x * y)


def partial(f, mode, letter):
    """∂f/∂x or ∂f/∂y as a function of both."""
    if letter == "x":
        return lambda x, y: mode(lambda x: f(x, y))(x)
    return lambda x, y: mode(lambda y: f(x, y))(y)


@pytest.mark.parametrize("habit", HABITS)
@pytest.mark.parametrize("word", ["xy", "xxyy", "xyxy", "yxxyxy", "xxxyyy", "yxyyyx"])
def test_mixed_derivatives_of_two_variables(word: str, habit: str) -> None:
    """Derivatives by x and y in the order of the word; only how often each counts matters."""
    f = lambda x, y: ab.exp(x * y)  # noqa: E731
    modes = HABITS[habit]
    for turn, letter in enumerate(word):
        f = partial(f, modes[turn % len(modes)], letter)
    wanted = mixed(0.6, 0.8, word.count("x"), word.count("y"))
    assert float(f(0.6, 0.8)) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("modes", ["fff", "rrr", "frf", "rfr"])
def test_a_tower_of_jacobians(modes: str) -> None:
    """∂³ of exp(a·x) by a vector: aᵢaⱼaₖ exp(a·x)."""
    a, x = np.array([1.0, -2.0, 0.5]), np.array([0.1, 0.2, -0.3])
    f = lambda x: ab.exp((a * x).sum())  # noqa: E731
    for mode in modes:
        f = ab.jacobian(f, mode={"f": "forward", "r": "reverse"}[mode])
    wanted = np.einsum("i,j,k->ijk", a, a, a) * math.exp(a @ x)
    assert np.allclose(f(x), wanted, rtol=1e-13)
    assert np.allclose(ab.compile(f)(x), wanted, rtol=1e-13)
