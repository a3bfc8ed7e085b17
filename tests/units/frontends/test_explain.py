"""What a compiled function tells of itself: passes, steps, memory, code, times."""

import gc
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

import anabranch as ab
from anabranch.backends.plan import Kernel, Limits
from anabranch.frontends.explaining import Explanation

PASSES = ["prune", "fold", "algebra", "merge", "prune"]
X = np.linspace(-1.0, 1.0, 12).reshape(3, 4)


def told(f: object, *args: object, **options: object) -> Explanation:
    return ab.compile(f, backend="native", **options).explain(*args)  # type: ignore[arg-type]


def kernel(f: object, *args: object) -> Kernel:
    (found,) = told(f, *args).kernels
    return found


# Steps


def test_a_loop_names_its_nodes_with_their_lines() -> None:
    def f(x, b):
        y = x * b
        return ab.sum(y + 1.0)

    found = kernel(f, X, X[0])
    line = f.__code__.co_firstlineno + 1
    assert (found.kind, found.space, found.order) == ("loop", (3, 4), "3 x 4, 4 at once")
    assert [(node.op, node.type) for node in found.nodes] == [
        ("multiply", "f64[3,4]"), ("add", "f64[3,4]"), ("sum", "f64[]"),
    ]  # fmt: skip
    assert [node.sources for node in found.nodes] == [
        (f"test_explain.py:{line}",), (f"test_explain.py:{line + 1}",),
        (f"test_explain.py:{line + 1}",),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("f", "args", "read", "written", "flops"),
    [
        (lambda x: x + 1.0, (X,), 96, 96, 12),
        (lambda x: x * x + x, (X,), 96, 96, 24),  # x is read once
        (lambda x, b: x + b, (X, X[0]), 96 + 32, 96, 12),  # what is repeated counts once
        (lambda x, y: x + y, (X, X.T.copy().T), 96 + 96, 96, 12),
        (lambda x: ab.sum(x), (X,), 96, 8, 12),
        (lambda x: ab.sum(x, axis=0), (X,), 96, 32, 12),
        (lambda x: ab.sqrt(x) / 2.0, (X,), 96, 96, 24),
        (lambda x: ab.sin(x), (X,), 96, 96, None),
        (lambda x: x.astype(ab.float32) * 2.0, (X,), 96, 48, 12),
        (lambda x: x > 0.0, (X,), 96, 12, 0),
        (lambda b: ab.sqrt(ab.broadcast_to(b, (3, 4))), (X[0],), 32, 96, 12),
        (lambda i: i + 1, (np.arange(5),), 40, 40, 0),
        (lambda i: ab.sum(i), (np.arange(5),), 40, 8, 0),
        (lambda x: x[::2, 1:] + 1.0, (X,), 48, 48, 6),
        (lambda x: x + 1.0, (X[:, :0],), 0, 0, 0),
        (lambda x, y: x @ y, (X, X.T.copy()), 192, 72, 2 * 3 * 4 * 3),
        (lambda x, y: x @ y, (X, X[0]), 96 + 32, 24, 2 * 3 * 4),
        (lambda x: (x.T, x + 1.0)[0], (X,), 96, 96, 0),
    ],
)
def test_bytes_and_operations(
    f: object, args: tuple[np.ndarray, ...], read: int, written: int, flops: int | None
) -> None:
    found = kernel(f, *args)
    assert (found.read, found.written) == (read, written)
    if flops is None:
        assert found.flops > 12 * 15  # a polynomial
    else:
        assert found.flops == flops


ROWS = np.ones((100, 8))
FEW = np.array([1, 5, 5])
NEW = np.ones((3, 8))


@pytest.mark.parametrize(
    ("f", "args", "read", "written", "flops"),
    [
        (lambda x, i: x[i], (ROWS, FEW), 3 * 64 + 24, 3 * 64, 0),  # only what is selected
        (lambda x, i: x[i], (ROWS[:1], 0 * FEW), 64 + 24, 3 * 64, 0),
        (lambda x, i: ab.dynamic_slice(x, (i, 0), (2, 8)), (ROWS, 3), 128 + 8, 128, 0),
        (lambda x, i, u: x.at[i].add(u), (ROWS, FEW, NEW), 6400 + 192 + 24, 6400, 24),
        # In place, or beside what was computed there: the rest is not touched.
        (lambda x, i, u: (x * 2.0).at[i].add(u), (ROWS, FEW, NEW), 192 + 24 + 192, 192, 24),
        (lambda x, i, u: (x * 2.0).at[i].set(u), (ROWS, FEW, NEW), 192 + 24, 192, 0),
        (lambda x: ab.concatenate([x, x * 2.0]), (ROWS,), 6400, 6400, 0),
        (lambda x: ab.pad(x * 2.0, 1), (ROWS,), 0, (102 * 10 - 800) * 8, 0),
        (lambda x: ab.cumsum(x), (ROWS[0],), 64, 64, 8),
        (lambda x: ab.cumsum(x), (np.arange(5),), 40, 40, 0),
        (lambda a, b: ab.linear_recurrence(a, b), (ROWS[0], ROWS[1]), 128, 64, 16),
    ],
)
def test_bytes_and_operations_of_kernels(
    f: object, args: tuple[object, ...], read: int, written: int, flops: int
) -> None:
    found = ab.compile(f).explain(*args).kernels[-1]
    assert (found.read, found.written, found.flops) == (read, written, flops)


def test_what_windows_share_is_read_once() -> None:
    found = ab.compile(lambda x: ab.sliding_windows(x, 3) * 2.0).explain(np.ones(10)).kernels[0]
    assert (found.read, found.written) == (80, 8 * 24)


def test_many_operations_a_byte_are_bound_by_computing() -> None:
    assert kernel(lambda x: x + 1.0, X).bound == "memory"
    assert kernel(lambda x: ab.sin(ab.sin(x)), X).bound == "compute"
    large = np.ones((256, 256))
    assert kernel(lambda x: x @ x, large).bound == "compute"


def test_calls_back_have_reasons_and_steps_their_order() -> None:
    found = told(lambda x: ab.linalg.cholesky(x @ x.T) + 1.0, X)
    assert [type(step).__name__ for step in found.plan.steps] == ["Kernel", "Island", "Kernel"]
    (island,) = found.islands
    assert island.node.op == "linalg.cholesky"
    assert "LAPACK" in island.reason
    assert f"call of the reference: {island.reason}" in str(found)


# Passes


def test_passes_are_told_with_lines() -> None:
    found = told(lambda x: (x * 1.0 + 2.0) * (x + 2.0), X)
    assert [report.name for report in found.passes] == PASSES
    assert (len(found.built), len(found.optimised)) == (5, 3)
    assert any("merged add (test_explain.py:" in line for line in str(found).splitlines())


# Memory


def test_the_plan_is_what_a_run_allocates() -> None:
    def f(x, y):
        a = x @ y
        b = ab.exp(a) @ y
        return ab.sum(b @ a, axis=0), b

    x = np.ones((300, 300))
    compiled = ab.compile(f, backend="native")
    memory = compiled.explain(x, x).memory
    assert memory is not None
    run = compiled.program(x, x).executable.run
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        results = run([x, x])
        _, peak = tracemalloc.get_traced_memory()
        sizes = [trace.size for trace in tracemalloc.take_snapshot().traces]
    finally:
        tracemalloc.stop()
    assert memory.workspace in sizes
    assert memory.results == sum(out.nbytes for out in results) == 300 * 8 + 300 * 300 * 8
    # Results may come from memory that was allocated before; and Python has objects of its own.
    assert memory.workspace <= peak - before < memory.peak + 20_000
    assert memory.peak == memory.workspace + memory.results
    assert memory.arguments == 2 * x.nbytes
    assert memory.unshared > memory.workspace


def test_what_is_donated_is_no_new_memory_and_stays_as_it_is_when_timed() -> None:
    def step(w, x):
        return w - 0.5 * x, ab.sum(w)

    f = ab.compile(step, backend="native", donate=(0,))
    w, x = np.ones(1_000), np.ones(1_000)
    found = f.explain(w, x, time=True)
    assert found.memory is not None
    assert found.memory.results == 8
    assert (w == 1.0).all()
    assert sum(kernel.written for kernel in found.kernels) == 8_008


def test_a_call_allocates_the_workspace_of_the_plan_once() -> None:
    f = ab.compile(lambda x: ab.exp(x @ x) @ x, backend="native")
    x = np.ones((100, 100))
    memory = f.explain(x).memory
    assert memory is not None
    tracemalloc.start()
    try:
        for _ in range(3):
            f(x)
        sizes = [trace.size for trace in tracemalloc.take_snapshot().traces]
    finally:
        tracemalloc.stop()
    assert sizes.count(memory.workspace) == 1


@pytest.mark.proves("S0-80")
def test_a_deep_chain_needs_a_fraction_of_its_values_and_the_same_bits() -> None:
    def deep(x, w):
        for _ in range(50):
            x = ab.tanh(x @ w)
        return x

    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(32, 32)), rng.normal(size=(32, 32)) / 6
    f, layer = (ab.compile(one, backend="native") for one in (deep, lambda x, w: ab.tanh(x @ w)))
    memory = f.explain(x, w).memory
    assert memory is not None
    assert memory.peak <= 0.25 * 50 * x.nbytes
    y = x
    for _ in range(50):
        y = layer(y, w)  # each of its values in memory of its own
    assert f(x, w).tobytes() == y.tobytes()


@pytest.mark.proves("S4-42")
def test_what_was_optimised_is_told_pass_by_pass_and_loop_by_loop() -> None:
    def f(x):
        return ab.exp(x * x) + x * x

    found = told(f, X)
    assert [report.name for report in found.passes] == PASSES
    assert [len(one.nodes) for one in found.kernels] == [3]
    apart = told(f, X, without="merge")
    assert "merge" not in [report.name for report in apart.passes]
    assert [len(one.nodes) for one in apart.kernels] == [4]


def test_stays_of_values_alive_together_lie_apart() -> None:
    memory = told(lambda x: ab.exp(x @ x.T) @ (x @ x.T + x), np.ones((4, 4))).memory
    assert memory is not None
    top = max(stay.offset + stay.size for stay in memory.stays)
    assert top + 64 == memory.workspace
    for a in memory.stays:
        for b in memory.stays:
            if a is not b and a.first <= b.last and b.first <= a.last:
                assert a.offset + a.size <= b.offset or b.offset + b.size <= a.offset


def test_what_stays_in_registers_needs_no_workspace() -> None:
    found = told(lambda x: ab.sum(ab.exp(x) * x), X)
    assert found.memory is not None
    assert (found.memory.workspace, found.memory.peak, found.memory.stays) == (0, 8, ())
    assert "no workspace" in str(found)


# Text

SCRIPT = """
import numpy as np, anabranch as ab
def loss(w, x):
    return ab.mean(ab.tanh(x @ w) ** 2) + ab.sum(ab.sort(w, axis=0))
f = ab.compile(ab.value_and_grad(loss), backend="native")
print(f.explain(np.ones((3, 2)), np.ones((5, 3))))
"""


@pytest.mark.slow
def test_the_text_is_the_same_in_every_process() -> None:
    texts = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(filter(None, sys.path)),
                 "ANABRANCH_CACHE_DIR": ""},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    (text,) = texts
    assert max(map(len, text.splitlines())) <= 100
    assert "steps" in text


def test_long_lists_and_lines_are_cut_in_the_text_only() -> None:
    def f(x):
        for _ in range(40):
            x = x * 0.5 + 1.0
        return x

    found = told(lambda *xs: f(sum(xs)), *[X] * 20)
    assert len(found.kernels[0].nodes) == 100
    assert "... and 88 more" in str(found)
    assert len(", ".join(found.arguments)) > 100
    assert max(map(len, str(found).splitlines())) <= 100
    assert repr(found) == str(found)


# Which signature


def test_without_arguments_it_speaks_of_what_was_compiled_last() -> None:
    f = ab.compile(lambda x: ab.sum(x), backend="native")
    with pytest.raises(ab.ArgumentError, match="not-compiled"):
        f.explain()
    f(X)
    f(X[0])
    assert f.explain().arguments == ("f64[4]",)
    assert f.explain(X).arguments == ("f64[3,4]",)  # known already
    assert f.explain().arguments == ("f64[4]",)
    f.explain(X[:2])
    assert f.explain().arguments == ("f64[2,4]",)
    assert f.ir() == f.ir(X[:2]) != f.ir(X)


def test_a_function_of_nothing_needs_no_call_first() -> None:
    y = np.ones(3)
    f = ab.compile(lambda: ab.sum(y), backend="native")
    assert len(f.explain().kernels) == 1


def test_explaining_runs_nothing() -> None:
    f = ab.compile(lambda x, i: ab.take(x, i), backend="native")
    wrong = X[0], np.array([9])
    assert len(f.explain(*wrong).plan.steps) >= 1
    with pytest.raises(ab.OutOfRangeError):
        f(*wrong)


# Code


def test_ir_and_assembly() -> None:
    f = ab.compile(lambda x: x + 1.0, backend="native")
    assert "define i32 @entry" in f.ir(X)
    assert "fadd" in f.ir(X)
    assert "entry:" in f.asm(X)
    g = ab.Graph("g")
    x = g.parameter("x", (3,), ab.float64)
    run = g.compile(x * 2.0, backend="native")
    assert "fmul" in run.ir()
    assert "entry:" in run.asm()
    assert [k.kind for k in run.explain().kernels] == ["loop"]


@pytest.mark.parametrize("way", ["reference", "logged"])
def test_the_reference_says_that_it_has_none(way: str) -> None:
    f = ab.compile(lambda x: x + 1.0, backend="reference")
    if way == "logged":
        f = ab.compile(lambda x: (x + 1.0).log("y"), backend="native")
    found = f.explain(X)
    assert (found.plan.backend, found.kernels, found.islands, found.memory) == (
        "reference", (), (), None,
    )  # fmt: skip
    assert "NumPy computes node after node" in str(found)
    assert ("logged" in str(found)) == (way == "logged")
    assert f.explain(X, time=True).timing is None
    for text in (f.ir, f.asm):
        with pytest.raises(ab.ArgumentError, match="no-machine-code"):
            text(X)


# Times


def test_each_step_is_timed_against_what_a_core_can_do() -> None:
    def f(x, i):
        return ab.take(ab.exp(x @ x.T), i) + 1.0

    compiled = ab.compile(f, backend="native")
    found = compiled.explain(X, np.array([1, 2]), time=True)
    assert found.timing is not None
    assert len(found.timing.seconds) == len(found.plan.steps)
    assert all(0.0 <= seconds < 10.0 for seconds in found.timing.seconds)
    limits = found.timing.limits
    assert isinstance(limits, Limits)
    assert min(limits.near, limits.far, limits.wide, limits.narrow) > 1e7
    text = str(found)
    assert "of what a core can do" in text
    assert text.count(" all: ") == 1
    with pytest.raises(ab.ArgumentError, match="needs arguments"):
        compiled.explain(time=True)


def test_a_timed_run_that_fails_says_so_like_any_other() -> None:
    f = ab.compile(lambda x, i: ab.take(x, i) * 2.0, backend="native")
    with pytest.raises(ab.OutOfRangeError) as caught:
        f.explain(X[0], np.array([9]), time=True)
    assert "running" in str(caught.value)


def test_what_takes_long_enough_to_be_seen_is_seen() -> None:
    f = ab.compile(lambda x: ab.exp(x @ x) @ x, backend="native")
    timing = f.explain(np.ones((192, 192)), time=True).timing
    assert timing is not None
    assert min(timing.seconds) > 1e-6


def test_a_graph_by_hand_is_timed_with_values() -> None:
    g = ab.Graph("g")
    x = g.parameter("x", (3,), ab.float64)
    found = g.compile(x * 2.0, backend="native").explain(np.ones(3), time=True)
    assert found.timing is not None
    assert found.name == "g"
