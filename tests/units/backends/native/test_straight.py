"""Loops over one element: equal ones are one function, which is told where its values lie."""

import random

import numpy as np
import pytest

import anabranch as ab
from anabranch.backends.native import loops, schedule
from anabranch.backends.native.program import Program


def program(f: object, *args: object) -> Program:
    return ab.compile(f, backend="native").program(*args).executable.program  # type: ignore[arg-type]


def functions(made: Program) -> int:
    return made.ir.count("define void @loop")


def both(f: object, *args: object) -> tuple[object, object]:
    native, judge = (ab.compile(f, backend=name) for name in ("native", "reference"))  # type: ignore[arg-type]
    return native(*args), judge(*args)


def sines(n: int):
    def f(x):
        for _ in range(n):
            x = ab.sin(x)
        return x

    return f


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies of four nodes, so that small graphs have many."""
    monkeypatch.setattr(schedule, "LONGEST", 4)


def test_a_longer_chain_has_no_more_code(short) -> None:
    few, many = (program(ab.value_and_grad(sines(n)), 0.7) for n in (40, 400))
    assert len(many.steps) > 8 * len(few.steps)
    assert functions(few) == functions(many) < 9
    np.testing.assert_allclose(*both(ab.value_and_grad(sines(400)), 0.7), rtol=1e-12)


def test_a_loop_like_an_earlier_one_is_not_written(short, monkeypatch) -> None:
    graph = ab.compile(sines(400)).graph(0.7)
    written = []
    body = loops.LoopCode._text
    monkeypatch.setattr(
        loops.LoopCode, "_text", lambda self, head: written.append(head) or body(self, head)
    )
    made = Program(graph, 64)
    assert len(made.steps) == 100
    assert len(written) == functions(made) < 5


# Each pair computes two stretches that differ in one thing only; sharing them would be wrong.
DIFFERENT = {
    "the sign of zero": (lambda x: x * 0.0, lambda x: x * -0.0),
    "a number": (lambda x: x + 1.0, lambda x: x + 2.0),
    "the type of a number": (lambda x: x * 2, lambda x: x * np.float64(2)),
    "the op": (lambda x: x + 3.0, lambda x: x - 3.0),
    "the order of operands": (lambda x: 1.0 - x, lambda x: x - 1.0),
    "an attr": (lambda x: x**7, lambda x: x**5),
    "the dtype that is asked for": (
        lambda x: ab.astype(x, np.float32),
        lambda x: ab.astype(x, np.float16),
    ),
    "which value is read": (lambda x: (x * 3.0) - x, lambda x: x - (x * 3.0)),
}


@pytest.mark.parametrize("what", DIFFERENT)
@pytest.mark.parametrize("shape", [(), (1,), (2,)])
def test_loops_that_differ_are_apart(short, what, shape) -> None:
    first, second = DIFFERENT[what]

    def f(x):
        found = []
        for one in (first, second, first, second):
            y = x / ab.sum(x) * 3.0  # each of these waits for a sum: a stretch of its own
            x = one(y)
            found.append(x)
        return found

    x = np.full(shape, 0.3)
    for mine, its in zip(*both(f, x), strict=True):
        assert np.asarray(mine).dtype == np.asarray(its).dtype
        np.testing.assert_array_equal(mine, its)
        np.testing.assert_array_equal(np.signbit(mine), np.signbit(its))


def test_loops_of_two_dtypes_are_apart(short) -> None:
    def f(x, y):
        for _ in range(12):
            x, y = x * 0.7 + 1.0, y * 0.7 + 1.0
        return x, y

    for mine, its in zip(*both(f, np.float32(0.3), np.float64(0.3)), strict=True):
        assert type(mine) is type(its)
        assert mine == its


def test_whether_a_number_was_pythons_tells_loops_apart(monkeypatch) -> None:
    monkeypatch.setattr(schedule, "LONGEST", 1)

    def f(weak, strong, narrow):
        return weak < narrow, strong < narrow, weak < narrow

    mine, its = both(f, 0.1, np.float64(0.1), np.float32(0.1))
    assert mine == its == (False, True, False)


def test_which_values_are_kept_tells_loops_apart(monkeypatch) -> None:
    monkeypatch.setattr(schedule, "LONGEST", 3)

    def f(x, y):
        found = []
        for one, which in ((x, 0), (y, 1)):
            a = one + 1.0
            b = a * 2.0
            found += [(a, b)[which], b - 3.0]
        return found

    assert [*both(f, 2.0, 5.0)[0]] == [3.0, 3.0, 12.0, 9.0]


def test_where_an_element_lies_tells_loops_apart(monkeypatch) -> None:
    monkeypatch.setattr(schedule, "LONGEST", 2)

    def f(x):
        return [x[i : i + 1] * 2.0 + 1.0 for i in range(4)]

    assert [float(y[0]) for y in both(f, np.arange(4.0))[0]] == [1.0, 3.0, 5.0, 7.0]


def test_what_is_given_away_is_read_before_it_is_written() -> None:
    def f(x, w):
        y = w + 1.0
        return y, y * x

    x, w = np.array([5.0]), np.array([2.0])
    y, z = ab.compile(f, donate=("x",), backend="native")(x, w)
    assert y is x
    assert (y[0], z[0]) == (3.0, 15.0)


def drawn(draw: random.Random, count: int):
    """A function that joins numbers of several dtypes in this many steps, each op exact."""
    joins = [ab.add, ab.subtract, ab.multiply]
    turns = [ab.negative, ab.absolute, lambda v: v * 0.5, lambda v: v + 1, lambda v: 1.5 - v]
    plan = [
        (draw.choice(joins) if draw.random() < 0.5 else None, draw.choice(turns), draw.random())
        for _ in range(count)
    ]
    places = [(draw.randrange(8), draw.randrange(8)) for _ in range(count)]

    def f(*xs):
        seen = list(xs)
        for (join, turn, chance), (i, j) in zip(plan, places, strict=True):
            x, y = seen[-1 - i % len(seen)], seen[-1 - j % len(seen)]
            made = turn(x) if join is None else join(x, y)
            made = ab.where(x < y, made, y) if chance < 0.1 else made
            made = ab.clip(made, -50.0, 50.0) if chance > 0.8 else made
            seen.append(made)
        return seen[len(xs) :: 3]

    return f


@pytest.mark.parametrize("seed", range(12))
def test_any_graph_of_numbers_gives_the_bits_of_the_reference(short, seed) -> None:
    draw = random.Random(seed)
    xs = [np.float64(0.3), np.float32(-1.7), 2.25, np.float64(-0.0)]
    for mine, its in zip(*both(drawn(draw, 60), *xs), strict=True):
        assert type(mine) is type(its)
        assert np.asarray(mine).tobytes() == np.asarray(its).tobytes()


def test_a_long_body_calls_its_functions() -> None:
    made = program(lambda x: sum((ab.sin(x + float(i)) for i in range(60)), 0.0), 0.7)
    (body,) = [part for part in made.ir.split("define ") if "@loop0(" in part.partition("{")[0]]
    assert body.count("\n") < 300
    assert body.count("call double @sin_1_float64") == 60
    np.testing.assert_allclose(*both(lambda x: ab.sin(x) + ab.sin(2.0 * x), 0.7), rtol=1e-15)
