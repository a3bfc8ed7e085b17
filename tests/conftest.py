"""What every test shares: steady examples, known requirement ids, counts, ways to a gradient."""

import gc
import os
import sys
import tomllib
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

import anabranch as ab

# One machine's luck must not decide a run, so examples are the same each time and nothing is timed.
# HYPOTHESIS_PROFILE=search looks for new ones.
settings.register_profile("fast", derandomize=True, deadline=None, database=None)
settings.register_profile("search", max_examples=2_000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

# Nor must code that another process has compiled; what tests of the cache keep is their own.
os.environ["ANABRANCH_CACHE_DIR"] = ""

REQUIREMENTS = Path(__file__).with_name("requirements.toml")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that proves what nobody asked for has a slip in its id."""
    known = {row["id"] for row in tomllib.loads(REQUIREMENTS.read_text(encoding="utf-8"))["row"]}
    for item in items:
        for mark in item.iter_markers("proves"):
            if unknown := set(mark.args) - known:
                raise pytest.UsageError(
                    f"{item.nodeid} proves {', '.join(sorted(unknown))}, "
                    f"which {REQUIREMENTS.name} does not have"
                )


@pytest.fixture
def executed_lines() -> Callable[[Callable[[], Any]], int]:
    """How many lines of Python a call runs: a count of steps that no clock disturbs."""

    def count(function: Callable[[], Any]) -> int:
        lines = 0

        def trace(frame: FrameType, event: str, arg: Any) -> Any:
            nonlocal lines
            lines += event == "line"
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            function()
        finally:
            sys.settrace(before)
        return lines

    return count


@pytest.fixture
def allocated() -> Callable[[Callable[[], Any]], tuple[Any, int]]:
    """What a program made, and the bytes that are allocated more than before it."""

    def measure(build: Callable[[], Any]) -> tuple[Any, int]:
        build()  # caches fill
        gc.collect()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            made = build()
            gc.collect()
            return made, tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()

    return measure


def by_forward(f):
    """The gradient by forward mode, one direction for each element."""

    def gradient(x, *rest):
        slopes = np.zeros(x.shape, x.dtype)
        for index in np.ndindex(x.shape):
            t = np.zeros(x.shape, x.dtype)
            t[index] = 1.0
            slopes[index] = ab.jvp(lambda v: f(v, *rest), (x,), (t,))[1]
        return slopes

    return gradient


def by_backward(f):
    def gradient(x, *rest):
        leaf = ab.tensor(x, requires_grad=True)
        f(leaf, *rest).backward()
        return leaf.grad

    return gradient


def by_hand(f, passes=None, backend="reference"):
    def gradient(*xs):
        g = ab.Graph("by hand")
        nodes = [g.parameter(f"x{i}", x.shape, x.dtype) for i, x in enumerate(xs)]
        (slope,) = ab.gradients(f(*nodes), nodes[:1])
        return g.compile(slope, passes=passes, backend=backend)(*xs)

    return gradient


WAYS = {
    "reverse": ab.grad,
    "forward": by_forward,
    "backward": by_backward,
    "compiled": lambda f: ab.compile(ab.grad(f), backend="reference"),
    "as built": lambda f: ab.compile(ab.grad(f), backend="reference", passes=()),
    "by hand": by_hand,
    "by hand, as built": lambda f: by_hand(f, passes=()),
    "tensors": lambda f: lambda *xs: ab.grad(f)(*map(ab.tensor, xs)).numpy(),
    "of compiled": lambda f: ab.grad(ab.compile(f)),
}
IN_MACHINE_CODE = {
    "machine code": lambda f: ab.compile(ab.grad(f), backend="native"),
    "machine code, as built": lambda f: ab.compile(ab.grad(f), backend="native", passes=()),
    "machine code, by hand": lambda f: by_hand(f, backend="native"),
}


def quiet(way):
    """The way, with arrays going in and coming out, and no noise about infinities on it."""

    def transform(f):
        def gradient(*xs):
            arrays = [x if hasattr(x, "dtype") else np.asarray(x, np.float64) for x in xs]
            with np.errstate(all="ignore"):
                return np.asarray(way(f)(*arrays))

        return gradient

    return transform


@pytest.fixture
def ways():
    """The ways by name, as the library has them."""
    return WAYS | IN_MACHINE_CODE


# Each of these differs from another way by a single step; what no tier names is fast.
TIERS = {
    **dict.fromkeys(["as built", "by hand, as built", "of compiled"], pytest.mark.slow),
    "machine code": pytest.mark.slow,
    **dict.fromkeys(["machine code, as built", "machine code, by hand"], pytest.mark.long),
}


@pytest.fixture(params=[pytest.param(w, marks=TIERS.get(w, ())) for w in WAYS | IN_MACHINE_CODE])
def grad(request):
    """The gradient of a scalar function by its first argument, in every way that there is."""
    return quiet((WAYS | IN_MACHINE_CODE)[request.param])


@pytest.fixture
def on_reference():
    """Graphs run as eager code does, to the last bit."""
    with ab.config(backend="reference"):
        yield


@pytest.fixture
def noiseless():
    """Infinities and NaN are values here, and no news."""
    with np.errstate(all="ignore"):
        yield


def pytest_make_parametrize_id(val: object) -> str | None:
    """Names of cases are the same in every process: no addresses in them."""
    return type(val).__name__ if " at 0x" in repr(val) else None
