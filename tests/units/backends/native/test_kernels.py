"""Kernels: checked indices, parts in place, order of bits, what is made of other ops."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import anabranch as ab
from anabranch.backends.base import Wanted
from anabranch.backends.native.executable import NativeExecutable
from anabranch.backends.native.expand import expanded
from anabranch.backends.native.program import Program
from anabranch.ops import patches

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 12))
KEY = np.asarray(ab.random.key(3))


def program(f: Callable[..., Any], *args: Any) -> Program:
    return Program(expanded(ab.compile(f, passes=()).graph(*args)), 64)


def both(f: Callable[..., Any], *args: Any) -> tuple[Any, Any]:
    """What machine code and the reference make of it, once no call back is left."""
    assert not program(f, *args).islands
    return ab.compile(f)(*args), ab.compile(f, backend="reference")(*args)


PLACES = np.array([0, 1])
NATIVE: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (lambda x, i: ab.take(x, i, axis=1), (X, PLACES)),
    (lambda x, i: ab.take_along_axis(x, i, axis=1), (X, np.zeros((4, 2), int))),
    (lambda x, i: x.at[i].add(1.0), (X, PLACES)),
    (lambda x, i: x.at[i].set(0.0), (X, PLACES)),
    (lambda x, i: x.at[i].max(0.0), (X, PLACES)),
    (lambda x, i: ab.dynamic_slice(x, (i[0], i[1]), (2, 3)), (X, PLACES)),
    (lambda x, i: ab.dynamic_update_slice(x, x[:2, :2] * 1.0, (i[0], i[1])), (X, PLACES)),
    (lambda i: ab.one_hot(i, 3), (PLACES,)),
    (lambda x: ab.concatenate([x, x + 1.0], 1), (X,)),
    (lambda x: ab.pad(x, 1), (X,)),
    (lambda x: ab.roll(x, 3, axis=1), (X,)),
    (lambda x: (ab.argmax(x, axis=1), ab.argmin(x, axis=0)), (X,)),
    (lambda x: (ab.cumsum(x, axis=1), ab.cumprod(x, axis=0), ab.cummax(x)), (X,)),
    (lambda x: ab.cumlogsumexp(x, axis=1), (X,)),
    (lambda x: (ab.sort(x), ab.argsort(x, axis=0), ab.top_k(x, 2)[0]), (X,)),
    (lambda a, v: ab.searchsorted(a, v), (np.sort(X[0]), X[1])),
    (lambda k: (ab.random.bits(k, (9,)), ab.random.uniform(k, (9,))), (KEY,)),
    (lambda k: ab.random.normal(k, (9,)), (KEY,)),
    (lambda k: ab.random.randint(k, -3, 8, (9,)), (KEY,)),
    (lambda x: ab.max_pool(x[None], 3, stride=2, padding=1), (X,)),
    (lambda x: ab.avg_pool(x[None], 2), (X,)),
    (lambda x: ab.grad(lambda x: ab.sum(ab.max_pool(x[None], 2) ** 2))(x), (X,)),
    (lambda x: ab.linalg.norm(x, axis=1), (X,)),
    (lambda x: ab.linalg.vector_norm(x, axis=1, ord=3), (X,)),
    (lambda x: ab.linalg.vector_norm(x, ord=0.5), (X * 1e200,)),
    (lambda x: ab.linalg.vector_norm(x, axis=0, ord=-1), (X * 1e-200,)),
    (lambda x: ab.grad(lambda x: ab.linalg.vector_norm(x, ord=2.5))(x), (X,)),
    (lambda x: ab.grad(lambda y: ab.sum((x * x + 1.0) ** y))(x), (X,)),
    (lambda x: (ab.real(x), ab.imag(x)), (X,)),
    (lambda x: (ab.sum(x, axis=0), ab.mean(x), ab.max(x, axis=1)), (X.astype(np.float16),)),
    (lambda x, y: x @ y, (X.astype(np.float16), X.T.astype(np.float16))),
]  # fmt: skip


@pytest.mark.parametrize(("f", "args"), NATIVE)
def test_no_call_back_is_left(f: Callable[..., Any], args: tuple[Any, ...]) -> None:
    mine, its = both(f, *args)
    for a, b in zip(*(v if isinstance(v, tuple) else (v,) for v in (mine, its)), strict=True):
        assert a.dtype == b.dtype
        unit = 1e-13 if b.dtype != np.float16 else 2e-3
        np.testing.assert_allclose(a.astype(float), b.astype(float), rtol=unit, atol=unit)


OUTSIDE: list[tuple[Callable[..., Any], Any, Any]] = [
    (lambda i: ab.take(np.arange(5.0), i), [4, -5], [0, 5]),
    (lambda i: ab.take(np.ones((3, 2)), i, axis=1), [1, -2], [0, -3]),
    (lambda i: ab.gather(np.ones((3, 2)), (i, i), axis=(0, 1)), [0, 1], [0, 2]),
    (lambda i: ab.scatter_add(np.zeros(4), i, np.ones(2)), [3, -4], [4, 0]),
    (lambda i: ab.scatter_set(np.zeros(4), i, np.ones(2)), [3, -4], [0, -5]),
    (lambda i: ab.dynamic_slice(np.arange(6.0), i[0], 3), [3, 0], [4, 0]),
    (lambda i: ab.dynamic_update_slice(np.zeros(6), np.ones(3), i[1]), [0, -6], [0, -7]),
    (lambda i: ab.one_hot(i, 4), [3, 0], [0, 4]),
    (lambda i: ab.one_hot(i, 4), [3, 0], [-1, 0]),
    (lambda i: ab.random.randint(np.zeros(2, np.uint32), i[0], i[1], (3,)), [3, 4], [4, 4]),
    (lambda i: ab.gather(np.zeros(0), i, mode="wrap"), [], [1]),
]  # fmt: skip


@pytest.mark.parametrize(("f", "inside", "outside"), OUTSIDE)
def test_what_is_outside_raises_what_the_reference_raises(
    f: Callable[..., Any], inside: Any, outside: Any
) -> None:
    good, bad = np.array(inside, np.int64), np.array(outside, np.int64)
    texts = []
    for backend in ("native", "reference"):
        compiled = ab.compile(lambda i: f(i) * 1, backend=backend)
        if backend == "native":
            assert not compiled.program(bad).executable.program.islands
        before = compiled(good) if good.shape == bad.shape else None
        with pytest.raises(ab.AnabranchError) as caught:
            compiled(bad)
        texts.append(str(caught.value))
        if before is not None:
            np.testing.assert_array_equal(compiled(good), before)
    assert texts[0] == texts[1]


# Parts


def test_parts_are_computed_where_they_stand() -> None:
    made = program(lambda x, y: ab.concatenate([x * 2.0, y, x @ y.T @ x]), X, X + 1.0)
    ((_, first), (_, last)) = sorted(made.schedule.parts.items())
    assert first.view.offset == 0 and last.view.offset == 2 * X.size
    assert not any(key in made.rooms for key in made.schedule.parts)


def test_a_part_is_read_and_shown_where_it_stands() -> None:
    def f(x):
        y = x * 2.0
        whole = ab.concatenate([y, y, x], 1)
        return whole, ab.sum(y, axis=0), y[1:, ::2] * 3.0, y.T @ y, ab.concatenate([y, whole], 1)

    for a, b in zip(*both(f, X), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)


def test_a_view_from_before_leads_to_the_part() -> None:
    def f(x):
        y = x * 2.0
        turned = y.T
        total = ab.sum(ab.cumsum(ab.concatenate([x, y])))
        late = ab.sort(ab.concatenate([x * total, x]))  # lies where the other whole was
        return turned * ab.sum(late), turned.reshape(-1) + ab.max(late)

    made = program(f, X)
    assert made.schedule.parts
    for a, b in zip(*both(f, X), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)


def test_what_an_update_covers_is_no_part() -> None:
    def f(x):
        return x.at[:, ::2].set(x[:, ::2] * 2.0), ab.grad(lambda v: ab.sum(v[::2] ** 2))(x)

    for a, b in zip(*both(f, X), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_random_programs_of_parts(seed: int) -> None:
    def f(x, y):
        rng = np.random.default_rng(seed)
        pool = [x, y, x + 1.0]
        for _ in range(10):
            a, b = (pool[rng.integers(len(pool))] for _ in range(2))
            made = [
                lambda a, b: a * 2.0,
                lambda a, b: a * b if a.shape == b.shape else a.T,
                lambda a, b: ab.concatenate([a, b, a]) if a.shape[1] == b.shape[1] else a,
                lambda a, b: ab.concatenate([a, b], 1) if a.shape[0] == b.shape[0] else b,
                lambda a, b: ab.pad(a * 3.0, [(1, 2), (0, 3)], constant_values=1.5),
                lambda a, b: ab.concatenate([ab.sum(a, axis=0, keepdims=True), a]),
                lambda a, b: a[1:] * 1.0 if a.shape[0] > 1 else a,
            ][rng.integers(7)](a, b)
            if made.size < 4000:
                pool.append(made)
        return pool[-1], ab.sum(pool[-2]), pool[-3]

    g = lambda x, y: ab.grad(lambda x, y: ab.sum(f(x, y)[0] ** 2))(x, y)  # noqa: E731
    for h in (f, g):
        mine, its = both(h, X, X + 1.0)
        for a, b in zip(*(v if isinstance(v, tuple) else (v,) for v in (mine, its)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11)


def test_updates_of_what_nobody_else_reads_are_made_in_place() -> None:
    def f(x, i, u):
        y = x * 2.0
        for k in range(4):
            y = y.at[i].add(u * float(k + 1))
        return y[1:] * 1.0, ab.zeros(4).at[i].set(u[:, 0])

    args = X, np.array([1, 1, 3]), X[:3] * 1.0
    assert len(program(f, *args).schedule.parts) == 5
    for a, b in zip(*both(f, *args), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)


def test_updates_leave_what_others_read() -> None:
    def f(x, i):
        y = x * 2.0
        z = y.at[i].set(0.0)
        whole = ab.concatenate([x + 1.0, y + 3.0])
        part = ab.concatenate([x * 5.0, x])
        late = part.at[i].multiply(-1.0)
        view = (x * 7.0).T
        return (
            z + y,
            whole.at[i].add(whole[0]),
            late,
            view.at[i].add(1.0),
            ab.sum(view),
            x.at[i].max(0.0),
        )

    x, i = X.copy(), np.array([1, 1, 3])
    for a, b in zip(*both(f, x, i), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)
    np.testing.assert_array_equal(x, X)


def test_an_update_of_a_whole_leaves_its_parts() -> None:
    def f(x, i):
        y = x * 2.0
        changed = ab.concatenate([x, y]).at[i].set(0.0)
        return y * ab.sum(changed), changed

    for a, b in zip(*both(f, X, np.array([1, 5, 7])), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_random_programs_of_updates(seed: int) -> None:
    def f(x, i):
        rng = np.random.default_rng(seed)
        pool = [x, x * 2.0]
        for _ in range(12):
            a, b = (pool[rng.integers(len(pool))] for _ in range(2))
            made = [
                lambda a, b: a + 1.0,
                lambda a, b: a.at[i].add(b[:3]),
                lambda a, b: a.at[1:3].set(b[:2]),
                lambda a, b: a.at[::2].set(b[::2] * 3.0),
                lambda a, b: ab.concatenate([a[:2], b[2:]]),
                lambda a, b: ab.dynamic_update_slice(a, b[:2], (i[0], 0)),
                lambda a, b: ab.concatenate([a * 0.5, b])[2:6],
            ][rng.integers(7)](a, b)
            pool.append(made)
        return tuple(pool[-3:])

    for a, b in zip(*both(f, X, np.array([1, 0, 3])), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


# Order and bits


@pytest.mark.slow
@pytest.mark.parametrize(
    "dtype", [np.float64, np.float32, np.float16, np.int64, np.int8, np.uint32]
)
def test_sorting_has_the_bits_of_the_reference(dtype: Any) -> None:
    for n in (0, 1, 2, 48, 49, 257, 3000):
        x = RNG.normal(size=(2, n)) * 3
        if np.dtype(dtype).kind == "f":
            for value in (np.nan, np.copysign(np.nan, -1.0), -0.0, 0.0, -np.inf):
                x = np.where(RNG.random(x.shape) < 0.1, value, x)
        with np.errstate(invalid="ignore"):
            x = x.astype(dtype)
        for descending in (False, True):
            for op in (ab.sort, ab.argsort):
                mine, its = both(lambda x, op=op: op(x, axis=1, descending=descending), x)  # noqa: B023
                assert mine.tobytes() == its.tobytes(), (op, n, descending)


def test_digits_that_all_share_are_passed_over() -> None:
    x = np.full(100, 7, np.int64)
    x[40] = 1 << 40
    mine, its = both(ab.argsort, x)
    np.testing.assert_array_equal(mine, its)
    mine, its = both(ab.argsort, np.zeros(100))
    np.testing.assert_array_equal(mine, its)


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 33, 1001])
def test_random_bits_are_those_of_the_reference(n: int) -> None:
    def f(k):
        u64 = ab.random.bits(k, (n,), np.uint64)
        u8 = ab.random.bits(k, (n,), np.uint8)
        return ab.random.bits(k, (n,)), u64, u8, ab.random.uniform(k, (n,)), ab.random.split(k, n)

    for a, b in zip(*both(f, KEY), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_first_of_equal_extrema_and_of_nans_counts() -> None:
    x = np.tile(np.array([1.0, 3.0, 3.0, -1.0]), (2, 20))
    x[1, 50:60] = np.nan
    for dtype in (np.float64, np.float32, np.int16):
        with np.errstate(invalid="ignore"):
            y = np.nan_to_num(x).astype(dtype) if dtype is np.int16 else x.astype(dtype)
        mine, its = both(lambda x: (ab.argmax(x, axis=1), ab.argmin(x, axis=1)), y)
        for a, b in zip(mine, its, strict=True):
            np.testing.assert_array_equal(a, b)


def test_the_last_of_several_updates_stays() -> None:
    x, i, u = np.zeros(5), np.array([1, 1, 3, 1]), np.array([1.0, 2.0, 3.0, 4.0])
    mine, its = both(lambda x, i, u: (x.at[i].set(u), x.at[i].add(u), x.at[i].multiply(u)), x, i, u)
    for a, b in zip(mine, its, strict=True):
        np.testing.assert_array_equal(a, b)


def test_halves_are_added_in_float32() -> None:
    x = np.full(10_000, 0.1, np.float16)
    mine, its = both(lambda x: (ab.sum(x), ab.cumsum(x)[-1], ab.mean(x)), x)
    for a, b in zip(mine, its, strict=True):
        assert abs(float(a) - float(b)) <= float(np.spacing(b))
    i = np.zeros(10_000, int)
    mine, its = both(lambda x, i: ab.zeros(2, np.float16).at[i].add(x), x, i)
    np.testing.assert_array_equal(mine, its)


# What is made of other ops


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_convolutions_in_parts(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patches, "_COLUMNS", 5_000)
    x, w = RNG.normal(size=(5, 4, 9, 8)).astype(dtype), RNG.normal(size=(6, 2, 3, 2)).astype(dtype)

    def f(x, w):
        y = ab.conv(x, w, stride=(2, 1), padding=1, dilation=(1, 2), groups=2)
        return y, *ab.grad(lambda x, w: ab.sum(ab.sin(ab.conv(x, w, groups=2))), (0, 1))(x, w)

    assert sum(node.op.name == "matmul" for node in program(f, x, w).graph.nodes) > 5
    for a, b in zip(*both(f, x, w), strict=True):
        unit = 1e-12 if dtype is np.float64 else 2e-4
        np.testing.assert_allclose(a, b, rtol=unit, atol=unit)


def test_a_graph_in_a_graph_is_part_of_the_program() -> None:
    part = ab.Graph("part")
    x = part.parameter("x", (3,), float)
    part.set_outputs([x * 2.0, ab.sort(x)])
    g = ab.Graph("whole")
    y = g.parameter("y", (3,), float)
    a, b = part(y + 1.0)
    c, _ = part(b)
    run = g.compile([a, b, c], backend="native")
    for mine, its in zip(
        run(X[0, :3]), g.compile([a, b, c], backend="reference")(X[0, :3]), strict=True
    ):
        np.testing.assert_array_equal(mine, its)
    assert not NativeExecutable(Wanted(g)).program.islands


def test_a_graph_in_a_graph_prints_what_it_logs(capsys: pytest.CaptureFixture[str]) -> None:
    part = ab.Graph("part")
    x = part.parameter("x", (), float)
    part.set_outputs([(x * 2.0).log("twice") + 1.0])
    g = ab.Graph("whole")
    run = g.compile(part(g.parameter("y", (), float)), backend="native")
    capsys.readouterr()
    run(3.0)
    assert capsys.readouterr().out == "twice = 6.0\n"


def test_parts_that_are_used_over_and_over_stay_parts() -> None:
    part = ab.Graph("part 0")
    x = part.parameter("x", (), float)
    part.set_outputs([x * 1.5 + 1.0])
    for depth in range(1, 40):
        outer = ab.Graph(f"part {depth}")
        y = outer.parameter("y", (), float)
        outer.set_outputs([part(y) + part(y * 0.5)])
        part = outer
    g = ab.Graph("whole")
    g.set_outputs([part(g.parameter("x", (), float))])
    (island,) = Program(expanded(g), 64).islands
    assert island.node.op.name == "call"


def test_equal_loops_share_their_code() -> None:
    made = program(lambda x: ab.cumsum(ab.cumsum(x, axis=0) * 2.0, axis=0) * 2.0, X)
    assert made.ir.count("define i32 @kernel") == 1
    assert made.ir.count("call i32 @kernel") == 2


@pytest.mark.slow
def test_equal_loops_have_code_once_in_a_program_of_many_modules() -> None:
    def f(x):
        for _ in range(200):
            x = ab.cumsum(ab.roll(x, 1)) * 0.1
        return x

    made = program(f, X[0])
    assert len(made.modules) > 1
    assert made.ir.count("define i32 @kernel") < 4 < made.ir.count("call i32 @kernel")
    np.testing.assert_allclose(*both(f, X[0]), rtol=1e-12)


def test_steps_run_in_the_order_in_which_they_are_written() -> None:
    def f(x):
        total = 0.0
        for k in range(6):
            long = ab.concatenate([ab.cumsum(x * float(k + 1))] * 8)
            total = total + ab.argmax(ab.cumsum(long))
        return total

    made = program(f, np.ones(512))
    assert made.workspace < 4 * 8 * 512 * 8  # two long arrays at a time and six short ones


def test_a_donated_array_stays_as_it_was_where_an_index_lies_outside() -> None:
    f = ab.compile(lambda x, z, i: ab.take(z, i), donate="x")
    x, z = np.full(3, 7.0), np.arange(5.0)
    f(x.copy(), z, np.array([1, 2, 3]))
    with pytest.raises(ab.OutOfRangeError):
        f(x, z, np.array([1, 2, 9]))
    np.testing.assert_array_equal(x, 7.0)


def test_a_donated_array_is_not_overwritten_by_a_part_while_it_is_read() -> None:
    def f(x):
        half = ab.sum(x.reshape(2, 6), axis=0)
        return ab.concatenate([half * 2.0, half + x[6:] + x[:6]])

    x = X.reshape(-1)[:12].copy()
    wanted = ab.compile(f, backend="reference")(x)
    np.testing.assert_array_equal(ab.compile(f, donate="x")(x), wanted)


def test_copies_are_made_when_they_are_wanted() -> None:
    def f(x):
        return sum(ab.sum((x * float(k)).T.reshape(-1) @ ab.ones(48)) for k in range(4))

    made = program(f, X)
    copies = [step for step in made.steps if hasattr(step, "nodes") and len(step.nodes) == 1]
    assert sum(step.nodes[0].op.name == "reshape" for step in copies) == 4
