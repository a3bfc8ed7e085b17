"""Products under NumPy's names: NumPy's values, shapes, dtypes and refusals."""

import numpy as np
import pytest

import anabranch as ab

RNG = np.random.default_rng(4)
SHAPES = [(), (3,), (1,), (0,), (2, 3), (3, 2), (3, 3), (2, 3, 3), (1, 3), (3, 1, 2)]
PAIRS = [(a, b) for a in SHAPES for b in SHAPES]
NAMES = ["dot", "inner", "vdot", "outer", "kron", "matmul", "vecdot"]


def outcome(module, name, *arguments, **options):
    try:
        return np.asarray(getattr(module, name)(*arguments, **options))
    except (ValueError, IndexError, TypeError):
        return None


def same(found, wanted):
    assert (found is None) == (wanted is None)
    if wanted is not None:
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("name", NAMES)
def test_values_and_refusals_are_numpys(name):
    for (a, b), kinds in zip(PAIRS, [("f8", "f8"), ("i4", "f4"), ("i1", "i8")] * 40, strict=False):
        if name == "vecdot" and () in (a, b):
            continue
        x, y = (
            np.asarray(RNG.normal(size=s) * 3).astype(k) for s, k in zip((a, b), kinds, strict=True)
        )
        same(outcome(ab, name, x, y), outcome(np, name, x, y))


AXES = [0, 1, 2, ([0], [0]), ([-1], [0]), (0, 0), ([0, 1], [1, 0]), ((-1, 0), (0, -1)), ([], [])]


@pytest.mark.parametrize("axes", AXES, ids=str)
def test_tensordot_is_numpys(axes):
    for a, b in PAIRS:
        x, y = np.asarray(RNG.normal(size=a)), np.asarray(RNG.normal(size=b))
        same(outcome(ab, "tensordot", x, y, axes=axes), outcome(np, "tensordot", x, y, axes=axes))


@pytest.mark.parametrize(
    "axes", [([0], [0, 1]), ([0, 0], [0, 1]), ([5], [0]), ([0],), ([0], [1], [2])]
)
def test_axes_that_do_not_pair_up_are_refused(axes):
    with pytest.raises(ab.AnabranchError):
        ab.tensordot(np.ones((3, 3)), np.ones((3, 3)), axes)


CROSSED = [
    ((3,), (3,), {}),
    ((2, 3), (3,), {}),
    ((3, 4), (4, 3), {"axisa": 0, "axisb": 1, "axisc": 0}),
    ((3, 4), (3, 4), {"axis": 0}),
    ((2, 3, 4), (1, 3, 4), {"axis": 1}),
    ((0, 3), (3,), {}),
]


@pytest.mark.parametrize("case", CROSSED, ids=str)
def test_the_cross_product_is_numpys(case):
    a, b, options = case
    x, y = RNG.normal(size=a), RNG.normal(size=b)
    same(outcome(ab, "cross", x, y, **options), np.cross(x, y, **options))


@pytest.mark.parametrize("shapes", [((2,), (2,)), ((3,), (2,)), ((2, 3), (4, 3)), ((4,), (4,))])
def test_a_cross_product_is_of_three_numbers(shapes):
    with pytest.raises(ab.ShapeError):
        ab.cross(*map(np.ones, shapes))


CALLS = {
    "dot": (ab.dot, (2, 3), (4, 3, 2)),
    "inner": (ab.inner, (2, 3), (4, 3)),
    "vdot": (ab.vdot, (2, 3), (6,)),
    "vecdot": (lambda a, b: ab.vecdot(a, b, axis=0), (3, 1, 2), (3, 4, 2)),
    "outer": (ab.outer, (2, 2), (3,)),
    "kron": (ab.kron, (2, 3), (3,)),
    "cross": (ab.cross, (2, 3), (3,)),
    "tensordot": (lambda a, b: ab.tensordot(a, b, ([1, 0], [0, 2])), (2, 3, 2), (3, 2, 2)),
}


@pytest.mark.parametrize("name", CALLS)
def test_derivatives_of_both_orders_agree_with_differences(name):
    call, a, b = CALLS[name]
    x, y = RNG.normal(size=a), RNG.normal(size=b)

    def f(x, y):
        return ab.sum(call(x, y) ** 2)

    assert ab.check_gradients(f, x, y).ok
    slopes = ab.grad(f, (0, 1))
    assert ab.check_gradients(lambda x, y: sum(ab.sum(g**2) for g in slopes(x, y)), x, y).ok


def test_complex_values_are_refused_where_one_side_would_be_conjugated():
    z = np.array([1.0 + 2.0j])
    for name in ("vdot", "vecdot"):
        with pytest.raises(ab.DTypeError, match="conjugate"):
            getattr(ab, name)(z, z)


@pytest.mark.parametrize("dtype", [np.float16, ab.bfloat16])
def test_matrix_products_of_halves_are_summed_in_float32(dtype):
    """2048 + 1 is 2048 in float16, and 256 + 1 is 256 in bfloat16."""
    x = np.ones((1, 5000), dtype)
    assert ab.matmul(x, x.T).dtype == dtype
    assert ab.matmul(x, x.T).item() == np.float32(5000).astype(dtype)
    assert ab.einsum("ab,ab->", x, x) == np.float32(5000).astype(dtype)
