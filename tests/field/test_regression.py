"""The certified non-linear regressions of NIST: our Jacobians lead another's solver to them."""

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import least_squares

import anabranch as ab

FOLDER = Path(__file__).parents[1] / "data" / "nist_strd"


def bells(x, b):
    return (
        b[0] * ab.exp(-b[1] * x)
        + b[2] * ab.exp(-((x - b[3]) ** 2) / b[4] ** 2)
        + b[5] * ab.exp(-((x - b[6]) ** 2) / b[7] ** 2)
    )


def ultrasonic(x, b):
    return ab.exp(-b[0] * x) / (b[1] + b[2] * x)


MODELS = {
    "Misra1a": lambda x, b: b[0] * (1 - ab.exp(-b[1] * x)),
    "Misra1b": lambda x, b: b[0] * (1 - (1 + b[1] * x / 2) ** -2),
    "Chwirut1": ultrasonic,
    "Chwirut2": ultrasonic,
    "DanWood": lambda x, b: b[0] * x ** b[1],
    "Gauss1": bells,
    "Gauss2": bells,
    "Lanczos3": lambda x, b: (
        b[0] * ab.exp(-b[1] * x) + b[2] * ab.exp(-b[3] * x) + b[4] * ab.exp(-b[5] * x)
    ),
}


class Problem:
    """One file: starting points, certified parameters and sum of squares, and observations."""

    def __init__(self, name):
        text = (FOLDER / f"{name}.dat").read_text(encoding="ascii")
        rows = re.findall(r"^ +b\d+ = +(\S+) +(\S+) +(\S+) +(\S+) *$", text, re.MULTILINE)
        table = np.array(rows, np.float64).T
        self.starts, self.certified = table[:2], table[2]
        self.squares = float(re.search(r"Residual Sum of Squares: +(\S+)", text)[1])
        count = int(re.search(r"Number of Observations: +(\d+)", text)[1])
        data = [line.split() for line in text.splitlines()[60:]]
        self.y, self.x = np.array([row for row in data if row], np.float64).T
        assert len(self.y) == count


def digits(found, wanted):
    """How many significant digits agree, in the worst of several numbers."""
    return float(np.min(-np.log10(np.maximum(abs(found - wanted) / abs(wanted), 1e-15))))


def fitted(problem, model, start, wrap=lambda f: f):
    """What SciPy's solver reaches from a starting point with our Jacobian."""

    def residuals(b):
        return model(problem.x, b) - problem.y

    jacobian = wrap(ab.jacobian(residuals))
    residuals = wrap(residuals)
    return least_squares(
        lambda b: np.asarray(residuals(b)),
        start,
        jac=lambda b: np.asarray(jacobian(b)),
        method="lm",
        xtol=1e-15,
        ftol=1e-15,
        gtol=1e-15,
        max_nfev=5000,
    )


@pytest.mark.slow
@pytest.mark.parametrize("run", ["eager", "compiled"])
@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("name", MODELS)
def test_certified_parameters_are_reached_to_six_digits(name, start, run):
    problem, model = Problem(name), MODELS[name]
    wrap = ab.compile if run == "compiled" else lambda f: f
    found = fitted(problem, model, problem.starts[start], wrap)
    assert digits(found.x, problem.certified) >= 6
    assert digits(2 * found.cost, problem.squares) >= 6


@pytest.mark.parametrize("name", MODELS)
def test_at_the_certified_parameters_the_gradient_is_nearly_0(name):
    """It is small beside the sums that cancel in it, with no solver in between."""
    problem, model = Problem(name), MODELS[name]

    def loss(b):
        return ab.sum((model(problem.x, b) - problem.y) ** 2)

    value, slope = ab.value_and_grad(loss)(problem.certified)
    assert digits(value, problem.squares) >= 5
    matrix = ab.jacobian(lambda b: model(problem.x, b))(problem.certified)
    residuals = np.asarray(model(problem.x, problem.certified)) - problem.y
    scale = 2 * np.linalg.norm(matrix, axis=0) * np.linalg.norm(residuals)
    assert (abs(slope - 2 * matrix.T @ residuals) < 1e-12 * scale).all()
    assert (abs(slope) < 1e-4 * scale).all()
