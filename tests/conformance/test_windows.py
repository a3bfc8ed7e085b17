"""Convolution and pooling against sums written out, and where a choice had to be made.

These are the rows of docs/conventions.md on windows; each op's own points stand in its record.
"""

import itertools
import math

import numpy as np
import pytest

import anabranch as ab

inf, nan = math.inf, math.nan
RNG = np.random.default_rng(9)


def written_out(x, w, stride, padding, dilation, groups):
    """Every product of a convolution, one after the other."""
    x = np.pad(x, ((0, 0), (0, 0), *padding))
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, w.shape[2:], strict=True)]
    places = [(n - r) // s + 1 for n, r, s in zip(x.shape[2:], reach, stride, strict=True)]
    y = np.zeros((x.shape[0], w.shape[0], *places))
    each, per_group = w.shape[1], w.shape[0] // groups
    for b, o, *p in np.ndindex(*y.shape):
        for c, *k in np.ndindex(*w.shape[1:]):
            at = tuple(a * s + e * d for a, s, e, d in zip(p, stride, k, dilation, strict=True))
            channel = (o // per_group) * each + c
            y[(b, o, *p)] += x[(b, channel, *at)] * w[(o, c, *k)]
    return y


SETTINGS = {
    "plain": ((2, 3, 6), (4, 3, 2), (1,), ((0, 0),), (1,), 1),
    "everything in one axis": ((2, 4, 7), (6, 2, 3), (2,), ((2, 1),), (2,), 2),
    "two axes": ((1, 2, 5, 4), (3, 2, 2, 3), (1, 2), ((1, 0), (0, 2)), (2, 1), 1),
    "one group a channel": ((2, 3, 4, 4), (6, 1, 2, 2), (2, 1), ((0, 0), (1, 1)), (1, 1), 3),
    "three axes": ((1, 2, 3, 4, 3), (2, 1, 2, 2, 1), (1, 2, 1), ((0, 1),) * 3, (1, 1, 2), 2),
    "a window of one": ((2, 3, 5), (2, 3, 1), (2,), ((0, 0),), (3,), 1),
    "four axes": ((1, 1, 2, 3, 2, 3), (1, 1, 2, 2, 1, 2), (1,) * 4, ((0, 0),) * 4, (1,) * 4, 1),
}


@pytest.mark.proves("S0-79")
@pytest.mark.parametrize("name", SETTINGS)
def test_a_convolution_is_its_sum_of_products(name):
    x_shape, w_shape, *rest = SETTINGS[name]
    x, w = RNG.normal(size=x_shape), RNG.normal(size=w_shape)
    np.testing.assert_allclose(ab.conv(x, w, *rest), written_out(x, w, *rest), atol=1e-13)


@pytest.mark.parametrize("name", SETTINGS)
def test_the_transpose_is_the_adjoint(name):
    """<conv(x), y> = <x, conv_transpose(y)>; output_padding is what no window reached."""
    x_shape, w_shape, stride, padding, dilation, groups = SETTINGS[name]
    x, w = RNG.normal(size=x_shape), RNG.normal(size=w_shape)
    found = ab.conv(x, w, stride, padding, dilation, groups)
    y = RNG.normal(size=found.shape)
    full = [n + a + b for n, (a, b) in zip(x_shape[2:], padding, strict=True)]
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, w_shape[2:], strict=True)]
    over = tuple((n - r) % s for n, r, s in zip(full, reach, stride, strict=True))
    back = ab.conv_transpose(y, w, stride, padding, dilation, groups, over)
    assert back.shape == x.shape
    assert np.sum(found * y) == pytest.approx(np.sum(x * back))


@pytest.mark.parametrize("name", SETTINGS)
def test_channels_may_stand_last(name):
    x_shape, w_shape, *rest = SETTINGS[name]
    x, w = RNG.normal(size=x_shape), RNG.normal(size=w_shape)
    last = (0, *range(2, x.ndim), 1)
    x_last, w_last = np.transpose(x, last), np.transpose(w, (*range(2, w.ndim), 1, 0))
    first, found = ab.conv(x, w, *rest), ab.conv(x_last, w_last, *rest, channels_last=True)
    np.testing.assert_array_equal(found, np.transpose(first, last))
    y = RNG.normal(size=first.shape)
    back = ab.conv_transpose(y, w, *rest)
    found = ab.conv_transpose(np.transpose(y, last), w_last, *rest, channels_last=True)
    np.testing.assert_array_equal(found, np.transpose(back, last))
    pooled = ab.max_pool(x, 2, 1)
    found = ab.max_pool(x_last, 2, 1, channels_last=True)
    np.testing.assert_array_equal(found, np.transpose(pooled, last))
    pooled = ab.avg_pool(x, 2, 1, 1, count_include_pad=False)
    found = ab.avg_pool(x_last, 2, 1, 1, count_include_pad=False, channels_last=True)
    np.testing.assert_array_equal(found, np.transpose(pooled, last))


EVERY_LENGTH = list(itertools.product((1, 4, 5), (1, 2, 3), (1, 2, 3), (1, 2)))


@pytest.mark.parametrize(("n", "k", "s", "d"), EVERY_LENGTH)
def test_padding_same_gives_one_window_for_each_step(n, k, s, d):
    x, w = RNG.normal(size=(1, 1, n)), RNG.normal(size=(1, 1, k))
    y = ab.conv(x, w, s, "same", d)
    assert y.shape[-1] == math.ceil(n / s)
    total = max((y.shape[-1] - 1) * s + d * (k - 1) + 1 - n, 0)
    pair = ((total // 2, total - total // 2),)  # the odd one stands behind
    np.testing.assert_array_equal(y, ab.conv(x, w, s, pair, d))
    assert ab.max_pool(x, k, s, "same", d).shape == y.shape
    back = ab.conv_transpose(y, w, s, "same", d)
    assert back.shape[-1] == y.shape[-1] * s
    if n % s == 0:
        assert np.sum(y * y) == pytest.approx(np.sum(x * back))


@pytest.mark.parametrize("dtype", [np.float16, ab.bfloat16])
def test_halves_are_summed_in_float32(dtype):
    x, w = np.ones((1, 1, 5000), dtype), np.ones((1, 1, 5000), dtype)
    wanted = np.float32(5000).astype(dtype)
    found = ab.conv(x, w)
    assert (found.dtype, found.item()) == (dtype, wanted)
    kernel = ab.conv_kernel(x, np.ones((1, 1, 5000), dtype), (1,), (1,), (1,))
    assert (kernel.dtype, kernel.item()) == (dtype, wanted)
    assert ab.avg_pool(x * dtype(100), 5000).item() == 100
    assert ab.avg_pool(x, 5000, padding=1, count_include_pad=False).item() == 1


def test_integers_stay_integers_and_bools_are_refused():
    x, w = np.arange(6).reshape(1, 1, 6), np.array([[[1, -1]]])
    assert ab.conv(x, w).tolist() == [[[-1] * 5]]
    assert ab.conv(x, w).dtype == np.int64
    assert ab.max_pool(x.astype(np.int8) - 9, 2, padding=1).tolist() == [[[-9, -7, -5, -4]]]
    assert ab.avg_pool(x, 2).dtype == np.float64
    for f in (ab.conv, ab.conv_transpose):
        with pytest.raises(ab.DTypeError, match="no meaning for bools"):
            f(x > 1, w > 0)


def test_what_is_around_is_never_the_largest():
    x = np.full((1, 1, 3), -inf)
    assert ab.max_pool(x, 3, 1, 1).tolist() == [[[-inf] * 3]]
    shares = ab.grad(lambda x: ab.sum(ab.max_pool(x, 3, 1, 1)))(x)
    np.testing.assert_allclose(shares, [[[1 / 2 + 1 / 3, 1 / 2 + 1 / 3 + 1 / 2, 1 / 2 + 1 / 3]]])
    for x in (np.zeros((1, 1, 3)), -np.ones((1, 1, 3))):
        assert ab.max_pool(x, 2, 2, 1).tolist() == x[..., :2].tolist()
        shares = ab.grad(lambda x: ab.sum(ab.max_pool(x, 2, 2, 1)))(x)
        assert shares.tolist() == [[[1.0, 0.5, 0.5]]]


def test_zeros_around_count_in_a_mean_unless_told_otherwise():
    x = np.array([[[2.0, 4.0, 6.0]]])
    assert ab.avg_pool(x, 2, 2, ((0, 1),)).tolist() == [[[3.0, 3.0]]]
    assert ab.avg_pool(x, 2, 2, ((0, 1),), count_include_pad=False).tolist() == [[[3.0, 6.0]]]
    slope = ab.grad(lambda x: ab.sum(ab.avg_pool(x, 2, 2, ((0, 1),), count_include_pad=False)))
    assert slope(x).tolist() == [[[0.5, 0.5, 1.0]]]


@pytest.mark.proves("S0-79")
@pytest.mark.parametrize("pool", [ab.max_pool, ab.avg_pool])
def test_both_gradients_of_pooling_agree_with_differences(pool):
    x = RNG.normal(size=(2, 2, 5, 4))
    f = lambda x: pool(x, (2, 3), (1, 2), 1) ** 2  # noqa: E731
    assert ab.check_gradients(f, x).ok
    assert ab.check_gradients(ab.grad(lambda x: ab.sum(f(x))), x).ok


WRONG = {
    "a window that is too long": (lambda x, w: ab.conv(x, w, dilation=9), "window-too-long"),
    "a pool that is too long": (lambda x, w: ab.max_pool(x, 9), "window-too-long"),
    "channels that do not fit": (lambda x, w: ab.conv(x, w[:, :1]), "shape-mismatch"),
    "groups that do not fit": (lambda x, w: ab.conv(x, w, groups=2), "shape-mismatch"),
    "no group at all": (lambda x, w: ab.conv(x, w, groups=0), "shape-mismatch"),
    "no axis of space": (lambda x, w: ab.conv(x[0, 0], w[0, 0]), "shape-mismatch"),
    "a pool of no space": (lambda x, w: ab.avg_pool(x[0], 1), "shape-mismatch"),
    "a stride of zero": (lambda x, w: ab.conv(x, w, stride=0), "bad-window"),
    "two strides for one axis": (lambda x, w: ab.conv(x, w, stride=(1, 1)), "bad-window"),
    "a stride that is no number": (lambda x, w: ab.conv(x, w, stride=1.5), "bad-window"),
    "an unknown padding": (lambda x, w: ab.conv(x, w, padding="full"), "bad-padding"),
    "padding below 0": (lambda x, w: ab.conv(x, w, padding=-1), "bad-padding"),
    "padding for two axes": (lambda x, w: ab.conv(x, w, padding=(1, 1)), "bad-padding"),
    "nothing but padding": (lambda x, w: ab.avg_pool(x, 2, padding=2), "bad-padding"),
    "too much output padding": (
        lambda x, w: ab.conv_transpose(x, w[:2].transpose(1, 0, 2), output_padding=1),
        "bad-padding",
    ),
    "all of it cut off": (
        lambda x, w: ab.conv_transpose(x, np.ones((2, 1, 1)), padding=2),
        "bad-padding",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_arguments_that_do_not_fit_are_refused(name):
    call, code = WRONG[name]
    x, w = np.ones((1, 2, 4)), np.ones((3, 2, 2))
    for one in (x, ab.tensor(x)):
        with pytest.raises(ab.AnabranchError) as caught:
            call(one, w)
        assert caught.value.code == code
