"""Loops that finish a product block by block: which do, that no bit changes, and what is told."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import anabranch as ab
from anabranch.backends.native import blocks, claims, operands, products
from anabranch.backends.native.program import Program
from anabranch.backends.native.schedule import Loop, Product

RNG = np.random.default_rng(3)


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = ab.get_num_threads()
    yield
    ab.set_num_threads(before)


@pytest.fixture(params=["wide", "narrow"])
def in_small_blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small products are cut and packed as large ones are; the blocks are smaller, too."""
    monkeypatch.setattr(products, "BLOCKED_FROM", 0.0)
    monkeypatch.setattr(blocks, "CHUNK", 1e-3)
    if request.param == "narrow":
        monkeypatch.setattr(blocks, "UNEVEN_FROM", -1)
        monkeypatch.setattr(blocks, "PAGE", 1)
        monkeypatch.setattr(blocks, "FAR", 40)
        monkeypatch.setattr(blocks, "NEAR", 1)
        monkeypatch.setattr(operands, "DEPTH", {8: 7, 4: 5})


def arrays(m: int, k: int, n: int, dtype: Any) -> list[Any]:
    shapes = [(m, k), (k, n), (n,), (m, 1), (m, n)]
    return [RNG.standard_normal(shape).astype(dtype) for shape in shapes]


def layer(x: Any, w: Any, row: Any, column: Any, full: Any) -> Any:
    h = x @ w + row
    return ab.where(h > 0, h, 0.0), h <= 0, ab.tanh(h * column) + full


def step(x: Any, w: Any, row: Any, column: Any, full: Any) -> Any:
    """`full` takes its new value where it lies, and a mean that no other loop reads besides."""
    mean = 0.9 * full + 0.1 * (x @ w)
    return full - 0.5 * mean / (ab.sqrt(mean * mean) + row), mean * column


def finishes(f: Any, *args: Any) -> list[list[str]]:
    steps = Program(ab.compile(f, passes=()).graph(*args), 64).steps
    return [
        [node.op.name for node in step.finish.nodes]
        for step in steps
        if isinstance(step, Product) and step.finish
    ]


def both(x: Any, w: Any, row: Any, column: Any, full: Any) -> Any:
    return (*layer(x, w, row, column, full), *step(x, w, row, column, full))


def bits(f: Any, args: Any) -> list[bytes]:
    return [np.asarray(value).tobytes() for value in f(*map(np.array, args))]


SIZES = [(2, 1, 2), (14, 16, 32), (13, 17, 15), (29, 33, 65), (130, 50, 100), (3, 5, 200)]


def check(args: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert finishes(both, *args)
    made, given = ab.compile(both, backend="native"), ab.compile(both, donate="full")
    found = []
    for count in (1, 2, 3):
        ab.set_num_threads(count)
        found += [bits(made, args), bits(given, args)]
    monkeypatch.setattr(claims, "finish", lambda schedule: None)
    found.append(bits(ab.compile(both, backend="native"), args))
    assert all(one == found[0] for one in found)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ab.bfloat16], ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_bits_are_those_of_a_loop_of_its_own(
    in_small_blocks: None, size: Any, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(arrays(*size, dtype), monkeypatch)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", [(65, 300, 101), (150, 1100, 40)], ids=str)
def test_large_products_are_finished_with_the_same_bits(
    size: Any, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(arrays(*size, dtype), monkeypatch)


def test_what_reads_more_than_the_block_waits_for_the_whole(in_small_blocks: None) -> None:
    x = RNG.standard_normal((20, 20))

    def f(x: Any) -> Any:
        y = x @ x
        return y + y.T

    assert finishes(f, x) == []
    np.testing.assert_allclose(ab.compile(f, backend="native")(x), (x @ x) + (x @ x).T)


def agrees(f: Any, *args: Any) -> None:
    reference = ab.compile(f, backend="reference")(*args)
    for one, other in zip(ab.compile(f, backend="native")(*args), reference, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_what_reads_a_later_value_waits_for_it(in_small_blocks: None) -> None:
    x = RNG.standard_normal((20, 20))

    def shares(x: Any) -> Any:
        y = ab.exp(x @ x)
        return (y / ab.sum(y, axis=1, keepdims=True),)

    def gates(x: Any) -> Any:
        y = x @ x
        return (y * (ab.tanh(y) @ x),)

    def divides(x: Any) -> Any:
        y = x @ x
        return (y / ab.max(x @ x * 2.0),)

    assert finishes(shares, x) == finishes(divides, x) == []
    assert finishes(gates, x) == [["tanh"], ["multiply"]]
    for f in (shares, gates, divides):
        agrees(f, x)


def test_two_products_never_wait_for_each_other(in_small_blocks: None) -> None:
    x, y = RNG.standard_normal((6, 9)), RNG.standard_normal((9, 6))

    def f(x: Any, y: Any) -> Any:
        p, q = x @ x.T @ y.T, y @ x @ y
        return p * q.T, q - p.T

    assert len(finishes(f, x, y)) == 1
    agrees(f, x, y)


def test_an_argument_that_the_product_reads_is_not_overwritten_in_it(
    in_small_blocks: None,
) -> None:
    w = RNG.standard_normal((30, 30))
    f = ab.compile(lambda w: w - (w @ w) * 0.5, backend="native", donate="w")
    given = w.copy()
    found = f(given)
    assert found is given
    np.testing.assert_allclose(found, w - (w @ w) * 0.5)


def test_sums_stay_in_loops_of_their_own(in_small_blocks: None) -> None:
    assert finishes(lambda x, w: ab.sum(x @ w * 2.0), *arrays(9, 9, 9, float)[:2]) == []


def test_small_products_have_a_loop_behind_them() -> None:
    args = arrays(4, 4, 4, float)
    steps = Program(ab.compile(lambda x, w: x @ w + 1.0).graph(*args[:2]), 64).steps
    assert [type(step) for step in steps] == [Product, Loop]


def test_long_products_have_a_loop_behind_them_too() -> None:
    x = np.ones((512, 512), np.float32)
    steps = Program(ab.compile(lambda x: x @ x + 1.0).graph(x), 64).steps
    assert [type(step) for step in steps] == [Product, Loop]


def test_reports_tell_of_it() -> None:
    f = ab.compile(lambda x, w, row: ab.tanh(x @ w + row), backend="native")
    args = arrays(64, 256, 128, np.float64)[:3]
    found = f.explain(*args)
    (kernel,) = found.kernels
    assert kernel.kind == "matmul" and [n.op for n in kernel.nodes] == ["matmul", "add", "tanh"]
    assert kernel.order == "64 x 128 x 256, and a loop over each block while it is near"
    assert kernel.written == 2 * 64 * 128 * 8  # the product, and what comes of it
    assert kernel.flops > 2 * 64 * 128 * 256 + 20 * 64 * 128


@pytest.mark.proves("S0-22")
def test_a_layer_is_finished_and_its_value_and_gradients_are_those_of_the_reference(
    in_small_blocks: None,
) -> None:
    def loss(x: Any, w: Any, row: Any) -> Any:
        return ab.sum(ab.relu(x @ w + row) ** 2)

    x, w, row, _, _ = arrays(13, 17, 15, np.float64)
    assert finishes(lambda *args: ab.relu(args[0] @ args[1] + args[2]), x, w, row)
    f = ab.value_and_grad(loss, argnums=(0, 1, 2))
    value, slopes = ab.compile(f, backend="native")(x, w, row)
    wanted, its = ab.compile(f, backend="reference")(x, w, row)
    assert value == pytest.approx(wanted, rel=1e-12)
    for mine, other in zip(slopes, its, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-12, atol=1e-12 * np.abs(other).max())
