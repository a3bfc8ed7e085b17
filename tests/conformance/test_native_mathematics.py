"""Functions in machine code against mpmath, by `scripts/ulp.py`, which holds what they should be.

`python scripts/ulp.py --count 1000000` tries a million points each.
"""

import importlib.util
import math
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anabranch as ab
from anabranch.backends.native import coefficients, functions
from anabranch.backends.native.mathematics import Mathematics
from anabranch.core.registry import lookup, registered_ops

SCRIPT = Path(__file__).parents[2] / "scripts" / "ulp.py"
SPEC = importlib.util.spec_from_file_location("ulp", SCRIPT)
ulp: Any = importlib.util.module_from_spec(SPEC)
sys.modules["ulp"] = ulp
sys.path.insert(0, str(SCRIPT.parent))  # what it imports lies beside it
try:
    SPEC.loader.exec_module(ulp)
finally:
    sys.path.remove(str(SCRIPT.parent))

inf, nan = math.inf, math.nan
NAMES = list(ulp.FUNCTIONS)
ONE = [name for name in NAMES if ulp.FUNCTIONS[name].operands is None]
TWO = [name for name in NAMES if name not in ONE]
# What else derivatives of powers can be; of the first each step is rounded as in the reference.
ORDERS = [(1, 0), (1, 1), (0, 2), (2, 0)]
# Exact, or rounded once: `test_native_exact` compares their bits.
EXACT = {
    *("absolute", "bitwise_and", "ceil", "copysign", "floor", "floor_divide", "fmod", "heaviside"),
    *("identity", "isnan", "left_shift", "maximum", "minimum", "negative", "nextafter"),
    *("remainder", "right_shift", "sign", "square", "stop_gradient", "trunc", "add", "subtract"),
    *("conj", "real", "multiply", "divide", "absorb", "absorb_either", "round", "integer_power"),
}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ulp.DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_functions_keep_their_bounds(name: str, dtype: Any) -> None:
    error, point = ulp.worst(name, dtype, 300)
    assert error <= ulp.FUNCTIONS[name].bound, (error, point)


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_circular_functions_next_to_multiples_of_a_quarter_turn(name: str) -> None:
    rng = np.random.default_rng(4)
    turns = [*rng.integers(1, 2**44, 100), *(2 ** rng.integers(1, 44, 50) + 1)]
    with ulp.mp.workprec(400):
        x = np.array([float(int(n) * ulp.mp.pi / 2) for n in turns])
        for point, value in zip(x, ulp.native(name, x), strict=True):
            error = ulp.error_at(ulp.FUNCTIONS[name], [ulp.mp.mpf(float(point))], value)
            assert error <= 2.0, point


@pytest.mark.parametrize(("dtype", "first"), [(np.float64, 17.8), (np.float32, 7.8)])
def test_slopes_of_tanh_where_a_power_is_half_a_unit_of_one(dtype: Any, first: float) -> None:
    x = np.linspace(first, first + 1.2, 1000).astype(dtype)
    with ulp.mp.workprec(200):
        for point, value in zip(x, ulp.native("sech_squared", x), strict=True):
            exact = [ulp.mp.mpf(float(point))]
            assert ulp.error_at(ulp.FUNCTIONS["sech_squared"], exact, value) <= 1.2, point


@pytest.mark.parametrize(("dtype", "first"), [(np.float64, 19.1), (np.float32, 9.1)])
def test_tanh_and_sigmoid_are_exactly_one_where_they_level_out(dtype: Any, first: float) -> None:
    rng = np.random.default_rng(0)
    top = np.log(np.finfo(dtype).max)
    far = [rng.uniform(first, 400.0, 3000), np.exp(rng.uniform(np.log(first), top, 3000))]
    x = np.concatenate([*far, [np.finfo(dtype).max, np.inf]]).astype(dtype)
    for sign in (dtype(1), dtype(-1)):
        np.testing.assert_array_equal(ulp.native("tanh", sign * x), np.full(len(x), sign))
    with np.errstate(over="ignore"):
        twice = x * dtype(2)
    np.testing.assert_array_equal(ulp.native("sigmoid", twice), np.ones(len(x), dtype))


@pytest.mark.long
@pytest.mark.parametrize("dtype", ulp.DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_functions_keep_their_bounds_at_many_points(name: str, dtype: Any) -> None:
    error, point = ulp.worst(name, dtype, 10_000, seed=2)
    assert error <= ulp.FUNCTIONS[name].bound, (error, point)


def test_the_coefficients_are_those_of_the_script(capsys: Any) -> None:
    script = SCRIPT.with_name("fit_coefficients.py")
    sys.path.insert(0, str(script.parent))
    try:
        runpy.run_path(str(script), run_name="__main__")
    finally:
        sys.path.remove(str(script.parent))
    made: dict[str, Any] = {}
    exec(capsys.readouterr().out, made)  # a module of assignments
    names = {name for name in made if name.isupper()}
    assert names == {name for name in vars(coefficients) if name.isupper()}
    assert {n: made[n] for n in names} == {n: getattr(coefficients, n) for n in names}


def test_every_function_in_machine_code_is_tried() -> None:
    known = {op.name for op in registered_ops() if isinstance(op.scalar, str)}
    assert known - EXACT - {*NAMES} == set()
    written = {name for name in NAMES if callable(lookup(name).scalar)}
    assert {name for name in NAMES if not hasattr(Mathematics, name)} <= written


SPECIAL = np.array([0.0, -0.0, inf, -inf, nan, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0])


def agree(name: str, *xs: np.ndarray, **attrs: Any) -> None:
    """NaN, infinities and the signs of zeros are those of the reference."""
    attrs = attrs or ulp.FUNCTIONS[name].attrs
    with np.errstate(all="ignore"):
        wanted = np.asarray(lookup(name).ref(*xs, **attrs)).astype(np.float64)
    found = ulp.native(name, *xs, **attrs).astype(np.float64)
    at = [x.tolist() for x in xs]
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted), str(at))
    np.testing.assert_array_equal(
        np.where(np.isinf(wanted), found, 0), np.where(np.isinf(wanted), wanted, 0)
    )
    tolerance = 8 * float(np.finfo(xs[0].dtype).eps)
    finite = np.isfinite(wanted)
    np.testing.assert_allclose(
        found[finite], wanted[finite], rtol=tolerance, atol=0, err_msg=str(at)
    )
    zero = wanted == 0
    np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(wanted[zero]))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("name", NAMES)
def test_special_values(name: str, dtype: str) -> None:
    x = SPECIAL.astype(dtype)
    if name in ONE:
        agree(name, x)
    else:
        agree(name, *pairs(x))


@pytest.mark.parametrize("dtype", ulp.DTYPES)
@pytest.mark.parametrize("name", ONE)
def test_every_nan_stays_one(name: str, dtype: Any) -> None:
    """Whatever else its bits say: some functions add to the bits of numbers."""
    word = np.uint64 if dtype == np.float64 else np.uint32
    rest = np.random.default_rng(0).integers(0, np.iinfo(word).max, 400, word, endpoint=True)
    x = (rest | np.array([np.nan, -np.nan] * 200, dtype).view(word)).view(dtype)
    assert np.isnan(x).all()
    assert np.isnan(ulp.native(name, x, **ulp.FUNCTIONS[name].attrs)).all()


def pairs(x: np.ndarray) -> list[np.ndarray]:
    return [part.reshape(-1).copy() for part in np.meshgrid(x, x)]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("orders", ORDERS)
def test_special_values_of_derivatives_of_powers(orders: tuple[int, int], dtype: str) -> None:
    agree("power_derivative", *pairs(SPECIAL.astype(dtype)), orders=orders)


@pytest.mark.parametrize("orders", [(0, 1), *ORDERS])
def test_derivatives_of_powers_beyond_the_range_of_numbers(orders: tuple[int, int]) -> None:
    x = np.array([1.0000000000000002, 1.0000000000000002, 0.4142135623730951, 3.0, 1e-200])
    agree("power_derivative", x, np.array([1e22, -1e22, 1.7e308, 1e9, 1e3]), orders=orders)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_body_and_tail_have_the_same_bits(name: str) -> None:
    rng = np.random.default_rng(3)
    attrs = ulp.FUNCTIONS[name].attrs
    for dtype in ulp.DTYPES:
        count = 1 if name in ONE else 2
        sizes = [rng.uniform(0.01, 3, 40) * 10.0 ** rng.uniform(-3, 15, 40) for _ in range(count)]
        xs = [size.astype(dtype) for size in sizes]
        whole = ulp.native(name, *xs, **attrs)
        for n in (1, 2, 3, 5, 7, 9, 17, 31):
            tail = ulp.native(name, *(x[:n].copy() for x in xs), **attrs)
            assert tail.tobytes() == whole[:n].tobytes()


@pytest.mark.parametrize("name", ["exp", "erf", "arctan2", "power", "lgamma"])
def test_integers_become_floats_as_in_numpy(name: str) -> None:
    for dtype in ("int64", "int32", "uint16", "uint8", "bool"):
        x = [np.array([0, 1, 1], dtype)] * (1 if name in ONE else 2)
        if name == "power":
            x[1] = x[1].astype(np.float64)
        found, wanted = ulp.native(name, *x), lookup(name).ref(*x)
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found.astype(float), wanted.astype(float), rtol=1e-3)


@pytest.mark.parametrize("dtype", ulp.DTYPES)
@pytest.mark.parametrize("n", [5, 7, -3, -4, 30, -7])
def test_whole_powers_are_rounded_well(n: int, dtype: Any) -> None:
    x = np.random.default_rng(1).uniform(-2, 2, 200).astype(dtype)
    found = ulp.native("integer_power", x, n=n)
    with ulp.mp.workprec(200):
        exact = [ulp.mp.mpf(float(v)) ** n for v in x]
    for value, true in zip(found, exact, strict=True):
        assert abs(float(value) - true) <= 2 * float(np.spacing(abs(dtype(float(true)))))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_long_bodies_call_functions_that_stand_once_in_the_module(
    dtype: str, monkeypatch: Any
) -> None:
    def compiled() -> Any:
        g = ab.Graph("long")
        x = y = g.parameter("x", (37,), np.dtype(dtype))
        for name in ["erf", "sin", "log", "cbrt", "lgamma"] * 4:
            attrs = ulp.FUNCTIONS[name].attrs
            y = g.add_node(lookup(name), [y * 0.5 + x], **attrs)
        y = g.add_node(lookup("integer_power"), [y], n=-7)
        return g.compile(y, backend="native", passes=())

    x = np.linspace(-1, 2, 37).astype(dtype)
    short = compiled()
    value, ir = short(x), short.program.executable.program.ir
    assert len(re.findall(r"call \S+ x \S+ @erf_", ir)) > len(re.findall(r"define .*@erf_", ir)) > 0
    monkeypatch.setattr(functions.Functions, "longest", 10**6)
    inline = compiled()
    assert inline(x).tobytes() == value.tobytes()
    assert "@erf_" not in inline.program.executable.program.ir


def wrong_at(place: int, units: float) -> Any:
    """The op, with one result off by so many units in the last place."""
    right = ulp.native

    def native(name: str, *xs: np.ndarray, **attrs: Any) -> np.ndarray:
        found: np.ndarray = right(name, *xs, **attrs)
        found[place] += units * np.spacing(np.abs(found[place]))
        return found

    return native


@pytest.mark.parametrize(("name", "dtype"), [("exp", np.float64), ("erf", np.float32)])
def test_one_wrong_result_among_many_is_found(name: str, dtype: Any, monkeypatch: Any) -> None:
    (xs,) = ulp.points(name, dtype, 3000, 1)
    place = int(np.flatnonzero((np.abs(xs[1000:]) > 0.1) & (np.abs(xs[1000:]) < 0.9))[7]) + 1000
    monkeypatch.setattr(ulp, "native", wrong_at(place, 9.0))
    error, point = ulp.worst(name, dtype, 3000)
    assert 8 < error < 10 and point == (float(xs[place]),)


@pytest.mark.parametrize("dtype", ulp.DTYPES)
def test_sorted_points_have_the_worst_of_all(dtype: Any, monkeypatch: Any) -> None:
    found = ulp.worst("tanh", dtype, 2000)
    monkeypatch.setattr(ulp, "WORST", 30)  # in more batches
    assert ulp.worst("tanh", dtype, 2000) == found
    monkeypatch.setattr(ulp, "ranked", lambda *args: None)
    assert ulp.worst("tanh", dtype, 2000) == found


def test_results_are_kept_in_a_file(tmp_path: Path, monkeypatch: Any) -> None:
    asked: list[tuple[str, str]] = []

    def worst(name: str, dtype: Any, count: int, **options: Any) -> Any:
        asked.append((name, np.dtype(dtype).name))
        return 0.5 + len(asked), (1.0,)

    monkeypatch.setattr(ulp, "worst", worst)
    first = ulp.Kept(tmp_path / "kept")
    assert first.worst("exp", np.float64, 10, None, 1) == (1.5, (1.0,))
    assert first.worst("exp", np.float32, 10, None, 1) == (2.5, (1.0,))
    second = ulp.Kept(tmp_path / "kept")
    assert second.worst("exp", np.float32, 10, None, 1) == (2.5, (1.0,))
    assert asked == [("exp", "float64"), ("exp", "float32")]
    second.worst("exp", np.float32, 20, None, 1)  # of another count nothing is known
    assert len(asked) == 3


@pytest.mark.slow
def test_the_script_prints_a_table_and_says_which_bound_is_broken(
    tmp_path: Path, capsys: Any
) -> None:
    path = tmp_path / "kept"
    words = ["--count", "40", "--jobs", "1", "--resume", str(path), "exp"]
    assert ulp.main(words) == 0
    assert re.search(r"\| `exp` \| 0\.\d\d \| 0\.\d\d \| 2 \| \d+ \|", capsys.readouterr().out)
    path.write_text(path.read_text().replace("0.", "3."))
    assert ulp.main(words) == 1
