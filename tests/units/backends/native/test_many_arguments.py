"""Functions of so many arrays that one function looks at each, and loops hand them on."""

import sys
from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Any

import numpy as np
import pytest

import anabranch as ab
from anabranch.backends.native import modules

COUNT = 19
AT = 17  # the one that is not as expected


def arrays() -> list[np.ndarray[Any, Any]]:
    return [np.arange(12.0).reshape(3, 4) / 4 + i for i in range(COUNT)]


def update(state: list[Any], scale: Any) -> tuple[list[Any], Any]:
    return [x * scale + i for i, x in enumerate(state)], state[AT]


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> list[str]:
    """The modules that are written meanwhile."""
    monkeypatch.setenv("ANABRANCH_CACHE_DIR", str(tmp_path))
    found: list[str] = []
    real = modules.described_code

    def described_code(described: str, write: Callable[[], modules.Written]) -> Any:
        def noted() -> modules.Written:
            written = write()
            found.append(written[0])
            return written

        return real(described, noted)

    monkeypatch.setattr(modules, "described_code", described_code)
    return found


def compiled(donate: Any = ()) -> Any:
    """The function, which has an entry."""
    made = ab.compile(update, backend="native", donate=donate)
    made(arrays(), 2.0)
    assert isinstance(type(made).__call__, BuiltinFunctionType)
    return made


def expected(state: list[Any], scale: float) -> list[Any]:
    return [x * scale + i for i, x in enumerate(state)]


@pytest.mark.parametrize("donate", [(), "state"])
def test_results_are_those_of_the_reference(donate: Any, texts: list[str]) -> None:
    f = compiled(donate)
    assert sum("@elements(" in text for text in texts) == 1
    for scale in (3.0, -1.0):
        state = arrays()
        wanted, one = expected(arrays(), scale), arrays()[AT]
        found, same = f(state, scale)
        assert type(found) is list
        for mine, its in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(mine, its)
        np.testing.assert_array_equal(same, one)
        taken = {id(one) for one in (*found, same)} & {id(one) for one in state}
        assert len(taken) == (COUNT if donate else 0)


UNEXPECTED: dict[str, Callable[[np.ndarray[Any, Any]], Any]] = {
    "another length": lambda x: x[:, :3].copy(),
    "another first length": lambda x: x[:2].copy(),
    "fewer axes": lambda x: x[0].copy(),
    "more axes": lambda x: x[None].copy(),
    "no axes": lambda x: np.array(2.0),
    "another dtype": lambda x: x.astype(np.float32),
    "another layout": np.asfortranarray,
    "a view with steps": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "not aligned": lambda x: (
        np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view("f8").reshape(3, 4)
    ),
    "a subclass": lambda x: x.view(np.matrix),
    "a tensor": ab.tensor,
    "a number": lambda x: 3.0,
    "none": lambda x: None,
}


@pytest.mark.parametrize("name", UNEXPECTED)
@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_what_is_not_expected_goes_the_slow_way(name: str) -> None:
    """Which does what a function that was never called does."""
    f, fresh = compiled(), ab.compile(update, backend="native")
    state = arrays()
    state[AT] = UNEXPECTED[name](state[AT])
    outcomes = []
    for one in (f, fresh):
        try:
            found, _ = one(list(state), 3.0)
            outcomes.append([(np.asarray(x).dtype, np.asarray(x).tolist()) for x in found])
        except Exception as error:  # whichever: both have to raise the same
            outcomes.append([type(error), str(error)])
    assert outcomes[0] == outcomes[1]
    np.testing.assert_array_equal(f(arrays(), 2.0)[0][AT], expected(arrays(), 2.0)[AT])


def test_arrays_that_meet_are_not_given_away_together() -> None:
    f = compiled("state")
    shared = np.zeros(23)
    state = arrays()
    state[2], state[AT] = shared[:12].reshape(3, 4), shared[11:].reshape(3, 4)
    with pytest.raises(ab.AnabranchError):
        f(state, 2.0)
    np.testing.assert_array_equal(shared, 0.0)
    read_only = arrays()
    read_only[AT - 1].flags.writeable = False
    with pytest.raises(ab.AnabranchError):
        f(read_only, 2.0)
    np.testing.assert_array_equal(read_only[0], arrays()[0])


@pytest.mark.parametrize("donate", [(), "state"])
def test_references_are_counted_right(donate: Any) -> None:
    f = compiled(donate)
    state = arrays()
    state, _ = f(state, 1.0)
    held = [state[0], state[AT], state[-1], np.dtype(float), np.ndarray, list, tuple]
    before = [sys.getrefcount(one) for one in held]
    for _ in range(500):
        f(state, 1.0)
    after = [sys.getrefcount(one) for one in held]
    assert all(abs(a - b) < 50 for a, b in zip(after, before, strict=True))
    assert after[:3] == before[:3]
