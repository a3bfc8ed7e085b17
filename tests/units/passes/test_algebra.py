"""Each row of `algebra` on its own: that it fires, what is left, and that no bit moves."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

import anabranch as ab
from anabranch.core.bind import bind
from anabranch.ops.elementwise import identity, integer_power
from anabranch.ops.index import slice_, unslice
from anabranch.ops.layout import broadcast_to, pad, permute, reshape
from anabranch.ops.reduce import max_, sum_
from anabranch.ops.select import absorb, absorb_either
from anabranch.passes import algebra, run_passes
from anabranch.passes.algebraic import RULES, SPREADS

pytestmark = pytest.mark.usefixtures("on_reference")  # what is tried is no backend

inf, nan = float("inf"), float("nan")
TINY = {"float64": 5e-324, "float32": 1e-45, "float16": 6e-8, "bfloat16": 1e-40}
FLOATS = {name: np.dtype(getattr(ab, name)) for name in TINY}


def specials(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    tiny = TINY[dtype.name]
    found = [0.0, -0.0, 1.0, -1.0, 2.5, -3.25, tiny, -tiny, inf, -inf, nan, 100.0]
    return np.array(found).astype(dtype)


def arguments(dtype: np.dtype[Any]) -> list[np.ndarray[Any, Any]]:
    """x and y of (12, 12) with every pair of special values, a mask, and integers."""
    x, y = (np.array(v) for v in np.meshgrid(specials(dtype), specials(dtype), indexing="ij"))
    mask = np.indices(x.shape).sum(0) % 2 == 0
    return [x, y, mask, np.arange(-72, 72).reshape(x.shape)]


def bits(value: Any) -> tuple[Any, ...]:
    """Dtype, shape and bits, with one NaN for all."""
    array = np.array(value)
    if array.dtype.kind not in "biu":
        array[np.isnan(array)] = nan
    return array.dtype, array.shape, array.tobytes()


class Case(NamedTuple):
    """A spelling that the row fits, and the ops that are left of it."""

    spelling: Callable[..., Any]
    left: Sequence[str] = ()


HALF = ((0, 6, 1), (0, 12, 1))
CASES: dict[str, list[Case]] = {
    "x * 1 = x": [Case(lambda x, y, m, n: x * 1), Case(lambda x, y, m, n: 1.0 * x),
                  Case(lambda x, y, m, n: n * 1), Case(lambda x, y, m, n: x * x.dtype.type(1))],
    "x / 1 = x": [Case(lambda x, y, m, n: x / 1), Case(lambda x, y, m, n: x / 1.0)],
    "x + -0.0 = x": [Case(lambda x, y, m, n: x + -0.0), Case(lambda x, y, m, n: -0.0 + x)],
    "x - 0 = x": [Case(lambda x, y, m, n: x - 0), Case(lambda x, y, m, n: x - 0.0),
                  Case(lambda x, y, m, n: n - 0)],
    "n + 0 = n, integers": [Case(lambda x, y, m, n: n + 0), Case(lambda x, y, m, n: 0 + n)],
    "x**1 = x": [Case(lambda x, y, m, n: x**1),
                 Case(lambda x, y, m, n: bind(integer_power, n, n=1))],
    "-(-x) = x": [Case(lambda x, y, m, n: -ab.negative(x)),
                  Case(lambda x, y, m, n: -ab.negative(n)),
                  Case(lambda x, y, m, n: -ab.negative(-x), ["negative"])],
    "identity(x) = x": [Case(lambda x, y, m, n: bind(identity, x))],
    "absorb(c, p) = c * p, c not 0": [
        Case(lambda x, y, m, n: absorb(2.5, x), ["multiply"]),
        Case(lambda x, y, m, n: absorb(1.0, x)),
        Case(lambda x, y, m, n: absorb(inf, x), ["multiply"]),
        Case(lambda x, y, m, n: absorb(np.full((12, 12), 3.0).astype(x.dtype), x), ["multiply"])],
    "absorb(ct, c) = ct * c, c finite": [
        Case(lambda x, y, m, n: absorb(x, 2.5), ["multiply"]),
        Case(lambda x, y, m, n: absorb(x, -0.0), ["multiply"]),
        Case(lambda x, y, m, n: absorb(x, 1.0))],
    "absorb_either(c, x) = c * x, c finite, not 0": [
        Case(lambda x, y, m, n: absorb_either(-2.0, x), ["multiply"])],
    "absorb_either(x, c) = x * c, c finite, not 0": [
        Case(lambda x, y, m, n: absorb_either(x, 3.0), ["multiply"])],
    "where(True, x, y) = x": [
        Case(lambda x, y, m, n: ab.where(True, x, y)),
        Case(lambda x, y, m, n: ab.where(np.ones((12, 12), bool), x, y)),
        Case(lambda x, y, m, n: ab.where(np.ones((12, 12), bool), x[0], y),
             ["slice", "broadcast_to"]),
        Case(lambda x, y, m, n: ab.where(True, n, x.astype(ab.float64)), ["astype"]),
        Case(lambda x, y, m, n: ab.where(True, -0.0, x), ["broadcast_to"])],
    "where(False, x, y) = y": [
        Case(lambda x, y, m, n: ab.where(False, x, y)),
        Case(lambda x, y, m, n: ab.where(np.zeros((3, 12, 12), bool), x, y), ["broadcast_to"])],
    "where(c, x, x) = x": [Case(lambda x, y, m, n: ab.where(m, x, x))],
    "where(c, True, False) = c": [Case(lambda x, y, m, n: ab.where(m, True, False))],
    "where(not c, x, y) = where(c, y, x)": [
        Case(lambda x, y, m, n: ab.where(ab.where(m, False, True), x, y), ["where"])],
    "astype(x, its own) = x": [Case(lambda x, y, m, n: x.astype(x.dtype)),
                               Case(lambda x, y, m, n: n.astype(int))],
    "astype(astype(x, wider), its own) = x": [
        Case(lambda x, y, m, n: x.astype(ab.float64).astype(x.dtype))],
    "reshape(x, its own) = x": [Case(lambda x, y, m, n: bind(reshape, x, shape=(12, 12)))],
    "reshape(reshape(x)) = reshape(x)": [
        Case(lambda x, y, m, n: x.reshape(144).reshape(2, 72), ["reshape"]),
        Case(lambda x, y, m, n: x.reshape(144).reshape(12, 12))],
    "broadcast_to(x, its own) = x": [Case(lambda x, y, m, n: broadcast_to(x, (12, 12)))],
    "broadcast_to(broadcast_to(x)) = broadcast_to(x)": [
        Case(lambda x, y, m, n: broadcast_to(broadcast_to(x[0], (2, 12)), (3, 2, 12)),
             ["slice", "broadcast_to"])],
    "broadcast_to(reshape(x)) = broadcast_to(x), x scalar": [
        Case(lambda x, y, m, n: broadcast_to(x[1, 2].reshape(1, 1), (12, 12)),
             ["slice", "broadcast_to"])],
    "broadcast_to(c) = broadcast_to(number), c of one element": [
        Case(lambda x, y, m, n: x * broadcast_to(np.full((1, 1), -0.0).astype(x.dtype), (12, 12)),
             ["multiply"])],
    "permute(x, 0, 1, ...) = x": [Case(lambda x, y, m, n: permute(x, (0, 1)))],
    "permute(permute(x)) = permute(x)": [
        Case(lambda x, y, m, n: x.reshape(2, 6, 12).transpose(2, 0, 1).transpose(0, 2, 1),
             ["reshape", "permute"]),
        Case(lambda x, y, m, n: x.T.T)],
    "x[:] = x": [Case(lambda x, y, m, n: x[:]), Case(lambda x, y, m, n: x[0:12, ...])],
    "unslice(x)[:] = x": [
        Case(lambda x, y, m, n: bind(unslice, x, shape=(12, 12), index=((0, 12, 1), (0, 12, 1))))],
    "unslice(x, index)[index] = x": [
        Case(lambda x, y, m, n: bind(slice_, bind(unslice, x[:6], shape=(12, 12), index=HALF),
                                     index=HALF), ["slice"])],
    "unslice(x) + unslice(y) = unslice(x + y), of one index": [
        Case(lambda x, y, m, n: bind(unslice, x[:6], shape=(12, 12), index=HALF)
             + bind(unslice, x[6:], shape=(12, 12), index=HALF),
             ["slice", "slice", "add", "unslice"])],
    "pad(x, 0) = x": [Case(lambda x, y, m, n: pad(x, 0))],
    "sum(n) over no axes = n, integers": [
        Case(lambda x, y, m, n: bind(sum_, n, axes=(), keepdims=False))],
    "max(x) over no axes = x": [Case(lambda x, y, m, n: bind(max_, x, axes=(), keepdims=True))],
}  # fmt: skip
UNTOUCHED: dict[str, Callable[..., Any]] = {
    "x + 0.0, for -0.0 + 0.0 is 0.0": lambda x, y, m, n: x + 0.0,
    "x + 0, the same": lambda x, y, m, n: x + 0,
    "x - -0.0": lambda x, y, m, n: x - -0.0,
    "0 - x": lambda x, y, m, n: 0 - x,
    "x - x, for inf - inf is NaN": lambda x, y, m, n: x - x,
    "x * 0, for inf * 0 is NaN": lambda x, y, m, n: x * 0,
    "0 / x, for 0 / 0 is NaN": lambda x, y, m, n: 0 / x,
    "x / x": lambda x, y, m, n: x / x,
    "x**0 of NaN is 1": lambda x, y, m, n: x**0,
    "a sum of floats over no axes, which makes 0.0 of -0.0":
        lambda x, y, m, n: bind(sum_, x, axes=(), keepdims=False),
    "a masked cotangent": lambda x, y, m, n: absorb(0.0, x),
    "an infinite partial": lambda x, y, m, n: absorb(x, inf),
    "a zero on the other side": lambda x, y, m, n: absorb_either(x, 0.0),
    "an infinity on either side": lambda x, y, m, n: absorb_either(inf, x),
    "another dtype": lambda x, y, m, n: n * 1.0,
    "a strong 1 that promotes": lambda x, y, m, n: x.astype(ab.float32) * np.float64(1.0),
    "integers divided": lambda x, y, m, n: n / 1,
    "a narrower dtype and back": lambda x, y, m, n: x.astype(ab.float32).astype(ab.float64),
    "float16 has not bfloat16's range": lambda x, y, m, n: x.astype(ab.bfloat16)
        .astype(ab.float16).astype(ab.bfloat16),
    "the larger of ±0 hangs on the loop": lambda x, y, m, n: ab.maximum(
        x, broadcast_to(y[0], (12, 12))),
    "through integers and back": lambda x, y, m, n: ab.where(m, 1.5, 2.5).astype(int).astype(float),
    "reversed": lambda x, y, m, n: x[::-1],
    "transposed": lambda x, y, m, n: x.T,
    "a slice of another unslice": lambda x, y, m, n: bind(
        slice_, bind(unslice, x[:6], shape=(12, 12), index=HALF), index=((6, 12, 1), (0, 12, 1))),
    "padded": lambda x, y, m, n: pad(x, 1),
    "mixed masks": lambda x, y, m, n: ab.where(m, x, y),
    "an operand that decides the shape": lambda x, y, m, n: x[0] * broadcast_to(y[0], (3, 12)),
}  # fmt: skip


def traced(spelling: Callable[..., Any], args: Sequence[Any]) -> ab.Graph:
    return ab.trace(spelling, *args)


def left(graph: ab.Graph) -> list[str]:
    return [node.op.name for node in graph if node.kind == "op"]


def run(spelling: Callable[..., Any], args: Sequence[Any], *passes: Any) -> Any:
    return bits(ab.compile(spelling, passes=passes)(*args))


ROWS = {rule.name: rule for rule in RULES}
PAIRS = [(name, i) for name, cases in CASES.items() for i in range(len(cases))]


def test_every_row_has_a_case_and_a_name_of_its_own() -> None:
    assert len(ROWS) == len(RULES)
    assert set(CASES) | {rule.name for rule in SPREADS} == set(ROWS)


def test_no_row_changes_a_bit_or_a_nan() -> None:
    assert not any(rule.changes or rule.may_change_nan for rule in RULES)


@pytest.mark.parametrize(("name", "i"), PAIRS)
def test_a_row_leaves_what_it_says(name: str, i: int) -> None:
    spelling, expected = CASES[name][i]
    graph = traced(spelling, arguments(FLOATS["float32"]))
    rewrite = algebra(graph)
    ab.check(rewrite.graph)
    assert any(line.startswith(f"{name}: ") for line in rewrite.report)
    assert all("test_algebra.py" in line for line in rewrite.report)
    pruned, _ = run_passes(rewrite.graph, ("prune",))
    assert left(pruned) == list(expected)
    again = algebra(rewrite.graph)
    assert again.report == [] or left(run_passes(again.graph, ("prune",))[0]) == list(expected)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("name", "i"), PAIRS)
def test_a_row_keeps_every_bit(name: str, i: int, dtype: str) -> None:
    args = arguments(FLOATS[dtype])
    spelling = CASES[name][i].spelling
    assert run(spelling, args, algebra, "prune") == run(spelling, args)


@pytest.mark.proves("F-117")
@pytest.mark.parametrize("name", UNTOUCHED)
def test_what_would_change_a_value_stays(name: str) -> None:
    args = arguments(FLOATS["float64"])
    graph = traced(UNTOUCHED[name], args)
    rewrite = algebra(graph)
    assert (rewrite.report, left(rewrite.graph)) == ([], left(graph))


@pytest.mark.parametrize("rule", SPREADS, ids=lambda rule: rule.name)
@pytest.mark.parametrize("dtype", FLOATS)
def test_repetition_that_the_op_does_itself_goes(rule: Any, dtype: str) -> None:
    op, slot = rule.root.op, [type(a).__name__ for a in rule.root.args].index("Application")

    def spelling(x: Any, y: Any, m: Any, n: Any) -> Any:
        operands = [m, x, y] if op.name == "where" else [x, y]
        row = operands[slot][3]
        operands[slot] = broadcast_to(row, (12, 12))
        return bind(op, *operands)

    args = arguments(FLOATS[dtype])
    rewrite = algebra(traced(spelling, args))
    assert left(run_passes(rewrite.graph, ("prune",))[0]) == ["slice", op.name]
    (out,) = rewrite.graph.outputs
    assert out.inputs[slot].op.name == "slice"  # operands keep their order
    assert run(spelling, args, algebra, "prune") == run(spelling, args)


def test_complex_numbers_stay_as_they_are() -> None:
    z = np.array([complex(inf, -0.0), complex(-0.0, nan), complex(1.0, -0.0)])
    for spelling in (lambda z: z * 1, lambda z: z / 1, lambda z: z + -0.0, lambda z: z**1):
        assert algebra(ab.trace(spelling, z)).report == []


@pytest.mark.parametrize("number", [3.0, 3])
def test_weak_scalars_stay_weak(number: Any) -> None:
    def f(x: Any) -> Any:
        return (x * 1 - 0) * np.ones(2, np.float32)

    graph = algebra(ab.trace(f, number)).graph
    assert left(graph) == ["multiply"]
    assert ab.compile(f)(number).dtype == np.float32


def test_a_chain_of_rows_ends_in_one_step() -> None:
    def f(x: Any) -> Any:
        return absorb(1.0, bind(identity, x)).astype(ab.float64).reshape(3).reshape(3)[:] * 1

    graph, _ = run_passes(ab.trace(f, np.ones(3)), (algebra, "prune"))
    assert graph.outputs[0] is graph.parameters[0] and len(graph) == 1


def test_what_is_logged_stays_as_written(capsys: Any) -> None:
    def f(x: Any) -> Any:
        y = x * 1
        y.log("y")
        return y + 1.0

    run = ab.compile(f)
    assert left(run.graph(2.0)) == ["multiply", "add"]
    run(2.0)
    assert capsys.readouterr().out == "y = 2.0\n"


def test_the_gradient_of_a_relu_layer_is_three_ops_behind_the_product() -> None:
    def loss(w: Any, x: Any) -> Any:
        return ab.mean(ab.relu(x @ w) * 1.0)

    run = ab.compile(ab.grad(loss))
    graph = run.graph(np.ones((3, 2)), np.ones((4, 3)))
    assert left(graph) == ["matmul", "less_equal", "where", "permute", "matmul"]


def test_a_name_moves_to_what_stays() -> None:
    g = ab.Graph("demo")
    x = g.parameter("x", (), ab.float64)
    scaled = (ab.sin(x) * 1.0).named("wave")
    g.set_outputs([scaled + 2.0])
    rewrite = algebra(g)
    assert rewrite.moved(scaled).name == "wave"
