"""`ab.config(domain=...)`: what becomes of operands outside of an op's domain."""

import math
import threading
import warnings

import numpy as np
import pytest

import anabranch as ab
from anabranch.core.registry import registered_ops
from anabranch.testing import temporary_ops
from anabranch.testing.cases import (
    cases,
    cotangents,
    floating,
    function,
    pulled,
    reference,
    tangents,
)

nan, inf = math.nan, math.inf
WATCHED = [op for op in registered_ops() if op.outside is not None]
VIOLATIONS = {
    "log of zero": (ab.log, (0.0,), "log needs x > 0, got log(0.0)"),
    "log below zero": (ab.log, (-2.0,), "log needs x > 0, got log(-2.0)"),
    "a root": (ab.sqrt, (-1.0,), "sqrt needs x >= 0, got sqrt(-1.0)"),
    "a quotient": (ab.divide, (3.0, 0.0), "divide needs y != 0, got divide(3.0, 0.0)"),
    "minus zero": (ab.divide, (3.0, -0.0), "divide needs y != 0, got divide(3.0, -0.0)"),
    "a whole power": (lambda x: ab.power(x, -2), (0.0,), "got integer_power(0.0, n=-2)"),
    "a real power": (ab.power, (-2.0, 0.5), "got power(-2.0, 0.5)"),
    "a power of zero": (ab.power, (0.0, -0.5), "got power(0.0, -0.5)"),
}
HARMLESS = [
    (ab.log, (nan,)),
    (ab.log, (inf,)),
    (ab.log, (5e-324,)),
    (ab.sqrt, (0.0,)),
    (ab.sqrt, (-0.0,)),
    (ab.sqrt, (nan,)),
    (ab.divide, (0.0, inf)),
    (ab.divide, (nan, 5e-324)),
    (ab.power, (0.0, 0.0)),
    (ab.power, (0.0, 2.5)),
    (ab.power, (-2.0, 3.0)),
    (ab.power, (-2.0, -inf)),
    (ab.power, (nan, 0.5)),
    (ab.power, (-2.0, nan)),
    (ab.xlogy, (0.0, 0.0)),
    (ab.xlogy, (0.0, -1.0)),
    (ab.xlog1py, (0.0, -1.0)),
    (lambda x, y: ab.grad(lambda v: ab.sum(ab.xlogy(x, v)))(y), (0.0, 0.0)),
    (lambda a, b: ab.grad(lambda v: ab.sum(ab.power(v, b)))(a), (0.0, 0.0)),
    (lambda a, b: ab.grad(lambda v: ab.sum(ab.power(a, v)))(b), (0.0, 2.5)),
    (lambda x: x**-2, (nan,)),
    (lambda x: x**3, (0.0,)),
]


def arrays(xs):
    return [np.array([1.0, x]) for x in xs]


def by_hand(f, *xs):
    g = ab.Graph("by hand")
    nodes = [g.parameter(f"x{i}", x.shape, x.dtype) for i, x in enumerate(xs)]
    return g.compile(f(*nodes))(*xs)


RUNS = {
    "arrays": lambda f, *xs: f(*xs),
    "tensors": lambda f, *xs: f(*(ab.tensor(x, requires_grad=True) for x in xs)).numpy(),
    "compiled": lambda f, *xs: ab.compile(f)(*xs),
    "as built": lambda f, *xs: ab.compile(f, passes=())(*xs),
    "native": lambda f, *xs: ab.compile(f, backend="native")(*xs),
    "by hand": by_hand,
    "in a transform": lambda f, *xs: ab.vjp(f, *xs)[0],
    "forward": lambda f, *xs: ab.jvp(f, xs, xs)[0],
}


@pytest.mark.proves("S1-43")
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("name", VIOLATIONS)
def test_raise_names_op_place_and_operands_however_it_is_run(name, run):
    f, xs, words = VIOLATIONS[name]
    with ab.config(domain="raise"), pytest.raises(ab.DomainError) as caught:
        RUNS[run](f, *arrays(xs))
    error = caught.value
    assert (error.code, isinstance(error, ValueError)) == ("outside-domain", True)
    assert error.sentence.endswith(f"{words} at [1]") or f"{words} at [1]" in error.sentence
    assert error.details["index"] == (1,)
    assert error.details["operands"][0] == xs[0]
    assert error.source.file == __file__


@pytest.mark.proves("S1-43")
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("name", VIOLATIONS)
def test_propagate_gives_what_numpy_gives(noiseless, name, run):
    f, xs, _ = VIOLATIONS[name]
    found = RUNS[run](f, *arrays(xs))
    plain = {"log": np.log, "root": np.sqrt, "quotient": np.divide, "minus": np.divide}
    key = next((k for k in plain if k in name), None)
    wanted = np.power(np.array([1.0, xs[0]]), xs[1] if len(xs) > 1 else -2.0)
    wanted = wanted if key is None else plain[key](*arrays(xs))
    assert found[1:].tobytes() == wanted[1:].tobytes() or np.isnan([found[1], wanted[1]]).all()


@pytest.mark.slow
@pytest.mark.parametrize("run", [name for name in RUNS if name != "forward"])
def test_what_lies_inside_is_never_told(noiseless, run):
    with ab.config(domain="raise"):
        for f, xs in HARMLESS:
            RUNS[run](f, *arrays(xs))


@pytest.mark.parametrize("op", WATCHED, ids=lambda op: op.name)
def test_every_domain_agrees_with_the_samples_of_its_op(op):
    """Outside of it a value is infinite or NaN; and what is drawn to be smooth lies inside."""
    seen = set()
    for case in cases(op):
        values = reference(case)[0]
        with np.errstate(all="ignore"):
            is_outside = np.broadcast_to(op.outside[1](*case.values, **case.attrs), values.shape)
        seen.update(np.unique(is_outside).tolist())
        assert not np.isfinite(values[is_outside]).any(), case
        assert not (case.sample.is_drawn and is_outside.any()), case
    assert seen == {False, True}


def of_tensor(f, x):
    return f(ab.tensor(x, requires_grad=True))


@pytest.mark.parametrize("op", registered_ops(), ids=lambda op: op.name)
def test_no_rule_leaves_a_domain_where_its_op_is_smooth(op):
    """Not in a branch that it does not take either, in both modes."""
    with ab.config(domain="raise"), np.errstate(all="ignore"):
        for case in cases(op, draws=1, kinks=False):
            if not case.smooth or not floating(reference(case)):
                continue
            pulled(case, case.smooth, cotangents(case, case.rng()))
            primals = tuple(case.values[slot] for slot in case.smooth)
            ts = tuple(t[()] for t in tangents(case, case.smooth, case.rng()))
            ab.jvp(function(case, case.smooth), primals, ts)


SLOPES = {
    "grad": lambda f, x: ab.grad(f)(x),
    "jvp": lambda f, x: ab.jvp(f, (x,), (1.0,)),
    "backward": lambda f, x: f(ab.tensor(x, requires_grad=True)).backward(),
    "gradients": lambda f, x: of_tensor(lambda t: ab.gradients(f(t), [t]), x),
    "tangents": lambda f, x: of_tensor(lambda t: ab.tangents([f(t)], [t], [1.0]), x),
    "hessian": lambda f, x: ab.hessian(lambda v: ab.sum(f(v[0])))(np.array([x])),
    "compiled": lambda f, x: ab.compile(ab.grad(f))(x),
    "native": lambda f, x: ab.compile(ab.grad(f), backend="native")(x),
    "compiled jvp": lambda f, x: ab.compile(lambda x: ab.jvp(f, (x,), (1.0,))[1])(x),
    "of compiled": lambda f, x: ab.grad(ab.compile(f))(x),
}


@pytest.mark.proves("S1-43")
@pytest.mark.parametrize("slope", SLOPES)
def test_a_derivative_that_does_not_exist_is_told_at_the_line_of_its_op(slope):
    def f(x):
        return ab.sqrt(x)  # the line that is named

    with ab.config(domain="raise"):
        f(np.float64(0.0))  # the root itself exists
        with pytest.raises(ab.DomainError, match=r"divide.*in the derivative of sqrt") as caught:
            SLOPES[slope](f, 0.0)
    assert "the line that is named" in caught.value.source.text
    with np.errstate(all="ignore"):
        SLOPES[slope](f, 0.0)


@pytest.mark.parametrize("slope", SLOPES)
def test_a_derivative_that_exists_is_none_of_its_business(slope):
    functions = [
        lambda x: ab.power(x, 2.5),
        lambda x: x**2,
        lambda x: ab.sum(ab.where(x > 1.0, ab.log(ab.where(x > 1.0, x, 1.0)), 0.0)),
        lambda x: ab.logsumexp(ab.reshape(x, (1,))),
        lambda x: ab.sum(ab.softmax(ab.reshape(x, (1,)))),
        lambda x: ab.max(ab.reshape(x, (1,))),
        ab.sigmoid,
        ab.absolute,
    ]
    with ab.config(domain="raise"):
        for f in functions:
            SLOPES[slope](f, 0.0)
        assert float(ab.grad(lambda b: ab.power(0.0, b))(2.0)) == 0.0


def test_observers_of_a_watched_pass_see_arrays():
    seen = []
    with ab.config(domain="raise"):
        x = ab.tensor(3.0, requires_grad=True)
        ab.log(x * x).backward(observer=lambda node, slot, part: seen.append(part))
    assert [type(part) for part in seen] == [np.float64] * 3
    assert type(x.grad) is np.ndarray
    assert float(x.grad) == pytest.approx(2 / 3)


@pytest.mark.parametrize("slope", SLOPES)
def test_a_watched_derivative_is_the_same_to_the_bit(slope):
    def bits(result):
        leaves = result if isinstance(result, list | tuple) else [result]
        return [
            np.asarray(getattr(one, "value", one)).tobytes() for one in leaves if one is not None
        ]

    f = lambda x: ab.log(x) / x + x**-2 * ab.sqrt(x)  # noqa: E731
    plain = SLOPES[slope](f, 1.7)
    with ab.config(domain="raise"):
        watched = SLOPES[slope](f, 1.7)
    if slope == "backward":
        plain, watched = plain[0].grad, watched[0].grad
    assert bits(plain) == bits(watched)


def told(function, *args):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        function(*args)
    return found


@pytest.mark.proves("S1-43")
def test_warn_says_the_same_words_once_for_a_line():
    x = np.array([1.0, -1.0])

    def program():
        with ab.config(domain="warn"):
            for _ in range(3):
                ab.log(ab.tensor(x))
            ab.log(x) + ab.log(x)
            ab.compile(lambda x: ab.log(x))(x)

    found = told(program)
    assert [w.category for w in found] == [RuntimeWarning] * 3
    lines = [w.lineno for w in found]
    assert lines == [lines[0], lines[0] + 1, lines[0] + 2]
    assert {w.filename for w in found} == {__file__}
    with ab.config(domain="raise"), pytest.raises(ab.DomainError) as caught:
        ab.log(ab.tensor(x))
    sentence = f"[outside-domain] {caught.value.sentence}"
    assert all(str(w.message).startswith(sentence) for w in found)
    assert len(told(program)) == 3  # a new block tells again


def test_warn_tells_of_derivatives_and_gives_their_values():
    with ab.config(domain="warn"), pytest.warns(RuntimeWarning, match="derivative of sqrt"):
        assert float(ab.grad(ab.sqrt)(0.0)) == inf
    with ab.config(domain="warn"), pytest.warns(RuntimeWarning, match="derivative of sqrt"):
        assert float(ab.compile(ab.grad(ab.sqrt))(0.0)) == inf
    with ab.config(domain="warn"), pytest.warns(RuntimeWarning, match=r"log\(0.0\)"):
        assert float(ab.log(np.float64(0.0))) == -inf


def test_propagate_leaves_the_users_setting_in_force():
    with ab.config(domain="propagate"):
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
            ab.log(np.zeros(2))
        with np.errstate(divide="warn"), pytest.warns(RuntimeWarning, match="encountered in log"):
            ab.log(np.zeros(2))


def test_nobody_looks_unless_a_block_asks():
    looked = []
    with temporary_ops():
        op = ab.elementwise(
            "watched root",
            np.sqrt,
            partials=(lambda y, x: 0.5 / y,),
            outside=("x >= 0", lambda x: looked.append(x) or x < 0),
            doc="A root.",
        )
        run = ab.compile(lambda x: op(x))
        for policy, count in (("propagate", 0), ("raise", 4)):
            with ab.config(domain=policy):
                op(np.ones(2)), op(ab.tensor(1.0)), run(np.ones(2)), ab.grad(op)(1.0)
            assert len(looked) == count, policy
        op(np.ones(2)), run(np.ones(2))
        assert len(looked) == 4


def test_a_block_holds_for_its_own_thread():
    found = []

    def elsewhere():
        with np.errstate(all="ignore"):
            found.append(ab.log(np.float64(0.0)))

    with ab.config(domain="raise"):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert found == [-inf]


def test_blocks_nest_and_end_with_errors():
    zero = np.float64(0.0)
    with np.errstate(all="ignore"):
        with pytest.raises(ab.DomainError), ab.config(domain="raise"):
            with ab.config(domain="propagate"):
                assert ab.log(zero) == -inf
            ab.log(zero)
        assert ab.log(zero) == -inf
        with ab.config(domain="raise"), ab.config(absorb_zero=False), pytest.raises(ab.DomainError):
            ab.log(zero)


def test_a_policy_that_does_not_exist_is_refused():
    with pytest.raises(ab.ArgumentError) as caught, ab.config(domain="loud"):
        pass
    assert caught.value.code == "bad-argument"
    assert "'propagate' or 'warn' or 'raise', not 'loud'" in caught.value.sentence


def test_complex_numbers_have_other_domains():
    with ab.config(domain="raise"):
        assert complex(ab.sqrt(np.complex128(-1.0))) == 1j


def test_a_place_is_one_of_the_result():
    with ab.config(domain="raise"), pytest.raises(ab.DomainError) as caught:
        ab.divide(np.ones((2, 1)), np.array([1.0, 0.0, 0.0]))
    assert (caught.value.details["index"], caught.value.details["count"]) == ((0, 1), 4)


def test_integers_are_watched_too():
    with ab.config(domain="raise"):
        for dtype in (np.int64, np.int32, np.uint8):
            with pytest.raises(ab.DomainError, match=r"divide\(1, 0\) at \[0\]"):
                ab.divide(np.ones(1, dtype), np.zeros(1, dtype))
