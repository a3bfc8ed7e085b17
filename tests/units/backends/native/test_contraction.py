"""Products and sums rounded once where that is allowed, and nowhere else."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anabranch as ab

RNG = np.random.default_rng(5)
N = 37  # two vectors of 16 and a tail, of float64
X, Y = RNG.standard_normal(N), RNG.standard_normal(N)
Z = -X * Y  # so that x*y + z is what the rounding of x*y lost
Array = np.ndarray[Any, Any]


def compiled(f: Callable[..., Any]) -> Any:
    return ab.compile(f, backend="native")


def contracted(f: Callable[..., Any], *xs: Any) -> Any:
    with ab.config(contract=True):
        return compiled(f)(*xs)


def once(x: float, y: float, z: float) -> float:
    """x*y + z, rounded once."""
    return float(Fraction(x) * Fraction(y) + Fraction(z))


@pytest.mark.parametrize(
    ("f", "signs"),
    [
        (lambda x, y, z: x * y + z, (1, 1)),
        (lambda x, y, z: z + x * y, (1, 1)),
        (lambda x, y, z: x * y - z, (1, -1)),
        (lambda x, y, z: z - x * y, (-1, 1)),
    ],
)
def test_a_product_and_its_sum_are_rounded_once(f: Callable[..., Any], signs: Any) -> None:
    a, b = signs
    z = Z * a * b
    exact = [once(a * x, y, b * z) for x, y, z in zip(X, Y, z, strict=True)]
    assert any(exact)
    np.testing.assert_array_equal(contracted(f, X, Y, z), exact)
    np.testing.assert_array_equal(compiled(f)(X, Y, z), f(X, Y, z))


@pytest.mark.parametrize("n", [1, 2, 3, 7, 15, 16, 17, 33])
def test_every_element_has_the_same_bits_wherever_it_stands(n: int) -> None:
    exact = [once(*xs) for xs in zip(X, Y, Z, strict=True)]
    np.testing.assert_array_equal(
        contracted(lambda x, y, z: x * y + z, X[:n], Y[:n], Z[:n]), exact[:n]
    )


def test_numbers_are_rounded_once_too() -> None:
    f = lambda x, y, z: x * y + z  # noqa: E731
    assert contracted(f, X[3], Y[3], Z[3]) == once(X[3], Y[3], Z[3]) != 0.0 == f(X[3], Y[3], Z[3])


def test_float32_is_rounded_once_to_float32() -> None:
    x, y = X.astype(np.float32), Y.astype(np.float32)
    z = -x * y
    exact = (x.astype(np.float64) * y + z).astype(np.float32)  # the product is exact in float64
    assert exact.any()
    np.testing.assert_array_equal(contracted(lambda x, y, z: x * y + z, x, y, z), exact)


def test_a_product_that_others_read_keeps_its_bits() -> None:
    def f(x: Any, y: Any, z: Any) -> Any:
        p = x * y
        return p + z, ab.exp(p)

    for found, expected in zip(contracted(f, X, Y, Z), compiled(f)(X, Y, Z), strict=True):
        np.testing.assert_array_equal(found, expected)

    def g(x: Any, y: Any, z: Any) -> Any:  # it is a result itself
        p = x * y
        return p + z, p

    np.testing.assert_array_equal(contracted(g, X, Y, Z)[0], np.zeros(N))
    twice = contracted(lambda x, y: x * y + x * y, X, Y)  # one node with two readers, merged
    np.testing.assert_array_equal(twice, X * Y + X * Y)


def test_of_two_products_the_first_is_taken_up() -> None:
    w = RNG.standard_normal(N)
    found = contracted(lambda x, y, z, w: x * y + z * w, X, Y, Z, w)
    expected = [once(x, y, zw) for x, y, zw in zip(X, Y, Z * w, strict=True)]
    np.testing.assert_array_equal(found, expected)


def test_functions_halves_and_integers_keep_their_bits() -> None:
    def f(x: Any) -> Any:
        return ab.tanh(x), ab.log1p(ab.exp(x)), ab.erf(x), ab.softplus(x * x), ab.sum(x)

    for found, expected in zip(contracted(f, X), compiled(f)(X), strict=True):
        np.testing.assert_array_equal(found, expected)
    h, i = X.astype(np.float16), np.arange(N)
    for x in (h, i):
        np.testing.assert_array_equal(contracted(lambda x: x * x + x, x), x * x + x)
    mixed = contracted(lambda x, i: i * i + x, X, i)  # a product of integers is exact already
    np.testing.assert_array_equal(mixed, i * i + X)


def test_the_option_is_part_of_what_is_compiled() -> None:
    f = compiled(lambda x, y, z: x * y + z)
    for _ in range(2):
        assert not f(X, Y, Z).any()
        with ab.config(contract=True):
            assert f(X, Y, Z).any()
            assert "1 of the products rounded with their sums" in str(f.explain(X, Y, Z))
            assert "@llvm.fma" in f.ir(X, Y, Z)
    assert "@llvm.fma" not in f.ir(X, Y, Z)
    assert "rounded with" not in str(f.explain(X, Y, Z))


def test_it_is_part_of_what_code_is_filed_under(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANABRANCH_CACHE_DIR", str(tmp_path))
    f = lambda x, y, z: x * y + z  # noqa: E731
    for _ in range(2):  # the second time from the disk
        assert not compiled(f)(X, Y, Z).any()
        assert contracted(f, X, Y, Z).any()


def test_a_graph_by_hand_keeps_what_held_when_it_was_compiled() -> None:
    g = ab.Graph("fused")
    x, y, z = (g.parameter(name, (N,), ab.float64) for name in "xyz")
    with ab.config(contract=True):
        run = g.compile(x * y + z, backend="native")
    assert run(X, Y, Z).any()
    assert "@llvm.fma" in run.ir()
    assert "1 of the products" in str(run.explain(X, Y, Z, time=True))


def test_the_reference_rounds_every_operation() -> None:
    with ab.config(contract=True):
        f = ab.compile(lambda x, y, z: x * y + z, backend="reference")
        assert not f(X, Y, Z).any()
