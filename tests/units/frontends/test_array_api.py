"""`anabranch.xp`: the names of the array API standard, whose values NumPy's namespace has too."""

import gc
import inspect
import itertools

import ml_dtypes
import numpy as np
import pytest

import anabranch as ab
from anabranch import xp
from anabranch.frontends.array_api import table

FLOATS = np.array([[0.5, -0.25, 0.75], [0.1, -0.0, 0.9]])
MORE = np.array([[2.0, 0.5, 1.0]])
INTEGERS = np.array([[5, 2, 7], [1, 4, 0]])
BOOLS = np.array([[True, False, True], [False, False, True]])
SQUARE = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 5.0]])
STACK = np.stack([SQUARE, SQUARE + np.eye(3)])
COMPLEX = FLOATS + 1j * FLOATS[::-1]


def keys(**given):
    return given


# What each function is called with, beside what its row of the table says of it.
UNARY = {
    "acosh": [FLOATS + 2],
    "bitwise_invert": [INTEGERS, BOOLS],
    "logical_not": [BOOLS],
    "log log10 log1p log2 sqrt": [np.abs(FLOATS) + 0.1, COMPLEX],
    "reciprocal": [FLOATS[:1]],
    "conj imag real": [FLOATS, COMPLEX],
    "abs ceil floor negative positive round sign square trunc": [FLOATS, INTEGERS],
    "isfinite isinf isnan": [np.array([0.0, np.inf, np.nan]), INTEGERS],
}
BINARY = {
    "bitwise_and bitwise_or bitwise_xor": [(INTEGERS, INTEGERS[:1]), (BOOLS, BOOLS[::-1])],
    "bitwise_left_shift bitwise_right_shift": [(INTEGERS, INTEGERS[1:])],
    "logical_and logical_or logical_xor": [(BOOLS, BOOLS[::-1])],
    "pow": [(np.abs(FLOATS), MORE), (INTEGERS, 2), (FLOATS, 2.0)],
    "add subtract multiply divide equal": [(FLOATS, MORE), (COMPLEX, MORE), (INTEGERS, 2.5)],
    "floor_divide remainder": [(FLOATS, MORE), (INTEGERS, 3), (-INTEGERS, 4)],
}
CALLS = {
    "all any": [(BOOLS,), (BOOLS, keys(axis=1, keepdims=True)), (INTEGERS, keys(axis=(0, 1)))],
    "arange": [(3,), (1, 7, 2), (0.0, 1.0, 0.25), (5, keys(dtype=np.float32))],
    "argmax argmin": [(FLOATS,), (FLOATS, keys(axis=1)), (INTEGERS, keys(axis=0, keepdims=True))],
    "argsort sort": [(FLOATS,), (INTEGERS, keys(axis=0, stable=True))],
    "astype": [(FLOATS, np.dtype(np.int32)), (INTEGERS, np.dtype(np.float32), keys(copy=False))],
    "broadcast_arrays": [(FLOATS, MORE)],
    "broadcast_to": [(MORE, (2, 3))],
    "clip": [(FLOATS, 0.0, 0.6), (FLOATS, keys(max=0.2)), (INTEGERS, 2, 5)],
    "concat stack": [([FLOATS, FLOATS],), ([FLOATS, FLOATS], keys(axis=1))],
    "count_nonzero": [(INTEGERS,), (BOOLS, keys(axis=1))],
    "cumulative_prod cumulative_sum": [
        (FLOATS[0],),
        (INTEGERS, keys(axis=1, include_initial=True)),
        (INTEGERS, keys(axis=0, dtype=np.float32)),
    ],
    "diff": [(INTEGERS,), (FLOATS, keys(axis=0)), (FLOATS, keys(n=2, prepend=MORE.T[:2]))],
    "empty ones zeros": [((2, 3),), (4, keys(dtype=np.int32))],
    "empty_like ones_like zeros_like": [(FLOATS,), (INTEGERS, keys(dtype=np.float32))],
    "expand_dims": [(FLOATS, keys(axis=1)), (FLOATS, 0)],
    "eye": [(3,), (2, 3, keys(k=1, dtype=np.float32))],
    "flip": [(FLOATS,), (FLOATS, keys(axis=1))],
    "full": [((2, 2), 7), (3, 0.5), (2, True), (2, 3, keys(dtype=np.float32))],
    "full_like": [(FLOATS, 7), (INTEGERS, 2, keys(dtype=np.float64))],
    "linspace": [(0.0, 1.0, 5), (0, 1, 4, keys(endpoint=False))],
    "matmul": [(FLOATS, SQUARE), (STACK, SQUARE), (SQUARE, SQUARE[0])],
    "matrix_transpose": [(STACK,)],
    "max min": [(FLOATS,), (INTEGERS, keys(axis=1, keepdims=True))],
    "mean": [(FLOATS,), (FLOATS, keys(axis=0))],
    "meshgrid": [(FLOATS[0], MORE[0]), (FLOATS[0], MORE[0], keys(indexing="ij"))],
    "moveaxis": [(STACK, 0, 2)],
    "permute_dims": [(STACK, (2, 0, 1))],
    "prod sum": [(FLOATS,), (INTEGERS, keys(axis=0)), (np.uint8([200, 100]),)],
    "repeat": [(FLOATS, 2), (FLOATS, 2, keys(axis=1))],
    "reshape": [(FLOATS, (3, 2)), (FLOATS, (-1,), keys(copy=True))],
    "roll": [(FLOATS, 1), (FLOATS, 2, keys(axis=1))],
    "searchsorted": [(np.sort(MORE[0]), FLOATS[0]), (MORE[0], MORE[0], keys(side="right"))],
    "signbit": [(FLOATS,)],
    "squeeze": [(MORE, 0)],
    "std var": [(FLOATS,), (FLOATS, keys(axis=1, correction=1.0))],
    "take": [(FLOATS, np.array([1, 0]), keys(axis=1)), (MORE[0], np.array([2]))],
    "take_along_axis": [(FLOATS, np.array([[0], [2]]), keys(axis=1))],
    "tensordot": [(SQUARE, SQUARE), (STACK, SQUARE, keys(axes=1))],
    "tile": [(FLOATS, (2, 1))],
    "tril triu": [(SQUARE,), (STACK, keys(k=1))],
    "unstack": [(FLOATS,), (FLOATS, keys(axis=1))],
    "vecdot": [(FLOATS, MORE)],
    "where": [(BOOLS, FLOATS, MORE)],
    "linalg.cholesky": [(STACK,), (SQUARE, keys(upper=True))],
    "linalg.cross": [(FLOATS, MORE)],
    "linalg.det linalg.inv linalg.slogdet linalg.eigvalsh linalg.svdvals": [(STACK,)],
    "linalg.matrix_rank linalg.pinv linalg.eigh linalg.qr": [(SQUARE,)],
    "linalg.diagonal linalg.trace": [(STACK,), (STACK, keys(offset=1))],
    "linalg.matmul linalg.tensordot linalg.vecdot": [(SQUARE, SQUARE)],
    "linalg.matrix_norm": [(STACK,), (SQUARE, keys(ord=1, keepdims=True))],
    "linalg.matrix_power": [(SQUARE, 3)],
    "linalg.matrix_transpose": [(STACK,)],
    "linalg.outer": [(FLOATS[0], MORE[0])],
    "linalg.solve": [(SQUARE, SQUARE[0]), (STACK, SQUARE)],
    "linalg.svd": [(SQUARE, keys(full_matrices=False))],
    "linalg.vector_norm": [(FLOATS,), (FLOATS, keys(axis=1, ord=1))],
}
REFUSED = ("nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values")
UTILITIES = ("asarray", "can_cast", "finfo", "from_dlpack", "iinfo", "isdtype", "result_type")
NAMES = [name for name, *_ in table.rows()]
IN_LINALG = [f"linalg.{name}" for name, *_ in table.rows("linalg")]


def spread(groups):
    return {name: calls for names, calls in groups.items() for name in names.split()}


def calls():
    """(name, args, kwargs) of every function that has a counterpart in NumPy."""
    unary, binary, others = map(spread, (UNARY, BINARY, CALLS))
    for name in (*NAMES, *IN_LINALG):
        parameters = str(inspect.signature(of(xp, name)))
        if name in others:
            made = others[name]
        elif parameters == "(x, /)" and name not in REFUSED:
            made = [(x,) for x in unary.get(name, [FLOATS])]
        elif parameters == "(x1, x2, /)":
            made = binary.get(name, [(FLOATS, MORE)])
        else:
            continue
        for call in made:
            keywords = call[-1] if isinstance(call[-1], dict) else {}
            yield name, call[: len(call) - bool(keywords)], keywords


def of(room, name):
    for part in name.split("."):
        room = getattr(room, part)
    return room


def as_ours(value):
    if isinstance(value, list):
        return [as_ours(one) for one in value]
    return ab.asarray(value) if isinstance(value, np.ndarray) else value


def arrays(result):
    return list(result) if isinstance(result, tuple | list) else [result]


@pytest.mark.parametrize(
    ("name", "args", "kwargs"),
    [pytest.param(*call, id=f"{call[0]}-{n}") for n, call in enumerate(calls())],
)
def test_values_are_those_of_numpy(name, args, kwargs, noiseless):
    found = arrays(of(xp, name)(*map(as_ours, args), **kwargs))
    theirs = {"linalg.eigvalsh": np.linalg.eigvalsh}.get(name) or of(np, name)
    if name == "searchsorted":
        theirs = np.searchsorted
    wanted = arrays(theirs(*args, **kwargs))
    assert len(found) == len(wanted)
    for mine, its in zip(found, wanted, strict=True):
        assert type(mine) is ab.Tensor
        assert (mine.shape, mine.dtype) == (np.shape(its), np.asarray(its).dtype)
        if name in ("empty", "empty_like"):  # whose content does not matter
            continue
        np.testing.assert_allclose(mine.numpy(), its, rtol=1e-12, atol=1e-15)


def test_every_function_is_compared_or_refused_or_a_utility():
    compared = {name for name, *_ in calls()}
    assert {*NAMES, *IN_LINALG} == compared | {*REFUSED, *UTILITIES}


def test_the_namespace_holds_nothing_but_standard_names():
    constants = {"e", "inf", "nan", "pi", "newaxis", "linalg"}
    kinds = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64"
    wanted = {*NAMES, *constants, *kinds.split(), "complex128"}
    assert {name for name in vars(xp) if not name.startswith("_")} == wanted
    inside = {name for name in vars(xp.linalg) if not name.startswith("_")}
    assert {f"linalg.{name}" for name in inside} == {*IN_LINALG}


@pytest.mark.parametrize("name", [*NAMES, *IN_LINALG])
def test_every_function_says_what_it_is_and_takes_what_its_row_says(name):
    function = of(xp, name)
    row = {f"linalg.{n}": how for n, how, _ in table.rows("linalg")}
    row |= {n: how for n, how, _ in table.rows()}
    assert inspect.getdoc(function)
    assert str(inspect.signature(function)).replace("'", '"') == row[name]
    with pytest.raises(TypeError):
        function(no_such_argument=1)


@pytest.mark.parametrize("name", REFUSED)
def test_shapes_that_depend_on_values_are_refused_with_the_way_round(name):
    with pytest.raises(ab.ShapeError, match=r"(?s)dynamic-shape.*numpy\(\)"):
        getattr(xp, name)(ab.asarray([1, 0]))


def test_generic_code_runs_eagerly_differentiated_and_compiled():
    def norm(x):
        xp = x.__array_namespace__(api_version="2024.12")
        return xp.sqrt(xp.sum(xp.pow(x, 2.0)))

    x = np.array([3.0, 4.0])
    assert float(norm(ab.asarray(x))) == float(ab.compile(norm)(x)) == 5.0
    np.testing.assert_allclose(ab.grad(norm)(x), x / 5)
    np.testing.assert_allclose(ab.compile(ab.grad(norm))(x), x / 5)


def test_what_a_value_says_of_itself():
    x = ab.asarray(np.zeros((2, 3)))
    assert x.__array_namespace__() is xp
    assert (x.device, x.size, x.ndim, x.mT.shape) == ("cpu", 6, 2, (3, 2))
    assert x.to_device("cpu") is x
    for ask in (lambda: x.to_device("gpu"), lambda: xp.zeros(2, device="gpu")):
        with pytest.raises(ValueError, match="no-such-device"):
            ask()
    with pytest.raises(ab.ArgumentError, match="no-such-version"):
        x.__array_namespace__(api_version="1999.01")


def test_masks_that_are_known_select():
    x = ab.asarray([1.0, -2.0, 3.0])
    assert x[x > 0].numpy().tolist() == [1.0, 3.0]


def test_dtypes_and_their_kinds():
    assert xp.asarray([1, 2]).dtype is xp.int64
    assert xp.asarray([1, 2], dtype=xp.float32).dtype is xp.float32
    assert (xp.asarray(True).dtype, xp.asarray(1j).dtype) == (xp.bool, xp.complex128)
    assert xp.isdtype(xp.float32, xp.float32)
    assert not xp.isdtype(xp.uint8, "signed integer")
    assert xp.isdtype(ml_dtypes.bfloat16, "real floating")
    assert xp.isdtype(xp.complex64, ("bool", "numeric"))
    with pytest.raises(ab.ArgumentError, match="no kind"):
        xp.isdtype(xp.int8, "number")
    for one, other in itertools.product(xp.__array_namespace_info__().dtypes().values(), repeat=2):
        assert xp.result_type(one, other) == np.result_type(one, other)
        assert xp.can_cast(one, other) == np.can_cast(one, other)
    assert xp.result_type(xp.float32, 1.0) == xp.float32
    assert xp.result_type(ab.asarray([1], dtype=xp.int8), 1.0) == xp.float64


def test_limits_are_plain_numbers():
    for dtype in (xp.float32, xp.float64, np.float16, xp.complex64):
        mine, its = xp.finfo(dtype), np.finfo(dtype)
        for name in ("bits", "eps", "max", "min", "smallest_normal", "dtype"):
            assert getattr(mine, name) == getattr(its, name)
        assert type(mine.eps) is float
    assert xp.finfo(ml_dtypes.bfloat16).eps == 2.0**-7
    assert xp.iinfo(xp.uint8).max == xp.iinfo(ab.asarray([1], dtype=xp.uint8)).max == 255
    for ask, dtype in ((xp.finfo, xp.int8), (xp.iinfo, xp.float32)):
        with pytest.raises(ab.DTypeError, match="unsupported-dtype"):
            ask(dtype)


def test_what_the_namespace_says_of_itself():
    info = xp.__array_namespace_info__()
    assert info.capabilities()["data-dependent shapes"] is False
    assert info.devices() == [info.default_device()] == ["cpu"]
    assert info.default_dtypes()["integral"] == xp.asarray(1).dtype
    assert set(info.dtypes(kind="real floating")) == {"float32", "float64"}
    assert set(info.dtypes(kind=("bool", "unsigned integer"))) >= {"bool", "uint8"}


# Memory that others have too


def test_a_value_leaves_without_a_copy_and_read_only():
    x = ab.asarray(np.arange(6.0).reshape(2, 3))
    out = np.from_dlpack(x)
    assert np.shares_memory(out, x.data)
    assert not out.flags.writeable
    assert x.__dlpack_device__() == (1, 0)


def test_a_copy_leaves_where_it_is_asked_for_or_the_other_side_is_old():
    x = ab.asarray(np.arange(3.0))
    assert not np.shares_memory(np.from_dlpack(x, copy=True), x.data)

    class Old:
        def __dlpack__(self, **_):
            return x.__dlpack__()

        def __dlpack_device__(self):
            return x.__dlpack_device__()

    out = np.from_dlpack(Old())
    assert not np.shares_memory(out, x.data)


def test_a_number_and_nothing_leave_too():
    assert float(np.from_dlpack(ab.asarray(2.5))) == 2.5
    assert np.from_dlpack(xp.zeros((0, 2))).shape == (0, 2)


def test_a_history_does_not_leave():
    with pytest.raises(ab.TraceError, match="recorded-value"):
        np.from_dlpack(ab.tensor([1.0], requires_grad=True))
    with pytest.raises(ab.ExchangeError, match="no-such-device"):
        ab.asarray([1.0]).__dlpack__(dl_device=(2, 0))


def test_a_change_by_others_is_noticed_before_a_gradient_is_wrong():
    w = ab.tensor([2.0, 3.0], requires_grad=True)
    shared = np.array([5.0, 7.0])
    x = xp.from_dlpack(shared, copy=False)
    y = (w * x).sum()
    shared[0] = 100.0
    with pytest.raises(ab.StaleValueError, match="stale-residual"):
        y.backward()


def test_a_change_after_it_left_is_noticed():
    w = ab.tensor([2.0, 3.0], requires_grad=True)
    x = ab.asarray(np.array([5.0, 7.0]))
    y = (w * x).sum()
    out = np.from_dlpack(x)
    x.data[0] = 100.0
    assert out[0] == 100.0
    with pytest.raises(ab.StaleValueError, match="stale-residual"):
        y.backward()


def test_what_comes_in_is_copied_unless_it_is_asked_for():
    theirs = np.array([1.0, 2.0])
    copied, shared = xp.from_dlpack(theirs), xp.from_dlpack(theirs, copy=False)
    also = xp.asarray(theirs, copy=False)
    theirs[0] = 9.0
    assert copied.numpy().tolist() == [1.0, 2.0]
    assert shared.numpy().tolist() == also.numpy().tolist() == [9.0, 2.0]


@pytest.mark.parametrize(
    "ask",
    [
        lambda: xp.asarray([1.0], copy=False),
        lambda: xp.asarray(np.ones((2, 3)).T, copy=False),
        lambda: xp.asarray(np.ones(2), dtype=xp.float32, copy=False),
        lambda: xp.asarray(ab.asarray([1.0]), dtype=xp.float32, copy=False),
        lambda: xp.from_dlpack(np.ones((2, 3)).T, copy=False),
    ],
)
def test_what_needs_a_copy_is_refused_where_none_may_be_made(ask):
    with pytest.raises(ValueError, match="needs-a-copy"):
        ask()


def test_tensors_keep_their_history_on_the_way_in():
    w = ab.tensor([1.0, 2.0], requires_grad=True)
    assert xp.asarray(w) is w
    for made in (xp.asarray(w, copy=True), xp.asarray(w, dtype=xp.float32)):
        w.grad = None
        made.sum().backward()
        assert w.grad.tolist() == [1.0, 1.0]


def test_memory_outlives_its_tensor():
    out = np.from_dlpack(ab.asarray(np.arange(3.0)))
    gc.collect()
    assert out.tolist() == [0.0, 1.0, 2.0]
