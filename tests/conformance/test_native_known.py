"""Every sample of every op: its code can be filed and found again, and told about."""

from typing import Any

import numpy as np
import pytest

import anabranch as ab
from anabranch.backends.plan import Kernel
from anabranch.core.registry import registered_ops
from anabranch.testing.cases import cases, outputs_of

OPS = [op for op in registered_ops() if op.arity != 0]


@pytest.mark.slow
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_each_op_is_found_again_and_told_about(
    op: ab.Op, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANABRANCH_CACHE_DIR", str(tmp_path / "cache"))
    g = ab.Graph(op.name)
    outputs, values = [], []
    for case in cases(op, draws=1):
        nodes: list[Any] = []
        for x in case.values:
            if isinstance(x, np.ndarray | np.generic):
                nodes.append(g.parameter(f"x{len(values)}", x.shape, x.dtype))
                values.append(x)
            else:
                nodes.append(x)
        outputs += outputs_of(g.add_node(op, nodes, **case.attrs))
    with np.errstate(all="ignore"):
        for passes in (None, ()):
            first = g.compile(outputs, backend="native", passes=passes)
            before = ab.cache.counts()
            again = g.compile(outputs, backend="native", passes=passes)
            after = ab.cache.counts()
            assert (after.emitted, after.found) == (before.emitted, before.found + 1)
            for mine, its in zip(again(*values), first(*values), strict=True):
                np.testing.assert_array_equal(mine, its)
                assert (type(mine), mine.tobytes()) == (type(its), its.tobytes())
    found = again.explain()
    assert found.memory is not None
    assert found.memory.results == sum(
        edge.aval.size * edge.aval.dtype.itemsize for edge in outputs
    )
    for step in found.plan.steps:
        if isinstance(step, Kernel):
            assert min(step.read, step.written, step.flops) >= 0
            assert step.written > 0 or 0 in step.space
    assert "steps" in str(found)
