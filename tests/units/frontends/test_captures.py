"""What a compiled function captures: read anew at each call, rebinding noticed, all listed."""

import functools
import importlib
import json
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import anabranch as ab

W = np.array([1.0, 2.0])
ONES = np.ones(2)


def fresh() -> np.ndarray:
    return np.array([1.0, 2.0])


class Holder:
    """An ordinary object with an array."""

    def __init__(self) -> None:
        self.w: Any = fresh()

    def __call__(self, x):
        return x * self.w

    def apply(self, x):
        return x * self.w

    @property
    def weights(self):
        return self.w


class Slotted:
    __slots__ = ("w",)

    def __init__(self) -> None:
        self.w = fresh()


class Shared:
    w = fresh()


Case = tuple[Callable[..., Any], Callable[[Any], None]]


def closure() -> Case:
    w = fresh()

    def rebind(value):
        nonlocal w
        w = value

    return lambda x: x * w, rebind


def global_name() -> Case:
    globals()["W"] = fresh()
    return lambda x: x * W, lambda v: globals().update(W=v)


def attribute() -> Case:
    h = Holder()
    return lambda x: x * h.w, lambda v: setattr(h, "w", v)


def attribute_of_slots() -> Case:
    h = Slotted()
    return lambda x: x * h.w, lambda v: setattr(h, "w", v)


def attribute_of_a_class() -> Case:
    Shared.w = fresh()
    return lambda x: x * Shared.w, lambda v: setattr(Shared, "w", v)


def attribute_of_a_module() -> Case:
    settings = types.ModuleType("settings")
    settings.w = fresh()
    return lambda x: x * settings.w, lambda v: setattr(settings, "w", v)


def property_of_an_object() -> Case:
    h = Holder()
    return lambda x: x * h.weights, lambda v: setattr(h, "w", v)


def item_of_a_dict() -> Case:
    d = {"layer": {"w": fresh()}}
    return lambda x: x * d["layer"]["w"], lambda v: d["layer"].update(w=v)


def item_of_a_list() -> Case:
    items = [fresh()]
    return lambda x: x * items[0], lambda v: items.__setitem__(0, v)


def through_a_helper() -> Case:
    h = Holder()

    def helper():
        return h.w

    return lambda x: x * helper(), lambda v: setattr(h, "w", v)


def callable_object() -> Case:
    h = Holder()
    return h, lambda v: setattr(h, "w", v)


def bound_method() -> Case:
    h = Holder()
    return h.apply, lambda v: setattr(h, "w", v)


def keyword_of_a_partial() -> Case:
    h = Holder()
    f = functools.partial(lambda x, holder: x * holder.w, holder=h)
    return f, lambda v: setattr(h, "w", v)


def default_of_an_argument() -> Case:
    h = Holder()

    def f(x, holder=h):
        return x * holder.w

    def rebind(value):
        h.w = value

    return (lambda x: f(x)), rebind


def default_of_an_argument_by_name() -> Case:
    first = fresh()

    def f(x, *, w=first):
        return x * w

    def rebind(value):
        f.__kwdefaults__ = {"w": value}

    return f, rebind


def inside_a_derivative() -> Case:
    net = Holder()
    net.layers = [Holder()]
    slope = ab.grad(lambda x: (x * net.layers[0].w).sum())
    return slope, lambda v: setattr(net.layers[0], "w", v)


def inside_a_second_derivative() -> Case:
    net = Holder()
    net.layers = [Holder()]
    f = ab.grad(lambda x: (ab.grad(lambda y: (y * y * net.layers[0].w).sum())(x) / 2.0).sum())
    return (lambda x: f(x)), lambda v: setattr(net.layers[0], "w", v)


def inside_a_compiled_function() -> Case:
    h = Holder()
    inner = ab.compile(lambda x: x * h.w)
    return (lambda x: inner(x)), lambda v: setattr(h, "w", v)


CASES = [closure, global_name, attribute, attribute_of_slots, attribute_of_a_class,
         attribute_of_a_module, property_of_an_object, item_of_a_dict, item_of_a_list,
         through_a_helper, callable_object, bound_method, keyword_of_a_partial,
         default_of_an_argument, default_of_an_argument_by_name, inside_a_derivative,
         inside_a_second_derivative, inside_a_compiled_function]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.__name__)
def test_a_rebound_name_is_noticed(case: Callable[[], Case]) -> None:
    function, rebind = case()
    f = ab.compile(function)
    assert f(ONES).tolist() == [1.0, 2.0]
    rebind(np.array([10.0, 20.0]))
    assert f(ONES).tolist() == [10.0, 20.0]
    rebind(np.array([5.0, 6.0]))
    assert f(ONES).tolist() == [5.0, 6.0]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.__name__)
def test_a_change_in_place_is_seen_without_a_compile(case: Callable[[], Case]) -> None:
    function, rebind = case()
    array = fresh()
    rebind(array)
    f = ab.compile(function)
    assert f(ONES).tolist() == [1.0, 2.0]
    array *= 3.0
    assert f(ONES).tolist() == [3.0, 6.0]
    assert "1 compiles" in f.explain_compiles()


class Odd:
    """Attributes from a table, with the wrong error for those that it does not have."""

    def __init__(self) -> None:
        self.table = {"w": fresh()}

    def __getattr__(self, name):
        return self.__dict__["table"][name]


def test_objects_with_attributes_of_their_own_making_do_no_harm() -> None:
    odd = Odd()
    f = ab.compile(lambda x: x * odd.w)
    assert f(ONES).tolist() == [1.0, 2.0]
    odd.table["w"] = np.array([3.0, 4.0])
    assert f(ONES).tolist() == [3.0, 4.0]


def test_an_attribute_of_a_static_argument_is_watched() -> None:
    f = ab.compile(lambda h, x: x * h.w, static=0)
    h = Holder()
    assert f(h, ONES).tolist() == [1.0, 2.0]
    h.w = np.array([10.0, 20.0])
    assert f(h, ONES).tolist() == [10.0, 20.0]


def test_a_captured_tensor_is_read_anew() -> None:
    w = ab.tensor([1.0, 2.0], requires_grad=True)
    f = ab.compile(lambda x: x * w)
    assert f(ONES).tolist() == [1.0, 2.0]
    w.data[:] = 7.0
    assert f(ONES).tolist() == [7.0, 7.0]
    w.data = np.array([8.0, 9.0])
    assert f(ONES).tolist() == [8.0, 9.0]


def test_a_captured_container_that_grows_is_noticed() -> None:
    weights, named = [fresh()], {"a": fresh()}
    of_list = ab.compile(lambda x: sum(x * w for w in weights))
    of_dict = ab.compile(lambda x: sum(x * w for w in named.values()))
    assert of_list(ONES).tolist() == of_dict(ONES).tolist() == [1.0, 2.0]
    weights.append(np.array([10.0, 10.0]))
    named["b"] = np.array([10.0, 10.0])
    assert of_list(ONES).tolist() == of_dict(ONES).tolist() == [11.0, 12.0]
    weights.pop()
    assert of_list(ONES).tolist() == [1.0, 2.0]


def test_numbers_in_attributes_are_listed_too() -> None:
    h = Holder()
    h.scale = 3.0
    f = ab.compile(lambda x: x * h.scale)
    f(ONES)
    assert "number h.scale = 3.0" in f.explain_compiles()


def test_a_rebound_name_tells_its_reason() -> None:
    h = Holder()
    f = ab.compile(lambda x: x * h.w)
    f(ONES)
    h.w = np.array([3.0, 4.0])
    f(ONES)
    assert "2: h.w was bound to another" in f.explain_compiles()


def test_a_rebound_array_of_another_shape_or_dtype() -> None:
    h = Holder()
    f = ab.compile(lambda x: x * h.w)
    f(ONES)
    h.w = np.array([[1.0], [2.0]], np.float32)
    assert f(ONES).shape == (2, 2)
    h.w = 3.0
    assert f(ONES).tolist() == [3.0, 3.0]


def test_what_numpy_derived_is_a_constant_and_listed() -> None:
    w = fresh()
    f = ab.compile(lambda x: x * (w + 1.0) + w)
    assert f(ONES).tolist() == [3.0, 5.0]
    found = f.trace(ONES)
    assert [p.name for p in found.graph.parameters] == ["x", "w"]
    assert len(found.constants) == 1 and "f64[2] used at test_captures.py" in found.constants[0]
    text = f.explain_compiles()
    assert "reads w at each call" in text
    assert "constant f64[2] used at test_captures.py" in text
    w[:] = 0.0
    assert f(ONES).tolist() == [2.0, 3.0]  # what was derived stays, what is read follows


VIEWS = {
    "transposed": lambda w: w.T,
    "with another axis": lambda w: w[:, None],
    "a part": lambda w: w[1:],
    "backwards": lambda w: w[::-1, ::-1],
    "reshaped": lambda w: w.reshape(-1),
    "a view of a view": lambda w: w.T[1:].reshape(-1, 1, 2)[0],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("backend", ["native", "reference"])
def test_a_view_follows_what_it_is_a_view_of(view, backend) -> None:
    h = Holder()
    h.w = np.arange(6.0).reshape(2, 3)

    def f(x):
        return x * view(h.w)

    compiled = ab.compile(f, backend=backend)
    for _ in range(2):
        assert np.array_equal(compiled(2.0), f(2.0))
    h.w += 1.0
    for _ in range(2):
        assert np.array_equal(compiled(2.0), f(2.0))
    assert "1 compiles" in compiled.explain_compiles()
    assert "reads a view of h.w at each call" in compiled.explain_compiles()
    h.w = h.w * 2.0
    for _ in range(2):
        assert np.array_equal(compiled(2.0), f(2.0))
    assert "h.w was bound to another array" in compiled.explain_compiles()


def test_a_view_of_an_array_that_is_a_view_itself() -> None:
    w = np.arange(20.0)[2:8].reshape(2, 3)
    f = ab.compile(lambda x: x @ w.T)
    assert f(np.ones(3)).tolist() == [9.0, 18.0]
    w[:] = 1.0
    assert f(np.ones(3)).tolist() == [3.0, 3.0]


def test_a_view_of_a_tensors_data_follows_it() -> None:
    t = ab.tensor([[1.0, 2.0]])
    f = ab.compile(lambda x: x * t.data.T)
    for wanted in ([[1.0], [2.0]], [[5.0], [6.0]], [[7.0], [8.0]]):
        for _ in range(2):
            assert np.array_equal(f(1.0), wanted)
        if wanted[0] == [1.0]:
            t.data[:] = [[5.0, 6.0]]
        else:
            t.data = np.array([[7.0, 8.0]])


def test_another_array_where_numpy_derived_a_constant_is_noticed() -> None:
    h = Holder()
    f = ab.compile(lambda x: x * (h.w + 1.0) * np.sum(h.w))
    for w in (fresh(), fresh() * 2.0, np.ones(100_000)):
        h.w = w
        for _ in range(2):
            assert f(1.0).tolist() == ((w + 1.0) * np.sum(w)).tolist()


@pytest.mark.parametrize("derive", [lambda w: w[0], lambda w: np.sum(w), lambda w: w + 1.0])
def test_another_content_where_only_numpy_reads_is_noticed(derive) -> None:
    w = fresh()
    f = ab.compile(lambda x: x * derive(w) + np.arange(2.0))
    for _ in range(3):
        for _ in range(2):
            assert np.array_equal(f(1.0), derive(w) + np.arange(2.0))
        w += 1.0
    assert "w has another content" in f.explain_compiles()


def test_what_the_graph_reads_may_change_beside_constants_without_a_compile() -> None:
    w, v = fresh(), fresh()
    f = ab.compile(lambda x: x * w + v[::-1] + np.arange(2.0))
    for _ in range(3):
        assert f(1.0).tolist() == (w + v[::-1] + np.arange(2.0)).tolist()
        w += 1.0
        v *= 2.0
    assert "1 compiles" in f.explain_compiles()


def test_captured_numbers_are_listed_and_watched() -> None:
    k, unused = 2.0, "text"

    def f(x):
        return x * k + (0.0 if unused else 1.0)

    compiled = ab.compile(f)
    assert compiled(3.0) == 6.0
    assert "number k = 2.0" in compiled.explain_compiles()
    assert compiled.trace(3.0).baked == {"k": 2.0}
    k = 5.0
    assert compiled(3.0) == 15.0
    unused = ""
    assert compiled(3.0) == 16.0
    text = compiled.explain_compiles()
    assert "k was bound to another value" in text and "unused was bound to another value" in text


class Net:
    """Parts of a program in attributes, some of which no code reads."""

    rate = 3.0

    def __init__(self, act):
        self.act = act
        self.settings = {"power": 2.0}
        self.seen = 0

    @property
    def doubled(self):
        return self._rate

    _rate = 2.0

    def bend(self, x):
        return self.act(x)

    def value(self, x):
        return ab.sum(self.bend(x) ** self.settings["power"]) * self.rate + self.doubled


def of_a_class(name, value):
    return lambda net, patch: patch.setattr(Net, name, value)


PARTS = {
    "a function": lambda net, _: setattr(net, "act", lambda x: x * x),
    "a function of the library": lambda net, _: setattr(net, "act", ab.cos),
    "a builtin": lambda net, _: setattr(net, "act", abs),
    "an object": lambda net, _: setattr(net, "act", Holder()),
    "an item": lambda net, _: net.settings.update(power=3.0),
    "its own number": lambda net, _: setattr(net, "rate", 4.0),
    "the number of the class": of_a_class("rate", 4.0),
    "what a property reads": of_a_class("_rate", 4.0),
    "a method": of_a_class("bend", lambda self, x: self.act(x) * 2),
}


@pytest.mark.parametrize("change", PARTS)
@pytest.mark.parametrize("backend", ["reference", "native"])
def test_a_part_of_the_program_that_is_bound_anew_is_noticed(change, backend, monkeypatch) -> None:
    net, x = Net(ab.sin), np.array([0.5, -0.25])
    f = ab.compile(net.value, backend=backend)
    assert f(x) == pytest.approx(net.value(x), rel=1e-12)
    PARTS[change](net, monkeypatch)
    assert f(x) == pytest.approx(net.value(x), rel=1e-12)
    assert "2 compiles" in f.explain_compiles()


def test_what_no_code_reads_is_not_watched(monkeypatch) -> None:
    net, x = Net(ab.sin), np.array([0.5, -0.25])
    f = ab.compile(net.value)
    f(x)
    net.seen = 1
    net.settings_of_others = {"power": 1}
    monkeypatch.setitem(globals(), "T", 5.0)
    f(x)
    turned = ab.compile(lambda x: x.T * 2.0)
    turned(x)
    monkeypatch.setitem(globals(), "T", 6.0)  # another T than that of x
    turned(x)
    assert "1 compiles" in f.explain_compiles()
    assert "1 compiles" in turned.explain_compiles()


def test_what_a_trace_changes_is_no_part_of_the_program() -> None:
    net, calls, traces = Net(ab.sin), {"count": 0}, []
    times = 0

    def f(x):
        nonlocal times
        times += 1
        net.seen += 1
        calls["count"] += 1
        traces.append(times)
        return x * 2.0 + 0.0 * (net.seen + calls["count"] + len(traces))

    compiled = ab.compile(f)
    for x in (ONES, np.ones(3), ONES, np.ones(3)):
        compiled(x)
    assert times == len(traces) == calls["count"] == net.seen == 2


def test_long_lists_of_numbers_are_no_part_of_the_program() -> None:
    losses = [0.0] * 100
    f = ab.compile(lambda x: x + losses[-1])
    assert f(1.0) == 1.0
    losses[-1] = 5.0
    assert f(1.0) == 1.0
    assert "number" not in f.explain_compiles()


def test_a_name_that_later_code_uses_is_watched_on_objects_found_before() -> None:
    class Base:
        w = fresh()

    class Model(Base):
        def value(self, x):
            return read(x, self)

    def read(x, owner):
        return x * owner.w

    model = Model()
    f = ab.compile(model.value)
    assert f(ONES).tolist() == [1.0, 2.0]
    Base.w = np.array([3.0, 4.0])
    assert f(ONES).tolist() == [3.0, 4.0]
    model.w = np.array([5.0, 6.0])
    assert f(ONES).tolist() == [5.0, 6.0]


def test_an_array_of_a_class_behind_a_class_is_watched() -> None:
    class Model:
        w = fresh()

    class Hub:
        inner = Model()

    f = ab.compile(lambda x: x * Hub.inner.w)
    assert f(ONES).tolist() == [1.0, 2.0]
    Hub.inner.w = np.array([3.0, 4.0])
    assert f(ONES).tolist() == [3.0, 4.0]


def test_an_array_that_the_function_makes_when_it_is_first_called_is_watched() -> None:
    class Lazy:
        w = None

        def value(self, x):
            if self.w is None:
                self.w = fresh()
            return x * self.w

    lazy = Lazy()
    f = ab.compile(lazy.value)
    assert f(ONES).tolist() == f(ONES).tolist() == [1.0, 2.0]
    assert "1 compiles" in f.explain_compiles()
    lazy.w = np.array([3.0, 4.0])
    assert f(ONES).tolist() == [3.0, 4.0]


@pytest.mark.parametrize("made", [fresh, lambda: ab.tensor([1.0, 2.0])])
def test_an_array_that_the_function_replaces_is_what_it_was(made) -> None:
    h = Holder()
    h.w = made()

    def f(x):
        y = x * h.w
        h.w = np.zeros(2)
        return y

    compiled = ab.compile(f)
    assert compiled(ONES).tolist() == compiled(ONES).tolist() == [1.0, 2.0]
    assert "1 compiles" in compiled.explain_compiles()


def test_numbers_of_the_library_are_no_part_of_the_program() -> None:
    f = ab.compile(ab.value_and_grad(ab.grad(lambda x: x * x * x), argnums=0))
    f(2.0)
    by_class = ab.compile(lambda x: x * len(ab.Node.__name__) + ab.Node.index)  # a number
    by_class(2.0)
    assert by_class.trace(2.0).baked == {}
    assert f.trace(2.0).baked == {} and "number" not in f.explain_compiles()


def test_code_of_what_is_installed_is_none_of_the_users() -> None:
    f = ab.compile(lambda x: x * 2.0 if pytest.approx and json.dumps and np.sum else x)
    assert not f.trace(ONES).guards
    settings = types.SimpleNamespace(rate=2.0)  # an object of theirs with a number of the user's
    f = ab.compile(lambda x: x * settings.rate)
    assert f(ONES).tolist() == [2.0, 2.0]
    settings.rate = 3.0
    assert f(ONES).tolist() == [3.0, 3.0]


MODEL = """
import numpy as np

W, RATE = np.array([1.0, 2.0]), 2.0


def scaled(x):
    return x * W * RATE


class Layer:
    rate = 3.0

    def value(self, x):
        return scaled(x) * self.rate
"""


@pytest.mark.parametrize("derived", [False, True])
def test_an_installed_package_is_the_users_if_its_function_is_compiled(
    tmp_path, monkeypatch, derived
) -> None:
    name = f"usersmodel{derived:d}"
    folder = tmp_path / "site-packages" / name
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(MODEL, encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder.parent))
    model = importlib.import_module(name)
    layer = model.Layer()
    function = ab.grad(functools.partial(summed, layer.value)) if derived else layer.value
    f = ab.compile(function)
    assert f(ONES).tolist() == [6.0, 12.0]
    model.W = np.array([3.0, 4.0])
    assert f(ONES).tolist() == [18.0, 24.0]
    model.RATE = 1.0
    assert f(ONES).tolist() == [9.0, 12.0]
    layer.rate = 2.0
    assert f(ONES).tolist() == [6.0, 8.0]


def summed(f, x):
    return ab.sum(f(x))


def test_one_array_under_two_names_is_one_input() -> None:
    w = fresh()
    h = {"a": w, "b": w}
    f = ab.compile(lambda x: x * h["a"] + h["b"])
    assert f(ONES).tolist() == [2.0, 4.0]
    assert len(f.trace(ONES).graph.parameters) == 2
    h["b"] = np.zeros(2)
    assert f(ONES).tolist() == [1.0, 2.0]


def test_a_captured_array_can_be_a_result() -> None:
    w = fresh()
    f = ab.compile(lambda x: (x, w))
    assert f(ONES)[1].tolist() == [1.0, 2.0]
    w[:] = 3.0
    assert f(ONES)[1].tolist() == [3.0, 3.0]


def test_an_array_made_while_tracing_is_a_constant() -> None:
    f = ab.compile(lambda x: x + np.arange(2.0))
    assert f(ONES).tolist() == [1.0, 2.0]
    assert [p.name for p in f.trace(ONES).graph.parameters] == ["x"]
    assert len(f.trace(ONES).constants) == 1


def test_an_argument_that_is_also_captured() -> None:
    w = fresh()
    f = ab.compile(lambda x: x * w)
    assert f(w).tolist() == [1.0, 4.0]
    assert f(ONES).tolist() == [1.0, 2.0]


def bend(x):
    return x * x


def test_a_function_bound_anew_is_noticed(monkeypatch) -> None:
    f = ab.compile(lambda x: bend(x) + 1.0)
    assert f(3.0) == 10.0
    monkeypatch.setitem(globals(), "bend", ab.exp)
    assert f(0.0) == 2.0
    assert "bend was bound to another function" in f.explain_compiles()
