"""custom_derivative: a rule that is a graph, right at every order, in both modes, everywhere."""

import itertools
import math
import pickle
import weakref
from typing import Any

import numpy as np
import pytest

import anabranch as ab


def forward(f):
    return lambda x: ab.jvp(f, (x,), (1.0,))[1]


def pulled(f):
    return lambda x: ab.vjp(f, x)[1](1.0)[0]


MODES = {"grad": ab.grad, "jvp": forward, "vjp": pulled}


@ab.custom_derivative(saves=True)
def twice_squared(x):
    doubled = 2.0 * x
    return doubled * doubled, doubled


@twice_squared.define_vjp
def _(ct, out, saved, x):
    return 2.0 * 2.0 * saved * ct


def twice_squared_again(x):
    """The same without saved values: the rule computes what it needs."""
    return ab.custom_derivative(
        lambda x: (2.0 * x) * (2.0 * x), vjp=lambda ct, out, x: 2.0 * 2.0 * (2.0 * x) * ct
    )(x)


@pytest.mark.slow
@pytest.mark.proves("F-101")
@pytest.mark.parametrize("modes", list(itertools.product(MODES, repeat=2)), ids="-".join)
@pytest.mark.parametrize("f", [twice_squared, twice_squared_again])
def test_a_rule_with_a_saved_value_is_right_at_second_order(f: Any, modes: Any) -> None:
    outer, inner = (MODES[mode] for mode in modes)
    for wrap in (lambda f: f, ab.compile):
        assert float(wrap(f)(3.0)) == 36.0
        assert float(wrap(inner(f))(3.0)) == 24.0  # 8x
        assert float(wrap(outer(inner(f)))(3.0)) == 8.0
        assert float(wrap(outer(wrap(inner(wrap(f)))))(3.0)) == 8.0
        assert float(ab.grad(wrap(outer(inner(f))))(3.0)) == 0.0


def test_eager_tensors_and_graphs_by_hand() -> None:
    x = ab.tensor(3.0, requires_grad=True)
    y = twice_squared(x)
    y.backward()
    assert (float(y), float(x.grad)) == (36.0, 24.0)
    (slope,) = ab.gradients(y, [x], record=True)
    assert float(ab.gradients(slope, [x])[0]) == 8.0
    g = ab.Graph("demo")
    p = g.parameter("x", (), ab.float64)
    z = twice_squared(p)
    (slope,) = ab.gradients(z, [p])
    (second,) = ab.gradients(slope, [p])
    assert [float(one) for one in g.compile(z, slope, second)(3.0)] == [36.0, 24.0, 8.0]
    ab.check(g)


def test_numpy_in_numpy_out() -> None:
    square = ab.custom_derivative(lambda x: x * x, vjp=lambda ct, out, x: 2.0 * x * ct)
    x = np.array([1.0, 2.0])
    assert type(square(x)) is np.ndarray and type(square(ab.tensor(x))) is ab.Tensor
    assert type(square(2.0)) is np.float64
    same = ab.custom_derivative(lambda x: x, vjp=lambda ct, out, x: ct)
    found = same(x)
    found[:] = 7.0
    assert x.tolist() == [1.0, 2.0]


def test_the_rule_decides_and_not_the_function() -> None:
    straight = ab.custom_derivative(ab.sign, vjp=lambda ct, out, x: 5.0 * ct)
    assert float(ab.grad(straight)(2.0)) == 5.0
    assert float(forward(straight)(2.0)) == 5.0
    assert float(ab.grad(ab.grad(straight))(2.0)) == 0.0


def test_the_result_is_at_hand_in_the_rule() -> None:
    exp = ab.custom_derivative(ab.exp, vjp=lambda ct, out, x: ct * out)
    f = exp
    for mode in (ab.grad, forward, ab.grad, forward, pulled):
        f = mode(f)
        assert float(f(0.5)) == pytest.approx(math.exp(0.5), rel=1e-14)
        assert float(ab.compile(f)(0.5)) == pytest.approx(math.exp(0.5), rel=1e-14)


def test_both_modes_agree_on_arrays() -> None:
    A = np.random.default_rng(0).normal(size=(3, 4))
    x, t, ct = np.linspace(-1.0, 1.0, 4), np.arange(4.0), np.array([1.0, -2.0, 0.5])

    @ab.custom_derivative
    def layer(a, x):
        return ab.tanh(ab.matmul(a, x))

    @layer.define_vjp
    def rule(ct, out, a, x):
        inner = ct * (1.0 - out * out)
        return inner[:, None] * x, ab.matmul(inner, a)

    plain = layer.function
    for f in (layer, ab.compile(layer)):
        assert np.allclose(ab.jvp(f, (A, x), (A, t))[1], ab.jvp(plain, (A, x), (A, t))[1])
        for mine, theirs in zip(ab.vjp(f, A, x)[1](ct), ab.vjp(plain, A, x)[1](ct), strict=True):
            assert np.allclose(mine, theirs, rtol=1e-13)
    for mode in ("forward", "reverse"):
        found = ab.hessian(lambda x: (layer(A, x) ** 2).sum(), mode=mode)(x)
        assert np.allclose(found, ab.hessian(lambda x: (plain(A, x) ** 2).sum())(x), rtol=1e-12)
    ab.check_gradients(lambda x: layer(A, x).sum(), x)


# What does not leak


def test_an_argument_whose_entry_is_none_has_no_gradient() -> None:
    f = ab.custom_derivative(lambda x, y: x * y, vjp=lambda ct, out, x, y: (ct * y, None))
    slopes = ab.grad(f, (0, 1), unused="none")(2.0, 3.0)
    assert (float(slopes[0]), slopes[1]) == (3.0, None)
    assert ab.jvp(f, (2.0, 3.0), (0.0, 1.0))[1] == 0.0
    with pytest.raises(ab.errors.NoGradientError, match='"y"'):
        ab.grad(f, 1, unused="raise")(2.0, 3.0)
    # The rule itself depends on y, and says so.
    assert float(ab.grad(ab.grad(f), 1)(2.0, 3.0)) == 1.0


def test_all_entries_none_is_a_stopped_function() -> None:
    f = ab.custom_derivative(lambda x: x * x, vjp=lambda ct, out, x: None)
    assert ab.grad(f, unused="none")(2.0) is None
    x = ab.tensor(2.0, requires_grad=True)
    assert not f(x).requires_grad
    assert float(ab.grad(lambda x: x * f(x))(2.0)) == 4.0


def test_a_derivative_by_what_the_function_captures_is_refused() -> None:
    w = ab.tensor([1.0, 2.0], requires_grad=True)
    f = ab.custom_derivative(lambda x: (x * w).sum(), vjp=lambda ct, out, x: ct * w)
    x = ab.tensor([3.0, 4.0], requires_grad=True)
    assert ab.gradients(f(x), [x])[0].data.tolist() == [1.0, 2.0]
    with pytest.raises(ab.errors.NoGradientError, match="captured by a function") as caught:
        f(x).backward()
    assert caught.value.code == "no-gradient-rule"
    assert w.grad is None

    def outer(y, f=None):
        g = ab.custom_derivative(lambda x: x * y, vjp=lambda ct, out, x: ct * y)
        return g(2.0 * y)

    for run in (ab.grad(outer), forward(outer), ab.compile(ab.grad(outer))):
        with pytest.raises(ab.errors.NoGradientError, match="make it an argument"):
            run(3.0)
    assert float(outer(3.0)) == 18.0 == float(ab.compile(outer)(3.0))


def test_what_the_rule_captures_counts_at_second_order() -> None:
    def slope(c):
        f = ab.custom_derivative(lambda x: x * 1.0, vjp=lambda ct, out, x: ct * c * c)
        return ab.grad(f)(2.0)

    assert float(slope(3.0)) == 9.0
    assert float(ab.grad(slope)(3.0)) == 6.0
    assert float(ab.compile(ab.grad(slope))(3.0)) == 6.0
    assert float(forward(slope)(3.0)) == 6.0


def test_captured_arrays_are_read_at_each_call() -> None:
    w = np.array([1.0, 2.0])
    f = ab.custom_derivative(lambda x: (x * w).sum(), vjp=lambda ct, out, x: ct * w * 10.0)
    run = ab.compile(ab.grad(f))
    for _ in range(2):
        assert float(f(np.ones(2))) == w.sum()
        assert ab.grad(f)(np.ones(2)).tolist() == (10.0 * w).tolist()
        assert run(np.ones(2)).tolist() == (10.0 * w).tolist()
        w += 1.0
    assert "reads w at each call" in run.explain_compiles()
    assert run.explain_compiles().startswith("<lambda>: 1 compiles")


def test_integers_strings_and_functions_are_part_of_the_program() -> None:
    seen = []

    @ab.custom_derivative
    def power(x, n, kind="plain", map=ab.exp):
        seen.append((n, kind))
        for _ in range(n - 1):
            x = x * x
        return map(x) if kind == "mapped" else x

    @power.define_vjp
    def rule(ct, out, x, n, kind, map):
        return ct * n * 100.0, None, None, None

    assert float(power(3.0, 2)) == 9.0
    assert float(ab.grad(power)(3.0, 2)) == 200.0
    assert float(ab.grad(power)(3.0, n=4, kind="mapped", map=ab.sin)) == 400.0
    assert float(ab.compile(lambda x: ab.grad(power)(x, 2))(3.0)) == 200.0
    assert seen[0] == (2, "plain") and (4, "mapped") in seen


def test_integer_arrays_pass() -> None:
    f = ab.custom_derivative(
        lambda x, i: ab.take(x, i), vjp=lambda ct, out, x, i: (ab.scatter_add(x * 0.0, i, ct), None)
    )
    x, i = np.array([1.0, 2.0, 3.0]), np.array([2, 0])
    for run in (ab.jacobian(f), ab.compile(ab.jacobian(f)), ab.jacobian(f, mode="reverse")):
        assert run(x, i).tolist() == [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]


# Containers, several results, methods


@ab.custom_derivative
def scaled(p, factor=2.0):
    return {"w": p["w"] * factor, "sums": (p["w"].sum(), p["steps"]), "note": "kept"}


@scaled.define_vjp
def _scaled_rule(ct, out, p, factor):
    return {"w": ct["w"] * factor + ct["sums"][0] * 7.0, "steps": None}, None


def test_containers_and_several_results() -> None:
    steps = np.array([1, 2])
    out = scaled({"w": np.ones(3), "steps": steps})
    assert (out["w"].tolist(), float(out["sums"][0]), out["note"]) == ([2.0] * 3, 3.0, "kept")
    assert out["sums"][1].tolist() == [1, 2]

    def total(w):
        out = scaled({"w": w, "steps": steps}, factor=3.0)
        return out["w"].sum() + out["sums"][0]

    for run in (ab.grad(total), ab.compile(ab.grad(total)), ab.grad(ab.compile(total))):
        assert run(np.ones(3)).tolist() == [10.0] * 3
    only_sums = lambda w: scaled({"w": w, "steps": steps})["sums"][0]  # noqa: E731
    assert ab.grad(only_sums)(np.ones(3)).tolist() == [7.0] * 3


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_several_results_in_both_modes(mode: str) -> None:
    f = lambda w: scaled({"w": w, "steps": np.array([1])})["w"]  # noqa: E731
    assert ab.jacobian(f, mode=mode)(np.ones(3)).tolist() == (2.0 * np.eye(3)).tolist()

    @ab.custom_derivative
    def both(x, y):
        return x * y, ab.sin(x)

    both.define_vjp(lambda ct, out, x, y: (ct[0] * y + ct[1] * ab.cos(x), ct[0] * x))
    found = ab.jacobian(lambda x, y: both(x, y), (0, 1), mode=mode)(0.5, 3.0)
    assert [float(one) for one in found[0]] == [3.0, 0.5]
    assert [float(one) for one in found[1]] == [math.cos(0.5), 0.0]
    second = ab.jacobian(ab.jacobian(both, mode=mode), mode=mode)(0.5, 3.0)
    assert [float(one) for one in second] == [0.0, -math.sin(0.5)]


def test_methods_and_their_weights() -> None:
    class Model:
        def __init__(self) -> None:
            self.w = np.array([1.0, 2.0])

        @ab.custom_derivative
        def apply(self, x):
            return (x * self.w).sum()

        @apply.define_vjp
        def rule(ct, out, self, x):  # noqa: N805
            return None, ct * self.w * 10.0

    model, x = Model(), np.ones(2)
    run = ab.compile(ab.grad(model.apply))
    for _ in range(2):
        assert float(model.apply(x)) == model.w.sum()
        for slope in (ab.grad(model.apply)(x), run(x)):
            assert slope.tolist() == (10.0 * model.w).tolist()
        model.w = model.w * 2.0


def test_one_inside_another() -> None:
    inner = ab.custom_derivative(ab.exp, vjp=lambda ct, out, x: 2.0 * ct * out)
    outer = ab.custom_derivative(
        lambda x: inner(x) * 1.0, vjp=lambda ct, out, x: 3.0 * ct * inner(x)
    )
    assert float(ab.grad(outer)(0.0)) == 3.0
    assert float(ab.grad(ab.grad(outer))(0.0)) == 6.0
    assert float(forward(forward(outer))(0.0)) == 6.0
    assert float(ab.compile(ab.grad(ab.grad(outer)))(0.0)) == 6.0
    by_grad = ab.custom_derivative(
        lambda x: x**3, vjp=lambda ct, out, x: ct * ab.grad(lambda y: y**3)(x)
    )
    assert float(ab.grad(ab.grad(by_grad))(2.0)) == 12.0
    assert float(forward(by_grad)(2.0)) == 12.0


def test_saved_values_of_every_kind() -> None:
    """A parameter itself, an array, a number and a text can be saved; the result too."""
    c = np.array([5.0, 6.0])

    @ab.custom_derivative(saves=True)
    def f(x):
        out = ab.exp(x)
        return out, {"x": x, "out": out, "c": c, "n": 3, "s": "text"}

    @f.define_vjp
    def rule(ct, out, saved, x):
        assert (saved["n"], saved["s"]) == (3, "text")
        return ct * saved["out"] * saved["x"] * saved["c"]

    x = np.array([0.5, 1.0])
    wanted = np.exp(x) * x * c
    for run in (ab.grad(lambda x: f(x).sum()), ab.compile(ab.grad(lambda x: f(x).sum()))):
        assert np.allclose(run(x), wanted, rtol=1e-15)
    second = ab.grad(lambda x: ab.grad(lambda x: f(x).sum())(x).sum())(x)
    assert np.allclose(second, (np.exp(x) + np.exp(x) * x) * c, rtol=1e-14)


# What is refused, at once


def bad(rule: Any) -> Any:
    f = ab.custom_derivative(lambda x, n: x * n)
    if rule is not None:
        f.define_vjp(rule)
    return f


X, N = np.ones(3), np.array([1, 2, 3])


@pytest.mark.parametrize(
    ("rule", "code", "says"),
    [
        (None, "bad-argument", "no rule yet"),
        (lambda ct, out, x, n: ct, "argument-count", "2 cotangents"),
        (lambda ct, out, x, n: (ct,), "argument-count", "got 1"),
        (lambda ct, out, x, n: (ct, None, None), "argument-count", "got 3"),
        (lambda ct, out, x, n: (ct.sum(), None), "shape-mismatch", 'f64[] for "x", need f64[3]'),
        (lambda ct, out, x, n: (0.0, None), "shape-mismatch", 'f64[] for "x"'),
        (lambda ct, out, x, n: (ct[:, None], None), "shape-mismatch", 'f64[3,1] for "x"'),
        (lambda ct, out, x, n: (ct, ct), "integer-gradient", '"n", which is i64[3]'),
        (lambda ct, out, x, n: (n, None), "integer-gradient", 'returns i64[3] for "x"'),
        (lambda ct, out, x, n: ("ct", None), "bad-result", 'returns str for "x"'),
        (lambda ct, out, x, n: ([ct], None), "bad-result", 'returns list for "x"'),
    ],
)
def test_a_wrong_rule_is_refused_at_the_first_call(rule: Any, code: str, says: str) -> None:
    runs = [
        bad(rule),
        ab.compile(bad(rule)),
        lambda x, n: ab.grad(lambda x: bad(rule)(x, n).sum())(x),
    ]
    for run in runs:
        with pytest.raises(ab.AnabranchError) as caught:
            run(X, N)
        assert caught.value.code == code and says in caught.value.sentence
        assert caught.value.source.file == __file__


def test_a_wrong_container_is_refused() -> None:
    f = ab.custom_derivative(lambda p: p["w"] * p["b"])
    for wrong in (
        lambda ct, out, p: {"w": ct},
        lambda ct, out, p: ct,
        lambda ct, out, p: [ct, ct],
        lambda ct, out, p: {"w": ct, "b": ct, "c": ct},
    ):
        f.define_vjp(wrong)
        with pytest.raises(ab.errors.ArgumentError) as caught:
            f({"w": 1.0, "b": 2.0})
        assert caught.value.code == "container-mismatch"


def test_a_wrong_shape_is_shown_where_it_was_made() -> None:
    f = ab.custom_derivative(lambda x: x * 2.0)

    @f.define_vjp
    def rule(ct, out, x):
        right = ct * 2.0
        wrong = right.sum()
        return wrong

    with pytest.raises(ab.errors.ShapeError) as caught:
        f(X)
    assert caught.value.source.text == "wrong = right.sum()"
    assert str(caught.value).startswith("[shape-mismatch] the rule of custom returns f64[]")


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: ab.custom_derivative(3), "bad-argument"),
        (lambda: ab.custom_derivative(ab.sin, vjp=3), "bad-argument"),
        (lambda: ab.custom_derivative(ab.sin).define_vjp("rule"), "bad-argument"),
        (lambda: ab.custom_derivative(lambda *, x: x, vjp=lambda *_: ())(x=1.0), "bad-argument"),
        (lambda: ab.custom_derivative(lambda x: x, vjp=lambda *_: 0, saves=True)(X), "no-aux"),
    ],
)
def test_what_cannot_be_is_refused(make: Any, code: str) -> None:
    with pytest.raises(ab.errors.ArgumentError) as caught:
        make()
    assert caught.value.code == code


def test_a_rule_that_is_not_linear_has_no_forward_mode() -> None:
    clip = ab.custom_derivative(lambda x: x * 1.0, vjp=lambda ct, out, x: ab.clip(ct, -1.0, 1.0))
    assert float(ab.grad(lambda x: 5.0 * clip(x))(2.0)) == 1.0
    for nonlinear in (
        clip,
        ab.custom_derivative(lambda x: x * 1.0, vjp=lambda ct, out, x: ct * ct),
        ab.custom_derivative(lambda x: x * 1.0, vjp=lambda ct, out, x: ab.sin(ct)),
        ab.custom_derivative(lambda x: x * 1.0, vjp=lambda ct, out, x: x * ab.sign(ct)),
        ab.custom_derivative(lambda x: x * 1.0, vjp=lambda ct, out, x: ab.where(ct > 0, x, ct)),
    ):
        with pytest.raises(ab.errors.NoGradientError, match="not linear in the cotangent"):
            forward(nonlinear)(2.0)
    linear = ab.custom_derivative(
        lambda x: x * 1.0,
        vjp=lambda ct, out, x: ab.where(x > 0.0, -ct / x, ct.sum() * ab.sin(out)) + (ct - 2.0 * ct),
    )
    assert float(forward(linear)(2.0)) == -1.5 == float(ab.grad(linear)(2.0))


# Listings, hashes, records


def test_a_listing_shows_the_name_and_a_hash_tells_two_of_one_name_apart() -> None:
    def made(factor):
        def act(x):
            return x * factor

        return ab.custom_derivative(act, vjp=lambda ct, out, x: ct * factor)

    one, same, other = (ab.trace(made(f), 1.0) for f in (2.0, 2.0, 3.0))
    assert str(one).splitlines()[2].startswith("#1 act(#0, rule=")
    assert str(one) == str(same) != str(other)
    assert ab.structure_hash(one) == ab.structure_hash(same) != ab.structure_hash(other)
    assert one.nodes[1].op is same.nodes[1].op is not other.nodes[1].op
    twice = ab.compile(lambda x: made(2.0)(x) + made(2.0)(x) + made(3.0)(x)).graph(1.0)
    assert [n.op.name for n in twice].count("act") == 2  # the equal two were merged


def test_a_record_holds_on_to_no_captured_value() -> None:
    def traced():
        w = ab.tensor(np.ones(3))
        f = ab.custom_derivative(lambda x: x * w, vjp=lambda ct, out, x: ct * w)
        return ab.trace(f, np.ones(3)).outputs[0].node.op, weakref.ref(w)

    op, captured = traced()
    assert op.body is not None and captured() is None


def test_any_name_may_be_an_arguments() -> None:
    f = ab.custom_derivative(lambda ct0, out0, saved0: ct0 * out0 * saved0)
    f.define_vjp(lambda ct, out, *xs: (ct, ct * 2.0, ct * 3.0))
    assert [float(one) for one in ab.grad(f, (0, 1, 2))(1.0, 1.0, 1.0)] == [1.0, 2.0, 3.0]


def test_records_stay_out_of_the_tables_and_come_back_pickled() -> None:
    before = set(vars(ab))
    node = ab.trace(twice_squared, 3.0).outputs[0].node
    assert node.op.name == "twice_squared" and set(vars(ab)) == before
    with pytest.raises(ab.errors.ArgumentError, match="unknown-op"):
        ab.Graph("g").add_node("twice_squared", [1.0])
    make, parts = node.op.__reduce__()
    assert make(*parts) is node.op
    assert callable(make) and pickle.dumps(parts[0])


def test_the_name_and_doc_of_the_function_stay() -> None:
    @ab.custom_derivative
    def f(x):
        """What it does."""
        return x

    assert (f.__name__, f.__doc__) == ("f", "What it does.")
    assert repr(f) == "<custom derivative of f>"
