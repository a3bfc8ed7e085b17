"""What cannot be asked of a value that has no value yet, and what can."""

import math
from collections.abc import Callable

import numpy as np
import pytest

import anabranch as ab

REFUSED: dict[str, tuple[Callable[..., object], str]] = {
    "if": (lambda x: x if x > 0.0 else -x, "traced-bool"),
    "while": (lambda x: [1 for _ in iter(lambda: bool(x), True)], "traced-bool"),
    "and": (lambda x: x and x, "traced-bool"),
    "not": (lambda x: not x, "traced-bool"),
    "chained comparison": (lambda x: 0.0 < x < 1.0, "traced-bool"),
    "max": (lambda x: max(x, 0.0), "traced-bool"),
    "in": (lambda x: x in [1.0, 2.0], "traced-bool"),
    "sorted": (lambda x: sorted([x, x]), "traced-bool"),
    "assert": (lambda x: _assert(x > 0.0), "traced-bool"),
    "float": (float, "traced-value"),
    "int": (int, "traced-value"),
    "complex": (complex, "traced-value"),
    "math": (math.exp, "traced-value"),
    "index": (lambda x: [1, 2][x], "traced-value"),
    "range": (lambda x: range(x), "traced-value"),
    "reshape": (lambda x: ab.reshape(np.ones(4), x), "traced-value"),
    "asarray": (np.asarray, "traced-value"),
    "array": (lambda x: np.array([x, x]), "traced-value"),
    "tensor": (ab.tensor, "traced-value"),
    "data": (lambda x: x.data, "not-executed"),
    "item": (lambda x: x.item(), "not-executed"),
    "numpy": (lambda x: x.numpy(), "not-executed"),
    "backward": (lambda x: x.backward(), "not-executed"),
}


def _assert(x: object) -> None:
    assert x


@pytest.mark.parametrize("name", REFUSED)
def test_refused_at_the_users_line(name: str) -> None:
    f, code = REFUSED[name]

    def traced(x):
        y = x * 2.0
        return f(y)  # here

    for run in (lambda: ab.compile(traced)(1.0), lambda: ab.trace(traced, 1.0)):
        with pytest.raises(ab.errors.TraceError) as caught:
            run()
        assert caught.value.code == code
        assert caught.value.source.file == __file__
        # the operand with the line that made it
        assert "written at test_traced_values.py:" in caught.value.facts[0]


@pytest.mark.proves("S4-08")
def test_an_if_has_a_hint_that_can_be_typed() -> None:
    def f(x):
        if x > 0.0:
            return x
        return -x

    with pytest.raises(ab.errors.TraceError) as caught:
        ab.compile(f)(1.0)
    assert caught.value.source.text == "if x > 0.0:"
    assert caught.value.hint == "ab.where(condition, a, b) selects inside the graph"
    g = ab.compile(lambda x: ab.where(x > 0.0, x, -x))
    assert [float(g(v)) for v in (2.0, -3.0)] == [2.0, 3.0]


@pytest.mark.parametrize("function", [np.exp, np.sum, np.mean, np.where, np.concatenate, np.dot])
def test_numpy_functions_are_refused_on_nodes_and_tensors(function) -> None:
    g = ab.Graph("demo")
    values = [g.parameter("x", (2,), ab.float64), ab.tensor([1.0, 2.0], requires_grad=True)]
    for x in values:
        arguments = ([x],) if function is np.concatenate else (x, x, x)
        arguments = arguments if function is np.where else arguments[: 1 + (function is np.dot)]
        with pytest.raises(TypeError):
            function(*arguments)


def test_shapes_lengths_and_iteration_are_known() -> None:
    def f(x):
        assert (x.shape, x.dtype, x.ndim, x.size, len(x)) == ((2, 3), np.float64, 2, 6, 2)
        first, second = x
        return first + second + sum(row for row in x)

    assert ab.compile(f)(np.ones((2, 3))).tolist() == [4.0, 4.0, 4.0]
    for ask in (len, list, iter):
        with pytest.raises(TypeError):
            ab.trace(ask, 1.0)


def test_item_assignment_and_unknown_names() -> None:
    def assign(x):
        x[0] = 1.0

    with pytest.raises(ab.errors.ArgumentError, match="item-assignment"):
        ab.trace(assign, np.ones(2))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        ab.trace(lambda x: x.nothing, 1.0)


def test_augmented_assignment_is_functional() -> None:
    def f(x):
        y = x
        y += 1.0
        y *= x
        return y

    assert ab.compile(f)(3.0) == 12.0


def test_values_are_printable_and_hashable() -> None:
    def f(x):
        assert "parameter 'x': f64[2]" in repr(x) and str(x) and f"{x}"
        return {x: 2.0}[x] * x

    assert ab.compile(f)(np.ones(2)).tolist() == [2.0, 2.0]


LEAKS: list[object] = []


def leaked() -> ab.Node:
    LEAKS.clear()

    def f(x):
        LEAKS.append(x * 3.0)  # it escapes here
        return x

    ab.compile(f)(1.0)
    return LEAKS[0]


@pytest.mark.parametrize(
    "use",
    [
        lambda y: y + 1.0, lambda y: 1.0 + y, lambda y: ab.exp(y), lambda y: y[None],
        lambda y: y.sum(), lambda y: -y,
        lambda y: ab.compile(lambda x: x + y)(1.0), lambda y: ab.grad(lambda x: x * y)(1.0),
        lambda y: ab.tensor(2.0, requires_grad=True) * y, lambda y: np.ones(2) * y,
        lambda y: ab.Graph("g").compile(y),
    ],
)  # fmt: skip
def test_a_value_used_after_its_trace_raises_with_both_lines(use) -> None:
    y = leaked()
    with pytest.raises(ab.errors.TraceError, match="ended-trace") as caught:
        use(y)
    made = y.source
    assert made.text.startswith("LEAKS.append(x * 3.0)")
    assert str(made) in str(caught.value)
    assert caught.value.source.file == __file__
    assert caught.value.source.line != made.line


def test_a_value_of_the_outer_trace_is_foreign_to_the_inner_graph() -> None:
    def outer(x):
        return ab.trace(lambda a: a + x, 1.0)

    with pytest.raises(ab.AnabranchError):
        ab.trace(outer, 1.0)


NUMBERS = {
    "a flag": (lambda x, given: x if given else -x, True, "given"),
    "a count": (lambda x, count: sum(x for _ in range(count)), 3, "count"),
    "a shape": (lambda x, shape: ab.reshape(x, shape), (2, 1), "shape"),
    "an option": (lambda x, options: x if options["a"][0] else -x, {"a": [True]}, "options"),
}


@pytest.mark.parametrize("case", NUMBERS.values(), ids=NUMBERS)
def test_a_number_that_steers_the_trace_can_be_made_static(case) -> None:
    f, value, name = case
    x = np.ones(2)
    with pytest.raises(ab.TraceError, match="traced-") as caught:
        ab.compile(f)(x, value)
    assert caught.value.hint == f'ab.compile(f, static="{name}") makes it part of the program'
    for _ in range(2):
        assert np.array_equal(ab.compile(f, static=name)(x, value), f(x, value))


def test_an_array_that_steers_the_trace_has_no_such_hint() -> None:
    with pytest.raises(ab.TraceError) as caught:
        ab.compile(lambda x: x if x else -x)(np.array(True))
    assert caught.value.hint == "ab.where(condition, a, b) selects inside the graph"
