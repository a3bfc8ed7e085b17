"""Distributions: what they are made of, their dtypes and derivatives, and that they are right."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

import anabranch as ab
from anabranch.composed import random as distributions

r = ab.random
KEY = np.array([7, 0], np.uint32)
FLOATS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
DRAWS = {
    "uniform": (r.uniform, stats.uniform()),
    "normal": (r.normal, stats.norm()),
    "truncated_normal": (r.truncated_normal, stats.truncnorm(-2, 2)),
    "exponential": (r.exponential, stats.expon()),
    "gumbel": (r.gumbel, stats.gumbel_r()),
}


def as_floats(x):
    return np.asarray(getattr(x, "value", x)).astype(np.float64)


# Keys


def test_a_key_is_its_seed():
    assert r.key(7).data.tolist() == [7, 0]
    assert r.key(-1).data.tolist() == r.key((1 << 64) - 1).data.tolist() == [0xFFFFFFFF] * 2
    assert r.key(5 << 32 | 3).data.tolist() == [3, 5]
    assert type(r.key(7)) is ab.Tensor
    assert type(r.key(np.int64(7))) is np.ndarray
    assert r.key(np.array([1, 2])).tolist() == [[1, 0], [2, 0]]
    for seed in (1 << 64, -(1 << 63) - 1):
        with pytest.raises(ab.DomainError, match="64 bits"):
            r.key(seed)
    with pytest.raises(ab.DTypeError, match="index-dtype"):
        r.key(1.0)


def test_children_are_hashes_that_no_stream_holds():
    """split and fold_in, by their definition; both words of a counter stand low word first."""

    def child(key, low, high):
        return r.threefry2x32(key, np.array([low, high], np.uint32))

    parent = child(KEY, 0, 0xFFFFFFFF)
    assert r.split(KEY, 3).tolist() == [child(parent, i, 0).tolist() for i in range(3)]
    assert r.split(KEY).tolist() == r.split(KEY, 3)[:2].tolist()
    parent = child(KEY, 1, 0xFFFFFFFF)
    for data in (0, 1, 77, -1, 5 << 32):
        low, high = data & 0xFFFFFFFF, data >> 32 & 0xFFFFFFFF
        assert r.fold_in(KEY, data).tolist() == child(parent, low, high).tolist()
    assert r.fold_in(KEY, np.arange(3)).tolist() == [r.fold_in(KEY, i).tolist() for i in range(3)]


def test_keys_made_of_a_key_all_differ():
    made = [*r.split(KEY, 500), *(r.fold_in(KEY, i) for i in range(500))]
    made += list(r.bits(KEY, (500, 2)))
    assert len({one.tobytes() for one in made}) == 1500


@pytest.mark.usefixtures("on_reference")
def test_keys_work_in_every_front_end():
    def draw(key):
        one, other = r.split(key)
        return r.normal(one, (3,)) + r.uniform(r.fold_in(other, 4), (3,))

    wanted = draw(KEY).tobytes()
    assert draw(ab.asarray(KEY)).data.tobytes() == wanted
    assert ab.compile(draw)(KEY).tobytes() == wanted
    assert ab.compile(draw, passes=())(KEY).tobytes() == wanted
    g = ab.Graph("by hand")
    key = g.parameter("key", (2,), np.uint32)
    assert g.compile(draw(key))(KEY).tobytes() == wanted
    assert ab.compile(lambda seed: draw(r.key(seed)))(7).tobytes() == wanted
    assert ab.compile(lambda: draw(r.key(7)))().tobytes() == wanted


# What a draw is


@pytest.mark.parametrize("name", FLOATS)
def test_uniform_numbers_have_all_their_digits(name):
    """Equal steps from 0, of which 1 is never reached, and the lowest digit is as random as any."""
    digits = FLOATS[name]
    size = 64 if digits == 53 else 32
    x = r.uniform(KEY, (4000,), dtype=getattr(ab, name))
    assert x.dtype == getattr(ab, name)
    steps = as_floats(x) * 2.0**digits
    bits = r.bits(KEY, (4000,), np.uint64 if size == 64 else np.uint32)
    assert steps.tolist() == (bits >> (size - digits)).astype(np.float64).tolist()
    assert steps.min() >= 0 and steps.max() < 2.0**digits
    assert abs((steps % 2).mean() - 0.5) < 0.03


def inner(n, size, dtype, digits):
    """(0, 1) by all the bits of a word or block."""
    bits = r.bits(KEY, (n,), np.uint64 if size == 64 else np.uint32).astype(dtype)
    return np.minimum(bits * dtype(2.0**-size) + dtype(2.0 ** -(size + 1)), dtype(1 - 2.0**-digits))


@pytest.mark.parametrize(("dtype", "size"), [(np.float64, 64), (np.float32, 32)])
def test_distributions_are_what_their_documentation_says(dtype, size):
    rel = 1e-15 if size == 64 else 1e-6
    v = inner(400, size, dtype, np.finfo(dtype).nmant + 1)
    close = lambda x: pytest.approx(x, rel=rel, abs=rel)  # noqa: E731
    u1, u2 = v[::2], v[1::2]
    z = np.sqrt(-2 * np.log(u1)) * np.cos(2 * math.pi * u2)
    assert as_floats(r.normal(KEY, (200,), dtype=dtype)) == close(z.astype(np.float64))
    assert as_floats(r.exponential(KEY, (400,), dtype=dtype)) == close(-np.log(v).astype(float))
    assert as_floats(r.gumbel(KEY, (400,), dtype=dtype)) == close(-np.log(-np.log1p(-v)))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("name", DRAWS)
def test_words_of_zeros_and_of_ones_give_finite_numbers(monkeypatch, name, dtype):
    """Once in 2**32 or 2**64 elements, which no sample meets."""
    for bit in (0, 1):

        def extreme(op, key, shape, width, bit=bit):
            return np.full(shape, bit * ((1 << width) - 1), np.uint64 if width > 32 else np.uint32)

        monkeypatch.setattr(distributions, "bind", extreme)
        with np.errstate(divide="raise", invalid="raise", over="raise"):
            x = DRAWS[name][0](KEY, (3,), dtype=getattr(ab, dtype))
        assert np.isfinite(x).all()
        if name == "uniform":
            assert (x < 1).all()
        if name == "exponential":
            assert (x > 0).all()


@pytest.mark.parametrize("name", DRAWS)
def test_a_longer_draw_begins_with_a_shorter_one(name):
    draw = DRAWS[name][0]
    longest = draw(KEY, (30,))
    for n in range(30):
        assert draw(KEY, (n,)).tobytes() == longest[:n].tobytes()
    assert draw(KEY, (5, 6)).tobytes() == longest.tobytes()


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_dtypes(name, dtype):
    draw, kind = DRAWS[name][0], np.dtype(getattr(ab, dtype))
    x = draw(KEY, (200,), dtype=kind)
    assert (x.dtype, x.shape) == (kind, (200,))
    assert np.isfinite(as_floats(x)).all()
    if kind.itemsize == 2 and name != "uniform":  # halves are rounded float32
        assert x.tobytes() == draw(KEY, (200,), dtype=np.float32).astype(kind).tobytes()
    with pytest.raises(ab.DTypeError, match="random-dtype"):
        draw(KEY, (2,), dtype=int)


def test_parameters_decide_dtype_and_shape():
    x = np.zeros(3, np.float32)
    assert r.normal(KEY, loc=x).dtype == np.float32
    assert r.normal(KEY, loc=x, dtype=np.float64).dtype == np.float64
    assert r.normal(KEY, loc=x.astype(np.float64), dtype=np.float32).dtype == np.float32
    assert r.normal(KEY, loc=np.arange(3)).dtype == np.float64
    assert r.normal(KEY, loc=x, scale=np.ones((2, 1))).shape == (2, 3)
    assert r.normal(KEY).shape == ()
    assert r.uniform(KEY, (4, 3), low=x).shape == (4, 3)
    assert r.uniform(KEY, 4).shape == (4,)
    for draw in (lambda: r.normal(KEY, (2,), x), lambda: r.uniform(KEY, (3,), np.zeros((2, 3)))):
        with pytest.raises(ab.ShapeError, match="shape-mismatch"):
            draw()


def test_bounds_hold():
    x = r.uniform(KEY, (5000,), 2.0, 5.0)
    assert 2.0 <= x.min() < 2.01 and 4.99 < x.max() < 5.0
    x = r.truncated_normal(KEY, (5000,), -0.5, 2.0, loc=10.0, scale=2.0)
    assert 9.0 <= x.min() < 9.01 and 13.9 < x.max() <= 14.0
    x = r.truncated_normal(KEY, (100,), 9.0, 12.0)  # coarse, but inside
    assert (x >= 9.0).all() and (x <= 12.0).all()


# Derivatives: the noise is held, the parameters move


PARAMETERS = {
    "uniform": (r.uniform, {"low": 0.5, "high": 3.0}),
    "normal": (r.normal, {"loc": 0.5, "scale": 2.0}),
    "truncated_normal": (
        r.truncated_normal,
        {"lower": -1.5, "upper": 0.75, "loc": 0.5, "scale": 2.0},
    ),
    "exponential": (r.exponential, {"scale": 2.0}),
    "gumbel": (r.gumbel, {"loc": 0.5, "scale": 2.0}),
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_have_the_derivatives_of_the_reparametrised_draw(name):
    draw, given = PARAMETERS[name]
    weights = np.array([[0.3, -1.1, 0.7], [1.3, 0.4, -0.2]])

    def total(values):
        return ab.sum(ab.tanh(draw(KEY, (2, 3), **values)) * weights)

    shaped = {k: v + np.array([0.0, 0.1, 0.2]) for k, v in given.items()}
    for values in (given, shaped):
        assert ab.check_gradients(total, values).verdict == "pass"
        slope = ab.grad(lambda v: sum(ab.sum(g) for g in ab.grad(total)(v).values()))
        assert set(slope(values)) == set(given)
        report = ab.check_gradients(
            lambda v: sum(ab.sum(g * g) for g in ab.grad(total)(v).values()), values
        )
        assert report.verdict == "pass", report


def test_derivatives_worked_out_by_hand():
    u, z = r.uniform(KEY, (4,)), r.normal(KEY, (4,))
    low, high = ab.jacobian(lambda a, b: r.uniform(KEY, (4,), a, b), (0, 1))(2.0, 5.0)
    assert low == pytest.approx(1 - u)
    assert high == pytest.approx(u)
    loc, scale = ab.jacobian(lambda a, b: r.normal(KEY, (4,), a, b), (0, 1))(2.0, 5.0)
    assert loc.tolist() == [1.0] * 4
    assert scale == pytest.approx(z)


def test_odds_have_no_derivative():
    for f in (
        lambda p: ab.sum(r.bernoulli(KEY, (3,), p) * 1.0),
        lambda p: ab.sum(r.categorical(KEY, ab.reshape(p, (1,)) + np.zeros(3)) * 1.0),
    ):
        assert ab.grad(f, unused="none")(0.5) is None


# Choices


def test_bernoulli_is_certain_at_the_ends():
    assert not r.bernoulli(KEY, (5000,), 0.0).any()
    assert r.bernoulli(KEY, (5000,), 1.0).all()
    assert r.bernoulli(KEY, p=np.array([0.0, 1.0])).tolist() == [False, True]
    x = r.bernoulli(KEY, (9,), 0.3)
    assert x.dtype == np.bool_
    assert x.tolist() == (r.uniform(KEY, (9,)) < 0.3).tolist()


def test_a_class_of_minus_infinity_is_never_drawn():
    logits = np.array([0.0, -np.inf, 1.0, -np.inf])
    assert set(r.categorical(KEY, logits, shape=(2000,)).tolist()) == {0, 2}
    assert int(r.categorical(KEY, np.full(3, -np.inf))) == 0
    assert r.categorical(KEY, logits).shape == ()
    assert r.categorical(KEY, logits).dtype == np.int64


def test_classes_stand_along_any_axis():
    logits = np.random.default_rng(0).normal(size=(3, 4, 5))
    found = r.categorical(KEY, logits, axis=1)
    assert found.shape == (3, 5)
    assert found.tolist() == r.categorical(KEY, np.moveaxis(logits, 1, -1)).tolist()
    assert r.categorical(KEY, logits, axis=-3, shape=(7, 4, 5)).shape == (7, 4, 5)
    with pytest.raises(ab.ShapeError, match="shape-mismatch"):
        r.categorical(KEY, logits, shape=(3, 3))
    with pytest.raises(ab.ShapeError, match="empty-reduction"):
        r.categorical(KEY, np.zeros((2, 0)))


def test_a_permutation_has_each_once():
    for n in (0, 1, 2, 17):
        order = r.permutation(KEY, n)
        assert sorted(order.tolist()) == list(range(n))
    x = np.arange(12.0).reshape(3, 4)
    order = r.permutation(KEY, 4)
    assert r.permutation(KEY, x, axis=1).tolist() == x[:, order].tolist()
    assert r.permutation(KEY, x, axis=-1).tolist() == x[:, order].tolist()
    assert r.permutation(KEY, [5.0, 6.0, 7.0]).shape == (3,)
    slope = ab.grad(lambda x: ab.sum(r.permutation(KEY, x) * np.arange(4.0)))(np.ones(4))
    assert slope[order].tolist() == [0.0, 1.0, 2.0, 3.0]


def test_choices():
    assert r.choice(KEY, 10, (3, 2)).shape == (3, 2)
    assert r.choice(KEY, 10).shape == ()
    x = np.arange(12.0).reshape(3, 4)
    assert r.choice(KEY, x, (5,), axis=1).shape == (3, 5)
    assert sorted(r.choice(KEY, 6, (2, 3), replace=False).ravel().tolist()) == list(range(6))
    odds = [0.0, 1.0, 0.0, 3.0]
    assert set(r.choice(KEY, 4, (500,), p=odds).tolist()) == {1, 3}
    assert set(r.choice(KEY, 4, (2,), replace=False, p=odds).tolist()) == {1, 3}
    with pytest.raises(ab.DomainError, match="7 of 6"):
        r.choice(KEY, 6, (7,), replace=False)
    with pytest.raises(ab.ShapeError, match="p has shape"):
        r.choice(KEY, 6, (2,), p=odds)
    with ab.config(domain="raise"):
        r.choice(KEY, 4, (2,), p=odds)


# Whether they are what they should be; keys are fixed, so these hold or fail for good


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", DRAWS)
def test_the_distribution_is_right(name, dtype):
    draw, wanted = DRAWS[name]
    keys = r.split(r.key(1), 20)
    x = [as_floats(draw(key, (2000,), dtype=getattr(ab, dtype))) for key in keys]
    chances = [stats.kstest(one, wanted.cdf).pvalue for one in x]
    assert min(chances) > 1e-3
    assert stats.kstest(chances, "uniform").pvalue > 1e-3
    whole = np.concatenate(x)
    assert whole.mean() == pytest.approx(wanted.mean(), abs=5 * wanted.std() / 200)
    assert whole.std() == pytest.approx(wanted.std(), rel=0.05)


def test_neighbours_and_children_are_not_correlated():
    keys = r.split(r.key(3), 60)
    x = np.array([as_floats(r.normal(key, (1000,))) for key in keys])
    found = np.corrcoef(x)[np.triu_indices(60, 1)]
    assert abs(found).max() < 5 / math.sqrt(1000)
    assert found.std() == pytest.approx(1 / math.sqrt(1000), rel=0.1)
    long = as_floats(r.normal(r.key(4), (20_000,)))
    for lag in (1, 2, 3, 7):
        assert abs(np.mean(long[lag:] * long[:-lag])) < 4 / math.sqrt(20_000)


def fits(values, odds):
    """Whether counts of 0, 1, ... agree with these odds."""
    counts = np.bincount(np.ravel(values), minlength=len(odds))
    odds = np.asarray(odds) / np.sum(odds)
    return stats.chisquare(counts, odds * counts.sum()).pvalue > 1e-3


def test_discrete_draws_have_their_odds():
    odds = [0.1, 0.2, 0.3, 0.4]
    assert fits(r.categorical(KEY, np.log(odds), shape=(5000,)), odds)
    assert fits(r.choice(KEY, 4, (5000,), p=odds), odds)
    assert fits(r.choice(KEY, 4, (5000,)), [1, 1, 1, 1])
    assert fits(r.randint(KEY, 7, shape=(5000,)), [1] * 7)
    assert fits(r.bernoulli(KEY, (5000,), 0.3).astype(int), [0.7, 0.3])


def test_every_order_is_equally_likely():
    orders = list(itertools.permutations(range(4)))
    found = [orders.index(tuple(r.permutation(k, 4).tolist())) for k in r.split(KEY, 1500)]
    assert fits(found, [1] * 24)


def test_a_draw_without_replacement_has_the_odds_of_what_is_left():
    odds = np.array([1.0, 2.0, 3.0])
    pairs = list(itertools.permutations(range(3), 2))
    found = [
        pairs.index(tuple(r.choice(k, 3, (2,), replace=False, p=odds).tolist()))
        for k in r.split(KEY, 1500)
    ]
    assert fits(found, [odds[i] * odds[j] / (6 - odds[i]) for i, j in pairs])
