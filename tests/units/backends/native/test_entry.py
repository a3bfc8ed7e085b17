"""The entry in machine code: quick where it can be, and never different from the slow way."""

import gc
import os
import subprocess
import sys
import threading
import tracemalloc
import types
import weakref
from collections.abc import Callable
from types import BuiltinFunctionType
from typing import NamedTuple

import numpy as np
import pytest

import anabranch as ab
from anabranch.core.registry import temporary_ops
from anabranch.frontends import quick as quicker
from anabranch.frontends.captures import Binding

X = np.arange(-6.0, 6.0).reshape(3, 4) / 4  # sums of these are exact in any order


def quick(f: object) -> bool:
    return isinstance(type(f).__call__, BuiltinFunctionType)


def compiled(f: object, *args: object) -> ab.compile:
    made = ab.compile(f, backend="native")  # type: ignore[call-overload]
    made(*args)
    return made


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (lambda x: x * 2.0, (X,)),
        (lambda x, y: (x * y + x) ** 2, (2.0, 3.0)),
        (lambda x, y: x * y, (X, np.float64(2.0))),
        (lambda x, y: x * y, (X, np.array(2.0))),
        (lambda x: ab.sum(x), (X,)),
        (lambda x: (x, [x + 1.0, (ab.sum(x),)]), (X,)),
        (lambda x: x + np.ones((3, 4)), (X,)),
        (lambda x: x.astype(np.float32) > 0, (X,)),
        (lambda x: x @ x.T, (X,)),
        (lambda n: n + 1, (np.array([1, 2]),)),
        (lambda x: x[:0] * 2.0, (X,)),
        (ab.value_and_grad(lambda x: ab.sum(x * x)), (X,)),
        (lambda p: p["w"] * p["b"][1], ({"w": X, "b": [X, 2.0]},)),
        (lambda p, q: (p[0] + p[1][0], {"a": q, 3: (ab.sum(q),)}), ((X, [X]), X)),
        (lambda x, n: x * n, (X, 3)),
        (lambda x, b: ab.where(b, x, -x), (X, True)),
        (lambda x, b: ab.where(b, x, -x), (X, False)),
        (lambda x: {"n": 3, "any": ab.any(x > 1.0), "none": None, "few": [ab.all(x > 1.0)]}, (X,)),
        (lambda x: (x, "name", np.float32(2.0)), (X,)),
        (lambda p, q: p["b"] - q, ({"b": X, "a": None}, X)),
        (lambda x: ab.any(x > 1.0), (X,)),
        (lambda x: x.astype("bfloat16").sum(), (X,)),
        (lambda x: x * 2.0, (np.float32(1.5),)),
        (lambda x: ab.sum(x) * 1j, (X,)),
    ],
)
def test_the_entry_gives_what_the_reference_gives(f: object, args: tuple[object, ...]) -> None:
    fast = compiled(f, *args)
    assert quick(fast)
    wanted = ab.compile(f)(*args)  # type: ignore[call-overload]
    for _ in range(3):
        found = fast(*args)
        assert _shown(found) == _shown(wanted)


def _shown(value: object) -> object:
    if isinstance(value, tuple | list):
        return type(value), [_shown(one) for one in value]
    if isinstance(value, dict):
        return [(key, _shown(one)) for key, one in value.items()]
    array = np.asarray(value)
    return type(value), array.dtype, array.shape, array.tobytes()


UNEXPECTED = {
    "another shape": lambda: X[:2],
    "another dtype": lambda: X.astype(np.float32),
    "integers": lambda: X.astype(int),
    "another layout": lambda: np.asfortranarray(X),
    "a view with steps": lambda: np.repeat(X, 2, axis=1)[:, ::2],
    "not aligned": lambda: (
        np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view("f8").reshape(3, 4)
    ),
    "a tensor": lambda: ab.tensor(X),
    "a number": lambda: 3.0,
    "an integer": lambda: 3,
}


@pytest.mark.parametrize("name", UNEXPECTED)
def test_what_it_does_not_expect_goes_the_slow_way(name: str) -> None:
    f = compiled(lambda x: x * 2.0, X)
    value = UNEXPECTED[name]()
    wanted = ab.compile(lambda x: x * 2.0)(value)
    for _ in range(2):
        found = f(value)
        assert type(found) is type(wanted)
        np.testing.assert_array_equal(ab.tensor(found).data, ab.tensor(wanted).data)
    np.testing.assert_array_equal(f(X), X * 2.0)


def test_calls_by_name_have_an_entry_for_each_order() -> None:
    f = ab.compile(lambda x, y=1.0, *, k=2.0: (x - y) * k, backend="native")
    calls = ({"x": X, "k": X}, {"k": X, "x": X}, {"y": X, "x": X}, {"k": 3.0, "y": X, "x": X})
    for call in calls:
        f(**call)
        assert quick(f)
    for _ in range(2):
        for call in calls:
            np.testing.assert_array_equal(f(**call), f.function(**call))
        np.testing.assert_array_equal(f(X, k=X), (X - 1.0) * X)
        np.testing.assert_array_equal(f(X, X * 3.0), (X - X * 3.0) * 2.0)
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        f(X, z=X)


CONTAINERS = {
    "another key": {"w": X, "c": [X, 2.0]},
    "one key more": {"w": X, "b": [X, 2.0], "c": X},
    "one key less": {"w": X},
    "a longer list": {"w": X, "b": [X, 2.0, 3.0]},
    "a shorter list": {"w": X, "b": [X]},
    "a tuple for a list": {"w": X, "b": (X, 2.0)},
    "an array for a list": {"w": X, "b": X},
    "no dict": [X, [X, 2.0]],
    "nothing": None,
    "another number": {"w": X, "b": [X, 2]},
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_another_container_goes_the_slow_way(name: str) -> None:
    def f(p):
        return sum(ab.sum(p[key] if key == "w" else p[key][0]) for key in sorted(p))

    p = {"w": X, "b": [X, 2.0]}
    fast = compiled(f, p)
    assert quick(fast)
    wanted = _outcome(ab.compile(f), CONTAINERS[name])
    for _ in range(2):
        assert _outcome(fast, CONTAINERS[name]) == wanted
        assert fast({"b": [X, 2.0], "w": X}) == fast(p) == 2.0 * X.sum()


def _outcome(f: object, *args: object) -> object:
    try:
        return _shown(f(*args))  # type: ignore[operator]
    except Exception as error:
        return type(error), getattr(error, "sentence", str(error))


def test_a_container_may_drop_an_argument_while_the_program_reads_it() -> None:
    def forget(x):
        held.clear()
        junk.extend(np.full((3, 4), 7.0) for _ in range(50))  # in the memory that it leaves
        return x * 1.0

    junk: list[np.ndarray] = []

    with temporary_ops():
        drop = ab.Op("drop", aval=lambda x: x, ref=forget)
        f = ab.compile(lambda p: drop(p[0]) + p[0] * 2.0, backend="native")
        for _ in range(3):
            held = [X * 1.0]
            np.testing.assert_array_equal(f(held), X * 3.0)


def test_integers_too_large_and_values_of_bools() -> None:
    f = compiled(lambda x, n: x * n, X, 3)
    assert quick(f)
    np.testing.assert_array_equal(f(X, 2**70), X * 2.0**70)
    np.testing.assert_array_equal(f(X, 2**40), X * 2.0**40)
    np.testing.assert_array_equal(f(X, -5), X * -5)
    np.testing.assert_array_equal(f(X, True), X)


def test_calls_by_name_and_wrong_calls() -> None:
    f = compiled(lambda x, y: x - y, X, X)
    np.testing.assert_array_equal(f(y=X, x=X * 3.0), X * 2.0)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        f(X)
    with pytest.raises(ab.ShapeError) as caught:
        f(X, X[:2])
    assert caught.value.code == "shape-mismatch"


def test_inside_a_trace_it_is_part_of_the_graph() -> None:
    inner = compiled(lambda x: ab.multiply(x, 2.0), X)
    g = ab.trace(lambda x: inner(x) + inner(X), X)
    assert [node.op.name for node in g.nodes].count("multiply") == 2


def test_options_of_a_block_hold() -> None:
    f = compiled(ab.grad(lambda x: ab.sum(ab.where(x > 0, ab.sqrt(x), 0.0))), np.array([0.0, 4.0]))
    x = np.array([0.0, 4.0])
    assert f(x)[0] == 0.0
    with ab.config(absorb_zero=False):
        assert np.isnan(f(x)[0])
    assert f(x)[0] == 0.0


def test_a_captured_array_is_read_at_each_call_and_its_name_looked_up() -> None:
    w = np.ones(4)

    def f(x):
        return x * w

    fast = compiled(f, X)
    assert quick(fast)
    w[:] = 2.0
    np.testing.assert_array_equal(fast(X), X * 2.0)
    w = np.full(4, 3.0)
    np.testing.assert_array_equal(fast(X), X * 3.0)
    w = np.full((3, 4), 4.0)
    np.testing.assert_array_equal(fast(X), X * 4.0)


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("shape", [(4,), ()])
def test_a_captured_tensor_is_read_at_each_call(
    shape: tuple[int, ...], requires_grad: bool
) -> None:
    w = ab.tensor(np.ones(shape), requires_grad=requires_grad)
    fast = compiled(lambda x: x * w, X)
    assert quick(fast)
    for value in (2.0, 3.0):
        w.data = np.full(shape, value)
        np.testing.assert_array_equal(fast(X), X * value)
        w.data[...] = -value
        np.testing.assert_array_equal(fast(X), -X * value)
    w = ab.tensor(np.full(shape, 4.0))
    np.testing.assert_array_equal(fast(X), X * 4.0)


def test_a_captured_variable_of_a_derivative_is_recorded() -> None:
    def f(w):
        fast = compiled(lambda x: ab.sum(x * w * w), X)
        return fast(X) * fast(X)

    wanted = 4.0 * 3.0**3 * X.sum() ** 2
    assert float(ab.grad(f)(3.0)) == pytest.approx(wanted, rel=1e-14)
    tangent = ab.jvp(f, (np.float64(3.0),), (np.float64(1.0),))[1]
    assert float(tangent) == pytest.approx(wanted, rel=1e-14)


def test_in_a_derivative_by_another_variable_a_captured_one_keeps_its_history() -> None:
    w = ab.tensor(2.0, requires_grad=True)
    fast = compiled(lambda x: ab.sum(x * w), X)
    assert quick(fast)
    slope = ab.grad(lambda v: v * v * fast(X))(3.0)
    slope.backward()
    assert w.grad == pytest.approx(2.0 * 3.0 * X.sum(), rel=1e-14)


def test_tensors_among_the_arguments() -> None:
    def f(p, x):
        return {"sum": ab.sum(p["w"] * x), "parts": [p["w"] - x, None, 2.0]}

    def shown(out):
        return [out["parts"][1:], *((type(v), v.requires_grad, _shown(v.data)) for v in both(out))]

    def both(out):
        return out["sum"], out["parts"][0]

    calls = [({"w": ab.tensor(X)}, X), ({"w": X}, ab.tensor(X)), ({"w": X}, X)]
    fast = ab.compile(f, backend="native")
    for _ in range(3):
        for p, x in calls[:2]:
            assert shown(fast(p, x)) == shown(f(p, x))
        assert type(fast(*calls[2])["sum"]) is np.float64
    assert quick(fast) and fast._entries == 3  # one for each way to mix them
    w = ab.tensor(X, requires_grad=True)
    both(fast({"w": w}, X))[0].backward()
    np.testing.assert_array_equal(w.grad, X)
    w.requires_grad = False
    out = fast({"w": w}, X)["sum"]
    assert not out.requires_grad and (out.name, out.grad, out.is_leaf) == (None, None, True)
    out.requires_grad = True
    (out * out).backward()
    assert out.grad == 2.0 * float(out)


def test_among_tensors_a_captured_variable_is_recorded() -> None:
    w = ab.tensor(2.0, requires_grad=True)
    fast = compiled(lambda x: ab.sum(x * w), ab.tensor(X))
    w.requires_grad = False
    for _ in range(2):
        assert not fast(ab.tensor(X)).requires_grad
    w.requires_grad = True
    fast(ab.tensor(X)).backward()
    assert w.grad == X.sum()
    assert type(fast(X)) is np.float64


def test_tensors_that_are_given_away_stay_as_they_are() -> None:
    fast = ab.compile(lambda x: x * 2.0, donate="x", backend="native")
    x = ab.tensor(X)
    for _ in range(3):
        np.testing.assert_array_equal(fast(x).data, X * 2.0)
        np.testing.assert_array_equal(x.value, X)


def test_boxes_are_counted_right() -> None:
    fast = compiled(lambda x: (x * 2.0, ab.sum(x)), ab.tensor(X))
    x = ab.tensor(X)
    fast(x)
    held = [x, x.value, ab.Tensor, True, False, None]
    before = [sys.getrefcount(one) for one in held]
    for _ in range(1_000):
        fast(x)
    after = [sys.getrefcount(one) for one in held]
    assert all(abs(a - b) < 50 for a, b in zip(after, before, strict=True))
    out = fast(x)
    alone = ab.tensor(X)
    assert [sys.getrefcount(out[0]), sys.getrefcount(out[0].value)] == [
        sys.getrefcount((alone,)[0]),
        sys.getrefcount(alone.value),
    ]
    gone = weakref.ref(out[0])
    del out
    assert gone() is None


def test_an_argument_may_lose_its_tensor_while_the_program_reads_it() -> None:
    w = ab.tensor(np.ones((64, 64)))

    def forget(x):
        for tensor in losing:
            tensor.data = np.zeros((64, 64))
        junk.extend(np.full((64, 64), 7.0) for _ in range(50))  # in the memory that it leaves
        return x * 1.0

    junk: list[np.ndarray] = []
    losing: list[ab.Tensor] = []  # none while it is traced: the captured value has one name
    with temporary_ops():
        drop = ab.Op("drop", aval=lambda x: x, ref=forget)
        fast = compiled(lambda x: drop(x) + w, np.ones((64, 64)))
        losing.append(w)
        for _ in range(3):
            w.data = np.ones((64, 64))
            np.testing.assert_array_equal(fast(np.ones((64, 64))), np.full((64, 64), 2.0))
        assert quick(fast)


class Pair(NamedTuple):
    a: object
    b: object


class Other(NamedTuple):
    a: object
    b: object


def test_named_tuples_among_the_arguments() -> None:
    fast = compiled(lambda p, q: p.a - p.b * q[0], Pair(X, 2.0), (X,))
    assert quick(fast)
    np.testing.assert_array_equal(fast(Pair(X, 3.0), (X,)), X - 3.0 * X)
    np.testing.assert_array_equal(fast(Other(X, 3.0), (X,)), X - 3.0 * X)
    with pytest.raises(AttributeError):
        fast((X, 3.0), (X,))


def test_a_named_tuple_among_the_results() -> None:
    def f(x):
        return [Pair(x, Other(x * 2.0, None))]

    def counts(out):
        return [sys.getrefcount(one) for one in (out[0], out[0].b, *map(type, (out, *out)))]

    fast = compiled(f, X)
    assert quick(fast)
    wanted = f(X)
    for _ in range(100):
        found = fast(X)
        assert _shown(found[0].b.a) == _shown(2.0 * X)
        assert repr(found) == repr(wanted)
        assert gc.is_tracked(found[0])
        assert [type(one) for one in (found, *found, found[0].b)] == [list, Pair, Other]
    assert counts(found) == counts(wanted)


class Counted(Pair):
    made = 0

    def __new__(cls, a, b):
        cls.made += 1
        return super().__new__(cls, a, b)


def test_a_class_derived_of_a_named_tuple_makes_its_objects_itself() -> None:
    fast = compiled(lambda x: Counted(x, x * 2.0), X)
    before = Counted.made
    assert type(fast(X)) is Counted
    assert Counted.made > before


def helper_of_two():
    return 2


@pytest.mark.parametrize("one", [2, 2.0, True, "two", b"two", len, helper_of_two])
def test_a_static_argument_is_part_of_the_program(one: object) -> None:
    def f(x, n):
        return x * (n if isinstance(n, int | float) else n() if n is helper_of_two else 5.0)

    fast = ab.compile(f, static="n", backend="native")
    fast(X, one)
    assert quick(fast)
    for value in (one, 3, True, 1, 1.0, "x"):
        for _ in range(2):
            np.testing.assert_array_equal(fast(X, value), f(X, value))
    np.testing.assert_array_equal(fast(X, n=one), f(X, one))


def test_a_static_argument_that_can_change_has_no_entry() -> None:
    fast = ab.compile(lambda x, n: x * n[0], static="n", backend="native")
    n = [2.0]
    np.testing.assert_array_equal(fast(X, n), X * 2.0)
    assert not quick(fast)
    n[0] = 3.0
    np.testing.assert_array_equal(fast(X, n), X * 3.0)


def helper(x):
    return x * 2.0


def calls_helper(x):
    return helper(x) + 1.0


def test_a_helper_that_is_bound_anew_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    fast = compiled(calls_helper, X)
    assert quick(fast)
    np.testing.assert_array_equal(fast(X), X * 2.0 + 1.0)
    monkeypatch.setitem(globals(), "helper", lambda x: x * 5.0)
    np.testing.assert_array_equal(fast(X), X * 5.0 + 1.0)
    monkeypatch.delitem(globals(), "helper")
    with pytest.raises(NameError, match="helper"):
        fast(X)


class Layer:
    scale = np.full(4, 3.0)

    def __init__(self) -> None:
        self.rate = 2.0
        self.bend = ab.sin
        self.parts = {"w": np.ones(4), "b": [np.zeros(4)]}

    def __call__(self, x):
        y = self.bend(x) * self.parts["w"] * self.scale
        return (y + self.parts["b"][0]) * self.rate


class Slotted:
    __slots__ = ("layers", "power")

    def __init__(self) -> None:
        self.layers = (Layer(),)
        self.power = 2

    def value(self, x):
        return ab.sum(self.layers[0](x) ** self.power)


def rebind_a_part(model):
    model.layers[0].parts["b"][0] = np.ones(4)


CHANGES = {
    "an attribute": lambda m: setattr(m.layers[0], "rate", 5.0),
    "an attribute in a slot": lambda m: setattr(m, "power", 3),
    "an integer by a float": lambda m: setattr(m, "power", 4.0),
    "a sign": lambda m: setattr(m.layers[0], "rate", -2.0),
    "a function": lambda m: setattr(m.layers[0], "bend", ab.cos),
    "an item of a dict": lambda m: m.layers[0].parts.update(w=np.full(4, 2.0)),
    "an item of a list": rebind_a_part,
    "an object on the way": lambda m: setattr(m.layers[0], "parts", {"w": X[0], "b": [X[1]]}),
    "the type's array": lambda m: setattr(Layer, "scale", np.full(4, 7.0)),
    "its own array": lambda m: setattr(m.layers[0], "scale", np.full(4, 8.0)),
    "a method": lambda m: setattr(Layer, "__call__", lambda self, x: x * self.rate),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_attributes_and_items_lead_to_is_looked_up(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("scale", "__call__"):
        monkeypatch.setattr(Layer, name, getattr(Layer, name))
    model = Slotted()
    fast = compiled(model.value, X)
    assert quick(fast)
    assert fast(X) == pytest.approx(model.value(X), rel=1e-12)
    CHANGES[change](model)
    assert fast(X) == pytest.approx(model.value(X), rel=1e-12)
    assert "2 compiles" in fast.explain_compiles()


def test_what_looks_give_is_counted_right() -> None:
    model = Slotted()
    fast = compiled(model.value, X)
    held = model.layers, model.layers[0].parts, model.layers[0].parts["w"], Layer.scale
    before = [sys.getrefcount(one) for one in held]
    for _ in range(100):
        fast(X)
    assert [sys.getrefcount(one) for one in held] == before


def test_a_look_that_fails_goes_the_slow_way() -> None:
    model = Slotted()
    fast = compiled(model.value, X)
    for name in ("b", "w"):
        kept = model.layers[0].parts.pop(name)
        with pytest.raises(KeyError, match=name):
            fast(X)
        model.layers[0].parts[name] = kept
    rate = model.layers[0].rate
    del model.layers[0].rate
    with pytest.raises(AttributeError, match="rate"):
        fast(X)
    model.layers[0].rate = rate
    assert fast(X) == pytest.approx(model.value(X), rel=1e-12)


class Turned(types.ModuleType):
    rate = property(lambda self: 5.0)


def test_what_stands_in_a_module_is_looked_up() -> None:
    settings = types.ModuleType("settings")
    settings.rate = 2.0  # type: ignore[attr-defined]
    fast = compiled(lambda x: x * settings.rate, X)
    assert quick(fast)
    np.testing.assert_array_equal(fast(X), X * 2.0)
    vars(settings)["rate"] = 3.0
    np.testing.assert_array_equal(fast(X), X * 3.0)
    settings.__class__ = Turned
    np.testing.assert_array_equal(fast(X), X * 5.0)
    settings.__class__ = types.ModuleType
    np.testing.assert_array_equal(fast(X), X * 3.0)
    del vars(settings)["rate"]
    with pytest.raises(AttributeError, match="rate"):
        fast(X)
    vars(settings)["__getattr__"] = lambda name: 7.0 if name == "rate" else name
    np.testing.assert_array_equal(fast(X), X * 7.0)


def test_what_stands_in_a_module_is_a_look_at_a_name() -> None:
    settings = types.ModuleType("settings")
    settings.rate = 2.0  # type: ignore[attr-defined]
    looks = [Binding("attribute", settings, name, None) for name in ("rate", "__name__", "none")]
    found = [[(one.look, one.key) for one in quicker.shorter(look)] for look in looks]
    assert found[0] == [("type", None), ("name", "rate")]
    assert found[1:] == [[("attribute", "__name__")], [("attribute", "none")]]


def test_a_container_with_other_entries_is_noticed() -> None:
    ways = {"a": 1.0, "b": 2.0}
    sizes = [1.0, 2.0]
    fast = compiled(lambda x: sum(i * x * v for i, v in enumerate(ways.values())) * sum(sizes), X)
    assert quick(fast)
    for change in (
        lambda: ways.update(c=3.0),
        lambda: ways.update(a=ways.pop("a")),  # another order
        lambda: sizes.append(4.0),
        lambda: sizes.pop(),
    ):
        change()
        wanted = sum(i * X * v for i, v in enumerate(ways.values())) * sum(sizes)
        np.testing.assert_allclose(fast(X), wanted, rtol=1e-12)


@pytest.mark.parametrize(
    ("first", "equal", "other"),
    [
        (0.0, float("0"), -0.0),
        (float("nan"), float("nan"), 1.0),
        (10**6, int("1000000"), 10**6 + 1),
        (1, 1, True),
        ("ab", "".join(["a", "b"]), "ac"),
        (None, None, False),
    ],
)
def test_an_equal_number_or_text_is_the_same(
    first: object, equal: object, other: object, executed_lines: Callable[..., int]
) -> None:
    held = first
    fast = compiled(lambda x: x + float(len(repr(held))), X)
    assert quick(fast)
    held = equal
    assert executed_lines(lambda: fast(X)) == 1  # of the test itself
    np.testing.assert_array_equal(fast(X), X + len(repr(first)))
    held = other
    assert executed_lines(lambda: fast(X)) > 100
    np.testing.assert_array_equal(fast(X), X + len(repr(other)))


def test_several_signatures_each_have_an_entry() -> None:
    f = compiled(lambda x: x * 2.0, X)
    for n in range(1, 6):
        np.testing.assert_array_equal(f(X[:, :n].copy()), X[:, :n] * 2.0)
    np.testing.assert_array_equal(f(X), X * 2.0)


def test_references_are_counted_right() -> None:
    f = compiled(lambda x, y: (x + y, [ab.sum(x), x * y]), X, X)
    x, y = X.copy(), X.copy()
    f(x, y)
    held = [x, y, x.dtype, tuple, list, float, np.ndarray]
    before = [sys.getrefcount(one) for one in held]
    for _ in range(1_000):
        f(x, y)
    after = [sys.getrefcount(one) for one in held]
    assert all(abs(a - b) < 50 for a, b in zip(after, before, strict=True))
    out = f(x, y)
    assert [sys.getrefcount(out), sys.getrefcount(out[0])] == [2, 2]


def test_calls_leave_no_memory_behind() -> None:
    f = compiled(lambda x: (x @ x.T * 2.0, ab.sum(x)), X)
    for _ in range(10):
        f(X)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(1_000):
        f(X)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 10_000


def test_a_failing_call_back_raises_and_leaves_the_entry_usable() -> None:
    f = compiled(lambda x, i: (ab.take(x, i) * 2.0, x + 1.0), X[0], np.array([1]))
    assert quick(f)
    for _ in range(3):
        with pytest.raises(ab.OutOfRangeError) as caught:
            f(X[0], np.array([9]))
        assert "running" in str(caught.value)
        np.testing.assert_array_equal(f(X[0], np.array([1]))[0], X[0, [1]] * 2.0)


def test_threads_in_one_entry_with_call_backs() -> None:
    f = compiled(lambda x: ab.exp(x @ x.T) / 3.0 + ab.sum(x), X)
    inputs = [X * k for k in range(4)]
    wanted = [ab.compile(lambda x: ab.exp(x @ x.T) / 3.0 + ab.sum(x))(x) for x in inputs]
    wrong: list[int] = []

    def work(k: int) -> None:
        for _ in range(200):
            if not np.allclose(f(inputs[k]), wanted[k], rtol=1e-14):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


def test_everything_is_freed_without_the_collector() -> None:
    f = compiled(lambda x: ab.exp(x @ x.T), X)
    held = weakref.ref(f.program(X).executable), weakref.ref(f)
    gc.disable()
    try:
        del f
        assert [one() for one in held] == [None, None]
    finally:
        gc.enable()


@pytest.mark.parametrize("formula", ["x * 2.0", "ab.tanh(x @ x) @ x + x"])
def test_a_process_that_ends_with_its_functions_says_nothing(tmp_path, formula) -> None:
    """Test modules live longer than the library's: no name can be looked up by then."""
    program = f"""
import anabranch as ab, numpy as np
@ab.compile
def f(x): return {formula}
def test():
    for _ in range(3): f(np.ones((64, 64)))
"""
    (tmp_path / "test_user.py").write_text(program, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_user.py"]
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        command, cwd=tmp_path, env=paths, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "ignored" not in done.stdout + done.stderr
