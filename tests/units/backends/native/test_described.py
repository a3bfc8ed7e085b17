"""What an entry depends on, as text: the same in every process, another for each other entry."""

from typing import Any

import numpy as np
import pytest

import anabranch as ab
from anabranch.backends.base import Box, Boxed, Call, Same
from anabranch.backends.native.described import Objects, Way
from anabranch.core.aval import aval

F64, F32 = aval((3,), np.dtype(np.float64)), aval((3,), np.dtype(np.float32))
A, B = np.ones(3), np.zeros(3)
CELL = object()
Tensor = type(ab.tensor(1.0))


def text(
    arguments: Any = (0,),
    result: Any = 0,
    parameters: Any = (F64,),
    outputs: Any = (F64,),
    **more: Any,
) -> str:
    call = {k: more.pop(k) for k in ("captured", "bindings", "converts") if k in more}
    made = Call("f", arguments, more.pop("named", {}), result, print, **call)
    rest = {"constants": 0, "donated": {}, "workspace": 0, "pooled": True, "is_long": False} | more
    return Way(made, parameters, outputs=outputs, **rest).described()[0]


OTHERS: dict[str, dict[str, Any]] = {
    "none": {},
    "weak": {"parameters": (aval((), np.dtype(np.float64), True),)},
    "not weak": {"parameters": (aval((), np.dtype(np.float64)),)},
    "shape": {"parameters": (aval((4,), np.dtype(np.float64)),)},
    "dtype": {"parameters": (F32,)},
    "result's dtype": {"outputs": (F32,)},
    "donated": {"donated": {0: 0}},
    "workspace": {"workspace": 64},
    "pooled": {"pooled": False},
    "long": {"is_long": True},
    "constants": {"constants": 1},
    "converts": {"converts": True},
    "a list": {"result": (list, [0])},
    "a tuple": {"result": (tuple, [0])},
    "a dict": {"result": (dict, [("a", 0)])},
    "another key": {"result": (dict, [("b", 0)]), "bindings": [("name", CELL, "a", A)]},
    "its own key": {"result": (dict, [("a", 0)]), "bindings": [("name", CELL, "a", A)]},
    "a cell": {"bindings": [("cell", CELL, None, A)]},
    "a name": {"bindings": [("name", CELL, "a", A)]},
    "an attribute": {"bindings": [("attribute", CELL, "a", A)]},
    "an item": {"bindings": [("item", CELL, "a", A)]},
    "a type": {"bindings": [("type", CELL, None, A)]},
    "a number": {"bindings": [("cell", CELL, None, 2.5)]},
    "a word": {"bindings": [("cell", CELL, None, "word")]},
    "a truth": {"bindings": [("cell", CELL, None, True)]},
    "a length": {"bindings": [("length", CELL, None, 2)]},
    "another length": {"bindings": [("length", CELL, None, 3)]},
    "keys": {"bindings": [("keys", CELL, None, ["a", "b"])]},
    "other keys": {"bindings": [("keys", CELL, None, ["a"])]},
    "two values": {"arguments": (0, Same(A)), "bindings": [("cell", CELL, None, B)]},
    "one value": {"arguments": (0, Same(A)), "bindings": [("cell", CELL, None, A)]},
    "by name": {"arguments": (), "named": {"x": 0}},
    "two parameters": {"arguments": (0, 1), "parameters": (F64, F64)},
    "in turn": {"arguments": (1, 0), "parameters": (F64, F64)},
    "captured": {"captured": [A], "arguments": (), "parameters": (F64,)},
    "boxed": {"captured": [Boxed(A, Box(Tensor, "value"))], "arguments": ()},
    "fixed": {
        "captured": [Boxed(A, Box(Tensor, "value", (("_tracked", False),)))],
        "arguments": (),
    },
    "a box": {"arguments": ((Box(Tensor, "value"), [0]),)},
}


def test_all_that_an_entry_depends_on_is_in_the_text() -> None:
    texts = {name: text(**one) for name, one in OTHERS.items()}
    assert len(set(texts.values())) == len(texts)
    assert not any("0x" in one for one in texts.values())


def test_other_objects_in_the_same_places_give_the_same_text() -> None:
    first = text(captured=[A], bindings=[("name", CELL, "a", A)], arguments=())
    assert first == text(captured=[B], bindings=[("name", object(), "z", B)], arguments=())
    assert first != text(captured=[A], bindings=[("name", CELL, "a", B)], arguments=())


def test_an_object_keeps_its_number() -> None:
    objects = Objects([A, B, A])
    assert (objects.held[0] is A, objects.known(B), objects.number(A), len(objects.held)) == (
        *(True, 1, 0),
        2,
    )
    with pytest.raises(KeyError):
        objects.known(CELL)


def test_the_same_way_into_other_functions_is_found(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANABRANCH_CACHE_DIR", str(tmp_path / "cache"))

    def run(names: tuple[str, str], tables: tuple[Any, Any]) -> Any:
        first, second = tables

        def f(data: Any) -> Any:
            return {names[0]: data[names[0]] * first, names[1]: data[names[1]] + second}

        step = ab.compile(f, backend="native")
        out = [step({names[0]: A * 3.0, names[1]: B}) for _ in range(2)][1]
        return {name: value.tolist() for name, value in out.items()}

    assert run(("a", "b"), (A, A)) == {"a": [3.0] * 3, "b": [1.0] * 3}
    assert run(("a", "b"), (A, B)) == {"a": [3.0] * 3, "b": [0.0] * 3}
    assert run(("b", "a"), (A * 2, B + 7)) == {"b": [6.0] * 3, "a": [7.0] * 3}
    before = ab.cache.counts()
    assert run(("c", "d"), (A * 2, B + 7)) == {"c": [6.0] * 3, "d": [7.0] * 3}
    assert ab.cache.counts().emitted - before.emitted == 0
