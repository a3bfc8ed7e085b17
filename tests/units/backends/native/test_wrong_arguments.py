"""Whatever a call is given, it does what the reference does: the same bits or the same error."""

import itertools
import random
import tempfile
import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from pathlib import Path
from types import BuiltinFunctionType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import anabranch as ab

Pair = namedtuple("Pair", "left right")
BASE = np.arange(24.0).reshape(4, 6) / 8 - 1.0
COUNT = itertools.count()
FOLDER = tempfile.TemporaryDirectory()


def f(x, p, n=2.0):
    return x * p["w"] + p["b"][0], [x - n, (x > 0.5,)]


def right() -> tuple[Any, ...]:
    return BASE.copy(), {"w": BASE + 1.0, "b": [BASE[0] * 1.0, 3]}, 2.0


def on_disk(array: np.ndarray) -> np.ndarray:
    file = Path(FOLDER.name) / f"array{next(COUNT)}.npy"
    np.save(file, array)
    return np.load(file, mmap_mode="r")


class Own(np.ndarray):
    def __array_finalize__(self, obj: object) -> None:
        self.note = "own"


class Duck:
    shape = (4, 6)
    dtype = np.dtype("f8")

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return BASE


def locked(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


ODD: list[Callable[[np.ndarray], Any]] = [
    lambda a: a.astype("f4"),
    lambda a: a.astype("f2"),
    lambda a: a.astype(ml_dtypes.bfloat16),
    lambda a: a.astype("i8"),
    lambda a: a.astype("u1"),
    lambda a: a > 0.0,
    lambda a: a.astype("c16"),
    lambda a: a.astype(">f8"),
    lambda a: a.astype("longdouble"),
    lambda a: a.astype(object),
    lambda a: a.astype("U8"),
    lambda a: np.asfortranarray(a),
    lambda a: a.T,
    lambda a: a[::-1] if a.ndim else a,
    lambda a: np.repeat(a.reshape(*a.shape, 1), 2, axis=-1)[..., 0],
    lambda a: np.frombuffer(b"\0" + a.tobytes(), np.uint8)[1:].view("f8").reshape(a.shape),
    lambda a: np.broadcast_to(a.reshape(-1)[:1], a.shape),
    locked,
    on_disk,
    lambda a: a.view(Own),
    lambda a: np.ma.masked_array(a, a > 0.5),
    lambda a: a.view(np.matrix),
    lambda a: a.reshape(-1)[:1],
    lambda a: a.reshape(-1)[:0],
    lambda a: a[None],
    lambda a: a[0] if a.ndim else a,
    lambda a: a.reshape(-1)[0],
    lambda a: a.reshape(-1)[:1].reshape(()),
    lambda a: np.float32(1.5),
    lambda a: np.int64(2),
    lambda a: np.bool_(True),
    lambda a: a.tolist(),
    lambda a: (a.tolist(),),
    lambda a: ab.tensor(a),
    lambda a: ab.tensor(a, requires_grad=True),
    lambda a: Duck(),
    lambda a: memoryview(a.reshape(-1)),
    lambda a: None,
    lambda a: "text",
    lambda a: b"bytes",
    lambda a: object(),
    lambda a: {1, 2},
    lambda a: len,
    lambda a: 2.5,
    lambda a: float("nan"),
    lambda a: 3,
    lambda a: 2**70,
    lambda a: -(2**63),
    lambda a: True,
    lambda a: 1j,
    lambda a: {"w": a},
    lambda a: {"w": a, "b": [a, 3], "c": a},
    lambda a: OrderedDict(w=a, b=[a[0] if a.ndim else a, 3]),
    lambda a: {"b": [a, 3], "w": a},
    lambda a: {"w": a, "b": (a, 3)},
    lambda a: {"w": a, 1: [a]},
    lambda a: [a],
    lambda a: (a, a),
    lambda a: Pair(a, 3),
    lambda a: {},
    lambda a: [],
]


def odd_call(chance: random.Random) -> tuple[list[Any], dict[str, Any]]:
    x, p, n = right()
    args, kwargs = [x, p, n][: chance.choice([2, 3, 3])], {}
    for _ in range(chance.choice([1, 1, 2])):
        change, part = chance.choice(ODD), chance.choice("xwb3pn")
        if part == "x":
            args[0] = change(BASE.copy())
        elif part == "p":
            args[1] = change(BASE.copy())
        elif part == "n":
            args[2:] = [change(np.array(2.0))]
        elif type(args[1]) is dict and set(args[1]) == {"w", "b"} and type(args[1]["b"]) is list:
            if part == "w":
                args[1]["w"] = change(BASE + 1.0)
            else:
                args[1]["b"][int(part == "3") % len(args[1]["b"])] = change(BASE[0] * 1.0)
    turn = chance.random()
    if turn < 0.1:
        args.append(chance.choice(args))
    elif turn < 0.15:
        args = args[:1]
    elif turn < 0.25:
        kwargs = dict(zip("xpn", args, strict=False))
        args = []
        if turn < 0.22:
            kwargs = dict(reversed(kwargs.items()))
    elif turn < 0.3:
        kwargs = {chance.choice(["n", "p", "q"]): args.pop()}
    return args, kwargs


def outcome(call: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # many compiles; overflow in a cast
            return shown(call(*args, **kwargs))
    except Exception as error:
        return type(error), getattr(error, "code", ""), getattr(error, "sentence", str(error))


def shown(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return type(value), [shown(one) for one in value]
    if isinstance(value, ab.Tensor):
        return "tensor", value.is_tracked, shown(value.data)
    array = np.asarray(value)
    return type(value), array.dtype, array.shape, array.tobytes()


def compare(seed: int, calls: int) -> None:
    chance = random.Random(seed)
    mine, its = (ab.compile(f, backend=one) for one in ("native", "reference"))
    args = right()
    wanted = outcome(its, list(args), {})
    assert outcome(mine, list(args), {}) == wanted
    assert isinstance(type(mine).__call__, BuiltinFunctionType)
    for _ in range(calls):
        odd, named = odd_call(chance)
        answer = outcome(its, odd, named)
        for _ in range(2):  # the second by an entry, if there is one
            assert outcome(mine, odd, named) == answer, (odd, named)
    assert outcome(mine, list(args), {}) == wanted


@pytest.mark.parametrize("seed", range(6))
def test_odd_calls(seed: int) -> None:
    compare(seed, 4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 130))
def test_many_odd_calls(seed: int) -> None:
    compare(seed, 12)


@pytest.mark.parametrize("place", range(len(ODD)))
def test_each_odd_value_for_an_array(place: int) -> None:
    mine, its = (ab.compile(lambda x: x * 2.0, backend=one) for one in ("native", "reference"))
    mine(BASE)
    odd = [ODD[place](BASE.copy())]
    answer = outcome(its, odd, {})
    for _ in range(2):
        assert outcome(mine, odd, {}) == answer
    np.testing.assert_array_equal(mine(BASE), BASE * 2.0)


@pytest.mark.slow
@pytest.mark.parametrize("place", range(len(ODD)))
def test_each_odd_value_that_is_given_away(place: int) -> None:
    def step(w):
        return w + 1.0

    mine, its = (ab.compile(step, backend=one, donate="w") for one in ("native", "reference"))
    mine(BASE.copy())
    its(BASE.copy())
    for _ in range(2):
        first, second = ODD[place](BASE.copy()), ODD[place](BASE.copy())
        assert outcome(mine, [first], {}) == outcome(its, [second], {})
        if isinstance(first, np.ndarray) and first.dtype != object:
            np.testing.assert_array_equal(first, second)  # long doubles have bytes that say nothing
