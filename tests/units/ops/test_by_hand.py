"""Cases worked by hand, small enough for the head."""

import numpy as np
import pytest

import anabranch as ab
from anabranch.core.registry import registered_ops
from anabranch.core.sample import Draw
from anabranch.testing.cases import cases, reference

OPS = [op for op in registered_ops() if op.arity != 0]


def pulled(f, ct, *xs):
    return [np.asarray(g) for g in ab.vjp(f, *xs)[1](ct)]


@pytest.mark.proves("S0-32", "S0-82")
def test_a_product_hands_each_factor_the_other() -> None:
    a, b = pulled(ab.multiply, np.array([1.0, 10.0]), np.array([2.0, 3.0]), np.array([5.0, 7.0]))
    assert (a.tolist(), b.tolist()) == ([5.0, 70.0], [2.0, 30.0])


@pytest.mark.proves("S0-82")
def test_a_sum_hands_on_what_it_gets() -> None:
    a, b = pulled(ab.add, np.array([1.0, 10.0]), np.array([2.0, 3.0]), np.array([5.0, 7.0]))
    assert a.tolist() == b.tolist() == [1.0, 10.0]


@pytest.mark.proves("S0-33", "S0-34")
def test_a_matrix_product_of_two_by_two() -> None:
    # Y[m,n] = A[m,k] B[k,n] with m = k = n = 2; ct picks Y[0,1] = a00 b01 + a01 b11
    A, B = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[5.0, 6.0], [7.0, 8.0]])
    assert ab.matmul(A, B).tolist() == [[19.0, 22.0], [43.0, 50.0]]
    dA, dB = pulled(ab.matmul, np.array([[0.0, 1.0], [0.0, 0.0]]), A, B)
    assert dA.tolist() == [[6.0, 8.0], [0.0, 0.0]]
    assert dB.tolist() == [[0.0, 1.0], [0.0, 2.0]]


@pytest.mark.proves("S0-33")
def test_the_cotangents_of_a_matrix_product_have_the_shapes_of_its_factors() -> None:
    rng = np.random.default_rng(0)
    A, B, ct = rng.normal(size=(2, 3)), rng.normal(size=(3, 4)), rng.normal(size=(2, 4))
    dA, dB = pulled(ab.matmul, ct, A, B)
    assert (dA.shape, dB.shape) == ((2, 3), (3, 4))
    np.testing.assert_allclose(dA, ct @ B.T, rtol=1e-14)
    np.testing.assert_allclose(dB, A.T @ ct, rtol=1e-14)


@pytest.mark.proves("S1-46")
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3,), (3,)),
        ((3,), (3, 2)),
        ((2, 3), (3,)),
        ((5, 2, 3), (5, 3, 4)),
        ((5, 1, 2, 3), (4, 3, 2)),
    ],
)
def test_vectors_and_stacks_of_matrices(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    A, B = rng.normal(size=a), rng.normal(size=b)
    ct = np.asarray(rng.normal(size=np.shape(A @ B)))
    dA, dB = pulled(ab.matmul, ct, A, B)
    # <ct, t B> = <dA, t> for every t, and the same on the other side
    for t in (rng.normal(size=a), rng.normal(size=a)):
        assert np.sum(ct * (t @ B)) == pytest.approx(np.sum(dA * t))
    for t in (rng.normal(size=b), rng.normal(size=b)):
        assert np.sum(ct * (A @ t)) == pytest.approx(np.sum(dB * t))
    assert (dA.shape, dB.shape) == (a, b)


@pytest.mark.proves("S0-35")
def test_relu_lets_through_what_was_positive() -> None:
    x = ab.tensor([-2.0, 0.0, 3.0], requires_grad=True)
    ab.relu(x).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 1.0]


@pytest.mark.proves("S0-76")
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_every_op_carries_a_case_for_the_head(op: ab.Op) -> None:
    golden = [s for s in op.samples if s.value is not None and not s.is_drawn]
    assert golden
    assert all(np.size(x) <= 6 for s in golden for x in s.inputs)


@pytest.mark.proves("S0-77")
def test_samples_of_structured_ops_have_rows_columns_single_elements_and_nothing() -> None:
    for op in OPS:
        sizes = [np.prod(x.shape) for s in op.samples for x in s.inputs if isinstance(x, Draw)]
        if op.name.startswith("random."):  # keys are fixed; it is their results that have sizes
            sizes = [np.size(y) for case in cases(op) for y in reference(case)]
            sizes += [n // 2 for n in sizes if n % 2 == 0]  # a key is two words
        assert {0, 1} <= {int(n) for n in sizes}, op.name
    samples = ab.ops.linalg.matmul.samples
    shapes = {x.shape for s in samples for x in s.inputs if isinstance(x, Draw)}
    assert {(1, 3), (3, 1), (1, 1)} <= shapes


@pytest.mark.proves("F-79")
def test_integer_powers_stay_in_64_bits() -> None:
    n = np.array([1, 2, 3, 4])
    for value in (1 / 256 ** ab.asarray(n), ab.compile(lambda n: 1 / 256**n)(n)):
        assert np.asarray(value).tolist() == [2.0**-8, 2.0**-16, 2.0**-24, 2.0**-32]
