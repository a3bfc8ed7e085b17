"""`check_gradients`: what it accepts, what it catches, how it reports, and what it costs."""

import dataclasses
import math
import re

import numpy as np
import pytest

import anabranch as ab
from anabranch.testing.comparison import Comparison, meets, norm_relative
from anabranch.testing.report import band

X = np.array([0.7, -1.3, 2.1])


def half_known(x):
    """x² whose derivative by one factor is missing: wrong by half."""
    return ab.stop_gradient(x) * x


def off_by(amount):
    """x², with a derivative that is too large by this share."""

    def f(x):
        y = x * x
        return y * (1 + amount) - ab.stop_gradient(y * amount)

    return f


def check(f, *args, **options):
    return ab.check_gradients(f, *args, raise_on_failure=False, **options)


@pytest.mark.proves("S1-57", "S0-72")
def test_one_row_for_each_input_with_everything_in_it():
    def loss(weights, bias):
        return ab.sum((X @ weights + bias) ** 2)

    weights = np.random.default_rng(0).normal(size=(3, 2))
    report = ab.check_gradients(loss, weights, np.ones(2))
    first, second = report.rows
    assert (first.name, first.shape, first.gradient_shape) == ("weights", "f64[3,2]", "f64[3,2]")
    assert (second.name, second.shape, second.verdict) == ("bias", "f64[2]", "pass")
    wanted = np.linalg.norm(np.outer(X, 2 * (X @ weights + 1)))
    assert first.analytic == pytest.approx(wanted)
    assert first.numeric == pytest.approx(wanted)
    assert 0 <= first.absolute < 1e-7
    assert 0 <= first.relative < 1e-8
    lines = str(report).splitlines()
    assert re.match(r" +input +shape +gradient +analytic +numeric +abs error +rel error", lines[2])
    assert re.match(r" +weights +f64\[3,2\] +f64\[3,2\] +\S+ +\S+ +\S+e-\d+ +\S+e-\d+", lines[3])
    assert re.match(r" +bias +f64\[2\] .* pass$", lines[4])


@pytest.mark.proves("S1-58")
def test_the_tolerance_is_the_formula_and_is_printed():
    report = check(half_known, X, atol=0.25, rtol=0.0625)
    row = report.rows[0]
    assert (row.atol, row.rtol) == (0.25, 0.0625)
    assert "2.5e-01  6.2e-02" in str(report)
    assert "|analytic - numeric| <= atol + rtol * scale" in str(report)
    a, n = np.array([1.0, 1.0, 0.0, 10.0]), np.array([1.3, 1.4, 0.25, 11.5])
    wanted = [abs(x - y) <= 0.25 + 0.0625 * max(x, y) for x, y in zip(a, n, strict=True)]
    assert meets(a, n, 0.25, 0.0625).tolist() == wanted == [True, False, True, False]


@pytest.mark.proves("S1-58")
def test_gradients_of_exactly_zero_pass():
    report = ab.check_gradients(lambda x: ab.sum(ab.stop_gradient(x) * 0.0) + 1.0, X)
    assert (report.rows[0].verdict, report.rows[0].relative) == ("pass", 0.0)
    assert ab.check_gradients(lambda x: ab.sum(x * x), np.zeros(3)).verdict == "pass"


@pytest.mark.proves("S0-55")
def test_an_error_is_sorted_into_three_bands():
    assert [band(e) for e in (0.0, 9e-9, 1e-8, 1e-5, 9e-4, 1e-3, 1.0, 300.0)] == [
        *("pass", "pass", "precision", "precision", "precision", "wrong", "wrong", "wrong")
    ]
    assert check(off_by(0.0), X).verdict == "pass"
    assert check(off_by(1e-5), X).verdict == "precision"
    assert check(off_by(2.0), X).verdict == "wrong"
    assert check(lambda x: x**3, X, eps=1e-2).verdict == "precision"
    assert check(lambda x: x**3, X, eps=1e-5).verdict == "pass"


@pytest.mark.proves("S0-55")
def test_when_something_is_wrong_shapes_come_first():
    with pytest.raises(ab.errors.GradientCheckError) as caught:
        ab.check_gradients(half_known, X)
    error = caught.value
    assert isinstance(error, AssertionError)
    assert error.code == "wrong-gradient"
    assert error.details["report"].rows[0].worst in ((0,), (1,), (2,))
    text = str(error)
    assert text.index("x is f64[3], its gradient f64[3]") < text.index("analytic")
    assert "half_known returns f64[3]" in text
    assert "disagrees with central differences by x at [" in text
    assert "shapes:" not in str(check(off_by(1e-5), X))


def test_one_wrong_element_among_many_is_wrong_and_named():
    wrong_at = np.arange(40) == 17

    def f(x):
        y = ab.sin(x)
        return ab.sum(ab.where(wrong_at, ab.stop_gradient(y), y))

    report = check(f, np.random.default_rng(0).normal(size=40))
    assert (report.verdict, report.rows[0].worst) == ("wrong", (17,))


def test_the_step_suits_the_size_of_what_it_moves():
    for size in (1e-12, 1e-5, 1.0, 1e6, 1e12):
        assert ab.check_gradients(lambda x: ab.log(x), np.array([1.0, 2.0]) * size).ok
        assert ab.check_gradients(lambda x, s=size: ab.sin(x / s), X * size).ok
    assert ab.check_gradients(lambda x: ab.log(x), np.array([1e-9, 1.0])).verdict == "pass"
    assert ab.check_gradients(lambda x: ab.sin(3e4 * x), X, rtol=1e-5).verdict == "pass"
    assert ab.check_gradients(lambda x: ab.sum(x) - ab.sum(x), X).verdict == "pass"


def test_a_sum_that_cancels_is_no_false_alarm():
    rows = np.random.default_rng(0).normal(size=(3, 4))
    slope = ab.grad(lambda x: ab.sum(ab.softmax(x)))
    assert ab.check_gradients(slope, rows).verdict == "pass"


@pytest.mark.parametrize("method", ["elements", "directions"])
def test_an_exact_minimum_is_no_false_alarm(method):
    rng = np.random.default_rng(2)
    for size in (2, 30):
        target, a = rng.normal(size=size), rng.normal(size=(40, size))
        fits = (
            lambda w, t=target: ab.mean((w - t) ** 2),
            lambda w, a=a, t=target: ab.mean((a @ w - a @ t) ** 2),
            lambda w, t=target: ab.sum((w - t) ** 2) ** 2,
        )
        for fit in fits:
            assert ab.check_gradients(fit, target, method=method).verdict == "pass"
        for fit in fits[:2]:
            assert ab.check_gradients(fit, target + 1e-9, method=method).verdict == "pass"


def rosenbrock(x):
    return ab.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


@pytest.mark.parametrize("method", ["elements", "directions"])
@pytest.mark.parametrize("beside", [0.0, 1e-8, 1e-6, 1e-4])
def test_a_bent_valley_is_no_false_alarm(beside, method):
    """f and its gradient are 0 there, so what bends f is all that a step can be wrong by."""
    for size in (2, 5, 10):
        at = np.full(size, 1.0 + beside)
        assert ab.check_gradients(rosenbrock, at, method=method).verdict == "pass"


@pytest.mark.parametrize("method", ["elements", "directions"])
def test_a_small_fault_in_a_minimum_is_found(method):
    def off(x):
        return rosenbrock(x) + 1e-9 * (x[0] - ab.stop_gradient(x[0]))

    assert not check(off, np.ones(3), method=method).ok
    assert not check(off, np.full(3, 1 + 1e-8), method=method).ok


@pytest.mark.parametrize("method", ["elements", "directions"])
def test_a_narrow_gradient_in_a_minimum_is_no_false_alarm(method):
    """Its terms are rounded to float32 before they cancel."""

    def valley(x):  # of Himmelblau
        return (x[0] ** 2 + x[1] - 11) ** 2 + (x[0] + x[1] ** 2 - 7) ** 2

    at = np.array([3.5844283, -1.8481265], np.float32)
    assert ab.check_gradients(valley, at, method=method).verdict == "pass"
    wrong = check(lambda x: valley(x) + 0.01 * (x[0] - ab.stop_gradient(x[0])), at, method=method)
    assert not wrong.ok


def test_a_kink_beside_the_point_does_not_loosen_the_check():
    x = np.array([5e-5, 1.0], np.float32)
    report = check(lambda x: ab.sum(ab.relu(x)) + 0.01 * (x[1] - ab.stop_gradient(x[1])), x)
    assert report.verdict == "wrong" and report.rows[0].atol < 1e-4


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ab.bfloat16])
def test_narrow_floats_are_judged_in_double_precision(dtype):
    x = np.array([0.1, 1e-3, 100.0], dtype)
    for f in (lambda x: x * 3.0, lambda x: ab.sum(x * x), lambda x: ab.tanh(x)):
        report = ab.check_gradients(f, x, eps=1e-6)
        assert report.ok
        assert ab.check_gradients(f, x).ok
    assert report.rows[0].shape.endswith("[3]")
    assert report.rows[0].gradient_shape == report.rows[0].shape
    assert not check(half_known, x).ok


def test_a_function_that_narrows_by_itself_gets_a_longer_step():
    def f(x):
        return ab.sum(ab.sin(x.astype(np.float32)) * 2)

    assert ab.check_gradients(f, X).ok
    assert ab.check_gradients(f, X.astype(np.float32), method="directions").ok


# Kinks


@pytest.mark.proves("S1-44")
@pytest.mark.parametrize("steps", [0.0, 0.01, 0.3, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("f", [ab.absolute, ab.relu, lambda x: ab.clip(x, 0.0, None), ab.sign])
def test_a_point_on_or_beside_a_kink_is_no_false_alarm(f, steps):
    x = np.array([steps * 2.0**-17, 1.0])
    report = ab.check_gradients(lambda x: ab.sum(f(x) * x + 2 * f(x)), x)
    assert report.ok
    if steps == 0.0 and f is not ab.sign:
        assert report.verdict == "kink"
        assert "kink at [0]: slopes" in str(report)


@pytest.mark.proves("S1-44")
def test_a_jump_is_told_from_a_wrong_slope():
    report = ab.check_gradients(lambda x: ab.sum(ab.sign(x) + x), np.array([0.0, 1.0]))
    assert report.verdict == "kink"
    assert "jump at [0]" in str(report)


@pytest.mark.proves("S1-44")
def test_a_kink_names_its_element():
    def f(x):
        return (ab.absolute(x[0]) + ab.absolute(x[1])) ** 4 + ab.exp(x[1])

    report = ab.check_gradients(f, np.array([1.0, 0.0]))
    assert report.verdict == "kink"
    assert report.rows[0].notes == ("kink at [1]: slopes -3 and 5, analytic 1",)
    assert ab.check_gradients(ab.relu, 0.0).rows[0].notes == ("kink: slopes 0 and 1, analytic 0",)


@pytest.mark.proves("S1-44")
def test_a_value_outside_the_two_slopes_is_wrong_also_at_a_kink():
    def f(x):  # its gradient at 0 is 3, while the slopes are -1 and 1
        return ab.sum(ab.absolute(x) + 3 * x - ab.stop_gradient(3 * x))

    report = check(f, np.array([0.0]))
    assert report.verdict == "wrong"


@pytest.mark.proves("S1-44")
def test_a_kink_hides_no_fault_beside_it():
    """At 0 the slopes are -1 and 1 and the gradient 0; beside it that is wrong."""
    report = check(lambda x: ab.sum(ab.stop_gradient(ab.absolute(x))), np.array([0.0]))
    assert report.verdict == "wrong"
    assert "20 steps off the kink" in str(report)


def test_the_edge_of_a_domain_is_a_kink():
    report = ab.check_gradients(lambda x: ab.sum(ab.sqrt(x)), np.array([0.0, 4.0]))
    assert report.verdict == "kink"
    assert "slopes nan" in str(report)


# Directions


def counted(f):
    def g(*args):
        g.calls += 1
        assert g.calls < 50, "element by element"
        return f(*args)

    g.calls = 0
    return g


@pytest.mark.proves("S1-60")
@pytest.mark.parametrize("size", [10, 1000, 1_000_000])
@pytest.mark.parametrize("directions", [1, 5])
def test_a_direction_takes_two_evaluations_whatever_the_size(size, directions):
    f = counted(lambda x: ab.sum(ab.tanh(x) * x))
    x = np.random.default_rng(0).normal(size=size)
    report = ab.check_gradients(f, x, method="directions", directions=directions)
    assert report.verdict == "pass"
    assert report.rows[0].relative < 1e-7
    assert report.evaluations == 2 * directions
    assert f.calls == 2 * directions + 1  # and once for the gradient itself


def test_elements_are_refused_when_there_are_too_many():
    x = np.ones(2_001)
    with pytest.raises(ab.errors.ArgumentError, match="too-many-elements") as caught:
        ab.check_gradients(lambda x: ab.sum(x * x), x, method="elements")
    assert 'method="directions"' in caught.value.hint
    assert ab.check_gradients(lambda x: ab.sum(x * x), x).rows[0].method == "directions"
    few = ab.check_gradients(lambda x: ab.sum(x * x), x, max_elements=3_000)
    assert few.rows[0].method == "elements"


def test_a_sample_of_elements_is_drawn_from_inputs_that_have_more():
    def plain(x, y):
        return ab.sum(x * x) + ab.sum(y)

    x, y = np.arange(1.0, 5_001.0), np.ones(3)
    report = ab.check_gradients(counted(plain), x, y, sample=10)
    assert [row.compared for row in report.rows] == [10, 3]
    assert {row.method for row in report.rows} == {"elements"}
    assert report.evaluations == 2 * 13 + 2
    assert report.rows[0].notes == ("10 of 5,000 elements compared, drawn",)
    assert report.rows[1].notes == ()
    again = ab.check_gradients(plain, x, y, sample=10)
    assert again.rows[0].analytic == report.rows[0].analytic
    other = ab.check_gradients(plain, x, y, sample=10, seed=1)
    assert other.rows[0].analytic != report.rows[0].analytic


def test_a_sample_sees_only_what_it_draws():
    def f(x):
        y = x * x
        return ab.sum(ab.where(np.arange(8) == 2, ab.stop_gradient(y), y))

    x = np.arange(1.0, 9.0)
    found = {seed: check(f, x, sample=4, seed=seed).rows[0] for seed in range(8)}
    assert {row.verdict for row in found.values()} == {"pass", "wrong"}
    assert all(row.worst in ((2,), None) for row in found.values())
    assert check(f, x, sample=8).rows[0].worst == (2,)


@pytest.mark.parametrize("options", [{"sample": 0}, {"sample": 3, "method": "directions"}])
def test_a_sample_that_means_nothing_is_refused(options):
    with pytest.raises(ab.ArgumentError, match="bad-argument"):
        ab.check_gradients(lambda x: ab.sum(x * x), np.ones(5), **options)


@pytest.mark.parametrize("size", [3, 5_000])
def test_directions_find_the_one_element_that_is_wrong(size):
    wrong_at = np.arange(size) == 2

    def f(x):
        y = x * x
        return ab.sum(ab.where(wrong_at, ab.stop_gradient(y), y))

    report = check(f, np.random.default_rng(1).uniform(1.0, 2.0, size), method="directions")
    assert (report.verdict, report.rows[0].worst) == ("wrong", (2,))


def test_directions_know_kinks_too():
    report = ab.check_gradients(lambda x: ab.sum(ab.relu(x)), np.zeros(3_000))
    assert report.verdict == "kink"
    assert "directions agree 20 steps away" in str(report)


# What is differentiated


@dataclasses.dataclass
class Layer:
    weight: np.ndarray
    width: int


def test_containers_give_a_row_for_each_floating_leaf():
    def f(params, layers, scale, count):
        y = params["w"] * scale + layers[0].weight
        return {"y": y, "n": np.arange(count), "z": [ab.exp(params["b"])]}

    args = ({"b": np.ones(()), "w": X}, [Layer(X + 1, 3)], 2.0, 5)
    report = ab.check_gradients(f, *args)
    names = [row.name for row in report.rows]
    assert names == ["params['b']", "params['w']", "layers[0].weight", "scale"]
    assert report.outputs == ("f64[3]", "f64[]")
    chosen = ab.check_gradients(f, *args, argnums=("scale", 0))
    assert [row.name for row in chosen.rows] == ["params['b']", "params['w']", "scale"]
    renamed = ab.check_gradients(lambda x: x * x, X, names=["points"])
    assert renamed.rows[0].name == "points"


def test_what_cannot_be_checked_is_said():
    with pytest.raises(ab.errors.ArgumentError, match="nothing-to-check"):
        ab.check_gradients(lambda n: n, np.arange(3))
    with pytest.raises(ab.errors.DTypeError, match=r'integer-gradient.*"n"'):
        ab.check_gradients(lambda n: n, np.arange(3), argnums="n")
    with pytest.raises(ab.errors.ArgumentError, match="no-such-argument"):
        ab.check_gradients(lambda x: x, X, argnums=1)
    with pytest.raises(ab.errors.ArgumentError, match="bad-argument"):
        ab.check_gradients(lambda x: x, X, method="guess")
    with pytest.raises(ab.errors.DTypeError, match="no-floating-result"):
        ab.check_gradients(lambda x: x > 0, X)


def test_tensors_compiled_functions_and_empty_arrays():
    assert ab.check_gradients(lambda x: x * x, ab.tensor(X)).ok
    assert ab.check_gradients(ab.compile(lambda x: ab.exp(x)), X).ok
    assert ab.check_gradients(lambda x: x * x, np.zeros((0, 3))).verdict == "pass"
    assert ab.check_gradients(lambda x: x * x, np.zeros((0, 3)), method="directions").ok


def test_the_same_seed_gives_the_same_report():
    assert str(check(half_known, X)) == str(check(half_known, X))
    assert str(check(half_known, X, seed=1)) != str(check(half_known, X))


def test_the_callers_arrays_stay_as_they_are():
    x = X.copy()
    check(half_known, x)
    assert x.tobytes() == X.tobytes()


def test_comparisons_treat_infinities_as_values():
    both = np.array([math.inf, -math.inf, 1.0])
    same = Comparison(both, both.copy(), 0.0, 0.0)
    assert (same.verdict, same.relative, same.errors.tolist()) == ("pass", 0.0, [0.0] * 3)
    assert Comparison(both, -both, 1.0, 1.0).verdict == "wrong"
    assert not meets(np.array([math.nan]), np.array([math.nan]), 1.0, 1.0).any()
    assert norm_relative(np.zeros(2), np.zeros(2)) == 0.0
