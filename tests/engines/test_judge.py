"""The judge of every derivative is the central difference, on small samples."""

import math
from itertools import pairwise

import numpy as np
import pytest

import anabranch as ab
from anabranch.testing import numerical_gradient, temporary_ops
from anabranch.testing.differences import base_step, unit


@pytest.mark.proves("S1-22")
@pytest.mark.parametrize("f, slope", [(ab.exp, math.e), (ab.sin, math.cos(1.0)), (ab.log, 1.0)])
def test_a_central_difference_is_far_better_than_a_one_sided_one(f, slope):
    x, eps = 1.0, 1e-4
    one_sided = (float(f(x + eps)) - float(f(x))) / eps
    central = float(numerical_gradient(f, x, eps=eps))
    assert abs(one_sided - slope) >= 1_000 * abs(central - slope)


def errors_by_step(f, x, slope, steps):
    return [abs(float(numerical_gradient(f, x, eps=h)) - slope) for h in steps]


@pytest.mark.proves("S1-23")
@pytest.mark.parametrize("f, slope", [(ab.exp, math.e), (ab.sin, math.cos(1.0))])
def test_the_error_of_a_difference_falls_with_the_step_and_rises_again(f, slope):
    """Bending at one end, rounding at the other, and the library's own step near the bottom."""
    steps = [10.0**-k for k in range(1, 12)]
    errors = errors_by_step(f, 1.0, slope, steps)
    best = errors.index(min(errors))
    assert 3 <= best <= 6
    assert all(a > 10 * b for a, b in pairwise(errors[:4]))
    assert errors[-1] > 1e3 * errors[best]
    (own,) = errors_by_step(f, 1.0, slope, [base_step(unit(np.float64))])
    assert own < 10 * errors[best]


@pytest.mark.proves("S1-24")
def test_a_check_of_every_element_is_refused_for_a_large_model():
    def energy(w):
        return ab.sum(w * w)

    w = np.linspace(0.5, 1.5, 5_000)
    with pytest.raises(ab.ArgumentError, match="too-many-elements") as caught:
        ab.check_gradients(energy, w, method="elements")
    assert 'method="directions"' in str(caught.value)
    (row,) = ab.check_gradients(energy, w).rows
    assert (row.method.startswith("direction"), row.verdict) == (True, "pass")


@pytest.mark.proves("S1-61")
@pytest.mark.parametrize("place", range(4))
def test_a_failure_along_directions_is_traced_to_the_op(place):
    """Whichever layer it is in: the directions move all parameters, the report names one line."""
    with temporary_ops():
        bad = ab.elementwise(
            "bad_tanh", np.tanh, partials=(lambda y, x: 1.0 - y,), doc="A wrong rule.",
            result="float",
        )  # fmt: skip

        def model(x, w):
            for layer in range(4):
                x = bad(x @ w) if layer == place else ab.tanh(x @ w)
            return ab.sum(x)

        rng = np.random.default_rng(place)
        x, w = rng.normal(size=(2, 3)), rng.normal(size=(3, 3))
        report = ab.check_gradients(model, x, w, method="directions", raise_on_failure=False)
        elements = ab.check_gradients(model, x, w, method="elements", raise_on_failure=False)
    assert not report.ok and not elements.ok
    for found in (report, elements):
        assert found.suspects
        assert all("derivative of bad_tanh by its input 0" in line for line in found.suspects)
        assert all("x = bad(x @ w)" in line for line in found.suspects)
