"""ab.compile: one trace for each signature, composed with derivatives, results as called."""

import copy
import functools
import pickle
import threading
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import anabranch as ab


def compiles(f: Any) -> int:
    return int(f.explain_compiles().splitlines()[0].split()[-2])


def counted(function, **options):
    """The compiled function, and a list with one entry for each time it was traced."""
    traces = []

    @functools.wraps(function)
    def f(*args, **kwargs):
        traces.append(1)
        return function(*args, **kwargs)

    return ab.compile(f, **options), traces


@pytest.mark.parametrize(
    ("first", "second", "traces"),
    [
        (1.0, 2.0, 1),  # the value of a number does not count
        (1.0, 1, 2),  # its type does
        (1, True, 2),
        (1.0, np.float64(1.0), 2),  # weak against strong
        (np.float64(1.0), np.array(1.0), 1),
        (np.ones(2), np.zeros(2), 1),
        (np.ones(2), np.ones(3), 2),
        (np.ones(2), np.ones((2, 1)), 2),
        (np.ones(2), np.ones(2, np.float32), 2),
        (np.ones((2, 3)), np.ones((3, 2)).T, 1),
        (np.ones(2), ab.tensor([1.0, 2.0]), 1),
        (1j, 1.0, 2),
    ],
)
def test_a_signature_is_shape_dtype_and_kind_of_number(first, second, traces) -> None:
    f, seen = counted(lambda x: x * 2)
    for argument in (first, second, first, second):
        assert np.array_equal(np.asarray(f(argument)), np.asarray(argument) * 2)
    assert len(seen) == compiles(f) == traces


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("a", "b"), (b"a", "a"), ("a", None), ([1.0], (1.0,)), ([1.0], [1.0, 1.0]),
        ({"a": 1.0}, {"b": 1.0}), (None, 1.0), ((1.0, None), (None, 1.0)),
        (np.sin, np.cos), (ab.sin, ab.cos), ({"m": "a"}, {"m": "b"}),
    ],
)  # fmt: skip
def test_strings_callables_and_containers_are_part_of_the_signature(first, second) -> None:
    f, seen = counted(lambda x, how: x * 2.0)
    for how in (first, second, first, second):
        assert f(3.0, how) == 6.0
    assert len(seen) == 2


@pytest.mark.parametrize(
    ("first", "second"),
    [(1, 2), (1, 1.0), (1, True), (0.0, -0.0), (1.0, np.float64(1.0)), ((1,), [1]), (None, 0),
     ({"a": 1}, {"a": 2}), (np.array([1]), np.array([2])), ("1", 1), ((1, 2.0), (1, 2))],
)  # fmt: skip
def test_static_values_count_by_type_and_bits(first, second) -> None:
    f, seen = counted(lambda x, s: x * 2.0, static="s")
    for value in (first, second, first, second):
        assert f(3.0, value) == 6.0
    assert len(seen) == 2


def test_static_arguments_are_themselves_in_the_function() -> None:
    @ab.compile(static=("n", 2))
    def power(x, n, flag):
        for _ in range(n):
            x = x * x
        return x if flag else -x

    assert [float(power(2.0, n, flag)) for n, flag in ((1, True), (2, True), (2, False))] == [
        4.0, 16.0, -16.0,
    ]  # fmt: skip
    assert power(2.0, n=3, flag=True) == 256.0


@pytest.mark.parametrize("static", ["nosuch", 5, ("x", "nosuch")])
def test_a_static_name_that_the_function_does_not_have(static) -> None:
    with pytest.raises(ab.errors.ArgumentError):
        ab.compile(lambda x: x, static=static)(1.0)


def test_options_and_keywords_are_part_of_the_signature() -> None:
    f, seen = counted(lambda x, k=2.0: ab.grad(lambda v: ab.where(v > 0.0, ab.sqrt(v), 0.0) * k)(x))
    assert f(0.0) == f(0.0, k=2.0) == f(k=2.0, x=0.0) == 0.0
    calls = len(seen)
    with ab.config(absorb_zero=False):
        assert np.isnan(f(0.0))
        assert len(seen) == calls + 1
    assert f(0.0) == 0.0
    assert len(seen) == calls + 1


def test_the_order_of_keywords_does_not_count() -> None:
    f, seen = counted(lambda x, y: x - y)
    assert f(x=3.0, y=1.0) == f(y=1.0, x=3.0) == 2.0
    assert len(seen) == 1


def test_weak_numbers_keep_narrow_arrays_narrow() -> None:
    f = ab.compile(lambda x, k: x * k + 1.0)
    assert f(np.ones(2, np.float32), 2.0).dtype == np.float32
    assert f(np.ones(2, np.float16), 2).dtype == np.float16
    assert f(np.ones(2, np.float32), np.float64(2.0)).dtype == np.float64
    assert f(2, 3).dtype == np.float64
    assert type(f(2, 3)) is np.float64
    g = ab.compile(lambda x, k: x * (k / 2))
    assert g(np.ones(2, np.float32), 3).dtype == np.float32


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclass
class Box:
    a: Any
    label: str = "box"


def test_results_come_in_the_containers_of_the_function() -> None:
    x = np.array([1.0, 2.0])
    for out, check in [
        (lambda v: Pair(v, v * 2.0), lambda r: type(r) is Pair and r.b.tolist() == [2.0, 4.0]),
        (lambda v: {"k": [v, None]}, lambda r: r["k"][1] is None and r["k"][0].tolist() == [1, 2]),
        (lambda v: Box(v + 1.0), lambda r: type(r) is Box and r.label == "box"),
        (lambda v: (), lambda r: r == ()),
        (lambda v: None, lambda r: r is None),
        (lambda v: 3.0, lambda r: r == 3.0 and type(r) is float),
        (lambda v: "text", lambda r: r == "text"),
        (lambda v: (v, v), lambda r: not np.shares_memory(r[0], r[1])),
        (lambda v: v, lambda r: not np.shares_memory(r, x)),
        (lambda v: v[0], lambda r: isinstance(r, np.float64)),
        (lambda v: np.arange(3), lambda r: r.tolist() == [0, 1, 2] and r.flags.writeable),
        (lambda v: ab.tensor([7.0]), lambda r: np.asarray(r).tolist() == [7.0]),
    ]:
        f = ab.compile(out)
        assert check(f(x)) and check(f(x))


def test_a_result_that_would_carry_values_out_of_their_trace_is_refused() -> None:
    def generator(x):
        yield x

    for function in (lambda x: {x}, lambda x: iter([x]), generator):
        with pytest.raises(ab.AnabranchError):
            ab.compile(function)(1.0)


def test_two_results_that_are_one_value_are_two_arrays() -> None:
    for function in (lambda v: (v * 2.0, v * 2.0), lambda v: [v + 1.0] * 2):
        first, second = ab.compile(function)(np.ones(2))
        first[:] = 9.0
        assert second.tolist() == [2.0, 2.0]


def test_results_of_two_calls_share_nothing() -> None:
    captured = np.array([5.0])
    for function in (lambda v: v * 1.0, lambda v: v, lambda v: np.arange(2.0), lambda v: captured,
                     lambda v: v.reshape(2), lambda v: ab.broadcast_to(v, (3, 2))):  # fmt: skip
        f = ab.compile(function)
        x = np.ones(2)
        first = f(x)
        first[...] = 99.0
        assert not np.any(f(x) == 99.0)
        assert x.tolist() == [1.0, 1.0] and captured.tolist() == [5.0]


def test_tensors_in_tensors_out() -> None:
    f = ab.compile(lambda x, y: (x * y, x > y))
    assert {type(v) for v in f(np.ones(2), np.ones(2))} == {np.ndarray}
    assert {type(v) for v in f(np.ones(2), ab.tensor([1.0, 2.0]))} == {ab.Tensor}


def test_a_function_without_arguments() -> None:
    w = np.array([1.0, 2.0])
    assert ab.compile(lambda: (w * ab.exp(0.0)).sum())() == 3.0


@pytest.mark.parametrize("order", [1, 2])
def test_compile_of_grad_and_grad_of_compile(order: int) -> None:
    def f(x):
        return (ab.sin(x) * x * np.array([1.0, 2.0])).sum()

    plain, inside, outside = f, f, ab.compile(f)
    for _ in range(order):
        plain, inside, outside = map(ab.grad, (plain, inside, outside))
    compiled = ab.compile(inside)
    wanted = plain(0.7)
    assert float(compiled(0.7)) == pytest.approx(float(wanted), rel=1e-15)
    assert float(outside(0.7)) == pytest.approx(float(wanted), rel=1e-15)
    both = ab.compile(lambda x: outside(x))
    assert float(both(0.7)) == pytest.approx(float(wanted), rel=1e-15)


def test_derivatives_of_compiled_functions_in_all_transforms() -> None:
    f = ab.compile(lambda p, x: {"out": (p["w"] * x).sum(), "aux": x})
    p, x = {"w": np.array([1.0, 2.0])}, np.array([3.0, 4.0])
    slope = ab.grad(lambda q: f(q, x)["out"])(p)
    assert slope["w"].tolist() == [3.0, 4.0]
    out, pullback = ab.vjp(lambda q: f(q, x)["out"], p)
    assert (float(out), pullback(2.0)[0]["w"].tolist()) == (11.0, [6.0, 8.0])
    _, t = ab.jvp(lambda q: f(q, x)["out"], (p,), (p,))
    assert float(t) == 11.0


def test_backward_through_a_compiled_call() -> None:
    w = ab.tensor([1.0, 2.0], requires_grad=True)
    f = ab.compile(lambda a, k: (a * a).sum() * k)
    f(w, 3.0).backward()
    assert w.grad.tolist() == [6.0, 12.0]
    with ab.no_grad():
        assert not f(w, 3.0).requires_grad


@pytest.mark.proves("S4-34")
def test_a_recorded_call_computes_only_what_the_result_needs(spy) -> None:
    f = ab.compile(lambda x: (spy(x, x), x * 2.0)[1])
    w = ab.tensor(3.0, requires_grad=True)
    f(w).backward()
    assert (float(w.grad), spy.values) == (2.0, [])


def test_a_compiled_function_inside_another_becomes_part_of_it() -> None:
    inner = ab.compile(lambda x: x * x)
    outer = ab.compile(lambda x: inner(x) + inner(x))
    assert outer(3.0) == 18.0
    assert [n.op.name for n in outer.trace(3.0).graph] == ["parameter", "multiply", "multiply",
                                                           "add"]  # fmt: skip
    assert outer.graph(3.0).nodes[-1].op.name == "add"
    assert len(outer.graph(3.0)) == 3  # merged


def test_on_nodes_of_a_graph_by_hand_it_appends() -> None:
    f = ab.compile(lambda x, k: x * k)
    g = ab.Graph("demo")
    x = g.parameter("x", (), ab.float64)
    y = f(x, 2.0)
    assert y.graph is g
    assert float(g.compile(y)(3.0)) == 6.0


class Model:
    def __init__(self) -> None:
        self.w = np.array([1.0, 2.0])

    @ab.compile(static="self")
    def step(self, x):
        return x * self.w

    @ab.compile
    def plain(self, x):
        return x * self.w

    def method(self, x):
        return x * self.w


def test_methods_with_self_static() -> None:
    first, second = Model(), Model()
    second.w = np.array([10.0, 20.0])
    for _ in range(2):
        assert first.step(np.ones(2)).tolist() == [1.0, 2.0]
        assert second.step(np.ones(2)).tolist() == [10.0, 20.0]
    assert Model.step(first, np.ones(2)).tolist() == [1.0, 2.0]


def test_a_method_of_an_ordinary_class_says_what_to_do() -> None:
    with pytest.raises(ab.errors.ArgumentError, match="bad-argument") as caught:
        Model().plain(np.ones(2))
    assert "Model" in caught.value.sentence
    assert "static" in caught.value.hint


def test_a_bound_method_compiles_once() -> None:
    model = Model()
    f = ab.compile(model.method)
    assert f(np.ones(2)).tolist() == f(np.ones(2)).tolist() == [1.0, 2.0]
    apply, traces = counted(lambda fn, x: fn(x))
    for _ in range(3):
        apply(model.method, np.ones(2))
    assert len(traces) == 1


@pytest.mark.parametrize("value", [object(), {1, 2}, np.array([None]), np.array(["a"]), range(3)])
def test_arguments_that_are_no_arrays(value: object) -> None:
    with pytest.raises(ab.AnabranchError):
        ab.compile(lambda x: 1.0)(value)


def test_wrong_arguments_are_pythons_own_error() -> None:
    f = ab.compile(lambda x: x)
    for call in (lambda: f(), lambda: f(1.0, 2.0), lambda: f(y=1.0)):
        with pytest.raises(TypeError):
            call()
    assert f(1.0) == 1.0


def test_a_failing_trace_is_not_kept() -> None:
    fail = [True]

    def f(x):
        if fail[0]:
            raise ValueError("not yet")
        return x * 2.0

    g = ab.compile(f)
    with pytest.raises(ValueError, match="not yet"):
        g(1.0)
    fail[0] = False
    assert g(1.0) == 2.0


def test_shapes_are_checked_while_tracing_at_the_users_line() -> None:
    def f(x, w):
        return x @ w

    with pytest.raises(ab.errors.ShapeError, match="shape-mismatch") as caught:
        ab.compile(f)(np.ones((2, 3)), np.ones((4, 5)))
    assert caught.value.source.text == "return x @ w"
    assert [f.split(":")[0] for f in caught.value.facts] == ["x", "w"]


# Why it compiled


@pytest.mark.proves("F-87")
def test_each_compile_has_its_reason() -> None:
    f = ab.compile(lambda x, **kw: x * 2)
    f(1.0)
    f(1.0)
    f(np.ones(3))
    f(np.ones(3, np.float32))
    f(np.ones(3, np.float32), extra=1.0)
    f([1.0])
    with ab.config(absorb_zero=False):
        f([2.0])
    lines = [line.strip() for line in f.explain_compiles().splitlines()[:7]]
    assert lines[0] == "<lambda>: 6 compiles"
    assert lines[1] == "1: first call"
    assert "f64[] number became f64[3]" in lines[2]
    assert "f64[3] became f32[3]" in lines[3]
    assert "containers or the number of arguments" in lines[4]
    assert "containers or the number of arguments" in lines[5]
    assert "options" in lines[6]


def test_many_compiles_warn_once_with_the_reason() -> None:
    f = ab.compile(lambda x: x + 1.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(1, 20):
            f(np.ones(n))
    assert len(caught) == 1
    assert "<lambda>" in str(caught[0].message) and "became" in str(caught[0].message)
    assert caught[0].filename == __file__


def test_the_cache_is_bounded() -> None:
    f, traces = counted(lambda x: x + 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in range(200):
            f(np.ones(n))
        assert "128 signatures" in repr(f)
        f(np.ones(199))
        assert len(traces) == 200
        f(np.ones(50))
    assert len(traces) == 201


@pytest.mark.proves("S4-19")
def test_the_five_steps_of_a_trace_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    def double(x):
        print("inside")
        return x + x

    f = ab.compile(double, verbose=True)
    f(1.0)
    f(2.0)
    lines = capsys.readouterr().out.splitlines()
    assert [line.removeprefix("double: ")[:6] for line in lines] == [
        "1 new ", "2 para", "3 call", "inside", "4 outp", "5 comp",
    ]  # fmt: skip


@pytest.mark.proves("S4-43", "S0-04")
def test_a_thousand_calls_give_the_same_bits_and_build_nothing() -> None:
    f, traces = counted(ab.value_and_grad(lambda x: (ab.sin(x) * ab.exp(x)).sum()))
    x = np.linspace(-2.0, 2.0, 7)
    value, slope = f(x)
    program = f.program(x)
    for _ in range(1_000):
        again, slope_again = f(x)
        assert (again.tobytes(), slope_again.tobytes()) == (value.tobytes(), slope.tobytes())
    assert len(traces) == 1
    assert f.program(x) is program


# Threads


@pytest.mark.proves("S4-20")
def test_two_threads_that_trace_at_once_do_not_mix() -> None:
    barrier = threading.Barrier(2, timeout=10)
    found: dict[str, Any] = {}

    def work(name: str, factor: float) -> None:
        def f(x):
            y = x * factor
            barrier.wait()  # both are in the middle of their trace
            z = ab.exp(y) + y
            barrier.wait()
            return z

        found[name] = ab.trace(f, 1.0)

    threads = [threading.Thread(target=work, args=a) for a in (("a", 2.0), ("b", 3.0))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for name, factor in (("a", "2.0"), ("b", "3.0")):
        ab.check(found[name])
        assert [n.op.name for n in found[name]] == ["parameter", "multiply", "exp", "add"]
        assert f"multiply(#0, {factor})" in str(found[name])


@pytest.mark.proves("S4-20")
def test_eager_work_in_one_thread_during_a_trace_in_another() -> None:
    inside, go_on = threading.Event(), threading.Event()
    results = []

    def f(x):
        inside.set()
        assert go_on.wait(10)
        return x * 2.0

    thread = threading.Thread(target=lambda: results.append(ab.compile(f)(3.0)))
    thread.start()
    assert inside.wait(10)
    x = ab.tensor(2.0, requires_grad=True)
    y = x * x
    y.backward()
    go_on.set()
    thread.join()
    assert (float(x.grad), float(results[0])) == (4.0, 6.0)


@pytest.mark.proves("S4-20")
def test_nested_traces_do_not_mix() -> None:
    graphs = []

    def outer(x):
        y = x * 2.0
        graphs.append(ab.trace(lambda a: a + 1.0, 1.0))
        return y + 3.0

    g = ab.trace(outer, 1.0)
    assert [n.op.name for n in g] == ["parameter", "multiply", "add"]
    assert [n.op.name for n in graphs[0]] == ["parameter", "add"]


@pytest.mark.proves("S4-20")
def test_many_threads_call_one_compiled_function() -> None:
    f = ab.compile(lambda x: (x * x).sum())
    errors = []

    def work(n: int) -> None:
        try:
            for k in range(1, 30):
                x = np.full(k, float(n))
                assert float(f(x)) == k * n * n
        except BaseException as error:
            errors.append(error)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert errors == []


# What runs it


def test_machine_code_runs_what_names_no_backend() -> None:
    f = ab.compile(lambda x: x * 2.0)
    by_hand = ab.Graph("by hand")
    run = by_hand.compile(by_hand.parameter("x", (), ab.float64) * 2.0)
    for program in (f.program(3.0), run.program):
        assert type(program.executable).__name__ == "NativeExecutable"


def test_a_block_can_ask_for_the_reference() -> None:
    f = ab.compile(lambda x: ab.tanh(x))
    x = np.linspace(-3.0, 3.0, 101)
    fast = f(x)
    with ab.config(backend="reference"):
        assert f(x).tobytes() == np.tanh(x).tobytes()
        assert type(f.program(x).executable).__name__ == "ReferenceExecutable"
        named = ab.compile(lambda x: x * 2.0, backend="native")
        assert type(named.program(3.0).executable).__name__ == "NativeExecutable"
    assert f(x).tobytes() == fast.tobytes()
    assert f.explain_compiles().splitlines()[2] == "  2: the options changed"


def test_an_unknown_backend_is_refused_where_it_is_written() -> None:
    with pytest.raises(ab.errors.ArgumentError, match="unknown-backend"):
        ab.config(backend="abacus").__enter__()
    with pytest.raises(ab.errors.ArgumentError, match="unknown-backend"):
        ab.compile(lambda x: x, backend="abacus")


@ab.compile
def doubled(x):
    return x * 2.0


def times(x, n):
    return x * n


class Stepping:
    def __init__(self):
        self.w = np.ones(2)
        self.step = ab.compile(self.forward)

    def forward(self, x):
        return x * self.w


WAYS = [copy.copy, copy.deepcopy, lambda f: pickle.loads(pickle.dumps(f))]


@pytest.mark.parametrize("way", WAYS, ids=["copied", "deeply", "pickled"])
@pytest.mark.parametrize("calls", [0, 1, 2])
def test_copies_compute_the_same_and_leave_the_original_as_it_was(way, calls) -> None:
    x = np.array([1.0, 2.0])
    f = ab.compile(times, static="n")
    for _ in range(calls):
        f(x, 3)
    copied = way(f)
    for _ in range(2):
        assert copied(x, 3).tolist() == f(x, 3).tolist() == [3.0, 6.0]
    del copied
    assert f(x, 3).tolist() == [3.0, 6.0]
    assert f(x[:1], 3).tolist() == [3.0]
    assert f(np.float32(2.0), 3) == 6.0


def test_a_decorated_function_is_pickled_by_its_name() -> None:
    doubled(1.0)
    assert pickle.loads(pickle.dumps(doubled)) is doubled


def test_a_deep_copy_of_an_object_computes_with_what_it_holds_itself() -> None:
    one = Stepping()
    assert one.step(3.0).tolist() == [3.0, 3.0]
    for other in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        other.w[:] = 2.0
        assert other.step(3.0).tolist() == [6.0, 6.0]
        assert one.step(3.0).tolist() == [3.0, 3.0]
