"""Every sample of every op in every dtype: machine code beside the reference."""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import anabranch as ab
from anabranch.core.aval import aval_of
from anabranch.core.registry import registered_ops
from anabranch.ops.powers import derivative_polynomial
from anabranch.testing.cases import Case, cases, outputs_of
from anabranch.testing.values import typed

OPS = [op for op in registered_ops() if op.arity != 0]
ULPS = {"float64": 2, "float32": 4, "float16": 1, "bfloat16": 1}


def applications(op: ab.Op, every_dtype: bool) -> Iterator[tuple[Case, tuple[Any, ...]]]:
    for case in cases(op, draws=1):
        for xs in typed(case) if every_dtype else (case.values,):
            with contextlib.suppress(ab.AnabranchError), np.errstate(all="ignore"):
                op.aval(*map(aval_of, xs), **case.attrs)
                op.ref(*xs, **case.attrs)
                yield case, xs


def results(op: ab.Op, found: list[Any], backend: str) -> list[list[np.ndarray]]:
    """All applications as one graph."""
    g = ab.Graph(op.name)
    made, values = [], []
    for case, xs in found:
        nodes: list[Any] = []
        for x in xs:
            if isinstance(x, np.ndarray | np.generic):
                nodes.append(g.parameter(f"x{len(values)}", x.shape, x.dtype))
                values.append(x)
            else:
                nodes.append(x)
        made.append(outputs_of(g.add_node(op, nodes, **case.attrs)))
    flat = iter(g.compile([y for ys in made for y in ys], backend=backend, passes=())(*values))
    return [[np.asarray(next(flat)) for _ in ys] for ys in made]


def powers_terms(x: Any, y: Any, orders: tuple[int, int]) -> Any:
    """The size of what a derivative of a power is a sum of, each term some roundings off."""
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    with np.errstate(all="ignore"):
        terms = [
            sum(abs(c) * np.abs(y) ** i for i, c in enumerate(row)) * np.abs(np.log(x)) ** k
            for k, row in enumerate(derivative_polynomial(*orders))
        ]
        return 4 * sum(terms) * x ** (y - orders[0])


# Where terms cancel, the last place that counts is that of the largest.
TERMS: dict[str, Any] = {
    "logaddexp": lambda a, b: np.maximum(np.abs(a), np.abs(b)),
    "power_derivative": powers_terms,
}


def sizes(op: ab.Op, case: Case, xs: tuple[Any, ...]) -> list[Any]:
    """How large what an op adds up is: 0 for ops that are no sums."""
    if op.name in TERMS:
        return [TERMS[op.name](*xs, **case.attrs)]
    if not op.linear:
        return [0.0] * len(outputs_of(op.aval(*map(aval_of, xs), **case.attrs)))
    with np.errstate(all="ignore"):
        positive = (abs(x) if slot in op.linear else x for slot, x in enumerate(xs))
        return list(outputs_of(op.ref(*positive, **case.attrs)))


def distance(x: np.ndarray, y: np.ndarray, size: Any = 0.0) -> float:
    """The largest difference in units in the last place; infinite where NaN or shape differ.

    The units are those of a sum's terms, for which order matters, where these are larger.
    """
    if x.dtype != y.dtype or x.shape != y.shape:
        return np.inf
    if x.dtype.kind in "biu":
        return 0.0 if np.array_equal(x, y) else np.inf
    with np.errstate(all="ignore"):
        large = np.maximum(np.abs(y), np.nan_to_num(np.asarray(size).astype(y.dtype)))
        unit = np.abs(np.spacing(large)).astype(np.float64)
        x, y = (v.astype(np.float64) for v in (x, y))
    same = (x == y) & (np.signbit(x) == np.signbit(y)) | (np.isnan(x) & np.isnan(y))
    if same.all():
        return 0.0
    x, y, unit = (v[~same] for v in (x, y, unit))  # equal infinities have no difference
    return float(np.max(np.abs(x - y) / unit, initial=0.0))


@pytest.mark.proves("S0-41", "S4-44")
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
@pytest.mark.parametrize(
    "every_dtype", [False, pytest.param(True, marks=pytest.mark.long)], ids=["float64", "all"]
)
def test_machine_code_agrees_with_the_reference(op: ab.Op, every_dtype: bool) -> None:
    found = list(applications(op, every_dtype))
    pairs = zip(results(op, found, "native"), results(op, found, "reference"), strict=True)
    for (case, xs), (native, wanted) in zip(found, pairs, strict=True):
        for mine, its, size in zip(native, wanted, sizes(op, case, xs), strict=True):
            assert distance(mine, its, size) <= ULPS.get(its.dtype.name, 0), (
                f"{case} on {xs!r}\n native {mine!r}\n wanted {its!r}"
            )
