"""Listings read back: the structure survives, and bad text says where it is bad."""

import copy
import math
import pickle

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anabranch as ab
from anabranch.core.registry import registered_ops, temporary_ops


def constants_of(graph: ab.Graph) -> list[np.ndarray]:
    return [value for node in graph for value in node.attrs.values() if type(value) is np.ndarray]


def check_round_trips(graph: ab.Graph) -> None:
    """By text with arrays given, by text with arrays written out, by pickle and by deepcopy."""
    full = ab.listing(graph, constants="full")
    for made in (
        ab.parse(str(graph), constants_of(graph)),
        ab.parse(full),
        pickle.loads(pickle.dumps(graph)),
        copy.deepcopy(graph),
        graph.duplicate(),
    ):
        ab.check(made)
        assert ab.structure_hash(made) == ab.structure_hash(graph)
        assert ab.listing(made, constants="full") == full


def demo() -> tuple[ab.Graph, ab.Node]:
    g = ab.Graph("demo")
    return g, g.parameter("x", (2, 3), ab.float64)


def finish(g: ab.Graph, *outputs: object) -> ab.Graph:
    g.set_outputs(outputs)
    return g


def test_the_parsed_graph_runs() -> None:
    g, x = demo()
    finish(g, ab.tanh(x @ np.ones((3, 4))).sum(), x[::-1, None])
    wanted = g.compile(*g.outputs)(np.ones((2, 3)))
    made = ab.parse(str(g), constants_of(g))
    for one, other in zip(made.compile(*made.outputs)(np.ones((2, 3))), wanted, strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize(
    "literal",
    [2.0, -0.0, math.inf, -math.inf, math.nan, 1e-320, 0.1, 1e300, 7, -(2**62), True, False, 1j,
     complex(-0.0, 2.0), complex(math.nan, -math.inf), complex(0.0, -0.0), np.float32(0.1),
     np.float16(6e-8), ml_dtypes.bfloat16(1e-40), np.int8(-128), np.uint64(2**64 - 1), np.bool_(1),
     np.complex64(0.1 - 0.2j), np.float64(-math.nan),
     np.frombuffer(b"\1\0\0\0\0\0\xf0\x7f")[0]],  # a NaN with a payload
    ids=repr,
)  # fmt: skip
def test_every_literal_keeps_its_bits_and_its_strength(literal: object) -> None:
    g, x = demo()
    check_round_trips(finish(g, ab.where(x > 0.5, x, literal), g.constant(literal)))


@pytest.mark.parametrize(
    "dtype", ["f8", "f4", "f2", "bfloat16", "i1", "u8", "i4", "?", "c8", "c16"]
)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (2, 3), (1, 1, 2), (3, 4), (2, 2, 3)])
def test_constants_of_every_dtype_and_shape(dtype: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    g, x = demo()
    values = rng.normal(size=shape) * 10
    check_round_trips(finish(g, x, g.constant(values.astype(np.dtype(dtype)), name="c")))


@pytest.mark.parametrize(
    "name", ["", " : ", '"', "a\nb", "a\\", "∂x", "#0", "\u2028", "\x85", "= f("]
)
def test_names_of_any_letters(name: str) -> None:
    g = ab.Graph(name)
    x = g.parameter(name, (), ab.float64, weak=True)
    check_round_trips(finish(g, (x * 2.0).named(name)))
    made = ab.parse(str(finish(g, x)))
    assert (made.name, made.parameters[0].name) == (name, name)


ATTRS = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(),
        st.complex_numbers(), st.sampled_from([np.dtype("f4"), np.dtype(ml_dtypes.bfloat16)]),
        st.sampled_from([np.float32(0.1), np.int8(3), np.array([[0.1, -0.0]]), np.arange(20.0)]),
        st.builds(slice, st.none() | st.integers(), st.none() | st.integers(), st.none()),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=200)
@given(st.dictionaries(st.sampled_from(["a", "index", "value", "mode"]), ATTRS))
def test_attrs_of_every_type(attrs: dict[str, object]) -> None:
    with temporary_ops():
        ab.elementwise("free-form", lambda x, **_: x, partials=(1,), doc="For a test.")
        g, x = demo()
        finish(g, g.add_node("free-form", [x], **attrs))
        made = ab.parse(ab.listing(g, constants="full"))
        assert ab.structure_hash(made) == ab.structure_hash(g)
        assert str(made) == str(g)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 50), st.integers(0, 50)), max_size=40),
       st.floats() | st.integers(-9, 9))  # fmt: skip
def test_random_graphs(steps: list[tuple[int, int, int]], number: float) -> None:
    table = [
        ab.add, ab.multiply, ab.where, ab.maximum, lambda x, y: ab.exp(x), lambda x, y: x * number,
        lambda x, y: x[::-1], lambda x, y: y - np.full((2, 3), number), lambda x, y: x / 2,
        lambda x, y: x.astype(ab.float32).astype(ab.float64),
    ]  # fmt: skip
    g, x = demo()
    made = [x]
    for op, one, other in steps:
        a, b = made[one % len(made)], made[other % len(made)]
        made.append(ab.where(a > 0.0, a, b) if op == 2 else table[op](a, b))
    y = made[-1].sum()
    check_round_trips(finish(g, *ab.gradients(y, [x]), y, made[0]))


@pytest.mark.parametrize("op", [op for op in registered_ops() if op.samples], ids=repr)
def test_every_op_of_the_library(op: ab.Op) -> None:
    for sample in op.samples:
        g = ab.Graph(op.name)
        values = sample.make(np.random.default_rng(0))
        xs = [g.parameter(f"x{i}", x.shape, x.dtype) for i, x in enumerate(values)]
        out = g.add_node(op, xs, **sample.attrs)
        check_round_trips(finish(g, *(out if isinstance(out, tuple) else (out,))))


def test_further_outputs_and_graphs_in_graphs() -> None:
    with temporary_ops():
        ab.Op("both", aval=lambda x: (x, x), ref=lambda x: (x, -x), vjp=ab.NO_GRADIENT,
              arity=1, doc="x and -x.")  # fmt: skip
        ab.elementwise("carry", lambda x, **_: x, partials=(1,), doc="Takes a graph along.")
        inner = ab.Graph("in\nner")
        inner.set_outputs([inner.parameter("x", (), ab.float64) * 3.0])
        middle, m = demo()
        finish(middle, middle.add_node("carry", [m], graph=inner))
        g, x = demo()
        one, two = g.add_node("both", [x])
        twice = g.add_node("carry", [two], parts=(middle, middle, inner))
        check_round_trips(finish(g, one + two, two, twice))
        assert str(g).count("\n\n@") == 2
        assert "#1.1" in str(g)


def test_weak_parameters_stay_weak() -> None:
    g = ab.trace(lambda x, y: x * y, 2.0, np.float32(1.0))
    assert '"x" : f64[] weak\n' in str(g)
    check_round_trips(g)


def test_what_travels_and_what_does_not() -> None:
    g, x = demo()
    with ab.scope("layer"):
        y = (x * 2.0).named("y").log("y is")
    finish(g, *ab.gradients(ab.sin(y).sum(), [x]))
    made, node = pickle.loads(pickle.dumps((g, y)))
    assert node is made.nodes[y.id]
    assert (node.scope, node.logs, node.name) == ("layer", (("y is", 0),), "y")
    assert node.source.block() == y.source.block()
    assert "y = (x * 2.0)" in node.source.block()
    assert made.nodes[-1].origin[0].graph is made
    parsed = ab.parse(str(g), constants_of(g))
    assert str(parsed.nodes[1].source) == "<listing>:3"
    assert (parsed.nodes[1].scope, parsed.nodes[1].logs) == ("", ())


def test_a_loaded_constant_cannot_change() -> None:
    g, x = demo()
    finish(g, x + np.ones(3))
    for made in (pickle.loads(pickle.dumps(g)), copy.deepcopy(g), ab.parse(str(g))):
        with pytest.raises(ValueError, match="read-only"):
            made.nodes[1].attrs["value"][0] = 2.0


def test_a_pass_leaves_origins_in_the_old_graph_and_they_travel_too() -> None:
    def f(x):
        return ab.sin(x)

    made = pickle.loads(pickle.dumps(ab.trace(ab.grad(f), 1.0)))
    (node,) = [n for n in made if n.origin is not None][:1]
    owner, slot = node.origin
    assert (owner.op.name, slot) == ("sin", 0)
    assert owner.source.text == "return ab.sin(x)"


def test_a_graph_of_a_users_own_kind_keeps_its_attributes() -> None:
    made = copy.deepcopy(_Model())
    assert made.x is made.nodes[0]
    loaded = pickle.loads(pickle.dumps(_Model()))
    assert type(loaded) is _Model
    assert loaded.x is loaded.parameters[0]


class _Model(ab.Graph):
    def __init__(self) -> None:
        super().__init__("model")
        self.x = self.parameter("x", (), ab.float64)


def test_a_node_without_a_graph_is_not_copied() -> None:
    g, x = demo()
    del g
    with pytest.raises(ab.errors.TraceError, match="ended-trace"):
        pickle.dumps(x)


HEAD = 'graph "demo": 2 nodes, 1 parameter\n#0 parameter "x" : f64[2]\n'
BAD = {
    "": (1, "no header"),
    "garbage": (1, "no header"),
    HEAD: (1, "1 nodes and 1 parameters follow"),
    HEAD + "evil": (3, "expected #0"),
    HEAD + "#2 sin(#0) : f64[2]": (3, "#1 should be"),
    HEAD + "#1 sin(#1) : f64[2]": (3, "does not stand above"),
    HEAD + "#1 sin(#7) : f64[2]": (3, "does not stand above"),
    HEAD + "#1 sin(#0.1) : f64[2]": (3, "no output"),
    HEAD + "#1 sin(#0) : f64[3]": (3, "sin of these operands is f64[2]"),
    HEAD + "#1 sin(#0) : f99[2]": (3, "no dtype is written f99"),
    HEAD + "#1 sin(#0) : f64[2] extra": (3, "end of the line"),
    HEAD + "#1 sin(#0": (3, "expected ','"),
    HEAD + "#1 sim(#0) : f64[2]": (3, "no op is named"),
    HEAD + "#1 sum(#0, axes=x) : f64[]": (3, "names no dtype"),
    HEAD + "#1 sum(#0, axes=(5,), keepdims=False) : f64[]": (3, "axis 5 does not exist"),
    HEAD + "#1 sum(#0, axes=(0,), keepdims=True) : f64[]": (3, "sum of these operands is"),
    HEAD + "#1 matmul(#0, 2.0) : f64[]": (3, "matmul"),
    HEAD + "#1 sum(#0, no=1) : f64[]": (3, "cannot be applied"),
    HEAD + "#1 sum(#0, axes=@1) : f64[]": (1, "no block @1"),
    HEAD + "#1 sum(#0, axes=" + "(" * 5_000 + ") : f64[]": (3, "without end"),
    HEAD + "#1 sum(#0, axes=" + "9" * 9_000 + ") : f64[]": (3, "cannot be applied"),
    HEAD + '#1 "a = sin(#0) : f64[2]': (3, "quotes"),
    HEAD + "#1 constant(value=[1.0]) : f64[2]": (3, "expected ','"),
    HEAD + "#1 constant(value=[1.0, x]) : f64[2]": (3, "x is no number"),
    HEAD + "#1 constant(value=[300, 1]) : i8[2]": (3, "no number of int8"),
    HEAD + "#1 constant(value=<9 values 0123456789ab>) : f64[9]": (3, "not among the constants"),
    HEAD + "#1 constant() : f64[9]": (3, "value="),
    HEAD + '#1 parameter "x" : f64[2]': (3, "has a parameter"),
    HEAD + "#1 sin(#0) : f64[2]\noutputs #1\n#2 sin(#1) : f64[2]": (5, "belongs to no graph"),
    HEAD + "#1 sin(#0) : f64[2]\noutputs": (4, "expected #0"),
    HEAD + "#1 sin(#0) : f64[2]\n\nmore": (5, "belongs to no graph"),
    '@1 graph "a": 0 nodes, 0 parameters': (1, "no header"),
    HEAD + '#1 call(#0, graph=@1) : f64[2]\n\n@1 graph "a": 1 node, 0 parameters\n'
    "#0 call(graph=@1) : f64[2]": (5, "without end"),
}  # fmt: skip


@pytest.mark.parametrize("text", BAD, ids=lambda text: text[-40:])
def test_bad_text_names_its_line(text: str) -> None:
    line, sentence = BAD[text]
    with pytest.raises(ab.errors.GraphError, match="bad-listing") as caught:
        ab.parse(text)
    assert caught.value.sentence.startswith(f"line {line} of the listing: ")
    assert sentence in caught.value.sentence
    assert caught.value.details["line"] == line


@pytest.mark.parametrize("what", [None, 3, b"graph"])
def test_a_listing_is_a_string(what: object) -> None:
    with pytest.raises(ab.errors.GraphError, match="bad-listing"):
        ab.parse(what)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "evil",
    ["__import__('os').system('true')", "().__class__", "[x for x in (1,)]", "lambda: 0",
     "open('/etc/passwd')", "f'{1}'", "1 + 1", "10 ** 10", "eval('1')"],
)  # fmt: skip
def test_text_is_never_executed(evil: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for line in (
        f"#1 sum(#0, axes={evil}) : f64[]", f"#1 {evil}(#0) : f64[]", f"#1 add(#0, {evil}) : f64[]",
        f"#1 constant(value={evil}) : f64[]", f"#1 sin(#0) : {evil}", f"outputs {evil}",
    ):  # fmt: skip
        with pytest.raises(ab.errors.GraphError, match="bad-listing"), monkeypatch.context() as m:
            for name in ("eval", "exec", "compile"):
                m.setattr(f"builtins.{name}", _forbidden)
            ab.parse(HEAD + line)


def _forbidden(*_: object, **__: object) -> None:
    raise AssertionError("text was executed")


@pytest.mark.slow
@settings(max_examples=200)
@given(st.data())
def test_any_damage_to_a_listing_is_an_error_of_ours_or_another_graph(data: st.DataObject) -> None:
    g, x = demo()
    finish(g, (x * 2.0).named("y").sum(axis=1), g.constant(np.arange(3)), x[None, ::-1])
    text = str(g)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 5)))
    patch = data.draw(st.text('#@"()[],.:= -+e0123456789xjnTrueNf\\\n', max_size=5))
    try:
        ab.check(ab.parse(text[:start] + patch + text[end:]))
    except ab.errors.GraphError as error:
        assert error.code == "bad-listing"
