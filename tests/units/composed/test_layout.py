"""What moves elements about, beside NumPy: the values, and that derivatives move them back."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import anabranch as ab

V, M, T = np.arange(1.0, 7.0), np.arange(1.0, 7.0).reshape(2, 3), np.arange(24.0).reshape(2, 3, 4)
S, E = np.array(3.0), np.zeros((0, 3))
Case = tuple[Callable[..., Any], Sequence[Any]]

# Each runs with ab and with np in place of `m`.
CASES: dict[str, Case] = {
    "squeeze": (lambda m, x: m.squeeze(x), [M[None, :, None], S, E[None]]),
    "squeeze an axis": (lambda m, x: m.squeeze(x, -1), [M[None, ..., None], V[:1]]),
    "squeeze two axes": (lambda m, x: m.squeeze(x, (0, -1)), [M[None, ..., None]]),
    "expand_dims": (lambda m, x: m.expand_dims(x, -1), [S, V, M, E]),
    "expand_dims in two places": (lambda m, x: m.expand_dims(x, (0, 2)), [V, M]),
    "ravel": (lambda m, x: m.ravel(x), [S, V, T, E]),
    "transpose": (lambda m, x: m.transpose(x), [S, V, M, T, E]),
    "transpose axes": (lambda m, x: m.transpose(x, (2, 0, -2)), [T]),
    "matrix_transpose": (lambda m, x: m.matrix_transpose(x), [M, T]),
    "swapaxes": (lambda m, x: m.swapaxes(x, 0, -1), [V, M, T, E]),
    "moveaxis": (lambda m, x: m.moveaxis(x, 0, -1), [V, M, T]),
    "moveaxis of two": (lambda m, x: m.moveaxis(x, (0, 1), (-1, 0)), [M, T]),
    "moveaxis of a numpy integer": (lambda m, x: m.moveaxis(x, np.int64(1), 0), [T]),
    "atleast_1d": (lambda m, x: m.atleast_1d(x), [S, V, E]),
    "atleast_2d": (lambda m, x: m.atleast_2d(x), [S, V, M, T]),
    "atleast_3d": (lambda m, x: m.atleast_3d(x), [S, V, M, T, T[None]]),
    "broadcast_arrays": (lambda m, x: m.broadcast_arrays(x, x[:1], x[0])[1], [M, T]),
    "meshgrid": (lambda m, x: m.stack(m.meshgrid(x, x[:2], x[:3])), [V]),
    "meshgrid of one": (lambda m, x: m.meshgrid(x)[0], [V, S]),
    "meshgrid by rows": (lambda m, x: m.meshgrid(x, x[1:], indexing="ij")[1], [V]),
    "sparse meshgrid": (lambda m, x: m.meshgrid(x, x[1:], sparse=True)[1], [V]),
    "concatenate": (lambda m, x: m.concatenate([x, x[:1], x]), [V, M, T, E]),
    "concatenate columns": (lambda m, x: m.concatenate([x, x[:, :1]], axis=-1), [M, E]),
    "concatenate flat": (lambda m, x: m.concatenate([x, x[0]], axis=None), [M, T]),
    "stack": (lambda m, x: m.stack([x, x * 2.0, x]), [S, V, M, E]),
    "stack behind": (lambda m, x: m.stack([x, x * 2.0], axis=-1), [S, V, M]),
    "stack between": (lambda m, x: m.stack([x, x * 2.0], axis=1), [V, M]),
    "unstack": (lambda m, x: m.unstack(x, axis=-1)[1] if m is ab else x[..., 1], [V, M, T]),
    "hstack": (lambda m, x: m.hstack([x, x]), [S, V, M, T, E]),
    "vstack": (lambda m, x: m.vstack([x, x]), [S, V, M, T, E]),
    "dstack": (lambda m, x: m.dstack([x, x]), [S, V, M, T]),
    "column_stack": (lambda m, x: m.column_stack([x, x]), [V, M]),
    "split": (lambda m, x: m.split(x, 2)[1], [V, M, T]),
    "split at places": (lambda m, x: m.split(x, [1, 3])[1], [V, M]),
    "split beyond": (lambda m, x: m.split(x, [1, -1, 9])[2], [V]),
    "split columns": (lambda m, x: m.split(x, 3, axis=1)[2], [M, T]),
    "array_split": (lambda m, x: m.array_split(x, 4)[1], [V, M]),
    "tile": (lambda m, x: m.tile(x, 3), [S, V, M, E]),
    "tile by rows": (lambda m, x: m.tile(x, (2, 1, 3)), [S, V, M, T]),
    "tile of none": (lambda m, x: m.tile(x, (0, 2)), [V, M]),
    "repeat": (lambda m, x: m.repeat(x, 2), [S, V, M, E]),
    "repeat along": (lambda m, x: m.repeat(x, 2, axis=1), [M, T]),
    "repeat by counts": (lambda m, x: m.repeat(x, [2, 0, 3], axis=1), [M, T]),
    "repeat by a count": (lambda m, x: m.repeat(x, np.array([3]), axis=0), [V, M]),
    "repeat of none": (lambda m, x: m.repeat(x, 0), [V]),
    "roll": (lambda m, x: m.roll(x, 2), [S, V, M, T, E]),
    "roll back": (lambda m, x: m.roll(x, -8, axis=0), [V, M]),
    "roll along two": (lambda m, x: m.roll(x, (1, -1), axis=(0, -1)), [M, T, E]),
    "roll twice": (lambda m, x: m.roll(x, (1, 2), axis=0), [V, M]),
    "roll alike": (lambda m, x: m.roll(x, 1, axis=(0, 1)), [M, T]),
    "rot90": (lambda m, x: m.rot90(x), [M, T, E]),
    "rot90 thrice": (lambda m, x: m.rot90(x, -1, axes=(1, 0)), [M, T]),
    "rot90 half": (lambda m, x: m.rot90(x, 2), [M]),
    "rot90 not": (lambda m, x: m.rot90(x, 4) * 1.0, [M]),
    "rot90 in another plane": (lambda m, x: m.rot90(x, 3, axes=(2, 0)), [T]),
    "flip": (lambda m, x: m.flip(x), [S, V, M, T, E]),
    "flip an axis": (lambda m, x: m.flip(x, -1), [V, M, T]),
    "flip two": (lambda m, x: m.flip(x, (0, -1)), [M, T]),
    "fliplr": (lambda m, x: m.fliplr(x), [M, T]),
    "flipud": (lambda m, x: m.flipud(x), [V, M]),
    "diagonal": (lambda m, x: m.diagonal(x), [M, T, M.T, E]),
    "diagonal above": (lambda m, x: m.diagonal(x, 1), [M, T, M.T]),
    "diagonal below": (lambda m, x: m.diagonal(x, -1), [M, T, M.T]),
    "diagonal outside": (lambda m, x: m.diagonal(x, 5), [M, T]),
    "diagonal far below": (lambda m, x: m.diagonal(x, -5), [M, T]),
    "diagonal of other axes": (lambda m, x: m.diagonal(x, 1, axis1=2, axis2=0), [T]),
    "trace": (lambda m, x: (m.matrix_trace if m is ab else m.trace)(x, 1), [M, T, M.T]),
    "diag": (lambda m, x: m.diag(x), [V, M, M.T]),
    "diag above": (lambda m, x: m.diag(x, 2), [V, M]),
    "diag below": (lambda m, x: m.diag(x, -1), [V, M]),
    "diag of nothing": (lambda m, x: m.diag(x[:0]), [V]),
    "tril": (lambda m, x: m.tril(x), [M, T, M.T, E]),
    "tril above": (lambda m, x: m.tril(x, 1), [M, T]),
    "triu": (lambda m, x: m.triu(x), [M, T, M.T]),
    "triu below": (lambda m, x: m.triu(x, -1), [M, T]),
    "pad": (lambda m, x: m.pad(x, ((1, 2),)), [V, M]),
    "pad by two values": (lambda m, x: m.pad(x, 2, constant_values=0) * 1.0, [M, E]),
    "pad edge": (lambda m, x: m.pad(x, 2, mode="edge"), [V, M, T]),
    "pad reflect": (lambda m, x: m.pad(x, ((3, 1), (0, 7)), mode="reflect"), [M]),
    "pad reflect one": (lambda m, x: m.pad(x[:1], 2, mode="reflect"), [V]),
    "pad symmetric": (lambda m, x: m.pad(x, (4, 9), mode="symmetric"), [V, M]),
    "pad wrap": (lambda m, x: m.pad(x, (4, 9), mode="wrap"), [V, M]),
    "take": (lambda m, x: m.take(x, [[0, -1], [2, 2]]), [V, M, T]),
    "take along": (lambda m, x: m.take(x, np.array([1, 0]), axis=-1), [V, M, T]),
    "take around": (lambda m, x: m.take(x, [-9, 7, 1], axis=0, mode="wrap"), [V, M]),
    "take nearest": (lambda m, x: m.take(x, [-9, 7, 1], axis=0, mode="clip"), [V, M]),
    "take_along_axis": (
        lambda m, x: m.take_along_axis(x, np.array([[1, 1], [0, 2]]), axis=1), [M],
    ),
    "take_along_axis for all": (
        lambda m, x: m.take_along_axis(x, np.array([[2], [1]]).reshape(1, 2, 1), axis=1), [T],
    ),
    "take_along_axis flat": (
        lambda m, x: m.take_along_axis(x, np.array([3, 0]), axis=None), [M, T],
    ),
}  # fmt: skip
EVERY = [(name, i) for name, (_, xs) in CASES.items() for i in range(len(xs))]


@pytest.mark.slow
@pytest.mark.usefixtures("on_reference")
@pytest.mark.parametrize(("name", "number"), EVERY)
def test_values_are_numpys_in_every_front_end(name: str, number: int) -> None:
    function, xs = CASES[name]
    x = xs[number]
    wanted = np.asarray(function(np, x))
    found = function(ab, ab.tensor(x))
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    assert found.numpy().tolist() == wanted.tolist()
    on_array = np.asarray(function(ab, x))
    assert on_array.tolist() == wanted.tolist() and on_array.flags.c_contiguous
    for passes in ((), None):
        run = ab.compile(lambda x: function(ab, x), passes=passes)
        assert np.asarray(run(x)).tolist() == wanted.tolist()
    g = ab.Graph("by hand")
    by_hand = function(ab, g.parameter("x", x.shape, x.dtype))
    assert np.asarray(g.compile(by_hand)(x)).tolist() == wanted.tolist()
    assert str(ab.parse(str(g), _constants(g))) == str(g)


def _constants(graph: Any) -> list[Any]:
    return [node.attrs["value"] for node in graph.nodes if node.kind == "constant"]


@pytest.mark.parametrize(("name", "number"), EVERY)
def test_derivatives_move_elements_back(name: str, number: int) -> None:
    """All are linear: the tangent is the function of the tangent; the pullback transposes it."""
    function, xs = CASES[name]
    x = xs[number]
    rng = np.random.default_rng(0)
    t = rng.normal(size=x.shape)
    out, pushed = ab.jvp(lambda x: function(ab, x), (x,), (t,))
    np.testing.assert_allclose(np.asarray(pushed), function(np, t), rtol=1e-13)
    ct = rng.normal(size=np.shape(out))
    (back,) = ab.vjp(lambda x: function(ab, x), x)[1](ct)
    assert np.shape(back) == x.shape
    assert float(np.sum(back * t)) == pytest.approx(float(np.sum(ct * pushed)), rel=1e-12)


METHODS = {
    "flatten": (lambda x: x.flatten(), T),
    "ravel": (lambda x: x.ravel(), T),
    "squeeze": (lambda x: x.squeeze(0), M[None]),
    "swapaxes": (lambda x: x.swapaxes(0, 2), T),
    "repeat": (lambda x: x.repeat(2, axis=1), M),
    "diagonal": (lambda x: x.diagonal(1), M),
    "trace": (lambda x: x.trace(), M),
    "take": (lambda x: x.take(np.array([1, 0]), axis=0), M),
    "transpose": (lambda x: x.transpose(2, 0, 1), T),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_are_there_on_tensors_nodes_and_in_traces(name: str) -> None:
    method, x = METHODS[name]
    wanted = np.asarray(method(x)).tolist()
    assert method(ab.tensor(x)).numpy().tolist() == wanted
    assert np.asarray(ab.compile(method)(x)).tolist() == wanted
    g = ab.Graph("by hand")
    made = method(g.parameter("x", x.shape, x.dtype))
    assert np.asarray(g.compile(made)(x)).tolist() == wanted


@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "float32", "int64", "uint8", "bool", "complex128"]
)
def test_dtypes_stay(dtype: str) -> None:
    x = np.array([[1, 0], [0, 1]]).astype(ab.bfloat16 if dtype == "bfloat16" else dtype)
    for f in (
        lambda x: ab.concatenate([x, x]), lambda x: ab.flip(x), lambda x: ab.tril(x), ab.triu,
        lambda x: ab.diag(x[0]), lambda x: x[[1, 0], [0, 0]], lambda x: ab.pad(x, 1),
        lambda x: ab.pad(x, 1, "edge"), lambda x: ab.tile(x, 2), lambda x: ab.roll(x, 1),
        lambda x: x.at[0].set(x[1]), lambda x: x.at[[0, 0]].set(x),
        lambda x: x.at[0, 0].set(x[1, 1]),
        lambda x: ab.take(x, [0, 5], mode="fill", fill_value=0),
        lambda x: ab.dynamic_slice(x, (0, 1), (2, 1)), lambda x: ab.meshgrid(x[0], x[1])[0],
    ):  # fmt: skip
        assert f(ab.asarray(x)).dtype == x.dtype
    small, wide = ab.asarray(x), np.ones((2, 2))
    assert ab.concatenate([small, wide]).dtype == np.result_type(x.dtype, np.float64)
    assert small.at[0].set(wide[0]).dtype == np.result_type(x.dtype, np.float64)


def test_a_padding_that_is_computed_has_a_derivative() -> None:
    f = lambda x, c: ab.pad(x, (1, 2), constant_values=c)  # noqa: E731
    out, pullback = ab.vjp(f, np.array([1.0, 2.0]), 9.0)
    assert np.asarray(out).tolist() == [9.0, 1.0, 2.0, 9.0, 9.0]
    back, by_value = pullback(np.array([1.0, 10.0, 100.0, 1000.0, 10000.0]))
    assert (back.tolist(), float(by_value)) == ([10.0, 100.0], 11001.0)


def test_padding_has_a_value_for_each_side() -> None:
    for values in ((1, 2), ((1, 2), (3, 4)), ((1,), (3,))):
        wanted = np.pad(M, ((1, 2), (2, 1)), constant_values=values)
        found = ab.pad(ab.tensor(M), ((1, 2), (2, 1)), constant_values=values)
        assert found.numpy().tolist() == wanted.tolist()


REFUSED: dict[str, tuple[str, Callable[[], Any]]] = {
    "no value": ("bad-argument", lambda: ab.concatenate([])),
    "nothing to stack": ("bad-argument", lambda: ab.stack([])),
    "other lengths": ("shape-mismatch", lambda: ab.concatenate([M, T[0]])),
    "other axes": ("shape-mismatch", lambda: ab.concatenate([M, V])),
    "scalars": ("axis-out-of-range", lambda: ab.concatenate([S, S])),
    "axis": ("axis-out-of-range", lambda: ab.concatenate([V], axis=1)),
    "stacked": ("shape-mismatch", lambda: ab.stack([V, M])),
    "not one long": ("shape-mismatch", lambda: ab.squeeze(M, 0)),
    "axis twice": ("repeated-axis", lambda: ab.expand_dims(V, (0, 0))),
    "moved twice": ("repeated-axis", lambda: ab.moveaxis(T, (0, 0), (1, 2))),
    "moved to fewer": ("argument-count", lambda: ab.moveaxis(T, (0, 1), 1)),
    "parts": ("shape-mismatch", lambda: ab.split(V, 4)),
    "no part": ("bad-argument", lambda: ab.array_split(V, 0)),
    "shifts": ("argument-count", lambda: ab.roll(T, (1, 2), axis=(0, 1, 2))),
    "plane": ("repeated-axis", lambda: ab.rot90(M, axes=(0, -2))),
    "diagonal": ("repeated-axis", lambda: ab.diagonal(M, axis1=0, axis2=0)),
    "diag": ("shape-mismatch", lambda: ab.diag(T)),
    "triangle": ("shape-mismatch", lambda: ab.tril(V)),
    "counts": ("shape-mismatch", lambda: ab.repeat(V, [1, 2])),
    "negative counts": ("bad-shape", lambda: ab.repeat(V, -1)),
    "computed counts": ("dynamic-shape", lambda: ab.repeat(V, ab.asarray([1] * 6))),
    "indexing": ("bad-argument", lambda: ab.meshgrid(V, indexing="yx")),
    "grid of matrices": ("shape-mismatch", lambda: ab.meshgrid(M)),
    "pad mode": ("bad-argument", lambda: ab.pad(V, 1, mode="mean")),
    "pad nothing": ("bad-padding", lambda: ab.pad(E, 1, mode="edge")),
    "negative edge": ("bad-padding", lambda: ab.pad(V, -1, mode="edge")),
    "half a width": ("bad-padding", lambda: ab.pad(V, 0.5)),
    "widths": ("bad-padding", lambda: ab.pad(V, ((1, 2), (3, 4)))),
    "fill": ("fill-dtype", lambda: ab.pad(np.arange(3), 1, constant_values=0.5)),
    "along": ("shape-mismatch", lambda: ab.take_along_axis(M, [0], axis=0)),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused_by_code(name: str) -> None:
    code, call = REFUSED[name]
    with pytest.raises(ab.AnabranchError) as caught:
        call()
    assert caught.value.code == code
    assert caught.value.source is None or caught.value.source.file == __file__
