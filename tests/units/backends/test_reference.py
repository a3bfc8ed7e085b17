"""The reference backend: order, liveness, logs, and errors that carry their node's line."""

import ast
import warnings
import weakref
from pathlib import Path

import numpy as np
import pytest

import anabranch as ab
from anabranch.core.registry import registered_ops, temporary_ops


@pytest.mark.usefixtures("on_reference")
@pytest.mark.proves("S0-37")
def test_a_value_dies_after_its_last_reader_and_not_before(no_collector: None) -> None:
    alive: list[tuple[str, int]] = []
    made: list[weakref.ref] = []

    def value(x, *, label):
        out = np.array(x) + 1.0
        alive.append((label, sum(ref() is not None for ref in made)))
        made.append(weakref.ref(out))
        return out

    with temporary_ops():
        op = ab.Op("watched", aval=lambda x, *, label: x, ref=value, doc="x + 1", arity=1)
        g = ab.Graph("demo")
        x = y = g.parameter("x", (2,), ab.float64)
        for label in "abcde":
            y = g.add_node(op, [y], label=label)
        result = g.compile(y)(np.zeros(2))
    assert result.tolist() == [5.0, 5.0]
    # While `a` is made nothing is alive; then always the one input, never two.
    assert alive == [("a", 0), ("b", 1), ("c", 1), ("d", 1), ("e", 1)]
    assert x.consumers


@pytest.mark.usefixtures("on_reference")
def test_a_value_that_is_read_late_or_returned_stays() -> None:
    g = ab.Graph("demo")
    x = g.parameter("x", (2,), ab.float64)
    a = x + 1.0
    b = ab.exp(a)
    c = b * b
    run = g.compile(c + a, b, passes=())
    total, middle = run(np.zeros(2))
    assert np.array_equal(middle, np.exp(np.ones(2)))
    assert np.array_equal(total, middle * middle + 1.0)


def test_arguments_and_constants_are_never_written_or_dropped() -> None:
    g = ab.Graph("demo")
    x = g.parameter("x", (2,), ab.float64)
    c = g.constant(np.array([1.0, 2.0]))
    run = g.compile(x + c)
    argument = np.zeros(2)
    for _ in range(3):
        assert run(argument).tolist() == [1.0, 2.0]
    assert argument.tolist() == [0.0, 0.0]


@pytest.mark.proves("S4-35")
def test_a_logged_node_prints_its_label_and_value_at_each_run(capsys) -> None:
    g = ab.Graph("demo")
    x = g.parameter("x", (), ab.float64)
    square = (x * x).log("x2")
    run = g.compile(square + 1.0)
    quiet = ab.Graph("quiet")
    y = quiet.parameter("y", (), ab.float64)
    silent = quiet.compile(y * y)
    assert capsys.readouterr().out == ""  # nothing at compile time
    for value in (1.0, 2.0, 3.0):
        run(value)
        silent(value)
    assert capsys.readouterr().out == "x2 = 1.0\nx2 = 4.0\nx2 = 9.0\n"


@pytest.mark.proves("S4-35")
def test_a_logged_node_that_no_output_needs_prints_too(capsys) -> None:
    def f(x):
        (x * 2.0).log("twice")
        return x

    run = ab.compile(f)
    run(1.0)
    run(2.0)
    assert capsys.readouterr().out == "twice = 2.0\ntwice = 4.0\n"
    ab.tensor(3.0).log("eager")
    assert capsys.readouterr().out == "eager = 3.0\n"


def test_an_error_at_run_time_carries_the_line_where_the_node_was_written() -> None:
    g = ab.Graph("demo")
    x = g.parameter("x", (3,), ab.float64)
    i = g.parameter("i", (2,), ab.int64)
    run = g.compile(ab.take(x, i))  # the line of the op
    with pytest.raises(ab.errors.OutOfRangeError, match="index-out-of-range") as caught:
        run(np.ones(3), np.array([0, 13]))
    assert "13" in caught.value.sentence
    assert caught.value.source.text.endswith("# the line of the op")
    assert run(np.ones(3), np.array([0, -3])).tolist() == [1.0, 1.0]


def test_infinities_are_values_here_and_raise_no_warning() -> None:
    f = ab.compile(lambda x: (1.0 / x, ab.log(x), ab.exp(x * 1e4), 0.0 * (1.0 / x)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = f(np.array([0.0, 1.0]))
    assert np.isinf(out[0][0]) and np.isinf(out[1][0]) and np.isnan(out[3][0])


def test_ops_with_several_outputs() -> None:
    def aval(x):
        return x, x

    with temporary_ops():
        op = ab.Op(
            "both", aval=aval, ref=lambda x: (np.sin(x), np.cos(x)), doc="sin and cos",
            vjp=(lambda cts, ys, x: cts[0] * ys[1] - cts[1] * ys[0],),
            jvp=(lambda t, ys, x: (t * ys[1], -(t * ys[0])),),
        )  # fmt: skip

        def f(x):
            s, c = op(x)
            return (s * s * 3.0 + c).sum()

        x = np.array([0.3, 1.2])
        wanted = 6.0 * np.sin(x) * np.cos(x) - np.sin(x)
        np.testing.assert_allclose(ab.grad(f)(x), wanted, rtol=1e-14)
        np.testing.assert_allclose(ab.compile(ab.grad(f))(x), wanted, rtol=1e-14)
        _, t = ab.jvp(f, (x,), (np.ones(2),))
        assert float(t) == pytest.approx(float(wanted.sum()), rel=1e-14)
        v = ab.tensor(x, requires_grad=True)
        y = f(v)
        assert ab.structure_hash(ab.graph(y)) == ab.structure_hash(ab.trace(f, x))
        y.backward()
        np.testing.assert_allclose(v.grad, wanted, rtol=1e-14)
        g = ab.Graph("demo")
        p = g.parameter("p", (2,), ab.float64)
        s, c = op(p)
        run = g.compile(c, s)
        assert np.array_equal(run(x)[1], np.sin(x))
        assert "outputs #1.1, #1.0" in str(g)
        ab.check(g)
        # only one of the outputs is used
        assert ab.grad(lambda v: op(v)[1].sum())(x).tolist() == (-np.sin(x)).tolist()


@pytest.mark.proves("S0-21")
def test_engine_modules_test_for_no_op_by_name() -> None:
    package = Path(ab.__file__).parent
    engine = [*package.glob("diff/*.py"), *package.glob("backends/*.py"),
              *package.glob("passes/*.py"), package / "core" / "graph.py",
              package / "frontends" / "engine.py", package / "core" / "replay.py"]  # fmt: skip
    names = {op.name for op in registered_ops()} - {"parameter", "constant"}
    assert len(engine) > 8
    for file in engine:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare):
                for side in (node.left, *node.comparators):
                    assert not (isinstance(side, ast.Constant) and side.value in names), file
                    assert not (isinstance(side, ast.Name) and side.id in names), file
