"""Cotangents of outputs that nothing depends on: zeros, or None for an op that asks."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import anabranch as ab
from anabranch.core.registry import temporary_ops


@pytest.fixture(params=[False, True])
def seen(request: Any) -> Iterator[tuple[bool, ab.Op, list[Any]]]:
    cts: list[Any] = []

    def vjp(ct: Any, y: Any, x: Any) -> Any:
        cts.append(ct)
        double, triple = ct
        return (0.0 if double is None else 2.0 * double) + (0.0 if triple is None else 3.0 * triple)

    with temporary_ops():
        op = ab.Op(
            "twice_and_thrice",
            aval=lambda x: (x, x),
            ref=lambda x: (2.0 * x, 3.0 * x),
            vjp=(vjp,),
            absent=request.param,
        )
        yield request.param, op, cts


def test_an_output_that_nothing_depends_on(seen: Any) -> None:
    absent, op, cts = seen
    x = np.ones(2)
    assert ab.grad(lambda x: ab.sum(op(x)[1]))(x).tolist() == [3.0, 3.0]
    ((double, triple),) = cts
    assert (double is None) == absent
    assert triple.tolist() == [1.0, 1.0]
    if not absent:
        assert double.tolist() == [0.0, 0.0]


def test_outputs_that_are_all_used(seen: Any) -> None:
    _, op, cts = seen
    assert ab.grad(lambda x: ab.sum(op(x)[0] * op(x)[1]))(np.ones(1)).tolist() == [12.0]
    assert ab.grad(lambda x: ab.sum(sum(op(x))))(np.ones(1)).tolist() == [5.0]
    assert not any(ct is None for ct in cts[-1])


def test_forward_mode_needs_no_rule_of_its_own(seen: Any) -> None:
    _, op, _ = seen
    _, (double, triple) = ab.jvp(op, (np.ones(1),), (np.ones(1),))
    assert (double.item(), triple.item()) == (2.0, 3.0)
