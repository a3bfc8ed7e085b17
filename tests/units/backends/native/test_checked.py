"""Loops that compute plain products where a zero should absorb, and look for NaN."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import anabranch as ab
from anabranch.backends.native import checked
from anabranch.backends.native.checked import last_of
from anabranch.ops.select import absorb, absorb_either

N = 16 * 40 + 5  # vectors of float64, and a tail
SPECIAL = np.array([0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan, 1e308, 5e-324])
Array = np.ndarray[Any, Any]


def values(seed: int, dtype: Any, share: float) -> Array:
    """Numbers, a share of which is special."""
    rng = np.random.default_rng(seed)
    special = rng.choice(SPECIAL, N)
    with np.errstate(over="ignore"):
        return np.where(rng.random(N) < share, special, rng.standard_normal(N)).astype(dtype)


def chain(x: Any, y: Any, z: Any) -> Any:
    a = absorb(absorb(x, y), z)
    return a + absorb(x, y - z), absorb(a, 2.0 - z)


def lost_on_the_way(x: Any, y: Any, z: Any) -> Any:
    """What is NaN at first is none in the end."""
    a = absorb(x, y)
    b = absorb(ab.where(a == a, 3.0, a), z)
    return ab.maximum(b, absorb(z, y)), ab.where(z > 0.0, absorb(a, y), 1.0)


def with_sums(x: Any, y: Any, z: Any) -> Any:
    a = absorb(absorb(x, y), z)
    return (
        ab.sum(ab.where(ab.absolute(a) < 9.0, a + 1.0, 0.0)),
        ab.max(absorb(y, z)),
        absorb(x, absorb(y, z)),
    )


def both_ways(x: Any, y: Any, z: Any) -> Any:
    return absorb_either(x, y) * absorb_either(y, z) - absorb(z, x)


FUNCTIONS = [chain, lost_on_the_way, with_sums, both_ways]


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("ANABRANCH_CACHE_DIR", "")
    yield


def results(f: Callable[..., Any], *xs: Array) -> list[Array]:
    found = ab.compile(f, backend="native", passes=())(*xs)
    return [np.asarray(y) for y in (found if isinstance(found, tuple) else (found,))]


def bits(x: Array) -> Array:
    """What tells numbers apart, signs of zero as well; NaN is NaN."""
    return np.where(np.isnan(x), x.dtype.type(np.nan), x).view(f"u{x.dtype.itemsize}")


def assert_same(found: list[Array], expected: list[Array]) -> None:
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(bits(x), bits(y))


@pytest.mark.parametrize("share", [0.0, 0.005, 0.3])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_bits_are_those_of_loops_that_leave_nothing_out(
    f: Callable[..., Any], dtype: str, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checked, "SHARE", 100)
    xs = [values(seed, dtype, share) for seed in (1, 2, 3)]
    found = results(f, *xs)
    text = ab.compile(f, backend="native", passes=()).ir(*xs)
    assert "careful_" in text or dtype == "float16"
    monkeypatch.setattr(checked, "TURNS", N)
    assert_same(found, results(f, *xs))


@pytest.mark.parametrize("place", [0, 7, 15, 16, 300, 16 * 40 - 1, 16 * 40, N - 1])
def test_one_zero_beside_an_infinity_is_found_anywhere(place: int) -> None:
    xs = [values(seed, "float64", 0.0) for seed in (1, 2, 3)]
    xs[0][place], xs[1][place] = 0.0, np.inf
    first, second = results(chain, *xs)
    assert (first[place], second[place]) == (0.0, 0.0)
    x, y, z = (np.delete(x, place) for x in xs)
    np.testing.assert_array_equal(np.delete(first, place), x * y * z + x * (y - z))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("place", [0, 7, 8, 15, 16, 31, 300, 16 * 40 - 1, 16 * 40, N - 1])
def test_where_one_value_is_looked_at_both_its_halves_are(place: int, dtype: str) -> None:
    x, y = (values(seed, dtype, 0.0) for seed in (1, 2))
    expected = x * y
    x[place], y[place], expected[place] = 0.0, np.inf, 0.0
    (found,) = results(lambda x, y: absorb(x, y), x, y)
    np.testing.assert_array_equal(found, expected)


def test_arguments_that_are_overwritten_are_read_before() -> None:
    def step(x: Any, y: Any, z: Any) -> Any:
        return absorb(absorb(x, y), z) + absorb(y, z)

    xs = [values(seed, "float64", 0.2) for seed in (1, 2, 3)]
    expected = results(step, *xs)
    given = ab.compile(step, backend="native", passes=(), donate="x")
    x = xs[0].copy()
    found = given(x, *xs[1:])
    assert found is x
    assert_same([found], expected)


def test_short_loops_and_those_that_absorb_little_have_one_body() -> None:
    def little(x: Any, y: Any, z: Any) -> Any:
        return absorb(ab.tanh(x) * ab.exp(y), z)

    xs = [values(seed, "float64", 0.0) for seed in (1, 2, 3)]
    assert "careful_" not in ab.compile(little, backend="native", passes=()).ir(*xs)
    short = [x[:64] for x in xs]
    assert "careful_" not in ab.compile(chain, backend="native", passes=()).ir(*short)


# What is looked at


def lines(*texts: str) -> list[str]:
    return [f"  %v{i} = {text}" for i, text in enumerate(texts)]


def test_nan_is_looked_for_where_it_comes_last() -> None:
    code = lines(
        "fmul <8 x double> %a, %b",
        "fadd <8 x double> %v0, %c",
        "call <8 x double> @llvm.fma.v8f64(<8 x double> %c, <8 x double> %v1, <8 x double> %d)",
        "fneg <8 x double> %v2",
        "fdiv <8 x double> %d, %v3",
        "fsub <8 x double> %d, %v4",
    )
    assert last_of(code, ["%v0", "%v1"]) == {"%v5": "<8 x double>"}


@pytest.mark.parametrize(
    "text",
    [
        "select <8 x i1> %m, <8 x double> %v0, <8 x double> %c",
        "fcmp oeq <8 x double> %v0, %c",
        "call <8 x double> @llvm.maxnum.v8f64(<8 x double> %v0, <8 x double> %c)",
        "bitcast <8 x double> %v0 to <8 x i64>",
    ],
)
def test_what_may_lose_it_is_not_followed(text: str) -> None:
    code = lines("fmul <8 x double> %a, %b", text, "fadd <8 x double> %v1, %c")
    assert last_of(code, ["%v0"]) == {"%v0": "<8 x double>"}


def test_what_cannot_be_told_is_left() -> None:
    code = lines("bitcast <8 x i64> %a to <8 x double>", "fmul <8 x double> %a, %b")
    assert last_of(code, ["%v0", "%v1"]) == {}
