"""Losses: values worked by hand, weights and masks, infinities, and derivatives of two orders."""

import math

import numpy as np
import pytest

import anabranch as ab

nan, inf = math.nan, math.inf
LOGITS = np.random.default_rng(3).normal(size=(3, 4)) * 2.0
LABELS = np.array([1, 3, 0])
SHARES = np.exp(LOGITS[::-1]) / np.exp(LOGITS[::-1]).sum(axis=1, keepdims=True)
X = np.array([[-1.4, 0.25, 2.0], [0.75, -0.4, 3.0]])
Y = np.array([[0.5, 0.75, -1.0], [0.25, 1.5, 2.5]])
close = pytest.approx


def log_softmax(x):
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def softplus(x):
    return np.log1p(np.exp(x))


ELEMENTWISE = {  # the loss, and the plain formula of one element
    "mse": (ab.mse, lambda r: r * r),
    "mae": (ab.mae, abs),
    "huber": (ab.huber, lambda r: np.where(abs(r) < 1, r * r / 2, abs(r) - 0.5)),
    "huber, delta": (
        lambda x, y, **k: ab.huber(x, y, 2.0, **k),
        lambda r: np.where(abs(r) < 2, r * r / 2, 2 * (abs(r) - 1)),
    ),
    "smooth_l1": (
        lambda x, y, **k: ab.smooth_l1(x, y, 2.0, **k),
        lambda r: np.where(abs(r) < 2, r * r / 4, abs(r) - 1),
    ),
    "smooth_l1, beta 0": (lambda x, y, **k: ab.smooth_l1(x, y, 0.0, **k), abs),
}
W = np.array([[1.0, 2.0, 0.5], [0.0, 3.0, 1.0]])
MASK = np.array([[True, False, True], [True, True, False]])


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_losses_of_numbers(name):
    loss, plain = ELEMENTWISE[name]
    each = plain(X - Y)
    assert loss(X, Y, reduction="none") == close(each)
    assert float(loss(X, Y, reduction="sum")) == close(each.sum())
    assert float(loss(X, Y)) == close(each.mean())
    assert float(loss(X, Y, weights=W)) == close((each * W).sum() / W.sum())
    assert float(loss(X, Y, mask=MASK)) == close(each[MASK].mean())
    both = float(loss(X, Y, weights=W, mask=MASK))
    assert both == close((each * W)[MASK].sum() / W[MASK].sum())
    assert loss(X, Y, weights=W, mask=MASK, reduction="none") == close(each * W * MASK)
    row = np.array([[True], [False]])
    assert float(loss(X, Y, mask=row)) == close(each[0].mean())


CLASSES = {
    "cross_entropy": lambda x, **k: ab.cross_entropy(x, LABELS, **k),
    "cross_entropy, shares": lambda x, **k: ab.cross_entropy(x, SHARES, **k),
    "cross_entropy, axis 0": lambda x, **k: ab.cross_entropy(x.T, LABELS, axis=0, **k),
    "nll": lambda x, **k: ab.nll(ab.log_softmax(x), LABELS, **k),
}


@pytest.mark.parametrize("name", CLASSES)
def test_losses_of_classes(name):
    loss = CLASSES[name]
    scores = log_softmax(LOGITS)
    shares = SHARES if "shares" in name else np.eye(4)[LABELS]
    w, mask = np.array([1.0, 2.0, 0.5, 3.0]), np.array([True, False, True])
    each = -(shares * scores).sum(axis=1)
    assert loss(LOGITS, reduction="none") == close(each)
    assert float(loss(LOGITS)) == close(each.mean())
    assert float(loss(LOGITS, reduction="sum")) == close(each.sum())
    assert float(loss(LOGITS, mask=mask)) == close(each[mask].mean())
    smooth = -((0.9 * shares + 0.1 / 4) * scores).sum(axis=1)
    assert loss(LOGITS, label_smoothing=0.1, reduction="none") == close(smooth)
    weighed, measure = -(w * shares * scores).sum(axis=1), (w * shares).sum(axis=1)
    assert loss(LOGITS, weights=w, reduction="none") == close(weighed)
    assert float(loss(LOGITS, weights=w)) == close(weighed.sum() / measure.sum())
    found = float(loss(LOGITS, weights=w, mask=mask))
    assert found == close(weighed[mask].sum() / measure[mask].sum())


def test_losses_of_yes_and_no():
    y = np.array([[0.0, 1.0, 0.25], [1.0, 0.0, 1.0]])
    each = y * softplus(-X) + (1 - y) * softplus(X)
    assert ab.binary_cross_entropy(X, y, reduction="none") == close(each)
    assert float(ab.binary_cross_entropy(X, y)) == close(each.mean())
    assert float(ab.binary_cross_entropy(X, y, weights=W)) == close((each * W).sum() / W.sum())
    assert float(ab.binary_cross_entropy(X, y, mask=MASK)) == close(each[MASK].mean())
    whole = np.array([[0, 1, 0], [1, 0, 1]])
    for labels in (whole, whole.astype(bool), whole.astype(np.uint8), whole.tolist()):
        found = ab.binary_cross_entropy(X, labels, reduction="none")
        assert found == close(softplus(np.where(whole == 1, -X, X)))
    sign = 2.0 * whole - 1
    assert ab.hinge(X, sign, reduction="none") == close(np.maximum(0, 1 - sign * X))
    assert float(ab.hinge(X, sign, mask=MASK)) == close(np.maximum(0, 1 - sign * X)[MASK].mean())


def test_divergence():
    scores = log_softmax(LOGITS)
    each = (SHARES * (np.log(SHARES) - scores)).sum(axis=1)
    assert ab.kl_div(scores, SHARES, reduction="none") == close(each)
    assert float(ab.kl_div(scores, SHARES)) == close(each.mean())
    assert float(ab.kl_div(scores.T, SHARES.T, axis=0)) == close(each.mean())
    mask = np.array([True, False, True])
    assert float(ab.kl_div(scores, SHARES, mask=mask)) == close(each[mask].mean())
    assert float(ab.kl_div(scores, np.exp(scores))) == close(0.0, abs=1e-15)


def test_triplets():
    a, p, n = LOGITS, LOGITS[::-1].copy(), LOGITS + np.array([1.0, 0.0, 0.0, 2.0])
    length = lambda d: np.sqrt((d * d).sum(axis=-1))  # noqa: E731
    each = np.maximum(0, length(a - p) - length(a - n) + 0.5)
    assert ab.triplet(a, p, n, 0.5, reduction="none") == close(each)
    assert float(ab.triplet(a.T, p.T, n.T, 0.5, axis=0)) == close(each.mean())
    mask = np.array([False, True, True])
    assert float(ab.triplet(a, p, n, 0.5, mask=mask)) == close(each[1:].mean())


# Derivatives

SIGNS = np.sign(Y)
SMOOTH = {
    **{name: lambda x, loss=loss: loss(x, Y) for name, (loss, _) in ELEMENTWISE.items()},
    "mse, weights": lambda x: ab.mse(x, Y, weights=W, mask=MASK),
    "binary_cross_entropy": lambda x: ab.binary_cross_entropy(x, SIGNS > 0),
    "binary_cross_entropy, shares": lambda x: ab.binary_cross_entropy(x, abs(Y) / 3, weights=W),
    "hinge": lambda x: ab.hinge(x, SIGNS),
    "kl_div": lambda x: ab.kl_div(x, abs(Y)),
    "triplet": lambda x: ab.triplet(x, Y, X + 0.25, 3.0),
    "cross_entropy, all": lambda x: ab.cross_entropy(
        x, np.array([2, 0]), weights=np.array([1.0, 2.0, 3.0]), label_smoothing=0.2
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_of_two_orders_in_both_modes(name):
    f = SMOOTH[name]
    assert ab.check_gradients(f, X).verdict == "pass"
    t = np.array([[0.3, -1.0, 0.7], [1.1, 0.4, -0.6]])
    slope = ab.grad(f)
    assert float(ab.jvp(f, (X,), (t,))[1]) == close(np.sum(slope(X) * t), rel=1e-12)
    report = ab.check_gradients(lambda x: ab.sum(ab.grad(f)(x) * t), X)
    assert report.verdict == "pass", report
    assert ab.compile(slope)(X).tobytes() == ab.compile(slope, passes=())(X).tobytes()


def test_labels_and_weights_have_gradients():
    for loss in (
        lambda y: ab.cross_entropy(LOGITS, y),
        lambda y: ab.binary_cross_entropy(LOGITS, y),
        lambda y: ab.kl_div(log_softmax(LOGITS), y),
    ):
        assert ab.check_gradients(loss, SHARES).verdict == "pass"
    for loss in (
        lambda w: ab.cross_entropy(LOGITS, LABELS, weights=w, mask=np.array([True, True, False])),
        lambda w: ab.mse(LOGITS[0], SHARES[0], weights=w),
    ):
        assert ab.check_gradients(loss, np.array([1.0, 2.0, 0.5, 3.0])).verdict == "pass"


@pytest.mark.parametrize("y", [0.0, 1.0])
def test_labels_of_0_and_1_have_the_slopes_of_those_beside_them(grad, y):
    """A share of 0 takes nothing out of the derivative by the share itself."""
    found = grad(lambda y: ab.binary_cross_entropy(np.array([0.7]), y))([y])
    assert found == close([-0.7])
    scores = log_softmax(LOGITS[0])
    found = grad(lambda y: ab.cross_entropy(LOGITS[0], y))([y, 1 - y, 0.0, 0.0])
    assert found == close(-scores)


# Infinities


def test_a_share_of_0_at_minus_infinity_adds_nothing(grad):
    x = np.array([[0.0, -inf, 0.0]])
    with np.errstate(invalid="ignore"):
        for labels in (np.array([0]), np.array([[1.0, 0.0, 0.0]])):
            assert float(ab.cross_entropy(x, labels)) == close(math.log(2))
            found = grad(lambda x, y=labels: ab.cross_entropy(x, y))(x)
            assert found == close(np.array([[-0.5, 0.0, 0.5]]))
        assert float(ab.cross_entropy(x, np.array([1]))) == inf


def test_infinite_logits_that_are_right_cost_nothing(grad, noiseless):
    x, y = np.array([inf, -inf, 800.0, -800.0]), np.array([1.0, 0.0, 1.0, 0.0])
    assert ab.binary_cross_entropy(x, y, reduction="none").tolist() == [0.0] * 4
    assert grad(lambda x: ab.binary_cross_entropy(x, y))(x).tolist() == [0.0] * 4
    wrong = ab.binary_cross_entropy(x, 1 - y, reduction="none").tolist()
    assert wrong == [inf, inf, 800.0, 800.0]
    assert grad(lambda x: ab.sum(ab.binary_cross_entropy(x, 1 - y, reduction="none")))(
        x
    ).tolist() == [1.0, -1.0, 1.0, -1.0]


@pytest.mark.parametrize("x", [40.0, 300.0])
def test_the_slope_far_out_does_not_cancel(grad, x):
    found = grad(lambda x: ab.binary_cross_entropy(x, np.array([1.0, 0.0])))([x, -x])
    assert found == close([-math.exp(-x) / 2, math.exp(-x) / 2], rel=1e-14)


def test_a_target_of_0_adds_nothing_to_a_divergence(grad, noiseless):
    p, scores = np.array([1.0, 0.0]), np.array([math.log(0.5), -inf])
    assert float(ab.kl_div(scores, p)) == close(math.log(2))
    assert grad(lambda s: ab.kl_div(s, p))(scores).tolist() == [-1.0, 0.0]
    slope = grad(lambda p: ab.kl_div(np.log([0.5, 0.25]), p))(p)
    assert slope == close([1 + math.log(2), math.log(4)])  # p log p has the slope 0 at 0
    # so that a softmax that has rounded to 0 is not poisoned
    logits = np.array([0.0, -1000.0])
    found = grad(lambda x: ab.kl_div(np.log([0.5, 0.5]), ab.softmax(x)))(logits)
    assert found == close([0.0, 0.0], abs=1e-300)


def test_corners(grad):
    x = np.array([0.0, 1.0, -1.0])
    assert grad(lambda x: ab.sum(ab.mae(x, np.zeros(3), reduction="none")))(x).tolist() == [
        0,
        1,
        -1,
    ]
    assert grad(lambda x: ab.hinge(x, np.array([1.0, 1.0, 1.0]), reduction="sum"))(
        np.array([1.0, 0.9, 1.1])
    ).tolist() == [0.0, -1.0, 0.0]
    second = ab.hessian(lambda r: ab.huber(r, np.zeros(3), reduction="sum"))
    assert np.diag(second(np.array([1.0, -1.0, 1.1]))).tolist() == [1.0, 1.0, 0.0]
    p = np.array([[1.0, 2.0]])
    found = grad(lambda a: ab.triplet(a, p, p + 1.0, 2.0))(p)
    assert found == close(np.full((1, 2), math.sqrt(0.5)))  # nothing comes from the distance of 0
    assert not grad(lambda a: ab.triplet(a, p, p, 0.0))(p).any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ab.bfloat16], ids=str)
@pytest.mark.proves("F-25")
def test_a_residual_of_0_has_the_slope_0_in_every_loss(grad, dtype):
    zeros = np.zeros(3, dtype)
    for loss, _ in ELEMENTWISE.values():
        found = grad(lambda p, t, loss=loss: loss(p, t))(zeros, zeros)
        assert (found.dtype, found.tolist()) == (np.dtype(dtype), [0.0] * 3)


# Masks


@pytest.mark.slow
@pytest.mark.parametrize("hole", [nan, inf, -inf])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_what_a_mask_takes_out_has_no_say(grad, noiseless, reduction, hole):
    keep = np.array([True, False, True])
    x, y = np.array([1.0, hole, 0.5]), np.array([0.0, hole, 1.0])
    losses = {
        "binary_cross_entropy": ab.binary_cross_entropy,
        "hinge": ab.hinge,
        **{name: loss for name, (loss, _) in ELEMENTWISE.items()},
    }
    for loss in losses.values():
        found = grad(lambda x, loss=loss: loss(x, y, mask=keep, reduction=reduction))(x)
        alone = grad(lambda x, loss=loss: loss(x, y[keep], reduction=reduction))(x[keep])
        assert found[1] == 0.0
        assert found[keep] == close(alone)
        assert np.isfinite(float(loss(x, y, mask=keep, reduction=reduction)))
        targets = grad(lambda y, loss=loss: loss(x, y, mask=keep, reduction=reduction))(y)
        assert targets[1] == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("hole", [nan, inf, -inf])
def test_what_a_mask_takes_out_of_classes_has_no_say(grad, noiseless, hole):
    keep = np.array([True, False, True])
    x = LOGITS.copy()
    x[1] = hole
    labels, shares = LABELS.copy(), SHARES.copy()
    labels[1], shares[1] = -100, hole
    losses = {
        "classes": lambda x, y, **k: ab.cross_entropy(x, y[0], **k),
        "weights": lambda x, y, **k: ab.cross_entropy(x, y[0], weights=np.arange(4.0), **k),
        "shares": lambda x, y, **k: ab.cross_entropy(x, y[1], label_smoothing=0.1, **k),
        "nll": lambda x, y, **k: ab.nll(x, y[0], **k),
        "kl_div": lambda x, y, **k: ab.kl_div(x, y[1], **k),
        "triplet": lambda x, y, **k: ab.triplet(x, y[1], x + 1.0, 5.0, **k),
    }
    for name, loss in losses.items():
        found = grad(lambda x, loss=loss: loss(x, (labels, shares), mask=keep))(x)
        alone = grad(lambda x, loss=loss: loss(x, (labels[keep], shares[keep])))(x[keep])
        assert (found[1] == 0.0).all(), name
        assert found[keep] == close(alone, abs=1e-15), name
        assert np.isfinite(float(loss(x, (labels, shares), mask=keep))), name


def test_a_mask_holds_at_the_door(noiseless):
    """Also where nothing absorbs, and where operands are watched: nothing enters."""
    keep = np.array([True, False, True])
    rows = LOGITS.copy()
    rows[1] = -inf
    shares = SHARES.copy()
    shares[1] = -1.0
    x, y = np.array([1.0, nan, 0.5]), np.array([0.0, inf, 1.0])
    losses = {
        "cross_entropy": (lambda x: ab.cross_entropy(x, LABELS, mask=keep), rows),
        "nll": (lambda x: ab.nll(x, SHARES, mask=keep), rows),
        "kl_div": (lambda x: ab.kl_div(x, shares, mask=keep), rows),
        "triplet": (lambda x: ab.triplet(x, LOGITS, x + 1.0, 5.0, mask=keep), rows),
        "hinge": (lambda x: ab.hinge(x, y, mask=keep), x),
        "binary": (lambda x: ab.binary_cross_entropy(x, 1.0, mask=keep), x),
        **{
            name: (lambda x, loss=loss: loss(x, y, mask=keep), x)
            for name, (loss, _) in ELEMENTWISE.items()
        },
    }
    with ab.config(domain="raise", absorb_zero=False):
        for name, (loss, value) in losses.items():
            found = ab.grad(loss)(value)
            assert np.isfinite(found).all(), name
            assert not found[1].any(), name


def test_a_weight_of_0_takes_out_as_a_mask_does(grad, noiseless):
    x, y, w = np.array([1.0, nan, inf]), np.zeros(3), np.array([2.0, 0.0, 0.0])
    assert float(ab.mse(x, y, weights=w)) == 1.0
    assert grad(lambda x: ab.mse(x, y, weights=w))(x)[0] == 2.0
    logits = np.array([[0.0, 0.0, -inf]])
    weights = np.array([1.0, 1.0, 0.0])
    assert float(ab.cross_entropy(logits, np.array([2]), weights=weights)) == 0.0


def test_a_mean_over_nothing_is_0(grad):
    nothing = np.zeros(3, bool)
    x, y = np.array([1.0, nan, 2.0]), np.zeros(3)
    for loss, _ in ELEMENTWISE.values():
        assert float(loss(x, y, mask=nothing)) == 0.0
        assert grad(lambda x, loss=loss: loss(x, y, mask=nothing))(x).tolist() == [0.0] * 3
    assert float(ab.mse(x[:1], y[:1], weights=np.zeros(1))) == 0.0
    assert float(ab.cross_entropy(LOGITS, LABELS, mask=nothing)) == 0.0
    assert not grad(lambda x: ab.cross_entropy(x, LABELS, mask=nothing))(LOGITS).any()
    with np.errstate(invalid="ignore"):
        assert math.isnan(ab.mse(np.zeros(0), np.zeros(0)))  # nobody has taken anything out


def test_a_mask_may_be_a_value_of_a_graph():
    def loss(x, keep):
        return ab.cross_entropy(x, LABELS, mask=keep, weights=np.arange(1.0, 5.0))

    keep = np.array([True, False, True])
    run = ab.compile(ab.value_and_grad(loss))
    value, slope = run(LOGITS, keep)
    assert float(value) == close(float(loss(LOGITS, keep)))
    assert slope == close(ab.grad(loss)(LOGITS, keep))
    assert not slope[1].any()


# Refusals and dtypes


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: ab.mse(np.ones((3, 1)), np.ones(3)), "shape-mismatch"),
        (lambda: ab.mae(np.ones(3), np.ones(1)), "shape-mismatch"),
        (lambda: ab.huber(np.ones(3), np.ones((1, 3))), "shape-mismatch"),
        (lambda: ab.binary_cross_entropy(np.ones((3, 1)), np.ones(3)), "shape-mismatch"),
        (lambda: ab.hinge(np.ones(3), np.ones(2)), "shape-mismatch"),
        (lambda: ab.triplet(np.ones((2, 3)), np.ones((2, 3)), np.ones(3)), "shape-mismatch"),
        (lambda: ab.kl_div(np.ones((2, 3)), np.ones(3)), "shape-mismatch"),
        (
            lambda: ab.kl_div(np.ones((2, 3)), np.ones((2, 3)), mask=np.ones(3, bool)),
            "shape-mismatch",
        ),
        (lambda: ab.cross_entropy(LOGITS, LABELS[:2]), "shape-mismatch"),
        (lambda: ab.cross_entropy(LOGITS, LABELS, weights=np.ones(3)), "shape-mismatch"),
        (lambda: ab.cross_entropy(LOGITS, LABELS, mask=np.ones(4, bool)), "shape-mismatch"),
        (lambda: ab.cross_entropy(LOGITS, np.array([0, 1, 4])), "index-out-of-range"),
        (lambda: ab.cross_entropy(LOGITS, LABELS, mask=np.ones(3)), "mask-dtype"),
        (lambda: ab.mse(X, Y, mask=np.ones(3)), "mask-dtype"),
        (lambda: ab.mse(X, Y, reduction="average"), "bad-argument"),
        (lambda: ab.nll(LOGITS, LABELS, axis=2), "axis-out-of-range"),
    ],
)
def test_what_does_not_fit_is_refused(call, code):
    with pytest.raises(ab.AnabranchError) as caught:
        call()
    assert caught.value.code == code


def test_a_scalar_target_fits_any_shape():
    assert float(ab.mse(X, 1.0)) == close(((X - 1) ** 2).mean())
    assert float(ab.binary_cross_entropy(X, 1.0)) == close(softplus(-X).mean())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_dtypes(dtype):
    kind = np.dtype(getattr(ab, dtype))
    rounding = 1e-6 if dtype == "float32" else 3e-2
    x, y = LOGITS.astype(kind), SHARES.astype(kind)
    for loss in (
        ab.mse, ab.mae, ab.huber, ab.cross_entropy, ab.binary_cross_entropy, ab.kl_div,
        lambda x, y: ab.mse(x, y, mask=np.array([True, False, True])[:, None]),
    ):  # fmt: skip
        found = loss(x, y)
        assert found.dtype == kind
        assert float(found) == close(float(loss(LOGITS, SHARES)), rel=rounding)
        assert ab.grad(loss)(x, y).dtype == kind
    # a mean of many halves whose sum no half holds
    many = np.full(5000, 30.0).astype(kind)
    assert float(ab.mae(many, np.zeros(5000, kind), weights=np.ones(5000, kind))) == 30.0


@pytest.mark.parametrize("name", SMOOTH)
def test_each_is_one_scope_and_asks_for_nothing_outside_of_a_domain(name):
    graph = ab.trace(SMOOTH[name], X)
    scopes = {n.scope.split("/")[0] for n in graph.nodes if n.kind == "op"}
    assert name.split(",", maxsplit=1)[0] in scopes
    with ab.config(domain="raise"):
        for x in (X, Y, np.zeros((2, 3))):
            ab.grad(SMOOTH[name])(x)


@pytest.mark.parametrize("name", ["mse", "mae", "huber", "smooth_l1", "hinge", "kl_div"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int64])
def test_losses_of_integers_are_those_of_the_same_numbers(name, dtype):
    """Differences of pictures, products of scores: they must not wrap."""
    x, y = np.array([3, 120, 7], dtype), np.array([120, 3, 9], dtype)
    f = getattr(ab, name)
    for found in (f(x, y), ab.compile(f)(x, y)):
        np.testing.assert_allclose(found, f(x.astype(float), y.astype(float)), rtol=1e-14)
    assert np.asarray(f(x.astype(np.float32), y)).dtype == (x.astype(np.float32) * y).dtype
