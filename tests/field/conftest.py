"""Every way to a gradient: what the field reports of one must hold in all of them."""

import numpy as np
import pytest

import anabranch as ab


def by_forward(f):
    """The gradient by forward mode, one direction for each element."""

    def gradient(x, *rest):
        slopes = np.zeros(x.shape, x.dtype)
        for index in np.ndindex(x.shape):
            t = np.zeros(x.shape, x.dtype)
            t[index] = 1.0
            slopes[index] = ab.jvp(lambda v: f(v, *rest), (x,), (t,))[1]
        return slopes

    return gradient


def by_backward(f):
    def gradient(x, *rest):
        leaf = ab.tensor(x, requires_grad=True)
        f(leaf, *rest).backward()
        return leaf.grad

    return gradient


def by_hand(f, passes=None):
    def gradient(*xs):
        g = ab.Graph("by hand")
        nodes = [g.parameter(f"x{i}", x.shape, x.dtype) for i, x in enumerate(xs)]
        (slope,) = ab.gradients(f(*nodes), nodes[:1])
        return g.compile(slope, passes=passes)(*xs)

    return gradient


WAYS = {
    "reverse": ab.grad,
    "forward": by_forward,
    "backward": by_backward,
    "compiled": lambda f: ab.compile(ab.grad(f)),
    "as built": lambda f: ab.compile(ab.grad(f), passes=()),
    "by hand": by_hand,
    "by hand, as built": lambda f: by_hand(f, passes=()),
    "of compiled": lambda f: ab.grad(ab.compile(f)),
}


def quiet(way):
    """The way, with arrays going in and coming out, and no noise about infinities on it."""

    def transform(f):
        def gradient(*xs):
            arrays = [x if hasattr(x, "dtype") else np.asarray(x, np.float64) for x in xs]
            with np.errstate(all="ignore"):
                return np.asarray(way(f)(*arrays))

        return gradient

    return transform


@pytest.fixture(params=WAYS)
def grad(request):
    """The gradient of a scalar function by its first argument, in every way that there is."""
    return quiet(WAYS[request.param])


@pytest.fixture
def noiseless():
    """Infinities and NaN are values here, and no news."""
    with np.errstate(all="ignore"):
        yield
