"""Large graphs: the code grows as the graph does, in functions and modules of bounded length."""

import numpy as np
import pytest

import anabranch as ab
from anabranch.backends.native import program as program_module
from anabranch.backends.native.division import MOST
from anabranch.backends.native.program import MOST_CALLING, Program

X = np.linspace(0.5, 1.5, 8)


def chain(n: int):
    """No stretch is like another, so none can share its code."""

    def f(x):
        y = x
        for i in range(n // 2):
            y = y * (0.999 + 1e-9 * i) + x
        return ab.sum(y)

    return ab.value_and_grad(f)


def stages(n: int):
    """Each waits for the one before, so each is a step of its own."""

    def f(x):
        for _ in range(n):
            x = x / ab.sum(x)
        return x

    return f


def made(f: object, x: object = X) -> Program:
    return Program(ab.compile(f, passes=()).graph(x), 64)  # type: ignore[arg-type]


def functions(text: str) -> list[int]:
    """The lines of each function."""
    return [part.count("\n") for part in text.split("define ")[1:]]


def counts(program: Program) -> np.ndarray:
    lines = program.ir.count("\n")
    return np.array([lines, len(program.ir), len(functions(program.ir))])


@pytest.mark.slow
@pytest.mark.parametrize("kind", [chain, stages])
def test_twice_the_graph_is_twice_the_code(kind: object) -> None:
    small, large = (counts(made(kind(n))) for n in (1_500, 3_000))  # type: ignore[operator]
    growth = large / small
    assert growth.max() < 2.1
    assert growth.min() > 1.5


@pytest.mark.slow
def test_no_function_and_no_module_is_longer_for_a_longer_graph() -> None:
    for program in (made(chain(12_000)), made(stages(1_200))):
        longest = max(functions(program.ir))
        assert longest < 2 * MOST_CALLING
        assert max(text.count("\n") for text in program.modules) < MOST + 2 * longest
        assert len(program.modules) > 2


def test_a_program_in_parts_gives_what_one_in_one_piece_gives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def f(x, i):
        for _ in range(6):
            x = ab.sort(x / ab.sum(x))
        return ab.take(x @ np.eye(8), i)

    whole = ab.compile(f, backend="native")
    wanted = whole(X, np.array([2]))
    monkeypatch.setattr(program_module, "MOST_CALLING", 2)
    parts = ab.compile(f, backend="native")
    np.testing.assert_array_equal(parts(X, np.array([2])), wanted)
    program = parts.program(X, np.array([2])).executable.program
    assert program.ir.count("define i32 @part") > 6
    with pytest.raises(ab.OutOfRangeError):  # in the last part: the error goes through all
        parts(X, np.array([9]))
    np.testing.assert_array_equal(parts(X, np.array([2])), wanted)


def test_a_failure_in_the_first_part_stops_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_module, "MOST_CALLING", 1)

    def f(x, i, j):
        return ab.take(ab.take(x, i) * 2.0, j)

    run = ab.compile(f, backend="native")
    zero = np.array([0])
    assert run(X, zero, zero) == [1.0]
    with pytest.raises(ab.OutOfRangeError, match="9"):
        run(X, np.array([9]), np.array([11]))


@pytest.mark.slow
def test_shared_values_are_computed_once() -> None:
    def f(x):
        a, b = x, x * 0.5
        for _ in range(1_000):  # 2**700 paths lead from the result to x
            a, b = b, (a + b) * 0.5
        return ab.sum(b)

    both = ab.value_and_grad(f)
    native, judge = (ab.compile(both, backend=name) for name in ("native", "reference"))
    for mine, its in zip(native(X), judge(X), strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-13)
    assert len(native.graph(X)) < 6_010


@pytest.mark.long
def test_a_hundred_thousand_nodes_and_their_gradient() -> None:
    value, slope = ab.compile(chain(100_000), backend="native")(X)
    y, dy = X, np.ones(8)
    for i in range(50_000):
        factor = 0.999 + 1e-9 * i
        y, dy = y * factor + X, dy * factor + 1.0
    np.testing.assert_allclose(value, y.sum(), rtol=1e-12)
    np.testing.assert_allclose(slope, dy, rtol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("count", [100_000])
def test_a_hundred_thousand_sines_of_a_number_and_their_slope(count: int) -> None:
    def sines(x):
        for _ in range(count):
            x = ab.sin(x)
        return x

    run = ab.compile(ab.value_and_grad(sines), backend="native")
    value, slope = run(0.7)
    y, dy = 0.7, 1.0
    for _ in range(count):
        y, dy = np.sin(y), dy * np.cos(y)
    np.testing.assert_allclose([value, slope], [y, dy], rtol=1e-9)
    made = run.program(0.7).executable.program
    assert len(made.ir) < 40 * count  # equal stretches share their code
