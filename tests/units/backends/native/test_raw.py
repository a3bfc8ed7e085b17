"""`f.raw`: the program as a C function, and calls on arrays that stay in place."""

import ctypes
import gc
import threading
import weakref

import numpy as np
import pytest

import anabranch as ab

X = np.arange(6.0).reshape(2, 3)


def step(x, y, n):
    return x * y + n, ab.sum(x @ x.T), x.astype(np.float32) > 1.0


def pointers(arrays: list[np.ndarray]) -> ctypes.Array:
    return (ctypes.c_void_p * len(arrays))(*(one.ctypes.data for one in arrays))


def check(outs: list[np.ndarray], *args: object) -> None:
    for out, wanted in zip(outs, ab.compile(step, backend="reference")(*args), strict=True):
        np.testing.assert_array_equal(out, wanted)


def test_the_signature() -> None:
    raw = ab.compile(step, backend="native").raw(X, 2.0, 3)
    told = [(one.name, one.dtype.name, one.shape) for one in raw.parameters]
    assert told == [("x", "float64", (2, 3)), ("y", "float64", ()), ("n", "int64", ())]
    assert [(one.dtype.name, one.shape) for one in raw.outputs] == [
        ("float64", (2, 3)),
        ("float64", ()),
        ("bool", (2, 3)),
    ]


def test_bound_arrays_are_read_and_written_at_each_call() -> None:
    raw = ab.compile(step, backend="native").raw(X, 2.0, 3)
    args, outs = raw.arrays()
    run = raw.bind(args, outs)
    for k in range(3):
        args[0][...], args[1][...], args[2][...] = X + k, 2.0 * k, k
        assert run() is None
        check(outs, X + k, 2.0 * k, k)


def test_the_c_function() -> None:
    raw = ab.compile(step, backend="native").raw(X, 2.0, 3)
    args = [X.copy(), np.array(2.0), np.array(3)]
    outs = raw.arrays()[1]
    foreign = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(raw.address)
    for function in (raw.function, foreign):  # with Python's lock, and without it
        outs[0][...] = 0.0
        assert function(pointers(args), pointers(outs)) == 0
        check(outs, X, 2.0, 3)


def test_threads_may_call_the_c_function_at_once() -> None:
    raw = ab.compile(step, backend="native").raw(X, 2.0, 3)
    foreign = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(raw.address)
    wrong = []

    def work(k: int) -> None:
        args, outs = [X + k, np.array(2.0), np.array(k)], raw.arrays()[1]
        for _ in range(200):
            foreign(pointers(args), pointers(outs))
            if outs[0][1, 2] != (5.0 + k) * 2.0 + k:
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong


def test_captured_arrays_are_read_where_they_lie() -> None:
    w = np.ones(3)
    t = ab.tensor([1.0, 1.0, 1.0])
    raw = ab.compile(lambda x: x * w + t, backend="native").raw(X)
    assert [one.name for one in raw.parameters] == ["x"]
    (x,), (y,) = raw.arrays()
    run = raw.bind([x], [y])
    x[...] = X
    run()
    np.testing.assert_array_equal(y, X + 1.0)
    w[:] = 5.0
    run()
    np.testing.assert_array_equal(y, X * 5.0 + 1.0)


def test_errors_of_call_backs_are_raised() -> None:
    raw = ab.compile(lambda x, i: ab.take(x, i) * 2.0, backend="native").raw(X[0], np.array([1]))
    (x, i), (y,) = raw.arrays()
    run = raw.bind([x, i], [y])
    x[:] = X[1]
    for _ in range(2):
        i[0] = 7
        with pytest.raises(ab.OutOfRangeError):
            run()
        with pytest.raises(ab.OutOfRangeError):
            raw.function(pointers([x, i]), pointers([y]))
        i[0] = 2
        run()
        assert y[0] == 10.0


def test_donated_memory_is_one_array() -> None:
    f = ab.compile(lambda w, g: (ab.sum(g), w - g), backend="native", donate="w")
    raw = f.raw(X, X)
    assert dict(raw.donated) == {0: 1}
    (w, g), (total, new) = raw.arrays()
    assert new is w
    run = raw.bind([w, g], [total, new])
    w[...], g[...] = X, 1.0
    for _ in range(3):
        run()
    np.testing.assert_array_equal(w, X - 3.0)
    with pytest.raises(ab.ArgumentError, match="must be the same array"):
        raw.bind([w, g], [total, np.zeros((2, 3))])


MISFITS = {
    "a list": (lambda: [[1.0, 2.0]], r"argument 0 is an array f64\[2,3\], got a list"),
    "a number": (lambda: 2.0, "got a float"),
    "another shape": (lambda: np.zeros((3, 2)), r"argument 0 is f64\[2,3\], got float64\[3, 2\]"),
    "another dtype": (lambda: np.zeros((2, 3), "f4"), "got float32"),
    "another byte order": (lambda: np.zeros((2, 3), ">f8"), "got >f8"),
    "another layout": (lambda: np.zeros((3, 2)).T, "not contiguous"),
}


@pytest.mark.parametrize("name", MISFITS)
def test_arrays_that_do_not_fit_are_not_bound(name: str) -> None:
    raw = ab.compile(lambda x: (x * 2.0, x + 1.0), backend="native").raw(X)
    make, words = MISFITS[name]
    good = raw.arrays()[1]
    with pytest.raises(ab.ArgumentError, match=words) as caught:
        raw.bind([make()], good)
    assert caught.value.code == "bad-binding"
    with pytest.raises(ab.ArgumentError, match=words.replace("argument", "result")):
        raw.bind([X], [make(), good[1]])


def test_other_misfits() -> None:
    raw = ab.compile(lambda x: (x * 2.0, x + 1.0), backend="native").raw(X)
    (x,), (y, z) = raw.arrays()
    fixed = np.zeros((2, 3))
    fixed.flags.writeable = False
    for args, outs, words in (
        ([], [y, z], "there are 1 arguments, got 0"),
        ([x], [y], "there are 2 results, got 1"),
        ([x], [y, y], "result 1 shares memory with another"),
        ([x], [x, z], "a result shares memory with an argument"),
        ([x], [fixed, z], "result 0 is read-only"),
    ):
        with pytest.raises(ab.ArgumentError, match=words):
            raw.bind(args, outs)
    raw.bind([fixed], [y, z])()
    assert z[0, 0] == 1.0


def test_everything_lives_as_long_as_a_bound_call_and_no_longer() -> None:
    f = ab.compile(lambda x: x @ x.T + 1.0, backend="native")
    raw = f.raw(X)
    (x,), (y,) = raw.arrays()
    run, function, held = raw.bind([x], [y]), raw.function, weakref.ref(raw)
    gc.disable()
    try:
        del f, raw
        x[...] = X
        view = weakref.ref(x)
        args = pointers([x])
        assert function(args, pointers([y])) == 0
        del function, x
        run()
        np.testing.assert_array_equal(y, X @ X.T + 1.0)
        assert held() is not None
        del run
        assert held() is None
        assert view() is None
    finally:
        gc.enable()


def test_numbers_in_a_row() -> None:
    raw = ab.compile(lambda x, a: a * ab.exp(-x), backend="native").raw(0.0, 1.0)
    function = raw.of_doubles
    del raw
    assert function(2, (ctypes.c_double * 2)(0.0, 3.0)) == 3.0
    for f, args in ((step, (X, 2.0, 3)), (lambda x: (x, x), (2.0,)), (lambda n: n + 1, (2,))):
        with pytest.raises(ab.ArgumentError, match="of_doubles is for"):
            _ = ab.compile(f, backend="native").raw(*args).of_doubles


def test_scipy_integrates_it() -> None:
    scipy = pytest.importorskip("scipy")
    integrate = pytest.importorskip("scipy.integrate")
    raw = ab.compile(lambda x, a: a * ab.exp(-x), backend="native").raw(0.0, 1.0)
    found, _ = integrate.quad(scipy.LowLevelCallable(raw.of_doubles), 0.0, 1.0, args=(3.0,))
    assert found == pytest.approx(3.0 * (1.0 - np.exp(-1.0)), rel=1e-12)


def test_where_there_is_no_machine_code() -> None:
    for f, args in ((ab.compile(lambda x: x * 2.0, backend="reference"), (X,)),):
        with pytest.raises(ab.ArgumentError) as caught:
            f.raw(*args)
        assert caught.value.code == "no-machine-code"


def test_a_graph_by_hand() -> None:
    g = ab.Graph("demo")
    x = g.parameter("x", (3,), ab.float64)
    raw = g.compile(x * x, x + 1.0, backend="native").raw()
    (a,), (square, more) = raw.arrays()
    run = raw.bind([a], [square, more])
    a[:] = 1.0, 2.0, 3.0
    run()
    np.testing.assert_array_equal(square, [1.0, 4.0, 9.0])
    np.testing.assert_array_equal(more, [2.0, 3.0, 4.0])
