"""Eager tensors: construction, dtypes, operators on either side, what is recorded."""

import copy
import math
import operator
import pickle
import weakref

import ml_dtypes
import numpy as np
import pytest

import anabranch as ab


@pytest.mark.proves("S0-75")
@pytest.mark.parametrize(
    "source",
    [np.arange(4.0), np.arange(4.0)[::2], np.arange(4.0).reshape(2, 2).T, np.arange(4), np.ones(0)],
)
def test_a_tensor_shares_no_memory_with_its_source(source: np.ndarray) -> None:
    for make in (ab.tensor, ab.Tensor, ab.asarray):
        x = make(source)
        assert not np.shares_memory(x.data, source)
        before = x.numpy()
        source += 1
        assert x.data.tolist() == before.tolist()


def test_a_tensor_of_a_tensor_is_a_leaf_of_its_own() -> None:
    x = ab.tensor([1.0], requires_grad=True, name="x")
    y = ab.tensor(x * 2.0)
    assert (y.is_leaf, y.requires_grad, y.name) == (True, False, None)
    x.data[0] = 5.0
    assert ab.tensor(x).data is not x.data
    assert y.data.tolist() == [2.0]


@pytest.mark.proves("S0-73", "S0-43")
@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (1, "float64"), (True, "float64"), (2.5, "float64"), (1j, "complex128"),
        ([1, 2], "float64"), ([[]], "float64"), ((True, False), "float64"),
        (np.array([1, 2]), "float64"), (np.array([1], np.uint8), "float64"),
        (np.int64(3), "float64"), (np.float32(3), "float32"),
        (np.ones(2, np.float32), "float32"), (np.ones(2, np.float16), "float16"),
        (np.ones(2, ml_dtypes.bfloat16), "bfloat16"), (np.array([True]), "bool"),
    ],
)  # fmt: skip
def test_numbers_lists_and_integers_become_float64_and_the_rest_keeps_its_dtype(
    data: object, dtype: str
) -> None:
    assert ab.tensor(data).dtype.name == dtype


@pytest.mark.proves("S0-73")
def test_dtype_and_asarray_overrule_that() -> None:
    assert ab.tensor([1, 2], dtype=ab.float32).dtype == np.float32
    assert ab.tensor([1.5], dtype=ab.int64).data.tolist() == [1]
    assert ab.tensor(np.ones(1, np.float32), dtype=ab.float64).dtype == np.float64
    assert ab.asarray([1, 2]).dtype == np.int64
    assert ab.asarray([True]).dtype == np.bool_
    assert ab.asarray(np.ones(1, np.float32)).dtype == np.float32


@pytest.mark.proves("S0-43")
def test_a_fresh_tensor_has_no_gradient_no_op_and_no_inputs() -> None:
    for requires_grad in (True, False):
        x = ab.tensor([1, 2], requires_grad=requires_grad, name="x")
        assert (x.grad, x.creator, x.is_leaf, x.name) == (None, None, True, "x")
        assert x.requires_grad is requires_grad


@pytest.mark.parametrize("data", [None, "text", [None], [[1], [2, 3]], {}, object(), np.longdouble])
def test_what_is_no_array_is_refused(data: object) -> None:
    for make in (ab.tensor, ab.asarray):
        with pytest.raises(ab.AnabranchError):
            make(data)


@pytest.mark.parametrize("dtype", ["nonsense", object, "U3", "M8[s]"])
def test_a_dtype_that_cannot_stand_in_a_graph_is_refused(dtype: object) -> None:
    with pytest.raises(ab.errors.DTypeError, match="unsupported-dtype"):
        ab.tensor(1.0, dtype=dtype)


@pytest.mark.parametrize("dtype", [int, bool, complex])
def test_only_floats_can_require_a_gradient(dtype: type) -> None:
    with pytest.raises(ab.errors.DTypeError, match="integer-gradient"):
        ab.tensor([1], dtype=dtype, requires_grad=True)
    with pytest.raises(ab.errors.DTypeError, match="integer-gradient"):
        ab.asarray(np.ones(1, dtype)).requires_grad = True


OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.pow,
    operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne,
]  # fmt: skip
OPERANDS = [3.0, 3, np.float64(3.0), np.float32(3.0), np.int64(3), np.array(3.0),
            np.array([3.0, 0.5, 1.0]), np.array([[3.0], [0.5]]), True]  # fmt: skip


@pytest.mark.proves("S0-44")
@pytest.mark.parametrize("other", OPERANDS, ids=repr)
@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.__name__)
def test_operators_take_numbers_and_arrays_on_either_side(op, other: object) -> None:
    array = np.array([1.0, 2.0, 3.0])
    for requires_grad in (True, False):
        x = ab.tensor(array, requires_grad=requires_grad)
        for got, wanted in [
            (op(x, other), op(array, other)),
            (op(other, x), op(other, array)),
            (op(x, ab.tensor(other, dtype=None)), op(array, np.asarray(other, np.float64))),
        ]:
            assert type(got) is ab.Tensor
            np.testing.assert_allclose(got.data, wanted, rtol=1e-15)
            assert got.requires_grad is (requires_grad and got.dtype.kind == "f")


@pytest.mark.proves("S0-44")
def test_matmul_and_unary_operators() -> None:
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    for got in (ab.tensor(a) @ b, a @ ab.tensor(b), ab.tensor(a) @ ab.tensor(b)):
        assert type(got) is ab.Tensor
        assert np.array_equal(got.data, a @ b)
    x = ab.tensor([-1.0, 2.0])
    assert (-x).data.tolist() == [1.0, -2.0]
    assert (+x).data.tolist() == [-1.0, 2.0]
    assert abs(x).data.tolist() == [1.0, 2.0]
    assert (2.0**x).data.tolist() == [0.5, 4.0]


@pytest.mark.proves("S1-13")
def test_reflected_forms_agree_in_value_and_gradient() -> None:
    for form, mirrored, slope in [
        (lambda x: 2 + x, lambda x: x + 2, 1.0),
        (lambda x: 2 * x, lambda x: x * 2, 2.0),
    ]:
        for f in (form, mirrored):
            x = ab.tensor(3.0, requires_grad=True)
            f(x).backward()
            assert float(f(x)) == float(form(3.0))
            assert float(x.grad) == slope
    x = ab.tensor(4.0, requires_grad=True)
    (2 - x).backward()
    (2 / x).backward()
    assert float(x.grad) == -1.0 - 2 / 16


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_python_numbers_keep_a_narrow_dtype(dtype: type) -> None:
    x = ab.tensor(np.ones(2, dtype), requires_grad=True)
    y = (2 * x + 1.0) / 3 - True
    assert y.dtype == dtype
    y.sum().backward()
    assert x.grad.dtype == dtype


def test_equality_is_elementwise_and_hash_is_identity() -> None:
    x, y = ab.tensor([1.0, 2.0]), ab.tensor([1.0, 3.0])
    assert (x == y).data.tolist() == [True, False]
    assert (x != y).data.tolist() == [False, True]
    assert {x: 1, y: 2}[y] == 2
    assert x in {x} and x not in {y}


@pytest.mark.proves("S0-49")
def test_a_result_requires_a_gradient_if_an_operand_does() -> None:
    x, c = ab.tensor(2.0, requires_grad=True), ab.tensor(3.0)
    assert (x * c).requires_grad and (c * x).requires_grad
    assert not (c * c).requires_grad
    assert not (x > c).requires_grad
    assert not ab.stop_gradient(x).requires_grad
    assert not (ab.stop_gradient(x) * 2.0).requires_grad
    assert not ((x > c).astype(float) * c).requires_grad
    assert (ab.stop_gradient(x) * x).requires_grad
    assert not x.astype(ab.int64).requires_grad
    assert not x.detach().requires_grad


def steps_on_constants(count: int) -> ab.Tensor:
    x, c = ab.tensor(1.0), ab.tensor(1e-6)
    for _ in range(count):
        x = x + c
    return x


@pytest.mark.proves("S0-49")
def test_arithmetic_on_constants_records_nothing(no_collector: None) -> None:
    assert steps_on_constants(20_000).creator is None
    x = ab.tensor(1.0)
    y = x + 1.0
    dead = weakref.ref(x)
    del x
    assert dead() is None  # the sum does not hold on to its operand
    assert float(y) == 2.0


@pytest.mark.slow
@pytest.mark.proves("S0-49")
def test_a_million_steps_on_constants_record_nothing() -> None:
    assert steps_on_constants(1_000_000).creator is None


def test_no_grad_records_nothing_and_ends() -> None:
    x = ab.tensor(2.0, requires_grad=True)
    with pytest.raises(ZeroDivisionError), ab.no_grad():
        y = x * x
        assert not y.requires_grad and y.creator is None
        raise ZeroDivisionError
    assert (x * x).requires_grad


def test_requires_grad_of_a_leaf_can_change_and_of_a_result_cannot() -> None:
    x = ab.tensor(2.0)
    y = x * x
    x.requires_grad = True
    z = x * x
    z.backward()
    assert (float(x.grad), y.requires_grad) == (4.0, False)
    with pytest.raises(ab.errors.ArgumentError, match="not-a-leaf"):
        z.requires_grad = False
    x.requires_grad = False
    assert not (x * x).requires_grad


@pytest.mark.proves("S1-05", "S0-51")
def test_a_scalar_value_answers_for_what_it_is() -> None:
    x, y = ab.tensor(2.0, requires_grad=True, name="x"), ab.tensor(3.0, requires_grad=True)
    z = x * y
    z.name = "z"
    z.backward()
    assert (float(z.data), float(z.grad), z.name) == (6.0, 1.0, "z")
    assert z.creator == ("multiply", (x, y))
    assert [float(p) for p in z.partials] == [3.0, 2.0]
    assert z.node.op is ab.ops.elementwise.multiply


def test_conversions() -> None:
    x = ab.tensor(2.5, requires_grad=True)
    assert (float(x), int(x), bool(x), x.item()) == (2.5, 2, True, 2.5)
    assert np.asarray(x.detach()).tolist() == 2.5
    v = ab.tensor([1.0, 2.0])
    assert len(v) == 2 and [float(e) for e in v] == [1.0, 2.0]
    array = v.numpy()
    array[:] = 0.0
    assert v.data.tolist() == [1.0, 2.0]
    assert [10, 20][ab.asarray(1)] == 20
    for bad in (lambda: len(x), lambda: list(x), lambda: [1][ab.tensor(0.0)]):
        with pytest.raises(TypeError):
            bad()
    with pytest.raises(ValueError, match="truth value"):
        bool(v)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: ab.tensor(2.0), "tensor(2.)"),
        (lambda: ab.tensor([1, 2], dtype=ab.float32), "tensor([1., 2.], dtype=float32)"),
        (
            lambda: ab.tensor(1.0, requires_grad=True, name="w"),
            "tensor(1., requires_grad=True, name='w')",
        ),
        (lambda: ab.tensor([[1.0], [2.0]]), "tensor([[1.],\n        [2.]])"),
        (lambda: ab.tensor(np.zeros((0, 2))), "tensor([], shape=(0, 2))"),
    ],
)
def test_repr(make, text: str) -> None:
    assert repr(make()) == text


@pytest.mark.proves("F-65")
def test_augmented_assignment_binds_the_name_to_a_new_value() -> None:
    x = ab.tensor(0.0, requires_grad=True)
    y = ab.exp(x)
    recorded = y
    z = y * y
    y += 1.0
    assert y is not recorded and float(recorded) == 1.0
    z.backward()
    assert float(x.grad) == 2.0


def test_item_assignment_is_refused_by_name() -> None:
    x = ab.tensor([1.0, 2.0])
    with pytest.raises(ab.errors.ArgumentError, match="item-assignment"):
        x[0] = 3.0
    assert x.data.tolist() == [1.0, 2.0]


def test_a_copy_of_a_tensor_is_a_leaf_with_the_value() -> None:
    x = ab.tensor([1.0, 2.0], requires_grad=True, name="x")
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert y.data.tolist() == [1.0, 2.0] and not np.shares_memory(y.data, x.data)
        assert (y.requires_grad, y.name, y.is_leaf) == (True, "x", True)


def test_in_place_changes_of_data_are_seen_and_stay_of_one_dtype() -> None:
    x = ab.tensor([1.0, 2.0])
    x.data -= 1.0
    x.data = [5, 6]
    assert (x.data.tolist(), x.dtype) == ([5.0, 6.0], np.float64)
    s = ab.tensor(1.0)
    s.data += 1.0
    assert float(s) == 2.0
    with pytest.raises(ab.errors.ShapeError):
        x.data = np.ones(3)
    for nonsense in (None, ["a", "b"], [None, None]):
        with pytest.raises(ab.AnabranchError):
            x.data = nonsense
    assert x.data.tolist() == [5.0, 6.0]


def test_data_set_from_an_array_is_a_copy() -> None:
    x, given = ab.tensor([0.0, 0.0]), np.array([1.0, 2.0])
    x.data = given
    given[:] = 9.0
    assert x.data.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.reshape(2, 2), lambda x: x[1:3], lambda x: x[::-1], lambda x: x[2],
        lambda x: x.reshape(2, 2).T, ab.stop_gradient, ab.identity,
        lambda x: ab.broadcast_to(x, (2, 4)), lambda x: x.astype(ab.float64),
        lambda x: x.reshape(4), lambda x: x.sum(axis=()), lambda x: x.detach(),
    ],
)  # fmt: skip
def test_values_computed_before_do_not_follow_a_later_change(view) -> None:
    for requires_grad in (False, True):
        x = ab.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=requires_grad)
        y = view(x)
        before = y.numpy()
        x.data[:] = 9.0
        assert np.array_equal(y.numpy(), before)
        z = view(x)
        z.data[...] = -1.0
        assert np.array_equal(x.numpy(), np.full(4, 9.0))


@pytest.mark.parametrize(
    "derivative",
    [
        lambda f: ab.grad(f)(2.0),
        lambda f: ab.jvp(f, (2.0,), (1.0,)),
        lambda f: ab.hessian(f)(2.0),
        lambda f: ab.grad(ab.grad(f))(2.0),
        lambda f: ab.grad(f)(ab.tensor(2.0, requires_grad=True)),
    ],
    ids=["grad", "jvp", "hessian", "twice", "on a tensor"],
)
@pytest.mark.parametrize("f", [lambda x: x * math.exp(x), lambda x: float(x) * x], ids="mf")
def test_in_a_derivative_no_function_of_pythons_makes_a_constant(derivative, f) -> None:
    with pytest.raises(ab.TraceError, match="recorded-value") as caught:
        derivative(f)
    assert "x.item()" in str(caught.value)


def test_numbers_are_free_where_nothing_is_lost() -> None:
    def f(x):
        assert (int(x), x.item(), f"{x:.1f}", bool(x > 0.0)) == (2, 2.5, "2.5", True)
        return x * float(ab.tensor(3.0)) * math.exp(x.item())

    assert ab.grad(f)(2.5) == 3.0 * math.exp(2.5)
    x = ab.tensor(2.0, requires_grad=True)
    assert float(x * 3.0) == 6.0  # outside of a derivative a loss is printed so


@pytest.mark.parametrize("symbol", ["+", "*", "@", "//"])
def test_an_array_is_not_changed_by_what_has_a_history(symbol) -> None:
    x = ab.tensor(np.eye(2) + 1.0, requires_grad=True)
    g = ab.Graph("g")
    for value in (x, g.parameter("x", (2, 2), ab.float64)):
        names = {"a": np.ones((2, 2)), "x": value}
        with pytest.raises(ab.ArgumentError, match=r"numpy-function.*cannot hold") as caught:
            exec(f"a {symbol}= x", names)
        assert caught.value.hint == f"a = a {symbol} x"
        assert names["a"].tolist() == np.ones((2, 2)).tolist()
        exec(caught.value.hint, names)
