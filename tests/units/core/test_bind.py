"""The one door: what may be an operand, options, and threads."""

import operator
import threading

import numpy as np
import pytest

import anabranch as ab
from anabranch.core.config import options


@pytest.mark.parametrize("other", ["a", b"a", None, {}, object(), lambda: 1])
@pytest.mark.parametrize("requires_grad", [True, False])
def test_what_is_no_operand_is_refused(other: object, requires_grad: bool) -> None:
    x = ab.tensor([1.0, 2.0], requires_grad=requires_grad)
    g = ab.Graph("demo")
    for value in (x, g.parameter("x", (2,), ab.float64)):
        for use in (lambda v: v * other, lambda v: other * v, lambda v: ab.add(v, other)):
            with pytest.raises(TypeError):
                use(value)


@pytest.mark.parametrize("requires_grad", [True, False])
def test_a_list_is_refused_with_a_hint(requires_grad: bool) -> None:
    x = ab.tensor([1.0, 2.0], requires_grad=requires_grad)
    with pytest.raises(ab.errors.ArgumentError, match="bad-operand") as caught:
        ab.add(x, [1.0, 2.0])
    with pytest.raises(ab.errors.ArgumentError, match="bad-operand"):
        operator.mul(x, [1.0, 2.0])
    assert caught.value.hint == "ab.tensor(...) makes a tensor of it"


@pytest.mark.parametrize("requires_grad", [True, False])
@pytest.mark.parametrize("other", [None, "a", object()])
def test_nothing_foreign_equals_a_value(requires_grad: bool, other: object) -> None:
    x = ab.tensor(2.0, requires_grad=requires_grad)
    assert (x == other) is False
    assert (x != other) is True


@pytest.mark.parametrize(
    "array",
    [np.array([1, 2], object), np.array(["a", "b"]), np.array(["2020"] * 2, "M8[Y]")],
    ids=lambda a: a.dtype.name,
)
@pytest.mark.parametrize("requires_grad", [True, False])
def test_arrays_of_foreign_dtypes_are_refused(array: np.ndarray, requires_grad: bool) -> None:
    x = ab.tensor([1.0, 2.0], requires_grad=requires_grad)
    g = ab.Graph("demo")
    for value in (x, g.parameter("x", (2,), ab.float64)):
        with pytest.raises(ab.errors.DTypeError, match="unsupported-dtype"):
            value * array


@pytest.mark.parametrize("requires_grad", [True, False])
def test_a_masked_array_is_no_operand_whose_mask_gets_lost(requires_grad: bool) -> None:
    x = ab.tensor([1.0, 2.0], requires_grad=requires_grad)
    with pytest.raises(ab.AnabranchError):
        x + np.ma.array([1.0, 2.0], mask=[False, True])


class Array(np.ndarray):
    """A subclass with an idea of its own of what a product is."""

    def __mul__(self, other):
        return "not a product"

    __rmul__ = __mul__


@pytest.mark.parametrize("requires_grad", [True, False])
def test_a_subclass_of_ndarray_counts_as_the_array_it_is(requires_grad: bool) -> None:
    x = ab.tensor([1.0, 2.0], requires_grad=requires_grad)
    y = x * np.array([3.0, 4.0]).view(Array)
    assert type(y.data) is np.ndarray
    assert y.data.tolist() == [3.0, 8.0]


def test_plain_arrays_give_plain_arrays() -> None:
    out = ab.exp(np.zeros(2))
    assert type(out) is np.ndarray
    assert isinstance(ab.add(1.0, 2.0), np.float64)


def test_options_return_to_what_they_were_also_after_an_error() -> None:
    before = options()
    with pytest.raises(ZeroDivisionError), ab.config(absorb_zero=False):
        assert not options().absorb_zero
        with ab.config(full_traceback=True):
            assert (options().absorb_zero, options().full_traceback) == (False, True)
        raise ZeroDivisionError
    assert options() is before


def test_an_unknown_option_is_refused_and_nothing_changes() -> None:
    before = options()
    with pytest.raises(ab.errors.ArgumentError, match="unknown-option") as caught:
        ab.config(absorb_zero=False, absorb_zeros=True).__enter__()
    assert "absorb_zero" in caught.value.sentence
    assert options() is before


def test_options_and_no_grad_belong_to_a_thread() -> None:
    seen = []

    def look() -> None:
        x = ab.tensor(1.0, requires_grad=True)
        seen.append((options().absorb_zero, (x * x).requires_grad))

    with ab.config(absorb_zero=False), ab.no_grad():
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert seen == [(True, True)]
