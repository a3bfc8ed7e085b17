"""einsum: NumPy's whole language, errors that name the letter, derivatives of every order."""

import os
import subprocess
import sys

import numpy as np
import pytest

import anabranch as ab

RNG = np.random.default_rng(2)
LENGTHS = dict(zip("abcdAB", (2, 3, 4, 2, 3, 2), strict=True))


def operands(*shapes):
    return [np.asarray(RNG.normal(size=shape)) for shape in shapes]


CASES = {
    "ab,bc->ac": [(2, 3), (3, 4)],
    "ab,bc": [(2, 3), (3, 4)],
    "ba": [(3, 2)],
    "ab->": [(2, 3)],
    "aa": [(3, 3)],
    "aa->a": [(3, 3)],
    "aab->ba": [(2, 2, 3)],
    "aaa->a": [(2, 2, 2)],
    "abab->b": [(2, 3, 2, 3)],
    "a,a": [(3,), (3,)],
    "a,b->ab": [(2,), (3,)],
    "ab,ab->ab": [(2, 3), (2, 3)],
    "ab,ab->a": [(2, 3), (2, 3)],
    "ab,b->a": [(2, 3), (3,)],
    "ab,cb->ac": [(2, 3), (4, 3)],
    "abc,bad->cd": [(2, 3, 4), (3, 2, 2)],
    "abc,abd->acd": [(2, 3, 4), (2, 3, 2)],
    "...a,a...->...": [(2, 3), (3, 2)],
    "...ab,...bc->...ac": [(5, 1, 2, 3), (4, 3, 2)],
    "a...->...": [(2, 3, 4)],
    "...": [(2, 3)],
    "...aa": [(2, 3, 3)],
    "a...b,...->b...": [(2, 3, 4), (3,)],
    "ab,ab->b": [(1, 3), (2, 3)],
    "a,a->": [(1,), (3,)],
    "ab,a->": [(2, 3), (2,)],
    "Ab,bA": [(2, 3), (3, 2)],
    " a b , b c -> a c ": [(2, 3), (3, 4)],
    ",ab->ab": [(), (2, 3)],
    "->": [()],
    "a,->a": [(3,), ()],
    "ab,bc,cd->ad": [(2, 3), (3, 4), (4, 2)],
    "ab,bc,cd,da->": [(2, 3), (3, 4), (4, 2), (2, 2)],
    "a,a,a,a->a": [(3,), (3,), (3,), (3,)],
    "ab,bc->ac (empty)": [(2, 0), (0, 3)],
    "a->a (empty)": [(0,)],
}


@pytest.mark.parametrize("subscripts", CASES)
def test_values_are_numpys(subscripts):
    text, xs = subscripts.split(" (")[0], operands(*CASES[subscripts])
    for optimize in (True, False, "optimal", "greedy"):
        found = ab.einsum(text, *xs, optimize=optimize)
        wanted = np.einsum(text, *xs)
        np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-13)
        assert np.shape(found) == np.shape(wanted)


@pytest.mark.parametrize("subscripts", [name for name in CASES if "empty" not in name])
def test_derivatives_of_both_orders_agree_with_differences(subscripts):
    xs = operands(*CASES[subscripts])

    def f(*xs):
        return ab.sum(ab.einsum(subscripts, *xs) ** 2)

    assert ab.check_gradients(f, *xs).ok
    slopes = ab.grad(f, tuple(range(len(xs))))
    assert ab.check_gradients(lambda *xs: sum(ab.sum(g**2) for g in slopes(*xs)), *xs).ok


def test_a_term_at_random_is_read_as_numpy_reads_it():
    rng = np.random.default_rng(1)
    for _ in range(200):
        count = rng.integers(1, 4)
        terms = ["".join(rng.choice(list(LENGTHS), rng.integers(0, 4))) for _ in range(count)]
        letters = sorted(set("".join(terms)))
        output = "".join(rng.permutation(letters)[: rng.integers(0, len(letters) + 1)])
        text = ",".join(terms) + rng.choice(["", f"->{output}"])
        xs = operands(*(tuple(LENGTHS[c] for c in term) for term in terms))
        np.testing.assert_allclose(
            ab.einsum(text, *xs), np.einsum(text, *xs), rtol=1e-12, atol=1e-12, err_msg=text
        )


def test_numbers_may_name_the_axes():
    x, y, z = operands((2, 3), (3, 4), (5, 2, 3))
    np.testing.assert_allclose(ab.einsum(x, [0, 1], y, [1, 2], [2, 0]), (x @ y).T)
    np.testing.assert_allclose(ab.einsum(x, [0, 1], y, [1, 2]), x @ y)
    np.testing.assert_allclose(ab.einsum(x, (27, 1)), np.einsum(x, [27, 1]))
    np.testing.assert_allclose(ab.einsum(z, [..., 0], [0, ...]), np.einsum(z, [..., 0], [0, ...]))


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint8, np.int64, np.float32, np.float16])
def test_the_result_has_the_dtype_of_the_operands(dtype):
    x, y = (np.asarray(RNG.integers(0, 100, s)).astype(dtype) for s in ((3, 4), (4,)))
    for text, *xs in (
        ("ab->a", x),
        ("ab,b->a", x, y),
        ("ab,b->", x, y),
        ("aab->b", x[:, :3, None]),
    ):
        found, wanted = ab.einsum(text, *xs), np.einsum(text, *xs)
        assert found.dtype == wanted.dtype == dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-3)
    assert ab.einsum("a,->a", np.ones(2, np.float32), 2.0).dtype == np.float32


WRONG = {
    "ab,bc": ("has 2 terms for 1 operands", "bad-subscripts", [(2, 3)]),
    "a1": ("has '1' in the term 'a1'", "bad-subscripts", [(2, 3)]),
    "a.b": ("has '.' in the term 'a.b'", "bad-subscripts", [(2, 3)]),
    "...a...": ("has '.' in the term '...a...'", "bad-subscripts", [(2, 3)]),
    "ab->c": ("has 'c' in its result, but in no operand", "bad-subscripts", [(2, 3)]),
    "ab->aa": ("has 'a' twice in its result", "bad-subscripts", [(2, 3)]),
    "ab->a->b": ("has '-' in the term 'a->b'", "bad-subscripts", [(2, 3)]),
    "...a->a": ("has no ... in its result", "bad-subscripts", [(2, 3)]),
    "abc": ("the term 'abc' names 3 axes, operand 0 has 2", "shape-mismatch", [(2, 3)]),
    "a": ("the term 'a' names 1 axes, operand 0 has 2", "shape-mismatch", [(2, 3)]),
    "ab,bc->ac": (
        "'b' has length 3 in operand 0 and 4 in operand 1",
        "shape-mismatch",
        [(2, 3), (4, 5)],
    ),
    "aa": ("'a' has length 1 in operand 0 and 3 in operand 0", "shape-mismatch", [(1, 3)]),
    "...,...": (
        "axis -1 under the dots has length 3 in operand 0 and 2 in operand 1",
        "shape-mismatch",
        [(2, 3), (2,)],
    ),
}


@pytest.mark.parametrize("subscripts", WRONG)
def test_an_error_names_the_letter_and_is_one_for_numpy_too(subscripts):
    words, code, shapes = WRONG[subscripts]
    xs = operands(*shapes)
    with pytest.raises(ValueError):
        np.einsum(subscripts, *xs)
    with pytest.raises(ValueError) as caught:
        ab.einsum(subscripts, *xs)
    assert caught.value.code == code
    assert words in caught.value.sentence
    with pytest.raises(ab.AnabranchError):
        ab.einsum(subscripts, *map(ab.tensor, xs))


def test_other_arguments_that_mean_nothing_are_refused():
    x = np.ones((2, 2))
    for call, code in (
        (lambda: ab.einsum(x, 0), "bad-subscripts"),
        (lambda: ab.einsum(x, [0, 52]), "bad-subscripts"),
        (lambda: ab.einsum(x, [0, -1]), "bad-subscripts"),
        (lambda: ab.einsum("ab,bc,cd", x, x, x, optimize="slowly"), "bad-argument"),
    ):
        with pytest.raises(ab.AnabranchError) as caught:
            call()
        assert caught.value.code == code


def test_a_path_may_be_given():
    xs = operands((2, 3), (3, 4), (4, 2))
    wanted = np.einsum("ab,bc,cd->ad", *xs)
    for path in ([(1, 2), (0, 1)], ["einsum_path", (0, 1), (0, 1)], [(0, 1, 2)], [(0, 2)], []):
        np.testing.assert_allclose(ab.einsum("ab,bc,cd->ad", *xs, optimize=path), wanted)


def test_a_matrix_product_is_one_node_and_no_move():
    graph = ab.trace(lambda x, y: ab.einsum("ab,bc->ac", x, y), *operands((2, 3), (3, 4)))
    assert [node.op.name for node in graph][2:] == ["matmul"]
    graph = ab.trace(lambda x, y: ab.einsum("a,b->ab", x, y), *operands((2,), (3,)))
    assert "matmul" not in [node.op.name for node in graph]


def test_an_infinity_beside_the_diagonal_stays_out():
    x = np.array([[1.0, np.inf], [np.nan, 2.0]])
    assert float(ab.einsum("aa", x)) == 3.0
    assert ab.grad(lambda x: ab.einsum("aa", x))(x).tolist() == np.eye(2).tolist()


PROGRAM = """
import numpy as np, anabranch as ab
rng = np.random.default_rng(0)
x = [rng.normal(size=(3, 3)) for _ in range(7)]
found = ab.einsum("ab,bc,cd,de,ef,fg,ga->d", *x)
print(found.tobytes().hex())
print(ab.trace(lambda *x: ab.einsum("ab,bc,cd,de,ef,fg,ga->d", *x), *x))
"""


@pytest.mark.slow
def test_no_hash_seed_changes_a_bit_or_a_node():
    runs = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(runs) == 1
