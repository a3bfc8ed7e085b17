"""Calls of graphs that were built by hand: their entry does what the Python way does."""

import gc
import weakref
from types import BuiltinFunctionType

import numpy as np
import pytest

import anabranch as ab


def quick(run: object) -> bool:
    return isinstance(type(run).__call__, BuiltinFunctionType)


def compiled(backend: str, single: bool = True) -> object:
    g = ab.Graph("demo", backend)
    x = g.parameter("x", (), ab.float64)
    y = g.parameter("y", (3,), ab.float32)
    n = g.parameter("n", (), ab.int64)
    outs = [y * 2.0 + x.astype("f4")] if single else [x * n, y * 2.0]
    return g.compile(*outs)


Y = np.arange(3, dtype="f4")
CALLS = [
    (2.0, Y, 3),
    (np.float64(2.0), Y, np.int64(3)),
    (np.array(2.0), Y, np.array(3)),
    (2, Y, 3),
    (True, Y, 3),
    (2.0, [1.0, 2.0, 3.0], 3),
    (2.0, Y.astype("f8"), 3),
    (2.0, Y, 2.5),
    (2.0, Y, 2**70),
    (2.0, Y[:2], 3),
    (2.0, Y[::-1], 3),
    (2.0, Y, None),
    (2.0, Y),
    (2.0, Y, 3, 4),
    (2.0, ab.tensor(Y), 3),
    (1j, Y, 3),
]


@pytest.mark.parametrize("single", [True, False])
def test_every_call_gives_what_the_reference_gives(single: bool) -> None:
    mine, its = compiled("native", single), compiled("reference", single)
    for _ in range(3):
        mine(*CALLS[1])  # type: ignore[operator]
    assert quick(mine)
    assert not quick(its)
    for args in CALLS:
        for _ in range(2):
            assert outcome(mine, args) == outcome(its, args), args


def outcome(run: object, args: tuple[object, ...], **kwargs: object) -> object:
    try:
        return shown(run(*args, **kwargs))  # type: ignore[operator]
    except Exception as error:
        return type(error), getattr(error, "code", ""), getattr(error, "sentence", str(error))


def shown(value: object) -> object:
    if isinstance(value, list):
        return [shown(one) for one in value]
    array = np.asarray(value.data if isinstance(value, ab.Tensor) else value)
    return type(value), array.dtype, array.shape, array.tobytes()


def test_by_name() -> None:
    mine, its = compiled("native"), compiled("reference")
    for _ in range(3):
        assert outcome(mine, (2.0,), n=3, y=Y) == outcome(its, (2.0,), n=3, y=Y)
        assert outcome(mine, (2.0, Y), m=3) == outcome(its, (2.0, Y), m=3)


def test_in_a_block_of_options() -> None:
    g = ab.Graph("demo", "native")
    x = g.parameter("x", (2,), ab.float64)
    run = g.compile(ab.log(x))
    with np.errstate(all="ignore"):
        for _ in range(3):
            assert run(np.array([0.0, 1.0]))[0] == -np.inf
    assert quick(run)
    with ab.config(nonfinite="raise"), pytest.raises(ab.NonFiniteError):
        run(np.array([0.0, 1.0]))


def test_it_is_freed_without_the_collector() -> None:
    run = compiled("native")
    for _ in range(3):
        run(2.0, Y, 3)  # type: ignore[operator]
    held = weakref.ref(run), weakref.ref(run.program.executable)  # type: ignore[attr-defined]
    gc.disable()
    try:
        del run
        assert [one() for one in held] == [None, None]
    finally:
        gc.enable()
