"""`config(nonfinite="raise")`: the first op that leaves the finite numbers, and only that."""

import threading

import numpy as np
import pytest

import anabranch as ab
from anabranch.core.bind import state

inf, nan = np.inf, np.nan

FAULTS = {
    "log of zero": (lambda x: ab.log(x), [1.0, 0.0], "pole", (1,)),
    "division by zero": (lambda x: 1.0 / x, [1.0, 0.0], "pole", (1,)),
    "has no value": (lambda x: ab.sqrt(x), [4.0, -1.0], "domain", (1,)),
    "than float64 holds above 709.8": (lambda x: ab.exp(x), [0.0, 812.3], "overflow", (1,)),
    "0 / 0": (lambda x: x / x, [1.0, 0.0], "0/0", (1,)),
    "came in with the data": (lambda x: x + 1.0, [1.0, nan], "data", (1,)),
    "the sums in sum": (lambda x: ab.sum(x), [1.5e308, 1.5e308], "overflow", ()),
}


def caught(run):
    with ab.config(nonfinite="raise"), pytest.raises(ab.NonFiniteError) as error:
        run()
    assert error.value.code == "non-finite"
    assert isinstance(error.value, FloatingPointError)
    assert isinstance(error.value, ArithmeticError)
    return error.value


@pytest.mark.parametrize("words", FAULTS)
@pytest.mark.parametrize("kind", ["tensor", "recorded", "array", "compiled", "by hand"])
def test_the_first_bad_op_raises_with_its_cause(words, kind):
    f, values, cause, index = FAULTS[words]
    x = np.array(values)
    if kind == "array" and words in ("division by zero", "0 / 0", "came in with the data"):
        return  # NumPy's own operators on NumPy's own arrays

    def run():
        if kind == "compiled":
            return ab.compile(f)(x)
        if kind == "by hand":
            g = ab.Graph("by hand")
            return g.compile(f(g.parameter("x", x.shape, x.dtype)))(x)
        return f(x if kind == "array" else ab.tensor(x, requires_grad=kind == "recorded"))

    error = caught(run)
    assert words in str(error)
    assert (error.details["cause"], error.details["index"]) == (cause, index)
    assert error.details["phase"] == "forward"
    assert "test_guard.py" in str(error)


def test_operands_are_named_with_their_range():
    x = ab.tensor([1.0, 0.0, -3.0], name="x")
    error = caught(lambda: ab.log(x))
    assert "first at [1]: log(0) = -inf" in str(error)
    assert "x[1] = 0   from -3 to 1" in str(error)
    assert error.details["operands"] == (0.0,)


def test_a_carrier_is_never_blamed():
    big = ab.tensor([1e308])
    with ab.config(nonfinite="propagate"), np.errstate(all="ignore"):
        over = big * 10.0
    with ab.config(nonfinite="raise"):
        assert np.isinf((over * 2.0).data).all()
    assert caught(lambda: over - over).details["cause"] == "inf-inf"


def test_infinities_that_the_program_writes_are_its_own_affair():
    x = ab.tensor([1.0, 2.0], requires_grad=True)
    with ab.config(nonfinite="raise"):
        masked = ab.where(np.array([True, False]), x, -inf)
        assert ab.softmax(masked).data.tolist() == [1.0, 0.0]
        assert ab.exp(x + np.array([0.0, -inf])).data[1] == 0.0


@pytest.mark.parametrize(
    "take",
    [
        lambda f: f(ab.tensor([0.0, 4.0], requires_grad=True)).backward(),
        lambda f: f(ab.tensor([0.0, 4.0], requires_grad=True)).backward_fresh(),
        lambda f: ab.grad(f)(np.array([0.0, 4.0])),
        lambda f: ab.value_and_grad(f)(ab.tensor([0.0, 4.0])),
        lambda f: ab.compile(ab.grad(f))(np.array([0.0, 4.0])),
        lambda f: ab.grad(lambda x: ab.sum(ab.grad(f)(x)))(np.array([0.0, 4.0])),
    ],
)
def test_backward_stops_where_it_leaves_the_finite_numbers(take):
    error = caught(lambda: take(lambda x: ab.sum(ab.sqrt(x))))
    assert error.details["phase"] == "backward"
    assert "sqrt" in str(error)
    assert error.details["index"] in ((0,), ())


def test_recorded_gradients_stop_too():
    x = ab.tensor([0.0, 4.0], requires_grad=True)
    y = ab.sum(ab.sqrt(x))
    for record in (False, True):
        assert "sqrt" in str(caught(lambda r=record: ab.gradients(y, [x], record=r)))


def test_a_product_that_overflows_on_the_way_back_is_told():
    def f(x):
        return ab.sin(x * 1e200) * 1e200

    error = caught(lambda: ab.grad(f)(0.0))
    assert error.details["cause"] == "overflow"
    assert "upstream × local derivative = 1e+200 × 1e+200" in str(error)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_slope_that_meets_a_zero_is_no_fault(compiled):
    def f(x):
        return ab.sum(ab.where(x > 0.0, ab.sqrt(x), 0.0))

    gradient = ab.compile(ab.grad(f)) if compiled else ab.grad(f)
    with ab.config(nonfinite="raise"):
        assert gradient(np.array([0.0, 4.0])).tolist() == [0.0, 0.25]
        assert ab.jvp(f, (np.array([0.0, 4.0]),), (np.array([0.0, 1.0]),))[1] == 0.25


@pytest.mark.parametrize("record", [False, True])
def test_a_slope_that_is_an_op_of_its_own_is_no_fault_either(record):
    x = ab.tensor([0.0, 4.0], requires_grad=True)
    with ab.config(nonfinite="raise"):
        y = ab.sum(ab.where(x > 0.0, x**0.5, 0.0))
        assert ab.gradients(y, [x], record=record)[0].data.tolist() == [0.0, 0.25]
        y.backward()
    assert x.grad.tolist() == [0.0, 0.25]


def test_whatever_the_backend_the_first_bad_op_raises():
    f = ab.compile(lambda x: ab.log(x), backend="native")
    x = np.array([1.0, 0.0])
    with np.errstate(all="ignore"):
        assert f(x).tolist() == [0.0, -inf]
    assert caught(lambda: f(x)).details["cause"] == "pole"


def test_an_observer_still_hears_everything():
    heard = []
    x = ab.tensor(2.0, requires_grad=True)
    with ab.config(nonfinite="raise"):
        (x * x).backward(observer=lambda node, slot, part: heard.append((slot, float(part))))
    assert heard == [(0, 2.0), (1, 2.0)]


def test_tracing_has_nothing_to_look_at_but_running_has():
    with ab.config(nonfinite="raise"):
        f = ab.compile(lambda x: ab.log(x - 1.0))
        assert f(np.array([2.0])) == [0.0]
        with pytest.raises(ab.NonFiniteError):
            f(np.array([1.0]))
    with np.errstate(all="ignore"):
        assert f(np.array([1.0])) == [-inf]
    assert "1: first call" in f.explain_compiles()
    assert "2:" not in f.explain_compiles()


def test_the_option_holds_for_its_block_and_thread_only():
    seen = []

    def elsewhere():
        with np.errstate(all="ignore"):
            seen.append(ab.log(ab.tensor(0.0)).item())

    with ab.config(nonfinite="raise"):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        with ab.config(nonfinite="propagate"), np.errstate(all="ignore"):
            assert ab.log(ab.tensor(0.0)).item() == -inf
        with ab.config(absorb_zero=False), pytest.raises(ab.NonFiniteError):
            ab.log(ab.tensor(0.0))
    assert seen == [-inf]
    assert (state.door, state.guard) == (None, None)


def test_a_wrong_choice_is_refused():
    with (
        pytest.raises(ab.ArgumentError, match="'propagate' or 'raise'"),
        ab.config(nonfinite="warn"),
    ):
        pass


@pytest.mark.parametrize("dtype", [ab.float16, ab.bfloat16, ab.float32, ab.float64])
def test_every_dtype_has_its_own_limit(dtype):
    largest = np.array(3e38 if dtype != ab.float16 else 6e4).astype(dtype)
    error = caught(lambda: ab.tensor(largest) * (2.0 if dtype != ab.float64 else 1e300))
    assert error.details["cause"] == "overflow"
    assert f"larger than {np.dtype(dtype).name} holds" in str(error)
