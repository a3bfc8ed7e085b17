"""The chain rule: every ordered pair of one-argument ops, and a few larger programs."""

import functools

import numpy as np
import pytest

import anabranch as ab
from anabranch.core.bind import bind
from anabranch.core.leaves import LEAVES
from anabranch.core.op import NoGradient
from anabranch.core.registry import registered_ops
from anabranch.core.sample import POSITIVE, SIGNED, Draw
from anabranch.testing import numerical_gradient

# How the ops that need more than a value are applied to one of shape (6,) or (); those that are not
# named here and are not elementwise are called with nothing else.
APPLIED = {
    "add_windows": lambda x: ab.add_windows(ab.reshape(x, (-1, 1)), (x.size,), (1,), (1,)),
    "broadcast_to": lambda x: ab.broadcast_to(x, (2, *x.shape)),
    "linalg.vector_norm": lambda x: ab.linalg.vector_norm(x),
    "max_pool": lambda x: ab.max_pool(ab.reshape(x, (1, 1, -1)), 1),
    "pad": lambda x: ab.pad(x, 1, constant_values=0.75) if x.shape else x,
    "permute": lambda x: ab.permute(ab.reshape(x, (1, -1))),
    "reshape": lambda x: ab.reshape(x, (-1, 1)),
    "sliding_windows": lambda x: ab.sliding_windows(ab.reshape(x, (-1,)), (1,)),
    "slice": lambda x: x[::2] if x.shape else x[...],
    "unslice": lambda x: ab.unslice(ab.reshape(x, (-1,)), (x.size,), ((0, x.size, 1),)),
}


def applied(op):
    if op.elementwise:
        attrs = dict(op.samples[-1].attrs)
        return lambda x: ab.add(0.0, bind(op, x, **attrs))
    # A scalar has no axis: what works along one gets an axis of length 1.
    return APPLIED.get(op.name, lambda x: op(x if x.shape else ab.reshape(x, (1,))))


def unary_ops():
    for op in registered_ops():
        rules = op.partials if op.partials is not None else op.vjp
        is_flat = isinstance(rules, NoGradient)
        if op.name.startswith("linalg.") and op.name not in APPLIED:
            continue  # matrices are chained among themselves: test_linear_algebra.py
        if op not in LEAVES and isinstance(rules, tuple) and len(rules) == 1 and not is_flat:
            yield op


UNARY = {op.name: applied(op) for op in unary_ops() if op.name != "one_hot"}
ELEMENTWISE = {op.name for op in unary_ops() if op.elementwise}
DOMAINS = {
    op.name: x.domain
    for op in unary_ops()
    for sample in op.samples
    for x in sample.inputs
    if isinstance(x, Draw)
}


@functools.cache
def candidates():
    return np.random.default_rng(5).permutation(np.linspace(-2.9, 2.9, 60) + 0.01)


def within(x, domain):
    if domain == SIGNED:
        return (x != 0) & (np.abs(x) < 4.0)  # a wide one: what is defined everywhere
    low, high, signed = (0.2, 4.0, False) if domain == POSITIVE else domain
    size = np.abs(x) if signed else x
    return (size > low) & (size < high)


def point(inner, outer):
    """Six inputs at which both functions are smooth and defined, and a line between the two."""
    x = candidates()
    x = x[within(x, DOMAINS[inner]) & (np.abs(x) > 0.2)]
    if inner not in ELEMENTWISE:
        x = x[x > 0.3][:6]
    values = np.asarray(UNARY[inner](x))
    domain = low, high, _ = DOMAINS[outer]
    fits = within(values, domain)
    if fits.all() or (inner in ELEMENTWISE and np.count_nonzero(fits) >= 6):
        return (x[fits] if inner in ELEMENTWISE else x)[:6], 1.0, 0.0
    scale = (high - low) / 2 / (np.ptp(values) or 1.0)
    return x[:6], scale, low + (high - low) / 4 - scale * np.min(values)


@pytest.mark.slow
@pytest.mark.proves("S0-23")
@pytest.mark.parametrize("outer", UNARY)
def test_the_chain_rule_holds_for_every_pair(outer):
    f = UNARY[outer]
    for inner, g in UNARY.items():
        x, scale, shift = point(inner, outer)
        report = ab.check_gradients(lambda x: f(g(x) * scale + shift), x, argnums="x")  # noqa: B023
        assert report.verdict == "pass", f"{outer} of {inner}\n{report}"


@pytest.mark.slow
@pytest.mark.proves("S0-54")
def test_the_flagship_agrees_for_every_seed():
    """Not a single element: small entries of a gradient have a larger relative error."""

    def loss(a, b, c):
        return ab.sum((a @ b + c) ** 2)

    for seed in range(100):
        rng = np.random.default_rng(seed)
        args = [rng.normal(size=shape) for shape in ((3, 4), (4, 5), (5,))]
        for position, found in enumerate(ab.grad(loss, (0, 1, 2))(*args)):
            wanted = numerical_gradient(
                lambda x, i=position, args=args: loss(*args[:i], x, *args[i + 1 :]), args[position]
            )
            assert np.linalg.norm(found - wanted) / np.linalg.norm(wanted) < 1e-8, seed
        assert all(row.relative < 1e-8 for row in ab.check_gradients(loss, *args).rows)


@pytest.mark.proves("S1-17")
def test_the_worked_expression_agrees_with_a_difference():
    def z(x, y):
        return (x * y + x) ** 2

    found = float(ab.grad(z)(2.0, 3.0))
    assert found == 64.0
    assert float(numerical_gradient(lambda x: z(x, 3.0), 2.0)) == pytest.approx(found, abs=1e-5)


@pytest.mark.proves("S1-34")
def test_both_gradients_of_the_worked_expression_at_random_points():
    for x, y in np.random.default_rng(0).uniform(-3.0, 3.0, (200, 2)):
        report = ab.check_gradients(lambda x, y: (x * y + x) ** 2, float(x), float(y))
        assert [row.verdict for row in report.rows] == ["pass", "pass"]


@pytest.mark.proves("S1-20")
def test_a_square_written_as_a_product_delivers_twice():
    total = ab.tensor(8.0, requires_grad=True)
    contributions = []
    (total * total).backward(observer=lambda node, slot, part: contributions.append(float(part)))
    assert contributions == [8.0, 8.0]
    assert float(total.grad) == 16.0
