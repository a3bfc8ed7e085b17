"""Brackets and `x.at[...]`: what is refused and how, what masks may do, how programs read."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import anabranch as ab
from anabranch.inspection.formula import formula

M = np.arange(6.0).reshape(2, 3)

REFUSED: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "too many": ("index-out-of-range", lambda x: x[0, 0, 0]),
    "too many with a mask": ("index-out-of-range", lambda x: x[np.ones((2, 3), bool), 0]),
    "two ellipses": ("index-out-of-range", lambda x: x[..., ...]),
    "outside": ("index-out-of-range", lambda x: x[2]),
    "outside, before": ("index-out-of-range", lambda x: x[:, -4]),
    "outside, an array": ("index-out-of-range", lambda x: x[:, [0, 3]]),
    "a float": ("index-dtype", lambda x: x[0.0]),
    "a float array": ("index-dtype", lambda x: x[np.array([0.0])]),
    "a float scalar": ("index-dtype", lambda x: x[np.float64(1.0)]),
    "a string": ("index-dtype", lambda x: x["0"]),
    "arrays": ("shape-mismatch", lambda x: x[[0, 1], [0, 1, 2]]),
    "a short mask": ("shape-mismatch", lambda x: x[np.ones(3, bool)]),
    "values": ("shape-mismatch", lambda x: x.at[0].set(np.ones(2))),
    "values of a mask": ("shape-mismatch", lambda x: x.at[[True, False]].set(np.ones((2, 3)))),
    "a mask of another shape": ("shape-mismatch", lambda x: x.at[np.ones(3, bool)].set(0.0)),
    "mode": ("bad-argument", lambda x: x.at[0].get(mode="drop")),
    "mode of a slice": ("bad-argument", lambda x: x.at[:].get(mode="none")),
    "mode of an update": ("bad-argument", lambda x: x.at[0].set(0.0, mode="fill")),
    "mode of a scatter": (
        "bad-argument", lambda x: ab.scatter_add(x, [0], M[:1], mode="fill"),
    ),
    "no fill": ("bad-argument", lambda x: x.at[9].get(mode="fill")),
    "a computed fill": ("bad-argument", lambda x: x.at[9].get(mode="fill", fill_value=x[0, 0])),
    "axes": ("bad-argument", lambda x: ab.gather(x, [0], axis=(0, 1))),
    "an axis twice": ("repeated-axis", lambda x: ab.gather(x, ([0], [0]), axis=(0, -2))),
    "no such axis": ("axis-out-of-range", lambda x: ab.take(x, [0], axis=2)),
    "a block": ("shape-mismatch", lambda x: ab.dynamic_slice(x, (0, 0), (3, 1))),
    "starts": ("shape-mismatch", lambda x: ab.dynamic_slice(x, (0,), (1, 1))),
    "a start": ("shape-mismatch", lambda x: ab.dynamic_slice(x, (np.array([0]), 0), (1, 1))),
    "a floating start": ("index-dtype", lambda x: ab.dynamic_slice(x, (0.0, 0), (1, 1))),
}  # fmt: skip


@pytest.mark.parametrize("way", ["eager", "compiled", "by hand"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_index_is_refused_by_code(name: str, way: str) -> None:
    code, call = REFUSED[name]
    g = ab.Graph("by hand")
    with pytest.raises(ab.AnabranchError) as caught:
        if way == "eager":
            call(ab.tensor(M))
        elif way == "compiled":
            ab.compile(call)(M)
        else:
            call(g.parameter("x", M.shape, ab.float64))
    assert caught.value.code == code
    assert caught.value.source.file == __file__


DYNAMIC: dict[str, Callable[[Any], Any]] = {
    "a computed mask": lambda x: x[x > 1.0],
    "a computed mask of an axis": lambda x: x[:, x[0] > 1.0],
    "a computed flag": lambda x: x[x[0, 0] > 1.0],
    "values for a computed mask": lambda x: x.at[x > 1.0].set(np.ones(4)),
    "an update with a mask and more": lambda x: x.at[x[:, 0] > 1.0, 0].set(0.0),
    "nonzero": lambda x: ab.nonzero(x),
    "nonzero, the method": lambda x: x.nonzero(),
    "argwhere": lambda x: ab.argwhere(x),
    "flatnonzero": lambda x: ab.flatnonzero(x),
    "unique": lambda x: ab.unique(x),
    "where of one": lambda x: ab.where(x > 1.0),
}


@pytest.mark.parametrize("name", DYNAMIC)
def test_a_shape_that_depends_on_values_is_refused_with_the_way_round(name: str) -> None:
    g = ab.Graph("by hand")
    for call in (
        lambda: ab.compile(DYNAMIC[name])(M),
        lambda: DYNAMIC[name](g.parameter("x", M.shape, ab.float64)),
    ):
        with pytest.raises(ab.ShapeError, match="dynamic-shape") as caught:
            call()
        assert "ab." in caught.value.hint and caught.value.source.file == __file__


def test_a_mask_that_is_known_selects_eagerly_as_numpys_does() -> None:
    x = ab.tensor(M, requires_grad=True)
    picked = x[x > 1.0]
    assert picked.numpy().tolist() == [2.0, 3.0, 4.0, 5.0]
    picked.backward(np.array([1.0, 2.0, 3.0, 4.0]))
    assert x.grad.tolist() == [[0.0, 0.0, 1.0], [2.0, 3.0, 4.0]]
    assert ab.grad(lambda x: ab.sum(x[x > 1.0] ** 2))(M).tolist() == [[0, 0, 4], [6, 8, 10]]


@pytest.mark.parametrize("way", ["set", "add", "multiply", "max", "min"])
def test_a_computed_mask_may_choose_what_one_value_replaces(way: str) -> None:
    f = lambda x, v: getattr(x.at[x > 1.5], way)(v)  # noqa: E731
    known = lambda x, v: getattr(x.at[M > 1.5], way)(v)  # noqa: E731
    values = np.where(M > 1.5, {"add": M + 3.5, "multiply": M * 3.5, "max": np.maximum(M, 3.5),
                                "min": np.minimum(M, 3.5)}.get(way, 3.5), M)  # fmt: skip
    assert np.asarray(ab.compile(f)(M, 3.5)).tolist() == values.tolist()
    for function in (f, known):
        assert function(ab.tensor(M), 3.5).numpy().tolist() == values.tolist()
        assert ab.check_gradients(function, M, 3.5).verdict == "pass"


def test_a_computed_mask_of_leading_axes_replaces_rows() -> None:
    f = ab.compile(lambda x, row: x.at[x[:, 0] > 1.0].set(row))
    assert f(M, np.ones(3)).tolist() == [[0.0, 1.0, 2.0], [1.0, 1.0, 1.0]]


def test_a_slice_at_a_computed_start_names_the_way_round() -> None:
    with pytest.raises(ab.TraceError, match="traced-value") as caught:
        ab.compile(lambda x, i: x[i : i + 1])(M, 1)
    assert "dynamic_slice" in caught.value.hint
    run = ab.compile(lambda x, i: ab.dynamic_slice(x, (i, 0), (1, 3)))
    assert run(M, 1).tolist() == [[3.0, 4.0, 5.0]]


def test_an_index_may_be_computed_alone_and_beside_others() -> None:
    for f in (
        lambda x, i: x[i],
        lambda x, i: x[:, i],
        lambda x, i: x[i, 1:],
        lambda x, i: x[-1, i],
    ):
        wanted = f(M, 1).tolist()
        assert np.asarray(ab.compile(f)(M, np.array(1))).tolist() == wanted
        assert np.asarray(ab.compile(f)(M, 1)).tolist() == wanted
        assert f(ab.tensor(M), ab.asarray(1)).numpy().tolist() == wanted


@pytest.mark.proves("F-77")
def test_a_computed_index_is_checked_in_every_place_of_the_brackets() -> None:
    for f, axis, length in (
        (lambda x, i: x[i], 0, 2),
        (lambda x, i: x[:, i], 1, 3),
        (lambda x, i: x[0, i], 1, 3),
        (lambda x, i: x.at[:, i].add(1.0), 1, 3),
        (lambda x, i: x.at[i, 0].set(1.0), 0, 2),
        (lambda x, i: ab.take_along_axis(x, ab.reshape(i, (1, 1)), axis=1), 1, 3),
        (lambda x, i: ab.put_along_axis(x, ab.reshape(i, (1, 1)), 0.0, axis=0), 0, 2),
    ):
        run = ab.compile(f)
        run(M, np.array(length - 1)), run(M, np.array(-length))
        for index in (length, -length - 1):
            text = f"index {index} is outside axis {axis} of length {length}"
            with pytest.raises(ab.OutOfRangeError, match=text):
                run(M, np.array(index))


def test_programs_read_as_they_were_written() -> None:
    g = ab.trace(lambda x, i: x[:, i, ..., 0] + x.at[1:, i].set(0.0, mode="drop").sum(), M[None], 0)
    assert str(g).splitlines()[1:-2] == [
        '#0 parameter "x" : f64[1,2,3]',
        '#1 parameter "i" : i64[] weak',
        "#2 gather(#0, #1, 0, axes=(1, 2)) : f64[1]",
        "#3 broadcast_to(float64(0.0), shape=(0, 3)) : f64[0,3]",
        "#4 slice(#0, index=((0, 0, 1), (0, 2, 1), (0, 3, 1))) : f64[0,2,3]",
        '#5 scatter_set(#4, #3, #1, axes=(1,), mode="drop") : f64[0,2,3]',
        "#6 update_slice(#0, #5, index=((0, 0, 1), (0, 2, 1), (0, 3, 1))) : f64[1,2,3]",
        "#7 sum(#6, axes=(0, 1, 2), keepdims=False) : f64[]",
    ]
    assert {node.scope for node in g.nodes} == {"", "index_set"}
    assert str(ab.parse(str(g))) == str(g)


def test_attrs_of_every_new_kind_are_read_back() -> None:
    def f(x: Any, i: Any) -> Any:
        y = ab.take(x, i, axis=1, mode="fill", fill_value=float("nan"))
        y = ab.concatenate([y, ab.flip(y, 1), ab.dynamic_slice(x, (i[0], 0), (1, 2))])
        y = ab.scatter_max(y, (i, i), y[i, i], axis=(0, 1), mode="clip")
        return y.at[i, i].multiply(2.0), ab.index_repeats((i,), (3,), "drop")[0]

    g = ab.trace(f, M, np.array([0, 1]))
    again = ab.parse(str(g))
    assert ab.structure_hash(again) == ab.structure_hash(g)
    grads = ab.trace(ab.grad(lambda x, i: ab.sum(f(x, i)[0])), M, np.array([0, 1]))
    assert str(ab.parse(str(grads))) == str(grads)


def test_a_graph_keeps_the_mask_that_it_was_traced_with() -> None:
    """A known mask decides shapes, so what it selects is fixed by the trace."""
    mask = np.array([True, False])
    run = ab.compile(lambda x: x[mask])
    assert run(M).tolist() == [[0.0, 1.0, 2.0]]


def test_a_captured_index_array_is_read_at_each_call() -> None:
    index = np.array([0, 1])
    run = ab.compile(lambda x: x[index, [0, 0]])
    assert run(M).tolist() == [0.0, 3.0]
    index[0] = 1
    assert run(M).tolist() == [3.0, 3.0]


def test_at_leaves_the_value_as_it_is() -> None:
    x = ab.tensor(M, requires_grad=True)
    y = x.at[0, 1].set(9.0)
    assert x.numpy().tolist() == M.tolist()
    assert y.numpy()[0, 1] == 9.0
    data = M.copy()
    assert ab.index_add(data, 0, 1.0).tolist() != data.tolist() == M.tolist()


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x[[0, 2]], lambda x: x[:, np.array([3])], lambda x: ab.take(x, [9], axis=1),
        lambda x: x.at[[2]].set(0.0), lambda x: x.at[:, [3]].add(1.0),
        lambda x: ab.scatter_add(x, [0, 2], M), lambda x: ab.gather(x, ([0], [3]), axis=(0, 1)),
    ],
)  # fmt: skip
def test_a_known_index_outside_is_refused_while_the_graph_is_built(
    call: Callable[..., Any],
) -> None:
    g = ab.Graph("by hand")
    x = g.parameter("x", M.shape, ab.float64)
    for build in (lambda: call(x), lambda: ab.trace(call, M)):
        with pytest.raises(ab.OutOfRangeError, match="outside axis"):
            build()


def test_axes_of_a_gather_may_come_in_any_order() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    i, j = np.array([1, 0, 1]), np.array([[3], [2]])
    assert ab.gather(x, (j, i), axis=(2, 0)).tolist() == x[i, :, j].tolist()
    assert ab.gather(x, (j, i), axis=(-1, -2)).tolist() == x[:, i, j].tolist()
    assert ab.gather(x, i, axis=1).tolist() == np.take(x, i, axis=1).tolist()
    updates = np.ones((2, 3, 3))
    wanted = np.zeros_like(x)
    np.add.at(wanted, (i, slice(None), j), updates)
    found = ab.scatter_add(np.zeros_like(x), (j, i), updates, axis=(2, 0))
    assert found.tolist() == wanted.tolist()


@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_putting_along_an_axis_is_numpys(axis: int | None) -> None:
    indices = np.array([[1, 0, 1]]) if axis == 0 else np.array([[0], [2]])
    indices = np.array([3, 1]) if axis is None else indices
    values = np.array([7.0]) if axis is None else np.array([[7.0]])
    wanted = M.copy()
    np.put_along_axis(wanted, indices, values, axis)
    f = lambda x, v: ab.put_along_axis(x, indices, v, axis)  # noqa: E731
    assert f(M, values).tolist() == f(ab.tensor(M), values).numpy().tolist() == wanted.tolist()
    assert ab.check_gradients(f, M, values).verdict == "pass"
    assert ab.put_along_axis(M, indices, 7.0, axis).tolist() == wanted.tolist()
    found = ab.take_along_axis(ab.tensor(M), ab.asarray(indices), axis)
    assert found.numpy().tolist() == np.take_along_axis(M, indices, axis).tolist()


def test_along_an_axis_the_others_broadcast() -> None:
    x = np.arange(12.0).reshape(3, 4)
    for indices in (np.array([[2]]), np.array([[0, 1, 2, 0]]), np.zeros((0, 1), int)):
        wanted = np.take_along_axis(x, indices, 0)
        assert ab.take_along_axis(x, indices, axis=0).tolist() == wanted.tolist()


def test_blocks_at_computed_starts_have_derivatives() -> None:
    read = lambda x: ab.dynamic_slice(x, (1, -2), (1, 2))  # noqa: E731
    assert read(M).tolist() == [[4.0, 5.0]]
    write = lambda x, v: ab.dynamic_update_slice(x, v, (0, np.array(1)))  # noqa: E731
    assert ab.check_gradients(read, M).verdict == "pass"
    assert ab.check_gradients(write, M, np.ones((2, 2)) * 7.0).verdict == "pass"
    run = ab.compile(ab.grad(lambda x, i: ab.sum(ab.dynamic_slice(x, (i, 0), (1, 2)) ** 2)))
    assert run(M, 1).tolist() == [[0.0, 0.0, 0.0], [6.0, 8.0, 0.0]]


def test_formulas_are_written_as_the_program_was() -> None:
    def f(x: Any, i: Any) -> Any:
        y = x[:, i].at[0].set(0.0)
        return ab.concatenate([y, x.at[i, 0].add(1.0)[0, :2]], axis=0)

    g = ab.trace(f, M, 1)
    written = [formula(node) for node in g.nodes if node.inputs]
    assert written == [
        "{0}[:, {1}]", "{0}.at[0].set(0)", "{0}.at[{2}, 0].add(1)", "{0}[0, :2]",
        "concatenate([{0}, {1}], axis=0)",
    ]  # fmt: skip
