"""Errors: their form, their parts, and how little of the library they show."""

import pickle
import traceback
from collections.abc import Callable

import numpy as np
import pytest

import anabranch as ab
from anabranch.errors import is_library_file

ROOTS = {
    "ShapeError": ValueError,
    "DTypeError": TypeError,
    "ArgumentError": TypeError,
    "DomainError": ValueError,
    "ExchangeError": BufferError,
    "OutOfRangeError": IndexError,
    "GraphError": ValueError,
    "TraceError": TypeError,
    "NoGradientError": NotImplementedError,
    "FreedGraphError": RuntimeError,
    "GradientCheckError": AssertionError,
    "InternalError": AssertionError,
}


@pytest.mark.parametrize("name", ROOTS)
def test_each_class_is_also_the_builtin_that_users_catch(name: str) -> None:
    cls = getattr(ab.errors, name)
    assert issubclass(cls, ab.AnabranchError)
    assert issubclass(cls, ROOTS[name])


def test_no_class_is_missing_from_the_table() -> None:
    public = {cls.__name__ for cls in ab.AnabranchError.__subclasses__()}
    assert public >= set(ROOTS)
    assert all(issubclass(cls, Exception) for cls in ab.AnabranchError.__subclasses__())


@pytest.mark.parametrize("name", ["AnabranchError", *ROOTS])
def test_a_traceback_names_a_class_that_can_be_caught_by_that_name(name: str) -> None:
    cls = getattr(ab.errors, name)
    module, _, attribute = f"{cls.__module__}.{cls.__qualname__}".rpartition(".")
    found = ab if module == "anabranch" else ab.errors
    assert getattr(found, attribute) is cls


def test_the_parts_of_an_error_are_attributes_and_its_text_joins_them() -> None:
    error = ab.errors.ShapeError(
        "some-code", "one sentence", facts=("a", "b", "c", "d"), hint="do this", node=3
    )
    assert str(error) == "[some-code] one sentence\n\n  a\n  b\n  c\n  hint: do this"
    assert (error.code, error.hint, error.details["node"]) == ("some-code", "do this", 3)


def failing() -> ab.AnabranchError:
    with pytest.raises(ab.errors.ShapeError) as caught:
        ab.tensor([1.0, 2.0]) + ab.tensor([1.0, 2.0, 3.0])
    return caught.value


def test_an_error_travels_through_pickle_with_its_text() -> None:
    error = failing()
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.code) == (type(error), str(error), error.code)
    assert str(pickle.loads(pickle.dumps(again))) == str(error)


@pytest.mark.proves("F-75")
def test_a_broadcast_error_shows_exactly_the_users_shapes_names_and_line() -> None:
    images = ab.tensor(np.ones((2, 4)), name="images")
    bias = ab.tensor(np.ones(2), requires_grad=True, name="bias")
    with pytest.raises(ab.errors.ShapeError) as caught:
        images + bias
    text = str(caught.value)
    assert "(2, 4) and (2,)" in caught.value.sentence
    assert "(1, 2)" not in text
    assert caught.value.facts == ("images: f64[2,4]   tensor", "bias: f64[2]   tensor")
    assert caught.value.source.text == "images + bias"
    assert [str(a) for a in caught.value.details["avals"]] == ["f64[2,4]", "f64[2]"]


ENTRIES: dict[str, Callable[[], object]] = {
    "operator": lambda: ab.tensor([1.0, 2.0]) + np.ones(3),
    "reflected": lambda: np.ones(3) + ab.tensor([1.0, 2.0]),
    "method": lambda: ab.tensor([1.0, 2.0]).sum(axis=3),
    "index": lambda: ab.tensor([1.0])[4],
    "op": lambda: ab.add(ab.tensor([1.0, 2.0]), np.ones(3)),
    "op on arrays": lambda: ab.matmul(np.ones((2, 3)), np.ones((4, 5))),
    "composed": lambda: ab.cross_entropy(np.zeros((2, 3)), np.zeros(3, int)),
    "tensor": lambda: ab.tensor("text"),
    "tensor class": lambda: ab.Tensor("text"),
    "asarray": lambda: ab.asarray("text"),
    "integer leaf": lambda: ab.tensor([1], dtype=int, requires_grad=True),
    "data": lambda: setattr(ab.tensor([1.0]), "data", np.ones(2)),
    "grad": lambda: setattr(ab.tensor([1.0]), "grad", np.ones(2)),
    "requires_grad": lambda: setattr(ab.asarray([1]), "requires_grad", True),
    "backward": lambda: ab.tensor([1.0, 2.0], requires_grad=True).backward(),
    "backward_fresh": lambda: ab.tensor([1.0, 2.0], requires_grad=True).backward_fresh(),
    "ab.grad": lambda: ab.grad(lambda x: x)(np.ones(2)),
    "ab.grad of integers": lambda: ab.grad(lambda x: x)(np.array(2)),
    "grad of grad": lambda: ab.grad(ab.grad(lambda x: x * np.ones(2)))(1.0),
    "unused": lambda: ab.grad(lambda x: x, unused="never"),
    "inside grad": lambda: ab.grad(lambda x: ab.add(x, np.ones(3)).sum())(np.ones(2)),
    "vjp": lambda: ab.vjp(lambda x: x, np.ones(2))[1](np.ones(3)),
    "jvp": lambda: ab.jvp(lambda x: x, (np.ones(2),), (np.ones(3),)),
    "gradients": lambda: ab.gradients(ab.tensor([1.0, 2.0], requires_grad=True), []),
    "graph.parameter": lambda: ab.Graph("g").parameter("x", (), object),
    "graph.constant": lambda: ab.Graph("g").constant("text"),
    "graph.add_node": lambda: ab.Graph("g").add_node("no_such_op", []),
    "graph.compile": lambda: ab.Graph("g").compile(),
    "graph of a number": lambda: ab.graph(3.0),
    "run": lambda: identity_graph()(np.ones(3)),
    "node operator": lambda: ab.Graph("g").parameter("x", (2,), ab.float64) + np.ones(3),
    "node bool": lambda: bool(ab.Graph("g").parameter("x", (2,), ab.float64)),
    "node": lambda: ab.Node(),
    "compile": lambda: ab.compile(lambda x: 1.0 if x else 2.0)(1.0),
    "compile argument": lambda: ab.compile(lambda x: x)(object()),
    "compile what": lambda: ab.compile(3),
    "compile static": lambda: ab.compile(lambda x: x, backend="none")(1.0),
    "trace": lambda: ab.trace(lambda x: float(x), 1.0),
    "config": lambda: ab.config(nothing=True).__enter__(),
    "Op": lambda: ab.Op("add", aval=None, ref=None, doc=""),
}


def identity_graph() -> Callable[..., object]:
    g = ab.Graph("g")
    return g.compile(g.parameter("x", (2,), ab.float64))


@pytest.mark.parametrize("name", ENTRIES)
def test_at_most_one_frame_of_the_library_shows(name: str) -> None:
    with pytest.raises(ab.AnabranchError) as caught:
        ENTRIES[name]()
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert sum(is_library_file(frame.filename) for frame in frames) <= 1
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("name", ENTRIES)
def test_the_line_shown_is_the_users(name: str) -> None:
    with pytest.raises(ab.AnabranchError) as caught:
        ENTRIES[name]()
    source = caught.value.source
    assert source is None or source.file == __file__


def test_the_full_traceback_can_be_asked_for() -> None:
    with ab.config(full_traceback=True), pytest.raises(ab.errors.ShapeError) as caught:
        ab.tensor([1.0, 2.0]) + np.ones(3)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert sum(is_library_file(frame.filename) for frame in frames) > 1


def test_an_error_of_the_users_own_function_passes_untouched() -> None:
    def f(x):
        raise KeyError("mine")

    for run in (lambda: ab.grad(f)(1.0), lambda: ab.compile(f)(1.0), lambda: ab.trace(f, 1.0)):
        with pytest.raises(KeyError, match="mine"):
            run()


def test_nothing_stays_behind_after_an_error() -> None:
    """An error inside a trace or a transform leaves the thread as it was."""

    def f(x):
        return x + np.ones(3)

    for run in (lambda: ab.grad(f)(np.ones(2)), lambda: ab.compile(f)(np.ones(2))):
        with pytest.raises(ab.errors.ShapeError):
            run()
        x = ab.tensor(2.0, requires_grad=True)
        with pytest.raises(ab.errors.TraceError), ab.no_grad():
            ab.trace(lambda v: bool(v), 1.0)
        assert (x * x).requires_grad
        assert isinstance(ab.exp(np.zeros(2)), np.ndarray)


@pytest.mark.proves("S4-07")
def test_the_graphs_name_is_in_errors_of_building_and_running() -> None:
    g = ab.Graph("my model")
    x = g.parameter("x", (2,), ab.float64)
    y = g.parameter("y", (3,), ab.float64)
    i = g.parameter("i", (1,), ab.int64)
    run = g.compile(ab.take(x, i))
    for fail in (
        lambda: x + y,
        lambda: ab.matmul(x, y),
        lambda: g.parameter("x", (), ab.float64),
        lambda: g.compile(),
        lambda: g.compile(ab.Graph("h").parameter("z", (), ab.float64)),
        lambda: x + ab.Graph("h").parameter("z", (), ab.float64),
        lambda: bool(x),
        lambda: run(np.ones(2), np.array([0]), 1.0),
        lambda: run(np.ones(3), np.array([0])),
        lambda: run(np.ones(2), np.array([5])),
    ):
        with pytest.raises(ab.AnabranchError) as caught:
            fail()
        assert '"my model"' in str(caught.value)
