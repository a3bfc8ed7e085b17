"""Eager, traced and by hand: one program, one graph, the same bits."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import anabranch as ab

RNG = np.random.default_rng(7)
V, W = RNG.normal(size=(3, 4)), RNG.normal(size=(3, 4))
M, COLUMN = RNG.normal(size=(4, 2)), RNG.normal(size=(3, 1))
P = np.abs(V) + 0.5
POINT = np.float64(0.7)

FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "worked expression": (lambda x, y: (x * y + x) ** 2, (np.float64(2.0), np.float64(3.0))),
    "arithmetic": (lambda x, y: ((x * 2.0 - y) / (y * y + 3) - -x).sum(), (V, W)),
    "broadcast": (lambda x, y: (x * y + 1.0).mean(axis=0).sum(), (V, COLUMN)),
    "powers": (lambda x: (x**2 + x**3 + x**0.5 + 2.0**x + x**-1).sum(), (P,)),
    "elementary": (lambda x: (ab.exp(x) * ab.sin(x) + ab.cos(x) * ab.tanh(x)).sum(), (V,)),
    "logarithms": (lambda x: (ab.log(x) + ab.sqrt(x) + ab.sigmoid(x)).sum(), (P,)),
    "choices": (lambda x, y: (ab.maximum(x, y) * ab.where(x > y, x, y * y)).sum(), (V, W)),
    "kinks": (lambda x: (ab.relu(x) + abs(x) + ab.clip(x, -0.5, 0.5)).sum(), (V,)),
    "products": (lambda x, m: ab.tanh(x @ m).sum(axis=1).max(), (V, M)),
    "vectors": (lambda x, y: x @ y + (x * y).sum(), (V[0], W[0])),
    "layout": (lambda x: (x.reshape(2, 6).T[1:, ::-1] * 2.0).sum(axis=0)[1], (V,)),
    "indexing": (lambda x: (ab.take(x, [2, 0, 2], axis=1) * x[:, :3]).sum(), (V,)),
    "padding": (lambda x: (ab.pad(x, ((1, 0), (0, 2)))[1:] * 3.0).sum(), (V,)),
    "softmax": (lambda x: (ab.log_softmax(x) * ab.softmax(x)).sum() + ab.logsumexp(x), (V,)),
    "loss": (lambda x, p: ab.cross_entropy(x, p), (V, P / P.sum(axis=1, keepdims=True))),
    "stopped": (lambda x: (x * ab.stop_gradient(x)).sum(), (V,)),
    "narrow": (lambda x: (x * 0.5 + 1).sum(), (V.astype(np.float32),)),
    "mixed": (lambda x, y: (x * y).sum(), (V.astype(np.float32), W)),
    "shared": (lambda x: ((x + x) * (x + x) * x).sum(), (V,)),
    "empty": (lambda x: (x * 2.0).sum(), (np.zeros((0, 3)),)),
}


def eager(f: Callable[..., Any], args: tuple[Any, ...]) -> tuple[ab.Graph, list[Any]]:
    xs = [ab.tensor(a, requires_grad=True) for a in args]
    y = f(*xs)
    graph = ab.graph(y)
    y.backward()
    return graph, [y.data, *(x.grad for x in xs)]


def traced(f: Callable[..., Any], args: tuple[Any, ...]) -> tuple[ab.Graph, list[Any]]:
    run = ab.compile(ab.value_and_grad(f, tuple(range(len(args)))), passes=())
    value, grads = run(*args)
    return ab.trace(f, *args), [value, *grads]


def by_hand(f: Callable[..., Any], args: tuple[Any, ...]) -> tuple[ab.Graph, list[Any]]:
    g = ab.Graph("by hand")
    xs = [g.parameter(f"x{i}", a.shape, a.dtype) for i, a in enumerate(args)]
    y = f(*xs)
    g.set_outputs([y])
    forward = ab.Graph("forward")
    copies = [forward.parameter(f"x{i}", a.shape, a.dtype) for i, a in enumerate(args)]
    forward.set_outputs([f(*copies)])
    return forward, g.compile(y, *ab.gradients(y, xs), passes=())(*args)


def functional(f: Callable[..., Any], args: tuple[Any, ...]) -> list[Any]:
    value, grads = ab.value_and_grad(f, tuple(range(len(args))))(*args)
    return [value, *grads]


def bits(values: list[Any]) -> list[tuple[Any, ...]]:
    return [(np.shape(v), np.asarray(v).dtype, np.asarray(v).tobytes()) for v in values]


@pytest.mark.usefixtures("on_reference")
@pytest.mark.proves("S0-48", "S4-09", "S4-08")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients_have_the_same_bits(name: str) -> None:
    f, args = FUNCTIONS[name]
    wanted = bits(functional(f, args))
    for way in (eager, traced, by_hand):
        _, found = way(f, args)
        assert bits(found) == wanted, way.__name__


@pytest.mark.slow
@pytest.mark.proves("S0-48", "S4-09")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_graphs_have_one_structure_hash(name: str) -> None:
    f, args = FUNCTIONS[name]
    graphs = [way(f, args)[0] for way in (eager, traced, by_hand)]
    for graph in graphs:
        ab.check(graph)
    assert len({ab.structure_hash(g) for g in graphs}) == 1


@pytest.mark.usefixtures("on_reference")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_default_passes_keep_the_bits(name: str) -> None:
    f, args = FUNCTIONS[name]
    optimised = ab.compile(ab.value_and_grad(f, tuple(range(len(args)))))
    value, grads = optimised(*args)
    assert bits([value, *grads]) == bits(functional(f, args))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_forward_mode_agrees_with_reverse_mode(name: str) -> None:
    f, args = FUNCTIONS[name]
    directions = tuple(np.asarray(np.full(a.shape, 0.5), a.dtype)[()] for a in args)
    _, tangent = ab.jvp(f, args, directions)
    _, *grads = functional(f, args)
    along = sum(float((g * d).sum()) for g, d in zip(grads, directions, strict=True))
    narrow = any(a.dtype == np.float32 for a in args)
    assert float(tangent) == pytest.approx(along, rel=1e-5 if narrow else 1e-12, abs=1e-12)
