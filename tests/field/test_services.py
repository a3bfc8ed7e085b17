"""More than the gradient: derivatives inside a program, in both modes, checked and rewritten."""

import math

import numpy as np
import pytest

import anabranch as ab

nan, inf = math.nan, math.inf


# Derivatives of and by what lies in the middle. y = f3(f2(f1(x))), none of which is touched.


def f1(x):
    return x * x


def f2(z):
    return ab.sin(z) * z


def f3(z):
    return ab.exp(z * 0.5)


X = np.array([0.5, 1.25])
V = np.array([1.0, -2.0])


def by_f2(z):
    return np.cos(z) * z + np.sin(z)


def by_f3(z):
    return 0.5 * np.exp(0.5 * z)


@pytest.mark.proves("F-97")
def test_the_gradient_by_an_intermediate_of_an_eager_program():
    x = ab.tensor(X, requires_grad=True)
    z1 = f1(x)
    z2 = f2(z1)
    y = ab.sum(f3(z2))
    (slope,) = ab.gradients(y, [z1])
    wanted = by_f3(f2(X * X)) * by_f2(X * X)
    assert slope.numpy() == pytest.approx(wanted, rel=1e-14)
    y.backward()
    assert z1.grad.tolist() == slope.numpy().tolist()


@pytest.mark.proves("F-97")
def test_intermediates_are_found_in_the_graph_of_an_unchanged_function():
    """By op, in the graph that it builds; the derivatives are more nodes of it."""

    def program(x):
        return ab.sum(f3(f2(f1(x))))

    g = ab.Graph("program")
    y = program(g.parameter("x", X.shape, ab.float64))
    z1, z2 = [node for node in g if node.op.name == "multiply"][:2]
    (slope,) = ab.gradients(y, [z1])
    (row,) = ab.gradients(ab.sum(z2), [z1])
    values = g.compile(slope, row)(X)
    assert values[0] == pytest.approx(by_f3(f2(X * X)) * by_f2(X * X), rel=1e-14)
    assert values[1] == pytest.approx(by_f2(X * X), rel=1e-14)


@pytest.mark.proves("F-97")
def test_a_direction_at_an_intermediate_is_pushed_to_a_later_one():
    """(∂z2/∂z1)·v, as a product of two transposed walks and as a walk forward of f2 alone."""
    x = ab.tensor(X, requires_grad=True)
    z1 = f1(x)
    z2 = f2(z1)
    wanted = by_f2(X * X) * V
    u = ab.tensor(np.ones(2), requires_grad=True)
    (pulled,) = ab.gradients(z2, [z1], ct=u, record=True)
    (pushed,) = ab.gradients(pulled, [u], ct=V)
    assert pushed.numpy() == pytest.approx(wanted, rel=1e-14)
    assert ab.jvp(f2, (z1.numpy(),), (V,))[1] == pytest.approx(wanted, rel=1e-14)
    assert x.grad is None


@pytest.mark.proves("F-97")
def test_intermediates_are_found_and_moved_in_what_was_recorded():
    x = ab.tensor(X, requires_grad=True)
    y = ab.sum(f3(f2(f1(x))))
    z1, z2 = ab.find(y, op="multiply")[:2]
    assert z1.numpy().tolist() == (X * X).tolist()
    (moved,) = ab.tangents([z2], [z1], [V])
    assert moved.numpy() == pytest.approx(by_f2(X * X) * V, rel=1e-14)
    (slope,) = ab.gradients(y, [z1])
    assert slope.numpy() == pytest.approx(by_f3(f2(X * X)) * by_f2(X * X), rel=1e-14)


@pytest.mark.proves("F-113")
@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_a_full_jacobian_holds_a_chunk_of_rows_at_a_time(mode):
    """The peak is stated before any sweep, and the result is the same for every chunk."""

    def f(x):
        return x * x[::-1]

    x = np.linspace(1.0, 2.0, 300)
    plans = [ab.jacobian(f, mode=mode, chunk=chunk).plan(x) for chunk in (10, 300)]
    rows = [plan.peak_bytes - plan.result_bytes - plan.sweep_bytes for plan in plans]
    assert rows == [10 * x.nbytes, 300 * x.nbytes]
    wanted = np.diag(x[::-1]) + np.diag(x)[:, ::-1]
    for chunk in (1, 10, 299, 300, 1_000):
        assert ab.jacobian(f, mode=mode, chunk=chunk)(x).tolist() == wanted.tolist()


# A rule of one's own.


def forward(f):
    return lambda x: ab.jvp(f, (x,), (1.0,))[1]


def doubled_and_squared():
    @ab.custom_derivative(saves=True)
    def f(x):
        saved = 2.0 * x
        return saved * saved, saved

    f.define_vjp(lambda ct, out, saved, x: 2.0 * 2.0 * saved * ct)
    return f


@pytest.mark.proves("F-101")
@pytest.mark.parametrize("outer", [ab.grad, forward], ids=["reverse", "forward"])
@pytest.mark.parametrize("inner", [ab.grad, forward], ids=["reverse", "forward"])
def test_a_rule_that_reads_a_saved_value_is_right_at_second_order(inner, outer):
    f = doubled_and_squared()
    for x in (-3.0, 0.0, 0.5):
        assert float(f(x)) == 4.0 * x * x
        assert float(inner(f)(x)) == 8.0 * x
        assert float(outer(inner(f))(x)) == 8.0
        assert float(ab.compile(outer(inner(f)))(x)) == 8.0
        assert float(ab.compile(outer(inner(f)), passes=())(x)) == 8.0


@pytest.mark.proves("F-101")
def test_a_rule_inside_a_larger_program_is_differentiated_through():
    f = doubled_and_squared()
    g = lambda x: ab.sin(f(x)) * x  # noqa: E731
    plain = lambda x: ab.sin(4.0 * x * x) * x  # noqa: E731
    for _ in range(3):
        g, plain = ab.grad(g), ab.grad(plain)
        assert float(g(0.7)) == pytest.approx(float(plain(0.7)), rel=1e-12)


# One rule, two modes.


def chain(op):
    def fold(x):
        value = x[0]
        for i in range(1, x.shape[0]):
            value = op(value, x[i])
        return value

    return fold


def norm(x):
    return ab.sqrt(ab.sum(x * x))


def variance(x):
    return ab.mean((x - ab.mean(x)) ** 2)


def atan_like(x):
    """The angle's derivative without the angle: (x dy - y dx) / (x² + y²), a field along x."""
    return x[0] * x[1] / (x[0] ** 2 + x[1] ** 2)


BOTH_MODES = {
    "max": ab.max,
    "max by rows": lambda x: ab.max(ab.reshape(x, (2, 2)), axis=0),
    "min": ab.min,
    "prod": ab.prod,
    "prod by rows": lambda x: ab.prod(ab.reshape(x, (2, 2)), axis=1),
    "cumprod": ab.cumprod,
    "cumprod from behind": lambda x: ab.cumprod(x, reverse=True),
    "cumsum": ab.cumsum,
    "cummax": ab.cummax,
    "cummin": lambda x: ab.cummin(ab.reshape(x, (2, 2)), axis=0),
    "cumlogsumexp": ab.cumlogsumexp,
    "sort": ab.sort,
    "top_k": lambda x: ab.top_k(x, 2)[0],
    "median": ab.median,
    "quantile": lambda x: ab.quantile(x, [0.1, 0.6]),
    "var": ab.var,
    "std": lambda x: ab.std(x, ddof=1),
    "maximum": lambda x: ab.maximum(x[:2], x[2:]),
    "minimum": lambda x: ab.minimum(x[:2], x[2:]),
    "maximum with a number": lambda x: ab.maximum(x, 1.0),
    "where": lambda x: ab.where(x >= 1.0, x * x, 3.0 * x),
    "norm": norm,
    "norm with a floor": lambda x: ab.maximum(norm(x), 1.0),
    "logsumexp": ab.logsumexp,
    "logsumexp by rows": lambda x: ab.logsumexp(ab.reshape(x, (2, 2)), axis=1),
    "softmax": ab.softmax,
    "log_softmax": ab.log_softmax,
    "clip": lambda x: ab.clip(x, 0.0, 1.0),
    "clip by values": lambda x: ab.clip(x[:2], x[2], x[3] + 4.0),
    "absolute": ab.absolute,
    "relu": ab.relu,
    "product": chain(lambda a, b: a * b),
    "running product": lambda x: x[0] * x[1] + x[0] * x[1] * x[2],
    "variance": variance,
    "standard deviation": lambda x: ab.sqrt(variance(x)),
    "angle": atan_like,
    "power": lambda x: ab.power(ab.absolute(x[:2]), x[2:]),
    "largest of pairs": chain(ab.maximum),
    "take": lambda x: ab.take(x, np.array([3, 0, 3])),
}
SPECIAL = {
    "ties": [1.0, 1.0, 1.0, 1.0],
    "ties at zero": [0.0, 0.0, 1.0, 1.0],
    "zeros": [0.0, 0.0, 0.0, 0.0],
    "negative zeros": [-0.0, 0.0, -0.0, 1.0],
    "bounds": [0.0, 1.0, 0.0, -3.0],
    "one zero": [2.0, 0.0, 3.0, 4.0],
    "two zeros": [2.0, 0.0, 0.0, 3.0],
    "negatives": [-1.0, -1.0, -2.0, -0.5],
}
# Where the spelling in elementary ops has a slope that is infinite, or of 0/0.
UNBOUNDED = {
    "ties": {"standard deviation"},
    "ties at zero": {"angle"},
    "zeros": {"norm", "standard deviation", "angle", "power"},
    "negative zeros": {"angle", "power"},
    "bounds": {"power"},
}


def both_products(f, x, v, seed):
    """<u, J v> by a walk forward and <Jᵀ u, v> by a walk back."""
    out, pullback = ab.vjp(f, x)
    u = np.random.default_rng(seed).normal(size=np.shape(out))
    pushed = ab.jvp(f, (x,), (v,))[1]
    return np.sum(u * pushed), np.sum(pullback(u)[0] * v)


@pytest.mark.slow
@pytest.mark.proves("F-103")
@pytest.mark.parametrize("name", BOTH_MODES)
def test_both_modes_agree_at_random_points(name):
    rng = np.random.default_rng(11)
    for seed in range(10):
        x, v = rng.normal(size=(2, 4))
        forward, reverse = both_products(BOTH_MODES[name], x, v, seed)
        assert forward == pytest.approx(reverse, rel=1e-12, abs=1e-14)
        if name != "take":
            assert ab.check_gradients(BOTH_MODES[name], x).ok


@pytest.mark.proves("F-103")
@pytest.mark.parametrize("point", SPECIAL)
@pytest.mark.parametrize("name", BOTH_MODES)
def test_both_modes_agree_at_ties_and_edges(noiseless, name, point):
    v = np.random.default_rng(3).normal(size=4)
    forward, reverse = both_products(BOTH_MODES[name], np.array(SPECIAL[point]), v, 5)
    if name in UNBOUNDED.get(point, ()):
        assert not math.isfinite(reverse)
    else:
        assert forward == pytest.approx(reverse, rel=1e-12, abs=1e-14)


@pytest.mark.proves("F-103")
@pytest.mark.parametrize(
    "name",
    ["max", "min", "cummax", "sort", "median", "maximum", "clip", "absolute", "relu", "logsumexp"],
)
def test_both_modes_agree_where_values_are_infinite(noiseless, name):
    v = np.random.default_rng(3).normal(size=4)
    forward, reverse = both_products(BOTH_MODES[name], np.array([inf, 1.0, inf, 2.0]), v, 5)
    assert math.isfinite(forward)
    assert forward == pytest.approx(reverse, rel=1e-12, abs=1e-14)


# The check of a gradient.

NARROW = {
    "a linear map": lambda x: ab.sum(x * np.array([1.0, -2.0, 0.5], np.float32)),
    "a product of matrices": lambda x: ab.sum(x @ np.ones((3, 2), np.float32)),
    "a mean": ab.mean,
    "a large linear map": lambda x: 1e4 * ab.sum(x),
    "a curve": lambda x: ab.sum(ab.tanh(x)),
}


@pytest.mark.proves("F-105")
@pytest.mark.parametrize("eps", [1e-6, None, 1e-3])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ab.bfloat16], ids=str)
@pytest.mark.parametrize("name", NARROW)
def test_a_check_in_narrow_floats_raises_no_false_alarm(name, dtype, eps):
    x = np.array([0.5, -1.25, 2.0], dtype)

    def f(x):
        return NARROW[name](ab.astype(x, np.float32)) if dtype != np.float32 else NARROW[name](x)

    report = ab.check_gradients(f, x, eps=eps)
    assert report.ok
    assert str(report.rows[0].shape).startswith({2: "f16", 4: "f32"}[x.dtype.itemsize]) or (
        dtype == ab.bfloat16
    )


@pytest.mark.proves("F-105")
def test_a_wrong_gradient_in_narrow_floats_is_still_found():
    def f(x):
        return ab.sum(x * 2.0) + ab.stop_gradient(ab.sum(x * np.float32(1e-2)))

    with pytest.raises(ab.GradientCheckError):
        ab.check_gradients(f, np.ones(3, np.float32))


KINKS = {
    "the reported one": (
        lambda x: (ab.absolute(x[0]) + ab.absolute(x[1])) ** 4 + ab.exp(x[1]),
        [1.0, 0.0],
        [(1,)],
    ),
    "relu": (lambda x: ab.sum(ab.relu(x)), [0.0, 1.0, -1.0], [(0,)]),
    "a tie": (ab.max, [2.0, 2.0, 1.0], [(0,), (1,)]),
    "a bound": (lambda x: ab.sum(ab.clip(x, 0.0, 1.0)), [0.5, 1.0, 0.0], [(1,), (2,)]),
    "a floor": (lambda x: ab.sum(ab.maximum(x, 1.0)), [1.0, 3.0], [(0,)]),
    "a choice that meets": (lambda x: ab.sum(ab.where(x > 0.0, x, 3.0 * x)), [0.0, 1.0], [(0,)]),
    "a norm": (lambda x: ab.absolute(x[0]) + norm(x[1:]), [1.0, 0.0, 0.0], [(1,), (2,)]),
}


@pytest.mark.proves("F-107")
@pytest.mark.parametrize("name", KINKS)
def test_a_kink_is_called_a_kink_and_its_element_is_named(name):
    f, at, elements = KINKS[name]
    report = ab.check_gradients(f, np.array(at), raise_on_failure=False)
    assert report.ok
    assert report.verdict == "kink"
    notes = " ".join(report.rows[0].notes)
    for element in elements:
        assert f"kink at {list(element)}" in notes
    assert "mismatch" not in str(report)


@pytest.mark.proves("F-107")
def test_the_slopes_on_both_sides_are_shown():
    f, at, _ = KINKS["the reported one"]
    (row,) = ab.check_gradients(f, np.array(at)).rows
    assert row.notes == ("kink at [1]: slopes -3 and 5, analytic 1",)


@pytest.mark.proves("F-107")
def test_a_wrong_gradient_beside_a_kink_is_still_wrong():
    def f(x):
        return ab.absolute(x[0]) + x[1] ** 2 + ab.stop_gradient(x[1])

    with pytest.raises(ab.GradientCheckError):
        ab.check_gradients(f, np.array([0.0, 1.0]))


# Rewrites and NaN.

ALL_PASSES = [None, (), *((name,) for name in ab.passes.PASSES), tuple(ab.passes.PASSES)]


@pytest.mark.slow
@pytest.mark.proves("F-117")
@pytest.mark.parametrize("passes", ALL_PASSES, ids=str)
@pytest.mark.parametrize(
    "ramp",
    [ab.relu, lambda x: ab.maximum(x, 0.0), lambda x: ab.clip(x, 0.0, None), ab.absolute],
    ids=["relu", "maximum", "clip", "absolute"],
)
def test_second_derivatives_of_a_small_network_at_zero(ramp, passes):
    def loss(w1, w2):
        return (w2 * ramp(w1 * 0.0)) ** 2

    zero = np.float64(0.0)
    for first in (0, 1):
        for second in (0, 1):
            curved = ab.grad(ab.grad(loss, first), second)
            assert float(curved(zero, zero)) == 0.0
            assert float(ab.compile(curved, passes=passes)(zero, zero)) == 0.0


@pytest.mark.proves("F-117")
@pytest.mark.parametrize("passes", ALL_PASSES, ids=str)
def test_second_derivatives_of_a_network_of_zeros_in_matrices(passes):
    def loss(w1, w2, x):
        return ab.sum((w2 @ ab.relu(w1 @ x)) ** 2)

    w1, w2, x = np.zeros((3, 2)), np.zeros((1, 3)), np.zeros(2)

    def curvature(w1, w2, x):
        return sum(ab.sum(one) for one in ab.grad(loss, (0, 1, 2))(w1, w2, x))

    for found in ab.compile(ab.grad(curvature, (0, 1, 2)), passes=passes)(w1, w2, x):
        assert not found.any()


KEPT_NAN = {
    "0/x": (lambda x: 0.0 / x, 0.0),
    "0*x": (lambda x: 0.0 * x, inf),
    "x*0": (lambda x: x * 0.0, nan),
    "x-x": (lambda x: x - x, inf),
    "x/x": (lambda x: x / x, 0.0),
    "x+(-x)": (lambda x: x + -x, -inf),
    "log of exp": (lambda x: ab.log(ab.exp(x)) - x, inf),
    "(x**0.5)**2": (lambda x: (x**0.5) ** 2, -1.0),
    "max with NaN": (lambda x: ab.maximum(x, 5.0), nan),
    "where of NaN": (lambda x: ab.where(ab.isnan(x), x, 0.0), nan),
    "0**0 of an infinity": (lambda x: (x - x) ** 2, inf),
}


@pytest.mark.slow
@pytest.mark.proves("F-117")
@pytest.mark.parametrize("passes", ALL_PASSES, ids=str)
@pytest.mark.parametrize("name", KEPT_NAN)
def test_no_pass_makes_a_number_of_a_nan(noiseless, name, passes):
    f, at = KEPT_NAN[name]
    assert math.isnan(f(np.float64(at)))
    assert math.isnan(ab.compile(f, passes=passes)(np.float64(at)))
    found = ab.compile(ab.grad(f), passes=passes)(np.float64(at))
    wanted = ab.grad(f)(np.float64(at))
    assert float(found) == float(wanted) or (math.isnan(found) and math.isnan(wanted))


@pytest.mark.proves("F-117")
@pytest.mark.parametrize("passes", ALL_PASSES, ids=str)
def test_no_pass_makes_a_nan_of_a_number(noiseless, passes):
    """Infinities and signed zeros that cancel nothing stay what they are."""
    for f, at, wanted in (
        (lambda x: 1.0 / x, -0.0, -inf),
        (lambda x: x + 0.0, -0.0, 0.0),
        (lambda x: x * 1.0, -0.0, -0.0),
        (lambda x: x - 0.0, -0.0, -0.0),
        (lambda x: 1.0 / (1.0 / x), -inf, -inf),
        (lambda x: ab.exp(-x), inf, 0.0),
        (lambda x: ab.sqrt(x * x), -inf, inf),
    ):
        found = ab.compile(f, passes=passes)(np.float64(at))
        assert float(found) == wanted
        assert math.copysign(1.0, found) == math.copysign(1.0, wanted)
