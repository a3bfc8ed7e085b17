"""backward(): what is added where, how often, and what stays alive."""

import threading
import time
import weakref

import numpy as np
import pytest

import anabranch as ab
from anabranch.core.registry import temporary_ops
from anabranch.diff import reverse


def leaves(*values: object) -> list[ab.Tensor]:
    return [ab.tensor(v, requires_grad=True) for v in values]


def worked() -> tuple[ab.Tensor, ...]:
    """z = (x*y + x)**2 at x = 2, y = 3, with every intermediate."""
    x, y = (ab.tensor(v, requires_grad=True, name=n) for n, v in (("x", 2.0), ("y", 3.0)))
    p = x * y
    u = p + x
    return x, y, p, u, u**2


@pytest.mark.proves("S1-16", "S0-45", "S1-03", "S1-32")
def test_the_worked_expression() -> None:
    x, y, _, _, z = worked()
    order = z.backward()
    assert (float(z), float(x.grad), float(y.grad)) == (64.0, 64.0, 32.0)
    assert len(order) == 5 and sum(t is z for t in order) == 1
    eps = 1e-6
    f = lambda x: (x * 3.0 + x) ** 2  # noqa: E731
    assert abs((f(2.0 + eps) - f(2.0 - eps)) / (2 * eps) - 64.0) < 1e-5


@pytest.mark.proves("S1-35", "S1-14")
def test_the_order_is_the_order_of_computation() -> None:
    x, y, p, u, z = worked()
    for order in (z.backward(), z.backward_fresh()):
        assert list(order) == [x, y, p, u, z] or all(
            a is b for a, b in zip(order, (x, y, p, u, z), strict=True)
        )


@pytest.mark.proves("S1-36", "S1-20", "S1-40", "S1-37", "S1-08")
def test_contributions_in_the_order_of_arrival() -> None:
    x, y, p, u, z = worked()
    seen = []
    z.backward(observer=lambda node, slot, part: seen.append((node.inputs[slot], float(part))))
    assert [(t.name or t.node.op.name, part) for t, part in seen] == [
        ("add", 8.0), ("add", 8.0),  # the square is a product with two edges of 8
        ("multiply", 16.0), ("x", 16.0),
        ("x", 48.0), ("y", 32.0),
    ]  # fmt: skip
    for tensor in (x, y, p, u):
        total = 0.0
        for edge, part in seen:
            if edge is tensor:
                total += part
        assert total == float(tensor.grad)
    assert float(x.grad) == 64.0  # 48 or 16 would be an overwritten sum


@pytest.mark.proves("S1-06", "S1-39", "S1-19")
def test_local_derivatives_on_the_edges() -> None:
    _, _, p, u, z = worked()
    assert [[float(d) for d in t.partials] for t in (p, u, z)] == [
        [3.0, 2.0], [1.0, 1.0], [8.0, 8.0],
    ]  # fmt: skip
    assert [float(t) for t in (p, u, z)] == [6.0, 8.0, 64.0]


@pytest.mark.proves("S1-33")
def test_a_gradient_of_zero_is_zero() -> None:
    x, y = leaves(0.0, -1.0)
    ((x * y + x) ** 2).backward()
    assert [x.grad.tolist(), y.grad.tolist()] == [0.0, 0.0]


@pytest.mark.proves("S1-01")
def test_the_engine_states_the_invariant_that_the_random_programs_check() -> None:
    assert "every node that uses it has already delivered" in " ".join(reverse.__doc__.split())


@pytest.mark.proves("S0-25", "S1-12")
def test_a_shared_input_adds_up() -> None:
    a, b, c = leaves(2.0, 3.0, 4.0)
    ((a + b) * (a + c)).backward()
    assert [float(t.grad) for t in (a, b, c)] == [11.0, 6.0, 5.0]


@pytest.mark.proves("S0-24")
def test_a_value_with_two_readers_adds_up() -> None:
    a, b = leaves(2.0, 3.0)
    ((a + b) + a * 2).backward()
    assert [float(a.grad), float(b.grad)] == [3.0, 1.0]


@pytest.mark.proves("S1-07")
def test_both_inputs_of_one_op_count() -> None:
    for f, slope in [(lambda a: a * a, 6.0), (lambda a: a + a, 2.0), (lambda a: a * a * a, 27.0)]:
        (a,) = leaves(3.0)
        f(a).backward()
        assert float(a.grad) == slope


@pytest.mark.proves("S1-12", "S1-10", "S0-27")
def test_in_the_diamond_each_rule_runs_once_with_the_whole_cotangent(spy) -> None:
    x, one = leaves(2.0, 1.0)
    shared = spy(x, one)
    top = spy(shared, one) + spy(shared, one)
    top.backward()
    assert [(slot, float(args[0])) for slot, args in spy.rules] == [
        (0, 1.0), (1, 1.0), (0, 1.0), (1, 1.0),  # the two readers of `shared`
        (0, 2.0), (1, 2.0),  # `shared`, once, with both contributions
    ]  # fmt: skip
    assert float(x.grad) == 2.0


@pytest.mark.proves("S0-30")
def test_a_rule_is_given_cotangent_output_and_inputs(spy) -> None:
    x, y = leaves(2.0, 5.0)
    (spy(x, y) * 3.0).backward()
    assert [tuple(map(float, args)) for _, args in spy.rules] == [(3.0, 10.0, 2.0, 5.0)] * 2


@pytest.mark.proves("S0-50")
def test_an_operand_without_gradient_costs_nothing(spy) -> None:
    (x,) = leaves(2.0)
    c = ab.tensor(5.0)
    spy(x, c).backward()
    spy(c, x).backward()
    spy(x, 5.0).backward()
    assert [slot for slot, _ in spy.rules] == [0, 1, 0]
    assert c.grad is None


@pytest.mark.proves("S1-27")
def test_constants_never_get_a_gradient() -> None:
    x, c = ab.tensor([1.0, 2.0], requires_grad=True), ab.tensor([3.0, 4.0])
    array = np.array([5.0, 6.0])
    order = (x * c * array).sum().backward()
    assert c.grad is None
    assert all(t.requires_grad for t in order)


@pytest.mark.proves("S0-19", "S4-16", "S4-18", "S0-27")
def test_a_ladder_costs_its_height(spy) -> None:
    (x,) = leaves(1.0)
    y = x
    for _ in range(30):
        y = spy(y, y)
    assert len(spy.values) == 30
    y.backward()
    assert len(spy.rules) == 60  # two edges each, not 2**30 paths
    assert float(x.grad) == 2.0**30


@pytest.mark.proves("S0-47")
def test_unrelated_values_cost_nothing(executed_lines) -> None:
    def steps() -> int:
        # The least of three: caches fill, and a collector run may add lines of other programs.
        return min(executed_lines(worked()[-1].backward) for _ in range(3))

    alone = steps()
    others = leaves(*[1.0] * 1_000)
    others += [t * t for t in others]
    shared = ab.tensor(2.0, requires_grad=True)
    others += [shared * t for t in others]
    assert steps() == alone


@pytest.mark.proves("S1-09")
def test_a_scalar_starts_at_one_and_anything_else_asks_for_a_cotangent() -> None:
    (x,) = leaves([1.0, 2.0])
    y = (x * x).sum()
    y.backward()
    assert float(y.grad) == 1.0
    for z in (x * x, (x * x)[None, 0:1]):
        with pytest.raises(ab.errors.ShapeError, match="implicit-cotangent"):
            z.backward()
    assert x.grad.tolist() == [2.0, 4.0]  # nothing arrived from the failed ones


def test_a_cotangent_of_the_wrong_shape_or_kind_is_refused() -> None:
    (x,) = leaves([1.0, 2.0])
    y = x * x
    for ct in (np.ones(3), 1.0, np.ones((2, 1)), [1.0]):
        with pytest.raises(ab.errors.ShapeError):
            y.backward(ct)
    for ct in ("a", ["a", "b"], object()):
        with pytest.raises(ab.AnabranchError):
            y.backward(ct)
    assert x.grad is None


def test_a_cotangent_may_be_an_array_a_list_or_a_tensor() -> None:
    for ct in (np.array([1.0, 10.0]), [1, 10], ab.tensor([1.0, 10.0]), np.array([1, 10], "f4")):
        (x,) = leaves([1.0, 2.0])
        (x * x).backward(ct)
        assert (x.grad.tolist(), x.grad.dtype) == ([2.0, 40.0], np.float64)


@pytest.mark.proves("S0-61", "S1-28", "F-69")
def test_a_second_call_adds_the_same_again() -> None:
    x, _, _, u, z = worked()
    z.backward()
    z.backward()
    assert [float(t.grad) for t in (x, u, z)] == [128.0, 32.0, 2.0]
    x.zero_grad()
    assert x.grad.tolist() == 0.0
    z.backward()
    assert [float(t.grad) for t in (x, u, z)] == [64.0, 48.0, 3.0]


@pytest.mark.proves("F-69")
def test_a_chain_of_doublings_on_every_pass() -> None:
    (a,) = leaves(1.0)
    b = a + a
    c = b + b
    for _ in range(3):
        c.backward_fresh()
        assert [float(a.grad), float(b.grad)] == [4.0, 2.0]
    a.zero_grad()
    c.backward()
    assert float(a.grad) == 4.0


@pytest.mark.proves("S1-14", "S1-48")
def test_backward_fresh_clears_everything_below_first() -> None:
    x, y, p, u, z = worked()
    other = x * 100.0
    other.backward()
    z.backward()
    for _ in range(2):
        z.backward_fresh()
        assert [float(t.grad) for t in (x, y, p, u, z)] == [64.0, 32.0, 16.0, 16.0, 1.0]
    assert float(other.grad) == 1.0  # not below z


@pytest.mark.proves("S1-49")
def test_four_parts_of_a_batch_add_up_to_the_whole() -> None:
    rng = np.random.default_rng(0)
    data, target = rng.normal(size=(128, 3)), rng.normal(size=128)
    w, whole = leaves(rng.normal(size=3), np.zeros(3))
    whole.data = w.data.copy()

    def loss(weights, rows):
        d = data[rows] @ weights - target[rows]
        return (d * d).sum() / 128

    loss(whole, slice(None)).backward()
    for part in range(4):
        loss(w, slice(32 * part, 32 * part + 32)).backward()
    np.testing.assert_allclose(w.grad, whole.grad, rtol=1e-12, atol=1e-12)


@pytest.mark.proves("S0-40")
def test_intermediates_have_gradients_too_unless_only_leaves_are_kept() -> None:
    *tensors, _ = worked()
    z = tensors[3] ** 2
    z.backward()
    assert all(t.grad is not None and t.data is not None for t in (*tensors, z))
    x, y, p, u, z = worked()
    z.backward(keep="leaves")
    assert [t.grad is None for t in (x, y, p, u, z)] == [False, False, True, True, True]
    with pytest.raises(ab.errors.ArgumentError, match="bad-argument"):
        z.backward(keep="some")


@pytest.mark.proves("S0-68")
def test_not_yet_none_and_zero_are_three_things() -> None:
    a, b, c = leaves(2.0, 3.0, 4.0)
    (a * 0.0 + b).backward()
    assert a.grad.tolist() == 0.0  # a number
    assert c.grad is None  # no path, or not yet
    with pytest.raises(ab.errors.NoGradientError, match="no-gradient-path"):
        ab.tensor(1.0).backward()
    with pytest.raises(ab.errors.NoGradientError, match="no-gradient-path"):
        ab.stop_gradient(a).backward()


@pytest.mark.proves("S0-74")
def test_broadcast_axes_are_summed_back() -> None:
    a, b = leaves(np.zeros((3, 1)), np.zeros(3))
    y = a + b
    assert y.shape == (3, 3)
    y.backward(np.ones((3, 3)))
    assert a.grad.tolist() == [[3.0]] * 3
    assert b.grad.tolist() == [3.0] * 3


@pytest.mark.proves("S1-45")
def test_a_scalar_spread_over_a_matrix() -> None:
    s, m = leaves(1.0, np.zeros((4, 5)))
    (s + m).backward(np.ones((4, 5)))
    assert (s.grad.shape, float(s.grad)) == ((), 20.0)


def test_empty_arrays_have_gradients_of_their_shape() -> None:
    a, b = leaves(np.zeros((0, 3)), np.ones((1, 3)))
    (a * b).sum().backward()
    assert (a.grad.shape, b.grad.tolist()) == ((0, 3), [[0.0] * 3])


def test_mixed_precision_comes_back_in_each_operands_dtype() -> None:
    a, b = ab.tensor([1.0], dtype=ab.float32, requires_grad=True), leaves([2.0])[0]
    (a * b).sum().backward()
    assert (a.grad.dtype, b.grad.dtype) == (np.float32, np.float64)


@pytest.mark.proves("S0-31")
def test_addition_hands_its_cotangent_on_without_a_copy() -> None:
    a, b = leaves(np.ones((2, 2)), np.ones((2, 2)))
    parts = []
    (a + b).backward(np.ones((2, 2)), observer=lambda node, slot, part: parts.append(part))
    assert parts[0] is parts[1]


def test_gradient_arrays_share_memory_with_nothing() -> None:
    a, b = leaves(np.ones(3), np.ones(3))
    ct = np.ones(3)
    y = a + b
    z = y + a
    z.backward(ct)
    arrays = [ct, *(t.grad for t in (a, b, y, z)), *(t.data for t in (a, b, y, z))]
    for i, one in enumerate(arrays):
        for other in arrays[i + 1 :]:
            assert not np.shares_memory(one, other)
    ct[:] = 7.0
    y.grad[:] = 5.0
    assert [a.grad.tolist(), b.grad.tolist(), z.grad.tolist()] == [[2.0] * 3, [1.0] * 3, [1.0] * 3]


def test_a_gradient_array_that_was_read_is_not_changed_by_the_next_pass() -> None:
    x, *_, z = worked()
    z.backward()
    first = x.grad
    z.backward()
    assert (float(first), float(x.grad)) == (64.0, 128.0)


def test_a_gradient_can_be_set_copied_and_cleared() -> None:
    a, b = leaves([1.0, 2.0], [3.0, 4.0])
    given = np.array([1.0, 1.0])
    a.grad = given
    b.grad = a.grad
    given[:] = 9.0
    a.grad[:] = 7.0
    assert [a.grad.tolist(), b.grad.tolist()] == [[7.0, 7.0], [1.0, 1.0]]
    a.grad = None
    assert a.grad is None
    b.grad *= 2.0
    assert b.grad.tolist() == [2.0, 2.0]
    with pytest.raises(ab.errors.ShapeError):
        a.grad = np.ones(3)
    b.grad = [1, 2]
    assert b.grad.dtype == np.float64


@pytest.mark.proves("S0-73")
def test_an_integer_tensor_has_no_gradient_to_set() -> None:
    n = ab.asarray([1, 2])
    with pytest.raises(ab.errors.DTypeError, match="integer-gradient"):
        n.grad = [1.5, 2.5]
    with pytest.raises(ab.errors.DTypeError, match="integer-gradient"):
        n.zero_grad()
    n.grad = None
    assert n.grad is None


@pytest.mark.proves("S0-60", "S0-57")
def test_the_plain_training_loop_with_in_place_updates() -> None:
    (w,) = leaves([1.0, 2.0])
    for step in range(3):
        before = w.data.copy()
        (w * w).sum().backward()
        assert np.array_equal(w.grad, 2 * before), step
        w.data -= 0.25 * w.grad
        w.grad = np.zeros_like(w.grad)
        assert np.array_equal(w.data, before / 2)


@pytest.mark.proves("S0-60")
@pytest.mark.parametrize("which", ["leaf", "intermediate", "array taken earlier"])
def test_a_value_changed_before_backward_is_noticed(which: str) -> None:
    (x,) = leaves([1.0, 2.0])
    array = x.data
    y = ab.exp(x)
    z = (y * y * x).sum()
    if which == "leaf":
        x.data[:] = 5.0
    elif which == "intermediate":
        y.data[:] = 5.0
    else:
        array[:] = 5.0
    with pytest.raises(ab.AnabranchError, match="stale"):
        z.backward()
    assert x.grad is None


def test_a_plain_array_changed_before_backward_changes_nothing() -> None:
    (x,) = leaves([3.0, 4.0])
    factor, places = np.array([1.0, 2.0]), np.array([0, 1])
    y = (ab.take(x, places) * factor).sum()
    factor[:] = 100.0
    places[:] = 0
    y.backward()
    assert x.grad.tolist() == [1.0, 2.0]


def test_a_change_of_what_backward_does_not_need_is_no_news() -> None:
    (x,) = leaves([1.0, 2.0])
    y = (x + 1.0).sum()
    x.data[:] = 5.0
    y.backward()
    assert x.grad.tolist() == [1.0, 1.0]


@pytest.mark.proves("S1-51")
def test_the_recorded_program_lives_as_long_as_its_result(no_collector: None) -> None:
    (x,) = leaves(2.0)
    y = x * x
    z = y * x
    z.backward()
    z.backward()
    assert float(x.grad) == 24.0
    dead = weakref.ref(y), weakref.ref(y.node), weakref.ref(z.node)
    del y
    assert dead[0]() is not None
    del z
    assert [d() for d in dead] == [None] * 3


@pytest.mark.proves("S1-51")
def test_retain_false_frees_and_a_second_call_says_so(no_collector: None) -> None:
    (x,) = leaves(2.0)
    y = ab.exp(x)
    z = y * y
    middle = weakref.ref(y)
    del y
    z.backward(retain=False)
    slope = float(x.grad)
    assert middle() is None
    for again in (z.backward, z.backward_fresh, (z * 2.0).backward, lambda: ab.graph(z),
                  lambda: ab.gradients(z, [x])):  # fmt: skip
        with pytest.raises(ab.errors.FreedGraphError, match="freed-graph") as caught:
            again()
        assert caught.value.source.text == "z = y * y"
    assert float(x.grad) == slope
    (x * x).backward()  # the leaf itself goes on
    assert float(x.grad) == slope + 4.0


def test_a_failing_rule_leaves_no_half_gradients() -> None:
    with temporary_ops():
        broken = ab.elementwise(
            "broken", lambda x: x, partials=ab.UNSUPPORTED("nobody knows it"), arity=1, doc="x"
        )
        a, b = leaves(1.0, 2.0)
        z = a * b + broken(b)
        with pytest.raises(ab.errors.NoGradientError, match="nobody knows it") as caught:
            z.backward()
        assert caught.value.code == "no-gradient-rule"
        assert a.grad is None and b.grad is None


@pytest.mark.proves("S0-26")
def test_a_rule_of_the_wrong_shape_is_named() -> None:
    with temporary_ops():
        bad = ab.Op(
            "bad", aval=lambda x, y: x, ref=lambda x, y: x * y, doc="x",
            vjp=(lambda ct, z, x, y: ct, lambda ct, z, x, y: ct[:1]),
        )  # fmt: skip
        a, b = leaves(np.ones(3), np.ones(3))
        with pytest.raises(ab.errors.InternalError, match="bad-rule") as caught:
            bad(a, b).sum().backward()
        for part in ("bad", "input 1", "f64[3]", "f64[1]"):
            assert part in caught.value.sentence


@pytest.mark.proves("S0-26")
def test_a_record_with_too_few_rules_is_named() -> None:
    with temporary_ops():
        short = ab.Op("short", aval=lambda x, y: x, ref=lambda x, y: x * y, doc="x",
                      vjp=(lambda ct, z, x, y: ct * y,))  # fmt: skip
        a, b = leaves(np.ones(3), np.ones(3))
        with pytest.raises(ab.AnabranchError, match="short"):
            short(a, b).sum().backward()


@pytest.mark.proves("S1-41")
def test_the_derivative_of_tanh_does_not_compute_tanh_again() -> None:
    g = ab.Graph("demo")
    x = g.parameter("x", (), ab.float64)
    ab.gradients(ab.tanh(x), [x])
    assert sum(node.op.name == "tanh" for node in g) == 1


@pytest.mark.proves("S0-48", "S4-09")
def test_the_recorded_graph_is_the_graph_by_hand() -> None:
    *_, z = worked()
    g = ab.Graph("by hand")
    x, y = g.parameter("x", (), ab.float64), g.parameter("y", (), ab.float64)
    g.set_outputs([(x * y + x) ** 2])
    assert ab.structure_hash(ab.graph(z)) == ab.structure_hash(g)
    assert str(ab.graph(z, name="by hand")) == str(g)


def test_gradients_of_several_results_from_one_recorded_graph() -> None:
    x, _ = leaves(2.0, 3.0)
    y = ab.exp(x)
    g = ab.graph(y, y * x, name="two")
    value, product = g.compile(list(g.outputs))(1.0)
    assert float(product) == float(value)
    with pytest.raises(ab.errors.ArgumentError, match="not-a-tensor"):
        ab.graph(y, 3.0)


def test_threads_that_bring_gradients_to_one_weight_lose_none() -> None:
    class Slow(float):
        """A gradient so slow to add to that another thread would come in between."""

        def __add__(self, other: object) -> "Slow":
            time.sleep(0.002)
            return Slow(float(self) + float(other))  # type: ignore[arg-type]

    w = ab.tensor(2.0, requires_grad=True)
    w._grad = Slow(0.0)

    def work() -> None:
        for _ in range(5):
            (w * 3.0).backward(keep="leaves")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert float(w._grad) == 60.0
