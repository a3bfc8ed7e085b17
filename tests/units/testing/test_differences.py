"""The numerical gradient and what chooses its steps."""

import math

import ml_dtypes
import numpy as np
import pytest

import anabranch as ab
from anabranch.testing import numerical_gradient
from anabranch.testing.differences import base_step, plateau, sizes, unit

pytestmark = pytest.mark.proves("S0-52")


def cubed(x):
    return ab.sum(x * x * x)


def test_the_default_step_is_a_millionth():
    asked = []
    numerical_gradient(lambda x: asked.append(float(x[0])) or 0.0, np.array([1.0]))
    assert asked == [1.0 + 1e-6, 1.0 - 1e-6]


def test_it_is_the_central_difference_to_the_last_bit():
    f = lambda x: math.exp(float(x[0]))  # noqa: E731
    found = numerical_gradient(f, np.array([1.0]), eps=1e-4)
    assert found[0] == (math.exp(1.0 + 1e-4) - math.exp(1.0 - 1e-4)) / (2 * 1e-4)


def test_a_central_difference_beats_a_one_sided_one_a_thousand_times():
    e, h = math.e, 1e-4
    one_sided = abs((math.exp(1.0 + h) - e) / h - e)
    central = abs(float(numerical_gradient(lambda x: np.exp(x).item(), 1.0, eps=h)) - e)
    assert central * 1000 < one_sided


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (2, 1, 2, 2), (0,), (3, 0)])
def test_any_rank_and_empty(shape):
    x = np.random.default_rng(0).normal(size=shape)
    found = numerical_gradient(cubed, x)
    assert found.shape == shape
    assert found.dtype == np.float64
    assert found == pytest.approx(3 * x**2, rel=1e-8)


ODD_BITS = np.array([0.1, -0.0, 5e-324, 1e300, math.pi])


def test_the_point_is_restored_bit_for_bit():
    x = ODD_BITS.copy()
    numerical_gradient(lambda v: float(np.sum(np.tanh(v))), x)
    assert x.tobytes() == ODD_BITS.tobytes()


@pytest.mark.parametrize("calls", range(6))
def test_the_point_is_restored_also_when_the_function_raises(calls):
    x = ODD_BITS[:3].copy()
    left = iter(range(calls))

    def f(v):
        if next(left, None) is None:
            raise ZeroDivisionError
        return 0.0

    with pytest.raises(ZeroDivisionError):
        numerical_gradient(f, x)
    assert x.tobytes() == ODD_BITS[:3].tobytes()


def test_a_function_may_read_the_point_by_another_name():
    x = np.array([1.0, 2.0])
    assert numerical_gradient(lambda _: float((x**2).sum()), x) == pytest.approx([2.0, 4.0])
    w = ab.tensor([3.0], requires_grad=True)
    assert numerical_gradient(lambda _: ab.sum(w * w), w) == pytest.approx([6.0])
    assert w.data.tolist() == [3.0]


def test_a_number_a_tensor_and_what_cannot_be_moved():
    assert float(numerical_gradient(cubed, 2.0)) == pytest.approx(12.0)
    assert numerical_gradient(cubed, ab.tensor([2.0])) == pytest.approx([12.0])
    frozen = np.array([2.0])
    frozen.flags.writeable = False
    assert numerical_gradient(cubed, frozen) == pytest.approx([12.0])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_narrow_floats_are_moved_in_double_precision(dtype):
    x = np.array([2.0], dtype)
    assert numerical_gradient(cubed, x) == pytest.approx([12.0])
    assert numerical_gradient(cubed, ab.tensor(x)) == pytest.approx([12.0])
    assert x.dtype == dtype


@pytest.mark.parametrize("x", [np.array([1, 2]), np.array(True), np.array([1j])])
def test_what_has_no_tangents_is_refused(x):
    with pytest.raises(ab.errors.DTypeError, match="integer-gradient"):
        numerical_gradient(cubed, x)


def test_a_result_that_is_no_scalar_is_refused():
    with pytest.raises(ab.errors.ShapeError, match="not-a-scalar"):
        numerical_gradient(lambda x: x * 2, np.ones(3))


def test_steps_come_from_the_error_model():
    assert base_step(unit(np.float64)) == 2.0**-17
    assert base_step(unit(np.float32)) == 2.0**-7
    assert sizes(np.zeros(3)).tolist() == [1.0, 1.0, 1.0]
    assert sizes(np.array([1e-9, 1.0, -50.0])).tolist() == [5.0, 5.0, 50.0]
    assert sizes(np.zeros((0, 2))).shape == (0, 2)

    # near the best there is: ten times longer or shorter is worse
    def error(h):
        return abs((math.exp(1 + h) - math.exp(1 - h)) / (2 * h) - math.e)

    best = error(2.0**-17)
    assert best < 1e-10 < min(error(2.0**-7), error(2.0**-30))


def test_a_plateau_finds_the_slope_of_a_fast_wave():
    wave = lambda x: math.sin(3e4 * x)  # noqa: E731
    h = 2.0**-17
    plain = (wave(1.0 + h) - wave(1.0 - h)) / (2 * h)
    wanted = 3e4 * math.cos(3e4)
    assert abs(plain - wanted) > 1e-3 * abs(wanted)
    assert plateau(wave, 1.0, h, 1e-16) == pytest.approx(wanted, rel=1e-5)
