"""What operations of one loop have in common is computed once, and changes no bit."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import anabranch as ab
from anabranch.backends.native.mathematics import Mathematics
from anabranch.core.bind import bind
from anabranch.core.registry import lookup


def op(name: str) -> Callable[[Any], Any]:
    return lambda x: bind(lookup(name), x)


def run(*functions: Callable[[Any], Any]) -> Any:
    return ab.compile(lambda x: [f(x) for f in functions], backend="native")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("names", "word", "count"),
    [
        (("tanh", "sech_squared"), " fdiv ", 1),
        (("erf", "exp_neg_square"), "shl ", 1),
        (("sigmoid", "exp"), " fdiv ", 1),
    ],
)
def test_functions_share_what_they_have_in_common(
    names: tuple[str, ...], word: str, count: int, dtype: str
) -> None:
    x = np.linspace(-3, 3, 64).astype(dtype)
    together = run(*map(op, names))
    found = together(x)
    assert together.ir().count(word) == count
    for name, values in zip(names, found, strict=True):
        alone = run(op(name))
        assert alone(x)[0].tobytes() == values.tobytes()


def test_a_slope_of_sigmoid_shares_with_its_value() -> None:
    x = np.linspace(-3, 3, 64)
    f = ab.compile(ab.value_and_grad(lambda x: ab.sum(ab.sigmoid(x))), backend="native")
    f(x)
    assert f.ir().count(" fdiv ") == 1


def test_the_same_instruction_is_written_once_until_blocks_change() -> None:
    e = Mathematics(4, range(99), set())
    first = e.new("fadd double %x, %y")
    assert e.new("fadd double %x, %y") == first
    before = e.load("double", 8, "%p", 4)
    e.store(first, "double", 8, "%p", 4)
    assert e.load("double", 8, "%p", 4) != before
    e.known = None
    assert e.new("fadd double %x, %y") != first


def test_what_a_step_computes_is_not_known_behind_its_loop() -> None:
    e = Mathematics(1, range(99), set())
    x = e.number(2.0, np.dtype(np.float64))
    product: list[str] = []

    def step(state: Any) -> Any:
        product.append(e.multiply(x, x).text)
        return [e.add(state[0], x)]

    e.while_any([x], lambda state: e.less(state[0], x), step)
    assert e.multiply(x, x).text != product[0]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_a_guarded_product_keeps_the_sign_of_zero_and_drops_nan(dtype: str) -> None:
    special = np.array([0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan, 1e-4], dtype)
    x, y = (a.reshape(-1).copy() for a in np.meshgrid(special, special))
    for name in ("absorb", "absorb_either"):
        f = lambda x, y, name=name: bind(lookup(name), x, y)  # noqa: E731
        found = ab.compile(f, backend="native")(x, y)
        with np.errstate(all="ignore"):
            wanted = ab.compile(f, backend="reference")(x, y)
        assert np.array_equal(found, wanted, equal_nan=True)
        zeros = wanted == 0
        assert np.array_equal(np.signbit(found[zeros]), np.signbit(wanted[zeros]))
