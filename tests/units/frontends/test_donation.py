"""Donated arguments: results are written into their arrays, with the bits they always have."""

import threading
import weakref

import numpy as np
import pytest

import anabranch as ab
from anabranch.core.registry import temporary_ops
from anabranch.inspection.watching import watching

BACKENDS = ["reference", "native"]
RNG = np.random.default_rng(7)


def arrays(*shapes: tuple[int, ...], dtype: str = "f8") -> list[np.ndarray]:
    return [RNG.normal(size=shape).astype(dtype) for shape in shapes]


def adam(params, first, second, x, y):
    def loss(params):
        hidden = ab.tanh(x @ params["w1"] + params["b1"])
        return ab.mean((hidden @ params["w2"] - y) ** 2)

    value, slopes = ab.value_and_grad(loss)(params)
    first = {k: 0.9 * first[k] + 0.1 * slopes[k] for k in params}
    second = {k: 0.99 * second[k] + 0.01 * slopes[k] ** 2 for k in params}
    params = {k: params[k] - 0.1 * first[k] / (ab.sqrt(second[k]) + 1e-8) for k in params}
    return params, first, second, value


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_training_step_updates_weights_and_state_in_place(backend: str) -> None:
    params = dict(zip(("w1", "b1", "w2"), arrays((4, 5), (5,), (5, 2)), strict=True))
    first, second = ({k: np.zeros_like(v) for k, v in params.items()} for _ in range(2))
    x, y = arrays((8, 4), (8, 2))
    plain = ab.compile(adam, backend=backend)
    step = ab.compile(adam, backend=backend, donate=("params", "first", "second"))
    wanted = params, first, second, None
    mine = *({k: v.copy() for k, v in one.items()} for one in wanted[:3]), None
    given = mine[:3]
    for _ in range(4):
        wanted = plain(*wanted[:3], x, y)
        mine = step(*mine[:3], x, y)
        for own, its, array in zip(mine[:3], wanted[:3], given, strict=True):
            for name in own:
                assert own[name] is array[name]
                assert own[name].tobytes() == its[name].tobytes()
        assert mine[3] == wanted[3]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_graph_by_hand_writes_into_what_it_is_given(backend: str) -> None:
    g = ab.Graph("step")
    w, x = g.parameter("w", (3,), ab.float64), g.parameter("x", (3,), ab.float64)
    outputs = w - 0.5 * ab.sin(x), ab.sum(w * x)
    plain = g.compile(*outputs, backend=backend)
    for donate in ("w", w, ["w"], (w,)):
        step = g.compile(*outputs, backend=backend, donate=donate)
        for _ in range(3):  # the third call goes through the entry
            mine, other = arrays((3,), (3,))
            wanted, total = plain(mine.copy(), other)
            found, its_total = step(mine, other)
            assert found is mine and found.tobytes() == wanted.tobytes() and its_total == total
        assert step(x=other, w=mine)[0] is mine
        assert step(ab.tensor(mine), other)[0].data is not mine
    fixed = mine.copy()
    fixed.flags.writeable = False
    with pytest.raises(ab.errors.ArgumentError, match=r"bad-donation.*w is read-only"):
        step(fixed, other)
    with pytest.raises(ab.errors.ArgumentError, match=r"bad-donation.*shares memory with x"):
        step(mine, mine)
    with pytest.raises(ab.errors.ArgumentError, match=r'no-such-argument.*"step" are: w, x'):
        g.compile(*outputs, donate="v")


CASES = {
    "elementwise": (lambda w, v: w * 2.0 + v, (0,)),
    "read again by another loop": (lambda w, v: (w * 2.0, ab.sum(w, axis=0) + v), (0,)),
    "summed after it is written": (lambda w, v: (w + ab.sum(w), ab.sum(w * 3.0)), (0,)),
    "transposed": (lambda w, v: w.T + v, (0,)),
    "both ways at once": (lambda w, v: w.T + w, (0,)),
    "reversed": (lambda w, v: w[::-1] * 1.0, (0,)),
    "reversed and moved only": (lambda w, v: w[::-1], (0,)),
    "a product": (lambda w, v: w @ v, (0, 1)),
    "a product with itself": (lambda w, v: w @ w, (0,)),
    "swapped": (lambda w, v: (v, w), (0, 1)),
    "swapped with work": (lambda w, v: (v * 1.5, w * 2.5), (0, 1)),
    "crossed": (lambda w, v: (v + w, w - v), (0, 1)),
    "crossed and transposed": (lambda w, v: (v.T + w, w.T - v), (0, 1)),
    "unchanged": (lambda w, v: (w, w * 2.0), (0,)),
    "unchanged twice": (lambda w, v: (w, w, v), (0, 1)),
    "the other one twice": (lambda w, v: (v, v), (0, 1)),
    "old and new": (lambda w, v: (w * 2.0, w), (0,)),
    "old and new, transposed": (lambda w, v: (w * 2.0, w.T), (0, 1)),
    "one value twice": (lambda w, v: (w + v,) * 2, (0, 1)),
    "a call back reads it": (lambda w, v: (w * 2.0, ab.sort(w, axis=0) + v), (0,)),
    "a call back writes it": (lambda w, v: ab.sort(w, axis=0), (0,)),
    "a call back comes last": (lambda w, v: (w * 2.0, ab.sort(v * 2.0, axis=0)), (0, 1)),
    "nothing fits": (lambda w, v: ab.sum(w, axis=0), (0, 1)),
    "nothing depends on it": (lambda w, v: v * 2.0, (0,)),
    "a constant": (lambda w, v: ab.zeros((6, 6)) + 1.0, (0,)),
    "a matrix as a row": (lambda w, v: (w.reshape(36) * 2.0).reshape(6, 6), (0,)),
    "a row spread out": (lambda w, v: w + w[0], (0,)),
    "a column spread out": (lambda w, v: w * w[:, :1], (0,)),
    "joined from parts": (lambda w, v: ab.concatenate([w[:3] * 2.0, v[3:] + w[3:]]), (0,)),
    "joined, then read": (lambda w, v: (ab.concatenate([w[3:], v[3:]]), w * 2.0), (0, 1)),
    "a running sum": (lambda w, v: ab.cumsum(w, axis=0) * 1.0, (0,)),
    "rows picked": (lambda w, v: w[np.array([5, 4, 3, 2, 1, 0])] + v, (0,)),
    "a long way round": (lambda w, v: ab.exp(w) / ab.sum(ab.exp(w)) @ v + w, (0,)),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CASES)
def test_results_have_the_bits_they_have_without(name: str, backend: str) -> None:
    f, donated = CASES[name]
    w, v = arrays((6, 6), (6, 6))
    wanted = _flat(ab.compile(f, backend=backend)(w, v))
    step = ab.compile(f, backend=backend, donate=donated)
    for _ in range(3):
        given = [w.copy(), v.copy()]
        found = _flat(step(*given))
        assert [one.tobytes() for one in found] == [one.tobytes() for one in wanted]
        reused = [i for i, one in enumerate(given) if any(out is one for out in found)]
        assert set(reused) <= set(donated)
        for i, (array, before) in enumerate(zip(given, (w, v), strict=True)):
            if i not in reused:
                assert array.tobytes() == before.tobytes()
        if name not in ("nothing fits",):
            assert reused
        others = [one for one in found if not any(one is array for array in given)]
        for i, one in enumerate(others):  # nothing else shares memory
            assert not any(np.shares_memory(one, other) for other in (*given, *others[:i]))


def _flat(value):
    return [leaf for one in value for leaf in _flat(one)] if isinstance(value, tuple) else [value]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["f4", "i8", "bool", "f2", "c16"])
def test_every_dtype(dtype: str, backend: str) -> None:
    w = (RNG.normal(size=(3, 7)) * 5).astype(dtype)
    f = lambda w: ab.where(w == w, w, w)[:, ::-1]  # noqa: E731
    step = ab.compile(f, backend=backend, donate="w")
    for _ in range(2):
        mine = w.copy()
        assert step(mine) is mine
        assert mine.tobytes() == w[:, ::-1].tobytes()


def refused(step, *args) -> str:
    copies = [one.copy() for one in args]
    with pytest.raises(ab.ArgumentError) as caught:
        step(*args)
    assert caught.value.code == "bad-donation"
    for one, before in zip(args, copies, strict=True):
        np.testing.assert_array_equal(one, before)
    return caught.value.sentence


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_arrays_that_cannot_be_written_to_are_refused(backend: str, warm: bool) -> None:
    step = ab.compile(lambda w, x: w + x, backend=backend, donate="w")
    w, x = arrays((4, 4), (4, 4))
    if warm:
        step(w.copy(), x)
    fixed = w.copy()
    fixed.flags.writeable = False
    assert "w is read-only" in refused(step, fixed, x)
    assert "w is not contiguous" in refused(step, np.asfortranarray(w), x)
    assert "w is not contiguous" in refused(step, np.repeat(w, 2, axis=1)[:, ::2], x)
    assert "w is a Plain" in refused(step, w.copy().view(Plain), x)
    assert "w shares memory with x" in refused(step, w, w)
    assert "w shares memory with x" in refused(step, w, w[:])
    assert "w shares memory with x" in refused(step, w, w.T)
    long = RNG.normal(size=40)
    assert "w shares memory" in refused(step, long[:16].reshape(4, 4), long[15:31].reshape(4, 4))
    apart = long[:16].reshape(4, 4), long[16:32].reshape(4, 4)
    wanted = apart[0] + apart[1]
    np.testing.assert_array_equal(step(*apart), wanted)
    woven = long[:16].reshape(4, 4), np.lib.stride_tricks.as_strided(long[16:], (4, 4), (8, 32))
    wanted = woven[0] + woven[1]
    np.testing.assert_array_equal(step(*woven), wanted)


class Plain(np.ndarray):
    pass


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_donated_arrays_are_two(backend: str) -> None:
    step = ab.compile(lambda w, v: (w + 1.0, v + 2.0), backend=backend, donate=(0, "v"))
    w, v = arrays((4,), (4,))
    for _ in range(2):
        assert "w shares memory with v" in refused(step, w, w)
        out = step(w, v)
        assert out[0] is w
        assert out[1] is v


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_captured_array_is_not_overwritten_unseen(backend: str) -> None:
    table = RNG.normal(size=4)
    step = ab.compile(lambda w: w + table, backend=backend, donate="w")
    w = RNG.normal(size=4)
    step(w.copy())
    assert "shares memory with table" in refused(step, table)
    assert step(w) is w


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_no_array_stays_as_it_is(backend: str) -> None:
    step = ab.compile(lambda w, n: (w * n, n + 1), backend=backend, donate=("w", "n"))
    t = ab.tensor([1.0, 2.0])
    out = step(t, 3)[0]
    np.testing.assert_array_equal(t.data, [1.0, 2.0])
    np.testing.assert_array_equal(out.data, [3.0, 6.0])
    w = np.array([1.0, 2.0])
    assert step(w, 3)[0] is w
    assert step(w, 3)[1] == 4


def test_inside_a_trace_or_a_derivative_nothing_is_overwritten() -> None:
    step = ab.compile(lambda w: w * w, donate="w")
    w = np.array([1.0, 2.0])
    np.testing.assert_array_equal(ab.grad(lambda w: ab.sum(step(w)))(w), [2.0, 4.0])
    outer = ab.compile(lambda w: step(w) + w)
    np.testing.assert_array_equal(outer(w), [2.0, 6.0])
    np.testing.assert_array_equal(w, [1.0, 2.0])
    t = ab.tensor(w, requires_grad=True)
    ab.sum(step(t)).backward()
    np.testing.assert_array_equal(t.grad, [2.0, 4.0])
    np.testing.assert_array_equal(t.data, [1.0, 2.0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_call_that_raises_has_changed_nothing(backend: str) -> None:
    def f(w, i, v):
        return w * 2.0, v[i] + 1.0, v - w

    step = ab.compile(f, backend=backend, donate=("w", "v"))
    w, v = arrays((5,), (5,))
    step(w.copy(), np.array([1]), v.copy())
    before = w.copy(), v.copy()
    for _ in range(2):
        with pytest.raises(ab.OutOfRangeError):
            step(w, np.array([7]), v)
        assert (w.tobytes(), v.tobytes()) == (before[0].tobytes(), before[1].tobytes())


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_call_back_that_runs_out_of_memory_changes_nothing(backend: str) -> None:
    def fails(x):
        if full:
            raise MemoryError
        return x * 1.0

    full: list[bool] = []
    with temporary_ops():
        late = ab.Op("late", aval=lambda x: x, ref=fails)
        step = ab.compile(lambda w, v: (w * 2.0, late(v * 2.0)), backend=backend, donate=("w", "v"))
        w, v = arrays((5,), (5,))
        before = w.copy(), v.copy()
        step(w, v)
        for array, old in zip((w, v), before, strict=True):
            np.testing.assert_array_equal(array, old * 2.0)
        full.append(True)
        with pytest.raises(MemoryError):
            step(w, v)
        for array, old in zip((w, v), before, strict=True):
            np.testing.assert_array_equal(array, old * 2.0)


def test_a_donated_array_is_held_no_longer_than_before() -> None:
    step = ab.compile(lambda w: w + 1.0, backend="native", donate="w")
    w = np.zeros(10)
    for _ in range(3):
        w = step(w)
    held = weakref.ref(w)
    del w
    assert held() is None


def test_threads_each_with_their_own() -> None:
    step = ab.compile(lambda w, x: w + x @ x, backend="native", donate="w")
    x = np.ones((8, 8))
    step(np.zeros((8, 8)), x)
    results = {}

    def work(k: int) -> None:
        w = np.full((8, 8), float(k))
        for _ in range(200):
            w = step(w, x)
        results[k] = w

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    for k, w in results.items():
        np.testing.assert_array_equal(w, k + 200 * 8.0)


def test_names_that_the_function_lacks() -> None:
    with pytest.raises(ab.ArgumentError, match="donate names 'v'") as caught:
        ab.compile(lambda w: w, donate="v")
    assert caught.value.code == "no-such-argument"
    with pytest.raises(ab.ArgumentError, match="donate names 1"):
        ab.compile(lambda w: w, donate=1)


def test_by_name_and_with_static_arguments_before_it() -> None:
    step = ab.compile(
        lambda mode, w, *, v: (w + 1.0, v * 2.0), donate=("v", 1), static="mode", backend="native"
    )
    for _ in range(2):
        w, v = arrays((3,), (3,))
        out = step("a", v=v, w=w)
        assert out[0] is w
        assert out[1] is v
        out = step("b", w, v=v)
        assert out[0] is w
        assert out[1] is v


@pytest.mark.parametrize("backend", BACKENDS)
def test_whoever_looks_on_sees_the_values_before(backend: str) -> None:
    step = ab.compile(lambda w: w * 3.0, backend=backend, donate="w")
    w = np.array([1.0, 2.0])
    report = ab.inspect(step, w)
    np.testing.assert_array_equal(w, [1.0, 2.0])
    assert "[3 6]" in str(report.table())
    with ab.config(nonfinite="raise"):
        assert step(w) is w
    np.testing.assert_array_equal(w, [3.0, 6.0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_record_of_a_step_keeps_the_values_before_it(backend: str) -> None:
    def descend(w):
        return w - 0.25 * ab.grad(lambda w: ab.sum(w * w))(w)

    step = ab.compile(descend, backend=backend, donate="w")
    w = np.array([4.0, 8.0])
    with watching() as seen:
        step(w)
    np.testing.assert_array_equal(w, [2.0, 4.0])
    assert "[4 8]" in str(seen.report.table())
