"""Rows of docs/conventions.md on elementary functions, rounding, bits and special functions.

The points of a single op stand in its record; `test_mpmath.py` compares values and derivatives with
the true ones.
"""

import math
import operator
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import anabranch as ab
from anabranch.core.op import NoGradient
from anabranch.core.registry import registered_ops

nan, inf = math.nan, math.inf


def close(value, rel=2e-15):
    """Relative alone: pytest's own absolute tolerance of 1e-12 would pass any tiny number."""
    return pytest.approx(value, rel=rel, abs=0.0)


def quietly(f, *xs):
    with np.errstate(all="ignore"):
        return f(*xs)


def slopes(f, x, order=1):
    """The derivative of this order in both modes and compiled, all of which must agree."""
    x = np.float64(x)
    for _ in range(order - 1):
        f = ab.grad(f)
    with np.errstate(all="ignore"):
        found = [
            float(ab.grad(f)(x)),
            float(ab.jvp(f, (x,), (np.float64(1.0),))[1]),
            float(ab.compile(ab.grad(f), backend="reference")(x)),
        ]
        in_machine_code = float(ab.compile(ab.grad(f))(x))
    assert len({repr(v + 0.0) for v in found}) == 1, found
    assert in_machine_code == close(found[0], rel=4e-15), found
    return found[0]


# Far out and near 0: no cancellation, at second order either


@pytest.mark.proves("S1-41")
def test_the_slope_of_tanh_far_out():
    for x in (25.0, -25.0):
        assert slopes(ab.tanh, x) == close(7.7e-22, rel=0.01)
        assert slopes(ab.tanh, x) == close(4 * math.exp(-50.0))
        assert slopes(ab.tanh, x, 2) == close(-math.copysign(8, x) * math.exp(-50))


def test_the_slope_of_sigmoid_far_out():
    for x in (40.0, -40.0):
        assert slopes(ab.sigmoid, x) == close(math.exp(-40.0))
        assert slopes(ab.sigmoid, x, 2) == close(-math.copysign(math.exp(-40.0), x))


@pytest.mark.parametrize("x", [1e-9, -1e-9, 1e-160])
def test_second_derivatives_near_zero_keep_their_digits(x):
    assert slopes(ab.tanh, x, 2) == close(-2 * x)
    assert slopes(ab.sigmoid, x, 2) == close(-x / 8)
    assert slopes(ab.arcsin, x, 2) == close(x)
    assert slopes(ab.arctanh, x, 2) == close(2 * x)
    assert slopes(ab.sinc, x) == close(-(math.pi**2) / 3 * x)
    assert slopes(ab.sinc, x, 2) == close(-(math.pi**2) / 3)


def test_all_orders_of_tanh_and_sigmoid_at_zero():
    assert [slopes(ab.tanh, 0.0, n) for n in range(1, 6)] == [1.0, 0.0, -2.0, 0.0, 16.0]
    assert [slopes(ab.sigmoid, 0.0, n) for n in range(1, 5)] == [0.25, 0.0, -0.125, 0.0]


@pytest.mark.proves("F-37")
def test_the_slope_of_expm1_does_not_vanish():
    assert slopes(ab.expm1, -40.0) == close(4.24835e-18, rel=1e-5)


def test_nothing_overflows_on_the_way():
    for x in (1e155, 1e200, -1e200):
        assert slopes(ab.arcsinh, x) == 1 / abs(x)
        assert slopes(ab.arctan, x) == close(x**-2, rel=1e-12)
        assert slopes(ab.arccosh, abs(x)) == close(1 / abs(x))
    for scale in (1e200, 1e-200):
        found = ab.grad(ab.hypot, (0, 1))(-3 * scale, 4 * scale)
        assert np.array(found) == close([-0.6, 0.8])
        turned = ab.grad(ab.arctan2, (0, 1))(3 * scale, -4 * scale)
        assert np.array(turned) * scale == close([-0.16, -0.12])
    assert slopes(ab.log10, 1.7e308) == close(math.log10(math.e) / 1.7e308, rel=1e-14)


def test_half_floats_keep_slopes_that_they_can_hold():
    x = np.float16(300.0)
    assert float(ab.grad(ab.arctan)(x)) == close(1.1e-5, rel=0.01)


ENDS = {
    "arctan": (ab.arctan, inf), "arcsinh": (ab.arcsinh, -inf), "arccosh": (ab.arccosh, inf),
    "erf": (ab.erf, inf), "sinc": (ab.sinc, -inf), "tanh": (ab.tanh, inf),
    "sigmoid": (ab.sigmoid, -inf), "softplus": (ab.softplus, -inf), "rsqrt": (ab.rsqrt, inf),
    "cbrt": (ab.cbrt, -inf), "log1p": (ab.log1p, inf), "digamma": (ab.digamma, inf),
    "reciprocal": (ab.reciprocal, inf), "expm1": (ab.expm1, -inf),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize("order", [1, 2])
def test_a_curve_that_levels_out_is_flat_at_infinity(name, order):
    f, end = ENDS[name]
    assert slopes(f, end, order) == 0.0


def test_second_derivatives_at_the_edge_of_a_domain_have_their_sign():
    assert slopes(ab.arcsin, 1.0, 2) == inf
    assert slopes(ab.arcsin, -1.0, 2) == -inf
    assert slopes(ab.arccos, 1.0, 2) == -inf
    assert slopes(ab.arccosh, 1.0, 2) == -inf
    assert slopes(ab.cbrt, 0.0, 2) == -inf
    assert slopes(ab.rsqrt, 0.0, 2) == inf


def test_a_length_at_the_origin_is_as_flat_as_an_absolute_value():
    """hypot(x, 0) is |x|, in every order."""
    for order in (1, 2, 3):
        assert slopes(lambda x: ab.hypot(x, 0.0), 0.0, order) == slopes(ab.absolute, 0.0, order)
    assert slopes(lambda x: ab.hypot(x, 3.0), -inf) == slopes(ab.absolute, -inf) == -1.0


# NaN, infinities, ties


FLOATS = [op for op in registered_ops() if op.elementwise and op.arity != 0]


def real(op):
    made = next(s for s in op.samples if s.is_drawn).make(np.random.default_rng(1))
    y = np.asarray(op.ref(*made, **op.samples[-1].attrs))
    return [i for i, x in enumerate(made) if x.dtype.kind == "f"] if y.dtype.kind == "f" else []


@pytest.mark.parametrize(
    "op", [op for op in FLOATS if real(op) and op.name != "imag"], ids=lambda op: op.name
)
def test_nan_in_is_nan_out(op):
    attrs = op.samples[-1].attrs
    for slot in real(op)[:1] if op.name == "copysign" else real(op):  # a NaN has a sign, no more
        xs = [np.bool_(slot == 1) if op.name == "where" and i == 0 else np.float64(0.5)
              for i in range(op.inputs)]  # fmt: skip
        xs[slot] = np.float64(nan)
        if op.name == "heaviside":
            xs[0] = np.float64(nan if slot == 0 else 0.0)
        assert np.isnan(quietly(lambda *xs: ab.add(0.0, op.ref(*xs, **attrs)), *xs)), slot


@pytest.mark.parametrize("op", [op for op in FLOATS if real(op)], ids=lambda op: op.name)
def test_vector_tails_have_the_bits_of_single_elements(op):
    """Lengths 1 to 9: whatever loop runs the last elements, it is the same function."""
    rng = np.random.default_rng(3)
    sample = next(s for s in op.samples if s.is_drawn)
    drawn = [x.make(rng) for x in sample.inputs]
    whole = [x.ravel()[:9] for x in drawn]
    one_by_one = [np.asarray(op.ref(*xs, **sample.attrs)) for xs in zip(*whole, strict=True)]
    for length in range(1, 10):
        found = op.ref(*(x[:length] for x in whole), **sample.attrs)
        assert found.tobytes() == np.array(one_by_one[:length]).tobytes(), length


@pytest.mark.proves("F-33")
@pytest.mark.parametrize("length", [(), 1, 2, 3, 4, 5, 9])
def test_the_sum_of_two_zeros_as_logarithms_does_not_depend_on_the_length(length):
    nothing = np.full(length, -inf)
    assert (quietly(ab.logaddexp, nothing, nothing) == -inf).all()
    assert (quietly(ab.compile(ab.logaddexp), nothing, nothing) == -inf).all()
    normal = lambda x: 0.5 * ab.erfc(-x / math.sqrt(2.0))  # noqa: E731
    assert (normal(np.full(length, inf)) == 1.0).all()


def test_shares_of_a_logarithm_of_sums():
    def shares(a, b):
        with np.errstate(all="ignore"):
            return tuple(map(float, ab.grad(ab.logaddexp, (0, 1))(a, b)))

    assert shares(2.0, 2.0) == (0.5, 0.5)
    assert shares(inf, 1.0) == (1.0, 0.0)
    assert shares(1.0, -inf) == (1.0, 0.0)
    assert shares(inf, inf) == shares(-inf, -inf) == (0.0, 0.0)
    assert float(ab.grad(ab.grad(ab.logaddexp))(2.0, 2.0)) == 0.25


def test_a_product_with_a_logarithm_at_zero():
    def slope(f, *xs):
        with np.errstate(all="ignore"):
            return tuple(map(float, ab.grad(f, (0, 1))(*xs)))

    assert quietly(ab.xlogy, np.float64(0.0), np.float64(0.0)) == 0.0
    assert quietly(ab.xlogy, np.float64(0.0), np.float64(-1.0)) == 0.0
    assert np.isnan(quietly(ab.xlogy, np.float64(0.0), np.float64(nan)))
    assert quietly(ab.xlog1py, np.float64(0.0), np.float64(-1.0)) == 0.0
    assert slope(ab.xlogy, 0.0, 2.0) == (math.log(2.0), 0.0)
    assert slope(ab.xlogy, 0.0, 0.0) == (-inf, 0.0)
    assert slope(ab.xlog1py, 0.0, 1.0) == (math.log(2.0), 0.0)
    assert float(ab.grad(ab.grad(ab.xlogy, 0), 1)(0.0, 2.0)) == 0.5


def test_a_power_changes_with_its_exponent_at_zero_too():
    """∂²(aᵇ)/∂a∂b at (3, 0) is 1/3, in either order."""
    for first, second in ((0, 1), (1, 0)):
        assert float(ab.grad(ab.grad(ab.power, first), second)(3.0, 0.0)) == close(1 / 3)


@pytest.mark.parametrize("b, mixed", [(0.0, inf), (0.5, -inf), (1.0, -inf), (1.5, 0.0), (2.5, 0.0)])
def test_a_power_of_zero_changes_with_both_in_either_order(b, mixed):
    """The limit of a**(b - 1) (1 + b log a)."""
    a, b = np.zeros(1), np.array([b])
    for first, second in ((0, 1), (1, 0)):
        one = ab.grad(lambda *xs, k=first: ab.sum(ab.power(*xs)), first)
        assert quietly(ab.grad(lambda *xs, g=one: ab.sum(g(*xs)), second), a, b) == [mixed]


def test_a_power_of_two_numbers_is_one():
    assert float(ab.power(0.0, 0.0)) == 1.0
    assert float(ab.power(2.0, 3.0)) == float(ab.power(2, 3)) == 8.0


def test_the_inverse_error_function_bends_without_bound():
    bends = quietly(
        ab.grad(lambda x: ab.sum(ab.grad(lambda v: ab.sum(ab.erfinv(v)))(x))), np.array([-1.0, 1.0])
    )
    assert bends.tolist() == [-inf, inf]


# Rounding, remainders, signs


PAIRS = [(7.0, 2.0), (-7.0, 2.0), (7.0, -2.0), (-7.0, -2.0), (6.0, 3.0), (-6.0, 3.0), (5.5, 0.7)]


@pytest.mark.parametrize("a, b", PAIRS)
def test_quotient_and_remainder_belong_together(a, b):
    assert float(ab.floor_divide(a, b)) == a // b
    assert float(ab.remainder(a, b)) == a % b
    assert float(ab.fmod(a, b)) == math.fmod(a, b)
    found = tuple(map(float, ab.grad(ab.remainder, (0, 1))(a, b)))
    assert found == (1.0, -(a // b))
    exact = Fraction(a) / Fraction(b)
    assert tuple(map(float, ab.grad(ab.fmod, (0, 1))(a, b))) == (1.0, -math.trunc(exact))


def test_a_quotient_that_rounds_up_to_a_whole_number_is_not_counted_as_one():
    a, b = 3.4999999999999996, 0.7
    assert (a / b, math.fmod(a, b)) == (5.0, close(0.7))
    for f in (ab.fmod, ab.remainder):
        assert float(ab.grad(f, 1)(a, b)) == -4.0


def test_steps_have_slope_zero_and_drop_what_comes_from_above():
    for f in (ab.floor, ab.ceil, ab.trunc, ab.round, lambda x: ab.floor_divide(x, 2.0)):
        for x in (1.3, 2.0, -0.5, inf):
            assert slopes(f, x) == 0.0
        assert slopes(lambda x, f=f: ab.sqrt(f(x)), 0.2 if f is not ab.ceil else -0.2) == 0.0


def test_halves_round_to_even_and_integers_stay():
    x = np.array([0.5, 1.5, 2.5, -0.5])
    assert ab.round(x).tolist() == [0.0, 2.0, 2.0, -0.0]
    for f in (ab.round, ab.floor, ab.ceil, ab.trunc):
        for dtype in (np.int64, np.int8, np.uint16):
            found = f(np.array([3, 100], dtype))
            assert (found.dtype, found.tolist()) == (dtype, [3, 100])
    assert ab.round(np.array([126, -126]), -1).tolist() == [130, -130]
    with pytest.raises(ab.errors.DTypeError, match="bool-arithmetic"):
        ab.round(np.array([True]))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
def test_the_next_number_is_that_of_the_dtype(dtype):
    one, two = dtype(1.0), dtype(2.0)
    found = ab.nextafter(one, two)
    assert float(found) == 1.0 + float(ml_dtypes.finfo(dtype).eps)
    assert float(ab.nextafter(found, one)) == 1.0
    assert float(ab.grad(ab.nextafter)(one, two)) == 1.0
    for zero in (0.0, -0.0):  # of equal numbers the second
        assert np.signbit(float(ab.nextafter(dtype(-zero), dtype(zero)))) == np.signbit(zero)


@pytest.mark.parametrize("op", [operator.floordiv, operator.mod])
def test_integers_divided_by_zero_are_as_in_numpy(op):
    x = np.array([3, -3, 0])
    with np.errstate(all="ignore"):
        assert op(ab.asarray(x), 0).data.tolist() == op(x, 0).tolist() == [0, 0, 0]
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        op(ab.asarray(x), 0)


@pytest.mark.parametrize("one", [np.int8, np.int16, np.int64, np.bool_])
@pytest.mark.parametrize("other", [np.uint8, np.uint16, np.int32, np.float16, int, float])
def test_two_kinds_of_integers_become_the_floats_that_numpy_makes_of_them(one, other):
    x = np.ones(3, one)
    y = other(1) if other in (int, float) else np.ones(3, other)
    for f, ref in ((ab.arctan2, np.arctan2), (ab.logaddexp, np.logaddexp)):
        wanted = ref(x, y).dtype
        assert f(x, y).dtype == wanted
        assert ab.trace(f, x, y).outputs[0].dtype == wanted


# Operators, in each front end

X, Y = np.array([12, -7, 5, 0]), np.array([3, 2, 7, 1])
INFIX = {
    "floor_divide": operator.floordiv, "remainder": operator.mod, "bitwise_and": operator.and_,
    "bitwise_or": operator.or_, "bitwise_xor": operator.xor, "left_shift": operator.lshift,
    "right_shift": operator.rshift,
}  # fmt: skip


def three_ways(f, x, y):
    """Eager, traced and by hand."""
    yield f(ab.asarray(x), ab.asarray(y)).data
    yield ab.compile(f)(x, y)
    graph = ab.Graph("demo")
    a, b = (graph.parameter(n, v.shape, v.dtype) for n, v in (("a", x), ("b", y)))
    yield graph.compile(f(a, b))(x, y)


@pytest.mark.parametrize("name", INFIX)
def test_operators_are_the_functions(name):
    f = INFIX[name]
    wanted = f(X, Y).tolist()
    for found in (*three_ways(f, X, Y), *three_ways(getattr(ab, name), X, Y)):
        assert found.tolist() == wanted
    for one, other in ((X, 2), (X, np.int64(2))):  # a number or an array on either side
        assert f(ab.asarray(one), other).data.tolist() == f(one, other).tolist()
        assert f(other, ab.asarray(Y)).data.tolist() == f(other, Y).tolist()
    assert f(X, ab.asarray(Y)).data.tolist() == wanted


def test_quotient_and_remainder_in_one():
    for x, y in ((ab.asarray(X), 3), (40, ab.asarray(Y)), (ab.asarray(X), ab.asarray(Y))):
        found = [part.data.tolist() for part in divmod(x, y)]
        wanted = divmod(*(v if isinstance(v, int) else v.data for v in (x, y)))
        assert found == [part.tolist() for part in wanted]
    with pytest.raises(TypeError, match="unsupported operand"):
        divmod(ab.asarray(X), "a")


def test_bits_of_bools_are_their_logic():
    p, q = np.array([True, True, False, False]), np.array([True, False, True, False])
    for found in three_ways(lambda p, q: ~(p & q) ^ (p | q), p, q):
        assert found.tolist() == [True, False, False, True]
        assert found.dtype == np.bool_
    assert ab.logical_xor(p, q).tolist() == (p ^ q).tolist()
    assert (~ab.asarray(X)).data.tolist() == (~X).tolist()


@pytest.mark.parametrize("f", [operator.and_, operator.or_, operator.xor, operator.lshift])
def test_floats_have_no_bits(f):
    with pytest.raises(ab.errors.DTypeError, match="bits-dtype"):
        f(ab.tensor([1.0]), 1)
    graph = ab.Graph("demo")
    with pytest.raises(ab.errors.DTypeError, match="bits-dtype"):
        f(graph.parameter("x", (2,), ab.float64), 1)


def test_bools_are_not_shifted():
    with pytest.raises(ab.errors.DTypeError, match="bool-arithmetic"):
        ab.left_shift(np.array([True]), np.array([True]))


def test_no_derivative_passes_through_truth_and_bits():
    names = ("logical_not", "logical_and", "isinf", "isfinite", "invert", "left_shift")
    flat = [op for op in registered_ops() if op.name in names]
    assert len(flat) == len(names)
    assert all(isinstance(op.gradient(0), NoGradient) for op in flat)


@pytest.mark.parametrize("f", [ab.erf, ab.floor, ab.arctan2, ab.hypot, ab.cbrt, ab.lgamma])
def test_complex_numbers_are_refused(f):
    z = np.array([1.0 + 2.0j])
    with pytest.raises(ab.errors.DTypeError, match="complex-value"):
        f(z, z) if f in (ab.arctan2, ab.hypot) else f(z)


def test_the_reciprocal_of_integers_is_refused_where_it_is_written():
    graph = ab.Graph("demo")
    with pytest.raises(ab.errors.DTypeError, match=r"integer-reciprocal.*\n(.*\n)*.*1 / x"):
        ab.reciprocal(np.array([2, 3]))
    with pytest.raises(ab.errors.DTypeError, match="integer-reciprocal"):
        ab.reciprocal(graph.parameter("x", (2,), ab.int64))
    assert ab.reciprocal(np.float32(4.0)) == 0.25


# Gamma


def test_every_derivative_of_lgamma():
    f, x = ab.lgamma, np.float64(2.5)
    for order in range(5):
        assert float(f(x)) == close(
            float(ab.polygamma(order - 1, x) if order else math.lgamma(2.5)), rel=1e-14
        )
        f = ab.grad(f)


def test_digamma_below_zero():
    assert slopes(ab.digamma, -8.3157) == close(13.9742428112795182)
    assert slopes(ab.digamma, -8.3157) == close(float(ab.polygamma(1, -8.3157)))


def test_zeros_of_lgamma_and_digamma_keep_their_digits():
    euler = 0.5772156649015329
    for h in (1e-9, -1e-9):
        assert float(ab.lgamma(np.float64(1.0) + h)) == close(-euler * ((1.0 + h) - 1.0), rel=2e-9)
        assert float(ab.lgamma(np.float64(2.0) + h)) == close(
            (1 - euler) * ((2.0 + h) - 2.0), rel=2e-9
        )
    assert float(ab.digamma(1.4616321449683623)) == close(-9.2412655217294275e-17, 1e-14)


def test_orders_of_polygamma():
    assert float(ab.polygamma(0, 1.0)) == float(ab.digamma(1.0))
    for n in (-1, 101):
        with pytest.raises(ab.errors.ArgumentError, match="bad-argument"):
            ab.polygamma(n, np.float64(1.0))
