"""Out of memory, Ctrl-C, and objects that do not look as machine code knows them."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from types import BuiltinFunctionType

import numpy as np
import pytest

import anabranch as ab
from anabranch.backends.native import layout
from anabranch.core.registry import temporary_ops

X = np.arange(4.0)
SIDE = 1 << 22  # of a matrix that no machine holds


def quick(f: object) -> bool:
    return isinstance(type(f).__call__, BuiltinFunctionType)


# Memory


def test_a_result_that_no_memory_holds() -> None:
    f = ab.compile(lambda x: (x * 2.0, ab.broadcast_to(x[0], (SIDE, SIDE))), backend="native")
    for _ in range(3):
        with pytest.raises(MemoryError, match=r"Unable to allocate 128\. TiB"):
            f(X)
    assert quick(f)


def test_a_workspace_that_no_memory_holds() -> None:
    def g(w, x):
        wide = ab.exp(ab.broadcast_to(x[0], (SIDE, SIDE)) * 2.0)
        return w * 2.0, ab.sum(wide / ab.sum(wide))

    f = ab.compile(g, backend="native", donate="w")
    w = X.copy()
    for _ in range(3):
        with pytest.raises(MemoryError):
            f(w, X)
        np.testing.assert_array_equal(w, X)
    assert quick(f)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems limit memory in other ways")
def test_with_little_address_space_left_donated_arrays_stay_as_they_are() -> None:
    code = """
import resource, numpy as np, anabranch as ab
@ab.compile(donate="w")
def f(w, x):
    y = x * 2.0
    return w + 1.0, y, y / ab.sum(y)
w, x = np.zeros(3), np.ones(5_000_000)
f(w, x)
f(w, x)
now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + 300_000_000,) * 2)
kept, failed = [], 0
for _ in range(20):
    before = w[0]
    try:
        kept.append(f(w, x))
        assert w[0] == before + 1.0
    except MemoryError:
        failed += 1
        assert w[0] == before
        kept[:-1] = []
print(0 < failed < 20, kept[-1][1][-1])
kept.clear()
ab.trim()
print(f(w, x)[1][-1])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("True 2.0\n2.0\n", "")


# Signals


class StopError(Exception):
    pass


@pytest.fixture
def alarm() -> Iterator[None]:
    """A signal after some work of this process, whose handler raises."""

    def stop(*_: object) -> None:
        raise StopError

    before = signal.signal(signal.SIGVTALRM, stop)
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
    signal.signal(signal.SIGVTALRM, before)


def long_step(w, x):
    for _ in range(60):
        x = x @ x
    return w + x[0, 0]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers here")
@pytest.mark.usefixtures("alarm")
def test_a_long_program_stops_between_its_steps() -> None:
    step = ab.compile(long_step, backend="native", donate="w")
    w, x = np.zeros(3), np.eye(500)
    step(w.copy(), x)
    for given in (x, ab.tensor(x)):  # by the entry, and by the Python way
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.01)
        with pytest.raises(StopError):
            step(w, given)
        np.testing.assert_array_equal(w, np.zeros(3))  # it had not come to its end
    assert step(w, x) is w
    np.testing.assert_array_equal(w, np.ones(3))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers here")
@pytest.mark.usefixtures("alarm")
def test_a_signal_before_a_call_back_is_raised_and_not_printed(
    capfd: pytest.CaptureFixture,
) -> None:
    with temporary_ops():
        back = ab.Op("back", aval=lambda x: x, ref=lambda x: x * 1.0)
        f = ab.compile(lambda x: back(ab.exp(ab.sin(x)) * 2.0), backend="native")
        x = np.ones(5_000_000)
        f(x)
        for _ in range(3):
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.002)
            with pytest.raises(StopError):
                f(x)
        assert f(x)[0] == np.exp(np.sin(1.0)) * 2.0
    assert capfd.readouterr() == ("", "")


def test_in_other_threads_errors_of_call_backs_leave_where_they_arise() -> None:
    f = ab.compile(lambda x, i: ab.take(x, i) * 2.0, backend="native")
    f(X, np.array([1]))
    found = []

    def work(k: int) -> None:
        for _ in range(50):
            try:
                found.append((k, f(X, np.array([k]))[0] == X[k] * 2.0))
            except ab.OutOfRangeError:
                found.append((k, k >= 4))

    threads = [threading.Thread(target=work, args=(k,)) for k in (1, 3, 5, 7)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(found) == 200
    assert all(good for _, good in found)


# Objects


@pytest.fixture
def probes() -> Iterator[None]:
    """What was found out about objects is asked anew, now and afterwards."""
    every = layout.is_known, layout.handler_is_known, layout.scalar_is_known
    for one in every:
        one.cache_clear()
    yield
    for one in every:
        one.cache_clear()


def check_python_way(f: object) -> None:
    for _ in range(3):
        out, total = f(X)  # type: ignore[operator]
        np.testing.assert_array_equal(out, X * 2.0)
        assert total == 6.0
    assert not quick(f)


@pytest.mark.usefixtures("probes")
@pytest.mark.parametrize("kind", ["free-threaded", "debug"])
def test_other_builds_of_python_take_the_python_way(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "debug":
        monkeypatch.setattr(sys, "gettotalrefcount", None, raising=False)
    else:  # whose objects have longer heads
        monkeypatch.setattr(layout, "HEAD", object.__basicsize__ // 2)
    assert not layout.is_known()
    assert not layout.handler_is_known()
    check_python_way(ab.compile(lambda x: (x * 2.0, ab.sum(x)), backend="native"))


@pytest.mark.usefixtures("probes")
@pytest.mark.parametrize(
    "field",
    ["TYPE", "DATA", "NDIM", "DIMS", "BASE", "DESCR", "FLAGS", "LENGTH", "CELL", "SCALAR"],
)
def test_a_field_at_another_place_is_noticed(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, field, getattr(layout, field) - 8)
    assert not layout.is_known()
    check_python_way(ab.compile(lambda x: (x * 2.0, ab.sum(x)), backend="native"))


@pytest.mark.usefixtures("probes")
def test_another_implementation_is_not_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.implementation, "name", "other")
    monkeypatch.setattr(layout, "field", None)
    assert not layout.is_known()


@pytest.mark.usefixtures("probes")
def test_a_handler_at_another_place_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "HANDLER", layout.HANDLER - 8)
    assert layout.is_known()
    assert not layout.handler_is_known()


@pytest.mark.usefixtures("probes")
def test_scalars_that_keep_their_value_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "scalar_is_known", lambda dtype: False)
    check_python_way(ab.compile(lambda x: (x * 2.0, ab.sum(x)), backend="native"))
    arrays_only = ab.compile(lambda x: x * 2.0, backend="native")
    arrays_only(X)
    assert quick(arrays_only)
