"""The functions that NumPy lacks, against mpmath with 50 digits: the bounds that they state."""

import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from mpmath import mp

import anabranch as ab
from anabranch.ops.special import circular, error, gamma, tables

Array = np.ndarray[Any, Any]
MANY = 3000
ROOT = 1.4616321449683623  # of digamma, rounded


def near(rng: np.random.Generator, low: float, high: float, count: int) -> Array:
    """Magnitudes spread evenly over their logarithms."""
    return np.asarray(np.exp(rng.uniform(math.log(low), math.log(high), count)))


def signed(rng: np.random.Generator, x: Array) -> Array:
    return np.where(rng.random(x.size) < 0.5, -x, x)


def of_error(rng: np.random.Generator, n: int) -> Array:
    far = np.concatenate([near(rng, 1e-320, 26.0, n // 3), rng.uniform(0.3, 7.0, n // 3)])
    edges = [0.0, 0.5, np.nextafter(0.5, 0), 5e-324, 26.5]
    worst = [7.862663324730353, 12.560974009195242, 14.138251876650282]  # without compensation
    return np.concatenate([signed(rng, far), edges, worst])


def of_positive(rng: np.random.Generator, n: int) -> Array:
    zeros = [zero + signed(rng, near(rng, 1e-12, 0.4, n // 8)) for zero in (1.0, 2.0, ROOT)]
    edges = [0.5, 1.0, 2.0, 4.0, 16.0, ROOT, 1e-300, *(np.nextafter(x, 0) for x in (0.5, 1, 2, 4))]
    wide = near(rng, 1e-9, 1e300, n // 3)
    return np.concatenate([wide, rng.uniform(0.0, 20.0, n // 3), *zeros, edges])


def of_negative(rng: np.random.Generator, n: int) -> Array:
    far = np.concatenate([rng.uniform(0.0, 20.0, n // 2), near(rng, 1e-5, 1e5, n // 3)])
    return -np.concatenate([far, [0.5, 8.3157, 1e-9]])


def of_all(rng: np.random.Generator, n: int) -> Array:
    wide = np.concatenate([near(rng, 1e-9, 1e6, n // 2), rng.uniform(0.0, 5.0, n // 2)])
    return signed(rng, np.concatenate([wide, [0.5, np.nextafter(0.5, 1), 1.5, 0.25]]))


def sinc(x: Any) -> Any:
    return mp.sinpi(x) / (mp.pi * x) if x else mp.mpf(1)


def log_gamma(x: Any) -> Any:
    return mp.re(mp.loggamma(x))


def log_terms(x: Any) -> Any:
    return max(1, abs(mp.log(abs(mp.sinpi(x)) / mp.pi)), abs(mp.loggamma(1 - x)))


def cot_terms(x: Any) -> Any:
    return max(1, abs(mp.pi * mp.cot(mp.pi * x)), abs(mp.digamma(1 - x)))


Row = tuple[Any, Any, Any, float, Any]
ROWS: dict[str, Row] = {
    "exp(-x*x)": (error.bell, lambda x: mp.exp(-x * x), of_error, 2.0, None),
    "erf": (error.erf, mp.erf, of_error, 2.0, None),
    "erfc": (error.erfc, mp.erfc, of_error, 2.0, None),
    "lgamma": (gamma.lgamma, log_gamma, of_positive, 4.0, None),
    "lgamma below 0": (gamma.lgamma, log_gamma, of_negative, 4.0, log_terms),
    "digamma": (gamma.digamma, mp.digamma, of_positive, 4.0, None),
    "digamma below 0": (gamma.digamma, mp.digamma, of_negative, 8.0, cot_terms),
    "sinc": (circular.sinc, sinc, of_all, 2.0, None),
}


def ulps(found: float, true: Any, scale: Any) -> float:
    size = max(abs(true), 0 if scale is None else scale)
    if not size:
        return math.inf if found else 0.0
    last = mp.mpf(2) ** (max(mp.floor(mp.log(size, 2)), -1022) - 52)
    return float(abs(mp.mpf(found) - true) / last)


def largest(f: Callable[[Array], Array], true: Any, xs: Array, terms: Any) -> tuple[float, float]:
    """The largest error and where it is."""
    with mp.workdps(50), np.errstate(all="ignore"):
        return max(
            (ulps(y, true(mp.mpf(x)), terms and terms(mp.mpf(x))), x)
            for x, y in zip(xs.tolist(), f(xs).tolist(), strict=True)
        )


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("count", [150, pytest.param(MANY, marks=pytest.mark.slow)])
def test_values_are_within_the_bound_that_is_stated(name: str, count: int) -> None:
    f, true, points, bound, terms = ROWS[name]
    found, x = largest(f, true, points(np.random.default_rng(count), count), terms)
    assert found <= bound, (name, x)


@pytest.mark.parametrize("count", [150, pytest.param(MANY, marks=pytest.mark.slow)])
def test_erfinv_is_within_two_units(count: int) -> None:
    """The error of y = erfinv(x) is that of erf(y), which stays exact, over the slope there."""
    rng = np.random.default_rng(count)
    tail = 1.0 - near(rng, 2.0**-53, 0.5, count // 2)
    edges = [0.5, np.nextafter(0.5, 0), 1 - 2.0**-53, 5e-324, 1e-300]
    xs = signed(rng, np.concatenate([tail, near(rng, 1e-9, 0.6, count // 2), edges]))
    with mp.workdps(50):
        for x, y in zip(xs.tolist(), error.erfinv(xs).tolist(), strict=True):
            off = (1 - abs(mp.mpf(x))) - mp.erfc(abs(mp.mpf(y)))
            slope = 2 / mp.sqrt(mp.pi) * mp.exp(-(mp.mpf(y) ** 2))
            assert abs(off / slope) <= 2 * np.spacing(abs(y)), x


def sums(x: Any, n: int) -> tuple[Any, Any]:
    """The n-th derivative of digamma and its largest term."""
    if x > 0:
        return mp.polygamma(n, x), 0
    ahead = mp.polygamma(n, 1 - x)
    slope = mp.pi * mp.diff(lambda t: mp.cot(mp.pi * t), x, n)
    return (-1) ** n * ahead - slope, max(abs(ahead), abs(slope))


@pytest.mark.parametrize("n", [1, 2, 3, 7])
@pytest.mark.parametrize("count", [30, pytest.param(MANY // 3, marks=pytest.mark.slow)])
def test_polygamma_is_within_its_bound(n: int, count: int) -> None:
    rng = np.random.default_rng(n)
    wide = np.concatenate([near(rng, 1e-3, 1e6, count), rng.uniform(0.0, 30.0, count)])
    xs = np.concatenate([wide, -rng.uniform(0.0, 20.0, count), [-8.3157, -0.5, 0.5]])
    with mp.workdps(50):
        for x, y in zip(xs.tolist(), gamma.polygamma(xs, n).tolist(), strict=True):
            true, terms = sums(mp.mpf(x), n)
            assert ulps(y, true, 0 if n % 2 else terms) <= 8 + 2 * n, (n, x)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("count", [40, pytest.param(MANY // 3, marks=pytest.mark.slow)])
def test_derivatives_of_sinc_are_within_their_bound(n: int, count: int) -> None:
    rng = np.random.default_rng(n)
    xs = signed(rng, np.concatenate([near(rng, 1e-12, 1e3, count), rng.uniform(0.0, 4.0, count)]))
    with mp.workdps(100):
        for x, y in zip(xs.tolist(), circular.sinc_derivative(xs, n).tolist(), strict=True):
            true = mp.diff(sinc, mp.mpf(x), n)
            envelope = mp.pi**n / (1 + mp.pi * abs(x)) if abs(x) > 0.3 else 0
            assert ulps(y, true, envelope) <= 8, (n, x)


def test_results_that_are_subnormal_are_right_to_their_last_bit_but_two() -> None:
    xs = np.array([26.6, 26.8, 27.0, 27.2, 27.5])
    assert largest(error.erfc, mp.erfc, xs, None)[0] <= 2.0
    assert largest(error.bell, lambda x: mp.exp(-x * x), xs, None)[0] <= 2.0


def test_sines_are_exact_where_they_are_zero_or_one() -> None:
    x = np.array([0.0, 1.0, -7.0, 2.0**53, 1e300, 0.5, 1.5, -2.5])
    assert (circular.sine_over_pi(x)[:5] == 0.0).all()
    assert circular.cosine(x).tolist() == [1.0, -1.0, -1.0, 1.0, 1.0, 0.0, 0.0, 0.0]


def test_the_slopes_of_the_cotangent() -> None:
    assert gamma.cotangent_derivative(1) == (-1, 0, -1)
    assert gamma.cotangent_derivative(2) == (0, 2, 0, 2)


FUNCTIONS = [ab.erf, ab.erfc, ab.erfinv, ab.exp_neg_square, ab.lgamma, ab.digamma, ab.sinc]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_narrow_floats_are_the_rounded_result_of_wide_ones(f: Any, dtype: Any) -> None:
    x = np.array([-0.9, -0.25, 0.1, 0.55, 0.97]).astype(dtype)
    found = f(x)
    assert found.dtype == dtype
    assert found.tolist() == f(x.astype(np.float64)).astype(dtype).tolist()


def test_a_table_is_continuous_across_its_bins() -> None:
    for name in ("erfcx", "erfinv_tail", "lgamma", "digamma"):
        fitted = tables.entry(name)
        edges = [fitted["low"]]
        for center in fitted["centers"]:
            edges.append(2 * center - edges[-1])
        inner = np.array(edges[1:-1])
        below, above = (np.add(*tables.table(name, x)) for x in (np.nextafter(inner, 0), inner))
        np.testing.assert_allclose(below, above, rtol=2e-15)


@pytest.mark.slow
def test_the_coefficients_are_those_that_the_script_makes() -> None:
    script = Path(__file__).parents[2] / "scripts" / "fit_special.py"
    assert subprocess.run([sys.executable, script, "--check"], check=False).returncode == 0
