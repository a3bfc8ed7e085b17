"""Functions in machine code against mpmath: at most 2 units in the last place off, everywhere.

`ULP_POINTS=1000000 python -m pytest -s -m long tests/conformance/test_native_mathematics.py`
tries a million random bit patterns each.
"""

import math
import os
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import anabranch as ab
from anabranch.backends.native.mathematics import Mathematics
from anabranch.core.registry import lookup, registered_ops

inf, nan = math.inf, math.nan
TRUTH: dict[str, Callable[[Any], Any]] = {
    "exp": mp.exp,
    "log": mp.log,
    "sin": mp.sin,
    "cos": mp.cos,
    "tanh": mp.tanh,
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
    "softplus": lambda x: mp.log1p(mp.exp(x)),
    "expm1": mp.expm1,
    "log1p": mp.log1p,
    "sqrt": mp.sqrt,
    "rsqrt": lambda x: 1 / mp.sqrt(x),
    "one_minus_square": lambda x: 1 - x * x,
    "sech_squared": lambda x: 1 / mp.cosh(x) ** 2,
}
EXACT = {"absolute", "identity", "isnan", "negative", "sign", "square", "stop_gradient"}
EDGES = [
    *(0.0, -0.0, inf, -inf, nan, 5e-324, -5e-324, 1e-310, 2.2250738585072014e-308, 1e-300),
    *(0.5, 1.0, -1.0, 0.625, -0.625, 0.7071067811865476, 1.4142135623730951, 1.0000000000000002),
    *(
        0.9999999999999999,
        709.782712893384,
        710.0,
        -745.1,
        -745.2,
        -708.4,
        88.7,
        -103.9,
        17.0,
        19.06,
    ),
    *(math.pi / 4, math.pi / 2, math.pi, 355.0, 2.0**44, 2.0**45, 2.0**46, 1e22, 1e300, -1e308),
    *(6381956970095103.0 * 2.0**797, 36.04, -36.7, 37.5, 40.0, -40.0, 1e-8, -1e-8, 1e-16, 2e-17),
    *(3.4e38, 1.7e308, -372.4, 52.9, -53.5),
]


def native(name: str, x: np.ndarray) -> np.ndarray:
    g = ab.Graph(name)
    y = lookup(name)(g.parameter("x", x.shape, x.dtype))
    run = g.compile(y, backend="native", passes=())
    assert not run.program.executable.program.islands
    return run(x)


def domain(name: str, x: float) -> bool:
    return math.isfinite(x) and not (
        (name in ("log", "sqrt") and x < 0)
        or (name == "rsqrt" and x <= 0)
        or (name == "log1p" and x < -1)
    )


def worst(name: str, x: np.ndarray) -> tuple[float, float]:
    """The largest error in units of the last place, and where it is."""
    found = native(name, x)
    result = (0.0, 0.0)
    with mp.workprec(1_200 if name in ("sin", "cos") else 200):
        for point, value in zip(x, found, strict=True):
            exact = TRUTH[name](mp.mpf(float(point))) if domain(name, float(point)) else None
            if exact is None:
                continue
            with np.errstate(all="ignore"):
                rounded = x.dtype.type(float(exact))
            if np.isinf(rounded) or (exact == 0 and name == "log"):
                assert value == rounded, (name, point, value)
                continue
            error = abs(mp.mpf(float(value)) - exact) / mp.mpf(float(np.spacing(abs(rounded))))
            assert not np.isnan(value), (name, point)
            result = max(result, (float(error), float(point)))
    return result


def points(dtype: Any, count: int, seed: int) -> np.ndarray:
    """Edges, random bits, and random numbers of moderate size."""
    rng = np.random.default_rng(seed)
    word = np.uint64 if dtype == np.float64 else np.uint32
    bits = rng.integers(0, np.iinfo(word).max, count // 2, word, endpoint=True).view(dtype)
    sizes = 10.0 ** rng.uniform(-6, 3, count - count // 2)
    moderate = rng.choice([-1.0, 1.0], len(sizes)) * sizes
    with np.errstate(all="ignore"):
        return np.concatenate([np.array(EDGES).astype(dtype), bits, moderate.astype(dtype)])


NAMES = [name for name in TRUTH if any(op.name == name for op in registered_ops())]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", NAMES)
def test_functions_are_right_to_two_units_in_the_last_place(name: str, dtype: Any) -> None:
    error, point = worst(name, points(dtype, 300, 1))
    assert error <= 2.0, (error, point)


@pytest.mark.long
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", NAMES)
def test_functions_at_many_points(name: str, dtype: Any) -> None:
    error, point = worst(name, points(dtype, int(os.environ.get("ULP_POINTS", "10000")), 2))
    print(f"{name:10} {np.dtype(dtype).name}  {error:.3f} at {point!r}")
    assert error <= 2.0, (error, point)


def test_every_function_of_one_number_in_machine_code_is_tried() -> None:
    known = {op.name for op in registered_ops() if isinstance(op.scalar, str) and op.inputs == 1}
    assert known - EXACT == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_special_values(name: str) -> None:
    x = np.array([0.0, -0.0, inf, -inf, nan, -1.0])
    with np.errstate(all="ignore"):
        wanted = lookup(name).ref(x)
    found = native(name, x)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(wanted))
    zero = wanted == 0
    np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(wanted[zero]))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_body_and_tail_have_the_same_bits(name: str) -> None:
    rng = np.random.default_rng(3)
    for dtype in (np.float64, np.float32):
        x = (rng.uniform(0.01, 3, 40) * 10.0 ** rng.uniform(-3, 15, 40)).astype(dtype)
        whole = native(name, x)
        for n in (1, 2, 3, 5, 7, 9, 17, 31):
            assert native(name, x[:n].copy()).tobytes() == whole[:n].tobytes()


def test_integers_become_floats_as_in_numpy() -> None:
    n = np.array([0, 1, 5])
    np.testing.assert_allclose(native("exp", n), np.exp(n), rtol=1e-15)


def test_the_emitter_knows_no_function_that_nothing_tries() -> None:
    functions = {name for name in vars(Mathematics) if name in TRUTH}
    assert functions == set(TRUTH) - {"sqrt"}
