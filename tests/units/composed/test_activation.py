"""Activations: values and two derivatives to 50 digits, corners by the table, ends by limits."""

import math

import mpmath
import numpy as np
import pytest

import anabranch as ab

nan, inf = math.nan, math.inf
mpf = mpmath.mpf
SCALE = mpf("1.0507009873554804934193349852946")
ALPHA = mpf("1.6732632423543772848170429916717")


def share(x):
    """The sigmoid."""
    return 1 / (1 + mpmath.exp(-x)) if x >= 0 else mpmath.exp(x) / (1 + mpmath.exp(x))


def silu(x):
    s, r = share(x), share(-x)
    return x * s, s + x * s * r, s * r * (2 + x * (r - s))


def mish(x):
    w = mpmath.log1p(mpmath.exp(x)) if x < 1000 else x
    t, q = mpmath.tanh(w), mpmath.sech(w) ** 2 if w < 1e5 else mpf(0)
    s, r = share(x), share(-x)
    return x * t, t + x * q * s, 2 * q * s + x * (q * s * r - 2 * t * q * s * s)


def gelu(x):
    if abs(x) > 1000:
        return max(x, mpf(0)), mpf(x > 0), mpf(0)
    below = mpmath.erfc(-x / mpmath.sqrt(2)) / 2
    bell = mpmath.exp(-x * x / 2) / mpmath.sqrt(2 * mpmath.pi)
    return x * below, below + x * bell, bell * (2 - x * x)


def gelu_of_a_tanh(x):
    k, c = 2 * mpmath.sqrt(2 / mpmath.pi), mpf(0.044715)
    u, du, ddu = k * (x + c * x**3), k * (1 + 3 * c * x * x), 6 * k * c * x
    s, r = share(u), share(-u)
    return x * s, s + x * s * r * du, 2 * s * r * du + x * s * r * ((r - s) * du**2 + ddu)


def bent(slope, inner=1, outer=1):
    """outer * x above 0, outer * slope * (exp(x / inner) - 1) below."""

    def f(x):
        if x > 0:
            return outer * x, mpf(outer), mpf(0)
        e, size = mpmath.exp(x / inner), outer * slope
        return size * mpmath.expm1(x / inner), size * e / inner, size * e / inner**2

    return f


def softsign(x):
    size = 1 + abs(x)
    return x / size, 1 / size**2, -2 * mpmath.sign(x) / size**3


def log_sigmoid(x):
    value = -mpmath.log1p(mpmath.exp(-x)) if x > -1000 else x
    return value, share(-x), -share(x) * share(-x)


SMOOTH = {
    "silu": (ab.silu, silu),
    "swish": (ab.swish, silu),
    "mish": (ab.mish, mish),
    "gelu": (ab.gelu, gelu),
    "gelu, approximate": (lambda x: ab.gelu(x, approximate=True), gelu_of_a_tanh),
    "elu": (ab.elu, bent(mpf(1))),
    "elu, alpha": (lambda x: ab.elu(x, 0.25), bent(mpf(0.25))),
    "selu": (ab.selu, bent(ALPHA, outer=SCALE)),
    "celu": (lambda x: ab.celu(x, 2.0), bent(mpf(2), inner=mpf(2))),
    "softsign": (ab.softsign, softsign),
    "log_sigmoid": (ab.log_sigmoid, log_sigmoid),
}
SIZES = [1e-300, 1e-20, 1e-8, 1e-3, 0.1, 0.5, 0.999, 1.0, 1.3, 2.0, 5.0, 10.0, 20.0, 30.0, 37.0,
         38.5, 39.5, 41.0, 100.0, 500.0, 744.0, 790.0, 801.0, 1e5, 1e100, 1e300]  # fmt: skip


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("name", SMOOTH)
def test_values_and_two_derivatives_agree_with_fifty_digits(name, order):
    f, wanted = SMOOTH[name]
    for _ in range(order):
        f = ab.grad(f)
    # What a function of exp(-x * x) or exp(x) loses by the rounding of x is in its nature.
    with mpmath.workdps(50), np.errstate(divide="raise", invalid="raise", over="raise"):
        for x in (*(-s for s in SIZES), *SIZES):
            found, exact = float(f(np.float64(x))), wanted(mpf(x))[order]
            condition = 1 + (min(x * x, 1600.0) if "gelu" in name else min(abs(x), 800.0))
            size = max(abs(exact), mpf(2) ** -1022)
            if order and abs(x) < 3:
                size = max(size, mpf(0.1))  # near a slope of 0 it is the terms that round
            allowed = 4e-16 * condition * size
            assert abs(found - exact) <= allowed, (x, found, exact)


SPECIAL = {  # value and slope at 0, -0, inf, -inf and NaN
    "relu": (ab.relu, [(0, 0), (0, 0), (inf, 1), (0, 0), (nan, 1)]),
    "relu6": (ab.relu6, [(0, 0), (0, 0), (6, 0), (0, 0), (nan, 1)]),
    "leaky_relu": (ab.leaky_relu, [(0, 0.01), (-0.0, 0.01), (inf, 1), (-inf, 0.01), (nan, 1)]),
    "hardtanh": (ab.hardtanh, [(0, 1), (-0.0, 1), (1, 0), (-1, 0), (nan, 1)]),
    "hardsigmoid": (ab.hardsigmoid, [(0.5, 1 / 6), (0.5, 1 / 6), (1, 0), (0, 0), (nan, 1 / 6)]),
    "hardswish": (ab.hardswish, [(0, 0.5), (-0.0, 0.5), (inf, 1), (0, 0), (nan, nan)]),
    "elu": (ab.elu, [(0, 1), (-0.0, 1), (inf, 1), (-1, 0), (nan, 1)]),
    "elu, alpha": (lambda x: ab.elu(x, 3.0), [(0, 3), (-0.0, 3), (inf, 1), (-3, 0), (nan, 1)]),
    "celu": (lambda x: ab.celu(x, 3.0), [(0, 1), (-0.0, 1), (inf, 1), (-3, 0), (nan, 1)]),
    "selu": (
        ab.selu,
        [
            (0, float(SCALE * ALPHA)),
            (-0.0, float(SCALE * ALPHA)),
            (inf, float(SCALE)),
            (-float(SCALE * ALPHA), 0),
            (nan, float(SCALE)),
        ],
    ),
    "silu": (ab.silu, [(0, 0.5), (-0.0, 0.5), (inf, 1), (0, 0), (nan, nan)]),
    "mish": (ab.mish, [(0, 0.6), (-0.0, 0.6), (inf, 1), (0, 0), (nan, nan)]),
    "gelu": (ab.gelu, [(0, 0.5), (-0.0, 0.5), (inf, 1), (0, 0), (nan, nan)]),
    "gelu, approximate": (
        lambda x: ab.gelu(x, approximate=True),
        [(0, 0.5), (-0.0, 0.5), (inf, 1), (0, 0), (nan, nan)],
    ),
    "softsign": (ab.softsign, [(0, 1), (-0.0, 1), (1, 0), (-1, 0), (nan, nan)]),
    "log_sigmoid": (
        ab.log_sigmoid,
        [(-math.log(2), 0.5), (-math.log(2), 0.5), (-0.0, 0), (-inf, 1), (nan, nan)],
    ),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_zeros_infinities_and_nan(grad, noiseless, name):
    f, wanted = SPECIAL[name]
    for x, (value, slope) in zip((0.0, -0.0, inf, -inf, nan), wanted, strict=True):
        found = float(f(np.float64(x)))
        assert found == pytest.approx(value, rel=1e-15, nan_ok=True)
        assert math.isnan(found) or math.copysign(1, found) == math.copysign(1, value)
        assert float(grad(f)(x)) == pytest.approx(slope, rel=1e-15, nan_ok=True), x


CORNERS = {  # the slope at each corner, and a little to its left and right
    "relu6": (ab.relu6, {0.0: (0, 0, 1), 6.0: (1, 0, 0)}),
    "hardtanh": (ab.hardtanh, {-1.0: (0, 0, 1), 1.0: (1, 0, 0)}),
    "hardtanh, bounds": (lambda x: ab.hardtanh(x, 0.0, 20.0), {0.0: (0, 0, 1), 20.0: (1, 0, 0)}),
    "hardsigmoid": (ab.hardsigmoid, {-3.0: (0, 0, 1 / 6), 3.0: (1 / 6, 0, 0)}),
    "hardswish": (ab.hardswish, {-3.0: (0, 0, -0.5), 3.0: (1.5, 1, 1)}),
    "leaky_relu": (lambda x: ab.leaky_relu(x, 0.25), {0.0: (0.25, 0.25, 1)}),
    "elu": (lambda x: ab.elu(x, 0.25), {0.0: (0.25, 0.25, 1)}),
}


@pytest.mark.proves("F-41")
@pytest.mark.parametrize("name", CORNERS)
def test_slopes_at_corners(grad, name):
    f, corners = CORNERS[name]
    for x, slopes in corners.items():
        found = [float(grad(f)(x + step)) for step in (-1e-9, 0.0, 1e-9)]
        assert found == pytest.approx(slopes, abs=1e-8)
        assert found[1] in (pytest.approx(slopes[1], rel=1e-15), slopes[1])


@pytest.mark.parametrize("name", SMOOTH)
def test_both_modes_and_differences_agree(name):
    f = SMOOTH[name][0]
    x = np.array([-2.3, -0.7, -1e-3, 1e-3, 0.4, 1.9, 6.0])
    assert ab.check_gradients(f, x).verdict == "pass"
    t = np.linspace(-1.0, 1.0, 7)
    pushed = ab.jvp(f, (x,), (t,))[1]
    assert pushed == pytest.approx(ab.grad(lambda x: ab.sum(f(x)))(x) * t, rel=1e-13)
    report = ab.check_gradients(lambda x: ab.grad(lambda v: ab.sum(f(v)))(x), x)
    assert report.verdict == "pass", report


ALL = {name: f for name, (f, _) in {**SMOOTH, **SPECIAL}.items()}


@pytest.mark.usefixtures("on_reference")
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", ALL)
def test_dtypes_shapes_and_front_ends(name, dtype):
    f, kind = ALL[name], np.dtype(getattr(ab, dtype))
    x = np.array([[-2.0, -0.5, 0.25], [0.0, 1.0, 7.0]]).astype(kind)
    found = f(x)
    assert (found.dtype, found.shape) == (kind, x.shape)
    rounding = {8: 1e-15, 4: 1e-6}.get(kind.itemsize, 0.04 if dtype == "bfloat16" else 4e-3)
    exact = np.asarray(f(x.astype(np.float64)))
    assert found.astype(np.float64) == pytest.approx(exact, rel=rounding, abs=rounding)
    for run in (ab.compile(f), ab.compile(f, passes=())):
        assert run(x).tobytes() == found.tobytes()
    slope = ab.grad(lambda x: ab.sum(f(x)))(x)
    assert (slope.dtype, slope.shape) == (kind, x.shape)
    assert f(x[:0]).shape == (0, 3)
    assert f(x[0, 0]).shape == ()


@pytest.mark.parametrize("name", [n for n in ALL if n not in ("relu",)])
def test_integers_become_floats(name):
    if name == "hardtanh":
        return  # between integers of its own
    found = ALL[name](np.array([-2, 0, 3]))
    wanted = ALL[name](np.array([-2.0, 0.0, 3.0]))
    assert found.dtype == np.float64
    assert found.tolist() == wanted.tolist()


def test_learned_slopes_have_gradients(grad):
    x = np.array([[-2.0, 3.0], [0.0, -4.0]])
    weight = np.array([0.25, 0.5])
    assert ab.prelu(x, weight).tolist() == [[-0.5, 3.0], [0.0, -2.0]]
    assert grad(lambda w: ab.sum(ab.prelu(x, w)))(weight).tolist() == [-2.0, -4.0]
    assert grad(lambda x: ab.sum(ab.prelu(x, weight)))(x).tolist() == [[0.25, 1.0], [0.25, 0.5]]
    for f in (ab.prelu, ab.leaky_relu, ab.elu, ab.celu):
        a = np.array(0.7)
        assert ab.check_gradients(f, np.array([-2.0, -0.5, 3.0]), a).verdict == "pass"
    # what lies above 0 has no say, whatever it is
    assert grad(lambda w: ab.sum(ab.prelu(np.array([inf, -2.0]), w)))(0.25) == -2.0


def test_glu(grad):
    x = np.array([[1.0, 2.0, 0.0, math.log(3.0)], [-4.0, 0.0, 0.0, 0.0]])
    assert ab.glu(x) == pytest.approx(np.array([[0.5, 1.5], [-2.0, 0.0]]))
    assert ab.glu(x.T, axis=0) == pytest.approx(np.array([[0.5, 1.5], [-2.0, 0.0]]).T)
    assert ab.glu(x, axis=-2) == pytest.approx(x[:1] / (1 + np.exp(-x[1:])))
    found = grad(lambda x: ab.sum(ab.glu(x)))(x)
    assert found == pytest.approx(np.array([[0.5, 0.75, 0.25, 0.375], [0.5, 0.5, -1.0, 0.0]]))
    with pytest.raises(ab.ShapeError, match="odd-length"):
        ab.glu(x[:, :3])
    with pytest.raises(ab.OutOfRangeError, match="axis-out-of-range"):
        ab.glu(x, axis=2)


@pytest.mark.parametrize("name", ALL)
def test_each_is_one_scope_and_asks_for_nothing_outside_of_a_domain(name):
    graph = ab.trace(ALL[name], np.zeros(3))
    scopes = {node.scope.split("/")[0] for node in graph.nodes if node.kind == "op"}
    assert scopes == {name.split(",", maxsplit=1)[0]}
    with ab.config(domain="raise"):
        for x in (0.0, -1.0, 3.0, 1e300, inf, -inf):
            with np.errstate(invalid="ignore"):
                ab.grad(ab.grad(ALL[name]))(x)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint32, np.int8])
def test_log_sigmoid_of_integers_is_that_of_the_same_numbers(dtype):
    x = np.array([0, 1, 5], dtype)
    for found in (ab.log_sigmoid(x), ab.compile(ab.log_sigmoid)(x)):
        np.testing.assert_allclose(found, ab.log_sigmoid(x.astype(float)), rtol=2e-3)
