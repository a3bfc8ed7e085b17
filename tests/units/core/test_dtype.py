"""Dtypes: promotion as NumPy 2 does it, with Python numbers weak."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import anabranch as ab
from anabranch.core.dtype import checked, is_floating, promote, short_name

STRONG = [
    np.dtype(t)
    for t in (
        np.bool_, np.int8, np.int32, np.int64, np.uint8, np.uint64,
        np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.complex64, np.complex128,
    )
]  # fmt: skip
WEAK = {bool: True, int: 1, float: 1.0, complex: 1j}


def weak(kind: type) -> tuple[np.dtype, bool]:
    return ab.core.aval.aval_of(WEAK[kind]).dtype, True


@pytest.mark.parametrize(("a", "b"), list(itertools.product(STRONG, STRONG)), ids=str)
def test_two_arrays_promote_as_numpy_adds_them(a: np.dtype, b: np.dtype) -> None:
    wanted = (np.ones(1, a) + np.ones(1, b)).dtype
    assert promote([(a, False), (b, False)]) == (wanted, False)


@pytest.mark.parametrize("kind", WEAK, ids=lambda k: k.__name__)
@pytest.mark.parametrize("dtype", STRONG, ids=str)
def test_a_number_meets_an_array_as_numpy_has_it(dtype: np.dtype, kind: type) -> None:
    wanted = (np.ones(1, dtype) + WEAK[kind]).dtype
    if (dtype, kind) == (ml_dtypes.bfloat16, float):  # which NumPy widens to float32
        wanted = dtype
    assert promote([(dtype, False), weak(kind)]) == (wanted, False)
    assert promote([weak(kind), (dtype, False)]) == (wanted, False)


def test_a_float_keeps_narrow_floats_narrow() -> None:
    for dtype in (np.float16, ml_dtypes.bfloat16, np.float32, np.complex64):
        assert promote([(np.dtype(dtype), False), weak(float)]) == (np.dtype(dtype), False)


@pytest.mark.parametrize(("a", "b"), list(itertools.product(WEAK, WEAK)))
def test_numbers_alone_stay_weak_and_the_wider_kind_wins(a: type, b: type) -> None:
    dtype, is_weak = promote([weak(a), weak(b)])
    assert is_weak
    assert dtype == np.result_type(type(WEAK[a] + WEAK[b]) if a is not b else a)


def test_three_operands_promote_together() -> None:
    f32, i64 = np.dtype(np.float32), np.dtype(np.int64)
    assert promote([(f32, False), weak(int), weak(float)]) == (f32, False)
    assert promote([(f32, False), (i64, False), weak(int)]) == (np.dtype(np.float64), False)


@pytest.mark.parametrize(
    ("dtype", "name"),
    [(np.float64, "f64"), (ml_dtypes.bfloat16, "bf16"), (np.int32, "i32"), (np.bool_, "bool")],
)
def test_short_names(dtype: type, name: str) -> None:
    assert short_name(np.dtype(dtype)) == name


def test_only_floats_have_tangents() -> None:
    assert [d.name for d in STRONG if is_floating(d)] == [
        "float16", "bfloat16", "float32", "float64",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("dtype", "name"),
    [("O", "object"), ("U3", "strings"), ("M8[s]", "dates"), ("i4,f4", "void"), ("g", "float128")],
)
def test_foreign_dtypes_are_refused_by_name(dtype: str, name: str) -> None:
    with pytest.raises(ab.errors.DTypeError, match="unsupported-dtype") as caught:
        checked(np.dtype(dtype))
    assert name in caught.value.sentence


def test_the_other_byte_order_is_named_and_not_called_a_lack_of_tangents() -> None:
    x = np.ones(3).astype(np.dtype(float).newbyteorder())
    for run in (ab.tensor, ab.compile(lambda x: x * 2.0), ab.grad(lambda x: ab.sum(x))):
        with pytest.raises(
            ab.errors.DTypeError, match="float64 values of the other byte"
        ) as caught:
            run(x)
        assert (caught.value.code, caught.value.hint) == ("unsupported-dtype", 'astype("float64")')
