"""Points at which a derivative is a limit or a convention, and the programs that meet them.

Each reported case stands with its number; around it are its kin: other spellings, other functions,
every way to a gradient.
"""

import math

import numpy as np
import pytest

import anabranch as ab

inf = math.inf


# A root times its own radicand: 0 times infinity, with the limit 0.

HALF_POWERS = {
    "x * sqrt(x)": (lambda x: x * ab.sqrt(x), 1.5),
    "sqrt(x) * x": (lambda x: ab.sqrt(x) * x, 1.5),
    "x**1.5": (lambda x: x**1.5, 1.5),
    "x * x * sqrt(x)": (lambda x: x * x * ab.sqrt(x), 2.5),
    "sqrt(x) * (x * x)": (lambda x: ab.sqrt(x) * (x * x), 2.5),
    "x**2 * sqrt(x)": (lambda x: x**2 * ab.sqrt(x), 2.5),
    "x**3 * sqrt(x)": (lambda x: x**3 * ab.sqrt(x), 3.5),
    "sqrt(x) * x**4": (lambda x: ab.sqrt(x) * x**4, 4.5),
    "x**2.5": (lambda x: x**2.5, 2.5),
}


@pytest.mark.proves("F-23")
@pytest.mark.parametrize("name", HALF_POWERS)
def test_a_root_times_its_radicand_has_the_slope_of_the_power(grad, name):
    f, exponent = HALF_POWERS[name]
    assert float(grad(f)(0.0)) == 0.0
    for x in (1e-12, 0.3, 4.0):
        assert float(grad(f)(x)) == pytest.approx(exponent * x ** (exponent - 1), rel=1e-14)
    found = grad(lambda x: ab.sum(f(x)))([0.0, 4.0, 0.0])
    assert found.tolist() == [0.0, pytest.approx(exponent * 4 ** (exponent - 1)), 0.0]


@pytest.mark.proves("F-23")
@pytest.mark.parametrize("name", HALF_POWERS)
def test_it_stays_so_inside_a_program_and_at_second_order(noiseless, name):
    f, exponent = HALF_POWERS[name]

    def program(v):
        return ab.sum(3.0 * f(v * v + 0.0) * ab.exp(v))

    x = np.array([0.0, 0.5])
    for way in (ab.grad(program), ab.compile(ab.grad(program))):
        assert way(x)[0] == 0.0
    for i, t in enumerate(np.eye(2)):
        pushed = ab.jvp(program, (x,), (t,))[1]
        assert float(pushed) == pytest.approx(float(ab.grad(program)(x)[i]), rel=1e-13)
    second = float(ab.grad(ab.grad(f))(0.0))
    assert second == (inf if exponent < 2 else 0.0)
    assert math.isnan(f(np.float64(-1.0)))  # outside of the domain as before
    assert math.isnan(ab.grad(f)(-1.0))


def test_what_has_no_limit_is_not_made_up(noiseless):
    """x / sqrt(x), x log x: neither value is known at 0, and NaN says so."""
    for f in (lambda x: x / ab.sqrt(x), lambda x: x * ab.log(x)):
        assert math.isnan(f(np.float64(0.0)))
    with ab.config(domain="raise"), pytest.raises(ab.DomainError, match=r"log\(0.0\)"):
        ab.grad(lambda x: x * ab.log(x))(0.0)


# Distances and directions at 0.


@pytest.mark.parametrize(
    "f",
    [
        lambda a, x: ab.sum(ab.normalize(a * x)),
        lambda a, x: ab.cosine_similarity(a * x, np.ones(2)),
        lambda a, x: ab.triplet(a * x, np.zeros(2), np.zeros(2)),
        lambda a, x: ab.mae(a * x, np.zeros(2)),
        lambda a, x: ab.huber(a * x, np.zeros(2)),
    ],
)
def test_a_factor_of_a_vector_of_zeros_has_the_slope_0(grad, f):
    assert float(grad(lambda a: f(a, np.zeros(2)))(1.3)) == 0.0
    found = grad(lambda x: f(np.float64(1.3), x))([0.0, 0.0])
    assert found.tolist() == [0.0, 0.0]


# Exponentials less 1.


@pytest.mark.proves("F-37")
@pytest.mark.parametrize("x", [-40.0, -20.0, -700.0, -1e-9])
def test_the_slope_below_zero_does_not_cancel(grad, x):
    scale = 1.0507009873554804934 * 1.6732632423543772848
    slopes = {
        "expm1": (ab.expm1, math.exp(x)),
        "elu": (ab.elu, math.exp(x)),
        "selu": (ab.selu, scale * math.exp(x)),
        "celu": (lambda x: ab.celu(x, 2.0), math.exp(x / 2)),
        "elu, masked": (lambda x: ab.where(x < 5.0, ab.elu(x), x), math.exp(x)),
        "softplus": (ab.softplus, math.exp(x) / (1 + math.exp(x))),
    }
    for name, (f, wanted) in slopes.items():
        assert float(grad(f)(x)) == pytest.approx(wanted, rel=4e-16), name
    if x == -40.0:
        assert f"{float(grad(ab.elu)(x)):.5e}" == "4.24835e-18"


# Ramps with a ceiling, and the places where they bend.


@pytest.mark.proves("F-41")
def test_ramps_that_have_a_name_take_the_side_of_the_flat_part(grad):
    slopes = {
        "relu6": [float(grad(ab.relu6)(x)) for x in (0.0, 6.0, -0.0)],
        "hardtanh": [float(grad(ab.hardtanh)(x)) for x in (-1.0, 1.0)],
        "hardsigmoid": [float(grad(ab.hardsigmoid)(x)) for x in (-3.0, 3.0)],
        "hardswish": [float(grad(ab.hardswish)(x)) for x in (-3.0, 3.0)],
        "relu": [float(grad(ab.relu)(x)) for x in (0.0, -0.0)],
        "leaky_relu": [float(grad(ab.leaky_relu)(x)) for x in (0.0, -0.0)],
    }
    assert slopes == {
        "relu6": [0.0, 0.0, 0.0],
        "hardtanh": [0.0, 0.0],
        "hardsigmoid": [0.0, 0.0],
        "hardswish": [0.0, 1.0],
        "relu": [0.0, 0.0],
        "leaky_relu": [0.01, 0.01],
    }


# Infinities, at every length of an array.


@pytest.mark.slow
@pytest.mark.proves("F-33")
@pytest.mark.parametrize("n", range(1, 10))
def test_no_length_turns_an_infinity_into_nan(noiseless, n):
    nothing, much = np.full(n, -inf), np.full(n, inf)
    cases = [
        (lambda x: ab.logaddexp(x, x), nothing, -inf),
        (lambda x: ab.logaddexp(x, x), much, inf),
        (lambda x: 0.5 * ab.erfc(-x * math.sqrt(0.5)), much, 1.0),
        (lambda x: 0.5 * ab.erfc(-x * math.sqrt(0.5)), nothing, 0.0),
        (ab.gelu, much, inf),
        (ab.gelu, nothing, 0.0),
        (ab.silu, nothing, 0.0),
        (ab.mish, nothing, 0.0),
        (ab.log_sigmoid, much, 0.0),
        (ab.log_sigmoid, nothing, -inf),
    ]
    for f, x, value in cases:
        for way in (f, ab.compile(f), ab.compile(f, passes=()), ab.compile(f, backend="native")):
            assert np.asarray(way(x)).tolist() == [value] * n
    assert float(0.5 * ab.erfc(-np.float64(inf))) == 1.0
    assert float(ab.logaddexp(np.float64(-inf), np.float64(-inf))) == -inf


# Probabilities far out.


@pytest.mark.proves("F-35")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_losses_of_a_sigmoid_keep_their_slopes_far_out(grad, dtype):
    """Of log(sigmoid(x)) as of the sigmoid itself, however it is reached."""
    x = np.array([-200.0, -400.0 / 3, -200.0 / 3, 0.0, 200.0 / 3], dtype)
    wide = x.astype(np.float64)
    wanted = 1 / (1 + np.exp(wide))
    spellings = {
        "log_sigmoid": lambda x: ab.sum(ab.log_sigmoid(x)),
        "cross entropy": lambda x: -ab.binary_cross_entropy(x, 1.0, reduction="sum"),
        "of classes": lambda x: ab.sum(
            ab.log_softmax(ab.reshape(x, (-1, 1)) * np.array([1.0, 0.0], dtype))[:, 0]
        ),
    }
    for name, f in spellings.items():
        found = grad(f)(x)
        assert found.dtype == dtype
        close = pytest.approx(wanted, rel=2e-6 if dtype == np.float32 else 1e-14)
        assert found.astype(np.float64) == close, name
