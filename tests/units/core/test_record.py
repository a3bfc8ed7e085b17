"""A record is what a frozen dataclass is, but for the time that defining it takes."""

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, replace
from typing import Any

import pytest

from anabranch.core.record import record


@record
class Point:
    """A point."""

    x: float
    y: float = 0.0
    tags: list[str] = field(default_factory=list)
    note: str = field(default="", repr=False, compare=False)


@dataclass(frozen=True)
class Plain:
    """The same by `dataclasses`."""

    x: float
    y: float = 0.0
    tags: list[str] = field(default_factory=list)
    note: str = field(default="", repr=False, compare=False)


@record(eq=False)
class Named:
    """One that counts as itself only."""

    name: str
    size: int = field(init=False)
    seen: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", len(self.name))


@record
class Longer(Point):
    """One with more fields."""

    z: float = 1.0

    def __repr__(self) -> str:
        return f"<{self.x} {self.y} {self.z}>"


CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((1.0,), {}),
    ((1.0, 2.0), {}),
    ((), {"x": 1.0, "note": "n"}),
    ((1.0,), {"tags": ["a"]}),
]


@pytest.mark.parametrize(("args", "kwargs"), CALLS)
def test_a_record_holds_and_shows_what_a_dataclass_does(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    one, other = Point(*args, **kwargs), Plain(*args, **kwargs)
    assert asdict(one) == asdict(other)
    assert repr(one) == repr(other).replace("Plain", "Point")
    assert [f.name for f in fields(one)] == [f.name for f in fields(other)]
    assert asdict(replace(one, y=5.0)) == asdict(replace(other, y=5.0))
    assert copy.copy(one) == one == copy.deepcopy(one) == pickle.loads(pickle.dumps(one))


def test_defaults_are_made_anew_for_each() -> None:
    assert Point(1.0).tags is not Point(1.0).tags


def test_equality_goes_by_the_compared_fields_of_one_class() -> None:
    assert Point(1.0, note="a") == Point(1.0, note="b") != Point(2.0)
    assert Point(1.0) != Plain(1.0) and Point(1.0) != Longer(1.0)
    tagged = Point(1.0, tags=())  # type: ignore[arg-type]
    assert hash(tagged) == hash(Point(1.0, tags=()))  # type: ignore[arg-type]
    assert Named("a") != Named("a")
    assert len({Named("a"), Named("a")}) == 2


def test_fields_cannot_be_set_or_deleted() -> None:
    one = Point(1.0)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        one.x = 2.0  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del one.x
    assert one.x == 1.0


WRONG: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
    ((), {}, "Point: missing a required argument: 'x'"),
    ((1.0,), {"w": 2.0}, "Point: got an unexpected keyword argument 'w'"),
    ((1.0,), {"x": 2.0}, "Point: multiple values for argument 'x'"),
    ((1.0, 2.0, [], "", 5), {}, "Point: too many positional arguments"),
    ((), {"y": 1.0, "w": 2.0}, "Point: missing a required argument: 'x'"),
]


@pytest.mark.parametrize(("args", "kwargs", "text"), WRONG)
def test_wrong_arguments_are_told_as_python_tells_them(
    args: tuple[Any, ...], kwargs: dict[str, Any], text: str
) -> None:
    with pytest.raises(TypeError) as caught:
        Point(*args, **kwargs)
    assert str(caught.value) == text


def test_what_is_not_given_is_not_taken() -> None:
    one = Named("abc")
    assert (one.size, one.seen) == (3, False)
    with pytest.raises(TypeError, match="unexpected"):
        Named("abc", seen=True)  # type: ignore[call-arg]


def test_the_signature_is_that_of_the_fields() -> None:
    mine, other = inspect.signature(Point), inspect.signature(Plain)
    assert list(mine.parameters) == list(other.parameters)
    assert mine.parameters["y"].default == 0.0
    assert list(inspect.signature(Longer).parameters)[-1] == "z"
    assert not hasattr(Point(1.0), "__signature__")


def test_what_a_class_defines_is_kept() -> None:
    assert repr(Longer(1.0)) == "<1.0 0.0 1.0>"
    assert Longer(1.0, z=2.0).z == 2.0
