"""What is exact or rounded once, in machine code and in the reference: the same bits."""

import math
import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import anabranch as ab
from anabranch.core.registry import lookup

inf, nan = math.inf, math.nan
INTEGERS = [np.dtype(f"{sign}int{bits}") for bits in (8, 16, 32, 64) for sign in ("", "u")]
FLOATS = [np.dtype(t) for t in (np.float64, np.float32, np.float16, ml_dtypes.bfloat16)]


def native(name: str, *xs: Any, **attrs: Any) -> Any:
    """An op in machine code, on arrays or numbers."""
    g = ab.Graph(name)
    nodes = [
        g.parameter(f"x{i}", x.shape, x.dtype) if isinstance(x, np.ndarray) else x
        for i, x in enumerate(xs)
    ]
    run = g.compile(g.add_node(lookup(name), nodes, **attrs), backend="native", passes=())
    assert not run.program.executable.program.islands
    return run(*(x for x in xs if isinstance(x, np.ndarray)))


def same_bits(name: str, *xs: Any, **attrs: Any) -> None:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = np.asarray(lookup(name).ref(*xs, **attrs))
    found = np.asarray(native(name, *xs, **attrs))
    assert found.dtype == wanted.dtype
    differs = found.view(np.uint8).reshape(-1) != wanted.view(np.uint8).reshape(-1)
    if not differs.any():
        return
    is_nan = wanted != wanted  # of every float dtype
    same = is_nan & (found != found) | (found == wanted) & (np.signbit(found) == np.signbit(wanted))
    at = np.flatnonzero(~same)[:3]
    shown = [[x.reshape(-1)[at] if isinstance(x, np.ndarray) and x.size > 1 else x for x in xs]]
    assert same.all(), f"{name}{shown}: {found.reshape(-1)[at]}, wanted {wanted.reshape(-1)[at]}"


def whole(dtype: Any) -> np.ndarray:
    limits = np.iinfo(dtype)
    near = {0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 31, 32, 63, 64, limits.max, limits.max - 1, limits.min}
    near |= {-1, -2, -3, -7, -8, limits.min + 1, limits.max // 2, limits.max // 3}
    return np.array(sorted(n for n in near if limits.min <= n <= limits.max), dtype)


def pairs(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every element of one with every of the other."""
    a, b = np.meshgrid(x, y)
    return a.reshape(-1).copy(), b.reshape(-1).copy()


POINTS = [
    *(0.0, 1.0, 0.5, 1.5, 2.5, 0.49999999999999994, 1e-310, 5e-324, 1e308, 2.0**52 + 0.5, 3.0),
    *(2.0**53, 2.0**63, 6.5, 1e22, 7.25, 1e-5, 65504.0, 3.3e38, inf, nan, 0.1, 10.0, 126.0),
]


def floats(dtype: Any, count: int = 60) -> np.ndarray:
    """Special points of both signs and random bits."""
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 256, count * dtype.itemsize, np.uint8).view(dtype)
    with np.errstate(all="ignore"):
        return np.concatenate(
            [np.array(POINTS).astype(dtype), -np.array(POINTS).astype(dtype), bits]
        )


ARITHMETIC = ["add", "subtract", "multiply", "floor_divide", "remainder", "fmod", "maximum"]
BITS = ["bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"]
COMPARISONS = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", [*ARITHMETIC, *BITS, "divide", "copysign", "heaviside"])
def test_integers_of_two_operands(name: str, dtype: Any) -> None:
    same_bits(name, *pairs(whole(dtype), whole(dtype)))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", ["negative", "absolute", "sign", "square", "invert", "floor"])
def test_integers_of_one_operand(name: str, dtype: Any) -> None:
    same_bits(name, whole(dtype))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 13])
def test_powers_of_integers(dtype: Any, n: int) -> None:
    same_bits("integer_power", whole(dtype), n=n)
    if dtype.kind == "u":
        same_bits("power", *pairs(whole(dtype), np.array([0, 1, 2, 3, 9, 64, 77], dtype)))


@pytest.mark.slow
@pytest.mark.parametrize("other", INTEGERS, ids=str)
@pytest.mark.parametrize("one", INTEGERS, ids=str)
def test_integers_of_two_dtypes_compare_exactly(one: Any, other: Any) -> None:
    for name in COMPARISONS:
        same_bits(name, *pairs(whole(one), whole(other)))


@pytest.mark.parametrize("number", [-1, 0, 200, 256, 2**40, 0.5])
def test_numbers_outside_of_a_dtype_compare_exactly(number: Any) -> None:
    for name in COMPARISONS:
        same_bits(name, whole(np.uint8), number)
        same_bits(name, whole(np.int8), number)


def test_numbers_outside_of_a_dtype_are_refused_as_by_the_reference() -> None:
    f = ab.compile(lambda x: x + 300, backend="native")
    with pytest.raises(OverflowError):
        f(np.array([1], np.uint8))
    g = ab.compile(lambda x, n: x + n, backend="native")
    assert g(np.array([1], np.uint8), 5) == 6
    with pytest.raises(OverflowError):
        g(np.array([1], np.uint8), 300)


@pytest.mark.parametrize("to", [*INTEGERS, *FLOATS, np.dtype(np.bool_)], ids=str)
def test_dtypes_are_cast_as_in_the_reference(to: Any) -> None:
    for dtype in INTEGERS:
        same_bits("astype", whole(dtype), dtype=to)
    same_bits("astype", np.array([True, False]), dtype=to)
    for dtype in FLOATS:
        x = floats(dtype, 400)
        if to.kind in "iu":
            limits = np.iinfo(to)
            wide = x.astype(np.float64)
            x = x[
                (wide > float(limits.min) - 1) & (wide < float(limits.max) + 1) & (wide < 2.0**63)
            ]
        same_bits("astype", x, dtype=to)


def test_what_no_unsigned_dtype_holds_is_cast_in_every_run_alike() -> None:
    x = np.array([nan, inf, -inf, 1e20, -1e20, 2.0**63, 1e19])
    same_bits("astype", x, dtype=np.dtype(np.int64))
    same_bits("astype", x, dtype=np.dtype(np.int32))
    same_bits("astype", x, dtype=np.dtype(np.int8))
    assert native("astype", x, dtype=np.dtype(np.uint64))[-2:].tolist() == [2**63, 10**19]


def test_a_float64_becomes_a_half_with_one_rounding() -> None:
    ties = np.array([1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-11, 1 + 2.0**-11 - 2.0**-40, 65519.999999])
    small = np.array([2.0**-25 + 2.0**-60, 2.0**-25, 2.0**-24 * 1.5 - 2.0**-70, 1e-300])
    x = np.concatenate([ties, small, -ties, -small])
    same_bits("astype", x, dtype=np.dtype(np.float16))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod", "nextafter", "copysign"])
def test_floats_of_two_operands(name: str, dtype: Any) -> None:
    same_bits(name, *pairs(floats(dtype), floats(dtype)))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["heaviside", *COMPARISONS, "logical_xor"])
def test_choices_of_floats(name: str, dtype: Any) -> None:
    same_bits(name, *pairs(floats(dtype), floats(dtype)))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "sign", "absolute", "sqrt"])
def test_steps_of_floats(name: str, dtype: Any) -> None:
    x = floats(dtype, 300)
    if (name, dtype.name) == ("sign", "bfloat16"):
        x = x[x != 0]  # its own dtype's sign of -0 is -0, other than NumPy's
    same_bits(name, x)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=str)
@pytest.mark.parametrize("decimals", [0, 1, 2, 5, -1, -2])
def test_rounding_to_decimals(dtype: Any, decimals: int) -> None:
    x = whole(dtype) if dtype.kind in "iu" else floats(dtype, 300)
    if dtype.itemsize == 8 and dtype.kind in "iu":
        x = x[np.abs(x.astype(np.float64)) < 2.0**62]  # beyond, the rounded one may be no integer
    same_bits("round", x, decimals=decimals)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_remainder_is_exact_however_long_the_division(dtype: Any) -> None:
    rng = np.random.default_rng(6)
    word = np.uint64 if dtype == np.float64 else np.uint32
    x, y = (
        rng.integers(0, np.iinfo(word).max, 2000, word, endpoint=True).view(dtype) for _ in "xy"
    )
    for name in ("fmod", "remainder", "floor_divide"):
        same_bits(name, x, y)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_special_values_of_powers(dtype: Any) -> None:
    special = [0.0, 1.0, 0.5, 2.0, 3.0, 4.0, 5.0, 2.5, inf, nan]
    x = np.array([*special, *(-s for s in special)], dtype)
    a, b = pairs(x, x)
    with np.errstate(all="ignore"):
        wanted = lookup("power").ref(a, b)
    found = native("power", a, b)
    exact = np.isin(wanted.astype(np.float64), [0.0, 1.0, inf, -inf, -1.0]) | np.isnan(
        wanted.astype(float)
    )
    same = (found == wanted) & (np.signbit(found) == np.signbit(wanted))
    same |= np.isnan(found.astype(np.float64)) & np.isnan(wanted.astype(np.float64))
    assert same[exact].all()
    np.testing.assert_allclose(found.astype(float), wanted.astype(float), rtol=0.01)
