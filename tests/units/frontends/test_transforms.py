"""grad, value_and_grad, vjp, jvp, gradients: arguments, containers, what comes back."""

import inspect
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import anabranch as ab
from anabranch.core.registry import temporary_ops


class Pair(NamedTuple):
    w: Any
    b: Any


@dataclass(frozen=True)
class Layer:
    w: Any
    b: Any
    note: Any = None

    def __post_init__(self) -> None:
        if not hasattr(self.w, "shape"):  # gradients and tracers must not be sent through here
            raise AssertionError("rebuilt by __init__")


A, B = np.array([1.0, 2.0]), np.array(3.0)


def product(a, b):
    return (a * a * b).sum()


@pytest.mark.proves("S4-08")
def test_value_and_gradient_of_an_ordinary_function() -> None:
    value, slope = ab.value_and_grad(product)(A, B)
    assert (float(value), slope.tolist()) == (15.0, [6.0, 12.0])


@pytest.mark.parametrize(
    ("argnums", "wanted"),
    [
        (0, [6.0, 12.0]), (1, 5.0), ("a", [6.0, 12.0]), ("b", 5.0), (-1, 5.0), (-2, [6.0, 12.0]),
        ((0,), ([6.0, 12.0],)), ((1, 0), (5.0, [6.0, 12.0])), (("b", 0), (5.0, [6.0, 12.0])),
        ([0, 1], ([6.0, 12.0], 5.0)), ((), ()), ((0, 0), ([6.0, 12.0], [6.0, 12.0])),
        (("a", 0, -2), ([6.0, 12.0],) * 3),
    ],
)  # fmt: skip
def test_argnums_by_position_name_and_several(argnums: Any, wanted: Any) -> None:
    found = ab.grad(product, argnums)(A, B)
    if isinstance(wanted, tuple):
        assert isinstance(found, tuple)
        assert tuple(one.tolist() for one in found) == wanted
    else:
        assert found.tolist() == wanted


def test_keyword_arguments_by_name() -> None:
    assert ab.grad(product, "b")(A, b=B) == 5.0
    assert ab.grad(product, "a")(b=B, a=A).tolist() == [6.0, 12.0]
    assert ab.grad(lambda x, **rest: x * rest["scale"], "scale")(2.0, scale=3.0) == 2.0
    assert ab.grad(lambda x, *, k=2.0: x * k)(3.0) == 2.0
    assert ab.grad(lambda *xs: xs[0] * xs[1], argnums=1)(2.0, 3.0) == 2.0


@pytest.mark.parametrize("argnums", [2, -3, "c", (0, 2), 1.0, None, True, ("a", None)])
def test_an_argument_that_does_not_exist(argnums: Any) -> None:
    with pytest.raises(ab.errors.ArgumentError):
        ab.grad(product, argnums)(A, B)


PARAMS = {
    "dict": {"w": A, "b": B},
    "ordered": OrderedDict(w=A, b=B),
    "list": [A, B],
    "tuple": (A, B),
    "named tuple": Pair(A, B),
    "dataclass": Layer(A, B),
    "nested": {"layers": [Pair(A, {"b": B})], "nothing": None},
}


def leaves_of(tree: Any) -> tuple[Any, Any]:
    match tree:
        case {"layers": [Pair(w, {"b": b})]} | {"w": w, "b": b}:
            return w, b
        case Pair(w, b) | Layer(w, b) | [w, b] | (w, b):
            return w, b
    raise AssertionError(tree)


@pytest.mark.parametrize("kind", PARAMS)
def test_containers_come_back_as_they_went_in(kind: str) -> None:
    tree = PARAMS[kind]

    def f(params, scale):
        assert type(params) is type(tree)
        return product(*leaves_of(params)) * scale

    found = ab.grad(f)(tree, 2.0)
    assert type(found) is type(tree)
    w, b = leaves_of(found)
    assert (w.tolist(), b.tolist()) == ([12.0, 24.0], 10.0)
    out, pullback = ab.vjp(lambda p: tree, tree)
    assert type(out) is type(tree)
    assert type(pullback(tree)[0]) is type(tree)
    assert type(ab.jvp(lambda p: p, (tree,), (tree,))[1]) is type(tree)


def test_none_inside_a_container_is_no_leaf() -> None:
    found = ab.grad(lambda p: p["w"] * 2.0)({"w": 1.0, "bias": None})
    assert found == {"w": 2.0, "bias": None}
    assert ab.grad(lambda p: 1.0)({}) == {}


def test_aux_is_handed_through() -> None:
    def f(x):
        return x * x, {"twice": x * 2.0, "name": "kept", "none": None}

    slope, aux = ab.grad(f, has_aux=True)(3.0)
    assert (float(slope), float(aux["twice"]), aux["name"], aux["none"]) == (6.0, 6.0, "kept", None)
    (value, aux), slope = ab.value_and_grad(f, has_aux=True)(3.0)
    assert (float(value), float(slope)) == (9.0, 6.0)
    out, pullback, aux = ab.vjp(f, 3.0, has_aux=True)
    assert (float(out), float(pullback(1.0)[0]), aux["name"]) == (9.0, 6.0, "kept")
    out, tangent, aux = ab.jvp(f, (3.0,), (1.0,), has_aux=True)
    assert (float(out), float(tangent), aux["name"]) == (9.0, 6.0, "kept")
    for bad in (lambda x: x, lambda x: (x, x, x), lambda x: [x, x]):
        with pytest.raises(ab.errors.ArgumentError, match="no-aux"):
            ab.grad(bad, has_aux=True)(1.0)


def test_aux_values_are_of_the_callers_kind() -> None:
    _, aux = ab.grad(lambda x: ((x * x).sum(), x + 1.0), has_aux=True)(A)
    assert type(aux) is np.ndarray
    _, aux = ab.grad(lambda x: ((x * x).sum(), x + 1.0), has_aux=True)(ab.tensor(A))
    assert type(aux) is ab.Tensor


@pytest.mark.proves("F-59", "S0-68")
def test_an_unused_argument_as_asked() -> None:
    def f(x, unused):
        return x * 2.0

    zeros = ab.grad(f, 1)(1.0, A)
    assert zeros.tolist() == [0.0, 0.0]
    zeros[:] = 1.0  # an array of its own
    assert ab.grad(f, 1, unused="none")(1.0, A) is None
    assert ab.grad(f, (0, 1), unused="none")(1.0, A) == (2.0, None)
    with pytest.raises(ab.errors.NoGradientError, match="unused-argument") as caught:
        ab.grad(f, 1, unused="raise")(1.0, A)
    assert '"unused"' in caught.value.sentence
    with pytest.raises(ab.errors.NoGradientError) as caught:
        ab.grad(lambda p: p["w"] * 1.0, unused="raise")({"w": 1.0, "b": 2.0})
    assert "p['b']" in caught.value.sentence
    with pytest.raises(ab.errors.ArgumentError, match="bad-argument"):
        ab.grad(f, unused="maybe")


@pytest.mark.proves("S0-68")
def test_no_path_zero_and_stopped_are_told_apart() -> None:
    assert ab.grad(lambda x, y: x * 0.0 + y, unused="none")(2.0, 3.0) == 0.0
    assert ab.grad(ab.stop_gradient, unused="none")(2.0) is None
    assert ab.grad(ab.sign, unused="none")(2.0) == 0.0
    assert ab.grad(lambda x: (x > 0.0).astype(float), unused="none")(2.0) is None
    assert ab.grad(lambda x: x.astype(int).astype(float), unused="none")(2.0) is None


@pytest.mark.proves("F-57")
@pytest.mark.parametrize("array", [np.array([1, 2]), np.array([True]), np.array(3, np.uint8)])
def test_integers_and_bools_are_refused_by_name(array: np.ndarray) -> None:
    def f(step, x):
        return (x * step).sum()

    kind = {"int64": "i64", "bool": "bool", "uint8": "u8"}[array.dtype.name]
    for run in (
        lambda: ab.grad(f)(array, 1.0),
        lambda: ab.grad(f, "step")(step=array, x=1.0),
        lambda: ab.vjp(f, array, 1.0),
        lambda: ab.jvp(f, (array, 1.0), (array, 1.0)),
        lambda: ab.grad(f)(ab.asarray(array), 1.0),
        lambda: ab.compile(ab.grad(f))(array, 1.0),
    ):
        with pytest.raises(ab.errors.DTypeError, match="integer-gradient") as caught:
            run()
        assert '"step"' in caught.value.sentence and f"{kind}[" in caught.value.sentence
    with pytest.raises(ab.errors.DTypeError) as caught:
        ab.grad(f)(array, 1.0)
    assert caught.value.hint == 'ab.grad(f, argnums="x")'
    assert "test_transforms.py" in caught.value.facts[0]


@pytest.mark.parametrize("value", ["text", object(), 1j, np.array(1j), np.array([None])])
def test_what_has_no_tangent_is_refused_by_name(value: object) -> None:
    for run in (lambda: ab.grad(lambda a: 1.0)(value), lambda: ab.vjp(lambda a: 1.0, value)):
        with pytest.raises(ab.AnabranchError) as caught:
            run()
        assert '"a"' in caught.value.sentence


@pytest.mark.parametrize("f", [3, None, "f"])
def test_what_is_no_function_is_refused(f: object) -> None:
    for make in (ab.grad, ab.value_and_grad, ab.compile):
        with pytest.raises(ab.errors.ArgumentError):
            make(f)(1.0)  # type: ignore[operator]


@pytest.mark.proves("F-61")
def test_numbers_promote_to_float64() -> None:
    assert round(float(ab.tanh(2)), 6) == 0.964028
    slope = ab.grad(ab.tanh)(2)
    assert (round(float(slope), 6), slope.dtype) == (0.070651, np.float64)
    assert ab.grad(lambda x: x * 3)(True) == 3.0
    assert [float(g) for g in ab.grad(lambda v: v[0] * v[1])([2, 3])] == [3.0, 2.0]


@pytest.mark.proves("F-81")
def test_integer_data_made_a_tensor_has_a_float_gradient() -> None:
    x = ab.tensor([[1], [0], [0], [1]])
    slope = ab.grad(lambda v: ((v[1:] - v[:-1]) ** 2).sum())(x)
    assert (slope.data.ravel().tolist(), slope.dtype) == ([2.0, -2.0, -2.0, 2.0], np.float64)


@pytest.mark.parametrize("out", [np.ones(2), np.ones((1, 1)), [1.0, 2.0], "text", None, {}])
def test_a_result_that_is_no_scalar(out: object) -> None:
    with pytest.raises(ab.AnabranchError, match="not-a-scalar"):
        ab.grad(lambda x: out)(1.0)


def test_a_result_that_is_no_float() -> None:
    with pytest.raises(ab.errors.DTypeError, match="integer-gradient"):
        ab.grad(lambda x: x > 0.0)(1.0)


def test_numpy_in_numpy_out_and_tensors_in_tensors_out() -> None:
    for convert, kind in ((np.asarray, np.ndarray), (ab.tensor, ab.Tensor)):
        a = convert(A)
        value, slope = ab.value_and_grad(lambda x: (x * x).sum())(a)
        assert type(slope) is kind
        assert isinstance(value, np.float64 if kind is np.ndarray else ab.Tensor)
        out, pullback = ab.vjp(lambda x: x * x, a)
        assert type(out) is kind and type(pullback(np.ones(2))[0]) is kind
        assert {type(v) for v in ab.jvp(lambda x: x * x, (a,), (a,))} == {kind}
    assert isinstance(ab.grad(lambda x: x * x)(2.0), np.float64)
    assert type(ab.grad(lambda x, y: (x * y).sum())(A, ab.tensor(A))) is ab.Tensor


def test_results_share_memory_with_nothing() -> None:
    x, ct = A.copy(), np.ones(2)
    out, pullback = ab.vjp(lambda a, b: (a, b), x, x)
    first, second = pullback((ct, ct))
    _, (ga, gb) = ab.value_and_grad(lambda a, b: (a + b).sum(), (0, 1))(x, x)
    jout, jt = ab.jvp(lambda a: a, (x,), (ct,))
    arrays = [x, ct, *out, first, second, ga, gb, jout, jt]
    for i, one in enumerate(arrays):
        assert one.flags.writeable
        assert not any(np.shares_memory(one, other) for other in arrays[i + 1 :])


def test_a_function_may_return_its_argument_or_a_number() -> None:
    assert ab.grad(lambda x: x)(2.0) == 1.0
    assert ab.value_and_grad(lambda x: 3.0)(2.0) == (3.0, 0.0)
    out, _ = ab.vjp(lambda x: (x, 3.0, "text", None), 2.0)
    assert out == (2.0, 3.0, "text", None)


def test_a_pullback_can_be_called_again_and_is_linear() -> None:
    _, pullback = ab.vjp(lambda x, y: (x * y, x + y), A, A + 1.0)
    one = pullback((np.array([1.0, 0.0]), np.zeros(2)))
    two = pullback((np.array([2.0, 0.0]), np.zeros(2)))
    assert [t.tolist() for t in two] == [(2.0 * o).tolist() for o in one]
    assert [t.tolist() for t in one] == [[2.0, 0.0], [1.0, 0.0]]


def test_a_pullback_keeps_the_point_at_which_it_was_made() -> None:
    w = np.array([3.0, 4.0])
    for x in (np.array([1.0, 2.0]), ab.tensor([1.0, 2.0])):
        out, pullback = ab.vjp(lambda v: v * v * w, x)
        wanted = np.array([6.0, 16.0])
        array = x.data if isinstance(x, ab.Tensor) else x
        array[:] = 100.0
        if isinstance(out, np.ndarray):
            out[:] = 0.0
        w[:] = 0.0
        (slope,) = pullback(np.ones(2))
        assert np.asarray(getattr(slope, "data", slope)).tolist() == wanted.tolist()
        w[:] = [3.0, 4.0]


@pytest.mark.parametrize(
    "ct", [1.0, (1.0,), (A, A, A), [A, A], (A, None), {"a": A}, (A, np.ones(3)), ("a", A)]
)
def test_a_cotangent_that_does_not_match_the_result(ct: object) -> None:
    _, pullback = ab.vjp(lambda x: (x, x), A)
    with pytest.raises(ab.AnabranchError):
        pullback(ct)


@pytest.mark.parametrize(
    ("primals", "tangents"),
    [((A,), (np.ones(3),)), ((A,), (A, A)), ((A,), ("ab",)), ((A,), ([A],)), (A, A), (1.0, 1.0)],
)
def test_a_tangent_that_does_not_match_its_primal(primals: Any, tangents: Any) -> None:
    with pytest.raises(ab.AnabranchError):
        ab.jvp(lambda *xs: xs[0], primals, tangents)


def test_jvp_is_the_directional_derivative() -> None:
    f = lambda x, y: ab.sin(x) * y  # noqa: E731
    out, t = ab.jvp(f, (2.0, 3.0), (1.0, 10.0))
    assert float(out) == np.sin(2.0) * 3.0
    assert float(t) == pytest.approx(np.cos(2.0) * 3.0 + np.sin(2.0) * 10.0, rel=1e-15)
    assert ab.jvp(lambda x: 3.0, (2.0,), (1.0,)) == (3.0, 0.0)


def test_jvp_of_an_op_with_a_vjp_rule_alone() -> None:
    with temporary_ops():
        op = ab.Op(
            "weighted", aval=lambda x, w: x, ref=lambda x, w: x * x * w, doc="x * x * w",
            vjp=(lambda ct, y, x, w: 2 * ct * x * w, lambda ct, y, x, w: ct * x * x),
        )  # fmt: skip
        x, w = np.array([1.0, 2.0]), np.array([3.0, 5.0])
        out, t = ab.jvp(op, (x, w), (np.ones(2), np.array([0.0, 1.0])))
        assert (out.tolist(), t.tolist()) == ([3.0, 20.0], [6.0, 24.0])


def test_gradients_of_recorded_tensors_by_leaves_and_intermediates() -> None:
    x = ab.tensor(2.0, requires_grad=True)
    other = ab.tensor(1.0, requires_grad=True)
    y = x * x
    z = y * x
    by_x, by_y, by_z = ab.gradients(z, [x, y, z])
    assert [float(g) for g in (by_x, by_y, by_z)] == [12.0, 2.0, 1.0]
    assert all(t.grad is None for t in (x, y, z))
    assert float(ab.gradients(z, [other])[0]) == 0.0
    assert ab.gradients(z, [other], unused="none") == [None]
    other.name = "other"
    with pytest.raises(ab.errors.NoGradientError, match='"other"'):
        ab.gradients(z, [other], unused="raise")
    with pytest.raises(ab.errors.ShapeError, match="implicit-cotangent"):
        ab.gradients(z * np.ones(2), [x])
    assert float(ab.gradients(z * np.ones(2), [x], ct=np.ones(2))[0]) == 24.0


def test_recorded_gradients_have_derivatives() -> None:
    x = ab.tensor(2.0, requires_grad=True)
    z = x * x * x * x
    for wanted in (32.0, 48.0, 48.0, 24.0):
        (z,) = ab.gradients(z, [x], record=True)
        assert float(z) == wanted
    assert x.grad is None


@pytest.mark.parametrize(
    "call",
    [
        lambda z, x: ab.gradients(z, x),
        lambda z, x: ab.gradients(3.0, [x]),
        lambda z, x: ab.gradients(np.ones(()), [x]),
        lambda z, x: ab.gradients(z, [3.0]),
        lambda z, x: ab.gradients(z, [None]),
        lambda z, x: ab.gradients(z, [x], unused="maybe"),
    ],
)
def test_gradients_refuses_what_was_not_recorded(call) -> None:
    x = ab.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(ab.AnabranchError):
        call((x * x).sum(), x)


def test_transforms_leave_the_grad_attribute_alone() -> None:
    x = ab.tensor(2.0, requires_grad=True)
    y = ab.tensor(3.0, requires_grad=True)
    f = lambda a: a * a * y  # noqa: E731
    ab.grad(f)(x)
    ab.value_and_grad(f)(x)
    ab.vjp(f, x)[1](1.0)
    ab.jvp(f, (x,), (1.0,))
    ab.grad(ab.grad(f))(x)
    assert x.grad is None and y.grad is None


def test_results_of_transforms_on_tracked_tensors_are_recorded() -> None:
    x = ab.tensor(2.0, requires_grad=True)
    y = ab.tensor(3.0, requires_grad=True)
    slope = ab.grad(lambda a: a * a * a * y)(x)
    slope.backward()
    assert [float(t) for t in (slope, x.grad, y.grad)] == [36.0, 36.0, 12.0]
    assert not ab.grad(lambda a: a * a)(ab.tensor(2.0)).requires_grad


def test_a_gradient_is_taken_inside_no_grad_too() -> None:
    with ab.no_grad():
        assert ab.grad(lambda x: x * x)(3.0) == 6.0
        slope = ab.grad(lambda x: x * x)(ab.tensor(3.0, requires_grad=True))
    assert (float(slope), slope.requires_grad) == (6.0, False)


def test_a_python_if_and_a_loop_on_values_work() -> None:
    def f(x):
        while x < 100.0:
            x = x * x if x > 3.0 else x * 2.0
        return x

    value, slope = ab.value_and_grad(f)(2.0)  # 2 -> 4 -> 16 -> 256 = (2x)**4
    assert (float(value), float(slope)) == (256.0, 4 * 2 * 4.0**3)


def test_mixed_dtypes_come_back_in_each_arguments_own() -> None:
    a, b = np.ones(2, np.float32), np.ones(2)
    ga, gb = ab.grad(lambda x, y: (x * y).sum(), (0, 1))(a, b)
    assert (ga.dtype, gb.dtype) == (np.float32, np.float64)
    out, t = ab.jvp(lambda x: x * 2.0, (a,), (a,))
    assert (out.dtype, t.dtype) == (np.float32, np.float32)
    assert ab.grad(lambda x: (x.astype(ab.float64) ** 2).sum())(a).dtype == np.float32


def test_the_gradient_keeps_its_functions_name_and_signature() -> None:
    assert ab.grad(product).__name__ == "product"
    assert list(inspect.signature(ab.grad(product)).parameters) == ["a", "b"]


def test_the_users_own_type_error_passes() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        ab.grad(product)(A)


def test_shapes_of_every_rank() -> None:
    for shape in ((), (1,), (0,), (2, 0, 3), (1, 1), (2, 3, 4)):
        x = np.full(shape, 2.0)
        slope = ab.grad(lambda v: (v * v).sum())(x)
        assert (slope.shape, np.all(slope == 4.0)) == (shape, True)


def test_fortran_order_strides_and_read_only_arguments() -> None:
    base = np.arange(12.0).reshape(3, 4)
    frozen = base.copy()
    frozen.flags.writeable = False
    for x in (np.asfortranarray(base), base[::2, ::-1], base.T, frozen):
        slope = ab.grad(lambda v: (v * v).sum())(x)
        assert np.array_equal(slope, 2 * x)
        slope[...] = 0.0
