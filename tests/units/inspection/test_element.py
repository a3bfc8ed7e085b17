"""One element of a value, and a value on its way forward."""

import math

import numpy as np
import pytest

import anabranch as ab
from anabranch.inspection import reader

pytestmark = pytest.mark.usefixtures("noiseless")


def rectified(w, b):
    z = w * 2.0 + b
    h = ab.relu(z)
    loss = ab.sum(h * h)
    return loss


def looked():
    return ab.inspect(rectified, np.array([0.5, 9.0, 3.0]), np.array([-9.0, -9.0, -9.0]))


def either(report, is_loaded):
    """The live report, or the one that a file gives."""
    if not is_loaded:
        return report
    return ab.Report(None, trace=reader.parsed(report.trace.to_json()))


@pytest.mark.parametrize("is_loaded", [False, True])
def test_an_element_has_its_own_products(is_loaded):
    told = either(looked(), is_loaded).why("z", index=[1])
    (share,) = told.finding.shares
    assert (share.upstream.v, share.local.v, share.amount.v) == (18.0, 1.0, 18.0)
    assert (told.kind, told.finding.element, told.is_trouble) == ("gradient", [1], False)
    assert str(told).splitlines()[0] == "z[1]   value 9   gradient 18"


@pytest.mark.parametrize("is_loaded", [False, True])
def test_an_element_of_zero_has_its_own_reason(is_loaded):
    told = either(looked(), is_loaded).why("z", index=[0])
    assert (told.kind, told.is_trouble) == ("zero-gradient", True)
    assert told.text == (
        "the gradient of h[0] is 0 already"
        if told.finding.shares[0].upstream.v == 0
        else "relu lets nothing through: the local derivative there is 0"
    )
    assert told.finding.shares[0].upstream.v == 0  # 2 * h, and h is 0
    flat = ab.inspect(lambda x: ab.sum(ab.relu(x)), np.array([-1.0, 1.0])).why("x", index=[0])
    assert flat.text == "relu lets nothing through: the local derivative there is 0"


def test_contributions_that_cancel_there_are_told():
    told = ab.inspect(lambda x: ab.sum(x * 3.0 - x * 3.0), np.ones(2)).why("x", index=[1])
    assert told.text == "the contributions to x[1] cancel"
    assert sorted(share.amount.v for share in told.finding.shares) == [-3.0, 3.0]


def test_what_has_no_factor_of_its_own_is_told_by_its_rule():
    def f(x, w):
        y = x @ w
        return ab.sum(y * y)

    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(20, 6)), rng.normal(size=(6, 5))
    told = ab.inspect(f, x, w).why("w", index=[4, 2])
    (share,) = told.finding.shares
    assert share.upstream is None and share.local.v is None
    assert math.isclose(share.amount.v, (x.T @ (2 * x @ w))[4, 2], rel_tol=1e-12)
    assert "by x.T @ ct = " in str(told)


def test_a_broadcast_operand_has_no_product_of_one_element():
    told = ab.inspect(lambda x, b: ab.sum(x * b), np.ones((2, 3)), np.ones(3)).why("b", index=[1])
    (share,) = told.finding.shares
    assert (share.upstream, share.amount.v) == (None, 2.0)


def exploding(h):
    with np.errstate(all="ignore"):
        e = ab.exp(h)
        p = e / ab.sum(e)
        return p[0]


@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_bad_element_is_followed_forward(is_loaded):
    report = either(ab.inspect(exploding, np.array([812.3, 1.0])), is_loaded)
    made = report.why("e", index=[0])
    assert (made.kind, made.text) == ("inf", "what went in is finite, so it is made here")
    assert [(one.label, one.v) for one in made.finding.proof] == [
        ("h[0]", 812.3),
        ("e[0]", math.inf),
    ]
    assert report.why("p", index=[0]).text == "it becomes NaN here"
    assert report.why("p", index=[1]).kind != "nan"
    passed = report.why("p", phase="backward", index=[0])
    assert passed.finding.phase == "backward"


@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_bad_gradient_of_an_element_names_the_product(is_loaded):
    report = either(ab.inspect(lambda x: ab.sum(ab.sqrt(x)), np.array([0.0, 4.0])), is_loaded)
    told = report.why("x", index=[0])
    assert told.kind == "bad-gradient" and told.text.startswith("1 × inf on the way through ")
    assert report.why("x", index=[1]).kind == "gradient"


def test_a_value_says_what_went_in():
    def f(x, y):
        p = x * y
        s = p - x
        return s

    report = ab.inspect(f, -2.0, 3.0)
    told = report.why("s", phase="forward")
    assert told.text == "s = p - x = (-6) - (-2) = -4"
    assert (told.kind, told.is_trouble) == ("value", False)
    assert report.why("x", phase="forward").text == "x was given, not computed"
    array = ab.inspect(rectified, np.ones(2), np.ones(2))
    assert array.why("z", phase="forward").text == "z = #2 + b"
    assert array.why("z", phase="forward", index=[1]).text == "z[1] = #2 + b = 2 + 1 = 3"
    assert array.why("loss", phase="forward").finding.proof[0].summary is not None


def test_operands_are_taken_where_broadcasting_takes_them():
    def f(x, c):
        y = x * c
        return ab.sum(y)

    told = ab.inspect(f, np.arange(6.0).reshape(2, 3), np.array([[10.0], [20.0]]))
    assert told.why("y", phase="forward", index=[1, 2]).text == "y[1, 2] = x × c = 5 × 20 = 100"


def test_the_phase_chooses_among_findings():
    report = ab.inspect(exploding, np.array([812.3, 1.0]))
    assert report.why(phase="forward").text == report.why().text
    back = report.why(phase="backward").finding
    assert (back.phase, back.kind, back.reaches_root) == ("backward", "first-nan", True)
    assert back.text.startswith("values were not finite before: exp is larger")
    assert report.why("h", phase="forward").kind == "value"
    root = ab.inspect(lambda x: ab.sum(ab.sqrt(x)), np.array([0.0, 4.0]))
    assert root.why(phase="forward").text == "every value is finite"
    assert not root.why(phase="forward").is_trouble
    assert root.why(phase="backward").cause == "infinite-derivative"
    fine = ab.inspect(lambda x: x * x, 2.0)
    assert fine.why(phase="backward").text == "every gradient is finite"


def test_what_was_not_kept_is_not_made_up():
    big = ab.inspect(lambda x: ab.sum(x * x), np.arange(100.0))
    assert big.why("x", index=[7]).finding.proof[1].v == 14.0
    with pytest.raises(ab.ArgumentError, match=r"not-recorded.*the gradient of x"):
        either(big, True).why("x", index=[7])
    bare = ab.inspect(lambda x: ab.sum(x * x), np.arange(3.0), detail="shape")
    with pytest.raises(ab.ArgumentError, match="not-recorded"):
        either(bare, True).why("x", phase="forward", index=[0])
    with pytest.raises(ab.ArgumentError, match="not-recorded"):
        either(bare, True).why("x", phase="forward")


@pytest.mark.parametrize("index", [[], [2], [-1], [0, 0]])
def test_an_index_outside_is_refused(index):
    report = ab.inspect(lambda x: ab.sum(x * x), np.ones(2))
    with pytest.raises(ab.OutOfRangeError, match="index-out-of-range"):
        report.why("x", index=index)


def test_questions_without_meaning_are_refused():
    report = ab.inspect(lambda x: x * x, 2.0)
    assert report.why("x", index=[]).finding.proof[1].v == 4.0  # a scalar has one element
    with pytest.raises(ab.ArgumentError, match="phase is forward or backward"):
        report.why("x", phase="up")
    with pytest.raises(ab.ArgumentError, match="which one"):
        report.why(index=[0])
    with pytest.raises(ab.OutOfRangeError, match="single number"):
        report.why("x", index=[0])
    empty = ab.inspect(lambda x: ab.sum(x * x), np.ones((0, 3)))
    with pytest.raises(ab.OutOfRangeError, match="has no elements"):
        empty.why("x", index=[0, 0])


def test_an_input_without_a_gradient_is_told_as_a_whole():
    told = ab.inspect(lambda a, b: ab.sum(ab.stop_gradient(a) * b), np.ones(2), np.ones(2))
    assert told.why("a", index=[0]).kind == "no-gradient"
