"""Products: every size, layout and dtype, small ones and those in blocks."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import anabranch as ab
from anabranch.backends.native import blocks, operands, partition, products
from anabranch.backends.native.schedule import Product

COUNTS = (1, 2, 3, 7)
LAYOUTS = {  # how an operand is had from the array that is given, and that array's shape
    "rows": (lambda v: v, lambda m, n: (m, n)),
    "columns": (lambda v: v.T, lambda m, n: (n, m)),
    "every second row": (lambda v: v[::2], lambda m, n: (2 * m, n)),
    "every third column": (lambda v: v[:, ::3], lambda m, n: (m, 3 * n)),
}
EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


@pytest.fixture(autouse=True)
def number_of_threads() -> Iterator[None]:
    before = ab.get_num_threads()
    yield
    ab.set_num_threads(before)


def compiled(left: str, right: str) -> Any:
    return ab.compile(lambda x, y: LAYOUTS[left][0](x) @ LAYOUTS[right][0](y), backend="native")


def given(layout: str, shape: tuple[int, int], dtype: Any, seed: int) -> np.ndarray:
    made = LAYOUTS[layout][1](*shape)
    return np.random.default_rng(seed).normal(size=made).astype(dtype)


def check(left: str, right: str, size: tuple[int, int, int], dtype: Any) -> None:
    """Beside float64, within the bound for sums of this length; the same bits for all threads."""
    m, k, n = size
    f, x, y = compiled(left, right), given(left, (m, k), dtype, 0), given(right, (k, n), dtype, 1)
    a, b = (LAYOUTS[layout][0](v).astype(np.float64) for layout, v in ((left, x), (right, y)))
    wanted, found = a @ b, f(x, y)
    assert [type(step) for step in f.program(x, y).executable.program.steps] == [Product]
    assert (found.dtype, found.shape) == (np.dtype(dtype), wanted.shape)
    eps = EPS[found.dtype.name]
    summed = eps if found.dtype.itemsize > 2 else EPS["float32"]
    bound = eps * np.abs(wanted) + max(k, 1) * summed * (np.abs(a) @ np.abs(b))
    assert np.all(np.abs(found.astype(np.float64) - wanted) <= bound)
    bits = set()
    for count in COUNTS:
        ab.set_num_threads(count)
        bits.add(f(x, y).tobytes())
    assert len(bits) == 1


@pytest.fixture(params=["wide", "narrow"])
def in_small_blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small products are cut and packed as large ones are; the blocks are smaller, too."""
    monkeypatch.setattr(products, "BLOCKED_FROM", 0.0)
    monkeypatch.setattr(blocks, "CHUNK", 1e-3)
    monkeypatch.setattr(blocks, "FEW", 0)
    monkeypatch.setattr(blocks, "FEW_STRAIGHT", 0)
    monkeypatch.setattr(blocks, "PACK", 4096)
    if request.param == "narrow":
        monkeypatch.setattr(blocks, "UNEVEN_FROM", -1)
        monkeypatch.setattr(blocks, "PAGE", 1)
        monkeypatch.setattr(blocks, "PACKED_B_FROM", 0)
        monkeypatch.setattr(blocks, "FAR", 40)
        monkeypatch.setattr(blocks, "NEAR", 1)
        monkeypatch.setattr(operands, "DEPTH", {8: 7, 4: 5})


SIZES = [(2, 1, 2), (14, 16, 32), (13, 17, 15), (29, 33, 65), (130, 50, 100), (3, 5, 200)]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ab.bfloat16])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_blocks_of_every_size_and_layout(
    in_small_blocks: None, size: tuple[int, int, int], dtype: Any
) -> None:
    layouts, turn = list(LAYOUTS), SIZES.index(size)  # over the sizes, each with each
    for i, left in enumerate(layouts):
        check(left, layouts[(i + turn) % len(layouts)], size, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(150, 150, 150), (40, 700, 300), (600, 1030, 40)], ids=str)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_large_products_have_the_same_bits_for_any_number_of_threads(
    size: tuple[int, int, int], dtype: Any
) -> None:
    check("rows", "rows", size, dtype)
    check("columns", "columns", size, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float16, ab.bfloat16])
@pytest.mark.parametrize("size", [(1, 1, 1), (3, 700, 5), (1, 40, 3), (20, 30, 1), (2, 0, 3)])
def test_halves_are_summed_in_float32_and_rounded_once(
    size: tuple[int, int, int], dtype: Any
) -> None:
    check("rows", "rows", size, dtype)
    m, k, n = size
    ones = ab.compile(ab.matmul, backend="native")(np.ones((m, k), dtype), np.ones((k, n), dtype))
    np.testing.assert_array_equal(ones, np.full((m, n), k, dtype))  # 700 ones, no fewer


@pytest.mark.parametrize("dtype", [np.float16, ab.bfloat16])
def test_one_element_in_the_last_vector_of_a_row_is_written_alone(dtype: Any) -> None:
    check("rows", "rows", (5, 3, 81), dtype)  # one more would be the first of the next row


def test_infinities_and_nan_pass_through_large_products() -> None:
    x = np.ones((200, 200))
    x[3, 5], x[150, 1] = np.inf, np.nan
    y = np.ones((200, 200))
    y[5, 7] = -np.inf
    f = ab.compile(ab.matmul, backend="native")
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(f(x, y), x @ y)


def test_what_threads_share_is_decided_by_the_shape() -> None:
    f = ab.compile(ab.matmul, backend="native")

    def shares(m: int, k: int, n: int) -> bool:
        x, y = np.ones((m, k)), np.ones((k, n))
        f(x, y)
        return bool(f.program(x, y).executable.program.shares)

    assert not shares(32, 32, 32)
    assert shares(256, 256, 256)
    assert partition.MOST >= 16


VECTORS = [
    (1, 1, 1), (1, 5, 1), (1, 1000, 1), (7, 33, 1), (1, 33, 7), (300, 700, 1), (1, 700, 300),
    (1, 100_000, 1), (2000, 513, 1), (1, 513, 2000), (1, 1, 50), (50, 1, 1), (1, 8, 64),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", VECTORS, ids=str)
def test_a_matrix_and_a_vector_either_way(size: tuple[int, int, int], dtype: Any) -> None:
    for left in ("rows", "columns", "every third column"):
        for right in ("rows", "columns"):
            check(left, right, size, dtype)


def test_dots_read_nothing_behind_the_end_of_rows() -> None:
    x, y = np.ones((9, 37)), np.ones((37, 2))[:, 0]
    wide = np.full((9, 64), np.nan)
    wide[:, :37] = x
    f = ab.compile(lambda w, y: w[:, :37] @ y, backend="native")
    np.testing.assert_array_equal(f(wide, np.ascontiguousarray(y)), np.full(9, 37.0))


STACKS = [
    ((64, 32, 48), (64, 48, 40)), ((8, 8, 33, 64), (8, 8, 64, 33)), ((40, 64), (30, 64, 65)),
    ((8, 1, 33, 64), (5, 64, 33)), ((500, 7, 9), (9,)), ((300, 4, 4), (300, 4, 4)),
    ((9, 150, 160), (9, 160, 150)), ((3, 150, 160), (160, 150)), ((1000, 1, 64), (1000, 64, 1)),
    ((0, 30, 40), (40, 3)),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float16])
@pytest.mark.parametrize("shapes", STACKS, ids=str)
def test_stacks_are_shared_by_threads(shapes: tuple[Any, Any], dtype: Any) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=shape).astype(dtype) for shape in shapes)
    for turned in (False, True):
        if turned and y.ndim < 2:
            continue
        given = np.swapaxes(y, -1, -2).copy() if turned else y
        f = ab.compile(
            lambda x, y, turned=turned: x @ (ab.swapaxes(y, -1, -2) if turned else y),
            backend="native",
        )
        wide = x.astype(np.float64), y.astype(np.float64)
        bound = (x.shape[-1] + 2) * EPS[np.dtype(dtype).name] * (np.abs(wide[0]) @ np.abs(wide[1]))
        bits = set()
        for count in COUNTS:
            ab.set_num_threads(count)
            found = f(x, given)
            assert np.all(np.abs(found.astype(np.float64) - wide[0] @ wide[1]) <= bound)
            bits.add(found.tobytes())
        assert len(bits) == 1


def test_a_stack_of_small_products_is_cut_as_a_whole() -> None:
    f = ab.compile(ab.matmul, backend="native")
    small, large = np.ones((2, 8, 8)), np.ones((500, 16, 16))
    f(small, small), f(large, large)
    assert not f.program(small, small).executable.program.shares
    assert f.program(large, large).executable.program.shares


@pytest.mark.parametrize("vector_bytes", [64, 32, 16])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_tiles_fit_the_registers_and_cover_the_result(vector_bytes: int, dtype: Any) -> None:
    shapes = operands.Shapes(np.dtype(dtype), vector_bytes)
    registers = 32 if vector_bytes == 64 or operands.is_arm() else 16
    for m, n in itertools.product((1, 2, 5, 12, 13, 30, 1000), range(1, 200)):
        tile = shapes.tile(m, n)
        assert 1 <= tile.rows <= m
        if m > 1:  # the sums, a row of B and an element of A
            assert tile.rows * tile.vectors + tile.vectors + 1 <= registers
        columns = n % tile.columns
        if columns:
            last = shapes.last(tile, columns)
            assert columns <= last.vectors * last.lanes <= tile.columns


def test_a_rest_of_columns_takes_no_more_vectors_than_it_must() -> None:
    tiles = operands.Shapes(np.dtype(np.float32), 64).tile
    assert [(tiles(1000, n).rows, tiles(1000, n).vectors) for n in (256, 48, 80, 100, 10)] == [
        *((6, 4), (9, 3), (9, 3), (9, 3), (12, 1))
    ]
