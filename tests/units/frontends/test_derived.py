"""jacobian, hessian, hvp: closed forms, containers, chunks and their peak, every front end."""

import tracemalloc
from typing import Any, NamedTuple

import numpy as np
import pytest

import anabranch as ab

A = np.random.default_rng(0).normal(size=(3, 4))
X = np.array([0.3, -0.2, 0.7, 1.1])
WAYS = [
    {"mode": mode, "chunk": chunk} for mode in ("forward", "reverse") for chunk in (1, 2, 3, None)
]


def differences(f, x, step=1e-6):
    """The Jacobian by central differences, one element of x after the other."""
    columns = []
    for i in range(x.size):
        move = np.zeros(x.size)
        move[i] = step
        move = move.reshape(x.shape)
        columns.append((np.asarray(f(x + move)) - np.asarray(f(x - move))) / (2 * step))
    moved = np.stack(columns, -1)
    return moved.reshape(np.shape(f(x)) + x.shape)


def layer(x):
    return ab.tanh(ab.matmul(A, x)) * x[:3]


MAPS = {
    "a scalar of a scalar": (lambda x: x[0] * x[0], X[:1]),
    "elementwise": (lambda x: ab.sin(x) * x, X),
    "a layer": (layer, X),
    "two layers": (lambda x: ab.matmul(A, ab.tanh(ab.matmul(A.T, layer(x)))), X),
    "a product of matrices": (lambda x: ab.matmul(x, ab.matmul(A.T, x)), np.ones((3, 4)) * X),
    "to a matrix": (lambda x: x[:, None] * ab.exp(x), X),
    "from a matrix": (lambda x: ab.matmul(x, X), A),
    "to a scalar": (lambda x: (x * x * x).sum(), A),
    "a broadcast": (lambda x: x + A, np.ones(4)),
    "selected": (lambda x: ab.where(x > 0.0, x * x, 3.0 * x), X),
}


@pytest.mark.parametrize("way", WAYS, ids=lambda w: f"{w['mode']}-{w['chunk']}")
@pytest.mark.parametrize("name", MAPS)
def test_a_jacobian_agrees_with_differences(name: str, way: Any) -> None:
    f, x = MAPS[name]
    found = ab.jacobian(f, **way)(x)
    assert (found.shape, found.dtype) == (np.shape(f(x)) + x.shape, x.dtype)
    assert np.allclose(found, differences(f, x), rtol=1e-6, atol=1e-8)


@pytest.mark.usefixtures("on_reference")
@pytest.mark.parametrize("name", MAPS)
def test_both_modes_and_every_front_end_agree(name: str) -> None:
    f, x = MAPS[name]
    wanted = ab.jacobian(f)(x)
    for way in WAYS:
        jacobian = ab.jacobian(f, **way)
        found = jacobian(x)
        assert np.allclose(found, wanted, rtol=1e-13, atol=1e-15)
        assert ab.compile(jacobian)(x).tobytes() == found.tobytes()
        assert ab.jacobian(ab.compile(f), **way)(x).tobytes() == found.tobytes()
        of_tensor = jacobian(ab.tensor(x))
        assert type(of_tensor) is ab.Tensor and of_tensor.data.tobytes() == found.tobytes()


def test_signs_of_zeros_survive_the_joining_of_rows() -> None:
    f = lambda x: x * np.array([-0.0, 0.0, -1.0])  # noqa: E731
    for mode in ("forward", "reverse"):
        jacobian = ab.jacobian(f, mode=mode)
        found = jacobian(np.ones(3))
        assert np.signbit(found).tolist() == np.signbit(ab.compile(jacobian)(np.ones(3))).tolist()
        assert np.signbit(found[0, 0]) and not np.signbit(found[1, 1])


@pytest.mark.usefixtures("on_reference")
@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_by_hand(mode: str) -> None:
    g = ab.Graph("demo")
    x = g.parameter("x", (4,), ab.float64)
    matrix = ab.jacobian(layer, mode=mode)(x)
    assert matrix.aval.shape == (3, 4)
    assert g.compile(matrix)(X).tobytes() == ab.jacobian(layer, mode=mode)(X).tobytes()


def test_the_mode_with_fewer_sweeps_is_chosen() -> None:
    wide, high = lambda x: x[:2] * x[1:3], lambda x: ab.exp(x)[:, None] * X
    assert ab.jacobian(wide).plan(X).mode == "reverse"
    assert ab.jacobian(high).plan(X).mode == "forward"
    assert ab.jacobian(ab.sin).plan(X).mode == "forward"
    for f in (wide, high, ab.sin):
        plans = [ab.jacobian(f, mode=mode).plan(X) for mode in ("auto", "forward", "reverse")]
        assert plans[0].sweeps == min(plan.sweeps for plan in plans)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_f_runs_once(mode: str) -> None:
    calls = []

    def f(x):
        calls.append(1)
        return ab.sin(x)

    ab.jacobian(f, mode=mode)(X)
    assert len(calls) == 1


class Pair(NamedTuple):
    w: Any
    b: Any


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_containers_stand_inside_containers(mode: str) -> None:
    def f(p, c):
        return {"sum": p.w.sum() * p.b, "both": [p.w * c, ab.sin(p.b)]}

    p = Pair(np.array([1.0, 2.0]), np.float64(3.0))
    for run in (ab.jacobian(f, mode=mode), ab.compile(ab.jacobian(f, mode=mode))):
        found = run(p, 5.0)
        assert type(found["sum"]) is Pair and type(found["both"]) is list
        assert (found["sum"].w.tolist(), float(found["sum"].b)) == ([3.0, 3.0], 3.0)
        assert found["both"][0].w.tolist() == [[5.0, 0.0], [0.0, 5.0]]
        assert found["both"][0].b.tolist() == [0.0, 0.0]
        assert found["both"][1].w.tolist() == [0.0, 0.0]
        assert float(found["both"][1].b) == pytest.approx(np.cos(3.0))
    by_p, by_c = ab.jacobian(f, (0, "c"), mode=mode)(p, 5.0)["both"][0]
    assert (by_p.b.tolist(), by_c.tolist()) == ([0.0, 0.0], [1.0, 2.0])
    (only,) = ab.jacobian(f, ("c",), mode=mode)(p, c=5.0)["sum"]
    assert float(only) == 0.0


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_structural_zeros_fill_their_place(mode: str) -> None:
    f = lambda x, y: (x * 2.0, 3.0, np.ones(2), y)  # noqa: E731
    for run in (ab.jacobian(f, mode=mode), ab.compile(ab.jacobian(f, mode=mode))):
        doubled, number, array, other = run(X, np.ones(3))
        assert doubled.tolist() == (2.0 * np.eye(4)).tolist()
        assert (number.shape, array.shape, other.shape) == ((4,), (2, 4), (3, 4))
        assert not number.any() and not array.any() and not other.any()


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_dtypes_are_the_arguments(mode: str) -> None:
    narrow = ab.jacobian(lambda x: x * np.float64(2.0), mode=mode)(np.ones(2, np.float32))
    assert (narrow.dtype, narrow.tolist()) == (np.float32, [[2.0, 0.0], [0.0, 2.0]])
    number = ab.jacobian(ab.sin, mode=mode)(1)
    assert (type(number), float(number)) == (np.float64, np.cos(1.0))
    lists = ab.jacobian(lambda v: v[0] * v[1], mode=mode)([2, 3.0])
    assert [float(one) for one in lists] == [3.0, 2.0]


def test_empty_arrays_have_empty_matrices() -> None:
    for mode in ("forward", "reverse"):
        jacobian = ab.jacobian(lambda x: (x[:0], x.sum()), mode=mode)
        for run in (jacobian, ab.compile(jacobian)):
            assert [m.shape for m in run(X)] == [(0, 4), (4,)]
            assert [m.shape for m in run(np.ones((0,)))] == [(0, 0), (0,)]


def test_aux_is_handed_through() -> None:
    f = lambda x: (x * x, {"sum": x.sum(), "note": "kept"})  # noqa: E731
    matrix, aux = ab.jacobian(f, has_aux=True)(X)
    assert np.array_equal(matrix, 2.0 * np.diag(X))
    assert (float(aux["sum"]), aux["note"]) == (X.sum(), "kept")
    h = lambda x: ((x * x).sum(), x + 1.0)  # noqa: E731
    matrix, aux = ab.hessian(h, has_aux=True)(X)
    assert np.array_equal(matrix, 2.0 * np.eye(4)) and np.array_equal(aux, X + 1.0)
    (slope,), (product,), aux = ab.hvp(h, (X,), (np.ones(4),), has_aux=True)
    assert np.array_equal(slope, 2.0 * X) and np.array_equal(product, 2.0 * np.ones(4))
    assert type(aux) is np.ndarray


def test_results_share_memory_with_nothing() -> None:
    x = X.copy()
    first, second = ab.jacobian(lambda v: (v, v))(x)
    first[:] = 7.0
    assert np.array_equal(second, np.eye(4)) and np.array_equal(x, X)


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: ab.jacobian(3), "bad-argument"),
        (lambda: ab.hessian(None), "bad-argument"),
        (lambda: ab.hvp("f", (1.0,), (1.0,)), "bad-argument"),
        (lambda: ab.jacobian(ab.sin, mode="both"), "bad-argument"),
        (lambda: ab.jacobian(ab.sin, chunk=0), "bad-argument"),
        (lambda: ab.hessian(ab.sin, chunk=1.5), "bad-argument"),
        (lambda: ab.hvp(ab.sin, 1.0, 1.0), "bad-argument"),
        (lambda: ab.hvp(lambda x: (x * x).sum(), (X,), (X[:2],)), "shape-mismatch"),
        (lambda: ab.hessian(ab.sin)(X), "not-a-scalar"),
        (lambda: ab.jacobian(lambda x: x > 0.0)(X), "integer-gradient"),
        (lambda: ab.jacobian(lambda x: "text")(X), "bad-result"),
        (lambda: ab.jacobian(ab.sin)(np.array([1, 2])), "integer-gradient"),
        (lambda: ab.jacobian(ab.sin, "y")(X), "no-such-argument"),
        (lambda: ab.jacobian(ab.sin, has_aux=True)(X), "no-aux"),
    ],
)
def test_what_has_no_meaning_is_refused(make: Any, code: str) -> None:
    with pytest.raises(ab.AnabranchError) as caught:
        make()
    assert caught.value.code == code


def test_errors_name_the_service_and_the_argument() -> None:
    with pytest.raises(ab.errors.DTypeError, match='jacobian has no meaning for "steps"'):
        ab.jacobian(lambda steps: steps * 2.0)(np.arange(3))
    with pytest.raises(ab.errors.DTypeError, match='hessian has no meaning for "steps"'):
        ab.hessian(lambda steps: (steps * 2.0).sum())(np.arange(3))


# The peak


def shifted(x):
    """R^n to R^n, each output a product of two inputs."""
    return x * x[::-1] * 0.5


@pytest.mark.proves("F-113")
@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_the_peak_of_a_large_jacobian_holds_a_chunk_of_rows(mode: str) -> None:
    x = np.linspace(1.0, 2.0, 1000)
    jacobian = ab.jacobian(shifted, mode=mode, chunk=10)
    plan = jacobian.plan(x)
    assert (plan.mode, plan.sweeps, plan.chunk) == (mode, 1000, 10)
    assert (plan.row_bytes, plan.result_bytes) == (8_000, 8_000_000)
    assert plan.peak_bytes == 8_000_000 + 10 * 8_000 + plan.sweep_bytes
    tracemalloc.start()
    try:
        found = jacobian(x)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Objects of Python and the values of f come on top of what is predicted.
    assert plan.result_bytes < peak < plan.peak_bytes + 200_000
    wanted = np.diag(0.5 * x[::-1]) + np.diag(0.5 * x)[:, ::-1]
    assert np.allclose(found, wanted, rtol=1e-15)


@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_no_more_rows_than_a_chunk_are_alive_at_once(chunk: int, monkeypatch) -> None:
    """Count the rows between their sweep and their writing."""
    from anabranch.frontends import evaluation  # noqa: PLC0415  # what is watched here only

    alive, most = [], []

    class Row(list):
        def __init__(self, items):
            super().__init__(items)
            alive.append(1)
            most.append(len(alive))

        def __del__(self):
            alive.pop()

    pull = evaluation.Evaluation.pull
    monkeypatch.setattr(evaluation.Evaluation, "pull", lambda *a: Row(pull(*a)))
    ab.jacobian(shifted, mode="reverse", chunk=chunk)(np.ones(100))
    assert max(most) == chunk and not alive


def test_a_plan_says_what_it_counts() -> None:
    plan = ab.jacobian(layer, chunk=2).plan(X)
    assert str(plan) == (
        f"reverse mode, 3 sweeps, 2 rows held at once\n"
        f"peak {plan.peak_bytes} bytes: result 96, rows 2 x 32, one sweep {plan.sweep_bytes}"
    )
    assert "columns" in str(ab.jacobian(layer, mode="forward").plan(X))


def test_a_compiled_jacobian_holds_one_array_of_numbers() -> None:
    run = ab.compile(ab.jacobian(shifted, mode="reverse"))
    run(np.ones(50))
    lines = run.explain_compiles().splitlines()
    assert [line for line in lines if line.startswith("  constant")] == [
        line for line in lines if "i64[50]" in line
    ]
    assert not [line for line in lines if "fixed number" in line]


# Hessians


def rosenbrock(x):
    return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()


def rosenbrock_hessian(x):
    """The closed form, as in the documentation of scipy.optimize."""
    diagonal = np.zeros_like(x)
    diagonal[0] = 1200 * x[0] ** 2 - 400 * x[1] + 2
    diagonal[1:-1] = 202 + 1200 * x[1:-1] ** 2 - 400 * x[2:]
    diagonal[-1] = 200
    return np.diag(-400 * x[:-1], 1) + np.diag(-400 * x[:-1], -1) + np.diag(diagonal)


@pytest.mark.parametrize("way", WAYS, ids=lambda w: f"{w['mode']}-{w['chunk']}")
@pytest.mark.parametrize("size", [2, 5])
def test_the_hessian_of_rosenbrock(size: int, way: Any) -> None:
    x = np.random.default_rng(size).normal(size=size)
    hessian = ab.hessian(rosenbrock, **way)
    found = hessian(x)
    assert np.allclose(found, rosenbrock_hessian(x), rtol=1e-12, atol=1e-12)
    assert np.allclose(found, found.T, rtol=1e-13)
    assert ab.compile(hessian)(x).tobytes() == found.tobytes()
    assert np.allclose(ab.hessian(ab.compile(rosenbrock), **way)(x), found, rtol=1e-13)
    assert np.allclose(ab.hessian(rosenbrock, **way)(ab.tensor(x)).data, found, rtol=1e-13)


def test_a_hessian_over_containers_is_symmetric() -> None:
    def f(p, c):
        return (ab.tanh(ab.matmul(p["w"], p["x"])) * c).sum() * p["s"]

    p = {"w": A, "x": X, "s": 0.7}
    blocks, c = ab.hessian(f)(p, np.array([1.0, -1.0, 2.0])), np.array([1.0, -1.0, 2.0])
    for one, a in p.items():
        for other, b in p.items():
            block = blocks[one][other]
            assert block.shape == np.shape(a) + np.shape(b)
            turned = blocks[other][one].reshape(np.size(b), np.size(a)).T
            assert np.allclose(block.reshape(np.size(a), np.size(b)), turned, rtol=1e-12)
    by_p, (cp, cc) = ab.hessian(f, (0, 1))(p, c)
    assert np.allclose(by_p["w"][0]["x"], blocks["w"]["x"]) and not cc.any()
    assert np.allclose(by_p["x"][1], cp["x"].T)


@pytest.mark.parametrize("f", [rosenbrock, lambda x: ab.exp(ab.sin(x).sum()) * x[0]])
def test_a_product_is_that_of_the_hessian(f: Any) -> None:
    v = np.array([1.0, -2.0, 0.5, 3.0])
    (slope,), (product,) = ab.hvp(f, (X,), (v,))
    assert np.allclose(slope, ab.grad(f)(X), rtol=1e-14)
    assert np.allclose(product, ab.hessian(f)(X) @ v, rtol=1e-12)
    run = ab.compile(lambda x, v: ab.hvp(f, (x,), (v,))[1][0])
    assert np.allclose(run(X, v), product, rtol=1e-14)
    (_,), (of_tensor,) = ab.hvp(f, (ab.tensor(X),), (ab.tensor(v),))
    assert np.allclose(of_tensor.data, product, rtol=1e-14)


def test_a_product_over_several_arguments() -> None:
    f = lambda p, s: (p["a"] * p["a"] * s).sum()  # noqa: E731
    primals, tangents = ({"a": X}, 3.0), ({"a": np.ones(4)}, 0.5)
    slopes, products = ab.hvp(f, primals, tangents)
    assert np.allclose(slopes[0]["a"], 6.0 * X)
    assert np.allclose(products[0]["a"], 6.0 + 2.0 * X * 0.5)
    assert float(products[1]) == pytest.approx(2.0 * X.sum())


# One inside the other


def test_every_nesting_of_the_services() -> None:
    f = lambda x: (x**3).sum() + x[0] * x[1] ** 2  # noqa: E731
    x = np.array([1.0, 2.0])
    third = np.zeros((2, 2, 2))
    third[0, 0, 0] = third[1, 1, 1] = 6.0
    third[0, 1, 1] = third[1, 0, 1] = third[1, 1, 0] = 2.0
    for outer in ("forward", "reverse"):
        for inner in ("forward", "reverse"):
            tower = ab.jacobian(ab.hessian(f, mode=inner), mode=outer)
            assert np.allclose(tower(x), third, rtol=1e-13)
            assert np.allclose(ab.compile(tower)(x), third, rtol=1e-13)
    inside = ab.grad(lambda x: (ab.hessian(f)(x) * np.eye(2)).sum())(x)
    assert inside.tolist() == [6.0 + 2.0, 6.0]
    _, moved = ab.jvp(ab.hessian(f), (x,), (np.array([1.0, 10.0]),))
    assert np.allclose(moved, third @ np.array([1.0, 10.0]))
    product = ab.jacobian(lambda v: ab.hvp(f, (x,), (v,))[1][0])(np.ones(2))
    assert np.allclose(product, ab.hessian(f)(x))


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_recorded_tensors_go_on_through_a_jacobian(mode: str) -> None:
    x = ab.tensor(X, requires_grad=True)
    total = (ab.jacobian(lambda v: v * v * v, mode=mode)(x) ** 2).sum()
    total.backward()
    assert np.allclose(x.grad, 36.0 * X**3, rtol=1e-13)  # d/dx of 9 x⁴


def test_a_recorded_jacobian_is_a_tensor_also_where_it_is_constant() -> None:
    x = ab.tensor(X, requires_grad=True)
    for mode in ("forward", "reverse"):
        for f in (lambda v: v, lambda v: v[:1], lambda v: v * 2.0, lambda v: 1.0):
            assert type(ab.jacobian(f, mode=mode)(x)) is ab.Tensor
        assert type(ab.jacobian(lambda v: v, mode=mode)(ab.tensor(2.0))) is ab.Tensor


def test_a_jacobian_of_a_method_by_the_argument_after_self() -> None:
    class Model:
        def __init__(self) -> None:
            self.w = A

        def apply(self, x):
            return ab.matmul(self.w, x)

        slope = ab.jacobian(apply, "x")

    assert np.array_equal(Model().slope(X), A)
    assert np.array_equal(ab.jacobian(Model().apply)(X), A)
    assert ab.jacobian(layer).__name__ == "layer"
